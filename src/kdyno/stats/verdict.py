# SPDX-License-Identifier: MIT
"""The rule: from the effects of one run to words, with intervals corrected for their number.

Each effect is judged twice. A robust location of turns does not see what one turn in twenty does;
the mean of the times does, and is wider where the machine is restless. So each effect has both, and
their difference is tested: what groups differ by is in both and cancels, and for equal kernels it
lies symmetrically about 0, whatever the noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from .effect import FEWEST_BLOCKS, Floats, Limits, PairedEffect, effect_of_differences, exact_effect
from .family import Family
from .stopping import SHARE_FOR_VERDICTS

Better = Literal["higher", "lower"]
Word = Literal["faster", "slower", "equivalent", "inconclusive"]

RULE = "huber-signflip-maxt/7"
"""Name of this rule, kept with every verdict. The number grows when a verdict could come out
otherwise from the same samples."""
SHARE_FOR_TAILS = 0.1
"""Part of alpha for all differences of sums and locations of a run, and for its quantiles."""
HOPELESS_BLOCKS = 100_000
"""A prediction beyond this is not advice; it becomes None."""
_SLOW_SDS, _SLOW_LEAST = 5.0, 0.02
"""A round is far slower than the typical one: in spreads, and at least so much on the log scale."""


@dataclass(frozen=True)
class Claim:
    """One effect that is to be judged."""

    log_ratios: Floats
    """Shape (blocks,): log of variant ÷ baseline, NaN in a block that has none. The same place in
    all claims of a run is the same block."""
    better: Better
    noise_floor: float | None = None
    """From ``noise_floor`` of the run's A/A copy for this case, if there is one."""
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


@dataclass(frozen=True)
class Judgement:
    """One effect, judged among the others of its run."""

    effect: PairedEffect
    """Raw, at the run's confidence; not corrected for the number of effects."""
    ci: Limits
    """Corrected interval: what the word rests on. None: too few blocks for its level."""
    word: Word
    equivalent_too: bool
    """The word is faster or slower, and the interval lies inside ±equivalent as well."""
    inside_noise_floor: bool
    """|ratio − 1| is not beyond what the A/A copy reached."""
    predicted_blocks: int | None
    """For an inconclusive effect: blocks in all that should settle it; None beyond 100,000."""

    @property
    def moved(self) -> bool:
        return self.word in ("faster", "slower")

    @property
    def small(self) -> bool:
        """Whatever the word: inside ±equivalent."""
        return self.word == "equivalent" or self.equivalent_too


def noise_floor(copy: PairedEffect) -> float | None:
    """Largest |ratio − 1| that the raw interval of a kernel against its own copy reaches.

    ``copy``: the effect of the A/A copy. A fraction; None when the copy has no interval. A
    precise copy has a small floor: it is what this run could have shown without any cause."""
    return None if copy.ci is None else max(abs(end - 1.0) for end in copy.ci)


def judge(
    claims: Sequence[Claim], equivalent: float = 0.01, alpha: float = 0.05
) -> list[Judgement]:
    """Judgements in the order of the effects of one run, negative controls included.

    All effects with at least FEWEST_BLOCKS blocks form one family: the chance that any of them
    is called faster or slower while its true ratio is 1 is at most alpha, early stopping by
    ``stopping.enough`` included (``Family`` gets 0.8 alpha), and so is the chance that any is
    called equivalent while it is not. ``equivalent`` is a fraction; its band is 1/(1+e) … 1+e, so
    it is the same from either side. An A/A copy is a yardstick, not a claim: leave it out."""
    raw, tested, family = effects_and_family(claims, 1.0 - alpha)
    limits: dict[int, Limits] = {}
    alike: dict[int, bool] = {}
    if family is not None:
        limits = dict(zip(tested, _ratios(*family.limits(SHARE_FOR_VERDICTS * alpha)), strict=True))
        inside = family.equivalent(math.log1p(equivalent), alpha)
        alike = dict(zip(tested, inside.tolist(), strict=True))
    return [
        _judgement(claim, raw[at], limits.get(at), alike.get(at, False), equivalent, alpha)
        for at, claim in enumerate(claims)
    ]


def effects_and_family(
    claims: Sequence[Claim], confidence: float
) -> tuple[list[PairedEffect], list[int], Family | None]:
    """(each effect as if it were the only one, which of them are tested, these as a family)."""
    effects = [
        exact_effect(claim.differences)
        if claim.exact
        else effect_of_differences(claim.differences, confidence)
        for claim in claims
    ]
    tested = [
        at for at, raw in enumerate(effects) if not claims[at].exact and raw.n >= FEWEST_BLOCKS
    ]
    if not tested:
        return effects, tested, None
    blocks = max(len(claims[at].log_ratios) for at in tested)
    ratios, weights = np.full((len(tested), blocks), np.nan), np.ones((len(tested), blocks))
    for row, at in enumerate(tested):
        claim = claims[at]
        ratios[row, : len(claim.log_ratios)] = claim.log_ratios
        if claim.weights is not None:
            weights[row, : len(claim.weights)] = claim.weights
    # A block that no effect has would only thin out the patterns of signs.
    present = np.isfinite(ratios).any(axis=0)
    family = Family(
        ratios[:, present], weights[:, present], SHARE_FOR_VERDICTS * (1.0 - confidence)
    )
    ends = _ratios(*family.raw(1.0 - confidence))
    p_values, estimates = family.p_values().tolist(), np.exp(family.estimate).tolist()
    for at, limits, p_value, ratio in zip(tested, ends, p_values, estimates, strict=True):
        effects[at] = replace(effects[at], ratio=ratio, ci=limits, p_value=p_value)
    return effects, tested, family


def _ratios(lo: Floats, hi: Floats) -> list[Limits]:
    """Of limits of log ratios; None where either has no end."""
    finite = np.isfinite(lo) & np.isfinite(hi)
    ends = zip(np.exp(lo).tolist(), np.exp(hi).tolist(), finite.tolist(), strict=True)
    return [(low, high) if both else None for low, high, both in ends]


def _judgement(
    claim: Claim, raw: PairedEffect, limits: Limits, alike: bool, equivalent: float, alpha: float
) -> Judgement:
    ci = raw.ci if raw.exact else limits
    word, too_small = word_of(ci, claim.better, equivalent)
    if raw.exact and abs(float(claim.differences[0])) <= claim.resolution + 1e-12:  # rounding
        word, too_small = "equivalent", False
    elif not raw.exact and ci is not None:
        too_small = alike and word in ("faster", "slower")
        if word not in ("faster", "slower"):
            word = "equivalent" if alike else "inconclusive"
    predicted = None
    if word == "inconclusive":
        predicted = predict_blocks(claim.differences, ci, SHARE_FOR_VERDICTS * alpha, equivalent)
    return Judgement(raw, ci, word, too_small, _inside(claim.noise_floor, raw), predicted)


def _inside(floor: float | None, raw: PairedEffect) -> bool:
    return floor is not None and raw.ratio is not None and abs(raw.ratio - 1.0) <= floor


def word_of(ci: Limits, better: Better, equivalent: float) -> tuple[Word, bool]:
    """Word for an interval of a ratio, and whether a difference is too small to matter."""
    if ci is None:
        return "inconclusive", False
    lo, hi = ci
    inside = lo >= 1.0 / (1.0 + equivalent) and hi <= 1.0 + equivalent
    if lo <= 1.0 <= hi:
        return ("equivalent" if inside else "inconclusive"), False
    return ("faster" if (lo > 1.0) == (better == "higher") else "slower"), inside


def predict_blocks(differences: Floats, ci: Limits, level: float, equivalent: float) -> int | None:
    """Blocks in all at which the present estimate and spread would settle a verdict.

    The estimate is taken to stay and the interval at this level to shrink with the
    root of the number of blocks. Settled is what comes first: its near end passes 1, or both
    ends lie inside ±equivalent. Without an interval its half-width is guessed from the standard
    deviation and the normal law. None: nothing to go by, or more than HOPELESS_BLOCKS."""
    n = len(differences)
    if n < 2:
        return None
    estimate = math.log(effect_of_differences(differences).ratio or 1.0)
    if ci is not None:
        below, above = estimate - math.log(ci[0]), math.log(ci[1]) - estimate
    else:
        from scipy.special import ndtri

        spread = float(np.std(differences, ddof=1)) / math.sqrt(n)
        below = above = -float(ndtri(level / 2.0)) * spread
    band = math.log1p(equivalent)
    near = below if estimate > 0 else above
    shrink = max(
        abs(estimate) / near if near > 0 else 1.0,
        min(
            (band - estimate) / above if above > 0 else 1.0,
            (band + estimate) / below if below > 0 else 1.0,
        ),
    )
    if shrink <= 0 or n / shrink**2 > HOPELESS_BLOCKS:
        return None
    return max(n + 1, FEWEST_BLOCKS, math.ceil(n / shrink**2))


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

    judgement: Judgement
    """At the level at which the word was found."""
    tail: bool
    """The sum and the typical turn disagree, by more than does not matter."""
    decides: bool
    """The word rests on it."""
    p_value: float | None = None
    """Where the word is the sum's: the least alpha at which it would be."""


def judge_sums(
    claims: Sequence[Claim],
    judged: Sequence[Judgement],
    sums: Sequence[Floats],
    quantiles: Sequence[Claim] = (),
    equivalent: float = 0.01,
    alpha: float = 0.05,
) -> tuple[list[tuple[Judgement, Summed | None]], list[Judgement]]:
    """(the judgements again with their sums, those of the quantiles).

    ``judged``: of ``claims``, by ``judge``. ``sums``: for each claim its log ratios by summed
    times, shape (blocks,) as ``log_ratios``, NaN where a block has none; empty: not to be had.

    Where sum and location disagree, the word is the sum's if it is faster or slower, else
    ``inconclusive``. Where they do not, ``equivalent`` and ≈ need both to be inside ±equivalent; a
    sum beyond it keeps the location's faster or slower where it says the same.
    The differences and the quantiles are a family of their own at SHARE_FOR_TAILS of alpha. A sum's
    own faster or slower is only said where its difference is decided, so that all false words of a
    run together stay below alpha."""
    places = [
        at
        for at, (claim, own) in enumerate(zip(claims, sums, strict=True))
        if not claim.exact and np.isfinite(own).any()
    ]
    apart = [Claim(sums[at] - claims[at].log_ratios, claims[at].better) for at in places]
    differences = judge([*apart, *quantiles], equivalent, SHARE_FOR_TAILS * alpha)
    of_sums = judge([Claim(sums[at], claims[at].better) for at in places], equivalent, alpha)
    result: list[tuple[Judgement, Summed | None]] = [(each, None) for each in judged]
    chances = [
        adjusted([1.0 if (p := own.effect.p_value) is None else p for own in family])
        for family in (differences, of_sums)
    ]
    for row, (at, difference, own) in enumerate(zip(places, differences, of_sums, strict=False)):
        claim, typical = claims[at], judged[at]
        _, too_small = word_of(difference.ci, claim.better, equivalent)
        tail = difference.moved and not too_small
        # Of 8 values or fewer no difference is ever decided: then a typical faster or slower
        # stands only with the sum, and never against it.
        few = 2.0 ** (1 - int(np.isfinite(sums[at]).sum()))
        blind = few > SHARE_FOR_TAILS * SHARE_FOR_VERDICTS * alpha
        alone = typical.moved and own.word != typical.word and (blind or own.moved)
        decides = tail or alone or (typical.small and not own.small)
        moved = tail and own.moved and not own.small
        same = not tail and own.moved and own.word == typical.word
        if decides:
            typical = replace(
                typical,
                word=own.word if moved or same else "inconclusive",
                equivalent_too=False,
                inside_noise_floor=_inside(claim.noise_floor, own.effect),
                predicted_blocks=None if moved or same else own.predicted_blocks,
            )
        least = max(chances[0][row] / SHARE_FOR_TAILS, chances[1][row]) / SHARE_FOR_VERDICTS
        result[at] = typical, Summed(own, tail, decides, min(1.0, least) if moved else None)
    return result, differences[len(apart) :]


def step_levels(p_values: Sequence[float], alpha: float) -> list[float]:
    """Significance level of each effect's corrected interval, in the order given.

    Holm (1979): the i-th smallest of m p-values is tested at alpha/(m − i + 1), until the first
    that fails. An effect's interval has the level of its own step; from the first failure on,
    all have the level of the step that failed ("Holm on the range", Serlin 1993; Ludbrook 2000).
    So an interval leaves 1 out exactly when Holm's procedure rejects, and the chance of any
    false "faster" or "slower" in a run is at most alpha, however the effects depend on each
    other. What this does not promise: that all intervals of a run cover their true ratios at
    once with 1 − alpha. For that every interval would need alpha/m (Bonferroni)."""
    m = len(p_values)
    levels = [0.0] * m
    failed_level: float | None = None
    for step, index in enumerate(sorted(range(m), key=lambda i: (p_values[i], i))):
        level = alpha / (m - step)
        # The same slack as in effect.critical_rank, or test and interval part at a tie.
        if failed_level is None and p_values[index] > level * (1.0 + 1e-9):
            failed_level = level
        levels[index] = level if failed_level is None else failed_level
    return levels


def adjusted(p_values: Sequence[float]) -> list[float]:
    """The least alpha at which ``step_levels`` would reject each, in the order given; at most 1."""
    m, most = len(p_values), 0.0
    result = [1.0] * m
    for step, index in enumerate(sorted(range(m), key=lambda i: (p_values[i], i))):
        most = max(most, (m - step) * p_values[index])
        result[index] = min(1.0, most)
    return result


def lord_level(discoveries: Sequence[bool], alpha: float = 0.05) -> float:
    """Level of the next test of an endless series, after tests that were discoveries or not.

    LORD++ (Ramdas, Yang, Wainwright & Jordan 2017): of all discoveries at most alpha are false on
    average, however many tests there are. Each discovery earns alpha for later tests, and the level
    falls while there are none."""

    def part(tests: int) -> float:
        size = math.log(tests)
        return 0.0722 * max(size, math.log(2.0)) / (tests * math.exp(math.sqrt(size)))

    now = len(discoveries) + 1
    since = [now - at for at, discovery in enumerate(discoveries, 1) if discovery]
    first = alpha / 2
    level = first * part(now) + sum(alpha * part(tests) for tests in since[1:])
    return level + (alpha - first) * part(since[0]) if since else level
