# SPDX-License-Identifier: MIT
"""From the effects of one run to words, with intervals corrected for their number."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from .effect import (
    FEWEST_BLOCKS,
    PairedEffect,
    effect_of_differences,
    exact_effect,
    log_differences,
)
from .family import Family
from .signedrank import Floats
from .stopping import family_alpha

Better = Literal["higher", "lower"]
Word = Literal["faster", "slower", "equivalent", "inconclusive"]

HOPELESS_BLOCKS = 100_000
"""A prediction beyond this is not advice; it becomes None."""


RULE = "huber-signflip-maxt/1"
"""Name of this rule, kept with every verdict: Huber's estimate of weighted groups, intervals by
flipping the blocks' signs, the largest statistic of the run, at 0.8 alpha, and
the same of summed times where they disagree, at a tenth. The number grows when a
verdict could come out otherwise from the same samples."""


@dataclass(frozen=True)
class Claim:
    """One effect that is to be judged."""

    log_ratios: Floats
    """Shape (blocks,): log of variant ÷ baseline, NaN in a block that has none. The same place in
    all claims of a run is the same block."""
    better: Better
    noise_floor: float | None = None
    """From ``noise.noise_floor`` of the run's A/A copy for this case, if there is one."""
    exact: bool = False
    """The blocks agree to the last digit, because counts do: there is nothing to test."""
    resolution: float = 0.0
    """|log ratio| up to which an exact effect may be the measuring's own, and is none."""
    weights: Floats | None = None
    """Shape (blocks,): 1 ÷ what a block's value is off by, from ``groups.precisions``; None: all
    are alike."""

    @property
    def differences(self) -> Floats:
        """Those that there are."""
        return np.asarray(self.log_ratios[np.isfinite(self.log_ratios)], dtype=np.float64)

    @classmethod
    def of_scores(
        cls,
        baseline: ArrayLike,
        variant: ArrayLike,
        better: Better,
        noise_floor: float | None = None,
    ) -> Claim:
        """From one score per block and arm, paired by position; NaN for a failed boot."""
        return cls(log_differences(baseline, variant, keep=True), better, noise_floor)


@dataclass(frozen=True)
class Judgement:
    """One effect, judged among the others of its run."""

    effect: PairedEffect
    """Raw, at the run's confidence; not corrected for the number of effects."""
    lo: float | None
    """Corrected interval: what the word rests on. None: too few blocks for its level."""
    hi: float | None
    word: Word
    equivalent_too: bool
    """The word is faster or slower, and the interval lies inside ±equivalent as well."""
    inside_noise_floor: bool
    """|ratio − 1| is not beyond what the A/A copy reached."""
    predicted_blocks: int | None
    """For an inconclusive effect: blocks in all that should settle it; None beyond 100,000."""


def raw_effects(claims: Sequence[Claim], confidence: float) -> list[PairedEffect]:
    """Each effect as if it were the only one, in the order given."""
    return _effects(claims, confidence)[0]


def judge(
    claims: Sequence[Claim], equivalent: float = 0.01, alpha: float = 0.05
) -> list[Judgement]:
    """Judgements in the order of the effects of one run, negative controls included.

    All effects with at least FEWEST_BLOCKS blocks form one family: the chance that any of them
    is called faster or slower while its true ratio is 1 is at most alpha, early stopping by
    ``stopping.enough`` included (``Family`` gets 0.8 alpha), and so is the chance that any is
    called equivalent while it is not. ``equivalent`` is a fraction; its band is 1/(1+e) … 1+e, so
    it is the same from either side. An A/A copy is a yardstick, not a claim: leave it out.
    """
    if not 0.0 < alpha < 1.0:
        raise ValueError(f"alpha must lie between 0 and 1, not {alpha}")
    if equivalent < 0.0:
        raise ValueError(f"equivalent must not be negative, not {equivalent}")
    raw, tested, family = _effects(claims, 1.0 - alpha)
    limits: dict[int, tuple[float | None, float | None]] = {}
    alike: dict[int, bool] = {}
    if family is not None:
        lo, hi = family.limits(family_alpha(alpha))
        inside = family.equivalent(math.log1p(equivalent), alpha)
        limits = dict(zip(tested, _ratios(lo, hi), strict=True))
        alike = dict(zip(tested, inside.tolist(), strict=True))
    return [
        _judgement(each, raw[at], limits.get(at), alike.get(at, False), equivalent, alpha)
        for at, each in enumerate(claims)
    ]


def _effects(
    claims: Sequence[Claim], confidence: float
) -> tuple[list[PairedEffect], list[int], Family | None]:
    """(raw effects, which of them are tested, these as a family)."""
    effects = [
        (exact_effect if each.exact else effect_of_differences)(each.differences, confidence)
        for each in claims
    ]
    tested = [
        at
        for at, (each, it) in enumerate(zip(claims, effects, strict=True))
        if not each.exact and it.n >= FEWEST_BLOCKS
    ]
    if not tested:
        return effects, tested, None
    blocks = max(len(claims[at].log_ratios) for at in tested)
    ratios, weights = np.full((len(tested), blocks), np.nan), np.ones((len(tested), blocks))
    for row, at in enumerate(tested):
        each = claims[at]
        ratios[row, : len(each.log_ratios)] = each.log_ratios
        if each.weights is not None:
            weights[row, : len(each.weights)] = each.weights
    # A block that no effect has would only thin out the patterns of signs.
    seen = np.isfinite(ratios).any(axis=0)
    family = Family(ratios[:, seen], weights[:, seen])
    ends = _ratios(*family.raw(1.0 - confidence))
    p_values, estimates = family.p_values().tolist(), np.exp(family.estimate).tolist()
    for at, (lo, hi), p, ratio in zip(tested, ends, p_values, estimates, strict=True):
        effects[at] = replace(
            effects[at], ratio=ratio, lo=lo, hi=hi, p_value=p, attained=confidence
        )
    return effects, tested, family


def _ratios(lo: Floats, hi: Floats) -> list[tuple[float | None, float | None]]:
    """Of limits of log ratios; neither where either has no end."""
    finite = np.isfinite(lo) & np.isfinite(hi)
    ends = zip(np.exp(lo).tolist(), np.exp(hi).tolist(), finite.tolist(), strict=True)
    return [(low, high) if both else (None, None) for low, high, both in ends]


def _judgement(
    given: Claim,
    raw: PairedEffect,
    limits: tuple[float | None, float | None] | None,
    alike: bool,
    equivalent: float,
    alpha: float,
) -> Judgement:
    lo, hi = limits or ((raw.lo, raw.hi) if raw.exact else (None, None))
    word, too_small = word_of(lo, hi, given.better, equivalent)
    if not raw.exact and lo is not None:
        moved = word in ("faster", "slower")
        word, too_small = ("equivalent" if alike and not moved else word), alike and moved
        word = "inconclusive" if word == "equivalent" and not alike else word
    elif raw.exact and abs(float(given.differences[0])) <= given.resolution:
        word, too_small = "equivalent", False
    predicted = None
    if word == "inconclusive":
        predicted = predict_blocks(given.differences, lo, hi, family_alpha(alpha), equivalent)
    floor = given.noise_floor
    inside = floor is not None and raw.ratio is not None and abs(raw.ratio - 1.0) <= floor
    return Judgement(raw, lo, hi, word, too_small, inside, predicted)


def word_of(
    lo: float | None, hi: float | None, better: Better, equivalent: float
) -> tuple[Word, bool]:
    """Word for an interval of a ratio, and whether a difference is too small to matter."""
    if lo is None or hi is None:
        return "inconclusive", False
    inside = lo >= 1.0 / (1.0 + equivalent) and hi <= 1.0 + equivalent
    if lo > 1.0:
        return ("faster" if better == "higher" else "slower"), inside
    if hi < 1.0:
        return ("slower" if better == "higher" else "faster"), inside
    return ("equivalent" if inside else "inconclusive"), False


def predict_blocks(
    differences: Floats,
    lo: float | None,
    hi: float | None,
    level: float,
    equivalent: float,
) -> int | None:
    """Blocks in all at which the present estimate and spread would settle a verdict.

    The estimate is taken to stay and the interval [lo, hi] at this level to shrink with the
    root of the number of blocks. Settled is what comes first: its near end passes 1, or both
    ends lie inside ±equivalent. Without an interval its half-width is guessed from the standard
    deviation and the normal law. None: nothing to go by, or more than HOPELESS_BLOCKS.
    """
    n = len(differences)
    if n < 2:
        return None
    estimate = math.log(effect_of_differences(differences).ratio or 1.0)
    if lo is not None and hi is not None:
        below, above = estimate - math.log(lo), math.log(hi) - estimate
    else:
        from scipy.special import ndtri

        spread = float(np.std(differences, ddof=1)) / math.sqrt(n)
        below = above = -float(ndtri(level / 2.0)) * spread
    band = math.log1p(equivalent)
    shrink = max(
        abs(estimate) / near if (near := below if estimate > 0 else above) > 0 else 1.0,
        min(
            (band - estimate) / above if above > 0 else 1.0,
            (band + estimate) / below if below > 0 else 1.0,
        ),
    )
    if shrink <= 0 or n / shrink**2 > HOPELESS_BLOCKS:
        return None
    return max(n + 1, FEWEST_BLOCKS, math.ceil(n / shrink**2))
