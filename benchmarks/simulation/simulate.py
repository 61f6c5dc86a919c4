# SPDX-License-Identifier: MIT
"""Whole experiments, simulated many at a time: random order, looks, stopping, the family."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from benchmarks.simulation.rules import Rule, Signs
from benchmarks.simulation.synthetic import Draw
from kdyno.stats.effect import Floats, bounds, walsh_averages
from kdyno.stats.family import Family, Flags
from kdyno.stats.stopping import SHARE_FOR_VERDICTS, before, is_look, minimum_blocks

WITHIN_BOOT_SD = 0.005
"""Spread of repetitions within a boot (log scale) where a rule wants to see them."""
REPETITIONS = 10
"""Repetitions within a boot where a rule wants to see them."""
_CONFIDENCE = 0.95
_ALPHA = 1.0 - _CONFIDENCE
_EQUIVALENT = 0.01
"""As a ratio − 1."""


@dataclass(frozen=True)
class Simulated:
    """What kdyno's rule says of E simulated experiments with m effects each; logs throughout."""

    blocks: NDArray[np.int64]
    """(E,) blocks at which each experiment stopped."""
    covered: Flags
    """(E, m) raw intervals that hold the true log ratio."""
    moved: Flags
    """(E, m) effects called faster or slower."""
    power: Flags
    """(shifts, E) whether the shifted effect is called, among its unshifted siblings, rightly."""
    equivalent: Flags
    """(E, m) effects called equivalent, or faster or slower and too small to matter."""


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


def measure(
    ratios: Floats,
    precision: float,
    shifts: Sequence[float] = (),
    truth: float = 0.0,
    weights: Floats | None = None,
) -> Simulated:
    """Stops and judges each experiment of ``differences`` by kdyno's rule: at the precision, or
    with all of its blocks.

    ``shifts``: log ratios to add, after the fact, to one effect of each experiment (effect
    number i modulo m in experiment i). Adding a constant to all log ratios of an effect moves
    its interval and leaves its width alone, so it stops at the same block: nothing is drawn
    again. ``weights``: of blocks, the same shape as ``ratios``.
    """
    experiments, effects, most = ratios.shape
    target = math.log1p(precision)
    stopped = np.zeros(experiments, dtype=np.int64)
    covered, moved, same = (np.zeros((experiments, effects), dtype=np.bool_) for _ in range(3))
    result = np.zeros((len(shifts), experiments), dtype=np.bool_)
    narrow: dict[int, Flags] = {}

    def small(n: int) -> Flags:
        """(E,) every width is small enough with so many blocks; of those that still go on."""
        if n not in narrow:
            ends = bounds(walsh_averages(ratios[going, :, :n]), n, _CONFIDENCE)
            assert ends is not None
            narrow[n] = np.zeros(experiments, dtype=np.bool_)
            narrow[n][going] = ((ends[1] - ends[0]) / 2.0 <= target).all(axis=1)
        return narrow[n]

    going = np.ones(experiments, dtype=np.bool_)
    minimum = minimum_blocks()
    for n in range(minimum, most + 1):
        if not going.any() or not (is_look(n, minimum) or n == most):
            continue
        ends = going & ((small(n) & small(before(n))) | (n == most))
        going &= ~ends
        who = np.flatnonzero(ends)
        if not len(who):
            continue
        stopped[who] = n
        logs = ratios[who, :, :n]
        own = None if weights is None else weights[who, :, :n]
        family = Family(logs, own)
        covered[who] = family.holds(truth, _ALPHA)
        moved[who] = family.rejected(SHARE_FOR_VERDICTS * _ALPHA)
        same[who] = family.equivalent(math.log1p(_EQUIVALENT), _ALPHA)
        one = (np.arange(len(who)), who % effects)
        for index, shift in enumerate(shifts):
            shifted = logs.copy()
            shifted[one] += shift
            family = Family(shifted, own)
            called = family.rejected(SHARE_FOR_VERDICTS * _ALPHA)[one]
            result[index, who] = called & (family.estimate[one] * shift > 0)
    return Simulated(stopped, covered, moved, result, same)


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
