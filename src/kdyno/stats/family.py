# SPDX-License-Identifier: MIT
"""All effects of a run at once: tests and intervals by flipping the signs of blocks.

Where two kernels are the same, a block's log ratios might as well have had the other sign. So the
signs of whole blocks are flipped, all effects of a block together, and what the largest statistic
of the run does then is what it does by chance (Westfall & Young, Resampling-based multiple testing,
1993, step-down maxT). That needs no level divided by the number of effects: six blocks have 32
patterns of signs, enough for 5 % over any number of effects, and effects that share a baseline or a
boot cost less than independent ones.

The statistic is the sum of Huber's scores divided by the root of their squares (Huber, Robust
statistics, 1981; self-normalised as Student's t is). Its scale is the median distance from the
value that is tested. Neither that nor a block's weight knows a sign, so that the test of one effect
is exact for every distribution that is symmetric, at any number of blocks.

Arrays end in (effects, blocks), NaN where an effect has no value; axes before them are families of
their own, all judged at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .effect import FEWEST_BLOCKS, Floats

CLIP = 1.5
"""Standard deviations from which on a block counts no more: 96 % as good as a mean for normal ones,
and one block in three may be anything."""
PATTERNS = 1024
"""Of signs: all of them up to 11 blocks, else random ones with a fixed seed. More, by powers of two
up to FINE, where a level is below 1 in so many: it could refuse nothing."""
FINE = 131_072
"""At most; and for a p-value that none of these reaches: it is told apart from others that small,
which a gate with a history needs. All patterns of up to 18 blocks."""
EXACT_UP_TO = 16
"""Blocks up to which an interval's ends are tested by flips of their own. Beyond, the limit that
holds at the estimate holds everywhere."""
WEIGHED_FROM = 14
"""Blocks from which on weights count in full; not at all at FEWEST_BLOCKS."""
_STEPS = 16
_ROWS = 1024
"""Patterns drawn at a time. Multiples of 4 give the numbers that one draw would: small ones
come four from a word, and the rest of a word is thrown away."""
_TINY = 1e-300
_SLACK = 1e-6
"""Of single precision: patterns that tie count against a difference."""
_MAD_TO_SD = 1.4826

Flags = NDArray[np.bool_]


@cache
def patterns(blocks: int, most: int = PATTERNS) -> NDArray[np.float32]:
    """Signs of blocks, shape (patterns, blocks); a pattern and its opposite count as one, and the
    one that was observed, all +1, is left out."""
    nothing = np.empty((0, blocks), dtype=np.float32)
    return np.concatenate([nothing, *_drawn(blocks, most, np.int64)])


def _drawn(blocks: int, most: int, kind: type[np.integer[Any]]) -> Iterator[NDArray[np.float32]]:
    """Some rows at a time. ``kind``: of the random numbers; small ones are drawn faster, and are
    others."""
    random, count = np.random.default_rng(blocks), min(most, 2 ** (blocks - 1))
    for first in range(1, count, _ROWS):
        last = min(first + _ROWS, count)
        if blocks <= most.bit_length():
            bits = np.arange(first, last)[:, None] >> np.arange(blocks) & 1
        else:
            bits = random.integers(0, 2, (last - first, blocks), dtype=kind)
        yield np.asarray(1 - 2 * bits, dtype=np.float32)


def middle(values: Floats) -> Floats:
    """Median along the last axis of what is not NaN; NaN where all are."""
    finite, ordered = np.isfinite(values), np.sort(values, axis=-1)
    if values.size and finite.all():  # the usual case, a third as long
        last = values.shape[-1] - 1
        return np.asarray((ordered[..., last // 2] + ordered[..., (last + 1) // 2]) / 2)
    count = finite.sum(axis=-1, keepdims=True)
    places = np.maximum(np.concatenate([(count - 1) // 2, count // 2], axis=-1), 0)
    if not values.shape[-1]:
        return np.full(values.shape[:-1], np.nan)
    return np.asarray(np.take_along_axis(ordered, places, axis=-1).mean(axis=-1))


class Family:
    """``differences``: log ratios; ``weights``: 1 ÷ a block's standard error, any unit, the same
    shape; None: all alike. ``level``: the least alpha that will be asked for.

    Blocks that all agree have a statistic of √n if they weigh alike, and of less if not: less, of
    few blocks, than what another effect reaches by chance, so that nothing could be refused and
    there would be no interval. So weights have a power that grows with the blocks."""

    def __init__(
        self, differences: Floats, weights: Floats | None = None, level: float = 1.0
    ) -> None:
        self.x = differences
        self.n = np.isfinite(differences).sum(axis=-1)
        weights = np.ones_like(differences) if weights is None else weights
        power = np.clip((self.n - FEWEST_BLOCKS) / (WEIGHED_FROM - FEWEST_BLOCKS), 0.0, 1.0)
        self.g = np.where(np.isfinite(differences), weights ** power[..., None], 0.0)
        self._usable = np.where(self.g > 0, differences, np.nan)
        most = PATTERNS
        while most * level < 1 and most < FINE:
            most *= 2
        self.signs = patterns(differences.shape[-1], most)
        self.estimate = self._estimate()
        self._centred = self._flipped(self._unit(self.estimate)[0])

    def _away(self, centre: Floats) -> Floats:
        """Distances from ``centre`` in standard deviations (robust), NaN where there are none."""
        away = self.g * (self._usable - centre[..., None])
        scale = _MAD_TO_SD * middle(np.abs(away))[..., None]
        # Where half of all blocks are the very same, the others are as far as can be.
        return np.asarray(away / np.maximum(scale, _TINY))

    def _unit(self, centre: Floats) -> tuple[Floats, Floats]:
        """(scores of length 1, their sum) with ``centre`` for true."""
        # np.clip and nan_to_num look for more than there can be here.
        clipped = np.minimum(np.maximum(self._away(centre), -CLIP), CLIP)
        clipped[np.isnan(clipped)] = 0.0
        scores = self.g * clipped
        length = np.sqrt((scores * scores).sum(axis=-1, keepdims=True))
        unit = scores / np.maximum(length, _TINY)
        return unit, unit.sum(axis=-1)

    def _flipped(self, unit: Floats) -> NDArray[np.float32]:
        """The sums with the blocks' signs flipped, shape (…, effects, patterns)."""
        return np.asarray(unit.astype(np.float32) @ self.signs.T)

    def _estimate(self) -> Floats:
        """Huber's, where the scores add up to nothing: weighted steps from the median."""
        centre = middle(self.x)
        values = np.nan_to_num(self.x)
        for _ in range(30):
            weight = self.g**2 / np.fmax(1.0, np.abs(self._away(centre)) / CLIP)  # fmax: no NaN
            before = centre
            centre = (weight * values).sum(axis=-1) / np.maximum(weight.sum(axis=-1), _TINY)
            if (centre == before).all():
                break
        return centre

    def raw(self, alpha: float) -> tuple[Floats, Floats]:
        """Each effect's interval as if it were the only one."""
        return self._ends(self._alone, alpha)

    def holds(self, centre: float, alpha: float) -> Flags:
        """Whether ``raw`` holds this log ratio."""
        return self._inside(self._alone, alpha)(np.full_like(self.estimate, centre))

    def p_values(self) -> Floats:
        """Two-sided, of 0, each as if it were the only one."""
        nothing = np.zeros_like(self.estimate)
        p_values = self._p(nothing, self._alone, 2)
        if self.x.shape[-1] > (len(self.signs) + 1).bit_length():
            unit, observed = self._unit(nothing)
            rare = [tuple(place) for place in np.argwhere(p_values * (len(self.signs) + 1) < 1.5)]
            reached = np.zeros_like(p_values)
            # Not kept: 650 MB for 1,250 blocks.
            for signs in _drawn(self.x.shape[-1], FINE, np.int8) if rare else ():
                for place in rare:
                    own = np.abs(signs @ unit[place].astype(np.float32))
                    reached[place] += (own >= abs(observed[place]) * (1 - _SLACK) - _SLACK).sum()
            for place in rare:
                p_values[place] = (reached[place] + 1) / min(FINE, 2 ** (self.x.shape[-1] - 1))
        return p_values

    def rejected(self, alpha: float) -> Flags:
        """Effects that are not 0: any true 0 among them in at most ``alpha`` of the runs."""
        return self._moved(alpha)[1]

    def limits(self, alpha: float) -> tuple[Floats, Floats]:
        """Intervals that leave out 0 for the same effects, infinite where there is no end.

        Steps: the most extreme of all effects, then of those that are left, until none passes. An
        interval has the level of its effect's own step."""
        return self._ends(self._moved(alpha)[0], alpha)

    @property
    def _alone(self) -> NDArray[np.float32]:
        return np.full_like(self._centred, -np.inf)

    def _moved(self, alpha: float) -> tuple[NDArray[np.float32], Flags]:
        nothing = np.zeros_like(self.estimate)
        chance = np.abs(self._centred)
        return self._steps(lambda others: self._p(nothing, others, 2), alpha, chance)

    def _ends(self, others: NDArray[np.float32], alpha: float) -> tuple[Floats, Floats]:
        inside = self._inside(others, alpha)
        return self._end(inside, -1.0), self._end(inside, 1.0)

    def equivalent(self, band: float, alpha: float) -> Flags:
        """Which effects lie within ±band, by two one-sided tests of ``alpha`` each (Schuirmann
        1987), and the steps of these. A family of its own: an effect that does matter is called
        equivalent in at most ``alpha`` of the runs."""
        toward = np.where(self.estimate < 0, -1.0, 1.0)
        sided = toward[..., None] * self._centred
        both = np.concatenate([sided, -sided], axis=-1).astype(np.float32)

        def p(others: NDArray[np.float32]) -> Floats:
            return np.maximum(
                self._p(np.full_like(toward, band), others, -1),
                self._p(np.full_like(toward, -band), others, 1),
            )

        return self._steps(p, alpha, both)[1]

    def _steps(
        self, p: Callable[[NDArray[np.float32]], Floats], alpha: float, chance: NDArray[np.float32]
    ) -> tuple[NDArray[np.float32], Flags]:
        """(what the others of each effect's step reach by chance, which tests passed)."""
        left = np.isfinite(self.estimate)
        passed = np.zeros_like(left)
        others = np.full_like(chance, -np.inf)
        while True:
            now = _others(np.where(left[..., None], chance, -np.inf))
            others = np.where(left[..., None], now, others)
            new = left & (p(others) <= alpha * (1 + 1e-9))
            if not new.any():
                return others, passed
            passed |= new
            left &= ~new

    def _p(self, centre: Floats, others: NDArray[np.float32], sided: int) -> Floats:
        """Of ``centre``: the share of patterns that reach what was observed, itself included.

        sided: 2 either way, 1 above, −1 below."""
        unit, observed = self._unit(centre)
        own = self._flipped(unit)
        if sided == 2:
            own, observed = np.abs(own), np.abs(observed)
        else:
            # The patterns in the order in which ``equivalent`` has those of the others.
            own, observed = np.concatenate([-sided * own, sided * own], axis=-1), sided * observed
        reached = np.maximum(own, others) >= (observed * (1 - _SLACK) - _SLACK)[..., None]
        return np.asarray((reached.sum(axis=-1) + 1) / (own.shape[-1] + (1 if sided == 2 else 2)))

    def _inside(self, others: NDArray[np.float32], alpha: float) -> Callable[[Floats], Flags]:
        """Which centres are not refused."""
        few = self.n <= EXACT_UP_TO  # an effect's own blocks, whatever the others have

        def exact(centre: Floats) -> Flags:
            return np.asarray(self._p(centre, others, 2) > alpha * (1 + 1e-9))

        if few.all():
            return exact
        chance = np.maximum(np.abs(self._centred), others)
        most = chance.shape[-1]
        rank = most - int(alpha * (most + 1) * (1 + 1e-9))
        limit = np.partition(chance, rank, axis=-1)[..., rank]

        def inside(centre: Floats) -> Flags:
            within = np.abs(self._unit(centre)[1]) <= limit
            return np.asarray(np.where(few, exact(centre), within) if few.any() else within)

        return inside

    def _end(self, inside: Callable[[Floats], Flags], way: float) -> Floats:
        """The nearest centre that is refused, up or down from the estimate."""
        spread = np.abs(self.x - self.estimate[..., None])
        # Most blocks may be the very same: then the farthest says how far the end can be.
        start = np.maximum(middle(spread), np.nan_to_num(spread).max(axis=-1) / 64)
        near, far = np.zeros_like(start), way * np.maximum(start, 1e-12)
        for _ in range(_STEPS):
            within = inside(self.estimate + far)
            if not within.any():
                break
            near, far = np.where(within, far, near), np.where(within, 2 * far, far)
        endless = within
        for _ in range(_STEPS):
            between = (near + far) / 2
            within = inside(self.estimate + between)
            near, far = np.where(within, between, near), np.where(within, far, between)
        return np.asarray(np.where(endless, np.copysign(np.inf, way), self.estimate + far))


def _others(chance: NDArray[np.float32]) -> NDArray[np.float32]:
    """The largest along the last axis but one, but for oneself."""
    largest = chance.max(axis=-2, keepdims=True, initial=-np.inf)
    first = chance == largest
    second = np.where(first, -np.inf, chance).max(axis=-2, keepdims=True, initial=-np.inf)
    second = np.where(first.sum(axis=-2, keepdims=True) > 1, largest, second)
    return np.asarray(np.where(first, second, largest))
