# SPDX-License-Identifier: MIT
"""When to stop measuring: the intervals' widths decide, never whether they leave 1 out.

Looking at "is it significant yet?" after every block finds a false difference sooner or later. A
width is not quite blind to signs either: where a kernel comes up in one of two states, blocks that
happen to agree are both narrow and far from 1, and small spreads stop early (Chow & Robbins 1965).
So the width is that of the signed-rank interval, whose ranks know least of it; the first look is
after 10 blocks; it must have been narrow with four fifths of the blocks already; and a tenth of
alpha is set aside. docs/research/statistics.md has what that costs and what it leaves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from .effect import FEWEST_BLOCKS, PairedEffect

DEFAULT_MINIMUM = 10
"""Blocks before the first look, unless more are asked for or needed."""
LOOK_EVERY = 2
"""Blocks from one look at the widths to the next."""
SHARE_BEFORE = 0.8
"""Part of the blocks with which the widths must have been small enough already."""
SHARE_FOR_VERDICTS = 0.8
"""Part of alpha that the verdicts of typical turns may spend; the looks at the widths have a tenth,
and what summed times say otherwise another (``verdict.SHARE_FOR_TAILS``)."""


@dataclass(frozen=True)
class Progress:
    """Where a run stands."""

    enough: bool
    predicted_blocks: int | None
    """Blocks in all at which the present spread predicts the end; None: not known yet."""


def minimum_blocks(minimum: int = DEFAULT_MINIMUM) -> int:
    """Blocks before the first look: no fewer than an effect needs to have an interval at all."""
    return max(minimum, FEWEST_BLOCKS)


def is_look(blocks: int, minimum: int) -> bool:
    """Whether the widths may end the run after this many blocks."""
    return blocks >= minimum and (blocks - minimum) % LOOK_EVERY == 0


def before(blocks: int) -> int:
    """The blocks with which a width must have been small enough, to be so after ``blocks``."""
    return math.ceil(SHARE_BEFORE * blocks)


def beside(blocks: int, links: int = 0) -> list[tuple[int | None, bool]]:
    """(first blocks, None: all; whether blocks of one link count each by itself) of the widths that
    must be small beside an effect's own, after ``blocks``.

    Over links an effect has few values, which more blocks only make alike: some look narrow by
    chance at every look. The blocks themselves are more, so their width has to be small too."""
    earlier = before(blocks)
    return [(earlier, False), *([(None, True), (earlier, True)] if links else [])]


def enough(
    effects: Sequence[PairedEffect],
    blocks: int,
    precision: float,
    asked_minimum: int = DEFAULT_MINIMUM,
    others: Sequence[PairedEffect] = (),
    links: int = 0,
) -> Progress:
    """Whether every effect is as precise as wanted, after ``blocks`` whole blocks.

    ``effects``: raw effects of every variant that is still alive, from ``paired_effect`` at the
    run's confidence; ``others``: those of ``beside``. ``precision``: wanted half-width as a
    fraction (0.005 is ±0.5 %), compared on the log scale. ``links``: of each kernel, where effects
    are over several. Blocks that a failed boot made useless count in ``blocks`` but not in an
    effect's ``n``. Call after each block; looks that are not due never say enough."""
    if not precision > 0:
        raise ValueError(f"precision must be positive, not {precision}")
    minimum = minimum_blocks(asked_minimum)
    # Each link is booted, and there are no more, however many blocks.
    least = links or minimum
    target = math.log1p(precision)
    present = [width for effect in effects if (width := effect.half_width) is not None]
    if not effects or len(present) < len(effects):
        return Progress(False, None)
    widths = [*present, *(effect.half_width for effect in others)]
    narrow = all(width is not None and width <= target for width in widths)
    # An effect that lost pairs to failed boots must have the minimum of its own as well.
    done = narrow and min(effect.n for effect in effects) >= least and is_look(blocks, minimum)
    next_look = blocks
    for effect, width in zip(effects, present, strict=True) if not done else ():
        # A half-width shrinks with the root of the number of pairs.
        pairs = max(effect.n * (width / target) ** 2 / SHARE_BEFORE, least, effect.n)
        # One pair has cost so many blocks so far.
        more = (pairs - effect.n) * max(1.0, blocks / effect.n)
        look = max(math.ceil(blocks + more), blocks + 1, minimum)
        next_look = max(next_look, look + (minimum - look) % LOOK_EVERY)
    return Progress(done, next_look)


def both(first: Progress, second: Progress) -> Progress:
    """Of two sets of effects with a precision each."""
    predicted = (first.predicted_blocks, second.predicted_blocks)
    last = None if None in predicted else max(filter(None, predicted))
    return Progress(first.enough and second.enough, last)
