# SPDX-License-Identifier: MIT
"""What is shown on stderr while sources are fetched, kernels built and boots measured."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Self

from kdyno.errors import Interrupted
from kdyno.experiment.model import Experiment
from kdyno.kernels.build import BuildProgress
from kdyno.measure import execution
from kdyno.measure.execution import Listener, Options
from kdyno.measure.loop import Status
from kdyno.report.progress import EffectProgress, Progress, ProgressState, duration
from kdyno.store.run import Run
from kdyno.store.verdict import Verdict
from kdyno.suites.catalogue import Suite
from kdyno.verbs.options import where
from kdyno.verbs.output import Line, say

_QUIET_S = 2.0


class Building:
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

    def __enter__(self) -> Self:
        return self

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


@contextmanager
def watching(experiment: Experiment) -> Iterator[Listener]:
    """A listener that shows everything on stderr while the context lasts."""
    building = Building()
    with Progress(say) as progress:

        def notify(text: str) -> None:
            building.end()
            progress.note(text)

        yield Listener(
            building.fetching,
            building.building,
            lambda status: progress.update(_state(experiment, status)),
            notify,
            lambda path: notify(f"run: {path}"),
        )
    building.end()


def executed(
    experiment: Experiment,
    suites: Mapping[str, Suite],
    options: Options,
    resumed: Path | None = None,
) -> tuple[Run, Verdict]:
    """A run from its beginning, or from where ``resumed`` stopped, watched; and where it lies.

    Whoever interrupts it hears how to go on.
    """
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
        except (KeyboardInterrupt, Interrupted):
            if begun:
                again = f"kdyno run --resume {begun[0].name}{where(begun[0].parent)}"
                listener.notify(f"`{again}` goes on with this run")
            raise


def say_where(run: Run) -> None:
    """After the verdict: the run's folder, and how to see it again."""
    say(f"\nrun folder: {run.path}")
    say(f"again, as Markdown: kdyno report {run.name}{where(run.path.parent)} -f markdown")


def _state(experiment: Experiment, status: Status) -> ProgressState:
    measure, precision = experiment.measure, experiment.measure.precision
    effects = tuple(
        EffectProgress(
            case,
            variant,
            None if effect.half_width is None else math.expm1(effect.half_width),
            settled=effect.half_width is not None and effect.half_width <= precision,
        )
        for (_, case, variant), effect in status.effects.items()
    )
    return ProgressState(
        experiment=experiment.name,
        blocks_done=status.block,
        blocks_max=measure.max_boots,
        boots_done=status.boots,
        elapsed_s=status.elapsed_s,
        left_s=status.left_s,
        minutes_max=measure.max_minutes,
        effects=effects,
        failures=status.failures,
        now=f"{status.case}, in turns" if status.case else f"booting {status.variant}",
    )
