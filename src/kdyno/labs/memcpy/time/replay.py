# SPDX-License-Identifier: MIT
"""Copies to replay: drawn sizes and offsets, a recorded distribution, or a trace in its order.

A pool is an array of draws, longer than what one repetition uses: each repetition starts elsewhere
in it, so that no branch predictor learns the order by heart.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kdyno.errors import UsageError

if TYPE_CHECKING:
    from kdyno.labs.memcpy.count.distribution import Distribution
    from kdyno.labs.memcpy.count.trace import Copy

DRAW = np.dtype([("size", "<u4"), ("dst", "<u4"), ("src", "<u4")])
"""As ``struct draw`` of native/timing.c."""
POOL = 65536
"""Draws of a pool. A predictor was seen to keep a few thousand."""
LINE = 64

Draws = NDArray[np.void]
Numbers = NDArray[np.int64]


def mean_of_range(least: int, most: int) -> float:
    """Mean size of ``ranged``: bytes, the logarithm evenly distributed."""
    if least == most:
        return float(least)
    return (most + 1 - least) / math.log((most + 1) / least)


def ranged(dice: np.random.Generator, least: int, most: int, room: int, count: int) -> Draws:
    """Sizes from least to most with even logarithm, at any offset in ``room`` bytes."""
    low, high = math.log(least), math.log(most + 1)
    sizes = np.clip(np.exp(dice.uniform(low, high, count)).astype(np.int64), least, most)
    dst, src = (dice.integers(0, room - sizes + 1) for _ in range(2))
    return _draws(sizes, dst, src)


def constant(
    dice: np.random.Generator, size: int, dst: int, src: int, room: int, count: int
) -> Draws:
    """One size, targets and sources at dst and src modulo 64, on lines anywhere in ``room``."""
    sizes = np.full(count, size, dtype=np.int64)
    return _placed(dice, sizes, np.full(count, dst), np.full(count, src), room)


def weighted(dice: np.random.Generator, copies: Distribution, room: int, count: int) -> Draws:
    """Cells drawn by their calls; the lines at which they lie are anywhere in ``room``.

    UsageError where a copy of the distribution does not fit into ``room``.
    """
    calls = np.array([cell.calls for cell in copies.cells], dtype=np.float64)
    table = np.array([(cell.size, cell.dst, cell.src) for cell in copies.cells], dtype=np.int64)
    chosen = table[dice.choice(len(table), size=count, p=calls / calls.sum())]
    return _placed(dice, chosen[:, 0], chosen[:, 1], chosen[:, 2], room)


def in_order(dice: np.random.Generator, trace: Sequence[Copy], room: int, count: int) -> Draws:
    """The trace as it is, from a place drawn where it is longer than ``count``; repeated where it
    is shorter."""
    table = np.array(trace, dtype=np.int64).reshape(-1, 3)
    start = int(dice.integers(0, max(1, len(table) - count + 1)))
    part = table[start : start + count]
    part = np.resize(part, (max(count, len(part)), 3))
    return _placed(dice, part[:, 0], part[:, 1], part[:, 2], room)


def room_for(largest: int, region: int, level: str) -> int:
    """Bytes of the part of a region that is used: all, but little of it for L1."""
    if level != "L1":
        return region
    return min(region, max(8192, _power(2 * largest + 2 * LINE)))


def _placed(
    dice: np.random.Generator, sizes: Numbers, dst: Numbers, src: Numbers, room: int
) -> Draws:
    """Draws at whole lines plus the given remainders."""
    lines = (room - sizes - LINE) // LINE
    if lines.min() < 0:
        raise UsageError(
            f"a copy of {sizes.max()} bytes does not fit into the {room} bytes of this level; "
            "replay it at a farther level: --level memory"
        )
    starts = [dice.integers(0, lines + 1) * LINE for _ in range(2)]
    return _draws(sizes, starts[0] + dst, starts[1] + src)


def _draws(sizes: Numbers, dst: Numbers, src: Numbers) -> Draws:
    made = np.empty(len(sizes), dtype=DRAW)
    made["size"], made["dst"], made["src"] = sizes, dst, src
    return made


def _power(least: int) -> int:
    return 1 << max(0, least - 1).bit_length()
