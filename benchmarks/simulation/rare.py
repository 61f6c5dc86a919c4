# SPDX-License-Identifier: MIT
"""Rare costs: what the rule says of kernels of which some turns are slower, and of equal ones.

Whole runs of groups of guests that take turns, on the machines of ``benchmarks.turn_noise``. Each
run is judged as ``kdyno`` judges it: by typical turns and by summed times.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from benchmarks.turn_noise import NOISES, Noise, group_rounds
from kdyno.stats.effect import Floats
from kdyno.stats.groups import locations
from kdyno.stats.verdict import Claim, judge, judge_sums, log_mean_speed

GUESTS, ROUNDS = 4, 24


@dataclass(frozen=True)
class Rare:
    """What the first variant's turns cost more; the others are the baseline once more."""

    name: str
    one_in: int = 0
    """Turns; 0: none is slower."""
    slower: float = 0.0
    """Such a turn takes 1 + this times as long."""
    evenly: bool = False
    """Every n-th turn, not each with a chance."""


COSTS = (
    Rare("none"),
    Rare("every 20th turn, twice as long", 20, 1.0, evenly=True),
    Rare("one turn in 20 by chance, twice as long", 20, 1.0),
    Rare("one turn in 5 by chance, a quarter longer", 5, 0.25),
)


@dataclass(frozen=True)
class Said:
    """Shares of the experiments in which the words fell."""

    named: float
    """A tail, of the first variant."""
    equivalent: float
    """Or ≈, of the first variant."""
    before: float
    """The same by typical turns alone."""
    slower: float
    false_words: float
    """Any faster or slower, of a variant that is not; or a tail of it."""
    others: float
    """Equivalent, of the variants that are."""


def experiment(
    rng: Generator, noise: Noise, cost: Rare, groups: int
) -> tuple[list[Claim], list[Floats]]:
    """Of each variant its log ratios by typical turns and by summed times, shape (groups,)."""
    logs = group_rounds(rng, noise, groups, GUESTS, ROUNDS)
    if cost.one_in:
        hit = rng.random((groups, ROUNDS)) < 1.0 / cost.one_in
        if cost.evenly:
            at = np.arange(groups * ROUNDS).reshape(groups, ROUNDS)
            hit = (at + rng.integers(cost.one_in)) % cost.one_in == 0
        logs[:, :, 1] -= math.log1p(cost.slower) * hit
    typical = locations(np.moveaxis(logs[:, :, 1:] - logs[:, :, :1], 1, 2))
    speeds = np.array([[log_mean_speed(own) for own in group.T] for group in logs])
    sums = (speeds[:, 1:] - speeds[:, :1]).T
    return [Claim(own, "higher") for own in typical.T], list(sums)


def shares(noise: Noise, cost: Rare, groups: int, experiments: int, seed: int) -> Said:
    rng = np.random.default_rng([seed, *f"{noise.name}/{cost.name}/{groups}".encode()])
    rows = []
    for _ in range(experiments):
        claims, sums = experiment(rng, noise, cost, groups)
        typical = judge(claims)
        judged, _quantiles = judge_sums(claims, typical, sums)
        same = [row.word == "equivalent" or row.equivalent_too for row, _ in judged]
        moved = [row.word in ("faster", "slower") for row, _ in judged]
        tails = [summed is not None and summed.tail for _, summed in judged]
        equal = slice(1 if cost.one_in else 0, None)
        rows.append(
            (
                tails[0],
                same[0],
                typical[0].word == "equivalent" or typical[0].equivalent_too,
                judged[0][0].word == "slower",
                any(moved[equal]) or any(tails[equal]),
                np.mean(same[1:]),
            )
        )
    return Said(*map(float, np.mean(np.asarray(rows, dtype=np.float64), axis=0)))


def kinds() -> list[tuple[Noise, Rare, int]]:
    """Equal kernels on every machine, rare costs in runs of several lengths."""
    equal = [(noise, COSTS[0], 24) for noise in NOISES]
    quiet = [(NOISES[0], cost, groups) for cost in COSTS[1:] for groups in (12, 24, 40)]
    return [*equal, *quiet, *((NOISES[2], cost, 24) for cost in COSTS[1:])]


def row(kind: tuple[Noise, Rare, int], experiments: int, seed: int) -> Sequence[str]:
    """Of the table under HEAD, shares in per cent."""
    noise, cost, groups = kind
    words = vars(shares(noise, cost, groups, experiments, seed)).values()
    return [noise.name, cost.name, str(groups), *(f"{100 * share:.1f}" for share in words)]


HEAD = ["noise", "cost", "groups", "named", "equivalent", "by typical turns alone", "slower"]
HEAD += ["runs with a false word", "equal kernels, equivalent"]
