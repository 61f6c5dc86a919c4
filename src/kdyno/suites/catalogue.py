# SPDX-License-Identifier: MIT
"""The catalogue of suites: one TOML file each, the packaged ones beside this file.

name  = "unixbench"             # required; the file is unixbench.toml
help  = "one line"              # required
index = 10.0                    # optional: index of a case = index * score / baseline

[groups]                        # optional: what is combined, by harmonic mean of the indices
memory = ["copy", "fill"]       # names of cases, or of groups above
total  = ["cpu", "memory"]

[case.pipe]                     # the cases, in the order in which they are listed and run
help     = "what one operation is"   # required
unit     = "loops/s"            # required
better   = "higher"             # required: higher | lower
bench    = "pipe"               # required but with command: a benchmark of the guest program
args     = ["512"]              # optional: the benchmark's arguments
score    = "rate"               # optional: rate (operations a second, the default for
                                #   higher) | time (seconds an operation, for lower)
scale    = 1.0                  # optional: the score is multiplied by this
control  = false                # optional: true when the kernel should not matter
baseline = 12440.0              # optional: the score that makes the index
timeout  = 60.0                 # optional: seconds, at most, for one sample
command  = false                # optional: true: the experiment's command line becomes args

A case that wraps an existing program has, instead of ``bench`` and ``args``:

command  = ["hackbench", "-g", "{groups}"]   # run to its end; see suites/figure.py for {…}
figure   = "Time: ([0-9.]+)"    # optional: regular expression with one group, found exactly once
                                #   in what it prints; without it the run's time is the figure
also     = { mean_ms = "mean: ([0-9.]+)" }   # optional: further figures, kept with the sample
settings = { groups = 2 }       # optional: what {groups} is unless an experiment says otherwise
quick    = { groups = 1 }       # optional: the same for --quick; warmups may be here, too
needs    = ["hackbench"]        # optional: programs ("apache2|httpd": either); the command's first
                                #   word if not given
install  = "rt-tests"           # optional: the Debian package(s) that bring them
warmups  = 1                    # optional: unmeasured runs before the measured one, 0 to 100
disk     = "1G"                 # optional: wants {disk}, an ext4 of this size in a guest
tree     = false                # optional: wants {tree}, the kernel source of the experiment
prepare  = ["sh", "{prepared}"] # optional: a command run once, outside of every measurement,
                                #   that fills the folder {prepared}, which all boots then see
uncounted = "why"               # optional: why fewer instructions would not mean that it is faster;
                                #   also beside the suite's name, for all its cases
work     = 1                    # optional: how much of a fixed work it does, or the setting that
                                #   says so. Its figure is work / time or time / work, so it can
                                #   take turns, in which its own clock is not believed. The time is
                                #   that of the command, or from its line "kdyno: timed from here"
                                #   to its line "kdyno: timed to here". With a disk: give it only
                                #   where nothing waits until the host has written (no fsync)
load     = "groups"             # optional: record the runnable tasks while it runs, against
                                #   this setting, which says how many there should be
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from kdyno.errors import UsageError
from kdyno.reading.mistakes import among
from kdyno.suites.job import CaseJob
from kdyno.suites.wrapping import filled_in

Better = Literal["higher", "lower"]
Score = Literal["rate", "time"]


@dataclass(frozen=True)
class CaseGroup:
    """``members`` are names of cases, or of groups that stand before this one."""

    name: str
    members: tuple[str, ...]


@dataclass(frozen=True)
class Case:
    """A benchmark with its arguments, and how its repetitions become a score."""

    suite: str
    name: str
    help: str
    unit: str
    better: Better
    bench: str
    args: tuple[str, ...] = ()
    score: Score = "rate"
    scale: float = 1.0
    control: bool = False
    """The kernel should not matter: a negative control."""
    baseline: float | None = None
    timeout_s: float = 60.0
    command: bool = False
    """The experiment says which command line to run."""
    program: tuple[str, ...] = ()
    """The command line of an existing program, with {…} in it."""
    figure: str | None = None
    also: tuple[tuple[str, str], ...] = ()
    settings: tuple[tuple[str, str], ...] = ()
    quick: tuple[tuple[str, str], ...] = ()
    needs: tuple[str, ...] = ()
    install: str = ""
    warmups: int = 1
    disk_bytes: int = 0
    tree: bool = False
    prepare: tuple[str, ...] = ()
    work: str = ""
    """How much of it a run does, or the setting that says so; empty: not known, or not fixed."""
    load: str = ""
    """Record the runnable tasks while it runs, of which this setting asks for so many."""
    of: str = ""
    """For a cell of a cross: what the cases of all its levels are called together."""
    levels: tuple[tuple[str, str], ...] = ()
    """(factor, level) pairs of such a cell."""
    uncounted: str = ""
    """Why a count of its instructions decides nothing; empty: see suites/instructions.py."""
    counted: bool = False
    """Its score is instructions, see suites/instructions.py."""


@dataclass(frozen=True)
class Suite:
    name: str
    help: str
    cases: tuple[Case, ...]
    index: float | None = None
    """Index of a case = index × score ÷ baseline; None: the suite has none."""
    groups: tuple[CaseGroup, ...] = ()
    """Scored from the indices of the cases; empty: a suite's index is of all its cases."""
    path: Path | None = None

    def case(self, name: str) -> Case:
        """UsageError with the nearest right word when there is none of this name."""
        for case in self.cases:
            if case.name == name:
                return case
        raise UsageError(
            f"suite {self.name} has no case {name!r}{among(name, [c.name for c in self.cases])}"
        )


Catalogue = Mapping[str, Suite]
"""All suites there are, by name."""


def load(extra: Iterable[Path] = ()) -> dict[str, Suite]:
    """The packaged suites and the user's own files, by name. Two of one name are an error."""
    return _with(_packaged(), extra)


@cache
def _packaged() -> Catalogue:
    """Read once: it takes longer than most of what is done with them."""
    return _with({}, sorted((Path(__file__).parent / "catalogue").glob("*.toml")))


def _with(known: Catalogue, files: Iterable[Path]) -> dict[str, Suite]:
    from kdyno.suites.file import load_file

    suites = dict(known)
    for path in files:
        suite = load_file(path)
        if suite.name in suites:
            raise UsageError(f"{path}: {suites[suite.name].path} already has suite {suite.name!r}")
        suites[suite.name] = suite
    return suites


def find(suites: Catalogue, name: str) -> Suite:
    """UsageError with the nearest right word when there is none of this name."""
    if name in suites:
        return suites[name]
    raise UsageError(f"there is no suite {name!r}{among(name, suites)}")


def case_job(
    case: Case,
    seconds: float | None = 0.5,
    operations: int | None = None,
    command: tuple[str, ...] = (),
    *,
    cpus: int = 1,
    quick: bool = False,
) -> CaseJob:
    """The case as a guest runs it. ``operations`` wins over ``seconds``.

    The time limit grows with the seconds asked for. ``cpus`` and ``quick`` fill an existing
    program's command line. UsageError when the case wants a command line and there is
    none, or the other way round.
    """
    where = f"{case.suite}/{case.name}"
    if case.command and not command:
        raise UsageError(f'{where}: command is missing, such as command = ["sort", "words"]')
    if command and not case.command:
        raise UsageError(f"{where}: this case takes no command; the suite run does")
    timeout_s = case.timeout_s + 4 * (seconds or 0.0)
    args = case.args + command
    options: list[str] = []
    work = 1
    warmups = str(case.warmups)
    if case.program:
        values = {**dict(case.settings), **(dict(case.quick) if quick else {})}
        warmups = values.pop("warmups", warmups)
        args = filled_in(case.program, values, seconds or 1.0, cpus)
        if case.load:
            options += ["--load", values[case.load]]
        if case.work:
            work = _work(where, case.work, values)
    if case.program or case.figure is not None:
        # A figure is of one run of the program: repeated it would be somebody else's figure.
        options = ["--warmups", warmups, *options]
        if case.figure is not None:  # however short the run, its time is not the figure
            options += ["--figure", "printed"]
        args = (*options, "--", *(args[1:] if args[:1] == ("--",) else args))
        seconds, operations = None, 1
    if operations is not None:
        seconds = None
    return CaseJob(
        suite=case.suite,
        case=case.name,
        bench=case.bench,
        args=args,
        seconds=seconds,
        operations=operations,
        timeout_s=timeout_s,
        work=work,
        placed=bool(case.program) or any("{programs}" in arg for arg in case.args),
    )


def _work(where: str, work: str, settings: Mapping[str, str]) -> int:
    text = settings.get(work, work)
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= 1 << 40):
        raise UsageError(f"{where}: {work} is {text!r}, and must be a whole number from 1")
    return int(text)
