# SPDX-License-Identifier: MIT
"""Loops joined with a profile: which of them lie where a kernel spends its time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kdyno.labs.profile.record import Profile
from kdyno.labs.vectorize.disassembly import stem
from kdyno.labs.vectorize.loops import Loop


@dataclass(frozen=True)
class HotFunction:
    """A function of the kernel with the loops in it. seconds: mean of a profiled boot."""

    function: str
    seconds: float
    share: float
    """Of all the kernel's own seconds."""
    missed: tuple[Loop, ...]
    vectors: tuple[Loop, ...]
    library: tuple[Loop, ...] = ()


@dataclass(frozen=True)
class Hot:
    """All functions of the profile, the hottest first. The shares of the three kinds and of the
    functions without any loop add up to 1."""

    variant: str
    method: str
    total_s: float
    functions: tuple[HotFunction, ...]

    @property
    def missed(self) -> list[HotFunction]:
        return [it for it in self.functions if it.missed]

    def share(self, kind: str) -> float:
        """Of the kernel's seconds in functions with a loop that is ``missed``; else with a
        ``vectorized`` one; else with neither: ``none``."""
        return sum(it.share for it in self.functions if _kind(it) == kind)


def _kind(it: HotFunction) -> str:
    return "missed" if it.missed else "vectorized" if it.vectors else "none"


def join(loops: Sequence[Loop], profile: Profile) -> Hot:
    """The kernel's functions of ``profile`` with their loops.

    By name, without what compilers add to the names of copies (``.isra.0``, ``.part.1``): the
    profile may come from the kernel without vectors, where other copies were made. A static
    function that shares its name with another gets the loops of both.
    """
    by_function: dict[str, list[Loop]] = {}
    for loop in loops:
        by_function.setdefault(stem(loop.function), []).append(loop)
    spent: dict[str, float] = {}
    for where, function in profile.names:
        if where == "kernel":
            seconds = profile.seconds(where, function)
            mean_s = sum(seconds.values()) / max(1, len(profile.boots))
            spent[stem(function)] = spent.get(stem(function), 0.0) + mean_s
    total_s = sum(spent.values())
    found = []
    for function, seconds_s in sorted(spent.items(), key=lambda it: (-it[1], it[0])):
        here = by_function.get(function, [])
        done = {loop.place for loop in here if loop.is_vector}
        missed = tuple(loop for loop in here if loop.reason and loop.place not in done)
        found.append(
            HotFunction(
                function,
                seconds_s,
                seconds_s / total_s if total_s else 0.0,
                tuple(dict.fromkeys(missed)),
                tuple(loop for loop in here if loop.is_vector),
                tuple(loop for loop in here if loop.library),
            )
        )
    return Hot(profile.variant, profile.method, total_s, tuple(found))
