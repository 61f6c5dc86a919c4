# SPDX-License-Identifier: MIT
"""What a run by turns says to beware of: the machine in memory, real loop and judging."""

from __future__ import annotations

import dataclasses
import math
from array import array
from pathlib import Path

import numpy as np
import pytest
from fake_machine import FakeMachine
from fake_run import LONG, PIPE, PRINTED, bench, boots_of, measured, steady

from kdyno.judge.flags import asleep, of_manifest, restless
from kdyno.judge.judging import verdict_of
from kdyno.judge.pairs import Question
from kdyno.measure.execution import interleaved
from kdyno.store.manifest import CaseInfo
from kdyno.store.run import Run
from kdyno.store.samples import Samples, gather
from kdyno.store.verdict import Verdict

SPEEDS = {"stock": 1.0, "mine": 1.02, "other": 0.97}


def judged(run: Run) -> Verdict:
    return verdict_of(run, Question.of(run.manifest()), "")


def texts_of(verdict: Verdict, kind: str) -> list[str]:
    return [flag.text for flag in verdict.flags if flag.kind == kind]


def test_what_was_not_measured_by_turns_says_why(tmp_path: Path) -> None:
    messages: list[str] = []
    setup = bench(steady(SPEEDS), cases=(PIPE, PRINTED), max_boots=2)
    result = interleaved(setup, messages.append)
    why = "its figure is what the program says, by a clock that jumps when a guest is frozen"
    assert result == {"interleave": "turns", "why_boots": "", "whole": {"s/printed": why}}
    run, _ = measured(setup, tmp_path)
    writer_manifest = run.manifest().model_copy(update=result)
    assert [flag.text for flag in of_manifest(writer_manifest)] == [
        f"printed: whole, one guest after the other, not by turns: {why}"
    ]
    alone = bench(steady(SPEEDS), cases=(PRINTED,), max_boots=2)
    by_boots = run.manifest().model_copy(update=interleaved(alone, messages.append))
    assert [flag.text for flag in of_manifest(by_boots)] == [
        f"one whole boot after the other, not by turns: no case can take turns: {why}"
    ]
    assert len(messages) == 2
    assert texts_of(judged(run), "not-by-turns") == []


@pytest.mark.parametrize(("swing", "message"), [(0.0, ""), (0.1, "changed by 1")])
def test_a_machine_whose_speed_changes_is_told_from_its_rounds(
    swing: float, message: str, tmp_path: Path
) -> None:
    """Every guest alike, so no effect moves; neither steal nor other programs show for it."""

    def rule(variant: str, _case: str, now_s: float) -> float:
        wave = 1 + swing * math.sqrt(2) * math.sin(2 * math.pi * now_s / 0.9)
        return 5e-6 * wave / SPEEDS[variant]

    run, _ = measured(bench(rule, max_boots=8), tmp_path)
    verdict = judged(run)
    texts = texts_of(verdict, "restless-host")
    assert len(texts) == bool(message)
    assert all(f"speed {message}" in text and "Turns cancel that" in text for text in texts)
    ratios = {effect.variant: effect.ratio for effect in verdict.effects}
    assert ratios["mine"] == pytest.approx(1.02, abs=0.004)


@pytest.mark.parametrize(("awake", "message"), [(0.99, ""), (0.7, "30 %"), (0.2, "80 %")])
def test_a_frozen_command_that_sleeps_is_flagged_by_what_that_could_hide(
    awake: float, message: str, tmp_path: Path
) -> None:
    setup = bench(steady(SPEEDS), cases=(PIPE, LONG), max_boots=3)
    assert isinstance(setup.machine, FakeMachine)
    setup.machine.awake = awake
    run, _ = measured(setup, tmp_path)
    texts = texts_of(judged(run), "asleep")
    assert len(texts) == bool(message)
    # Three guests: of a wait that is long two thirds were in the others' turns.
    hidden = f"{200 * (1 - awake):.0f} % of its time"
    assert all(f"no CPU for {message}" in text and hidden in text for text in texts)
    for boot in boots_of(run):
        (own,) = [sample for sample in boot.samples if sample.case == "long"]
        assert own.interleave == "frozen" and len(own.cpu_ns) == len(own.reps)


def test_cases_of_one_name_in_two_suites_are_two() -> None:
    """The restless one of three decides nothing alone, and is named with its suite."""
    random = np.random.default_rng(3)
    cases = [CaseInfo(suite=suite, case="copy", unit="x", better="higher") for suite in "abc"]
    spread = {"a": 0.2, "b": 0.05, "c": 0.05}
    data = Samples(blocks=4)
    for case in cases:
        for block in range(4):
            moved = random.normal(0, spread[case.suite], 40)
            for variant in ("stock", "mine"):
                logs = array("d", moved + random.normal(0, 0.001, 40))
                data.rounds.setdefault((case.suite, "copy", variant), {})[block] = logs
    question = Question("x", "", "stock", ("mine",), None, tuple(cases), 0.95, 0.01, 0.005)
    (flag,) = restless(data, question)
    assert "changed by 5 %" in flag.text and "a/copy: 2" in flag.text


def test_kernels_of_which_one_sleeps_more_are_flagged(tmp_path: Path) -> None:
    setup = bench(steady({}), variants=("stock", "mine"), cases=(LONG,), max_boots=8)
    run, _ = measured(setup, tmp_path)
    data, question = gather(run.boots()), Question.of(run.manifest())
    for at in range(8):
        data.asleep["s", "long", "stock"][at] = 0.01 + 0.0001 * (at % 3)
        data.asleep["s", "long", "mine"][at] = 0.03
    (flag,) = asleep(data, question)
    assert flag.text.startswith("mine had +2.0 % more of such time")
    assert asleep(data, dataclasses.replace(question, equivalent=0.05)) == []
