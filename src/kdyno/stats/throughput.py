# SPDX-License-Identifier: MIT
"""An effect once more, by summed times: what a robust location of turns leaves out.

A location does not see what one turn in twenty does. The mean of the times does, and is wider where
the machine is restless. So each effect has both, and their difference is tested: what groups differ
by is in both and cancels, and for equal kernels it lies symmetrically about 0, whatever the noise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from kdyno.stats.effect import PairedEffect
from kdyno.stats.signedrank import Floats
from kdyno.stats.verdict import Claim, Judgement, judge, word_of

SHARE_FOR_TAILS = 0.1
"""Part of alpha for all differences of sums and locations of a run, and for its quantiles."""
_SLOW_SDS, _SLOW_LEAST = 5.0, 0.02
"""A round is far slower than the typical one: in spreads, and at least so much on the log scale."""


def log_mean_speed(logs: ArrayLike) -> float:
    """Log of the speed over all rounds together, from the log speed of each: shape (rounds,)."""
    times = -np.asarray(logs, dtype=np.float64)
    longest = float(times.max())
    return -(longest + math.log(float(np.exp(times - longest).mean())))


def slow_share(logs: Floats) -> float:
    """Share of a guest's rounds far below its typical speed; shape (rounds,), log speeds."""
    below = np.median(logs) - logs
    spread = 1.4826 * float(np.median(np.abs(below)))
    return float(np.mean(below > max(_SLOW_SDS * spread, _SLOW_LEAST)))


@dataclass(frozen=True)
class Summed:
    """One effect by summed times."""

    effect: PairedEffect
    """Raw."""
    lo: float | None
    hi: float | None
    """At the level at which the word was found."""
    tail: bool
    """The sum and the typical turn disagree, by more than does not matter."""
    decides: bool
    """The word rests on it."""


def judge_sums(
    claims: Sequence[Claim],
    judged: Sequence[Judgement],
    sums: Sequence[Floats],
    quantiles: Sequence[Claim] = (),
    equivalent: float = 0.01,
    alpha: float = 0.05,
) -> tuple[list[tuple[Judgement, Summed | None]], list[Judgement]]:
    """(the judgements again with their sums, those of the quantiles).

    ``judged``: of ``claims``, by ``verdict.judge``. ``sums``: for each claim its log ratios by
    summed times, shape (blocks,) as ``log_ratios``, NaN where a block has none; empty: not to be
    had.

    Where sum and location disagree, the word is the sum's if it is faster or slower, else
    ``inconclusive``. Where they do not, ``equivalent`` and ≈ need both to be inside ±equivalent.
    The differences and the quantiles are a family of their own at SHARE_FOR_TAILS of alpha. A sum's
    own faster or slower is only said where its difference is decided, so that all false words of a
    run together stay below alpha.
    """
    places = [
        at
        for at, (claim, own) in enumerate(zip(claims, sums, strict=True))
        if not claim.exact and np.isfinite(own).any()
    ]
    apart = [Claim(sums[at] - claims[at].log_ratios, claims[at].better) for at in places]
    differences = judge([*apart, *quantiles], equivalent, SHARE_FOR_TAILS * alpha)
    own = judge([Claim(sums[at], claims[at].better) for at in places], equivalent, alpha)
    result: list[tuple[Judgement, Summed | None]] = [(each, None) for each in judged]
    for at, difference, summed in zip(places, differences, own, strict=False):
        result[at] = _with_sum(claims[at], judged[at], summed, difference, equivalent)
    return result, differences[len(apart) :]


def _with_sum(
    claim: Claim, typical: Judgement, own: Judgement, difference: Judgement, equivalent: float
) -> tuple[Judgement, Summed]:
    _, too_small = word_of(difference.lo, difference.hi, claim.better, equivalent)
    tail = difference.word in ("faster", "slower") and not too_small
    inside = own.word == "equivalent" or own.equivalent_too
    decides = tail or ((typical.word == "equivalent" or typical.equivalent_too) and not inside)
    summed = Summed(own.effect, own.lo, own.hi, tail, decides)
    if not decides:
        return typical, summed
    moved = tail and own.word in ("faster", "slower") and not inside
    floor, ratio = claim.noise_floor, own.effect.ratio
    return replace(
        typical,
        word=own.word if moved else "inconclusive",
        equivalent_too=False,
        inside_noise_floor=floor is not None and ratio is not None and abs(ratio - 1.0) <= floor,
        predicted_blocks=None if moved else own.predicted_blocks,
    ), summed
