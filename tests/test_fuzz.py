# SPDX-License-Identifier: MIT
"""Everything that fuzzing has found, again; a minute of more; and that it breaks nothing else."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest
from fuzz_seeds import seed_runs

from benchmarks import fuzz, fuzz_targets
from benchmarks.fuzz_targets import CANARY, MAKE, PLAY, Finding, Place, packed
from kdyno import sandbox

KEPT = sorted(fuzz.KEPT.glob("*.json"))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return seed_runs(tmp_path_factory.mktemp("seeds"))


@pytest.fixture
def place(tmp_path: Path, runs: dict[str, Path]) -> Place:
    return Place.at(tmp_path, runs, [b'name = "x"\n[variant.stock]\n'])


@pytest.mark.parametrize("file", KEPT, ids=lambda file: file.stem)
def test_what_was_found_is_mended(file: Path, place: Place) -> None:
    case = json.loads(file.read_text())
    PLAY[case["target"]](case, place)


@pytest.mark.parametrize("name", MAKE)
def test_a_case_is_data_and_the_same_for_the_same_seed(name: str, place: Place) -> None:
    first, again, other = (MAKE[name](random.Random(seed), place) for seed in (1, 1, 2))
    assert first == again != other
    assert json.loads(json.dumps(first)) == first and first["target"] == name


def test_the_seeds_have_every_kind_of_file(runs: dict[str, Path]) -> None:
    kinds = {
        fuzz_targets.kind_of(file, top)
        for top in runs.values()
        for file in top.rglob("*")
        if file.is_file()
    }
    assert kinds == {
        *("experiment.toml", "manifest.json", "verdict.json", "first-verdict.json", ".lock"),
        *("images/*", "profile/*", "memcpy/*"),
        *(f"boots/*/{name}" for name in ("job.json", "host.json", "samples.jsonl", "console.log")),
    }


CHANGES = ("link", "linked-folder", "folder", "pipe", "gone", "content", "sparse")


@pytest.mark.parametrize("first", CHANGES)
@pytest.mark.parametrize("second", CHANGES)
def test_a_change_stays_in_the_copy(place: Place, first: str, second: str) -> None:
    run = place.folder / "run"
    (run / "images").mkdir(parents=True)
    (run / "images" / "canary").write_bytes(b"as it was")
    for how in (first, second):
        fuzz_targets.change(run, "images/canary", how, packed(b"broken"), place)
    assert place.canary.read_bytes() == CANARY
    assert [it.name for it in place.canary.parent.iterdir()] == ["canary"]


@pytest.mark.parametrize("name", ["/etc/passwd", "../other/manifest.json", "images/../../x"])
def test_a_change_outside_of_the_copy_is_refused(place: Place, name: str) -> None:
    case = {"run": "judged", "changes": [[name, "content", packed(b"")]], "words": ["list", "runs"]}
    with pytest.raises(ValueError, match=r"passwd|manifest|x"):
        PLAY["run"](case, place)


def test_what_is_written_outside_is_a_finding(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    def writes(_words: object) -> tuple[int, str]:
        (place.canary.parent / "new").touch()
        return 0, ""

    monkeypatch.setattr(fuzz_targets, "said_by", writes)
    with pytest.raises(Finding, match="written through a link"):
        PLAY["run"]({"run": "judged", "changes": [], "words": ["list", "runs"]}, place)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ((0, "\x1b[31m"), "on the screen"),
        ((70, ""), "status 70"),
        ((0, CANARY.decode()), "read through a link"),
    ],
)
def test_what_must_not_be_said_is_a_finding(
    place: Place, monkeypatch: pytest.MonkeyPatch, said: tuple[int, str], told: str
) -> None:
    monkeypatch.setattr(fuzz_targets, "said_by", lambda _words: said)
    with pytest.raises(Finding, match=told):
        PLAY["run"]({"run": "judged", "changes": [], "words": ["list", "runs"]}, place)


def test_it_runs_where_nothing_of_the_host_can_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[list[str]] = []
    monkeypatch.setattr(sandbox, "require", lambda: None)
    monkeypatch.setattr(subprocess, "Popen", lambda argv, **_more: lines.append(argv))
    fuzz.outside([])
    (argv,) = lines
    assert argv[0] == "bwrap" and "--unshare-net" in argv and "--inside" in argv
    assert not {"--bind", "--dev-bind", "--bind-try"} & set(argv)


@pytest.mark.slow
@pytest.mark.skipif(sandbox.unusable() is not None, reason=f"no sandbox: {sandbox.unusable()}")
def test_a_minute_of_it_finds_nothing(tmp_path: Path) -> None:
    # The same inputs each time: what is new is found by hand, see benchmarks/fuzz.py.
    words = ["--minutes", "1", "--seed", "1", "--keep", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.fuzz", *words],
        cwd=fuzz.ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert all(f"{name}: " in done.stdout for name in MAKE)
