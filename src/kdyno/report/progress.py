# SPDX-License-Identifier: MIT
"""How far a measuring run is, on stderr, redrawn between boots only.

Nothing here runs beside a timed guest: no thread, no timer. On a terminal the display is redrawn
in place; elsewhere a plain line appears every half minute."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TextIO

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from kdyno.report import figures, plain

_LINE_EVERY_S = 30.0
_EFFECTS_SHOWN = 12
_FAILURES_SHOWN = 3


@dataclass(frozen=True)
class EffectProgress:
    """One effect as it stands."""

    case: str
    variant: str
    half_width: float | None
    """Of the raw interval, as a fraction: what decides when to stop. Where it lies is not shown
    before the end: a look at differences while they are measured invites a stop at a false one."""
    settled: bool = False
    """Its width has reached the wanted precision."""


@dataclass(frozen=True)
class ProgressState:
    """Everything that is shown; made anew between boots."""

    experiment: str
    blocks_done: int
    blocks_max: int
    boots_done: int
    elapsed_s: float = 0.0
    """Since the beginning of measuring, from a monotonic clock of the caller."""
    left_s: float | None = None
    """Predicted; None while nothing can be predicted."""
    minutes_max: float | None = None
    effects: tuple[EffectProgress, ...] = ()
    failures: tuple[str, ...] = ()
    """The latest last, as ``boot 7 (mine): panic: …``."""
    now: str = ""
    """What is being done, such as ``booting mine``."""


class Progress:
    """A context manager around the loop; ``update`` is called between boots."""

    def __init__(self, say: Callable[[str], None], file: TextIO | None = None) -> None:
        """``say``: prints a line where there is no terminal."""
        file = file if file is not None else sys.stderr
        self._say = say
        self._console = Console(file=file, highlight=False, emoji=False, markup=False)
        self._live: Live | None = None
        self._printed_at_s: float | None = None
        self._failures = 0
        """How many were printed."""

    def __enter__(self) -> Progress:
        if self._console.is_terminal and not self._console.is_dumb_terminal:
            self._live = Live(
                console=self._console,
                # No thread of ours may run while a guest is timed.
                auto_refresh=False,
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def update(self, state: ProgressState) -> None:
        if self._live is not None:
            self._live.update(_picture(state, self._console.width), refresh=True)
            return
        # Failures are printed at once: a log that ends must hold the reason.
        for text in state.failures[self._failures :]:
            self.note(text)
        self._failures = max(self._failures, len(state.failures))
        if self._printed_at_s is None or state.elapsed_s - self._printed_at_s >= _LINE_EVERY_S:
            self._printed_at_s = state.elapsed_s
            self._say(line(state))

    def note(self, text: str) -> None:
        """One line that stays, above the display."""
        if self._live is not None:
            self._console.print(Text(plain.sentence(text)))
        else:
            self._say(plain.sentence(text))


def line(state: ProgressState) -> str:
    """The state in one line, for logs."""
    name = plain.short(state.experiment)
    failed = f" ({len(state.failures)} failed)" if state.failures else ""
    parts = [
        f"{name}: block {state.blocks_done} of at most {state.blocks_max}",
        f"{figures.count(state.boots_done, 'boot')}{failed}",
    ]
    if state.effects:
        settled = sum(effect.settled for effect in state.effects)
        parts.append(f"{settled} of {figures.count(len(state.effects), 'effect')} precise enough")
    left = f", about {duration(state.left_s)} left" if state.left_s is not None else ""
    most = f" (at most {duration(60.0 * state.minutes_max)})" if state.minutes_max else ""
    return ", ".join([*parts, f"{duration(state.elapsed_s)}{left}{most}"])


def duration(seconds: float) -> str:
    """``45 s``, ``3 min 20 s``, ``2 h 05 min``."""
    if not math.isfinite(seconds):
        return "?"
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def _picture(state: ProgressState, width: int) -> RenderableType:
    def one_line(text: str, style: str) -> Text:
        return Text(text, style=style, no_wrap=True, overflow="ellipsis")

    # By the prediction where there is one, else by the budget of blocks.
    share = state.blocks_done / state.blocks_max if state.blocks_max else 0.0
    if state.left_s is not None and state.elapsed_s + state.left_s > 0:
        share = state.elapsed_s / (state.elapsed_s + state.left_s)
    cells = max(10, min(width - 2, 60))
    full = round(max(0.0, min(share, 1.0)) * cells)
    bar = Text("━" * full + "╌" * (cells - full), style="cyan")
    parts: list[RenderableType] = [one_line(line(state), "bold"), bar]
    table = Table.grid(padding=(0, 2, 0, 0))
    for justify in ("left", "right", "left"):
        table.add_column(justify=justify, no_wrap=True, overflow="ellipsis")
    halves = [effect.half_width for effect in state.effects]
    widths = [math.inf if half is None else half for half in halves]
    # All when there are few; else those that keep the run going, in their own order.
    widest = sorted(range(len(widths)), key=lambda at: -widths[at])[:_EFFECTS_SHOWN]
    for effect in (state.effects[at] for at in sorted(widest)):
        half = effect.half_width
        table.add_row(
            Text(f"{plain.short(effect.variant)}  {plain.short(effect.case)}"),
            Text(f"±{figures.share(half)}" if half is not None else ""),
            Text("precise" if effect.settled else "", style="green"),
        )
    if state.effects:
        parts.append(table)
    if len(state.effects) > _EFFECTS_SHOWN:
        parts.append(Text(f"and {len(state.effects) - _EFFECTS_SHOWN} more", style="dim"))
    for text in state.failures[-_FAILURES_SHOWN:]:
        parts.append(one_line(plain.sentence(text), "magenta"))
    if state.now:
        parts.append(Text(plain.sentence(state.now), style="dim"))
    return Group(*parts)
