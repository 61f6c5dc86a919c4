# SPDX-License-Identifier: MIT
"""The values of a run that are compared within a block.

A block of whole boots has one score for each variant, and the ratio of two is computed here. Where
variants took turns the group's own ratio, a robust location of its rounds' ratios, goes before the
scores."""

from __future__ import annotations

import math
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kdyno.stats.effect import (
    Floats,
    PairedEffect,
    effect_of_differences,
    exact_effect,
    mean_of,
)
from kdyno.stats.groups import errors_of, locations_of, nested, precisions, spread
from kdyno.stats.verdict import (
    Claim,
    Judgement,
    Summed,
    effects_and_family,
    log_mean_speed,
    slow_share,
)
from kdyno.store.manifest import CaseInfo, Manifest
from kdyno.store.samples import Key, Samples
from kdyno.store.verdict import LinkSpread, Quantile, RoundSpread, Throughput

CONFIRMED_BOOTS = 3
"""Of either kernel, all with the same count: two of them had other memory and random numbers."""
CLOCK_INSTRUCTIONS = 100
"""Of reading the clock at both ends of a part, at most: a kernel that reads it by another path has
that much more or less in every part, whatever the case does."""
SURE = 0.999
"""Of the interval of a difference of shares: there are many of them."""
_FEWEST = 4
"""Rounds that must be left where others are left out."""
_SAME_MEDIAN = 0.05
"""The median of an even number of times is not the inverse of that of their rates."""
_SIGNS = {"higher": 1.0, "lower": -1.0}
"""A time goes down where a rate goes up."""


@dataclass(frozen=True)
class Pair:
    """A variant and the baseline in one case. Arrays have the shape (blocks,), NaN where a block
    has no value; each is computed once and kept."""

    data: Samples
    manifest: Manifest
    case: CaseInfo
    variant: str

    @cached_property
    def keys(self) -> tuple[Key, Key]:
        return (*self.case.key, self.manifest.baseline), (*self.case.key, self.variant)

    @property
    def key(self) -> Key:
        return self.keys[1]

    @cached_property
    def block_log_ratios(self) -> Floats:
        """log(variant ÷ baseline) in every block of the run."""
        before, after = self._log_scores
        ratios = after - before
        if self.manifest.counted and not self.exact:
            # Nothing is left out of a count that has an interval.
            return ratios + np.where(np.isfinite(self._beside), self._beside, 0.0)
        for block, (ratio, _) in self._located.items():
            ratios[block] = ratio
        return ratios

    @cached_property
    def log_ratios(self) -> Floats:
        """Values that are independent of each other.

        A block's; where kernels were linked several times the mean of the blocks of one link, in
        the place of its first: they have the accident of that link in common, and more of them say
        nothing of another link. So an interval over the means is over layouts too, whatever the
        shares of layout and boot (the usual summary of clusters, exact where each has as many
        blocks)."""
        return self._over_links(self.block_log_ratios)

    def differences(self, blocks: int | None = None, apart: bool = False) -> Floats:
        """``log_ratios`` of the first ``blocks`` only, where there is one: shape (n,)."""
        ratios = self.block_log_ratios[:blocks]
        ratios = ratios if apart else self._over_links(ratios)
        return np.asarray(ratios[np.isfinite(ratios)], dtype=np.float64)

    def claim(self, noise_floor: float | None = None) -> Claim:
        """What is to be judged: log(variant ÷ baseline) in every replicate, with its weight."""
        # Of links and of machines each counts alike: what they differ by is no group's own error.
        weights = None
        if self._located and not self.data.links and len(set(self.data.machines.values())) < 2:
            off = [self._located.get(at, (0.0, math.nan))[1] for at in range(self.data.blocks)]
            weights = precisions(self.log_ratios, np.array(off))
        better = self.case.better
        return Claim(self.log_ratios, better, noise_floor, self.exact, self.resolution, weights)

    def effect(self) -> PairedEffect:
        (effect,), _, _ = effects_and_family([self.claim()], self.manifest.asked.confidence)
        return effect

    def ranked(self, blocks: int | None = None, apart: bool = False) -> PairedEffect:
        """The same by ranks, which the stopping rule uses; of the first ``blocks`` only.

        apart: blocks of one link each by itself."""
        own = self.differences(blocks, apart)
        if self.exact:
            return exact_effect(own) if len(own) else PairedEffect(0)
        return effect_of_differences(own, self.manifest.asked.confidence)

    def ranked_sum(self, blocks: int | None = None, apart: bool = False) -> PairedEffect | None:
        """The same by summed times; None unless every one of the blocks has a sum."""
        sums = self._block_log_sums[:blocks]
        sums = sums if apart else self._over_links(sums)
        own = sums[np.isfinite(sums)]
        if not 0 < len(own) == len(self.differences(blocks, apart)):
            return None
        return effect_of_differences(own, self.manifest.asked.confidence)

    @cached_property
    def scores(self) -> Floats:
        """The variant's score in each replicate, in the case's unit.

        Where both took turns it is the baseline's score times the group's ratio."""
        baseline, own = (array.copy() for array in self._log_scores)
        if self.manifest.counted and not self.exact:
            own += np.where(np.isfinite(self._beside), self._beside, 0.0)
        for block, (ratio, _) in self._located.items():
            own[block] = baseline[block] + ratio
        # Of the same blocks for every variant, for what drifts must cancel.
        return np.exp(self._over_links(own, np.isfinite(baseline)))

    @cached_property
    def _log_scores(self) -> tuple[Floats, Floats]:
        """Baseline's and variant's."""
        logs = np.full((2, self.data.blocks), np.nan)
        for row, key in enumerate(self.keys):
            for block, score in self.data.scores.get(key, {}).items():
                logs[row, block] = math.log(score)
        return logs[0], logs[1]

    def _over_links(self, values: Floats, counted: NDArray[np.bool_] | None = None) -> Floats:
        """``counted``: the blocks that a mean is taken of, by default all with a value; the mean
        is NaN where one of them has none."""
        if not self.data.links:
            return values
        counted = np.isfinite(values) if counted is None else counted
        means = np.full(len(values), np.nan)
        for link in set(self.data.links.values()):
            blocks = sorted(block for block, own in self.data.links.items() if own == link)
            if own := [block for block in blocks if block < len(values) and counted[block]]:
                means[blocks[0]] = np.mean(values[own])
        return means

    # Guests that took turns.

    @cached_property
    def _located(self) -> dict[int, tuple[float, float]]:
        """Block → its group's ratio and standard error. A group that was measured does not change,
        so they are computed once, however often the run is looked at."""
        groups = self.data.located.setdefault((*self.keys[0], self.variant), {})
        new = dict(self.rounds(groups))
        if new:
            logs = list(new.values())
            values, off = locations_of(logs).tolist(), errors_of(logs).tolist()
            groups.update(zip(new, zip(values, off, strict=True), strict=True))
        return groups

    def spread(self) -> RoundSpread | None:
        """How far rounds and groups lie apart; None where too few guests took turns."""
        levels = spread([logs for _, logs in self.rounds()])
        return None if levels is None else RoundSpread.model_validate(levels, from_attributes=True)

    # Sums and quantiles.

    @property
    def log_sums(self) -> Floats:
        """As ``log_ratios`` by summed times instead of typical ones: NaN where a block has none,
        such as a boot of one repetition. All NaN for counts.

        Of a group all rounds; of whole boots all repetitions."""
        return self._over_links(self._block_log_sums)

    @cached_property
    def _block_log_sums(self) -> Floats:
        own = np.full(self.data.blocks, np.nan)
        if self.manifest.counted:
            return own
        sign = _SIGNS[self.case.better]
        groups = self.data.summed.setdefault((*self.keys[0], self.variant), {})
        for block, logs in self._all_time(groups):
            before, after = map(log_mean_speed, logs)
            groups[block] = sign * (after - before)
        totals = [self.data.totals.get(key, {}) for key in self.keys]
        for block in totals[0].keys() & totals[1].keys():
            if all(
                self._is_of_repetitions(self.data.scores[key][block], of[block][0])
                for key, of in zip(self.keys, totals, strict=True)
            ):
                own[block] = sign * (totals[1][block][1] - totals[0][block][1])
        for block, ratio in groups.items():
            own[block] = ratio
        # Only blocks that the typical turn has too: the two are compared.
        own[np.isnan(self.block_log_ratios)] = np.nan
        return own

    def _is_of_repetitions(self, score: float, middle: float) -> bool:
        """Whether the score is what ``score_of`` makes of them, and no program's own figure: the
        median rate where higher is better, else the median time. ``middle``: log operations per
        nanosecond."""
        speed = _SIGNS[self.case.better] * (middle + math.log(1e9))
        return abs(math.log(score / self.case.scale) - speed) < _SAME_MEDIAN

    def slow_turns(self) -> float | None:
        """Share of the variant's turns that are far slower than its typical one, beyond the
        baseline's share; negative where the baseline has more. None where no turns were taken."""
        shares = [slow_share(logs[1]) - slow_share(logs[0]) for _, logs in self._all_time()]
        return float(np.mean(shares)) if shares else None

    def log_quantiles(self) -> dict[str, Floats]:
        """Figure such as ``p99_ms`` → log(variant ÷ baseline) in every replicate."""
        before, after = (self.data.quantiles.get(key, {}) for key in self.keys)
        ratios: dict[str, Floats] = {}
        for name in sorted(before.keys() & after.keys()):
            own = np.full(self.data.blocks, np.nan)
            for block in after[name].keys() & before[name].keys():
                own[block] = math.log(after[name][block] / before[name][block])
            ratios[name] = self._over_links(own)
        return ratios

    # Counts.

    @cached_property
    def exact(self) -> bool:
        """Whether both kernels' counts are the same in every boot, so that nothing is estimated.

        With fewer than CONFIRMED_BOOTS in each boot's own parts as well: ``Samples.even``. And the
        mean of all parts gives the same effect as what most of them agree in."""
        return self._alike and not self.hides_work

    @cached_property
    def hides_work(self) -> bool:
        """Whether the score, which most parts agree in, leaves out a difference of the others.

        What is done in few parts (a tick, a refill of a list) is not in it. The means of all parts
        may differ by one such occurrence, for it falls into the counted time or beside it."""
        if not self._alike:
            return False
        own = [self.data.parts.get(key, {}) for key in self.keys]
        once = [max(of[block][1] for of in own) for block in own[0].keys() & own[1].keys()]
        if not once:
            return False
        return abs(float(np.nanmedian(self._beside))) > float(np.median(once)) + self.resolution

    @cached_property
    def _alike(self) -> bool:
        """Both kernels' scores are the same in every boot, and some block has both."""
        before, after = self._log_scores
        if not self.manifest.counted or not np.isfinite(after - before).any():
            return False
        for key in self.keys:
            scores, even = self.data.scores.get(key, {}), self.data.even.get(key, set())
            if len(scores) < self.manifest.asked.exact_boots or len(set(scores.values())) != 1:
                return False
            if len(scores) < CONFIRMED_BOOTS and not scores.keys() <= even:
                return False
        return True

    @cached_property
    def _beside(self) -> Floats:
        """What the log ratio of the means has more than that of the scores."""
        beside = np.full(self.data.blocks, np.nan)
        baseline, own = (self.data.parts.get(key, {}) for key in self.keys)
        before, after = (self.data.scores.get(key, {}) for key in self.keys)
        for block in own.keys() & baseline.keys():
            means = own[block][0] / baseline[block][0]
            beside[block] = math.log(means / (after[block] / before[block]))
        return beside

    @property
    def resolution(self) -> float:
        """|log ratio| below which a difference of counts may be the clock's own; 0 for times."""
        scores = self.data.scores.get(self.keys[0])
        if not self.manifest.counted or not scores or not self.case.operations:
            return 0.0
        return CLOCK_INSTRUCTIONS / (min(scores.values()) * self.case.operations)

    def counts_ratio(self, *, whole: bool) -> float | None:
        """Of counts, variant ÷ baseline, the median of the boots: by the means of all parts
        (``whole``), or by what most parts agree in."""
        before, after = self._log_scores
        ratios = after - before + (self._beside if whole else 0.0)
        ratios = ratios[np.isfinite(ratios)]
        return math.exp(float(np.median(ratios))) if self.manifest.counted and len(ratios) else None

    # Several links.

    @cached_property
    def links(self) -> LinkSpread | None:
        """How far links of the kernels lie apart; None where fewer than two were measured."""
        values = self.block_log_ratios
        blocks = [block for block in sorted(self.data.links) if np.isfinite(values[block])]
        levels = nested(values[blocks], [self.data.links[block] for block in blocks])
        if levels is None:
            return None
        boot, explained = levels.within, None
        if boot is not None and (turns := self.spread()) is not None:
            explained = min(boot, math.sqrt(max(0.0, turns.of_group**2 - turns.between**2)))
            boot = math.sqrt(boot**2 - explained**2)
        return LinkSpread(
            links=levels.links,
            layout=levels.between,
            boot=boot,
            round=explained,
            one_link=math.expm1(levels.further),
            worst=math.exp(levels.worst),
            worst_alone=levels.worst_alone
            and abs(levels.worst) > math.log1p(self.manifest.asked.equivalent),
        )

    # The rounds of a group, as (block, figures of each round) for the blocks in which both took
    # turns.

    def rounds(self, skip: Container[int] = ()) -> Iterator[tuple[int, Floats]]:
        """Log ratio of the scores in the rounds that count, but for the blocks in ``skip``.

        A round in which either guest waited for the CPU shows what else ran on the machine: it is
        left out, if enough are left. What the ratio is has no part in that."""
        for block, logs, spent in self._speeds(skip):
            ratios = _SIGNS[self.case.better] * (logs[1] - logs[0])
            yield block, undisturbed(ratios, np.any(spent > logs, axis=0))

    def _all_time(self, skip: Container[int] = ()) -> Iterator[tuple[int, Floats]]:
        """Log speeds, shape (baseline and variant, rounds), in every round, without the time that
        a guest waited for the CPU.

        A slow turn is longer than others, so that it is more often interrupted: left out as in
        ``rounds`` it would be missing from the sum. What a kernel does in it is CPU time."""
        for block, logs, spent in self._speeds(skip):
            if np.count_nonzero(np.all(spent <= logs, axis=0)) >= _FEWEST:
                logs = np.maximum(logs, spent)
            yield block, logs

    def _speeds(self, skip: Container[int] = ()) -> Iterator[tuple[int, Floats, Floats]]:
        """(block, log speeds by the clock, by CPU time), both of shape (baseline and variant,
        rounds). Where CPU time is not known, or says nothing, it is the clock's."""
        for block, logs, spent in self._times(skip):
            yield block, logs, spent if self._wait_alike else logs

    def _times(self, skip: Container[int] = ()) -> Iterator[tuple[int, Floats, Floats]]:
        """As they were recorded."""
        clocks = [self.data.rounds.get(key, {}) for key in self.keys]
        cpus = [self.data.spent.get(key, {}) for key in self.keys]
        for block in sorted(clocks[0].keys() & clocks[1].keys()):
            count = min(len(of[block]) for of in clocks)
            if block in skip or not count:
                continue
            logs = np.array([np.asarray(of[block])[:count] for of in clocks])
            counted = all(len(of.get(block, ())) >= count for of in cpus)
            spent = np.array([np.asarray(of[block])[:count] for of in cpus]) if counted else logs
            yield block, logs, spent

    @cached_property
    def _wait_alike(self) -> bool:
        """Whether both guests were without the CPU equally often. What else runs on the machine
        takes it from both; a kernel under which the guest sleeps loses that time by itself."""
        lost = [
            np.mean(1 - np.exp(np.minimum(logs - spent, 0.0)), axis=1)
            for _block, logs, spent in self._times()
            if spent is not logs
        ]
        apart = [float(mine - stock) for stock, mine in lost]
        shift = mean_of([each for each in apart if math.isfinite(each)], SURE)
        return not (shift.clear and abs(shift.mean) > self.manifest.asked.equivalent / 4)


@dataclass(frozen=True)
class Judged:
    pair: Pair
    judgement: Judgement
    p_value: float | None = None
    summed: Summed | None = None
    quantiles: tuple[Quantile, ...] = ()


def figures_of(
    judged: Judgement, summed: Summed | None = None, slow_turns: float | None = None
) -> dict[str, Any]:
    """What the records of effects, groups and factors have in common."""

    def ratios(own: Judgement) -> dict[str, Any]:
        return {"ratio": own.effect.ratio, "ci": own.ci, "ci_raw": own.effect.ci}

    throughput = summed and Throughput(
        **ratios(summed.judgement), tail=summed.tail, decides=summed.decides, slow_turns=slow_turns
    )
    return {
        **ratios(judged),
        "throughput": throughput,
        "blocks": judged.effect.n,
        "verdict": judged.word,
        "equivalent_too": judged.equivalent_too,
        "predicted_blocks": judged.predicted_blocks,
    }


def pairs_of(data: Samples, manifest: Manifest, variants: Sequence[str]) -> list[Pair]:
    return [Pair(data, manifest, case, name) for name in variants for case in manifest.cases]


def undisturbed(logs: Floats, waited: NDArray[np.bool_]) -> Floats:
    """Shape (rounds,) to (rounds left,): without those in which a guest waited for the CPU."""
    free = ~waited
    return logs[free] if np.count_nonzero(free) >= _FEWEST else logs
