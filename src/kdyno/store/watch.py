# SPDX-License-Identifier: MIT
"""Watched branches: their points, and the differences on them with their states.

Each watch is one file in a folder of its own among the runs, ``watch-NAME/watch.json``, whole after
each step of a visit: a visit that was interrupted goes on where it was. An acknowledgement is a
file of its own until the next save, so that it neither waits for a visit nor is lost in one."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from kdyno import whole
from kdyno.errors import UsageError
from kdyno.reading.checked import adapter, model_in

STATE, ACKNOWLEDGED = "watch.json", "acknowledged"
State = Literal["new", "confirmed", "bisected", "acknowledged", "fixed"]
"""new: one run has it. confirmed: so has a second. bisected: where it comes from is known, as far
as it can be. acknowledged: a person said so. fixed: a later commit undid it."""


@dataclass(frozen=True)
class Alarm:
    """A difference between two kernels of the branch."""

    id: str
    """Of case and commit, whatever the commit's number is after the branch was rebased."""
    suite: str
    case: str
    better: str
    """higher or lower"""
    good: str
    bad: str
    """Commits: it came after the one, up to the other."""
    ratio: float
    low: float
    high: float
    """tip ÷ ``reference``, and its interval."""
    state: State = "new"
    runs: tuple[str, ...] = ()
    p_value: float | None = None
    """Of the first run; None: change points of the history led to it."""
    commit: str = ""
    """Empty: spread over several, or not searched yet."""
    title: str = ""
    author: str = ""
    among: int = 1
    """Commits of which one is it; more than one where those before ``commit`` have no figure."""
    search: str = ""
    """Folder of the search."""
    note: str = ""
    """Why no commit is named."""
    undoes: str = ""
    """The alarm that this one puts an end to."""
    told: bool = False
    reference: str = ""
    """Empty in alarms of earlier versions: the point's."""

    @property
    def name(self) -> str:
        return f"{self.suite}/{self.case}"

    @property
    def log(self) -> float:
        return math.log(self.ratio)

    @property
    def word(self) -> str:
        return "faster" if (self.ratio > 1) == (self.better == "higher") else "slower"

    @property
    def stands(self) -> bool:
        """It is known, and there still."""
        return self.state in ("bisected", "acknowledged")


@dataclass(frozen=True)
class Point:
    """A commit of the branch that was measured, against ``reference``."""

    commit: str
    date: str
    """Of measuring, UTC."""
    reference: str
    run: str = ""
    ratios: dict[str, float] | None = None
    """SUITE/CASE → tip ÷ reference; None: it has no figures."""
    why: str = ""
    """It has none, or some of its cases have none."""
    level: float = 0.0
    """At which its differences were tested; 0: it was no test."""
    discovery: bool = False
    looked: tuple[str, ...] = ()
    """Cases in which the change points of the history were followed."""


@dataclass(frozen=True)
class Watch:
    name: str
    source: str
    """As in the experiment: git:FOLDER_OR_URL#BRANCH"""
    reference: str = ""
    """The last known good commit; empty before the first visit."""
    points: tuple[Point, ...] = ()
    alarms: tuple[Alarm, ...] = ()
    schema: int = 1

    def changed(self, *alarms: Alarm) -> tuple[Alarm, ...]:
        """All alarms, with these in place of those of the same id."""
        new = {alarm.id: alarm for alarm in alarms}
        return tuple(new.get(alarm.id, alarm) for alarm in self.alarms)


def folder_of(runs: Path, name: str) -> Path:
    return runs / f"watch-{name}"


def load(folder: Path) -> Watch:
    """UsageError for what is no watch's folder."""
    return _acknowledged(folder, model_in(folder / STATE, Watch, "nothing is watched there"))


def save(folder: Path, watch: Watch) -> Watch:
    """The watch as it was saved: with what was acknowledged since it was loaded."""
    watch = _acknowledged(folder, watch)
    whole.write(folder / STATE, adapter(Watch).dump_json(watch, indent=1))
    for alarm in watch.alarms:
        if alarm.state in ("acknowledged", "fixed"):
            (folder / ACKNOWLEDGED / alarm.id).unlink(missing_ok=True)
    return watch


def _acknowledged(folder: Path, watch: Watch) -> Watch:
    ids = {file.name for file in (folder / ACKNOWLEDGED).glob("*")}
    changes = (
        replace(alarm, state="acknowledged", told=True)
        for alarm in watch.alarms
        if alarm.id in ids and alarm.stands
    )
    return replace(watch, alarms=watch.changed(*changes))


def folders(runs: Path) -> list[Path]:
    """Of all watches of a folder of runs."""
    return [file.parent for file in sorted(runs.glob(f"watch-*/{STATE}"))]


def acknowledge(runs: Path, id: str) -> Alarm:
    """The alarm, now acknowledged. UsageError where none has this id, or it does not stand."""
    alarms = [(folder, alarm) for folder in folders(runs) for alarm in load(folder).alarms]
    same = [(folder, alarm) for folder, alarm in alarms if alarm.id == id]  # in several watches
    standing = [(folder, alarm) for folder, alarm in same if alarm.stands]
    for folder, _alarm in standing:
        (folder / ACKNOWLEDGED).mkdir(exist_ok=True)
        whole.write(folder / ACKNOWLEDGED / id, b"")
    if same and not standing:
        raise UsageError(f"--acknowledge {id}: it is {same[0][1].state}")
    if standing:
        return standing[0][1]
    ids = ", ".join(alarm.id for _folder, alarm in alarms if alarm.stands) or "none"
    raise UsageError(f"--acknowledge {id}: no difference has this id in {runs}; there are: {ids}")
