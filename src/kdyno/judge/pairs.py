# SPDX-License-Identifier: MIT
"""The one place where the values that are compared within a block come from.

A block of whole boots has one score for each variant, and the ratio of two is computed here. Where
variants took turns the group's own ratio, a robust location of its rounds' ratios, goes before the
scores.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterator

import numpy as np
from numpy.typing import NDArray

from kdyno.judge.question import Question
from kdyno.stats.effect import PairedEffect, effect_of_differences, exact_effect
from kdyno.stats.groups import errors_of, locations_of, nested, precisions, spread
from kdyno.stats.signedrank import Floats
from kdyno.stats.throughput import log_mean_speed, slow_share
from kdyno.stats.verdict import Claim, raw_effects
from kdyno.store.manifest import CaseInfo
from kdyno.store.samples import Samples
from kdyno.store.verdict import LinkSpread, RoundSpread


def log_ratios(
    data: Samples, question: Question, case: CaseInfo, variant: str, blocks: int | None = None
) -> Floats:
    """log(variant ÷ baseline) in every replicate that has it: shape (n,), all finite; of the first
    ``blocks`` only."""
    found = block_log_ratios(data, question, case, variant)[:blocks]
    found = _over_links(found, data, np.isfinite(found))
    return np.asarray(found[np.isfinite(found)], dtype=np.float64)


def claim_of(
    data: Samples,
    question: Question,
    case: CaseInfo,
    variant: str,
    noise_floor: float | None = None,
) -> Claim:
    """What is to be judged: log(variant ÷ baseline) in every replicate, and what each is worth."""
    ratios = replicate_log_ratios(data, question, case, variant)
    located = _located(data, case, question.baseline, variant)
    # Of links and of machines each counts alike: what they differ by is no group's own error.
    weighted = located and not data.links and len(set(data.machines.values())) < 2
    off = np.array([located.get(block, (0.0, math.nan))[1] for block in range(data.blocks)])
    return Claim(
        ratios,
        case.better,
        noise_floor,
        is_exact(data, question, case, variant),
        resolution_of(data, question, case),
        precisions(ratios, off) if weighted else None,
    )


def replicate_log_ratios(data: Samples, question: Question, case: CaseInfo, variant: str) -> Floats:
    """Values that are independent of each other, shape (blocks,), NaN where there is none.

    A block's; where kernels were linked several times the mean of the blocks of one link, in the
    place of its first: they have the accident of that link in common, and more of them say nothing
    of another link. So an interval over the means is over layouts too, whatever the shares of
    layout and boot (the usual summary of clusters, exact where each has as many blocks).
    """
    found = block_log_ratios(data, question, case, variant)
    return _over_links(found, data, np.isfinite(found))


def _over_links(values: Floats, data: Samples, counted: NDArray[np.bool_]) -> Floats:
    """``counted``: the blocks that a mean is taken of; one without a value has none."""
    if not data.links:
        return values
    found = np.full(len(values), np.nan)
    for link in set(data.links.values()):
        blocks = sorted(block for block, own in data.links.items() if own == link)
        if own := [block for block in blocks if block < len(values) and counted[block]]:
            found[blocks[0]] = np.mean(values[own])
    return found


def block_log_ratios(data: Samples, question: Question, case: CaseInfo, variant: str) -> Floats:
    """The same for every block of the run: shape (blocks,), NaN where there is none."""
    found = _log_scores(data, case, variant) - _log_scores(data, case, question.baseline)
    if question.counted and hides_work(data, question, case, variant):
        return found + _beside(data, case, question.baseline, variant)
    for block, (ratio, _) in _located(data, case, question.baseline, variant).items():
        found[block] = ratio
    return found


def _located(
    data: Samples, case: CaseInfo, baseline: str, variant: str
) -> dict[int, tuple[float, float]]:
    """Block → its group's ratio and standard error. A group that was measured does not change, so
    they are worked out once, however often the run is looked at."""
    known = data.located.setdefault((case.suite, case.case, baseline, variant), {})
    new = list(rounds(data, case, baseline, variant, known))
    if new:
        places = [block for block, _ in new]
        logs = [logs for _, logs in new]
        values, off = locations_of(logs).tolist(), errors_of(logs).tolist()
        known.update(zip(places, zip(values, off, strict=True), strict=True))
    return known


def log_sums(data: Samples, question: Question, case: CaseInfo, variant: str) -> Floats:
    """As ``replicate_log_ratios`` by summed times instead of typical ones: shape (blocks,), NaN
    where a block has none, such as a boot of one repetition. All NaN for counts.

    Of a group all rounds; of whole boots all repetitions.
    """
    if question.counted:
        return np.full(data.blocks, np.nan)
    names = (question.baseline, variant)
    groups = data.summed.setdefault((case.suite, case.case, *names), {})
    for block, logs in _all_time(data, case, *names, skip=groups):
        before, after = map(log_mean_speed, logs)
        groups[block] = _SIGNS[case.better] * (after - before)
    own = np.full(data.blocks, np.nan)
    totals = [data.totals.get((case.suite, case.case, name), {}) for name in names]
    for block in totals[0].keys() & totals[1].keys():
        signs = {
            _sign_of(data.scores[case.suite, case.case, name][block], of[block][0], case)
            for name, of in zip(names, totals, strict=True)
        }
        if signs in ({1.0}, {-1.0}):
            own[block] = signs.pop() * (totals[1][block][1] - totals[0][block][1])
    for block, ratio in groups.items():
        own[block] = ratio
    # Only blocks that the typical turn has too: the two are compared.
    own[np.isnan(block_log_ratios(data, question, case, variant))] = np.nan
    return _over_links(own, data, np.isfinite(own))


def _sign_of(score: float, middle: float, case: CaseInfo) -> float:
    """1 where the score is the median rate of the repetitions, −1 where it is their median time; 0
    where it is neither, because a program said it. ``middle``: log operations per nanosecond."""
    for sign in (1.0, -1.0):
        expected = math.log(case.scale) + sign * (middle + math.log(1e9))
        if abs(math.log(score) - expected) < _SAME_MEDIAN:
            return sign
    return 0.0


_SAME_MEDIAN = 0.05
"""The median of an even number of times is not the inverse of that of their rates."""


def slow_turns(data: Samples, question: Question, case: CaseInfo, variant: str) -> float | None:
    """Share of the variant's turns that are far slower than its typical one, beyond the
    baseline's share; negative where the baseline has more. None where nobody took turns."""
    found = [
        slow_share(logs[1]) - slow_share(logs[0])
        for _, logs in _all_time(data, case, question.baseline, variant)
    ]
    return float(np.mean(found)) if found else None


def log_quantiles(
    data: Samples, question: Question, case: CaseInfo, variant: str
) -> dict[str, Floats]:
    """Figure such as ``p99_ms`` → log(variant ÷ baseline) in every replicate, NaN without one."""
    before, after = (
        data.quantiles.get((case.suite, case.case, name), {})
        for name in (question.baseline, variant)
    )
    found: dict[str, Floats] = {}
    for name in sorted(before.keys() & after.keys()):
        own = found[name] = np.full(data.blocks, np.nan)
        for block in after[name].keys() & before[name].keys():
            own[block] = math.log(after[name][block] / before[name][block])
        found[name] = _over_links(own, data, np.isfinite(own))
    return found


def scores(data: Samples, question: Question, case: CaseInfo, variant: str) -> Floats:
    """One score for each replicate of the run, in the case's unit; NaN where there is none.

    Where both took turns it is the baseline's score times the group's ratio.
    """
    found = _log_scores(data, case, variant)
    baseline = _log_scores(data, case, question.baseline)
    for block, (ratio, _) in _located(data, case, question.baseline, variant).items():
        found[block] = baseline[block] + ratio
    # Of the same blocks for every variant, for what drifts must cancel.
    return np.exp(_over_links(found, data, np.isfinite(baseline)))


_FEWEST = 4
"""Rounds that must be left where others are left out."""


def rounds(
    data: Samples, case: CaseInfo, baseline: str, variant: str, skip: Container[int] = ()
) -> Iterator[tuple[int, Floats]]:
    """(block, log ratio of the scores in the rounds that count), where both took turns; but for
    the blocks in ``skip``.

    A round in which either guest waited for the CPU says what else ran on the machine: it is left
    out, if enough are left. What the ratio is has no part in that.
    """
    for block, logs, spent in _speeds(data, case, baseline, variant, skip):
        ratios = _SIGNS[case.better] * (logs[1] - logs[0])
        yield block, undisturbed(ratios, np.any(spent > logs, axis=0))


def undisturbed(logs: Floats, waited: NDArray[np.bool_]) -> Floats:
    """Shape (rounds,) to (rounds left,): without those in which a guest waited for the CPU."""
    free = ~waited
    return logs[free] if np.count_nonzero(free) >= _FEWEST else logs


def all_rounds(
    data: Samples, case: CaseInfo, baseline: str, variant: str, skip: Container[int] = ()
) -> Iterator[tuple[int, Floats]]:
    """The same of every round, by its number."""
    for block, logs, _ in _speeds(data, case, baseline, variant, skip):
        yield block, _SIGNS[case.better] * (logs[1] - logs[0])


_SIGNS = {"higher": 1.0, "lower": -1.0}
"""A time goes down where a rate goes up."""


def _speeds(
    data: Samples, case: CaseInfo, baseline: str, variant: str, skip: Container[int]
) -> Iterator[tuple[int, Floats, Floats]]:
    """(block, log speeds by the clock, by CPU time), both of shape (baseline and variant, rounds).

    Where CPU time is not known it is the clock's.
    """
    keys = [(case.suite, case.case, name) for name in (baseline, variant)]
    clocks = [data.rounds.get(key, {}) for key in keys]
    cpus = [data.spent.get(key, {}) for key in keys]
    for block in sorted(it for it in clocks[0].keys() & clocks[1].keys() if it not in skip):
        count = min(len(of[block]) for of in clocks)
        if count:
            logs = np.array([np.asarray(of[block])[:count] for of in clocks])
            known = all(len(of.get(block, ())) >= count for of in cpus)
            spent = np.array([np.asarray(of[block])[:count] for of in cpus]) if known else logs
            yield block, logs, spent


def _all_time(
    data: Samples, case: CaseInfo, baseline: str, variant: str, skip: Container[int] = ()
) -> Iterator[tuple[int, Floats]]:
    """(block, log speeds of shape (baseline and variant, rounds)) in every round, without the time
    that a guest waited for the CPU.

    A slow turn is longer than others, so that it is more often interrupted: left out as in
    ``rounds`` it would be missing from the sum. What a kernel does in it is CPU time.
    """
    for block, logs, spent in _speeds(data, case, baseline, variant, skip):
        if np.count_nonzero(np.all(spent <= logs, axis=0)) >= _FEWEST:
            logs = np.maximum(logs, spent)
        yield block, logs


CONFIRMED_BOOTS = 3
"""Of either kernel, all with the same count: two of them had memory and random numbers drawn."""


def is_exact(data: Samples, question: Question, case: CaseInfo, variant: str) -> bool:
    """Whether both kernels' counts are the same in every boot, so that nothing is estimated.

    With fewer than CONFIRMED_BOOTS in each boot's own parts as well: ``Samples.even``. And the mean
    of all parts says the same of the effect as what most of them agree in.
    """
    return _alike(data, question, case, variant) and not hides_work(data, question, case, variant)


def hides_work(data: Samples, question: Question, case: CaseInfo, variant: str) -> bool:
    """Whether the score, which most parts agree in, leaves out a difference of the others.

    What is done in few parts (a tick, a refill of a list) is not in it. The means of all parts may
    differ by one such occurrence, for it falls into the counted time or beside it.
    """
    if not _alike(data, question, case, variant):
        return False
    beside = _beside(data, case, question.baseline, variant)
    names = (question.baseline, variant)
    own = [data.parts.get((case.suite, case.case, name), {}) for name in names]
    once = [max(it[block][1] for it in own) for block in sorted(own[0].keys() & own[1].keys())]
    if not once:
        return False
    most = float(np.median(once)) + resolution_of(data, question, case)
    return abs(float(np.nanmedian(beside))) > most


def _beside(data: Samples, case: CaseInfo, baseline: str, variant: str) -> Floats:
    """What the log ratio of the means has more than that of the scores: shape (blocks,)."""
    found = np.full(data.blocks, np.nan)
    own, theirs = (
        (data.parts.get(key, {}), data.scores.get(key, {}))
        for key in ((case.suite, case.case, name) for name in (variant, baseline))
    )
    for block in own[0].keys() & theirs[0].keys():
        means = own[0][block][0] / theirs[0][block][0]
        found[block] = math.log(means / (own[1][block] / theirs[1][block]))
    return found


def _alike(data: Samples, question: Question, case: CaseInfo, variant: str) -> bool:
    """Both kernels' scores are the same in every boot."""
    if not question.counted:
        return False
    for name in (question.baseline, variant):
        key = (case.suite, case.case, name)
        scores = data.scores.get(key, {})
        if len(scores) < question.exact_boots or len(set(scores.values())) != 1:
            return False
        if len(scores) < CONFIRMED_BOOTS and not scores.keys() <= data.even.get(key, set()):
            return False
    return True


CLOCK_INSTRUCTIONS = 100
"""Of reading the clock at both ends of a part, at most: a kernel that reads it by another path has
that much more or less in every part, whatever the case does."""


def resolution_of(data: Samples, question: Question, case: CaseInfo) -> float:
    """|log ratio| below which a difference of counts may be the clock's own; 0 for times."""
    scores = list(data.scores.get((case.suite, case.case, question.baseline), {}).values())
    if not question.counted or not scores or not case.operations:
        return 0.0
    return CLOCK_INSTRUCTIONS / (min(scores) * case.operations)


def effect_of(data: Samples, question: Question, case: CaseInfo, variant: str) -> PairedEffect:
    """The variant's raw effect on one case."""
    return raw_effects([claim_of(data, question, case, variant)], question.confidence)[0]


def ranked_effect(
    data: Samples, question: Question, case: CaseInfo, variant: str, blocks: int | None = None
) -> PairedEffect:
    """The same by ranks, which the stopping rule goes by; of the first ``blocks`` only."""
    differences = log_ratios(data, question, case, variant, blocks)
    how = exact_effect if is_exact(data, question, case, variant) else effect_of_differences
    return how(differences, question.confidence)


def parts_ratio(data: Samples, question: Question, case: CaseInfo, variant: str) -> float | None:
    """Of counts, variant ÷ baseline by the means of all parts, the median of the boots."""
    if not question.counted:
        return None
    scores = _log_scores(data, case, variant) - _log_scores(data, case, question.baseline)
    found = scores + _beside(data, case, question.baseline, variant)
    found = found[np.isfinite(found)]
    return math.exp(float(np.median(found))) if len(found) else None


def spread_of(
    data: Samples, question: Question, case: CaseInfo, variant: str
) -> RoundSpread | None:
    """How far rounds and groups lie apart; None where too few guests took turns."""
    found = spread([logs for _, logs in rounds(data, case, question.baseline, variant)])
    if found is None:
        return None
    return RoundSpread(
        within=found.within, between=found.between, of_group=found.of_value, rounds=found.rounds
    )


def links_of(data: Samples, question: Question, case: CaseInfo, variant: str) -> LinkSpread | None:
    """How far links of the kernels lie apart; None where fewer than two were measured."""
    values = block_log_ratios(data, question, case, variant)
    blocks = [block for block in sorted(data.links) if np.isfinite(values[block])]
    found = nested(values[blocks], [data.links[block] for block in blocks])
    if found is None:
        return None
    boot, explained = found.within, None
    if boot is not None and (rounds := spread_of(data, question, case, variant)) is not None:
        explained = min(boot, math.sqrt(max(0.0, rounds.of_group**2 - rounds.between**2)))
        boot = math.sqrt(boot**2 - explained**2)
    return LinkSpread(
        links=found.links,
        layout=found.between,
        boot=boot,
        round=explained,
        one_link=math.expm1(found.further),
        worst=math.exp(found.worst),
        worst_alone=found.worst_alone and abs(found.worst) > math.log1p(question.equivalent),
    )


def _log_scores(data: Samples, case: CaseInfo, variant: str) -> Floats:
    """Shape (blocks,), NaN where there is no score."""
    found = np.full(data.blocks, np.nan)
    for block, score in data.scores.get((case.suite, case.case, variant), {}).items():
        found[block] = math.log(score)
    return found
