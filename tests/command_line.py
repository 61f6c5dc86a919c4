# SPDX-License-Identifier: MIT
"""kdyno's command line inside the test's own process, and runs for it to show."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from synthetic_run import record

from kdyno.cli.main import main
from kdyno.store.manifest import State
from kdyno.store.verdict import Effect, Throughput, Verdict

EXPERIMENT = """\
name     = "tiny"
question = "Is mine faster?"
baseline = "stock"

[kernel]
source = "debian:linux-source-7.3"

[variant.stock]
[variant.mine]
cflags = "-O3"

[[suite]]
name  = "unixbench"
cases = ["pipe", "syscall"]
"""


@dataclass(frozen=True)
class Said:
    """What a command printed and how it ended."""

    status: int
    out: str
    err: str


Kdyno = Callable[..., Said]


@pytest.fixture
def kdyno(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[Kdyno]:
    """``kdyno("list", "runs")``, with runs and cache in the test's own folder."""
    monkeypatch.setenv("KDYNO_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("KDYNO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    before = signal.getsignal(signal.SIGTERM)

    def run(*words: object) -> Said:
        monkeypatch.setattr(sys, "argv", ["kdyno", *map(str, words)])
        capsys.readouterr()
        status = main()
        return Said(status, *capsys.readouterr())

    yield run
    signal.signal(signal.SIGTERM, before)


def experiment_file(folder: Path, text: str = EXPERIMENT) -> Path:
    path = folder / "tiny.toml"
    path.write_text(text, encoding="utf-8")
    return path


def effect(case: str, word: str, ratio: float, **more: Any) -> Effect:
    """An effect of the variant ``mine``, ±0.2 %."""
    about: dict[str, Any] = {"suite": "unixbench", "case": case, "variant": "mine"}
    about |= {"unit": "loops/s", "better": "higher", "blocks": 12, "verdict": word}
    figures: dict[str, Any] = {"baseline_value": 1000.0, "value": 1000.0 * ratio, "ratio": ratio}
    figures["ci"] = (ratio - 0.002, ratio + 0.002)
    return Effect.model_validate(about | figures | more)


def by_sums(case: str, word: str, ratio: float, **more: Any) -> Effect:
    """The same, decided by summed times; a typical turn is as the baseline's."""
    summed = Throughput(ratio=ratio, ci=(ratio - 0.002, ratio + 0.002), tail=True, decides=True)
    return effect(case, word, 1.0, throughput=summed, **more)


FASTER = effect("pipe", "faster", 1.05)
SLOWER = effect("syscall", "slower", 0.95)
UNDECIDED = effect("syscall", "inconclusive", 1.001, predicted_blocks=40)


def verdict(*effects: Effect, **more: Any) -> Verdict:
    values: dict[str, Any] = {
        "experiment": "tiny",
        "question": "Is mine faster?",
        "answer": "mine is what it is.",
        "baseline": "stock",
        "boots": {"stock": 12, "mine": 12},
        "stopped": "precision reached",
        "effects": effects,
    }
    return Verdict(**(values | more))


def stored(
    runs: Path,
    judged: Verdict | None,
    state: State = "finished",
    created: str = "2026-01-01T00:00:00",
    **manifest: Any,
) -> Path:
    """A run on disk with this verdict; without one it was interrupted before any."""
    case = {"suite": "unixbench", "case": "pipe", "unit": "loops/s", "better": "higher"}
    about: dict[str, Any] = {"created": created, "cases": (case,), "state": state}
    about["stopped"] = "precision reached" if state == "finished" else "interrupted: terminated"
    return record(runs, (), judged, text=EXPERIMENT, tool="0.1.0", **about, **manifest).path
