# SPDX-License-Identifier: MIT
"""The ratios that a best routine must reach, out of one bench.

One routine is judged in all of them: the one with the mildest worst ratio in L1.
"""

from __future__ import annotations

from dataclasses import dataclass

from kdyno.labs.memcpy.time import ratios as judging
from kdyno.labs.memcpy.time.results import Bench

SIZE = 4096
"""Bytes at which the share of L1's ceiling is taken."""


@dataclass(frozen=True)
class Goal:
    """One figure with its target: ``most`` or ``least``. ``ends``: 95 % interval."""

    name: str
    value: float
    ends: tuple[float, float] | None
    how: str
    most: float | None = None
    least: float | None = None

    @property
    def met(self) -> bool:
        return (self.most is None or self.value <= self.most) and (
            self.least is None or self.value >= self.least
        )


def goals(bench: Bench, name: str | None = None) -> list[Goal]:
    """The figures for ``name``; those that the bench has nothing for are left out."""
    near = [it for it in bench.loads if it.level == "L1" and it.mode in ("fixed", "random")]
    chosen = judging.worst(bench, name, near) if name else judging.steadiest(bench, near)
    if chosen is None or chosen.ratio.ratio is None:
        return []
    who = chosen.name
    found = [
        Goal(
            "worst time ÷ the faster of memcpy_orig and rep movsb, L1",
            chosen.ratio.ratio,
            _ends(chosen.ratio.lo, chosen.ratio.hi),
            f"{who}, at {chosen.load.id}",
            most=1.05,
        )
    ]
    for load in near:
        share = judging.share(bench, who, load)
        if (load.mode, load.least, load.alignment) == ("fixed", SIZE, "aligned") and share:
            how = f"{who}, both ends at 64 bytes"
            found.append(Goal("share of L1's ceiling at 4 KiB", share, None, how, least=0.8))
    for load in bench.loads:
        if load.mode != "distribution":
            continue
        beside = {"glibc": ("glibc's memcpy", 1.0)}
        if (rival := judging.rival(bench, load)) is not None:
            beside[rival] = (f"the faster of memcpy_orig and rep movsb ({rival})", 1.25)
        for other, (words, least) in beside.items():
            if other not in bench.ns:
                continue
            speed = judging.against(bench, other, who, load)
            if speed.ratio is not None:
                title = f"speed ÷ {words}, measured distribution"
                ends = _ends(speed.lo, speed.hi)
                found.append(Goal(title, speed.ratio, ends, who, least=least))
    return found


def _ends(low: float | None, high: float | None) -> tuple[float, float] | None:
    return None if low is None or high is None else (low, high)
