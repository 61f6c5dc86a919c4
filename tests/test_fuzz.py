# SPDX-License-Identifier: MIT
"""Everything that fuzzing has found, again; that it breaks nothing else; that it finds anything."""

from __future__ import annotations

import json
import math
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from itertools import product
from pathlib import Path
from typing import Any, get_args

import pytest
from fuzz_seeds import seed_runs

from benchmarks import fuzz, fuzz_oracles, fuzz_targets
from benchmarks.fuzz_oracles import CANARY, Finding, Place, check_written, packed
from benchmarks.fuzz_targets import TARGETS
from kdyno import sandbox
from kdyno.report import plain
from kdyno.report.show import grid, html as markup
from kdyno.store import verdict
from kdyno.store.run import Damaged, Run

KEPT = sorted(fuzz.KEPT.glob("*.json"))
READ = {"target": "run", "run": "judged", "changes": [], "verbs": [["list", "runs"]]}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return seed_runs(tmp_path_factory.mktemp("seeds"))


@pytest.fixture
def place(tmp_path: Path, runs: dict[str, Path]) -> Place:
    return Place(tmp_path, runs, [b'name = "x"\n[variant.stock]\n'])


@pytest.mark.slow
@pytest.mark.parametrize("file", KEPT, ids=lambda file: file.stem)
def test_what_was_found_is_mended(file: Path, place: Place) -> None:
    case = json.loads(file.read_text())
    TARGETS[case["target"]][1](case, place)


@pytest.mark.slow
@pytest.mark.parametrize("name", TARGETS)
def test_a_case_is_data_and_the_same_for_the_same_seed(name: str, place: Place) -> None:
    first, again, other = (TARGETS[name][0](random.Random(seed), place) for seed in (1, 1, 2))
    assert first == again != other
    assert json.loads(json.dumps(first)) == first and first["target"] == name


@pytest.mark.slow
def test_the_seeds_have_every_kind_of_file(runs: dict[str, Path]) -> None:
    kinds = {
        name: {
            fuzz_targets.kind_of(file, top).removeprefix("boots/*/")
            for file in top.rglob("*")
            if file.is_file()
        }
        for name, top in runs.items()
    }
    always = {".lock", "experiment.toml", "manifest.json"}
    boots = {"job.json", "host.json", "samples.jsonl", "console.log"}
    measured = {*always, *boots, "verdict.json"}
    profiled = {*measured, "images/*", "profile/*"}
    assert kinds == {
        "whole": {*profiled, "first-verdict.json", "report.html", "memcpy/*"},
        "turns": profiled,
        "exact": {*measured, "counts/*"},
        "factors": {*measured, "images/*"},
        "judged": {*always, "verdict.json"},
        "host": {*always, "verdict.json"},
        "open": always,
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", ["whole", "turns", "exact", "factors", "host", "open"])
def test_a_run_as_it_should_be_is_no_finding(place: Place, name: str) -> None:
    verbs = [words.split() for _, words in fuzz_targets.RUN_VERBS]
    TARGETS["run"][1]({**READ, "run": name, "verbs": verbs, "drawn": False}, place)


def test_a_name_is_changed_wherever_it_is(place: Place) -> None:
    run = place.folder / "run"
    shutil.copytree(place.runs["whole"], run)
    fuzz_targets.change_run(run, "", "said", json.dumps(["mine", "\x1b[31m"]), place)
    assert "\x1b[31m" in Run(run).manifest().images
    assert (run / "images" / "31m.json").is_file() and not (run / "images" / "mine.json").exists()
    boots = [boot for boot in Run(run).boots() if not isinstance(boot, Damaged)]
    assert len(boots) == 12 and {boot.variant for boot in boots} >= {"\x1b[31m", "stock"}


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("x.html", "<p>&lt;kdynox&gt;</p><kdynox>", "kdynox"),
        ("x.html", '<a href="JavaScript:alert(1)">', "JavaScript"),
        ("x.html", '<p title="" onfocus="kdynox()">', "onfocus"),
        ("x.html", "<script>x = '<kdynox>'</script>", "in a script"),
        ("x.md", "a <kdynox>", "kdynox"),
        ("x.svg", "<svg><g>", "no element"),
        ("x.xml", "<a kdynox='1'/>", "kdynox"),
        ("x.json", '{"a": NaN}', "NaN is not a number"),
        ("x.csv", "a,=1+1\n", "a spreadsheet computes"),
        ("x.html", "<p title='&lt;kdynox&gt;'>&lt;kdynox&gt; javascript:kdynox()</p>", None),
        ("x.md", r"a \<kdynox\>", None),
        ("x.csv", "a,-1.5,'=1+1\n", None),
        ("x.json", '{"a": "<kdynox>"}', None),
    ],
)
def test_what_must_not_be_written_is_a_finding(name: str, text: str, message: str | None) -> None:
    with pytest.raises(Finding, match=message) if message else nullcontext():
        check_written(name, text.encode())


@pytest.mark.slow
def test_a_finding_is_made_small(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(words: Sequence[str]) -> tuple[int, str, str]:
        gone = not (place.folder / "runs" / "broken" / "verdict.json").exists()
        return (70 if gone and words[0] == "judge" else 0), "", ""

    monkeypatch.setattr(fuzz_oracles, "call", broken)
    case = {
        **READ,
        "changes": [["verdict.json", "gone", ""], ["manifest.json", "gone", ""]],
        "verbs": [["list", "runs"], ["judge", "RUN"]],
    }
    finding = fuzz.finding(case, place)
    assert finding is not None and finding[0].startswith("status 70")
    shortest = {**case, "changes": [["verdict.json", "gone", ""]], "verbs": [["judge", "RUN"]]}
    assert fuzz.smallest(case, finding[0], place) == shortest


CHANGES = ("link", "linked-folder", "folder", "pipe", "gone", "content", "sparse")


@pytest.mark.parametrize(("first", "second"), tuple(product(CHANGES, CHANGES)))
def test_a_change_stays_in_the_copy(place: Place, first: str, second: str) -> None:
    run = place.folder / "run"
    (run / "images").mkdir(parents=True)
    (run / "images" / "canary").write_bytes(b"as it was")
    for how in (first, second):
        fuzz_targets.change_run(run, "images/canary", how, packed(b"broken"), place)
    place.check()


@pytest.mark.parametrize("name", ["/etc/passwd", "../other/manifest.json", "images/../../x"])
def test_a_change_outside_of_the_copy_is_refused(place: Place, name: str) -> None:
    case = {**READ, "changes": [[name, "content", packed(b"")]]}
    with pytest.raises(ValueError, match=r"passwd|manifest|x"):
        TARGETS["run"][1](case, place)


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (None, "written through a link"),
        ((0, "\x1b[31m", ""), "on the screen"),
        ((70, "", ""), "status 70"),
        ((0, CANARY.decode(), ""), "read through a link"),
    ],
)
def test_what_no_verb_may_do_is_a_finding(
    place: Place, monkeypatch: pytest.MonkeyPatch, result: tuple[int, str, str] | None, message: str
) -> None:
    def called(_words: object) -> tuple[int, str, str]:
        if result is None:
            (place.canary.parent / "new").touch()
        return result or (0, "", "")

    monkeypatch.setattr(fuzz_oracles, "call", called)
    with pytest.raises(Finding, match=message):
        TARGETS["run"][1](READ, place)


def test_it_runs_where_nothing_of_the_host_can_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[list[str]] = []
    monkeypatch.setattr(sandbox, "require", lambda: None)
    monkeypatch.setattr(subprocess, "Popen", lambda argv, **_more: lines.append(argv))
    fuzz.outside([])
    (argv,) = lines
    assert argv[4] == "bwrap" and "--unshare-net" in argv and "--inside" in argv
    assert not {"--bind", "--dev-bind", "--bind-try"} & set(argv)


@pytest.mark.slow
@pytest.mark.needs("sandbox")
def test_a_minute_of_it_finds_nothing(tmp_path: Path) -> None:
    # The same inputs each time: what is new is found by hand, see benchmarks/fuzz.py.
    words = ["--minutes", "1", "--seed", "1", "--keep", str(tmp_path)]
    command = [sys.executable, "-m", "benchmarks.fuzz", *words]
    done = subprocess.run(command, cwd=fuzz.ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert all(f"{name}: " in done.stdout for name in TARGETS)


Patch = pytest.MonkeyPatch


def no_bounds(kind: Any) -> Callable[[Patch], None]:
    """Figures of this kind of a verdict may be anything: NaN, 0, 1e308."""

    def off(patch: Patch) -> None:
        (checked,) = [arg.func for arg in get_args(kind)[1:]]
        ends = dict(zip(checked.__code__.co_freevars, checked.__closure__, strict=True))
        for name, anything in (("least", -math.inf), ("most", math.inf)):
            patch.setattr(ends[name], "cell_contents", anything)

    return off


def replaced(where: Any, name: str, new: Any) -> Callable[[Patch], None]:
    return lambda patch: patch.setattr(where, name, new)


def as_it_is(text: str, _limit: int = 0) -> str:
    return text


OFF: dict[str, tuple[Callable[[Patch], None], str]] = {
    "bounds of scores": (no_bounds(verdict.Score), ""),
    "bounds of ratios": (no_bounds(verdict.Ratio), ""),
    "bounds of intervals": (no_bounds(verdict.Interval), ""),
    "clean names": (replaced(plain, "_clean", as_it_is), "on the screen"),
    "clean lines": (replaced(plain, "line", as_it_is), ""),
    "escaped HTML": (replaced(markup.ENVIRONMENT, "finalize", markup.Html), ".html"),
    "escaped Markdown": (replaced(grid, "escaped", as_it_is), ".md"),
    "no links": (replaced(os, "O_NOFOLLOW", 0), "through a link"),
}
"""Rule → (how it is switched off, what the finding says)."""

SEEDS, INPUTS = (1, 2, 3, 4), 500
"""At most 500 of each seed in turn. Seen: 7 to 290 of one seed where it found anything, and once
none in 700, where the old fuzzer had found nothing of all this."""


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """With one small run: others have more files, in which other things can break."""
    folder = tmp_path_factory.mktemp("fuzz")
    return Place(folder, {"judged": seed_runs(folder / "seeds")["judged"]})


@pytest.mark.slow
@pytest.mark.parametrize("rule", OFF)
def test_a_rule_that_is_switched_off_is_missed(rule: str, small: Place, monkeypatch: Patch) -> None:
    off, message = OFF[rule]
    off(monkeypatch)
    for number, seed in product(range(INPUTS), SEEDS):
        if finding := fuzz.finding(fuzz.case_of("run", seed, number, small), small):
            assert message in finding[1]
            return
    pytest.fail(f"{len(SEEDS) * INPUTS} inputs found nothing")
