# SPDX-License-Identifier: MIT
"""From the effects of one run to words, with intervals corrected for their number."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
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
from .holm import step_levels
from .signedrank import Floats, fewest_pairs
from .stopping import family_alpha

Better = Literal["higher", "lower"]
Word = Literal["faster", "slower", "equivalent", "inconclusive"]

HOPELESS_BLOCKS = 100_000
"""A prediction beyond this is not advice; it becomes None."""


RULE = "hl-signedrank-holm/1"
"""Name of this rule, kept with every verdict: Hodges and Lehmann's estimate, the signed-rank
interval, Holm's correction at 0.95 alpha. The number grows when a verdict could come out otherwise
from the same samples."""


@dataclass(frozen=True)
class Claim:
    """One effect that is to be judged."""

    log_ratios: Floats
    """Shape (n,), all finite: log of variant ÷ baseline in every block that has it."""
    better: Better
    noise_floor: float | None = None
    """From ``noise.noise_floor`` of the run's A/A copy for this case, if there is one."""
    exact: bool = False
    """The blocks agree to the last digit, because counts do: there is nothing to test."""
    resolution: float = 0.0
    """|log ratio| up to which an exact effect may be the measuring's own, and is none."""

    @classmethod
    def of_scores(
        cls,
        baseline: ArrayLike,
        variant: ArrayLike,
        better: Better,
        noise_floor: float | None = None,
    ) -> Claim:
        """From one score per block and arm, paired by position; NaN for a failed boot."""
        return cls(log_differences(baseline, variant), better, noise_floor)


@dataclass(frozen=True)
class Judgement:
    """One effect, judged among the others of its run."""

    effect: PairedEffect
    """Raw, at the run's confidence; not corrected for the number of effects."""
    lo: float | None
    """Corrected interval: what the word rests on. None: too few blocks for its level."""
    hi: float | None
    level: float | None
    """Significance level of the corrected interval (see holm.step_levels)."""
    word: Word
    equivalent_too: bool
    """The word is faster or slower, and the interval lies inside ±equivalent as well."""
    inside_noise_floor: bool
    """|ratio − 1| is not beyond what the A/A copy reached."""
    predicted_blocks: int | None
    """For an inconclusive effect: blocks in all that should settle it; None beyond 100,000."""


def judge(
    claims: Sequence[Claim], equivalent: float = 0.01, alpha: float = 0.05
) -> list[Judgement]:
    """Judgements in the order of the effects of one run, negative controls included.

    All effects with at least FEWEST_BLOCKS blocks form one family: the chance that any of them
    is called faster or slower while its true ratio is 1 is at most alpha, early stopping by
    ``stopping.enough`` included (Holm's procedure gets 0.95 alpha). ``equivalent`` is a fraction;
    its band is 1/(1+e) … 1+e, so it is the same from either side. An A/A copy is a yardstick,
    not a claim: leave it out.
    """
    if not 0.0 < alpha < 1.0:
        raise ValueError(f"alpha must lie between 0 and 1, not {alpha}")
    if equivalent < 0.0:
        raise ValueError(f"equivalent must not be negative, not {equivalent}")
    raw = [
        (exact_effect if each.exact else effect_of_differences)(each.log_ratios, 1.0 - alpha)
        for each in claims
    ]
    tested = [index for index, effect in enumerate(raw) if effect.p_value is not None]
    p_values = [effect.p_value for effect in raw if effect.p_value is not None]
    levels = dict(zip(tested, step_levels(p_values, family_alpha(alpha)), strict=True))
    return [
        _judgement(each, raw[index], levels.get(index), equivalent, alpha)
        for index, each in enumerate(claims)
    ]


def _judgement(
    given: Claim,
    raw: PairedEffect,
    level: float | None,
    equivalent: float,
    alpha: float,
) -> Judgement:
    differences = given.log_ratios
    lo, hi = (raw.lo, raw.hi) if raw.exact else (None, None)
    if level is not None:
        corrected = effect_of_differences(differences, 1.0 - level)
        lo, hi = corrected.lo, corrected.hi
    word, equivalent_too = word_of(lo, hi, given.better, equivalent)
    if raw.exact and abs(float(differences[0])) <= given.resolution:
        word, equivalent_too = "equivalent", False
    predicted = None
    if word == "inconclusive":
        predicted = predict_blocks(differences, lo, hi, level or family_alpha(alpha), equivalent)
    floor = given.noise_floor
    inside = floor is not None and raw.ratio is not None and abs(raw.ratio - 1.0) <= floor
    return Judgement(raw, lo, hi, level, word, equivalent_too, inside, predicted)


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
    fewest = max(FEWEST_BLOCKS, fewest_pairs(1.0 - level))
    return max(n + 1, fewest, math.ceil(n / shrink**2))
