# SPDX-License-Identifier: MIT
"""What is shown on stderr while sources are fetched, kernels built and boots measured."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from kdyno.cli.output import Line
from kdyno.report.progress import EffectProgress, Progress, ProgressState, duration

if TYPE_CHECKING:
    from kdyno.experiment.model import Experiment
    from kdyno.kernels.progress import BuildProgress
    from kdyno.lab.execution import Listener
    from kdyno.lab.measuring import Status
    from kdyno.lab.profiling import Status as ProfileStatus

_QUIET_S = 2.0


class Building:
    """Fetching and building, one line."""

    def __init__(self) -> None:
        self._line = Line()
        self._began_s = time.monotonic()
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


@contextmanager
def profile_line() -> Iterator[Callable[[ProfileStatus], None]]:
    """Progress of profiled boots, one line."""
    line = Line()

    def show(status: ProfileStatus) -> None:
        left = f", about {duration(status.left_s)} left" if status.left_s is not None else ""
        line.show(
            f"profiling: boot {status.done + 1} of {status.boots}, {status.variant}{left}",
            force=status.done == 0,
        )

    try:
        yield show
    finally:
        line.end()


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
    from kdyno.lab.execution import Listener

    building = Building()
    measure = experiment.measure
    with Progress() as progress:

        def told(text: str) -> None:
            building.end()
            progress.note(text)

        def started(path: Path) -> None:
            told(f"run: {path}")

        def measuring(status: Status) -> None:
            progress.update(_state(experiment, status, measure.max_minutes))

        yield Listener(building.fetching, building.building, measuring, told, started)
    building.end()


def _state(experiment: Experiment, status: Status, minutes_max: float | None) -> ProgressState:
    precision = experiment.measure.precision
    effects = tuple(
        EffectProgress(
            suite,
            case,
            variant,
            effect.ratio,
            (effect.lo, effect.hi) if effect.lo is not None and effect.hi is not None else None,
            settled=effect.half_width is not None and effect.half_width <= precision,
        )
        for (suite, case, variant), effect in status.effects.items()
    )
    return ProgressState(
        experiment=experiment.name,
        blocks_done=status.block,
        blocks_max=experiment.measure.max_boots,
        boots_done=status.boots,
        boots_failed=len(status.failures),
        elapsed_s=status.elapsed_s,
        left_s=status.left_s,
        minutes_max=minutes_max,
        precision=precision,
        effects=effects,
        failures=status.failures,
        now=f"booting {status.variant}",
    )
