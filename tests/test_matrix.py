# SPDX-License-Identifier: MIT
"""[matrix]: one experiment over many commits, a run and a row for each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from command_line import Kdyno, by_sums, effect, verdict
from fake_tree import git
from site_runs import small
from toy_kernel import diff, make_source

from kdyno.cli import matrix, measuring as run_verb
from kdyno.cli.matrix import short, table
from kdyno.errors import BuildError, UsageError
from kdyno.experiment.loader import at_ref, read_matrix
from kdyno.measure import builder
from kdyno.store.run import list_runs

TEXT = """name = "nightly"
question = "Is it faster at {ref}?"
baseline = "stock"
[matrix]          # which commits
refs = [
  "v7.2",
  "v7.3",
]

[kernel]
source = "git:DIR#{ref}"
[variant.stock]
[variant.mine]
cflags = "-O3"
[[suite]]
name = "unixbench"
cases = ["pipe"]
"""


def test_the_experiment_for_a_commit() -> None:
    result = read_matrix(TEXT, "m.toml")
    assert result is not None and result.refs == ("v7.2", "v7.3")
    derived = at_ref(TEXT, "v7.3")
    assert "matrix" not in derived and "{ref}" not in derived and "refs" not in derived
    assert 'source = "git:DIR#v7.3"' in derived and "faster at v7.3?" in derived
    # Messages name the same lines.
    assert derived.splitlines().index("[kernel]") == TEXT.splitlines().index("[kernel]")
    assert read_matrix(derived, "m.toml") is None and read_matrix("[", "m.toml") is None
    ranged = read_matrix(TEXT.replace('[\n  "v7.2",\n  "v7.3",\n]', '"v7.2..v7.3"'), "m.toml")
    assert ranged is not None and ranged.refs == "v7.2..v7.3"


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("refs = [", "revs = [", 'matrix.revs: unknown key.*Did you mean "refs"'),
        ('"v7.2"', "72", "m.toml:5: matrix.refs: 72 names no commit"),
        ('"v7.2"', '"a b"', "matrix.refs: 'a b' names no commit"),
        ('"v7.2"', '"v7.3"', "matrix.refs: a commit stands there twice"),
        ('"v7.2"', '"a\\"]\\n"', "names no commit"),
    ],
)
def test_mistakes(old: str, new: str, says: str) -> None:
    with pytest.raises(UsageError, match=f"(?s){says}"):
        read_matrix(TEXT.replace(old, new), "m.toml")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "m.toml"
    path.write_text(TEXT)
    return path


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The commits that were measured: each run is made up. ``broken`` does not build."""
    calls: list[str] = []

    def measured(experiment: Any, _suites: object, options: Any, *_: object, **__: object) -> int:
        ref, result = options.ref, experiment.text
        if ref == "broken":
            raise BuildError(f"variant 'mine' did not build at {ref}")
        calls.append(ref)
        overrides = options.overrides.to_json()
        more = {"effect": 1.06 - 0.04 * len(calls), "version": ref, "overrides": overrides}
        run = small(tmp_path / "runs", len(calls), **more)  # type: ignore[arg-type]
        (run.path / "experiment.toml").write_text(result)
        return 0

    monkeypatch.setattr(run_verb, "measured", measured)
    monkeypatch.setattr(matrix, "_changed", lambda *_: None)  # there is no such repository
    return calls


@pytest.mark.slow
def test_a_row_a_commit(file: Path, kdyno: Kdyno, calls: list[str], tmp_path: Path) -> None:
    done = kdyno("run", file, "--fail-on", "slower")
    assert calls == ["v7.2", "v7.3"] and done.status == 10
    names = {run.experiment_text(): run.name for run in list_runs(tmp_path / "runs")}
    first, second = (names[at_ref(TEXT, ref)] for ref in calls)
    rows = [line.split() for line in done.out.splitlines() if line.strip().startswith("v7.")]
    assert [(row[0], row[1], row[-1]) for row in rows] == [
        ("v7.2", "+2.02", first),
        ("v7.3", "−2.00", second),
    ]
    # What is there is not measured again, and counts all the same; a commit that is asked for is.
    assert kdyno("run", file, "--fail-on", "slower").status == 10
    assert kdyno("run", file).status == 0
    assert kdyno("run", file, "--fail-on", "slower:piep").status == 2
    assert calls == ["v7.2", "v7.3"]
    kdyno("run", file, "--ref", "v7.2")
    assert calls == ["v7.2", "v7.3", "v7.2"]
    page = kdyno("report", "--all", "-o", tmp_path / "site")
    assert page.status == 0
    history = (tmp_path / "site" / "history" / "nightly.html").read_text()
    assert "v7.2" in history and "v7.3" in history


@pytest.mark.slow
def test_runs_of_the_same_overrides_are_found_again(
    file: Path, kdyno: Kdyno, calls: list[str]
) -> None:
    words = ("run", file, "--case", "pipe", "--variant", "mine")
    assert kdyno(*words).status == kdyno(*words).status == 0
    assert calls == ["v7.2", "v7.3"]
    assert kdyno("run", file).status == 0 and len(calls) == 4
    assert kdyno(*words, "--refresh").status == 0 and len(calls) == 6


@pytest.mark.slow
def test_a_commit_whose_kernels_are_others_by_now_is_measured_again(
    kdyno: Kdyno, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for ref in ("v7.2", "v7.3"):
        make_source(tmp_path / ref)
    text = TEXT.replace("git:DIR#{ref}", f"path:{tmp_path}/{{ref}}")
    (tmp_path / "m.toml").write_text(text.replace('cflags = "-O3"', 'patches = ["mine.patch"]'))
    calls: list[str] = []

    def measured(experiment: Any, _suites: object, options: Any, *_: object, **__: object) -> int:
        calls.append(options.ref)
        recipes = builder.check(experiment, options.cache, lambda *_: None)
        run = small(tmp_path / "runs", len(calls), images=recipes.digests)
        (run.path / "experiment.toml").write_text(experiment.text)
        return 0

    monkeypatch.setattr(run_verb, "measured", measured)
    for number, text in enumerate(("int a;\n", "int a;\n", "int b;\n")):
        diff(tmp_path, tmp_path / "v7.2", {"lib/sort.c": text}, "mine")
        done = kdyno("run", tmp_path / "m.toml")
        assert done.status == 0 and len(calls) == (2, 2, 4)[number], done.err
    assert "mine is not what it was in" in done.err


@pytest.mark.slow
def test_a_row_is_confirmed_by_the_second_run(
    file: Path, kdyno: Kdyno, calls: list[str], tmp_path: Path
) -> None:
    gate = ("run", file, "--fail-on", "slower:pipe")
    assert kdyno(*gate).status == 10
    text = at_ref(TEXT, "v7.3")
    (slower,) = (run for run in list_runs(tmp_path / "runs") if run.experiment_text() == text)
    again = small(tmp_path / "runs", 9, 1.0, 1.0, overrides={"confirms": slower.name, "seed": 2})
    (again.path / "experiment.toml").write_text(text)
    assert kdyno(*gate, "--confirm").status == 0
    assert calls == ["v7.2", "v7.3"]
    # A slower run that nothing has confirmed yet is no end for --confirm.
    manifest = again.path / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"finished"', '"interrupted"'))
    kdyno(*gate, "--confirm")
    assert calls == ["v7.2", "v7.3", "v7.3"]


def test_a_dry_run_examines_one_commit(
    file: Path, kdyno: Kdyno, monkeypatch: pytest.MonkeyPatch
) -> None:
    examined: list[str] = []

    def measured(_experiment: Any, _suites: object, options: Any, *_: object) -> int:
        examined.append(options.ref)
        return 0

    monkeypatch.setattr(run_verb, "measured", measured)
    assert kdyno("run", file, "--dry-run").status == 0 and examined == ["v7.3"]


@pytest.mark.slow
def test_a_commit_that_does_not_build(file: Path, kdyno: Kdyno, calls: list[str]) -> None:
    file.write_text(TEXT.replace("v7.2", "broken"))
    done = kdyno("run", file)
    assert calls == ["v7.3"] and "did not build at broken" in done.err and done.status == 1
    rows = [row.split() for row in done.out.splitlines() if "does not build" in row]
    assert [row[0] for row in rows] == ["broken"]


def test_where_a_matrix_is_not_what_is_wanted(file: Path, kdyno: Kdyno) -> None:
    assert "is for many commits" in kdyno("build", file).err
    assert "a matrix has one for each commit" in kdyno("run", file, "--json", "-").err


@pytest.mark.slow
@pytest.mark.needs("git", "sandbox")
def test_a_range_is_asked_of_the_repository(
    file: Path, kdyno: Kdyno, calls: list[str], tmp_path: Path
) -> None:
    git(tmp_path, "init", "-q", "linux")
    hashes = []
    for number in range(4):
        git(tmp_path / "linux", "commit", "-q", "--allow-empty", "-m", str(number))
        hashes.append(git(tmp_path / "linux", "rev-parse", "HEAD"))
    listed = '[\n  "v7.2",\n  "v7.3",\n]'
    refs = f'"{hashes[0]}..{hashes[2]}"'
    file.write_text(TEXT.replace(listed, refs).replace("DIR", "linux"))
    done = kdyno("run", file)
    assert calls == hashes[1:3] and short(hashes[1]) in done.out
    file.write_text(file.read_text().replace(f"{hashes[0]}..", f"{hashes[3]}.."))
    assert "has no commit between them" in kdyno("run", file).err
    file.write_text(file.read_text().replace("git:linux", "git:https://git.example/linux"))
    assert "needs a repository on this machine" in kdyno("run", file).err


def test_a_cell_has_the_figure_that_its_verdict_rests_on() -> None:
    judged = verdict(by_sums("pipe", "slower", 0.95), effect("syscall", "faster", 1.05))
    grid = table([("v7.2", "a run", judged)])
    cells = [column.of(grid.items[0]) for column in grid.columns[1:3]]
    assert [(cell.text, cell.tone) for cell in cells] == [
        ("−5.00 %", "slower"),
        ("+5.00 %", "faster"),
    ]
    # Two suites have a case of one name.
    other = effect("pipe", "slower", 0.9).model_copy(update={"suite": "stress-ng"})
    grid = table([("v7.2", "a run", verdict(*judged.effects, other))])
    cells = {column.head: column.of(grid.items[0]).text for column in grid.columns[1:4]}
    assert cells == {
        "mine unixbench/pipe": "−5.00 %",
        "mine syscall": "+5.00 %",
        "mine stress-ng/pipe": "−10.0 %",
    }
