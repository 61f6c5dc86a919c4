# SPDX-License-Identifier: MIT
from __future__ import annotations

from typing import Any

import pytest

from kdyno.errors import UsageError
from kdyno.report.gate import check, exit_status, parse
from kdyno.store.verdict import Effect, Verdict


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
        ([], ["slower:pipe"], 0),
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
