# SPDX-License-Identifier: MIT
"""What a terminal shows of a verdict."""

from __future__ import annotations

from kdyno.report.show import terminal
from kdyno.report.show.terminal import Screen
from kdyno.report.terminal import parts
from kdyno.store.verdict import Verdict


def text(verdict: Verdict, width: int, *, colour: bool = False, unicode: bool = True) -> str:
    """At most ``width`` columns (40 to 160 are used)."""
    screen = Screen(width, colour, unicode)
    return terminal.text(parts(verdict, screen), screen)
