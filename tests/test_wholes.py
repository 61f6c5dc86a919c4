# SPDX-License-Identifier: MIT
"""Effects on groups of cases: the harmonic mean within each block, judged and shown; groups and
rows of factors by summed times, where a rare cost is named as well."""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Set

import numpy as np
import pytest
from fake_run import asking
from on_screen import text

from benchmarks.simulation.rare import GUESTS, ROUNDS
from benchmarks.turn_noise import NOISES, Noise, group_rounds
from kdyno.judge import flags
from kdyno.judge.factors import Contrast, crosses_of
from kdyno.judge.judging import family_of
from kdyno.judge.pairs import pairs_of
from kdyno.report import effects, tables
from kdyno.report.exporters import markdown
from kdyno.stats.verdict import Better
from kdyno.store.manifest import CaseInfo, Manifest
from kdyno.store.samples import Samples
from kdyno.store.verdict import FactorTable, GroupEffect, Verdict
from kdyno.suites.catalogue import Case, Suite

BLOCKS = 12
CASES: dict[str, Better] = {"a": "higher", "b": "higher", "t": "lower"}
TURNS = ("w@1", "w@2")
VARIANTS = ("a+x", "b+x", "a+y", "b+y")


def counting(manifest: Manifest) -> Manifest:
    criteria = manifest.asked.model_copy(update={"metric": "instructions"})
    return manifest.model_copy(update={"asked": criteria})


def suites(names: dict[str, Better], **groups: tuple[str, ...]) -> dict[str, Suite]:
    cases = tuple(Case("s", name, "h", "u", better, "pipe") for name, better in names.items())
    return {"s": Suite("s", "help", cases, groups=groups)}


GROUPED = suites(CASES, ab=("a", "b"), all=("ab", "t"))
BOTH = suites(dict.fromkeys(TURNS, "higher"), both=TURNS)
MANIFEST = asking(
    [CaseInfo(suite="s", case=name, unit="u", better=better) for name, better in CASES.items()],
    "old", ("new",), equivalent=0.02, precision=0.01,
)  # fmt: skip
CROSS = asking(
    [
        CaseInfo(suite="s", case=name, unit="u", better="higher", of="w", levels={"n": name[-1]})
        for name in TURNS
    ],
    VARIANTS[0], VARIANTS[1:], {name: {"one": name[0], "two": name[2]} for name in VARIANTS},
    equivalent=0.01, precision=0.01,
)  # fmt: skip


def samples(ratios: dict[str, float], without: Set[int] = frozenset()) -> Samples:
    """Each block with a level of its own, so that only ratios within blocks are the same; blocks
    ``without`` the case ``t`` in the new kernel."""
    scores = {}
    for name in CASES:
        level = {block: 100.0 * 1.1**block for block in range(BLOCKS)}
        scores["s", name, "old"] = level
        scores["s", name, "new"] = {
            block: value * ratios[name]
            for block, value in level.items()
            if name != "t" or block not in without
        }
    return Samples(scores=scores, blocks=BLOCKS)


def test_a_group_is_the_harmonic_mean_of_its_cases_ratios_and_a_time_counts_the_other_way() -> None:
    groups = family_of(samples({"a": 1.1, "b": 0.9, "t": 0.8}), MANIFEST, GROUPED)[1]
    ab, whole = groups
    expected = 2 / (1 / 1.1 + 1 / 0.9)
    assert (ab.suite, ab.group, ab.variant, ab.blocks) == ("s", "ab", "new", BLOCKS)
    assert ab.ratio == pytest.approx(expected)
    assert ab.ci == pytest.approx((expected, expected))
    assert ab.verdict == "slower" and ab.equivalent_too  # −1 %, inside ±2 %
    # A time of 0.8 is a ratio of 1.25.
    assert whole.ratio == pytest.approx(2 / (1 / expected + 0.8))
    assert whole.verdict == "faster" and not whole.equivalent_too
    # They are shown with their rule.
    verdict = Verdict(experiment="x", baseline="old", boots={"old": 12, "new": 12}, groups=groups)
    content = markdown(verdict)
    assert "### Groups" in content and "harmonic mean" in content
    row = r"\| s/ab \| −1\.00 % \| −1\.00 … −1\.00 % \| \*\*slower\*\*, too little"
    assert re.search(row, content)
    assert re.search(r"s/all +\+10\.5 % .*faster", text(verdict, 100))
    assert Verdict.from_json(verdict.to_json()).groups == groups


def test_groups_without_one_of_their_cases() -> None:
    ratios = {"a": 1.1, "b": 1.1, "t": 1.0}

    def blocks(manifest: Manifest, without: set[int], of: dict[str, Suite] = GROUPED) -> object:
        groups = family_of(samples(ratios, without), manifest, of)[1]
        return {group.group: group.blocks for group in groups}

    # A block without one of its cases says nothing of the group, and no block leaves it out.
    assert blocks(MANIFEST, {0, 3}) == {"ab": BLOCKS, "all": BLOCKS - 2}
    assert blocks(MANIFEST, set(range(BLOCKS))) == {"ab": BLOCKS}
    assert blocks(counting(MANIFEST), set()) == {"ab": BLOCKS, "all": BLOCKS}
    assert blocks(MANIFEST, set(), suites(CASES)) == {}


def test_intervals_are_corrected_for_all_groups_and_undecided_ones_say_how_many_blocks() -> None:
    data = samples({"a": 1.0, "b": 1.0, "t": 1.0})
    for block in range(BLOCKS):
        data.scores["s", "a", "new"][block] *= math.exp(0.2 * math.sin(block))
    ab, _ = family_of(data, MANIFEST, GROUPED)[1]
    assert ab.ci[0] < ab.ci_raw[0] < 1.0 < ab.ci_raw[1] < ab.ci[1]
    assert ab.verdict == "inconclusive" and (ab.predicted_blocks or 0) > BLOCKS
    # More blocks do not settle what more links would.
    data.links = {block: block + 1 for block in range(BLOCKS)}
    ab, _ = family_of(data, MANIFEST, GROUPED, pairs_of(data, MANIFEST, ["new"]))[1]
    assert ab.verdict == "inconclusive" and ab.predicted_blocks is None


def in_turns(seed: int, noise: Noise, groups: int, cost: float) -> Samples:
    """Guests that take turns; with ``b`` one turn of twenty takes 1 + ``cost`` times as long."""
    rng = np.random.default_rng(seed)
    data = Samples(blocks=groups)
    for case in TURNS:
        logs = group_rounds(rng, noise, groups, GUESTS, ROUNDS)
        for at, name in enumerate(VARIANTS):
            slow = (name[0] == "b") * (rng.random((groups, ROUNDS)) < 0.05)
            own = logs[:, :, at] - math.log1p(cost) * slow
            data.rounds["s", case, name] = {
                block: array("d", rounds.tolist()) for block, rounds in enumerate(own)
            }
            data.scores["s", case, name] = dict(enumerate(np.exp(np.median(own, axis=1)).tolist()))
    return data


def judged(data: Samples) -> tuple[tuple[GroupEffect, ...], FactorTable, list[str]]:
    """(groups, table, words of the pairs)"""
    rows, groups, table = family_of(data, CROSS, BOTH, pairs_of(data, CROSS, CROSS.others))
    return groups, table, [row.judgement.word for row in rows]


@pytest.mark.slow
def test_a_rare_cost_is_named_in_groups_and_rows_of_factors() -> None:
    groups, table, _ = judged(in_turns(1, NOISES[0], 40, 1.0))
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

    result = flags.tails((), groups, table.effects)
    assert [(flag.variant, flag.case) for flag in result[:2]] == [("b+x", "both"), ("b+y", "both")]
    assert result[2].text.startswith("one b ÷ a: by summed times -4.") and result[2].variant is None
    # What people read is what the verdict rests on.
    assert any("Σ" in effects.word_cell(row).sign for row in table.effects)
    summary = tables.summary_of_factors(table, 0.01)
    assert summary[0].startswith("s/w: one b: −4.")
    grid = tables.groups(Verdict(experiment="x", baseline="a+x", boots={}, groups=groups))
    shares = [next(cell.text for cell in row if "%" in cell.text) for row in grid.rows]
    assert shares[0].startswith("−4.") and shares[1].startswith(("+0.", "−0."))


def test_rows_of_kernels_and_of_how_they_meet_cases_have_sums_and_others_none() -> None:
    (cross,) = crosses_of(in_turns(1, NOISES[0], 6, 0.0), CROSS)
    at = list(cross.factors)
    one, n = at.index("one"), at.index("n")
    have = {contrast: len(cross.summed(contrast)) > 0 for contrast in cross.contrasts()}
    assert have[Contrast("main", one, 1)] and have[Contrast("conditional", one, 1, n, 1)]
    assert have[Contrast("interaction", one, 1, n, 1)]
    assert not have[Contrast("main", n, 1)] and not have[Contrast("conditional", n, 1, one, 1)]


def test_counts_have_no_sums() -> None:
    data = in_turns(1, NOISES[0], 8, 0.0)
    _, groups, table = family_of(data, counting(CROSS), BOTH)
    assert all(row.throughput is None for row in (*groups, *table.effects))


@pytest.mark.slow
@pytest.mark.parametrize("noise", NOISES, ids=lambda noise: noise.name)
def test_equal_kernels_keep_five_per_cent_with_groups_and_factors(noise: Noise) -> None:
    """Any false word or tail of the whole run: effects, groups, rows of factors."""
    false = 0
    for seed in range(100):
        groups, table, words = judged(in_turns(seed, noise, 16, 0.0))
        rows = (*groups, *table.effects)
        words += [row.verdict for row in rows]
        tail = any(row.throughput and row.throughput.tail for row in rows)
        false += tail or any(word in ("faster", "slower") for word in words)
    assert false <= 11  # of 100 at 5 %: more in 3 of 1000
