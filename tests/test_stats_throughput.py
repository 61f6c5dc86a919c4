# SPDX-License-Identifier: MIT
"""Summed times beside typical turns: rare costs are named, and never equivalent."""

from __future__ import annotations

import math
import random
from pathlib import Path

import numpy as np
import pytest
from command_line import by_sums, effect as effect_of, verdict as verdict_with
from fake_machine import Rule
from fake_run import PIPE, asking, bench, judged, machine_of, manifest_of, measured

from benchmarks.simulation.rare import COSTS, shares
from benchmarks.turn_noise import NOISES
from kdyno.judge.flags import moved_controls, tails
from kdyno.judge.pairs import Judged, Pair
from kdyno.stats.effect import Floats, effect_of_differences
from kdyno.stats.stopping import both, enough
from kdyno.stats.verdict import Better, Claim, judge, judge_sums, log_mean_speed, slow_share
from kdyno.store.boot import BootHost, BootJob, BootRecord, Sample
from kdyno.store.manifest import CaseInfo
from kdyno.store.samples import Samples, gather, scores_of
from kdyno.store.verdict import Throughput, Verdict


def scatter(middle: float, sd: float, seed: int, n: int = 24) -> np.ndarray:
    return middle + sd * np.random.default_rng(seed).standard_normal(n)


def test_the_sum_is_that_of_times_and_a_share_of_turns_is_slow() -> None:
    # Three turns of 1 and one of 2: 4 in 5, whatever the unit is.
    assert log_mean_speed(np.log([1.0, 1.0, 1.0, 0.5])) == pytest.approx(math.log(0.8))
    assert log_mean_speed([-1e4, -1e4]) == -1e4
    logs = scatter(0.0, 0.01, 1, 40)
    assert slow_share(logs) == slow_share(np.zeros(8)) == 0.0
    logs[[3, 20]] -= 0.7
    assert slow_share(logs) == 0.05


TYPICAL, SMALL = scatter(0.0, 0.002, 1), scatter(-0.0044, 0.003, 1)


@pytest.mark.parametrize(
    ("typical", "better", "apart", "before", "word", "tail"),
    [
        (TYPICAL, "higher", -np.tile([0.0, 0.04, 0.06, 0.1], 6), "equivalent", "slower", True),
        (TYPICAL, "higher", 1e-4, "equivalent", "equivalent", False),
        # `equivalent` needs both intervals.
        (TYPICAL, "lower", scatter(0.0, 0.06, 3), "equivalent", "inconclusive", False),
        # Seen with a real kernel: −12.7 % by summed times, and −0.44 % ≈ was said.
        (SMALL, "higher", -0.12 - np.abs(scatter(0.0, 0.03, 4)), "slower", "slower", True),
        # Too little in typical turns, not in sum, and less apart than matters: the word is theirs.
        (scatter(-0.008, 0.002, 1), "higher", scatter(-0.006, 0.001, 4), "slower", "slower", False),
        # A typical gain that the sum takes back is no gain.
        (scatter(0.03, 0.002, 1), "higher", -0.03, "faster", "inconclusive", True),
    ],
)
def test_where_sum_and_typical_turn_disagree(
    typical: Floats, better: Better, apart: Floats | float, before: str, word: str, tail: bool
) -> None:
    claims = [Claim(typical, better)]
    first = judge(claims)
    assert first[0].word == before
    ((judged, summed),), _ = judge_sums(claims, first, [typical + apart])
    assert summed is not None and (judged.word, summed.tail) == (word, tail)
    assert summed.decides == (word != "equivalent") and not judged.equivalent_too
    # Of a word that is the sum's: where nothing is as extreme, the tails' share of the errors.
    least = 1 / 131_072 / 0.1 / 0.8
    whose = word if tail else "typical turns'"
    assert summed.p_value is None if whose != "slower" else least <= summed.p_value <= 0.05
    if word == "inconclusive" and not tail:
        assert judged.predicted_blocks is not None and judged.predicted_blocks > 24
    if word == "slower":
        assert judged.predicted_blocks is None
    if word == "equivalent":
        assert judged == first[0]


def test_a_control_that_moved_in_sum_moved_by_what_the_sum_says() -> None:
    case = CaseInfo(suite="s", case="dhry", unit="loops/s", better="higher", control=True)
    manifest = asking([case])
    claim = Claim(TYPICAL, "higher")
    sums = [TYPICAL - np.tile([0.0, 0.04, 0.06, 0.1], 6)]
    ((word, summed),), _ = judge_sums([claim], judge([claim]), sums)
    assert summed is not None and word.word == "slower"
    row = Judged(Pair(Samples(), manifest, case, "mine"), word, None, summed)
    (flag,) = moved_controls([row])
    assert "mine moved it by -4." in flag.text


@pytest.mark.parametrize(
    ("word", "end"),
    [("slower", "The verdict is that of the sum"), ("inconclusive", "So nothing is decided")],
)
def test_a_tail_says_whether_the_sum_decides(word: str, end: str) -> None:
    summed = Throughput(ratio=1.0, ci=(0.995, 1.005), tail=True, decides=True)
    (flag,) = tails([effect_of("pipe", word, 1.03, throughput=summed)])
    assert flag.text.endswith(end)


def test_a_score_has_the_effect_that_its_verdict_rests_on(tmp_path: Path) -> None:
    run, _ = measured(bench(lambda *_: 5e-6, variants=("stock", "mine"), max_boots=2), tmp_path)
    slower = by_sums(PIPE.name, "slower", 0.95, suite="s")
    _, score = scores_of(verdict_with(slower), run.manifest(), gather(run.boots()))
    assert (score.ratio, score.ratio_low, score.ratio_high) == (0.95, 0.948, 0.952)


def test_blocks_without_a_sum_and_counts_are_left_alone() -> None:
    claims = [Claim(scatter(0.02, 0.002, 1), "higher"), Claim(np.zeros(8), "higher", exact=True)]
    before = judge(claims)
    sums = [np.where(np.arange(24) < 12, claims[0].log_ratios, np.nan), np.zeros(8)]
    judged, _ = judge_sums(claims, before, sums)
    assert [each for each, _ in judged] == before
    assert judged[0][1] is not None and judged[0][1].judgement.effect.n == 12
    assert judged[1][1] is None
    assert judge_sums(claims, before, [np.empty(0)] * 2)[0] == [(each, None) for each in before]


@pytest.mark.slow
def test_quantiles_are_judged_in_the_family_of_the_tails() -> None:
    claims = [Claim(scatter(0.0, 0.002, 1), "higher")]
    tails = [Claim(scatter(0.3, 0.05, 2), "lower"), Claim(scatter(0.0, 0.05, 3), "lower")]
    _, result = judge_sums(claims, judge(claims), [claims[0].log_ratios], tails)
    assert [each.word for each in result] == ["slower", "inconclusive"]
    # A tenth of alpha for all of them: wider than alone.
    alone, among = judge([tails[0]])[0], result[0]
    assert alone.ci is not None and among.ci is not None and among.ci[0] < alone.ci[0]


@pytest.mark.slow
@pytest.mark.parametrize("blocks", [12, 16, 20])
@pytest.mark.parametrize("alpha", [0.05, 0.01, 0.0001])
def test_a_tail_is_seen_at_every_level_and_its_p_value_is_the_least(
    blocks: int, alpha: float
) -> None:
    claims = [Claim(TYPICAL[:blocks], "higher")]
    sums = [TYPICAL[:blocks] - 0.2 - scatter(0.0, 0.001, 5)[:blocks]]

    def at(alpha: float) -> tuple[str, float | None]:
        ((judged, summed),), _ = judge_sums(claims, judge(claims, alpha=alpha), sums, alpha=alpha)
        assert summed is not None
        return judged.word, summed.p_value

    # Sixteen blocks have 32,768 patterns of signs: one of them is more than 8 of a million.
    word, least = at(alpha)
    assert word == ("slower" if blocks > 16 or alpha > 0.001 else "inconclusive")
    if word == "slower" and least is not None and least > 5e-4:
        assert at(1.02 * least)[0] == "slower" and at(0.98 * least)[0] != "slower"


@pytest.mark.slow
@pytest.mark.parametrize("cost", COSTS[1:3], ids=lambda cost: cost.name)
def test_a_cost_of_one_turn_in_twenty_is_named(cost: object) -> None:
    message = shares(NOISES[0], cost, 24, 80, 1)  # type: ignore[arg-type]
    assert message.before > 0.95  # what kdyno said before it had a sum
    assert message.named >= 0.95 and message.slower >= 0.95 and message.equivalent == 0
    assert message.false_words <= 0.06 and message.others > 0.95


def every_twentieth(variant: str, _case: str, _now_s: float) -> float:
    if variant != "mine":
        return 5e-6
    every_twentieth.turns = getattr(every_twentieth, "turns", 0) + 1  # type: ignore[attr-defined]
    return 1e-5 if every_twentieth.turns % 20 == 0 else 5e-6  # type: ignore[attr-defined]


def verdict_by(
    rule: Rule, runs: Path, busy: bool = False, boots: int = 24, way: str = "turns"
) -> Verdict:
    setup = bench(rule, variants=("stock", "mine"), max_boots=boots)
    if busy:
        # A turn that is twice as long is interrupted by others; what it takes is CPU time.
        machine_of(setup).waits = lambda now_s: 0.01 if int(now_s * 997) % 3 == 0 else 0.0
    run, _ = measured(setup, runs, way)
    return judged(run)


@pytest.mark.slow
def test_slow_turns_are_in_the_sum_where_others_interrupt_them(tmp_path: Path) -> None:
    (effect,) = verdict_by(every_twentieth, tmp_path, busy=True).effects
    assert effect.throughput.ratio < 0.98 and effect.throughput.decides
    assert effect.verdict in ("slower", "inconclusive")
    whole = verdict_by(every_twentieth, tmp_path, boots=8, way="boots")
    assert whole.effects[0].throughput is not None


@pytest.mark.slow
def test_a_word_that_the_sum_only_makes_larger_has_the_typical_turns_p_value(
    tmp_path: Path,
) -> None:
    drawn = random.Random(3)

    def a_little(variant: str, _case: str, _now_s: float) -> float:
        slow = 1.008 * (1.06 if drawn.random() < 0.1 else 1.0) if variant == "mine" else 1.0
        return 5e-6 * slow * (1 + 0.002 * drawn.gauss(0, 1))

    (effect,) = verdict_by(a_little, tmp_path).effects
    assert effect.throughput.decides and not effect.throughput.tail
    assert effect.verdict == "slower" and effect.p_value is not None and effect.p_value < 0.001


@pytest.mark.slow
def test_a_run_whose_every_twentieth_turn_is_slow_says_so(tmp_path: Path) -> None:
    """What people read of such a run is in golden/recorded/tail.*"""
    verdict = verdict_by(every_twentieth, tmp_path)
    (effect,) = verdict.effects
    assert effect.ratio == pytest.approx(1.0, abs=0.01)
    assert effect.throughput.ratio == pytest.approx(1 / 1.05, abs=0.04)
    assert effect.throughput.tail and effect.throughput.decides
    assert effect.verdict == "slower" and not effect.equivalent_too
    (flag,) = [flag for flag in verdict.flags if flag.kind == "tail"]
    assert (flag.variant, flag.case) == ("mine", PIPE.name)
    assert Verdict.from_json(verdict.to_json()) == verdict


def test_the_median_rate_or_time_is_told_apart_from_what_a_program_printed() -> None:
    manifest = manifest_of(bench(lambda *_: 5e-6, variants=("stock", "mine")))
    (case,) = manifest.cases
    # Rates of 1, 1 and 1/2 per ns: together 3 in 4 ns.
    reps = ((1000.0, 1000.0), (1000.0, 1000.0), (1000.0, 2000.0))
    for score, sums in ((case.scale * 1e9, [math.log(0.75)]), (123.0, [math.nan])):
        gathering = Samples()
        for variant, own in (("stock", ((1000.0, 1000.0),) * 3), ("mine", reps)):
            sample = Sample(suite=case.suite, case=case.case, score=score, reps=own)
            job = BootJob(index=0, block=0, variant=variant)
            gathering.add(BootRecord(job=job, host=BootHost(status="ok"), samples=(sample,)))
        sums_of = Pair(gathering, manifest, case, "mine").log_sums
        assert sums_of == pytest.approx(sums, nan_ok=True)
    # A time of a second an operation is a rate of one a second, and no rate.
    seconds = case.model_copy(update={"better": "lower", "scale": 1.0})
    gathering = Samples()
    for variant, ns in (("stock", 1e9), ("mine", 1.012e9)):
        slow = Sample(suite=case.suite, case=case.case, score=ns / 1e9, reps=((1.0, ns),) * 3)
        job = BootJob(index=0, block=0, variant=variant)
        gathering.add(BootRecord(job=job, host=BootHost(status="ok"), samples=(slow,)))
    longer = Pair(gathering, manifest, seconds, "mine")
    assert longer.log_sums == pytest.approx([math.log(1.012)]) == longer.log_ratios


def test_a_run_ends_when_sums_are_as_narrow_as_what_matters() -> None:
    narrow, wide = ([effect_of_differences(scatter(0.0, sd, 1))] for sd in (0.002, 0.06))
    typical = enough(narrow, 24, 0.005)
    assert typical.enough
    together = both(typical, enough(wide, 24, 0.01))
    assert not together.enough and (together.predicted_blocks or 0) > 24
    assert both(typical, enough(narrow, 24, 0.01)) == typical
    assert both(typical, enough([], 24, 0.01)).predicted_blocks is None


@pytest.mark.slow
def test_equal_kernels_have_a_sum_and_no_flag(tmp_path: Path) -> None:
    verdict = verdict_by(lambda _variant, _case, _now_s: 5e-6, tmp_path)
    (effect,) = verdict.effects
    assert effect.throughput.ratio == pytest.approx(1.0, abs=1e-6)
    assert not effect.throughput.tail and effect.verdict == "equivalent"
    assert not [flag for flag in verdict.flags if flag.kind == "tail"]
