# SPDX-License-Identifier: MIT
"""kdyno watch: from a file to visits of its branch, and telling what they find."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from subprocess import PIPE, TimeoutExpired
from time import sleep
from typing import Any

from kdyno import command, whole
from kdyno.bisect.session import State, toml
from kdyno.bisect.watch import Watcher, text
from kdyno.cli.bisect import counted, deepest, keep_answer, searched
from kdyno.cli.measuring import options_of
from kdyno.errors import KdynoError, ToolError, UsageError
from kdyno.experiment import loader
from kdyno.experiment.model import Experiment
from kdyno.judge.judging import within
from kdyno.kernels.compiler import identify, refusal
from kdyno.kernels.source import is_url, parse
from kdyno.kernels.sources import git
from kdyno.machines import emulator
from kdyno.machines.guest import guest_program
from kdyno.measure.execution import Options
from kdyno.measure.vocabulary import vocabulary
from kdyno.report import figures, gate, plain
from kdyno.report.exporters import Test, TestSuite, junit_xml
from kdyno.report.show.terminal import show as show_grids
from kdyno.report.site.history import differences
from kdyno.store import watch as store
from kdyno.store.run import Run
from kdyno.store.verdict import Verdict
from kdyno.store.watch import Alarm, Watch
from kdyno.suites.catalogue import Catalogue, load as load_suites
from kdyno.verbs.options import ExperimentFile, Working, leave_out, option, runs_folder
from kdyno.verbs.output import check_writable, kept_status, say, show, write, write_json
from kdyno.verbs.subject import earlier
from kdyno.verbs.watching import Building

_TIMES_S = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_PATIENCE_S = 60.0
"""That a person's command has for an alarm."""


def watch(
    experiment: ExperimentFile = None,
    every: str | None = option(
        "--every TIME", "Repeat at this interval, such as 30m, 6h or 1d; default: once.", None
    ),
    junit: str | None = option(
        "--junit FILE", "Write what is new as JUnit XML; - is stdout.", None
    ),
    list_: bool = option(
        "--list", "List the differences on watched branches, measuring nothing.", False
    ),
    acknowledge: str | None = option(
        "--acknowledge ID", "Mark a difference as known to a person.", None
    ),
    *,
    working: Working,
) -> int:
    """Measure new commits of a branch, and report each difference once.

    Examples:
      kdyno watch nightly.toml
      kdyno watch nightly.toml --every 6h
      kdyno watch --list
      kdyno watch --acknowledge 1f0c9a77d2
    """
    runs = runs_folder(working.runs)
    check_writable(working.json, junit, "--junit")
    given = {"EXPERIMENT": experiment, "--every": every, "--junit": junit}
    given |= {"--acknowledge": acknowledge} if list_ else {"--json": working.json}
    if list_ or acknowledge is not None:
        leave_out(f"{'--list' if list_ else '--acknowledge'} measures nothing", given)
    if acknowledge is not None:
        alarm = store.acknowledge(runs, acknowledge)
        say(f"{alarm.id}: {alarm.name}, {figures.effect(alarm.ratio)}: acknowledged")
        return 0
    if list_:
        _list(runs, working.json)
        return 0
    every_s = 0.0
    if every is not None:
        match = re.fullmatch(r"(\d{1,5}(?:\.\d+)?)([smhd])", every)
        every_s = float(match[1]) * _TIMES_S[match[2]] if match else 0.0
        if not every_s:
            raise UsageError(f"--every {every!r}: give a time such as 30m, 6h or 1d")
    if experiment is None:
        raise UsageError("which branch? Give an experiment file whose source is git:FOLDER#BRANCH")
    options, first = options_of(working, loader.Overrides()), True
    while True:
        try:
            status = _visit(experiment, junit, options, working.json)
        except KdynoError as problem:
            # A mistake in the file ends the first look; a branch may be away for a while later.
            mistake = first and isinstance(problem, UsageError)
            if not every_s or mistake:
                raise
            say(f"kdyno: {problem}")
        if not every_s:
            return status
        say(f"next look in {every} (Ctrl-C ends it)")
        first = False
        sleep(every_s)


def _visit(file: Path, junit: str | None, options: Options, to_json: str | None) -> int:
    """Once. 10: something slower is new; 1: the tip has no figure."""
    for cached in (identify, refusal, emulator.find, emulator.library, guest_program):
        cached.cache_clear()  # the machine was updated meanwhile, perhaps
    suites = load_suites()
    words = vocabulary(suites)
    own = loader.of_commits(file, words)
    experiment = own.experiment
    source = experiment.variants[0].source
    spec = parse(source)
    if spec.kind != "git" or not spec.ref:
        raise UsageError(f"{file}: source = {source}: a branch is git:FOLDER_OR_URL#BRANCH")
    folder = store.folder_of(options.runs, experiment.name)
    if is_url(spec.rest):
        with Building() as building:
            repository = git.mirror(spec, options.cache, building.fetching)
    else:
        repository = Path(spec.rest).expanduser().resolve()
    for ref in filter(None, (spec.ref, own.watch.base)):
        git.commit_of(repository, ref)
    folder.mkdir(parents=True, exist_ok=True)
    with whole.locked(folder / ".lock", lambda who: say(f"{experiment.name}: waiting for {who}")):
        tip = git.commit_of(repository, spec.ref)

        def measure(tables: Mapping[str, Any]) -> tuple[Run, Verdict]:
            home = file.absolute().parent
            return execute(loader.parse(toml(tables), str(file), home, words), suites, options)

        def execute(plan: Experiment, suites: Catalogue, options: Options) -> tuple[Run, Verdict]:
            return once(plan, suites, options, folder / store.STATE)

        def search(place: Path, state: State) -> State:
            states = list(searched(place, state, options, execute))
            keep_answer(place, states)
            return deepest(states)

        now = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
        begun = (folder / store.STATE).is_file()  # by the one that was waited for, perhaps
        start = store.load(folder) if begun else Watch(experiment.name, source)
        if start.source != source:
            raise UsageError(
                f"{file}: {experiment.name} watches {start.source} ({folder}), and now the source "
                f"is {source}: give the experiment another name"
            )
        if not begun:  # so that runs of an earlier watch of this name are older than it
            store.save(folder, start)
        watcher = Watcher(folder, start, repository, own, measure, search, within, say, now)
        why = watcher.visit(tip)
        new = tuple(tell(watcher, say if "-" in (junit, to_json) else show))
        ratios = (watcher.watch.points[-1].ratios if watcher.watch.points else None) or {}
    if why:
        say(f"{tip[: git.SHORT]} has no figure: {why.strip().splitlines()[0]}")
    with kept_status():
        write_json({"schema": 1, "tip": tip, "why": why, "new": [*map(asdict, new)]}, to_json)
        if junit is not None:
            write(_junit(experiment, new, why, ratios.keys()), junit)
    slower = any(alarm.word == "slower" for alarm in new)
    return gate.SLOWER if slower else gate.FAILED if why else 0


def once(
    experiment: Experiment, suites: Catalogue, options: Options, state: Path
) -> tuple[Run, Verdict]:
    """The run of this very experiment: as an interrupted visit measured it, gone on with, or from
    its beginning. The state is written after each run that counts: one that began before that,
    with the same commits, was of another visit, and its figures are no second measurement."""
    saved = datetime.fromtimestamp(state.stat().st_mtime, UTC).isoformat(timespec="microseconds")
    for run, manifest, verdict in earlier(options.runs, experiment.text):
        if manifest.created < saved:
            continue
        if manifest.state == "finished" and verdict is not None:
            say(f"{run.name}: was measured before")
            return run, verdict
        if manifest.state in ("running", "interrupted") and not run.is_being_written():
            return counted(experiment, suites, options, run.path)
        break
    return counted(experiment, suites, options)


def tell(watcher: Watcher, to: Callable[[str], None]) -> Sequence[Alarm]:
    """Each alarm once: to people, and to the person's command. One that the command did not take is
    told again at the next visit, even if it has been fixed since."""
    new = []
    for at in range(len(watcher.watch.alarms)):
        alarm = watcher.watch.alarms[at]  # as it is by now: it may have been acknowledged
        if alarm.state not in ("bisected", "fixed") or alarm.told:
            continue
        words = text(alarm, watcher.watch.name)
        with kept_status():  # and at once: the process may live for months
            to(words)
        new.append(alarm)
        if watcher.file.watch.command:
            facts = {"schema": 1, "watch": watcher.watch.name, **asdict(alarm), "word": alarm.word}
            path, given = watcher.file.experiment.path, json.dumps({**facts, "text": words})
            argv, folder = watcher.file.watch.command, path.parent if path else None
            if problem := _delivered(argv, folder, given.encode()):
                say(f"{shlex.join(argv)}: {problem}; it is called again at the next look")
                continue
        watcher.save(alarms=watcher.watch.changed(replace(alarm, told=True)))
    return new


def _delivered(argv: Sequence[str], folder: Path | None, given: bytes) -> str:
    """Why a person's command did not take an alarm; empty: it did. What it leaves running is not
    waited for; at the limit it ends with all that it began."""
    try:
        with command.started(argv, stdin=PIPE, stdout=None, together=True, cwd=folder) as running:
            running.process.communicate(given, _PATIENCE_S)
            status, output = running.process.returncode, running.complaint()
    except TimeoutExpired:
        return f"it took longer than {_PATIENCE_S:g} s"
    except ToolError as problem:
        return str(problem)
    return f"status {status}: {output[-500:]}" if status else ""


def _junit(plan: Experiment, new: Sequence[Alarm], why: str, measured: Collection[str]) -> str:
    """A test per case; what is slower and new is a failure, a case without a figure an error."""
    slower = {alarm.name: alarm for alarm in new if alarm.word == "slower"}
    tests = []
    for name in (f"{use.name}/{case}" for use in plan.suites for case in use.cases):
        if why and name not in measured:
            tests.append(Test(name, plain.sentence(why), ("error", "failed")))
        elif alarm := slower.get(name):
            message = f"{figures.effect(alarm.ratio)} {alarm.commit[:12]} {alarm.title}"
            more = "\n".join(map(plain.line, text(alarm, plan.name).split("\n")))
            tests.append(Test(name, plain.sentence(message), ("failure", "slower"), more=more))
        else:
            tests.append(Test(name, ""))
    return junit_xml(plan.name, [TestSuite(plan.name, tests)])


def _list(runs: Path, to_json: str | None) -> None:
    watches = [store.load(folder) for folder in store.folders(runs)]
    rows = [
        {"watch": watch.name, **asdict(alarm), "word": alarm.word}
        for watch in watches
        for alarm in watch.alarms
    ]
    write_json(rows, to_json)
    if to_json != "-":
        for watch in watches:
            last = watch.points[-1].date if watch.points else "never"
            say(f"{watch.name}: {watch.source}, {len(watch.points)} points, the last {last}")
        show_grids(lambda _screen: [differences(watches)])


VERBS = {"watch": watch}
