# SPDX-License-Identifier: MIT
"""Whole experiments, simulated many at a time: random order, looks, stopping, Holm."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from benchmarks.simulation.rules import Rule, Signs
from benchmarks.simulation.synthetic import Draw
from kdyno.stats.holm import rejected, strictest_confidence
from kdyno.stats.signedrank import Floats, bounds, p_values, walsh_averages
from kdyno.stats.stopping import DEFAULT_MINIMUM, family_alpha, is_look, minimum_blocks

WITHIN_BOOT_SD = 0.005
"""Spread of repetitions within a boot (log scale) where a rule wants to see them."""

REPETITIONS = 10
"""Repetitions within a boot where a rule wants to see them."""


@dataclass(frozen=True)
class Plan:
    """One kind of experiment."""

    variants: int = 1
    precision: float = 0.005
    max_blocks: int = 60
    minimum: int = DEFAULT_MINIMUM
    confidence: float = 0.95
    equivalent: float = 0.01


@dataclass(frozen=True)
class Simulated:
    """What kdyno's rule says of E simulated experiments with m effects each; logs throughout."""

    blocks: NDArray[np.int64]
    """(E,) blocks at which each experiment stopped."""
    lo: Floats
    hi: Floats
    """(E, m) raw intervals of log ratios."""
    p_values: Floats
    """(E, m) of "no effect"."""
    p_shifted: Floats
    """(shifts, E) p-values of one effect per experiment, had there been that shift."""
    right_side: NDArray[np.bool_]
    """(shifts, E) whether that effect's estimate has the shift's sign."""
    equivalent: NDArray[np.bool_]
    """(E, m) interval at Holm's strictest level inside ±equivalent."""
    alpha: float
    """What Holm's procedure may spend."""

    def false_alarms(self) -> NDArray[np.bool_]:
        """(E, m) effects called faster or slower, where there is none."""
        return rejected(self.p_values, self.alpha)

    def covered(self, truth: float = 0.0) -> NDArray[np.bool_]:
        """(E, m) raw intervals that hold the true log ratio."""
        return np.asarray((self.lo <= truth) & (self.hi >= truth))

    def found(self, shift: int) -> NDArray[np.bool_]:
        """(E,) whether the shifted effect is called, among its unshifted siblings, rightly."""
        family = self.p_values.copy()
        rows = np.arange(len(family))
        family[rows, rows % family.shape[1]] = self.p_shifted[shift]
        called = rejected(family, self.alpha)[rows, rows % family.shape[1]]
        return np.asarray(called & self.right_side[shift])


def differences(
    rng: Generator,
    draw: Draw,
    experiments: int,
    variants: int,
    blocks: int,
    effect: float = 0.0,
    effect_sd: float = 0.0,
) -> Floats:
    """Within-block log ratios, shape (experiments, variants × cases, blocks).

    Each block boots baseline and variants one after the other in an order drawn anew. Every
    variant has the true log ratio ``effect``, which varies normally from boot to boot.
    """
    arms = variants + 1
    scores = draw(rng, experiments, blocks * arms)
    cases = scores.shape[-1]
    in_blocks = scores.reshape(experiments, blocks, arms, cases)
    order = rng.permuted(np.broadcast_to(np.arange(arms), (experiments, blocks, arms)), axis=-1)
    by_arm = np.take_along_axis(in_blocks, order[..., None], axis=2)
    ratios = by_arm[:, :, 1:] - by_arm[:, :, :1] + effect
    if effect_sd:
        ratios = ratios + effect_sd * rng.standard_normal(ratios.shape)
    moved = np.moveaxis(ratios, 1, -1).reshape(experiments, variants * cases, blocks)
    return np.ascontiguousarray(moved)


def measure(ratios: Floats, plan: Plan, shifts: Sequence[float] = ()) -> Simulated:
    """Stops and judges each experiment of ``differences`` by kdyno's rule.

    ``shifts``: log ratios to add, after the fact, to one effect of each experiment (effect
    number i modulo m in experiment i). Adding a constant to all log ratios of an effect moves
    its interval and leaves its width alone, so it stops at the same block: nothing is drawn
    again.
    """
    experiments, effects, most = ratios.shape
    alpha = family_alpha(1.0 - plan.confidence)
    strictest = strictest_confidence(effects, alpha)
    target = math.log1p(plan.precision)
    band = math.log1p(plan.equivalent)
    stopped = np.zeros(experiments, dtype=np.int64)
    lo, hi, p = (np.empty((experiments, effects)) for _ in range(3))
    shifted = np.empty((len(shifts), experiments))
    right = np.empty((len(shifts), experiments), dtype=np.bool_)
    same = np.zeros((experiments, effects), dtype=np.bool_)
    going = np.arange(experiments)
    limit = min(plan.max_blocks, most)
    minimum = minimum_blocks(effects, plan.confidence, plan.minimum)
    for n in range(1, limit + 1):
        if not len(going) or not (is_look(n, minimum) or n == limit):
            continue
        walsh = walsh_averages(ratios[going, :, :n])
        limits = bounds(walsh, n, plan.confidence)
        if limits is None:
            raise ValueError(f"{n} blocks are too few to simulate the whole rule")
        narrow = ((limits[1] - limits[0]) / 2.0 <= target).all(axis=1)
        ends = narrow | (n == limit)
        who, last = going[ends], walsh[ends]
        stopped[who] = n
        lo[who], hi[who] = limits[0][ends], limits[1][ends]
        p[who] = p_values(last, n)
        strict = bounds(last, n, strictest)
        if strict is not None:
            same[who] = (strict[0] >= -band) & (strict[1] <= band)
        one = last[np.arange(len(who)), who % effects]
        for index, shift in enumerate(shifts):
            shifted[index, who] = p_values(one, n, -shift)
            right[index, who] = (np.median(one, axis=-1) + shift) * shift > 0
        going = going[~ends]
    return Simulated(stopped, lo, hi, p, shifted, right, same, alpha)


def other_rule(
    rng: Generator,
    rule: Rule,
    draw: Draw,
    experiments: int,
    boots: int,
    effect: float = 0.0,
    interleaved: bool = False,
) -> Signs:
    """What another tool's rule says, shape (experiments, cases); one variant, no correction.

    ``boots`` of each kernel: first all of one, then all of the other, as such comparisons are
    run; or in blocks of random order as kdyno runs them. ``effect`` is a true log ratio.
    """
    scores = draw(rng, experiments, 2 * boots)
    if interleaved:
        pairs = scores.reshape(experiments, boots, 2, -1)
        swap = rng.random((experiments, boots, 1)) < 0.5
        first = np.where(swap, pairs[:, :, 0], pairs[:, :, 1])
        second = np.where(swap, pairs[:, :, 1], pairs[:, :, 0])
    else:
        first, second = scores[:, :boots], scores[:, boots:]
    arms = [np.moveaxis(each, 1, -1) for each in (first, second + effect)]
    if rule.all_repetitions:
        arms = [
            (
                each[..., None] + WITHIN_BOOT_SD * rng.standard_normal((*each.shape, REPETITIONS))
            ).reshape(*each.shape[:-1], boots * REPETITIONS)
            for each in arms
        ]
    # A recording's log scores are centred before, so that exp gives numbers around 1.
    return rule.decide(np.exp(arms[0]), np.exp(arms[1]))
