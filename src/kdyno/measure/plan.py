# SPDX-License-Identifier: MIT
"""The order of boots: blocks, each with every variant once, shuffled by a recorded seed."""

from __future__ import annotations

import random
import secrets
from collections.abc import Sequence

COPY_SUFFIX = ".copy"
"""Name of the baseline's identical copy: the baseline's name and this."""


def new_seed() -> int:
    """A seed for a run that was given none."""
    return secrets.randbelow(1 << 32)


def block_order(seed: int, block: int, variants: Sequence[str]) -> tuple[str, ...]:
    """Order of ``variants`` in block number ``block``.

    Every block has a generator of its own, so an order depends on the seed and the block's
    number and not on what happened before: a resumed run goes on with the same plan.
    """
    order = list(variants)
    random.Random(f"{seed}:{block}").shuffle(order)
    return tuple(order)


def draw_of(seed: int, block: int) -> int:
    """Which perturbation all boots of a block have: the number that a machine draws it by."""
    return random.Random(f"{seed}:{block}:draw").randrange(1, 1 << 31)


def copy_name(baseline: str) -> str:
    """Name of the variant that is the baseline once more."""
    return baseline + COPY_SUFFIX
