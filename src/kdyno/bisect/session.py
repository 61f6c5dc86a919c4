# SPDX-License-Identifier: MIT
"""A search on real kernels: the ends, a probe after the other, the verification; kept on disk.

Every measurement is an ordinary run of an experiment that is made here: the points it compares are
its variants, which take turns in the same groups, and the run's own rule judges it. The state is
written whole after each of them, so that an interrupted search goes on where it was.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from kdyno import whole
from kdyno.bisect import points as ranges
from kdyno.bisect.points import Point, Range
from kdyno.bisect.search import WITHIN, Difference, Measured, Outcome, Same, Search, Span, Unusable
from kdyno.errors import BuildError, ToolError, UsageError
from kdyno.experiment import loader
from kdyno.experiment.model import Experiment
from kdyno.judge.judging import within
from kdyno.kernels import source
from kdyno.kernels.image import compiled_sources
from kdyno.kernels.source import Tree
from kdyno.measure.builder import Built, Recipes, build_all, check
from kdyno.measure.commands import literal
from kdyno.measure.execution import Options
from kdyno.measure.vocabulary import vocabulary
from kdyno.reading.checked import model_in
from kdyno.reading.mistakes import KeyPath, spelled
from kdyno.store.run import Run
from kdyno.store.verdict import Effect, FunctionCounts, Verdict
from kdyno.suites.catalogue import Catalogue

STATE, LOG, ANSWER, PATCHES = "bisect.json", "bisect.log", "answer.txt", "patches"
BUILD_S, MEASURE_S = 60.0, 60.0
"""Before anything was built or measured here."""
FLOOR, CEILING = 0.0002, 0.25
"""The smallest and the largest precision that a step is measured to, as a share."""
ENDS_PRECISION = 0.005
"""Of the ends, as long as nobody has said how large a difference is looked for."""
COARSE = 0.03
"""Of the ends at first."""
REVERTED = "reverted"


@dataclass(frozen=True)
class Question:
    """What is searched for, and how it is measured. Paths are absolute."""

    suite: str
    case: str
    base: dict[str, Any]
    """Tables of the experiment that all steps have: kernel, machine, suite, measure."""
    repository: str = ""
    """Folder of the commits; empty where the points are patches or options."""
    min_effect: float | None = None
    """As a share; None: a quarter of the difference of the ends."""
    max_minutes: float = 15.0
    """Of measuring, in each step."""
    layouts: int = 0
    """Links of each kernel in the verification; 0: its own alone."""
    home: str = ""
    """Where relative paths of ``base`` begin; empty: it has none."""


_OF_STEPS = ("metric", "interleave", "min_boots", "exact_boots", "insist")
"""Keys of [measure] that each step has from an experiment; how precise it is to be is its own."""


def base_of(tables: Mapping[str, Any], suite: str, case: str) -> dict[str, Any]:
    """``base`` of a question, from the tables of an experiment of commits."""
    uses = (
        table
        for table in tables["suite"]
        if table["name"] == suite and case in table.get("cases", [case])
    )
    own = {key: [case] if key == "cases" else value for key, value in next(uses).items()}
    measure = {key: value for key, value in tables.get("measure", {}).items() if key in _OF_STEPS}
    return {**tables, "suite": [own], "measure": measure}


@dataclass(frozen=True)
class Step:
    """A measured point, in the order of measuring."""

    at: int
    outcome: Measured | Same | Unusable
    run: str = ""
    """Name of its run; empty where none was needed."""
    seconds: float = 0.0
    build_seconds: float = 0.0


@dataclass(frozen=True)
class Verification:
    """A step that the search named, against the point before it, with fresh groups."""

    low: int
    high: int
    run: str
    difference: Difference
    holds: bool
    reverted: Difference | None = None
    """The bad end without it ÷ the bad end; None: the change cannot be taken out alone, or is the
    whole range."""
    why_not: str = ""
    """Why ``reverted`` is not known."""
    functions: tuple[FunctionCounts, ...] = ()
    """Where the machine counts: what one operation executes before and after."""


@dataclass(frozen=True)
class State:
    """The file."""

    question: Question
    range: Range
    ends: Difference | None = None
    ends_run: str = ""
    better: str = "higher"
    steps: tuple[Step, ...] = ()
    verified: tuple[Verification, ...] = ()
    finished: bool = False
    schema: int = 1

    @property
    def least(self) -> float:
        """The smallest |log ratio| that is searched for."""
        assert self.ends is not None
        return self.question.min_effect or self.ends.size / 4

    @property
    def reproduced(self) -> bool:
        """Whether the ends were measured and differ by what is looked for."""
        return self.ends is not None and self.ends.is_step(self.least)

    def search(self) -> Search:
        """Where the search stands: all steps, replayed."""
        assert self.ends is not None
        search = Search(Span(0, len(self.range.points) - 1, self.ends), self.least)
        verified = list(self.verified)
        for step in self.steps:
            _reject(search, verified)
            search.record(step.at, step.outcome)
        _reject(search, verified)
        return search


def _reject(search: Search, verified: list[Verification]) -> None:
    while search.span is None and verified:
        first = verified.pop(0)
        step = next(
            step for step in search.steps if (step.low, step.high) == (first.low, first.high)
        )
        if not first.holds:
            search.reject(step)


_FILE = TypeAdapter(State)
Execute = Callable[[Experiment, Catalogue, Options], tuple[Run, Verdict]]


def load(folder: Path) -> State:
    """UsageError for what is no search's folder."""
    return model_in(folder / STATE, _FILE, "no search was begun there")


@dataclass
class Session:
    """A search at work. ``execute`` measures an experiment; people hear by ``tell``."""

    folder: Path
    state: State
    suites: Catalogue
    options: Options
    execute: Execute
    tell: Callable[[str], None]
    _built: set[int] = field(default_factory=set)

    def check(self) -> None:
        """UsageError for what no run could be made of, before anything slow begins."""
        range_ = self.state.range
        source = {"source": f"git:{self.state.question.repository}#{range_.points[0].commit}"}
        ends = [
            replace(point, keys=source if point.commit else range_.keys(point))
            for point in (range_.points[0], range_.points[-1])
        ]
        self._experiment("ends", ends, 0.01)

    def save(self, **changes: Any) -> None:
        """Take the changes into the state, and write it whole."""
        self.state = replace(self.state, **changes)
        data = _FILE.dump_python(self.state, mode="json")
        whole.write(self.folder / STATE, json.dumps(data, indent=1).encode())
        whole.write(self.folder / LOG, git_log(self.state).encode("utf-8", "replace"))

    def run(self) -> State:
        """All that is left to do; the state at its end."""
        if self.state.ends is None:
            self._measure_ends()
        if not self.state.reproduced:
            self.save(finished=True)
            return self.state
        while True:
            search = self.state.search()
            if search.span is not None:
                self._probe(search)
            elif unverified := self._unverified(search):
                self._verify(unverified)
            else:
                self.save(finished=True)
                return self.state

    # The ends.

    def _measure_ends(self) -> None:
        points = self.state.range.points
        self.tell(f"the ends: {points[0].short} (good) and {points[-1].short} (bad)")
        good, bad = (self._with_keys(point) for point in (points[0], points[-1]))
        smallest = self.state.question.min_effect or ENDS_PRECISION
        # A large difference is seen at a glance.
        for precision in sorted({max(smallest, COARSE), smallest}, reverse=True):
            run, verdict = self._measured("ends", [good, bad], WITHIN * precision)
            effect = self._effect(verdict, bad.name)
            ends = _difference(effect)
            if ends is None:
                raise UsageError(f"the ends were not measured: {verdict.failed or effect.reason}")
            if ends.half_width <= ends.size / 4:
                break
        self.state = replace(self.state, ends=ends, ends_run=run.name, better=effect.better)
        if self.state.reproduced and self.state.range.what in ("commit", "file"):
            self._leave_out(good, bad)
        self.save()

    def _leave_out(self, good: Point, bad: Point) -> None:
        """Commits or files that change nothing that is compiled, by the ends' object trees."""
        range_, files = self.state.range, self.state.range.what == "file"
        if files:
            self.tell(f"which files differ between {good.title} and {bad.title}")
            trees = self._tree(good), self._tree(bad)
            range_ = replace(range_, points=ranges.files(good, *trees))
        experiment = self._experiment("ends", [good, bad], 0.01)
        recipes = check(experiment, self.options.cache, self.options.listener.fetching)
        compiled: frozenset[str] | None = frozenset()
        for recipe in recipes.of.values():
            own = compiled_sources(self.options.cache, recipe)
            compiled = None if own is None or compiled is None else compiled | own
        points = active = range_.points
        # That the ends differ by nothing that is compiled cannot be.
        if compiled and len(compiling := ranges.active(points, compiled)) > 1:
            active = compiling
        if inert := len(points) - len(active):
            self.tell(
                f"{inert} of {len(points) - 1} {range_.what}s change nothing that this "
                "configuration compiles"
            )
        if files:  # the last with all that was left out; and it is built already
            active = ranges.patched(active, trees[0].path, trees[1].path, self._patches)
            active = (*active[:-1], replace(active[-1], keys=bad.keys))
        self.state = replace(self.state, range=replace(range_, points=active))

    def _tree(self, end: Point) -> Tree:
        """The source of an end that names one."""
        spec = source.parse(end.keys["source"])
        return source.fetch(spec, self.options.cache, self.options.listener.fetching)

    # A probe.

    def _probe(self, search: Search) -> None:
        assert search.span is not None
        build_s, measure_s = self._costs()
        at = search.probe(self._built, build_s, measure_s)
        span, points = search.span, self.state.range.points
        left = search.left()
        self.tell(
            f"step {search.probes + 1}, about {left} to go: {points[at].short} "
            f"({points[at].title}); {at - span.low - 1} are left before it and "
            f"{span.high - at - 1} after it"
        )
        began_s = time.monotonic()
        three = [self._with_keys(points[place]) for place in (span.low, at, span.high)]
        name = f"step-{search.probes + 1}"
        experiment = self._experiment(name, three, search.half_width)
        try:
            recipes, built = self._built_of(experiment)
        except UsageError as problem:
            self._done(at, Unusable(str(problem)[:500]), "", began_s, 0.0)
            return
        build_s = time.monotonic() - began_s
        self._built |= {span.low, at, span.high}
        if why := next(iter(built.failed.values()), ""):
            self._done(at, Unusable(why[:500]), "", began_s, build_s)
            return
        low, middle, high = (built.images[point.name].content for point in three)
        if middle in (low, high):
            self.tell(f"{points[at].short} is the same kernel as one of the two")
            self._done(at, Same(middle == low), "", began_s, build_s)
            return
        options = replace(self.options, prepared=(recipes, built))
        run, verdict = self.execute(experiment, self.suites, options)
        outcome = self._outcome(run, verdict, three, search.half_width)
        self._done(at, outcome, run.name, began_s, build_s)

    def _outcome(
        self, run: Run, verdict: Verdict, three: Sequence[Point], needed: float
    ) -> Outcome:
        """needed: the half-width at which a step is decided."""
        _low, middle, high = (point.name for point in three)
        if why := verdict.failed.get(middle):
            return Unusable(why[:500])
        effect = self._effect(verdict, middle)
        first = _difference(effect)
        last = _difference(self._effect(within(run, middle, high), high))
        both = _difference(self._effect(verdict, high))
        if first is None or last is None or both is None:
            return Unusable(effect.reason or "no interval: too few groups")
        widest = max(difference.half_width for difference in (first, last, both))
        if widest > 2 * needed:
            raise UsageError(
                f"{run.name} does not decide: ±{100 * widest:.2f} % after "
                f"{self.state.question.max_minutes:g} minutes, and ±{100 * needed:.2f} % are "
                f"needed. `kdyno bisect --resume {self.folder.name} --max-minutes "
                f"{3 * self.state.question.max_minutes:g}` goes on"
            )
        return Measured(first, last, both)

    def _done(self, at: int, outcome: Outcome, run: str, began_s: float, build_s: float) -> None:
        if isinstance(outcome, Unusable):
            first = outcome.why.strip().splitlines() or [""]
            self.tell(f"{self.state.range.points[at].short} is left out: {first[0]}")
        seconds = time.monotonic() - began_s
        step = Step(at, outcome, run, round(seconds, 1), round(build_s, 1))
        self.save(steps=(*self.state.steps, step))

    def _costs(self) -> tuple[float, float]:
        """Seconds of a build and of a measurement, as they were so far."""
        steps = [step for step in self.state.steps if step.run]
        if not steps:
            return BUILD_S, MEASURE_S
        build_s = sum(step.build_seconds for step in steps) / len(steps)
        return build_s, sum(step.seconds for step in steps) / len(steps) - build_s

    # The verification.

    def _unverified(self, search: Search) -> Span | None:
        done = {(check.low, check.high) for check in self.state.verified}
        return next((step for step in search.steps if (step.low, step.high) not in done), None)

    def _verify(self, step: Span) -> None:
        points = self.state.range.points
        high = points[step.high]
        self.tell(f"{high.short} ({high.title}) is measured once more against what is before it")
        low = points[step.low]
        next_to = step.high == step.low + 1
        alone = next_to and (bool(high.parents) or self.state.range.what == "file")
        if high.parents and alone:
            # Its own parent, and not the last point before it that was not left out.
            low = Point(f"parent-{high.parents[0][:8]}", "its parent", {}, high.parents[0])
        compared = [self._with_keys(point) for point in (low, high)]
        why_not, bad = "", self._with_keys(points[-1])
        if not alone:
            why_not = "only one commit or file can be taken out alone"
        elif high.name == bad.name:
            why_not = "it is the last one"
        else:
            patch = self._reverted(high)
            keys = dict(bad.keys)
            keys["patches"] = [*keys.get("patches", []), str(patch)]
            reverted = Point(REVERTED, "the bad end without it", keys)
            if why_not := self._refusal([*compared, bad, reverted]):
                why_not = f"its revert does not apply: {why_not.splitlines()[0][:200]}"
            else:
                compared += [bad, reverted]
        least = self.state.least
        layouts = self.state.question.layouts
        run, verdict = self._measured("verify", compared, WITHIN * least, layouts=layouts)
        effect = self._effect(verdict, high.name)
        difference = _difference(effect)
        if difference is None:
            raise UsageError(f"{run.name}: the step was not measured: {verdict.failed}")
        without = None
        if not why_not:
            own = within(run, bad.name, REVERTED)
            without = _difference(self._effect(own, REVERTED))
            why_not = "" if without else own.failed.get(REVERTED, "it was not measured")[:200]
        holds = difference.is_step(least) and (difference.ratio > 1) == (step.difference.ratio > 1)
        figures = (difference, holds, without, why_not, effect.functions)
        checked = Verification(step.low, step.high, run.name, *figures)
        self.save(verified=(*self.state.verified, checked))

    def _reverted(self, high: Point) -> Path:
        """The change of a commit or file backwards, as a patch."""
        if self.state.range.what == "commit":
            return ranges.reverted(Path(self.state.question.repository), high, self._patches)
        good, bad = (self._tree(self.state.range.points[at]) for at in (0, -1))
        file = self._patches / f"revert-{high.name}.patch"
        whole.write(file, ranges.file_patch(bad.path, good.path, high.title))
        return file

    def _refusal(self, points: Sequence[Point]) -> str:
        """Why one of them cannot be; empty: all can."""
        experiment = self._experiment("verify", points, 0.01)
        try:
            check(experiment, self.options.cache, self.options.listener.fetching)
        except UsageError as problem:
            return str(problem)
        return ""

    # An experiment of some points.

    @property
    def _patches(self) -> Path:
        return self.folder / PATCHES

    def _with_keys(self, point: Point) -> Point:
        if not point.commit:
            keys = self.state.range.keys(point)
            if self.state.range.what == "file" and not point.keys:
                # As one patch: a sandbox for each of hundreds would take longer than the build.
                file = self._patches / f"up-to-{point.name}.patch"
                whole.write(file, b"".join(Path(patch).read_bytes() for patch in keys["patches"]))
                keys = {**keys, "patches": [str(file)]}
            return replace(point, keys=keys)
        good = self.state.range.points[0].commit
        return ranges.with_keys(Path(self.state.question.repository), point, good, self._patches)

    def _measured(
        self, name: str, points: Sequence[Point], half_width: float, layouts: int = 0
    ) -> tuple[Run, Verdict]:
        experiment = self._experiment(name, points, half_width, layouts)
        run, verdict = self.execute(experiment, self.suites, self.options)
        if any(point.name in verdict.failed for point in points[:2]):
            why = "; ".join(f"{name}: {text}" for name, text in verdict.failed.items())
            raise BuildError(f"{run.name}: {why}")
        return run, verdict

    def _experiment(
        self, name: str, points: Sequence[Point], half_width: float, layouts: int = 0
    ) -> Experiment:
        """Of these points, the first the baseline, measured until ±half_width (a log ratio)."""
        question = self.state.question
        base = question.base
        precision = round(min(max(half_width, FLOOR), CEILING), 6)
        measure = {
            "precision": precision,
            "equivalent": precision,
            "max_boots": 1000,
            "max_minutes": question.max_minutes,
            **base.get("measure", {}),
        }
        if name == "verify" and measure.get("metric") == "instructions":
            measure["profile"] = "count"
        data = {
            "name": f"bisect-{question.case}-{name}",
            "question": f"Where does the difference in {question.case} come from?",
            "baseline": points[0].name,
            **{key: value for key, value in base.items() if key != "measure"},
            "variant": {point.name: dict(point.keys) for point in points},
            "measure": measure,
            **({"layout": {"draws": layouts}} if layouts else {}),
        }
        words = vocabulary(self.suites)
        return loader.parse(
            toml(data), "kdyno bisect", Path(question.home or self.folder), words, _option
        )

    def _built_of(self, experiment: Experiment) -> tuple[Recipes, Built]:
        """UsageError where one of them cannot be built."""
        options, listener = self.options, self.options.listener
        recipes = check(experiment, options.cache, listener.fetching, report=listener.building)
        built = build_all(
            experiment,
            recipes,
            options.cache,
            jobs=options.jobs,
            report=listener.building,
            notify=listener.notify,
        )
        return recipes, built

    def _effect(self, verdict: Verdict, variant: str) -> Effect:
        question = self.state.question
        effect = verdict.effect_of((question.suite, question.case, variant))
        if effect is not None:
            return effect
        raise ToolError(f"the run has no figure of {question.suite}/{question.case} in {variant}")


_OPTIONS = {"suite": "--case", "machine": "--machine", "kernel": "--config", "measure": "--metric"}


def _option(path: KeyPath) -> str:
    """What the command line calls a key of the experiments that are made here."""
    return _OPTIONS.get(str(path[0]), spelled(path))


def _difference(effect: Effect) -> Difference | None:
    """None where it has no interval."""
    if effect.ratio is None or effect.ci is None:
        return None
    return Difference(effect.ratio, *effect.ci)


def git_log(state: State) -> str:
    """The search as `git bisect replay` reads it; only of commits."""
    points = state.range.points
    if state.range.what != "commit":
        return ""
    lines = ["git bisect start '--first-parent'"]
    lines += [f"git bisect bad {points[-1].commit}", f"git bisect good {points[0].commit}"]
    for step in state.steps:
        commit = points[step.at].commit
        match step.outcome:
            case Unusable():
                lines.append(f"git bisect skip {commit}")
            case Same(as_low):
                lines.append(f"git bisect {'good' if as_low else 'bad'} {commit}")
            case Measured(first, second, _whole):
                word = "good" if first.size < second.size else "bad"
                lines.append(f"git bisect {word} {commit}")
    return "\n".join([*lines, ""])


def toml(value: Any, path: str = "") -> str:
    """A document of tables, arrays of tables and plain values."""
    plain, tables = [], []
    for key, own in value.items():
        name = literal(key)
        inner = f"{path}.{name}" if path else name
        if isinstance(own, dict):
            tables.append(f"\n[{inner}]\n{toml(own, inner)}")
        elif isinstance(own, list) and own and isinstance(own[0], dict):
            tables += [f"\n[[{inner}]]\n{toml(element, inner)}" for element in own]
        else:
            plain.append(f"{name} = {literal(own)}\n")
    return "".join([*plain, *tables])
