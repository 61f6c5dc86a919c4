# SPDX-License-Identifier: MIT
"""Negative controls: cases that do not depend on the kernel, so they must not move."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .verdict import Judgement


@dataclass(frozen=True)
class Controls:
    """What a run's controls say about the machine and the images' layout.

    Positions are those of the sequence given.
    """

    moved: tuple[int, ...]
    """Controls called faster or slower: layout, frequency or the machine changed."""
    moved_and_matter: tuple[int, ...]
    """Of these, the ones whose interval is not inside ±equivalent."""
    unsettled: tuple[int, ...]
    """Controls that are inconclusive, so they vouch for nothing."""


def read_controls(controls: Sequence[Judgement]) -> Controls:
    """Sorts the judgements of the negative controls, taken from a ``judge`` over the whole run.

    They are judged in the same family as all other effects, so a run without any cause moves a
    control, or anything else, with at most alpha.
    """
    moved = [index for index, each in enumerate(controls) if each.word in ("faster", "slower")]
    return Controls(
        moved=tuple(moved),
        moved_and_matter=tuple(index for index in moved if not controls[index].equivalent_too),
        unsettled=tuple(
            index for index, each in enumerate(controls) if each.word == "inconclusive"
        ),
    )
