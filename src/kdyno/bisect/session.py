# SPDX-License-Identifier: MIT
"""A search on real kernels: the ends, a probe after the other, the verification, the answer.

Every measurement is an ordinary run of an experiment that is made here: the points it compares are
its variants, which take turns in the same groups, and the run's own rule judges it. The state is
written whole after each of them, so that an interrupted search goes on where it was.
"""

from __future__ import annotations

import json
import math
import shlex
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from kdyno import whole
from kdyno.bisect import points as ranges
from kdyno.bisect.points import Point, Range
from kdyno.bisect.search import WITHIN, Difference, Measured, Outcome, Same, Search, Span, Unusable
from kdyno.errors import BuildError, KdynoError, ToolError, UsageError
from kdyno.experiment import loader
from kdyno.experiment.model import Experiment
from kdyno.judge.judging import within
from kdyno.kernels import source
from kdyno.kernels.build import accepted, final_config
from kdyno.kernels.config import options
from kdyno.kernels.image import compiled_sources
from kdyno.kernels.recipe import Recipe
from kdyno.kernels.source import Tree
from kdyno.measure.builder import Built, Recipes, changed, check
from kdyno.measure.commands import literal
from kdyno.measure.execution import Options, built_of
from kdyno.measure.vocabulary import vocabulary
from kdyno.reading.checked import adapter, model_in
from kdyno.reading.mistakes import KeyPath, spelled
from kdyno.report import figures
from kdyno.store.run import Run, open_run
from kdyno.store.verdict import Effect, FunctionCounts, Verdict
from kdyno.suites.catalogue import Catalogue

STATE, LOG, ANSWER, PATCHES = "bisect.json", "bisect.log", "answer.txt", "patches"
BUILD_S, MEASURE_S = 60.0, 60.0
"""Before anything was built or measured here."""
_FEW_LINES = 40
"""Of a configuration; more are a file."""
FLOOR, CEILING = 0.0002, 0.25
"""The smallest and the largest precision that a step is measured to, as a share."""
ENDS_PRECISION = 0.005
"""Of the ends, as long as nobody has said how large a difference is looked for."""
COARSE = 0.03
"""Of the ends at first."""
_MOST_BUILDS = 8
"""Of a point that is a set of files, each with those that the one before lacked."""
_BAR = 24
"""Columns of the curve."""
REVERTED = "reverted"
FOUND, NOT_REPRODUCED, UNCLEAR = "found", "not-reproduced", "unclear"


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
    """As |log ratio|; None: a quarter of the difference of the ends."""
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
    along: tuple[str, ...] = ()
    """Of an option: what else it changes in the configuration."""


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
        """Where the search stands: all steps, replayed, and gone on from those that do not hold."""
        assert self.ends is not None
        search = Search(Span(0, len(self.range.points) - 1, self.ends), self.least)
        steps, verified = list(self.steps), list(self.verified)
        while verified if search.span is None else steps:
            if search.span is not None:
                step = steps.pop(0)
                search.record(step.at, step.outcome)
            elif not (check := verified.pop(0)).holds:
                ends = (check.low, check.high)
                search.reject(next(own for own in search.steps if (own.low, own.high) == ends))
        return search

    @property
    def word(self) -> str:
        """The short answer: found (one step, verified), not-reproduced, or unclear."""
        if not self.reproduced:
            return NOT_REPRODUCED
        return FOUND if self.search().certain and self.finished else UNCLEAR

    @property
    def cause(self) -> Point | None:
        """The one commit that was found; None: a range, no commit, or no single step."""
        if self.word != FOUND or self.range.what != "commit":
            return None
        (step,) = self.search().steps
        return self.range.points[step.high] if step.high == step.low + 1 else None

    def verification(self, step: Span) -> Verification | None:
        """Of a step that the search names; None: there was none yet."""
        ends = (step.low, step.high)
        return next((own for own in self.verified if (own.low, own.high) == ends), None)


@dataclass(frozen=True)
class _Three:
    """A point between the ends of its range."""

    points: Sequence[Point]
    experiment: Experiment
    failure: str = ""
    """Why not all of them are built."""
    prepared: tuple[Recipes, Built] | None = None
    """Their kernels."""


Execute = Callable[[Experiment, Catalogue, Options], tuple[Run, Verdict]]


def load(folder: Path) -> State:
    """UsageError for what is no search's folder."""
    return model_in(folder / STATE, State, "no search was begun there")


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
    _configurations: dict[str, tuple[dict[str, Any], Recipe]] = field(default_factory=dict)
    """Of options' points, by name: Kconfig takes seconds for each."""

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
        data = adapter(State).dump_python(self.state, mode="json")
        whole.write(self.folder / STATE, json.dumps(data, indent=1).encode())
        whole.write(self.folder / LOG, git_log(self.state).encode("utf-8", "replace"))

    def run(self) -> State:
        """All that is left to do; the state at its end."""
        if self.state.ends is None:
            self._measure_ends()
        while self.state.reproduced:
            search = self.state.search()
            if search.span is not None:
                self._probe(search, search.span)
            elif unverified := [own for own in search.steps if not self.state.verification(own)]:
                self._verify(unverified[0])
            else:
                break
        self.save(finished=True)
        return self.state

    def _measure_ends(self) -> None:
        if self.state.range.what == "option":
            self._order_options()
        points = self.state.range.points
        self.tell(f"the ends: {points[0].short} (good) and {points[-1].short} (bad)")
        good, bad = (self._with_keys(point) for point in (points[0], points[-1]))
        smallest = self.state.question.min_effect or ENDS_PRECISION
        # A large difference is seen at a glance.
        for precision in sorted({max(smallest, COARSE), smallest}, reverse=True):
            run, verdict = self._measured("ends", [good, bad], WITHIN * precision)
            effect, ends = self._effect(verdict, bad.name)
            if effect.reason:
                raise UsageError(f"the ends were not measured: {effect.reason}")
            if ends is None:
                (ends,) = self._decided(run, WITHIN * precision, ends)
            if ends.half_width <= ends.size / 4:
                break
        # That they do not differ is said of a narrow interval alone.
        if ends and not ends.is_step(self.state.question.min_effect or ends.size / 4):
            (ends,) = self._decided(run, WITHIN * smallest, ends)
        self.state = replace(self.state, ends=ends, ends_run=run.name, better=effect.better)
        if self.state.reproduced and self.state.range.what in ("commit", "file"):
            self._leave_out(good, bad)
        self.save()

    def _order_options(self) -> None:
        """The answers of a choice as one point; and whole configurations without what nobody can
        set, or what is the same in the end."""
        range_ = self.state.range
        recipes = [self._configured(point)[1] for point in (range_.points[0], range_.points[-1])]
        first = recipes[0]
        declared = options(first.tree.path, first.changes, first.arch)
        if range_.complete:
            good, bad = (final_config(self.options.cache, recipe) or "" for recipe in recipes)
            points = ranges.settable(range_, good, bad, declared)
            differing = len(range_.points) - 1
            self.tell(f"of {differing} options that differ, {len(points) - 1} can be set here")
        else:
            points = ranges.together(range_.points, declared)
        self._configurations.clear()  # these points have other lines and names
        self.save(range=replace(range_, points=points))

    def _leave_out(self, good: Point, bad: Point) -> None:
        """Commits or files that change nothing that is compiled, by the ends' object trees."""
        range_, files = self.state.range, self.state.range.what == "file"
        if files:
            self.tell(f"which files differ between {good.title} and {bad.title}")
            trees = self._tree(good), self._tree(bad)
            range_ = replace(range_, points=ranges.files(good, *trees))
        experiment = self._experiment("ends", [good, bad], 0.01)
        recipes = check(experiment, self.options.cache, self.options.listener.fetching)
        own = [compiled_sources(self.options.cache, recipe) for recipe in recipes.of.values()]
        points = range_.points
        if (compiled := frozenset[str]().union(*filter(None, own))) and None not in own:
            active = ranges.active(points, compiled)
            # That the ends differ by nothing that is compiled cannot be.
            points = active if len(active) > 1 else points
        if inert := len(range_.points) - len(points):
            self.tell(
                f"{inert} of {len(range_.points) - 1} {range_.what}s change nothing that this "
                "configuration compiles"
            )
        if files:  # the last with all that was left out; and it is built already
            points = ranges.patched(points, trees[0].path, trees[1].path, self._patches)
            points = (*points[:-1], replace(points[-1], keys=bad.keys))
        self.state = replace(self.state, range=replace(range_, points=points))

    def _tree(self, end: Point) -> Tree:
        """The source of an end that names one."""
        spec = source.parse(end.keys["source"])
        return source.fetch(spec, self.options.cache, self.options.listener.fetching)

    def _probe(self, search: Search, span: Span) -> None:
        points, steps = self.state.range.points, [step for step in self.state.steps if step.run]
        build_s, measure_s = BUILD_S, MEASURE_S
        if steps:
            build_s = sum(step.build_seconds for step in steps) / len(steps)
            measure_s = sum(step.seconds for step in steps) / len(steps) - build_s
        at = search.probe(self._built, build_s, measure_s)
        self.tell(
            f"step {search.probes + 1}, about {search.left()} to go: {points[at].short} "
            f"({points[at].title}); {at - span.low - 1} are left before it and "
            f"{span.high - at - 1} after it"
        )
        began_s = time.monotonic()
        three = self._build(search, span, at)
        for _ in range(_MOST_BUILDS - 1):
            later = points[at + 1 : span.high] if self.state.range.what == "file" else ()
            if not (needed := ranges.needed(three.failure, later)):
                break
            users = ranges.needed(three.failure, points[span.low + 1 : at + 1])
            self._take_before(needed, points.index(users[0]) if users else at, at)
            at += len(needed)
            points = self.state.range.points
            three = self._build(search, span, at)
        build_s, run = time.monotonic() - began_s, ""
        outcome: Outcome
        if three.prepared is None:
            outcome = Unusable(three.failure[:500])
        else:
            images = three.prepared[1].images
            low, middle, high = (images[point.name].content for point in three.points)
            self._built |= {span.low, at, span.high}
            if middle in (low, high):
                self.tell(f"{points[at].short} is the same kernel as one of the two")
                outcome = Same(middle == low)
            else:
                options = replace(self.options, prepared=three.prepared)
                own, verdict = self.execute(three.experiment, self.suites, options)
                run = own.name
                outcome = self._outcome(own, verdict, three.points, search.half_width)
        if isinstance(outcome, Unusable):
            first = outcome.why.strip().splitlines() or [""]
            self.tell(f"{points[at].short} is left out: {first[0]}")
        step = Step(at, outcome, run, round(time.monotonic() - began_s, 1), round(build_s, 1))
        self.save(steps=(*self.state.steps, step))

    def _build(self, search: Search, span: Span, at: int) -> _Three:
        """The kernels of a point and of the ends of its range."""
        places = (span.low, at, span.high)
        three = [self._with_keys(self.state.range.points[place]) for place in places]
        experiment = self._experiment(f"step-{search.probes + 1}", three, search.half_width)
        cache, listener = self.options.cache, self.options.listener
        try:
            recipes = check(experiment, cache, listener.fetching, report=listener.building)
            self._refuse_changed(experiment, recipes)
            built = built_of(experiment, recipes, self.options)
        except UsageError as problem:
            return _Three(three, experiment, str(problem))
        if all(point.name in built.images for point in three):
            return _Three(three, experiment, prepared=(recipes, built))
        low, middle, high = (point.name for point in three)
        if why := built.failed.get(low) or built.failed.get(high):
            raise BuildError(f"a kernel that was built before does not build any more: {why}")
        return _Three(three, experiment, built.failed.get(middle, "it was not built"))

    def _refuse_changed(self, experiment: Experiment, recipes: Recipes) -> None:
        """ToolError where a point is not the kernel that it was when it was measured: a folder or a
        patch was edited, a branch moved, the compiler is a newer one."""
        own, ends = self.state, {self.state.range.points[at].name for at in (0, -1)}
        for name in (own.ends_run, *(step.run for step in own.steps if step.run)):
            images: Mapping[str, str] = {}
            with suppress(KdynoError):  # a run that was deleted says nothing
                images = open_run(self.options.runs / name).manifest().images
            if own.range.what == "file":  # others stand for other files by now, see _take_before
                images = {point: image for point, image in images.items() if point in ends}
            if (point := changed(experiment, recipes, images)) is not None:
                raise ToolError(
                    f"{point} is not the kernel that it was in {name} (its source, a patch, the "
                    "configuration or the compiler changed): put it back, or begin a new search"
                )

    def _take_before(self, needed: Sequence[Point], place: int, at: int) -> None:
        """Put the files of a range in which nothing is measured yet into another order: what ``at``
        lacks goes before ``place``, from where on it is needed. A point without a figure keeps its
        failure."""
        range_, names = self.state.range, ", ".join(point.title for point in needed)
        self.tell(f"{range_.points[at].short} does not build without {names}: with them, then")
        head, tail = range_.points[:place], range_.points[place:]
        points = (*head, *needed, *(point for point in tail if point not in needed))
        own = (replace(step, at=points.index(range_.points[step.at])) for step in self.state.steps)
        self.save(range=replace(range_, points=points), steps=tuple(own))

    def _outcome(
        self, run: Run, verdict: Verdict, three: Sequence[Point], needed: float
    ) -> Outcome:
        """needed: the half-width at which a step is decided."""
        _low, middle, high = (point.name for point in three)
        ends, both = self._effect(verdict, high)
        if both is None and ends.reason:
            raise ToolError(
                f"{run.name}: kernels that had figures before have none: {ends.reason[:500]}"
            )
        effect, first = self._effect(verdict, middle)
        if why := verdict.failed.get(middle) or effect.reason:
            return Unusable(why[:500])
        _, last = self._effect(within(run, middle, high), high)
        return Measured(*self._decided(run, needed, first, last, both))

    def _decided(self, run: Run, needed: float, *own: Difference | None) -> list[Difference]:
        """Those differences; UsageError where one is known too roughly for a step. needed: the
        half-width at which it is decided."""
        intervals = [difference for difference in own if difference is not None]
        widest = max((difference.half_width for difference in intervals), default=math.inf)
        if len(intervals) == len(own) and widest <= 2 * needed:
            return intervals
        width = "no interval" if len(intervals) < len(own) else f"±{100 * widest:.2f} %"
        raise UsageError(
            f"{run.name} does not decide: {width} after {self.state.question.max_minutes:g} "
            f"minutes, and ±{100 * needed:.2f} % are needed: --max-minutes, in a file max_minutes, "
            "allows more"
        )

    def _verify(self, step: Span) -> None:
        """A step that the search names, with fresh groups; and its revert on the bad end."""
        points, what = self.state.range.points, self.state.range.what
        low, high = points[step.low], points[step.high]
        self.tell(f"{high.short} ({high.title}) is measured once more against what is before it")
        alone = step.high == step.low + 1 and (bool(high.parents) or what == "file")
        why_not = "" if alone else "only one commit or file can be taken out alone"
        if high.parents and alone:
            # Its own parent, and not the last point before it that was not left out.
            repository, parent = Path(self.state.question.repository), high.parents[0]
            if ranges.has(repository, parent, low.commit):
                low = Point(f"parent-{parent[:8]}", "its parent", {}, parent)
            else:
                why_not = f"it merges {low.short} into a branch that did not have it"
        if not why_not and high.name == points[-1].name:
            why_not = "it is the last one"
        compared, bad = [self._with_keys(point) for point in (low, high)], points[-1]
        if not why_not:
            bad = self._with_keys(bad)
            patches = [*bad.keys.get("patches", []), str(self._reverted(high))]
            keys = {**bad.keys, "patches": patches}
            four = [*compared, bad, Point(REVERTED, "the bad end without it", keys)]
            experiment = self._experiment("verify", four, 0.01)
            try:
                check(experiment, self.options.cache, self.options.listener.fetching)
                compared = four
            except UsageError as problem:
                why_not = f"its revert does not apply: {str(problem).splitlines()[0][:200]}"
        least, layouts = self.state.least, self.state.question.layouts
        run, verdict = self._measured("verify", compared, WITHIN * least, layouts)
        effect, difference = self._effect(verdict, high.name)
        if effect.reason:
            raise UsageError(f"{run.name}: the step was not measured: {effect.reason}")
        if difference is None or not difference.is_step(least):
            (difference,) = self._decided(run, WITHIN * least, difference)
        reverted = None
        if not why_not:
            own = within(run, bad.name, REVERTED)
            _, reverted = self._effect(own, REVERTED)
            why_not = "" if reverted else own.failed.get(REVERTED, "it was not measured")[:200]
        holds = difference.is_step(least) and (difference.ratio > 1) == (step.difference.ratio > 1)
        more = (difference, holds, reverted, why_not, effect.functions)
        along: tuple[str, ...] = ()
        if what == "option" and step.high == step.low + 1:
            recipes = [self._configured(points[at])[1] for at in (step.low, step.high)]
            finals = (final_config(self.options.cache, recipe) or "" for recipe in recipes)
            along = ranges.drawn_along(high, *finals)
        own_check = Verification(step.low, step.high, run.name, *more, along)
        self.save(verified=(*self.state.verified, own_check))

    def _reverted(self, high: Point) -> Path:
        if self.state.range.what == "commit":
            return ranges.reverted(Path(self.state.question.repository), high, self._patches)
        good, bad = (self._tree(self.state.range.points[at]) for at in (0, -1))
        file = self._patches / f"revert-{high.name}.patch"
        patches = (ranges.file_patch(bad.path, good.path, own) for own in high.files)
        whole.write(file, b"".join(patches))
        return file

    # An experiment of some points.

    @property
    def _patches(self) -> Path:
        return self.folder / PATCHES

    def _with_keys(self, point: Point) -> Point:
        if point.commit:
            good = self.state.range.points[0].commit
            repository = Path(self.state.question.repository)
            return ranges.with_keys(repository, point, good, self._patches)
        if self.state.range.what == "option":
            return replace(point, keys=self._configured(point)[0])
        keys = self.state.range.keys(point)
        if self.state.range.what == "file" and not point.keys:
            # As one patch: a sandbox for each of hundreds would take longer than the build.
            file = self._patches / f"up-to-{point.name}.patch"
            # By name, so that the same files are the same patch in whatever order they are.
            whole.write(file, b"".join(Path(own).read_bytes() for own in sorted(keys["patches"])))
            keys = {**keys, "patches": [str(file)]}
        return replace(point, keys=keys)

    def _configured(self, point: Point) -> tuple[dict[str, Any], Recipe]:
        """The keys of an option's point and its recipe: its lines but for those that need a later
        one. At the ends of what a person wrote all have to survive."""
        if point.name in self._configurations:
            return self._configurations[point.name]
        range_ = self.state.range
        lines = tuple(range_.keys(point)["config"])
        ends = range_.points[0].name, range_.points[-1].name
        bare = [replace(own, keys={}) for own in range_.points if own.name in (*ends, point.name)]
        experiment = self._experiment("ends", bare, 0.01)
        variant = next(own for own in experiment.variants if own.name == point.name)
        listener, cache = self.options.listener, self.options.cache
        tree = source.fetch(source.parse(variant.source), cache, listener.fetching)
        kept, recipe = accepted(variant, tree, lines, cache, listener.building)
        if point.name in ends and not range_.complete:
            kept = lines
        config = list(kept)
        if len(kept) > _FEW_LINES:
            file = self._patches / f"{point.name}.config"
            self._patches.mkdir(parents=True, exist_ok=True)
            whole.write(file, "".join(f"{line}\n" for line in kept).encode())
            config = [str(file)]
        return self._configurations.setdefault(point.name, ({"config": config}, recipe))

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
        precision = round(min(max(half_width, FLOOR), CEILING), 6)
        measure = {
            "precision": precision,
            "equivalent": precision,
            "max_boots": 1000,
            "max_minutes": question.max_minutes,
            **question.base.get("measure", {}),
        }
        if name == "verify" and measure.get("metric") == "instructions":
            measure["profile"] = "count"
        data = {
            "name": f"bisect-{question.case}-{name}",
            "question": f"Where does the difference in {question.case} come from?",
            "baseline": points[0].name,
            **question.base,
            "variant": {point.name: dict(point.keys) for point in points},
            "measure": measure,
            **({"layout": {"draws": layouts}} if layouts else {}),
        }
        home, words = Path(question.home or self.folder), vocabulary(self.suites)
        return loader.parse(toml(data), "kdyno bisect", home, words, _option)

    def _effect(self, verdict: Verdict, variant: str) -> tuple[Effect, Difference | None]:
        """With its interval; None: it has none."""
        question = self.state.question
        effect = verdict.effect_of((question.suite, question.case, variant))
        if effect is None:
            case = f"{question.suite}/{question.case}"
            raise ToolError(f"the run has no figure of {case} in {variant}")
        if effect.ratio is None or effect.ci is None:
            return effect, None
        return effect, Difference(effect.ratio, *effect.ci)


_OPTIONS = {"suite": "--case", "machine": "--machine", "kernel": "--config", "measure": "--metric"}


def _option(path: KeyPath) -> str:
    """What the command line calls a key of the experiments that are made here."""
    return _OPTIONS.get(str(path[0]), spelled(path))


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


# What a search found: for git, for people, for the mailing list, for programs.


def git_log(state: State) -> str:
    """The search as `git bisect replay` reads it; only of commits."""
    points = state.range.points
    if state.range.what != "commit":
        return ""
    # Where the search has gone back, what it thought of a point before is not what it is now.
    low, high, skip = 0, len(points) - 1, dict[int, str]()
    if state.reproduced:
        search = state.search()
        spans = [search.span] if search.span else search.steps or search.spread
        span = max(spans, key=lambda span: span.difference.size, default=search.ends)
        low, high, skip = span.low, span.high, search.unusable
    probed = sorted({step.at for step in state.steps} - skip.keys())
    goods, bads = [0, *(at for at in probed if at <= low)], [at for at in probed if at >= high]
    words = (("bad", [len(points) - 1, *reversed(bads)]), ("good", goods), ("skip", sorted(skip)))
    lines = [f"git bisect {word} {points[at].commit}" for word, own in words for at in own]
    return "\n".join(["git bisect start '--first-parent'", *lines, ""])


def answer(state: State) -> str:
    """For people: the whole answer."""
    assert state.ends is not None
    question, points, what = state.question, state.range.points, state.range.what
    case = f"{question.suite}/{question.case}"
    ends = f"{effect(state.ends)} from {points[0].short} to {points[-1].short}"
    least = figures.share(math.expm1(state.least))
    if state.word == NOT_REPRODUCED:
        return (
            f"not reproduced: {case} differs by {ends}, and {least} or more is looked for. "
            f"Run {state.ends_run} has the figures; --min-effect looks for less"
        )
    search = state.search()
    lines = [f"{case}: {ends}", ""]
    for step in search.steps:
        lines += [*_step(state, search, step), ""]
    for span in search.spread:
        number = figures.count(span.high - span.low, what)
        lines += [
            f"spread over {number} after {points[span.low].short} up to "
            f"{points[span.high].short}: {effect(span.difference)} in all, and no half of it has "
            f"{least} or more on its own",
            "",
        ]
    if not search.steps and not search.spread:
        lines += [
            "no step: the difference of the ends was not there when parts of the range were "
            "measured. Run the search again, or give a smaller --min-effect",
            "",
        ]
    elif not search.certain:
        several = len(search.steps) + len(search.spread) > 1
        why = "several steps" if several else f"the rest comes in steps of less than {least}"
        lines += [f"{why}, so no single one is named as the cause", ""]
    lines.append(f"measured points, against {points[0].short}:")
    largest = max((abs(value) for value in search.curve.values()), default=0.0) or 1.0
    for at, value in sorted(search.curve.items()):
        bar = "█" * round(_BAR * abs(value) / largest)
        lines.append(f"  {points[at].short:12}  {figures.effect(math.exp(value)):>9}  {bar}")
    if search.unusable:
        names = [points[at].short for at in sorted(search.unusable)]
        few = ", ".join(names[:6]) + (", …" if len(names) > 6 else "")
        lines.append(f"without a figure: {len(names)} ({few})")
    return "\n".join(lines)


def _step(state: State, search: Search, step: Span) -> Iterator[str]:
    points, what = state.range.points, state.range.what
    high = points[step.high]
    if step.high == step.low + 1:
        yield f"{what} {high.short}  {high.title}"
    else:
        number = figures.count(step.high - step.low, what)
        yield f"one of {number}, of which only the last has a figure:"
        failed = [at for at in range(step.low + 1, step.high) if at in search.unusable]
        for at in failed:
            why = (search.unusable[at].strip().splitlines() or ["?"])[0]
            yield f"  {points[at].short}  {points[at].title}  ({why[:120]})"
        if untried := step.high - step.low - 1 - len(failed):
            yield f"  and {untried} that were not tried, as {len(failed)} in this range failed"
        yield f"  {high.short}  {high.title}"
    if high.author:
        yield f"  author    {high.author}"
    if high.files:
        more = f" and {len(high.files) - 4} more" if len(high.files) > 4 else ""
        yield f"  files     {', '.join(high.files[:4])}{more}"
    if step.high == step.low + 1 and len(high.parents) > 2:
        yield f"  merges    {len(high.parents) - 1} branches at once, which are not searched"
    check = state.verification(step)
    if check is not None and check.along:
        more = f" and {len(check.along) - 8} more" if len(check.along) > 8 else ""
        yield f"  with it   {', '.join(check.along[:8])}{more}"
    if check is None or not check.holds:
        yield f"  effect    {effect(step.difference)}, not verified"
        return
    yield f"  effect    {effect(check.difference)}, verified with fresh guests ({check.run})"
    if check.reverted is not None:
        opposite = (check.reverted.ratio > 1) != (check.difference.ratio > 1)
        undone = opposite and check.reverted.is_step(state.least)
        doubt = "" if undone else ": this does not undo it, so look at what came after"
        yield f"  reverted  on the bad end: {effect(check.reverted)}{doubt}"
    else:
        yield f"  reverted  no figure: {check.why_not}"
    for counts in check.functions:
        if abs(counts.more) >= 0.5:
            name = counts.function or f"{counts.functions} others"
            yield f"  {counts.more:+9,.0f} instructions in {name}"
    yield f"  where     kdyno profile {check.run}"


def effect(difference: Difference) -> str:
    """With its interval, if that is one."""
    low, high = difference.low, difference.high
    ci = "" if low == high else f" ({figures.interval((low, high))})"
    return figures.exact(difference.ratio) + ci


def letter(state: State, machine: str) -> str:
    """A report of the one step that was found, for the mailing list of the kernel; empty where
    there is none, or it is no commit."""
    high, question = state.cause, state.question
    if high is None or state.ends is None:
        return ""
    check = next(check for check in state.verified if check.holds)
    case, base = f"{question.suite}/{question.case}", question.base
    better = "more" if state.better == "higher" else "less"
    word = "REGRESSION" if (check.difference.ratio < 1) == (better == "more") else "PERFORMANCE"
    metric = base.get("measure", {}).get("metric", "time")
    undone = [check.reverted] if check.reverted else []
    pairs = [("config", part) for part in base.get("kernel", {}).get("config", [])]
    machine_of, points = base.get("machine", {}), state.range.points
    pairs += [("machine", machine_of.get("kind")), ("cpus", machine_of.get("cpus"))]
    options = [word for key, value in pairs if value for word in (f"--{key}", str(value))]
    return "\n".join(
        [
            f"Subject: [{word}] {high.title}: {case} {figures.effect(check.difference.ratio)}",
            "",
            f'Commit {high.short} ("{high.title}") changes {case} by',
            f"{effect(check.difference)}; {better} is better.",
            "",
            f"  measured   {metric}, on {machine}",
            f"  range      {points[0].short}..{points[-1].short}, {effect(state.ends)}",
            *(f"  reverted   on top of {points[-1].short}: {effect(own)}" for own in undone),
            "",
            "To measure it again:",
            f"  kdyno bisect --source git:. --good {high.short}^ --bad {high.short} "
            f"--case {case} {shlex.join([*options, '--metric', metric])}",
            "",
            f'Fixes: {high.short} ("{high.title}")',
        ]
    )


def data(state: State) -> dict[str, Any]:
    """For programs: the answer, its steps, every measured point."""
    points = state.range.points
    search = state.search() if state.word != NOT_REPRODUCED else None

    def of(at: int) -> dict[str, Any]:
        own = points[at]
        return {"name": own.name, "commit": own.commit or None, "title": own.title}

    def ratio(value: Difference | None) -> dict[str, Any] | None:
        return None if value is None else {"ratio": value.ratio, "ci": [value.low, value.high]}

    def of_step(span: Span) -> dict[str, Any]:
        check = state.verification(span)
        return {
            "point": of(span.high),
            "after": of(span.low),
            "difference": ratio(check.difference if check else span.difference),
            "verified": bool(check and check.holds),
            "reverted": ratio(check.reverted) if check else None,
            "not_reverted": check.why_not if check and check.why_not else None,
            "run": check.run if check else None,
            "along": list(check.along) if check else [],
            "functions": [function.model_dump() for function in check.functions] if check else [],
        }

    spread = [
        {"after": of(span.low), "to": of(span.high), "difference": ratio(span.difference)}
        for span in (search.spread if search else ())
    ]
    curve = sorted(search.curve.items()) if search else ()
    return {
        "schema": 1,
        "answer": state.word,
        "suite": state.question.suite,
        "case": state.question.case,
        "good": of(0),
        "bad": of(-1),
        "ends": ratio(state.ends),
        "steps": [of_step(span) for span in search.steps] if search else [],
        "spread": spread,
        "curve": [{**of(at), "ratio": math.exp(value)} for at, value in curve],
        "probes": [
            {
                **of(step.at),
                "outcome": type(step.outcome).__name__.lower(),
                "why": step.outcome.why if isinstance(step.outcome, Unusable) else None,
                "run": step.run or None,
                "seconds": step.seconds,
            }
            for step in state.steps
        ],
    }
