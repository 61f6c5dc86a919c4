# SPDX-License-Identifier: MIT
"""Groups of cases and rows of factors by summed times: a rare cost is named in them as well."""

from __future__ import annotations

import math
from array import array
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.simulation.rare import GUESTS, ROUNDS
from benchmarks.turn_noise import NOISES, Noise, group_rounds
from kdyno.judge import flags
from kdyno.judge.factors import Contrast, crosses_of
from kdyno.judge.judging import family_of
from kdyno.judge.pairs import Question, pairs_of
from kdyno.report import effects, tables
from kdyno.store.manifest import CaseInfo
from kdyno.store.samples import Samples
from kdyno.store.verdict import FactorTable, GroupEffect, Verdict
from kdyno.suites.catalogue import Case, CaseGroup, Suite

CASES = ("w@1", "w@2")
SUITES = {
    "s": Suite(
        "s",
        "help",
        tuple(Case("s", name, "h", "u", "higher", "pipe") for name in CASES),
        groups=(CaseGroup("both", CASES),),
    )
}
VARIANTS = ("a+x", "b+x", "a+y", "b+y")
QUESTION = Question(
    experiment="x", text="", baseline=VARIANTS[0], variants=VARIANTS[1:], copy=None,
    cases=tuple(
        CaseInfo(suite="s", case=name, unit="u", better="higher", of="w", levels={"n": name[-1]})
        for name in CASES
    ),
    confidence=0.95, equivalent=0.01, precision=0.01,
    levels={name: (("one", name[0]), ("two", name[2])) for name in VARIANTS},
)  # fmt: skip


def samples(rng: np.random.Generator, noise: Noise, groups: int, cost: float) -> Samples:
    """Guests that take turns; with ``b`` one turn of twenty takes 1 + ``cost`` times as long."""
    data = Samples(blocks=groups)
    for case in CASES:
        logs = group_rounds(rng, noise, groups, GUESTS, ROUNDS)
        for at, name in enumerate(VARIANTS):
            own = logs[:, :, at] - (name[0] == "b") * math.log1p(cost) * (
                rng.random((groups, ROUNDS)) < 0.05
            )
            data.rounds["s", case, name] = {
                block: array("d", rounds.tolist()) for block, rounds in enumerate(own)
            }
            data.scores["s", case, name] = dict(enumerate(np.exp(np.median(own, axis=1)).tolist()))
    return data


def judged(data: Samples) -> tuple[tuple[GroupEffect, ...], FactorTable, list[str]]:
    """(groups, table, words of the pairs)"""
    pairs = pairs_of(data, QUESTION, QUESTION.variants)
    rows, groups, table = family_of(data, QUESTION, SUITES, pairs)
    assert table is not None
    return groups, table, [row.judgement.word for row in rows]


def test_a_rare_cost_is_named_in_groups_and_rows_of_factors() -> None:
    groups, table, _ = judged(samples(np.random.default_rng(1), NOISES[0], 40, 1.0))
    tails = {group.variant for group in groups if group.throughput and group.throughput.tail}
    assert tails == {"b+x", "b+y"}
    assert {group.variant: group.verdict for group in groups}["b+y"] == "slower"
    main = {row.factor: row for row in table.effects if row.kind == "main"}
    one, two, cases = main["one"], main["two"], main["n"]
    assert one.throughput is not None and one.throughput.tail and one.throughput.decides
    assert one.verdict == "slower" and one.ratio == pytest.approx(1, abs=0.01)
    assert one.throughput.ratio == pytest.approx(1 / 1.05, abs=0.01)
    assert two.throughput is not None and not two.throughput.tail
    # Turns of another case do other work: there are no sums to compare.
    assert cases.throughput is None

    result = flags.tails((), groups, table)
    assert [(flag.variant, flag.case) for flag in result[:2]] == [
        ("b+x", "both"), ("b+y", "both")
    ]  # fmt: skip
    assert result[2].text.startswith("one b ÷ a: by summed times -4.") and result[2].variant is None
    # What people read is what the verdict rests on.
    assert any("Σ" in effects.word_cell(row).sign for row in table.effects)
    summary = tables.summary_of_factors(table, 0.01)
    assert summary[0].startswith("s/w: one b: −4.")
    verdict = Verdict(experiment="x", baseline="a+x", boots={}, groups=groups)
    grid = tables.groups(verdict)
    assert grid is not None
    text = [next(cell.text for cell in row if "%" in cell.text) for row in grid.rows]
    assert text[0].startswith("−4.") and text[1].startswith(("+0.", "−0."))


def test_rows_of_kernels_and_of_how_they_meet_cases_have_sums_and_others_none() -> None:
    (cross,) = crosses_of(samples(np.random.default_rng(1), NOISES[0], 6, 0.0), QUESTION)
    at = list(cross.factors)
    one, n = at.index("one"), at.index("n")
    have = {contrast: len(cross.summed(contrast)) > 0 for contrast in cross.contrasts()}
    assert have[Contrast("main", one, 1)] and have[Contrast("conditional", one, 1, n, 1)]
    assert have[Contrast("interaction", one, 1, n, 1)]
    assert not have[Contrast("main", n, 1)] and not have[Contrast("conditional", n, 1, one, 1)]


def test_counts_have_no_sums() -> None:
    data = samples(np.random.default_rng(1), NOISES[0], 8, 0.0)
    _, groups, table = family_of(data, replace(QUESTION, counted=True), SUITES)
    assert table is not None
    assert all(row.throughput is None for row in (*groups, *table.effects))


@pytest.mark.slow
@pytest.mark.parametrize("noise", NOISES, ids=lambda noise: noise.name)
def test_equal_kernels_keep_five_per_cent_with_groups_and_factors(noise: Noise) -> None:
    """Any false word or tail of the whole run: effects, groups, rows of factors."""
    false = 0
    for seed in range(100):
        groups, table, words = judged(samples(np.random.default_rng(seed), noise, 16, 0.0))
        rows = (*groups, *table.effects)
        words += [row.verdict for row in rows]
        tail = any(row.throughput and row.throughput.tail for row in rows)
        false += tail or any(word in ("faster", "slower") for word in words)
    assert false <= 11  # of 100 at 5 %: more in 3 of 1000
