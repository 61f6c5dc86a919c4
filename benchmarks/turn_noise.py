# SPDX-License-Identifier: MIT
"""Groups of guests that take turns on a machine that is made up, turn by turn.

One machine's speed over time (a walk, and bursts in which something else takes a share of it), one
guest after the other in it; guests differ by their own boot's state; what a turn measures is the
machine's mean speed during that turn. Logs throughout.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from kdyno.judge.pairs import undisturbed
from kdyno.measure.turns import TURN_S, orders
from kdyno.stats.effect import Floats
from kdyno.stats.groups import errors_of, locations_of


@dataclass(frozen=True)
class Noise:
    """Standard deviations of log speeds, unless said otherwise."""

    name: str
    turn: float = 0.01
    """Of a turn, of its own: Student's t with 3 degrees of freedom."""
    walk: float = 0.0
    """Of the machine's speed after a second."""
    bursts_per_s: float = 0.0
    """Something else that takes 10 to 60 % of the machine for 5 ms to 10 s (log-uniform)."""
    boot: float = 0.003
    """Of a guest's boot: memory layout and the like."""
    slow_boots: float = 0.0
    """Share of guests that come up 5 % slower."""
    disturbs: float = 0.0
    """One guest of each group, drawn anew, makes the next turn slower by so much."""
    disturber: float = 0.0
    """The same, but always the first variant's guest: it is its kernel that does so."""


NOISES = (
    Noise("quiet"),
    Noise("drift", walk=0.05),
    Noise("bursts of 5 ms to 10 s", bursts_per_s=0.5, walk=0.01),
    Noise("two boot states", slow_boots=0.25),
    Noise("a guest that disturbs the next", disturbs=0.02),
    Noise("a kernel that disturbs the next", disturber=0.02),
    Noise("all of it", walk=0.05, bursts_per_s=0.5, slow_boots=0.25, disturbs=0.02),
)


def group_values(
    rng: Generator, noise: Noise, groups: int, guests: int, rounds: int, cases: int = 1
) -> tuple[Floats, Floats]:
    """(log ratios of every guest but the first against it, their standard errors): both of shape
    (cases × (guests − 1), groups).

    One case after the other in the same boots. How many rounds a group has varies by a third, as
    what it costs is estimated anew; its turns are up to a tenth longer or shorter, as calibration
    is; rounds in which a guest waited for the CPU are left out as kdyno does.
    """
    boots = _boots(rng, noise, groups, guests)
    values = [_case(rng, noise, boots, rounds) for _ in range(cases)]
    return tuple(np.concatenate(each) for each in zip(*values, strict=True))  # type: ignore[return-value]


def _boots(rng: Generator, noise: Noise, groups: int, guests: int) -> Floats:
    boots = noise.boot * rng.standard_normal((groups, guests))
    return boots - 0.05 * (rng.random((groups, guests)) < noise.slow_boots)


def group_rounds(rng: Generator, noise: Noise, groups: int, guests: int, rounds: int) -> Floats:
    """Log speed of every guest in every round, shape (groups, rounds, guests)."""
    return _turns(rng, noise, _boots(rng, noise, groups, guests), rounds)[0]


def _case(rng: Generator, noise: Noise, boots: Floats, rounds: int) -> tuple[Floats, Floats]:
    groups, guests = boots.shape
    most = rounds + rounds // 3
    by_guest, late = _turns(rng, noise, boots, most)
    counts = rng.integers(2 * rounds - most, most + 1, groups)
    left = [
        undisturbed(
            by_guest[group, :count, guest] - by_guest[group, :count, 0],
            late[group, :count, guest] | late[group, :count, 0],
        )
        for guest in range(1, guests)
        for group, count in enumerate(counts)
    ]
    shape = (guests - 1, groups)
    return locations_of(left).reshape(shape), errors_of(left).reshape(shape)


def _turns(
    rng: Generator, noise: Noise, boots: Floats, rounds: int
) -> tuple[Floats, NDArray[np.bool_]]:
    """(log speeds, whether the guest waited for the CPU): shape (groups, rounds, guests) each."""
    groups, guests = boots.shape
    turns = rounds * guests
    speed, waited = _machine(rng, noise, groups, turns)
    places = np.stack([_places(rng, guests, rounds) for _ in range(groups)])
    longer = rng.uniform(0.9, 1.1, (groups, 1)) ** -0.5
    seen = speed + longer * noise.turn * rng.standard_t(3, (groups, turns)) / np.sqrt(3)
    if noise.disturbs:
        who = rng.integers(guests, size=groups)
        seen = seen - noise.disturbs * (np.roll(places, 1, axis=1) == who[:, None])
    if noise.disturber:
        seen = seen - noise.disturber * (np.roll(places, 1, axis=1) == 1)
    seen = seen + np.take_along_axis(boots, places, axis=1)
    # (groups, rounds, guests): every guest's turn of every round.
    by_guest = np.empty((groups, rounds, guests))
    late = np.zeros((groups, rounds, guests), np.bool_)
    at = np.arange(groups)[:, None], np.arange(turns) // guests, places
    by_guest[at], late[at] = seen, waited
    return by_guest, late


def _places(rng: Generator, guests: int, rounds: int) -> NDArray[np.int64]:
    """Which guest has which turn of a group; the order that kdyno itself would take."""
    names = [str(number) for number in range(guests)]
    order = orders(str(rng.integers(1 << 32)), names)
    return np.array([int(name) for _ in range(rounds) for name in next(order)])


def _machine(
    rng: Generator, noise: Noise, groups: int, turns: int
) -> tuple[Floats, NDArray[np.bool_]]:
    """Mean log speed during every turn, and whether the guest waited; shape (groups, turns).

    A guest waits where what takes the machine is on its own CPU: half of what does.
    """
    speed, waited = np.zeros((groups, turns)), np.zeros((groups, turns), np.bool_)
    if noise.walk:
        steps = noise.walk * TURN_S**0.5 * rng.standard_normal((groups, turns))
        speed += steps.cumsum(axis=1)
    if noise.bursts_per_s:
        span_s = turns * TURN_S
        begins = np.arange(turns) * TURN_S
        for at in range(groups):
            # Those that began before the group may still last.
            count = rng.poisson(noise.bursts_per_s * (span_s + 10.0))
            from_s = rng.uniform(-10.0, span_s, count)
            length_s = np.exp(rng.uniform(np.log(0.005), np.log(10.0), count))
            share = rng.uniform(0.1, 0.6, count)
            for begin_s, long_s, part in zip(from_s, length_s, share, strict=True):
                inside = np.minimum(begins + TURN_S, begin_s + long_s) - np.maximum(begins, begin_s)
                speed[at] += np.log1p(-part * np.clip(inside, 0.0, TURN_S) / TURN_S)
                waited[at] |= (inside > 0) & (rng.random() < 0.5)
    return speed, waited


def boot_values(
    rng: Generator, noise: Noise, groups: int, guests: int, rounds: int, cases: int = 1
) -> Floats:
    """The same machine and the same time by whole boots, one guest after the other."""
    boots = _boots(rng, noise, groups, guests)
    order = rng.permuted(np.broadcast_to(np.arange(guests), (groups, guests)), axis=1)
    ratios = []
    for _ in range(cases):
        speed, _ = _machine(rng, noise, groups, rounds * guests)
        seen = speed + noise.turn * rng.standard_t(3, speed.shape) / np.sqrt(3)
        medians = np.median(seen.reshape(groups, guests, rounds), axis=2)
        by_guest = np.take_along_axis(medians, order, axis=1) + boots
        ratios.append((by_guest[:, 1:] - by_guest[:, :1]).T)
    return np.concatenate(ratios)
