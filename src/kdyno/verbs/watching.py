# SPDX-License-Identifier: MIT
"""What is shown on stderr while sources are fetched, kernels built and boots measured.

Nothing here runs beside a timed guest: no thread, no timer. The display of a run is redrawn between
boots only, in place on a terminal; elsewhere a plain line appears every half minute."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from kdyno.experiment.model import Experiment
from kdyno.kernels.build import BuildProgress
from kdyno.measure import execution
from kdyno.measure.loop import Status
from kdyno.report import figures, plain
from kdyno.stats.effect import PairedEffect
from kdyno.store.run import Run
from kdyno.store.verdict import Verdict
from kdyno.suites.catalogue import Catalogue
from kdyno.verbs.options import where
from kdyno.verbs.output import Line, lose_output, say

_QUIET_S = 2.0
_LINE_EVERY_S = 30.0
_EFFECTS_SHOWN = 12
_FAILURES_SHOWN = 3


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


class Building(AbstractContextManager["Building"]):
    """Fetching and building, one line."""

    def __init__(self) -> None:
        self._line = Line()
        self._phase = ""

    def fetching(self, text: str, part: float | None) -> None:
        share = f" {100 * part:.0f} %" if part is not None else ""
        self._line.show(f"{text}{share}", force=text != self._phase)
        self._phase = text

    def building(self, step: BuildProgress) -> None:
        if step.phase == "waiting":
            self._line.end(f"{step.variant}: {step.detail}")
            return
        if step.phase == "done":
            self._line.end(
                f"{step.variant}: built in {duration(step.elapsed_s)} ({step.objects} objects)"
            )
            return
        done = f"{step.objects} of about {step.total}" if step.total else f"{step.objects}"
        left = f", about {duration(step.left_s)} left" if step.left_s is not None else ""
        text = f"{step.variant}: {step.phase} {step.detail}"
        if step.phase in ("compile", "link"):
            text = f"{step.variant}: building, {done} objects{left}  {step.detail}"
        self._line.show(text, force=step.phase != self._phase)
        self._phase = step.phase

    def end(self) -> None:
        self._line.end()

    def __exit__(self, *_problem: object) -> None:
        self.end()


@contextmanager
def site_line() -> Iterator[Callable[[int, int], None]]:
    """Reports of a site made so far, one line, once it takes longer than two seconds."""
    line = Line()
    began_s = time.monotonic()

    def show(done: int, whole: int) -> None:
        took_s = time.monotonic() - began_s
        if took_s >= _QUIET_S and done < whole:
            left = duration(took_s / done * (whole - done))
            line.show(f"reports: {done} of {whole}, about {left} left")

    try:
        yield show
    finally:
        line.end()


class Progress:
    """How far a run is: a context manager around its loop; ``update`` is called between boots."""

    def __init__(self, experiment: Experiment) -> None:
        self._experiment = experiment
        self._console = Console(file=sys.stderr, highlight=False, emoji=False, markup=False)
        self._live: Live | None = None
        self._printed_at_s: float | None = None
        self._failures = 0
        """How many were printed."""

    def __enter__(self) -> Self:
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

    def __exit__(self, *_problem: object) -> None:
        if self._live is not None:
            self._draw(self._live.stop)
            self._live = None

    def _draw(self, draw: Callable[..., None], *args: object, **more: object) -> None:
        """A terminal that has gone ends the display, and not the run."""
        try:
            draw(*args, **more)
        except OSError:
            self._live = None
            lose_output(2)

    def update(self, status: Status) -> None:
        if self._live is not None:
            picture = _picture(self._experiment, status, self._console.width)
            self._draw(self._live.update, picture, refresh=True)
            return
        # Failures are printed at once: a log that ends must hold the reason.
        for text in status.failures[self._failures :]:
            self.note(text)
        self._failures = max(self._failures, len(status.failures))
        if self._printed_at_s is None or status.elapsed_s - self._printed_at_s >= _LINE_EVERY_S:
            self._printed_at_s = status.elapsed_s
            say(progress_line(self._experiment, status))

    def note(self, text: str) -> None:
        """One line that stays, above the display."""
        if self._live is not None:
            self._draw(self._console.print, Text(plain.sentence(text)))
        else:
            say(plain.sentence(text))


def progress_line(experiment: Experiment, status: Status) -> str:
    """How far the run is in one line, for logs."""
    measure, effects = experiment.measure, status.effects.values()
    failed = f" ({len(status.failures)} failed)" if status.failures else ""
    parts = [
        f"{plain.short(experiment.name)}: block {status.block} of at most {measure.max_boots}",
        f"{figures.count(status.boots, 'boot')}{failed}",
    ]
    if effects:
        settled = sum(_settled(effect, measure.precision) for effect in effects)
        parts.append(f"{settled} of {figures.count(len(effects), 'effect')} precise enough")
    left = f", about {duration(status.left_s)} left" if status.left_s is not None else ""
    most = f" (at most {duration(60.0 * measure.max_minutes)})" if measure.max_minutes else ""
    return ", ".join([*parts, f"{duration(status.elapsed_s)}{left}{most}"])


def _settled(effect: PairedEffect, precision: float) -> bool:
    return effect.half_width is not None and effect.half_width <= precision


def _picture(experiment: Experiment, status: Status, width: int) -> RenderableType:
    """Of an effect its width alone, which decides when to stop. Where it lies is not shown before
    the end: a look at differences while they are measured invites a stop at a false one."""

    def one_line(text: str, style: str) -> Text:
        return Text(text, style=style, no_wrap=True, overflow="ellipsis")

    # By the prediction where there is one, else by the budget of blocks.
    share = status.block / experiment.measure.max_boots
    if status.left_s is not None and status.elapsed_s + status.left_s > 0:
        share = status.elapsed_s / (status.elapsed_s + status.left_s)
    cells = max(10, min(width - 2, 60))
    full = round(max(0.0, min(share, 1.0)) * cells)
    bar = Text("━" * full + "╌" * (cells - full), style="cyan")
    parts: list[RenderableType] = [one_line(progress_line(experiment, status), "bold"), bar]
    table = Table.grid(padding=(0, 2, 0, 0))
    for justify in ("left", "right", "left"):
        table.add_column(justify=justify, no_wrap=True, overflow="ellipsis")
    effects = [*status.effects.items()]
    widths = [math.inf if own.half_width is None else own.half_width for _key, own in effects]
    # All when there are few; else those that keep the run going, in their own order.
    widest = sorted(range(len(widths)), key=lambda at: -widths[at])[:_EFFECTS_SHOWN]
    for (_suite, case, variant), effect in (effects[at] for at in sorted(widest)):
        half = effect.half_width
        word = "precise" if _settled(effect, experiment.measure.precision) else ""
        table.add_row(
            Text(f"{plain.short(variant)}  {plain.short(case)}"),
            Text(f"±{figures.share(math.expm1(half))}" if half is not None else ""),
            Text(word, style="green"),
        )
    if effects:
        parts.append(table)
    if len(effects) > _EFFECTS_SHOWN:
        parts.append(Text(f"and {len(effects) - _EFFECTS_SHOWN} more", style="dim"))
    for text in status.failures[-_FAILURES_SHOWN:]:
        parts.append(one_line(plain.sentence(text), "magenta"))
    now = f"{status.case}, in turns" if status.case else f"booting {status.variant}"
    parts.append(Text(plain.sentence(now), style="dim"))
    return Group(*parts)


@contextmanager
def watching(experiment: Experiment) -> Iterator[execution.Listener]:
    """A listener that shows everything on stderr while the context lasts."""
    with Building() as building, Progress(experiment) as progress:

        def notify(text: str) -> None:
            building.end()
            progress.note(text)

        yield execution.Listener(
            building.fetching,
            building.building,
            progress.update,
            notify,
            lambda path: notify(f"run: {path}"),
        )


def executed(
    experiment: Experiment,
    suites: Catalogue,
    options: execution.Options,
    resumed: Path | None = None,
) -> tuple[Run, Verdict]:
    """A run, or the rest of ``resumed``, watched. Whoever interrupts it hears how to go on."""
    begun: list[Path] = []

    def started(path: Path) -> None:
        begun.append(path)
        listener.started(path)

    with watching(experiment) as listener:
        options = replace(options, listener=replace(listener, started=started))
        try:
            if resumed is not None:
                return execution.resume(resumed, experiment, suites, options)
            return execution.execute(experiment, suites, options)
        except KeyboardInterrupt:
            if begun:
                again = f"kdyno run --resume {begun[0].name}{where(begun[0].parent)}"
                listener.notify(f"`{again}` goes on with this run")
            raise


def say_where(run: Run) -> None:
    """After the verdict: the run's folder, and how to see it again."""
    say(f"\nrun folder: {run.path}")
    say(f"again, as Markdown: kdyno report {run.name}{where(run.path.parent)} -f markdown")
