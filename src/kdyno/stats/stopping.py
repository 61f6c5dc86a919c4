# SPDX-License-Identifier: MIT
"""When to stop measuring: the intervals' widths decide, never whether they leave 1 out.

Looking at "is it significant yet?" after every block finds a false difference sooner or later.
A width says nothing about the sign of a difference: the boots of a block run in random order,
so for equal kernels the signs of the differences are coin tosses whatever the noise does, and
stopping on their sizes leaves the tosses alone. What remains is that small spreads stop early
(Chow & Robbins 1965). A minimum number of blocks, looks some blocks apart and a twentieth of
alpha set aside pay for that; docs/statistics.md has the simulated cost of the whole rule.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from .effect import FEWEST_BLOCKS, PairedEffect
from .holm import strictest_confidence
from .signedrank import fewest_pairs

DEFAULT_MINIMUM = 8
"""Blocks before the first look, unless more are asked for or needed."""

LOOK_EVERY = 2
"""Blocks from one look at the widths to the next."""

SHARE_FOR_VERDICTS = 0.95
"""Part of alpha that Holm's procedure may spend; the looks at the widths have the rest.

Simulated with all of alpha and 20,000 experiments a source, the looks turn 4.9 % of false alarms
into at most 5.1 % (heavy lower tail, 3 effects); coverage is never below 94.8 %, and 94.2 % for
the worst single case.
"""


@dataclass(frozen=True)
class Progress:
    """Where a run stands after ``blocks`` blocks."""

    enough: bool
    blocks: int
    minimum: int
    """Blocks before which the run never stops for precision."""
    widest: float | None
    """Largest half-width of a raw interval, as a fraction; None while an effect has none."""
    predicted_blocks: int | None
    """Blocks in all at which the present spread predicts the end; None: not known yet."""


def family_alpha(alpha: float) -> float:
    """What is left of alpha for the verdicts of a run that may stop early."""
    return SHARE_FOR_VERDICTS * alpha


def minimum_blocks(effects: int, confidence: float = 0.95, asked: int = DEFAULT_MINIMUM) -> int:
    """Blocks before the first look at a run with this many effects.

    At least what Holm's strictest step needs to have an interval at all: with 3 effects 7, with
    9 effects 9, with 60 effects 12. A run that is ended before by its budget can leave effects
    without a corrected interval, hence ``inconclusive``.
    """
    strictest = strictest_confidence(effects, family_alpha(1.0 - confidence))
    return max(asked, FEWEST_BLOCKS, fewest_pairs(strictest))


def is_look(blocks: int, minimum: int) -> bool:
    """Whether the widths may end the run after this many blocks."""
    return blocks >= minimum and (blocks - minimum) % LOOK_EVERY == 0


def enough(
    effects: Sequence[PairedEffect],
    blocks: int,
    precision: float,
    asked_minimum: int = DEFAULT_MINIMUM,
) -> Progress:
    """Whether every effect is as precise as wanted, after ``blocks`` whole blocks.

    ``effects``: raw effects of every variant that is still alive, from ``paired_effect`` at the
    run's confidence. ``precision``: wanted half-width as a fraction (0.005 is ±0.5 %), compared
    on the log scale. Blocks that a failed boot made useless count in ``blocks`` but not in an
    effect's ``n``. Call after each block; looks that are not due never say enough.
    """
    if not precision > 0:
        raise ValueError(f"precision must be positive, not {precision}")
    confidence = max((effect.confidence for effect in effects), default=0.95)
    minimum = minimum_blocks(len(effects), confidence, asked_minimum)
    target = math.log1p(precision)
    widths = [effect.half_width for effect in effects]
    known = [width for width in widths if width is not None]
    if not effects or len(known) < len(widths):
        return Progress(False, blocks, minimum, None, None)
    narrow = all(width <= target for width in known)
    fewest = min(effect.n for effect in effects)
    # An effect that lost pairs to failed boots must have the minimum of its own as well.
    done = narrow and fewest >= minimum and is_look(blocks, minimum)
    predicted = max(
        blocks + _more_pairs(effect, width, target, minimum) * _loss(effect, blocks)
        for effect, width in zip(effects, known, strict=True)
    )
    return Progress(
        enough=done,
        blocks=blocks,
        minimum=minimum,
        widest=math.expm1(max(known)),
        predicted_blocks=blocks if done else _next_look(math.ceil(predicted), blocks, minimum),
    )


def precise(effect: PairedEffect, effects: int, precision: float, asked_minimum: int) -> bool:
    """Whether this effect alone, of so many, needs no more blocks: by its width, at a look.

    The rule of ``enough`` for one effect, where blocks can go on without it.
    """
    minimum = minimum_blocks(effects, effect.confidence, asked_minimum)
    width = effect.half_width
    return width is not None and width <= math.log1p(precision) and is_look(effect.n, minimum)


def settled(blocks: int) -> Progress:
    """For a run in which nothing is estimated: its counts agree in every block."""
    return Progress(True, blocks, blocks, 0.0, blocks)


def _more_pairs(effect: PairedEffect, width: float, target: float, minimum: int) -> float:
    """Pairs still wanted; a half-width shrinks with the root of the number of pairs."""
    return max(effect.n * (width / target) ** 2, minimum) - effect.n if target > 0 else 0.0


def _loss(effect: PairedEffect, blocks: int) -> float:
    """Blocks that one pair has cost so far."""
    return max(1.0, blocks / effect.n)


def _next_look(predicted: int, blocks: int, minimum: int) -> int:
    look = max(predicted, blocks + 1, minimum)
    return look + (minimum - look) % LOOK_EVERY
