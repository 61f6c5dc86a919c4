# SPDX-License-Identifier: MIT
"""kdyno bisect: from a request to a search, the search inside a merge that it found, the answer."""

from __future__ import annotations

import math
import platform
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from secrets import token_hex
from typing import Any

from kdyno import whole
from kdyno.bisect import points, session
from kdyno.bisect.points import Point, Range
from kdyno.bisect.session import ANSWER, STATE, Execute, Question, Session, State, base_of
from kdyno.cli.measuring import options_of
from kdyno.errors import BuildError, ToolError, UsageError
from kdyno.experiment import loader
from kdyno.experiment.limits import FEWEST_LINKS, MOST_LINKS, MOST_MINUTES_OF_A_STEP
from kdyno.experiment.model import Experiment, Machine
from kdyno.kernels.source import is_url, parse
from kdyno.kernels.sources import git
from kdyno.labs.profile.counts import METHOD
from kdyno.labs.profile.verb import counted_after_run
from kdyno.machines.kinds import KINDS, of_command_line
from kdyno.measure.commands import DEFAULT_SOURCE, fragments_of
from kdyno.measure.execution import Options
from kdyno.measure.vocabulary import vocabulary
from kdyno.paths import cache_root
from kdyno.reading.mistakes import meant
from kdyno.store.run import Run
from kdyno.store.verdict import Verdict
from kdyno.suites.catalogue import Catalogue, load as load_suites
from kdyno.verbs.options import Bundle, ExperimentFile, Metric, Working, option, percent, where
from kdyno.verbs.output import kept_status, safe, say, show, write_json
from kdyno.verbs.watching import Building, executed


@dataclass(frozen=True)
class Request(Bundle):
    experiment: ExperimentFile = None
    source: str | None = option(
        "--source SOURCE",
        "git:FOLDER or git:URL of the commits; for --series and --between any source.",
        None,
    )
    good: str | None = option(
        "--good REF", "A commit without the difference, or a source such as a release.", None
    )
    bad: str | None = option("--bad REF", "A later commit or another source that has it.", None)
    series: Path | None = option("--series DIR", "Search the patches of a folder instead.", None)
    between: tuple[Path, Path] | None = option(
        "--between GOOD BAD", "Search the options of two .config files instead.", None
    )
    case: str | None = option("--case SUITE/CASE", "What differs, such as unixbench/pipe.", None)
    config: list[str] | None = option(
        "--config NAME", "Fragment or CONFIG_X=y of all kernels [bench]; may be repeated.", None
    )
    machine: str | None = option(
        "--machine uml|qemu", "User Mode Linux [uml], or a kernel in QEMU.", None
    )
    cpus: int | None = option("--cpus N", "CPUs of a guest [1].", None, min=1)
    metric: Metric = None
    min_effect: str | None = option(
        "--min-effect SHARE",
        "The smallest step looked for [a quarter of the difference of the ends].",
        None,
    )
    max_minutes: float | None = option(
        "--max-minutes MINUTES",
        "Of measuring, in each step [15].",
        None,
        min=0.05,
        max=MOST_MINUTES_OF_A_STEP,
    )
    layouts: int | None = option(
        "--layouts N",
        "Verify the commit in N links of each kernel.",
        None,
        min=FEWEST_LINKS,
        max=MOST_LINKS,
    )
    resume: str | None = option("--resume NAME", "Go on with a search: its folder, or last.", None)


def bisect(request: Request, working: Working) -> int:
    """Find the commit, patch, file or option that causes a difference.

    Examples:
      kdyno bisect --source git:../linux --good v7.2 --bad v7.3 --case unixbench/pipe
      kdyno bisect --source git:. --good v7.3 --bad main --case unixbench/pipe --cpus 2
      kdyno bisect --good kernel.org:7.3.1 --bad kernel.org:7.3.2 --case unixbench/pipe
      kdyno bisect slower.toml
      kdyno bisect --series patches/ --case unixbench/pipe
      kdyno bisect --between fast.config slow.config --case hackbench/pipes
      kdyno bisect --resume last
    """
    options = options_of(working, loader.Overrides())
    if request.resume is not None:
        given = {name for name, value in vars(request).items() if value is not None}
        if given - {"resume", "max_minutes"}:
            raise UsageError(
                "--resume goes on with a search as it was begun; give --max-minutes alone"
            )
        folder = _folder(request.resume, options.runs)
        state = session.load(folder)
        if request.max_minutes is not None:
            question = replace(state.question, max_minutes=request.max_minutes)
            state = replace(state, question=question)
    else:
        state = _begun(request)
        stamp = datetime.now(UTC).strftime("%Y-%m-%dT%H%M%S")
        folder = options.runs / f"{stamp}-bisect-{state.question.case}-{token_hex(2)}"
    try:
        states = list(searched(folder, state, options, counted))
    except BaseException:
        if (folder / STATE).is_file():
            say(f"{_resuming(folder)} goes on with this search")
        raise
    text, mail = keep_answer(folder, states)
    with kept_status():
        if working.json is not None:
            outer, *inner = map(session.data, states)
            write_json({**outer, "inside": inner}, working.json)
        if working.json != "-":
            show(text)
            if mail:
                show(f"\nfor the mailing list (also in {folder / ANSWER}):\n\n{mail}")
    say(f"\nsearch: {folder}")
    return {session.FOUND: 0, session.NOT_REPRODUCED: 12}.get(states[0].word, 13)


def _resuming(folder: Path) -> str:
    return f"`kdyno bisect --resume {folder.name}{where(folder.parent)}`"


def counted(
    experiment: Experiment, suites: Catalogue, options: Options, resumed: Path | None = None
) -> tuple[Run, Verdict]:
    """A run, and which functions it is in, where the experiment has that counted."""
    run, verdict = executed(experiment, suites, options, resumed)
    if experiment.measure.profile == METHOD:
        try:
            verdict = counted_after_run(run, verdict, experiment, suites, options)
        except (ToolError, UsageError) as problem:
            say(f"not counted by function: {problem}")
    return run, verdict


def keep_answer(folder: Path, states: Sequence[State]) -> tuple[str, str]:
    """(the answer, a mail or nothing) of a search and those inside merges, kept in its folder."""
    state = deepest(states)
    kind = state.question.base.get("machine", {}).get("kind", Machine().kind)
    text = "\n\ninside the merge:\n".join(map(session.answer, states))
    mail = session.letter(state, f"{platform.machine()}, {kind}")
    whole.write(folder / ANSWER, safe("\n\n".join([text, mail])).encode("utf-8", "replace"))
    return text, mail


def deepest(states: Sequence[State]) -> State:
    """Of a search and those inside merges: the one that names the commit."""
    return next((state for state in reversed(states) if state.cause), states[0])


def searched(folder: Path, state: State, options: Options, execute: Execute) -> Iterator[State]:
    """The search, and the one inside the merge that it found, and so on. What ends the inner one
    early is said, and leaves the answer of the outer one."""
    building = Building()
    listener = replace(options.listener, fetching=building.fetching, building=building.building)
    options = replace(options, listener=listener)

    def tell(text: str) -> None:
        building.end()
        say(text)

    merge, again = "", f"{_resuming(folder)} tries again"
    while True:
        own = Session(folder, state, load_suites(), options, execute, tell)
        try:
            own.check()
            with (
                building,
                whole.locked(folder / ".lock", lambda who: tell(f"the search waits for {who}")),
            ):
                if (folder / STATE).is_file():  # gone on with by whom it waited for, perhaps
                    own.state = replace(session.load(folder), question=state.question)
                own.save()
                state = own.run()
        except (BuildError, UsageError) as problem:
            if not merge:
                raise
            tell(f"the search inside the merge {merge} has no answer: {problem}\n{again}")
            return
        yield state
        point, repository = state.cause, Path(state.question.repository)
        if point is None:
            return
        (step,) = state.search().steps
        try:
            branch = points.merged(repository, point, state.range.points[step.low])
        except ToolError:
            say(f"{repository} does not go back to where the merged branch began: not searched")
            return
        if branch is None:
            return
        merge = point.short
        say(f"{merge} is a merge: its branch is searched from where it began")
        folder = folder / f"inside-{merge}"
        # What is less than half of it inside is not what was found outside.
        check = state.verification(step)
        least = max(state.least, (check or step).difference.size / 2)
        question = replace(state.question, min_effect=least)
        if (folder / STATE).is_file():
            state = replace(session.load(folder), question=question)
        else:
            state = State(question, Range(points.commits(repository, *branch), "commit"))


def _begun(request: Request) -> State:
    """A new search; the command line goes before a file's [bisect]. UsageError for mistakes."""
    suites, file = load_suites(), request.experiment
    suite, _, case = (request.case or "").partition("/")
    own, tables, home = loader.Searching(), {}, ""
    if file is not None:
        names = ("source", "series", "between", "config", "machine", "cpus", "metric")
        if several := [f"--{name}" for name in names if getattr(request, name) is not None]:
            raise UsageError(f"{', '.join(several)}: {file} says that already; take one of the two")
        content = loader.of_commits(file, vocabulary(suites))
        own, tables, home = content.bisect, content.tables, str(file.absolute().parent)
        cases = [f"{use.name}/{each}" for use in content.experiment.suites for each in use.cases]
        named = request.case or own.case or (cases[0] if len(cases) == 1 else "")
        if named not in cases:
            raise UsageError(
                f"{file}: which case? --case or [bisect] case: one of {', '.join(cases)}"
            )
        suite, _, case = named.partition("/")
        good, bad = request.good or own.good, request.bad or own.bad
        source = content.experiment.variants[0].source
        request = replace(request, source=source, good=good, bad=bad)
    elif not case:
        raise UsageError(
            "which case? For example --case unixbench/pipe; `kdyno list cases` names them"
        )
    elif suite not in suites:
        hint = meant(suite, suites, " Did you mean {}?")
        raise UsageError(f"--case {request.case}: there is no suite {suite!r}.{hint}")
    machine = request.machine or Machine().kind
    of_command_line(machine, "kernels are booted by")
    kernel, repository, range_ = _range(request)
    if file is not None:
        base = base_of(tables, suite, case)
    else:
        fragments = [] if range_.complete else fragments_of(request.cpus or 1)
        memory, counts = KINDS[machine].memory, request.metric not in (None, "time")
        machine_of = {"kind": machine, "cpus": request.cpus or 1}
        base = {
            "kernel": {**kernel, "config": request.config or fragments},
            "machine": machine_of | ({"memory": memory} if memory else {}),
            "suite": [{"name": suite, "cases": [case]}],
            "measure": {"metric": request.metric, "exact_boots": 1} if counts else {},
        }
    share = percent(request.min_effect, "--min-effect") or own.min_effect
    question = Question(
        suite=suite,
        case=case,
        base=base,
        repository=repository,
        min_effect=None if share is None else math.log1p(share),
        max_minutes=request.max_minutes or own.max_minutes or 15.0,
        layouts=request.layouts or own.layouts or 0,
        home=home,
    )
    return State(question, range_)


def _range(request: Request) -> tuple[dict[str, Any], str, Range]:
    """(keys of [kernel], the repository of commits, the points)."""
    source, good, bad = request.source, request.good, request.bad
    kinds = (request.series, request.between, good or bad)
    if sum(kind is not None for kind in kinds) > 1:
        raise UsageError("--series, --between, --good with --bad are three searches; take one")
    kernel = {"source": _absolute(source or DEFAULT_SOURCE)}
    if request.between is not None:
        return kernel, "", points.options(*request.between)
    if request.series is not None:
        return kernel, "", Range(points.series(request.series.absolute()), "patch")
    if good and bad and ":" in good + bad:  # no name of a commit has one
        if source is not None:
            raise UsageError(
                "--source is where commits are; --good and --bad are sources by themselves"
            )
        for end in (good, bad):
            parse(end)
        first = Point("good", good, {"source": _absolute(good)})
        last = Point("bad", bad, {"source": _absolute(bad)})
        if first.keys == last.keys:
            raise UsageError(f"--good {good} and --bad {bad} are the same source")
        return {}, "", Range((first, last), "file")
    if source is None or good is None or bad is None:
        raise UsageError(
            "which range? --source git:FOLDER_OR_URL --good REF --bad REF, or two sources such as "
            "--good kernel.org:7.3.1 --bad kernel.org:7.3.2, or --series DIR, or --between "
            "GOOD.config BAD.config"
        )
    spec = parse(source)
    if spec.kind != "git":
        raise UsageError(f"--source {source}: commits need a repository, git:FOLDER or git:URL")
    if is_url(spec.rest):
        with Building() as building:
            folder = git.between(spec.rest, good, bad, cache_root(), building.fetching)
    else:
        folder = Path(spec.rest).expanduser().resolve()
    return {}, str(folder), Range(points.commits(folder, good, bad), "commit")


def _absolute(source: str) -> str:
    """A source as it is named from any folder."""
    kind, colon, rest = source.partition(":")
    if kind in ("tar", "path") or (kind == "git" and not is_url(rest)):
        return f"{kind}{colon}{Path(rest).expanduser().absolute()}"
    return source


def _folder(name: str, runs: Path) -> Path:
    """Of the search that a person means. UsageError where there is none."""
    names = sorted(file.parent.name for file in runs.glob(f"*/{STATE}"))
    if name == "last" and names:
        return runs / names[-1]
    if Path(name, STATE).is_file():
        return Path(name).absolute()
    if name in names:
        return runs / name
    hint = meant(name, names, " Did you mean {}?")
    raise UsageError(f"--resume {name}: no such search in {runs}.{hint}")


VERBS = {"bisect": bisect}
