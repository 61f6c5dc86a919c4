# SPDX-License-Identifier: MIT
from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from command_line import effect as shared_effect, verdict as judged
from fake_run import asking

from benchmarks.simulation.gate import branch
from kdyno.errors import UsageError
from kdyno.report.gate import (
    at_level,
    check,
    check_verdict,
    confirmed,
    exit_status,
    in_history,
    parse,
)
from kdyno.report.terminal import rejudged
from kdyno.stats.verdict import lord_level
from kdyno.store.verdict import CaseValue, Effect, FactorEffect, FactorTable, Verdict


def effect(case: str, word: str, **more: Any) -> Effect:
    return shared_effect(case, word, 1.0).model_copy(update=more)


SLOW, OPEN = effect("pipe", "slower"), effect("spawn", "inconclusive")
FAST, DEAD = effect("execl", "faster"), effect("syscall", "failed", ratio=None)
COPY, CONTROL = effect("pipe", "faster", variant="copy"), effect("dhry", "faster", control=True)
TINY = effect("pipe", "slower", equivalent_too=True)


@pytest.mark.parametrize(
    ("effects", "fail_on", "status"),
    [
        ([SLOW, OPEN], [], 0),
        ([SLOW, OPEN], ["slower"], 10),
        ([SLOW, OPEN], ["inconclusive"], 11),
        ([SLOW, OPEN], ["inconclusive", "slower"], 10),
        ([FAST], ["slower", "inconclusive"], 0),
        ([SLOW, OPEN], ["slower:spawn"], 0),
        ([SLOW, OPEN], ["slower:spawn,unixbench/pipe"], 10),
        ([SLOW, OPEN], ["inconclusive:unixbench"], 11),
        ([SLOW, OPEN], ["slower:pipe", "inconclusive:pipe"], 10),
        ([FAST, DEAD], ["slower"], 1),
        ([FAST, DEAD], ["slower:execl"], 0),
        ([OPEN, DEAD], ["inconclusive"], 1),
        ([SLOW, DEAD], ["slower"], 10),
        ([DEAD], [], 1),
        ([], ["slower:pipe"], 1),
        ([effect("pipe", "inconclusive", ratio=None)], ["slower"], 1),
        ([effect("pipe", "inconclusive", ratio=None), FAST], ["slower"], 0),
        ([effect("pipe", "inconclusive", ratio=None), FAST], ["slower:pipe"], 1),
        ([effect("pipe", "slower", equivalent_too=True)], ["slower", "inconclusive"], 0),
        ([effect("pipe", "slower", inside_noise_floor=True)], ["slower"], 0),
        ([effect("pipe", "slower", inside_noise_floor=True)], ["slower", "inconclusive"], 11),
        ([FAST, effect("dhry", "slower", control=True)], ["slower"], 0),
        ([effect("dhry", "slower", control=True)], ["slower:dhry"], 10),
        ([FAST, effect("pipe", "slower", variant="copy")], ["slower"], 0),
        # What does not count does not stand in for what was not measured either.
        ([effect("pipe", "inconclusive", ratio=None), COPY], ["slower"], 1),
        ([effect("pipe", "inconclusive", ratio=None), CONTROL], ["slower"], 1),
        ([COPY, CONTROL], ["slower"], 1),
        ([COPY, CONTROL], ["slower:dhry"], 0),
    ],
)
def test_status(effects: list[Effect], fail_on: list[str], status: int) -> None:
    assert exit_status(judged(*effects, copy_of_baseline="copy"), fail_on) == status


def test_failed_variants() -> None:
    failed = {"bad": "did not build"}
    for effects, statuses in (((FAST,), (0, 1)), ((), (1, 1))):
        verdict = judged(*effects, failed=failed)
        assert (exit_status(verdict, []), exit_status(verdict, ["slower"])) == statuses


@pytest.mark.parametrize("text", ["", "slow", "slower:", "slower:pipe,", ":pipe", "faster"])
def test_bad_rules(text: str) -> None:
    with pytest.raises(UsageError, match="--fail-on"):
        parse([text])


def test_targets_are_held_against_the_cases_and_factors() -> None:
    check(parse(["slower:pipe,unixbench,unixbench/pipe"]), [("unixbench", "pipe")])
    check(parse(["slower:smp"]), [("unixbench", "pipe")], ("smp", "jobs"))
    with pytest.raises(UsageError, match=r"did you mean jobs.*the factors smp, jobs"):
        check(parse(["slower:job"]), [("unixbench", "pipe")], ("smp", "jobs"))


def level(word: str, kind: str = "main", factor: str = "smp", **more: Any) -> FactorEffect:
    values: dict[str, Any] = {
        "suite": "kernel-compile", "case": "whole", "unit": "s", "better": "lower", "kind": kind,
        "factor": factor, "level": "on", "reference": "off", "ratio": 1.1, "ci": (1.05, 1.15),
        "blocks": 9, "verdict": word,
    }  # fmt: skip
    return FactorEffect(**(values | more))


def crossed(*levels: FactorEffect) -> FactorTable:
    factors = {"smp": ("off", "on"), "jobs": ("1", "4")}
    return FactorTable(factors=factors, of_cases=("jobs",), effects=levels)


CELL = effect("whole@4", "equivalent", suite="kernel-compile")


@pytest.mark.parametrize(
    ("levels", "fail_on", "status"),
    [
        ([level("slower")], [], 0),
        ([level("slower")], ["slower"], 10),
        ([level("slower")], ["slower:smp"], 10),
        ([level("slower")], ["slower:whole"], 10),
        ([level("slower")], ["slower:jobs"], 1),  # nothing of that factor was measured
        ([level("slower"), level("faster", factor="hz")], ["slower:hz"], 0),
        ([level("slower", "conditional", other="jobs", at="4")], ["slower"], 10),
        ([level("slower", "interaction", other="jobs", at="4")], ["slower"], 0),
        ([level("slower", factor="jobs")], ["slower"], 0),  # -j 4 is not a regression of -j 1
        ([level("slower", equivalent_too=True)], ["slower"], 0),
        ([level("inconclusive")], ["slower"], 0),
        ([level("inconclusive")], ["inconclusive"], 11),
        ([level("inconclusive"), level("slower")], ["slower", "inconclusive"], 10),
    ],
)
def test_levels_of_factors(levels: list[FactorEffect], fail_on: list[str], status: int) -> None:
    verdict = judged(CELL, factors=crossed(*levels))
    assert exit_status(verdict, fail_on) == status
    # At the level of a history nothing stops that has no p-value.
    open_status = 11 if "inconclusive" in fail_on else 0
    assert exit_status(at_level(verdict, 0.05), fail_on) == (
        open_status if status == 10 else status
    )


def test_a_run_that_compares_nothing_cannot_pass_a_gate() -> None:
    value = CaseValue(suite="s", case="c", unit="s", better="lower", value=1.0, repetitions=9)
    verdict = judged(values=(value,))
    assert exit_status(verdict, []) == 0
    with pytest.raises(UsageError, match=r"compares nothing.*kdyno compare"):
        check_verdict(parse(["slower"]), verdict)
    none = verdict.model_copy(update={"values": (value.model_copy(update={"value": None}),)})
    assert exit_status(none, []) == 1


@pytest.mark.parametrize(
    ("first", "second", "status"),
    [
        (SLOW, SLOW, 10),
        (SLOW, effect("pipe", "equivalent"), 0),
        (SLOW, OPEN, 11),
        (FAST, SLOW, 11),
        (effect("pipe", "slower", variant="other"), SLOW, 11),
        (TINY, SLOW, 11),
        (effect("pipe", "slower", inside_noise_floor=True), SLOW, 11),
        (FAST, TINY, 0),
        (SLOW, TINY, 0),
        (SLOW, DEAD, 1),
    ],
)
def test_slower_is_what_is_so_in_both_runs(first: Effect, second: Effect, status: int) -> None:
    both = confirmed(judged(first), judged(second))
    assert exit_status(both, ["slower", "inconclusive"]) == status


def test_two_runs_have_the_square_of_the_larger_p_value() -> None:
    one, two = (effect("pipe", "slower", p_value=p) for p in (0.02, 0.01))
    assert confirmed(judged(one), judged(two)).effects[0].p_value == pytest.approx(4e-4)
    assert confirmed(judged(one), judged(SLOW)).effects[0].p_value is None


def gated(file: Path, run: str, verdict: Verdict, fail_on: list[str]) -> int:
    return exit_status(in_history(file, run, verdict, fail_on), fail_on)


def test_the_history_of_a_branch_leaves_a_level(tmp_path: Path) -> None:
    file = tmp_path / "gate.jsonl"
    sure, unsure = (judged(effect("pipe", "slower", p_value=p)) for p in (1e-6, 0.01))
    assert exit_status(unsure, ["slower"]) == 10
    assert gated(file, "run-1", unsure, ["slower", "inconclusive"]) == 11
    assert gated(file, "run-2", sure, ["slower"]) == 10
    file.write_text(file.read_text().rstrip("\n"))  # as some editors leave it
    # A discovery earns alpha for later tests; a run that is there is judged at its own level.
    assert gated(file, "run-3", judged(FAST), ["slower"]) == 0
    assert gated(file, "run-2", sure, ["slower"]) == 10
    assert gated(file, "run-4", judged(DEAD), ["slower"]) == 1
    tiny = judged(TINY.model_copy(update={"p_value": 0.01}))
    assert gated(file, "run-2", tiny, ["slower", "inconclusive"]) == 0
    lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    assert [(line["run"], line["slower"]) for line in lines] == [
        ("run-1", False), ("run-2", True), ("run-3", False),
    ]  # fmt: skip
    levels = [line["level"] for line in lines]
    assert levels[0] == pytest.approx(lord_level([])) and levels[1] < levels[0]
    assert levels[2] == pytest.approx(lord_level([False, True])) and levels[2] > levels[0]
    file.write_text('{"run": 1}\n')
    with pytest.raises(UsageError, match=r"gate.jsonl, line 1: not a test"):
        in_history(file, "run-5", sure, ["slower"])


@pytest.mark.slow
def test_gates_that_end_in_the_same_instant_are_all_in_the_history(tmp_path: Path) -> None:
    file, runs = tmp_path / "gate.jsonl", [f"run-{number}" for number in range(40)]
    with ThreadPoolExecutor(8) as gates:
        list(gates.map(lambda run: in_history(file, run, judged(FAST), ["slower"]), runs))
    names = [json.loads(line)["run"] for line in file.read_text(encoding="utf-8").splitlines()]
    assert sorted(names) == sorted(runs)


@pytest.mark.slow
def test_of_what_a_gate_stops_at_most_one_in_twenty_is_as_fast() -> None:
    for share in (0.0, 0.05, 0.3):
        alone, both, history = branch(share, 100, 15, 1)
        assert history.false_discoveries <= 0.05
        assert both.false_discoveries <= alone.false_discoveries
    assert branch(0.3, 100, 15, 1)[2].power > 0.7


def test_a_word_that_changed_in_a_factor_or_a_group_is_a_change() -> None:
    def run(word: str) -> Verdict:
        row = dict(suite="s", group="total", variant="mine", ratio=1.1, ci=None, blocks=9)
        return judged(CELL, factors=crossed(level(word)), groups=(row | {"verdict": word},))

    assert rejudged(run("slower"), run("equivalent"), asking(()))[-2:] == [
        "  s/total in mine: slower → equivalent",
        "  kernel-compile/whole, smp on ÷ off: slower → equivalent",
    ]
