# SPDX-License-Identifier: MIT
"""Effects on groups of cases: the harmonic mean within each block, judged and shown."""

from __future__ import annotations

import math
import re

import pytest

from kdyno.judge.judging import family_of
from kdyno.judge.pairs import Question, pairs_of
from kdyno.report.exporters import markdown
from kdyno.report.terminal import text
from kdyno.store.manifest import CaseInfo
from kdyno.store.samples import Samples
from kdyno.store.verdict import Verdict
from kdyno.suites.catalogue import Case, CaseGroup, Suite

BLOCKS = 12
CASES = {"a": "higher", "b": "higher", "t": "lower"}
SUITES = {
    "s": Suite(
        "s",
        "help",
        tuple(Case("s", name, "h", "u", better, "pipe") for name, better in CASES.items()),
        groups=(CaseGroup("ab", ("a", "b")), CaseGroup("all", ("ab", "t"))),
    )
}


def question(**more: object) -> Question:
    cases = tuple(
        CaseInfo(suite="s", case=name, unit="u", better=better)  # type: ignore[arg-type]
        for name, better in CASES.items()
    )
    given = dict(
        experiment="x", text="", baseline="old", variants=("new",), copy=None, cases=cases,
        confidence=0.95, equivalent=0.02, precision=0.01,
    )  # fmt: skip
    return Question(**(given | more))  # type: ignore[arg-type]


def samples(ratios: dict[str, float], without: dict[str, set[int]] | None = None) -> Samples:
    """Each block with a level of its own, so that only ratios within blocks are the same."""
    scores = {}
    for name in CASES:
        level = {block: 100.0 * 1.1**block for block in range(BLOCKS)}
        scores["s", name, "old"] = level
        scores["s", name, "new"] = {
            block: value * ratios[name]
            for block, value in level.items()
            if block not in (without or {}).get(name, set())
        }
    return Samples(scores=scores, blocks=BLOCKS)


def test_a_group_is_the_harmonic_mean_of_its_cases_ratios_and_a_time_counts_the_other_way() -> None:
    ab, whole = family_of(samples({"a": 1.1, "b": 0.9, "t": 0.8}), question(), SUITES)[1]
    expected = 2 / (1 / 1.1 + 1 / 0.9)
    assert (ab.suite, ab.group, ab.variant, ab.blocks) == ("s", "ab", "new", BLOCKS)
    assert ab.ratio == pytest.approx(expected)
    assert ab.ci == pytest.approx((expected, expected))
    assert ab.verdict == "slower" and ab.equivalent_too  # −1 %, inside ±2 %
    # A time of 0.8 is a ratio of 1.25.
    assert whole.ratio == pytest.approx(2 / (1 / expected + 0.8))
    assert whole.verdict == "faster" and not whole.equivalent_too


def test_groups_without_one_of_their_cases() -> None:
    ratios = {"a": 1.1, "b": 1.1, "t": 1.0}

    def blocks(question: Question, without: set[int], suites: dict[str, Suite] = SUITES) -> object:
        groups = family_of(samples(ratios, {"t": without}), question, suites)[1]
        return {group.group: group.blocks for group in groups}

    # A block without one of its cases says nothing of the group, and no block leaves it out.
    assert blocks(question(), {0, 3}) == {"ab": BLOCKS, "all": BLOCKS - 2}
    assert blocks(question(), set(range(BLOCKS))) == {"ab": BLOCKS}
    assert blocks(question(counted=True), set()) == {"ab": BLOCKS, "all": BLOCKS}
    assert blocks(question(), set(), {"s": Suite("s", "help", SUITES["s"].cases)}) == {}


def test_intervals_are_corrected_for_all_groups_and_undecided_ones_say_how_many_blocks() -> None:
    data = samples({"a": 1.0, "b": 1.0, "t": 1.0})
    for block in range(BLOCKS):
        data.scores["s", "a", "new"][block] *= math.exp(0.2 * math.sin(block))
    ab, _ = family_of(data, question(), SUITES)[1]
    assert ab.ci is not None and ab.ci_raw is not None
    assert ab.ci[0] < ab.ci_raw[0] < 1.0 < ab.ci_raw[1] < ab.ci[1]
    assert ab.verdict == "inconclusive" and (ab.predicted_blocks or 0) > BLOCKS
    # More blocks do not settle what more links would.
    data.links = {block: block + 1 for block in range(BLOCKS)}
    pairs = pairs_of(data, question(), ["new"])
    ab, _ = family_of(data, question(), SUITES, pairs)[1]
    assert ab.verdict == "inconclusive" and ab.predicted_blocks is None


def test_they_are_shown_with_their_rule() -> None:
    result = family_of(samples({"a": 1.1, "b": 0.9, "t": 0.8}), question(), SUITES)[1]
    verdict = Verdict(experiment="x", baseline="old", boots={"old": 12, "new": 12}, groups=result)
    content = markdown(verdict)
    assert "### Groups" in content
    assert re.search(
        r"\| s/ab \| −1\.00 % \| −1\.00 … −1\.00 % \| \*\*slower\*\*, too little", content
    )
    assert "harmonic mean" in content
    assert re.search(r"s/all +\+10\.5 % .*faster", text(verdict, 100))
    assert Verdict.from_json(verdict.to_json()).groups == result
