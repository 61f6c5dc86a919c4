# SPDX-License-Identifier: MIT
from __future__ import annotations

from typing import Any

import pytest

from kdyno.errors import UsageError
from kdyno.report.gate import check, check_compares, check_verdict, exit_status, parse
from kdyno.store.verdict import CaseValue, Effect, FactorEffect, FactorTable, Verdict


def effect(case: str, word: str, **more: Any) -> Effect:
    values: dict[str, Any] = {
        "suite": "unixbench", "case": case, "variant": "mine", "unit": "loops/s",
        "better": "higher", "baseline_value": 1.0, "value": 1.0, "ratio": 1.0, "ci": None,
        "blocks": 9, "verdict": word,
    }  # fmt: skip
    return Effect(**(values | more))


SLOW, OPEN = effect("pipe", "slower"), effect("spawn", "inconclusive")
FAST, DEAD = effect("execl", "faster"), effect("syscall", "failed", ratio=None)


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
        ([effect("dhry", "slower", control=True)], ["slower"], 0),
        ([effect("dhry", "slower", control=True)], ["slower:dhry"], 10),
        ([effect("pipe", "slower", variant="copy")], ["slower"], 0),
    ],
)
def test_status(effects: list[Effect], fail_on: list[str], status: int) -> None:
    verdict = Verdict(
        experiment="x", baseline="stock", boots={}, effects=tuple(effects), copy_of_baseline="copy"
    )
    assert exit_status(verdict, fail_on) == status


def test_failed_variants() -> None:
    failed = {"bad": "did not build"}
    one = Verdict(experiment="x", baseline="stock", boots={}, effects=(FAST,), failed=failed)
    assert (exit_status(one, []), exit_status(one, ["slower"])) == (0, 1)
    none = Verdict(experiment="x", baseline="stock", boots={}, failed=failed)
    assert (exit_status(none, []), exit_status(none, ["slower"])) == (1, 1)


@pytest.mark.parametrize("text", ["", "slow", "slower:", "slower:pipe,", ":pipe", "faster"])
def test_bad_rules(text: str) -> None:
    with pytest.raises(UsageError, match="--fail-on"):
        parse([text])


def test_targets_are_held_against_the_cases() -> None:
    check(parse(["slower:pipe,unixbench,unixbench/pipe"]), [("unixbench", "pipe")])
    with pytest.raises(UsageError, match="did you mean pipe"):
        check(parse(["slower:pip"]), [("unixbench", "pipe")])


def level(word: str, kind: str = "main", factor: str = "smp", **more: Any) -> FactorEffect:
    values: dict[str, Any] = {
        "suite": "kernel-compile", "case": "whole", "unit": "s", "better": "lower", "kind": kind,
        "factor": factor, "level": "on", "reference": "off", "ratio": 1.1, "ci": (1.05, 1.15),
        "blocks": 9, "verdict": word,
    }  # fmt: skip
    return FactorEffect(**(values | more))


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
    table = FactorTable(
        factors={"smp": ("off", "on"), "jobs": ("1", "4")}, of_cases=("jobs",), effects=levels
    )
    verdict = Verdict(experiment="x", baseline="off", boots={}, effects=(CELL,), factors=table)
    assert exit_status(verdict, fail_on) == status


def test_a_run_that_compares_nothing_cannot_pass_a_gate() -> None:
    value = CaseValue(
        suite="s", case="c", unit="s", better="lower", value=1.0, ci=None, repetitions=9
    )
    verdict = Verdict(experiment="x", baseline="running", boots={"running": 1}, values=(value,))
    assert exit_status(verdict, []) == 0
    with pytest.raises(UsageError, match="compares nothing"):
        check_verdict(parse(["slower"]), verdict)
    with pytest.raises(UsageError, match="kdyno compare"):
        check_compares(parse(["slower"]), False)
    none = verdict.model_copy(update={"values": (value.model_copy(update={"value": None}),)})
    assert exit_status(none, []) == 1


def test_factors_may_be_named() -> None:
    check(parse(["slower:smp"]), [("unixbench", "pipe")], ("smp", "jobs"))
    with pytest.raises(UsageError, match=r"did you mean jobs.*the factors smp, jobs"):
        check(parse(["slower:job"]), [("unixbench", "pipe")], ("smp", "jobs"))
