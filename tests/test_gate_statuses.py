# SPDX-License-Identifier: MIT
"""What a script sees: a tool's error is not a regression, and a regression no tool's error."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import (
    FASTER,
    SLOWER,
    UNDECIDED,
    Kdyno,
    effect,
    experiment_file,
    kdyno,
    stored,
    verdict,
)

from kdyno.errors import Interrupted, ToolError, interruption
from kdyno.measure import execution
from kdyno.store.verdict import CaseValue, Verdict

__all__ = ["kdyno"]

GATE = ("--fail-on", "slower", "--fail-on", "inconclusive")
DEAD = SLOWER.model_copy(
    update={"verdict": "failed", "ratio": None, "ci": None, "value": None, "reason": "it crashed"}
)
FAILED = {"failed": {"mine": "did not build"}}


@pytest.mark.parametrize(
    ("judged", "status"),
    [
        (verdict(FASTER), 0),
        (verdict(FASTER, SLOWER), 10),
        (verdict(FASTER, UNDECIDED), 11),
        (verdict(FASTER, DEAD), 1),
        (verdict(SLOWER.model_copy(update={"case": "pipe"}), DEAD), 10),
        (verdict(FASTER, **FAILED), 1),
        (verdict(UNDECIDED, **FAILED), 1),
        (verdict(), 1),
    ],
)
def test_report_gates_a_run(kdyno: Kdyno, tmp_path: Path, judged: Verdict, status: int) -> None:
    stored(tmp_path / "runs", judged)
    assert kdyno("report", "last", *GATE).status == status
    assert kdyno("report", "last").status == 0, "without a rule there is nothing to fail"
    said = kdyno("report", "last", *GATE, "-o", tmp_path / "x.md")
    assert said.status == status and (tmp_path / "x.md").is_file()


@pytest.mark.parametrize(
    ("problem", "status"),
    [
        (ToolError("the disk is full"), 1),
        (OSError(28, "No space left on device"), 1),
        (Interrupted("terminated"), 130),
        (KeyboardInterrupt(), 130),
    ],
)
def test_no_error_looks_like_a_regression(
    kdyno: Kdyno,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    problem: BaseException,
    status: int,
) -> None:
    def execute(*_: object, **__: object) -> None:
        raise problem

    monkeypatch.setattr(execution, "execute", execute)
    assert kdyno("run", experiment_file(tmp_path), *GATE).status == status


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda path: (path / "verdict.json").write_text("{"), "is not a verdict"),
        (lambda path: (path / "verdict.json").unlink(), "no verdict"),
        (lambda path: (path / "manifest.json").unlink(), "is not a run"),
    ],
)
def test_a_damaged_run_is_neither(kdyno: Kdyno, tmp_path: Path, make: object, told: str) -> None:
    path = stored(tmp_path / "runs", verdict(SLOWER))
    assert callable(make)
    make(path)
    said = kdyno("report", path, *GATE)
    assert said.status == 2 and told in said.err


@pytest.mark.parametrize("rule", ["slower:pip", "slow", "slower:"])
def test_a_rule_that_cannot_be_is_refused(kdyno: Kdyno, tmp_path: Path, rule: str) -> None:
    stored(tmp_path / "runs", verdict(FASTER))
    assert kdyno("report", "last", "--fail-on", rule).status == 2


def test_a_run_of_one_kernel_passes_no_gate(kdyno: Kdyno, tmp_path: Path) -> None:
    value = CaseValue(suite="s", case="c", unit="s", better="lower", value=1.0, repetitions=3)
    stored(tmp_path / "runs", verdict(values=(value,)))
    said = kdyno("report", "last", "--fail-on", "slower")
    assert said.status == 2 and "compares nothing" in said.err
    text = (
        'name = "host"\n[machine]\nkind = "host"\n[[suite]]\nname = "unixbench"\ncases = ["pipe"]\n'
    )
    said = kdyno("run", experiment_file(tmp_path, text), "--fail-on", "slower")
    assert said.status == 2 and "compares nothing" in said.err, said.err


@pytest.mark.slow
def test_a_reader_that_leaves_does_not_hide_a_regression(tmp_path: Path) -> None:
    many = [effect(f"case-{number:04}", "slower", 0.9) for number in range(3000)]
    stored(tmp_path / "runs", verdict(*many))
    words = [sys.executable, "-m", "kdyno", "report", "last", "--fail-on", "slower"]
    # The verdict's JSON is larger than a pipe holds: the writer finds nobody at its end.
    with subprocess.Popen(
        [*words, "--json", "-"],
        env={**os.environ, "KDYNO_RUNS": str(tmp_path / "runs")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as child:
        assert child.stdout is not None and child.stderr is not None
        child.stdout.read(10)
        child.stdout.close()
        assert (child.wait(timeout=60), child.stderr.read()) == (10, b"")


def test_an_interruption_is_stored_as_a_sentence() -> None:
    assert interruption(KeyboardInterrupt()) == "interrupted by Ctrl-C"
    assert interruption(Interrupted("terminated")) == "interrupted: terminated"
    assert interruption(MemoryError()) == "interrupted: MemoryError"
