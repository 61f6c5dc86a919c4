# SPDX-License-Identifier: MIT
"""A branch that is looked at now and then: what is new against the last known good commit, with a
known rate of false alarms.

A visit measures the branch's tip and the last known good commit in turns. A difference becomes an
alarm when a second run has it too, and the two together are surer than the level that the earlier
visits leave (LORD++: of all alarms at most 5 % are false, however long the branch is watched). It
is then searched like any other range. Smaller steps and drift are looked for in the history of a
case since its own last alarm, by its change points, and confirmed in the same way.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from kdyno.bisect import points as ranges
from kdyno.bisect.points import Range
from kdyno.bisect.search import Difference, Span
from kdyno.bisect.session import (
    PATCHES,
    STATE,
    Question,
    State as Found,
    base_of,
    effect as text_of,
    load as load_search,
)
from kdyno.errors import BuildError, ToolError, UsageError
from kdyno.experiment.loader import ENDS, OfCommits
from kdyno.kernels.sources import git
from kdyno.stats.changepoints import available, segments
from kdyno.stats.verdict import lord_level
from kdyno.store import watch as store
from kdyno.store.run import Run
from kdyno.store.verdict import Effect, Verdict, deciding
from kdyno.store.watch import Alarm, Point, Watch

REFERENCE, TIP = ENDS
BEFORE = "before"
"""The point before the tip, where that is not the reference."""
LEAST_LEVEL = 1e-6
"""Of a test, however many were before it."""
_LEAST = 0.0005
"""The smallest precision that an alarm is confirmed to, as a share."""


@dataclass
class Watcher:
    """A branch under watch. ``measure`` executes an experiment of tables, ``search`` goes
    through with a search, and into merges; people hear by ``tell``."""

    folder: Path
    watch: Watch
    repository: Path
    file: OfCommits
    measure: Callable[[Mapping[str, Any]], tuple[Run, Verdict]]
    search: Callable[[Path, Found], Found]
    within: Callable[[Run, str, str], Verdict]
    """A run judged against another of its variants."""
    tell: Callable[[str], None]
    date: str
    """UTC, of what is measured."""

    def save(self, **changes: Any) -> None:
        self.watch = store.save(self.folder, replace(self.watch, **changes))

    def visit(self, tip: str) -> str:
        """Measure what is new, and follow it up: why the tip has no figure; empty: it has one, or
        is not new."""
        if not available():
            self.tell("no ruptures, so neither drift nor steps over several visits are looked for")
        self._follow()
        points = self.watch.points
        if self.watch.reference == tip or (points and points[-1].commit == tip):
            self.tell(f"{tip[: git.SHORT]} was measured already")
            return points[-1].why if points and points[-1].commit == tip else ""
        reference = self._reference(tip)
        if reference == tip:
            self.tell(f"{tip[: git.SHORT]} is what later commits are compared with")
            self.save(reference=tip)
            return ""
        why = self._measure_point(reference, tip)
        self._follow()
        return why

    def _reference(self, tip: str) -> str:
        """The last known good commit, if the branch still has it; else the newest that both have:
        the base of a branch that was rebased."""
        named, good, base = self.file.watch.base, self.watch.reference, ""
        if good:
            try:
                base = git.merge_base(self.repository, good, tip)
            except ToolError as problem:
                self.tell(f"{good[: git.SHORT]} is not in the branch any more: {problem}")
        if named and (not base or base != good):
            base = git.merge_base(self.repository, named, tip)
        return base or tip

    # A point.

    def _measure_point(self, reference: str, tip: str) -> str:
        self.tell(f"{tip[: git.SHORT]} against {reference[: git.SHORT]}")
        point = Point(tip, self.date, reference)
        try:
            run, verdict = self._measured("", {REFERENCE: reference, TIP: tip})
            why = verdict.failed.get(TIP, "")
            if not why and (text := verdict.failed.get(REFERENCE)):
                why = f"{reference[: git.SHORT]}, which it is compared with: {text}"
        except (BuildError, UsageError) as problem:  # the file itself was checked before
            why = str(problem)
        if why:
            self.save(points=(*self.watch.points, replace(point, why=why[:500])))
            return why
        effects = [deciding(effect) for effect in verdict.effects if effect.variant == TIP]
        own = {f"{effect.suite}/{effect.case}": effect for effect in effects}
        ratios = {name: effect.ratio for name, effect in own.items() if effect.ratio}
        lacking = [
            f"{name}: {own[name].reason or 'too few groups'}" for name in own.keys() - ratios.keys()
        ]
        why = "; ".join(sorted(lacking))[:500]
        tests = [point.discovery for point in self.watch.points if point.level]
        level = max(LEAST_LEVEL, lord_level(tests, 1.0 - self.file.experiment.measure.confidence))
        point = replace(point, run=run.name, ratios=ratios, why=why, level=level)

        def alarm(effect: Effect, against: str, good: str, p_value: float | None) -> Alarm:
            low, high = effect.ci or (1.0, 1.0)
            return Alarm(
                id=_id(f"{effect.suite}/{effect.case}", tip),
                suite=effect.suite,
                case=effect.case,
                better=effect.better,
                good=good,
                bad=tip,
                reference=against,
                ratio=effect.ratio or 1.0,
                low=low,
                high=high,
                runs=(run.name,),
                p_value=p_value,
            )

        # The last commit with a figure that was compared with the same reference.
        compared = [
            each.commit for each in self.watch.points if each.ratios and each.reference == reference
        ]
        good = compared[-1] if compared and self._is_in(compared[-1], tip) else reference
        alarms = [
            alarm(effect, reference, good, 0.0 if effect.exact else effect.p_value)
            for effect in effects
            if _moved(effect) and not self._explained(effect, reference, tip)
        ]
        changes = self._changes(point, {alarm.name for alarm in alarms})
        alarms += [
            replace(alarm(own[name], first, good, None), ratio=ratio)
            for name, (first, good, ratio) in changes.items()
        ]
        point = replace(point, looked=tuple(changes))
        self.save(points=(*self.watch.points, point), alarms=(*self.watch.alarms, *alarms))
        return why

    def _is_in(self, commit: str, tip: str) -> bool:
        return ranges.has(self.repository, tip, commit)

    def _explained(self, effect: Effect, reference: str, tip: str) -> bool:
        """Whether alarms that stand are between the two, and are all that there is: a rebased
        branch has its steps again on top of another base."""
        name = f"{effect.suite}/{effect.case}"
        standing = [alarm for alarm in self.watch.alarms if alarm.stands and alarm.name == name]
        if not standing or effect.ratio is None or effect.ci is None:
            return False
        commits = git.all_commits(self.repository, f"{reference}..{tip}")
        there = {_id(name, commit.identity) for commit in commits}
        # One that names no commit is known by the tip that it was seen on.
        logs = [
            alarm.log
            for alarm in standing
            if (alarm.id in there if alarm.commit else not self._is_in(alarm.bad, tip))
        ]
        width = math.log(effect.ci[1] / effect.ci[0]) / 2
        rest = abs(math.log(effect.ratio) - sum(logs))
        return bool(logs) and rest <= max(width, self._equivalent)

    def _all_of(self, effect: Effect, since: Effect) -> bool:
        """Whether what came since the point before the tip is all of the difference."""
        if not _moved(since) or not (effect.ratio and effect.ci and since.ratio and since.ci):
            return False
        widths = [math.log(own[1] / own[0]) / 2 for own in (effect.ci, since.ci)]
        return abs(math.log(effect.ratio / since.ratio)) <= max(*widths, self._equivalent)

    @property
    def _equivalent(self) -> float:
        """What does not matter, as a log ratio."""
        return math.log1p(self.file.experiment.measure.equivalent)

    def _changes(self, point: Point, moved: Set[str]) -> dict[str, tuple[str, str, float]]:
        """Case that did not move → (the commit that its history begins at, the one before the last
        change of level, the level since), where that is as far from the beginning as what matters.
        What was followed in vain is followed again when there are twice as many points."""
        changes = {}
        for name in sorted((point.ratios or {}).keys() - moved):
            first, series = self._history(name, point)
            looked = [at for at, (each, _) in enumerate(series, 1) if name in each.looked]
            if looked and len(series) < 2 * looked[-1]:
                continue
            levels = segments([level for _, level in series])
            if len(levels) > 1 and abs(math.log(levels[-1].level)) >= self._equivalent:
                good = series[levels[-1].start - 1][0].commit
                good = good if self._is_in(good, point.commit) else first
                changes[name] = first, good, levels[-1].level
        return changes

    def _history(self, name: str, point: Point) -> tuple[str, list[tuple[Point, float]]]:
        """(a commit, the points since then with the case's levels against it). An alarm of another
        case moves the reference: what this one had lost until then is not forgotten."""
        own = {alarm.bad for alarm in self.watch.alarms if alarm.name == name}
        series: list[tuple[Point, float]] = []
        references: dict[str, float] = {}
        for each in (*self.watch.points, point):
            if (ratio := (each.ratios or {}).get(name)) is None:
                continue
            reference = each.reference
            if reference not in references:
                before = [level for earlier, level in series if earlier.commit == reference]
                if not before or reference in own:
                    series, references = [], {}
                references[reference] = before[-1] if series else 1.0
            series.append((each, references[reference] * ratio))
        return next(iter(references)), series

    # What is followed up, and gone on with after an interruption.

    def _follow(self) -> None:
        while fresh := [alarm for alarm in self.watch.alarms if alarm.state == "new"]:
            self._confirm([each for each in fresh if each.reference == fresh[0].reference])
        for alarm in [each for each in self.watch.alarms if each.state == "confirmed"]:
            self._search(alarm)

    def _confirm(self, fresh: Sequence[Alarm]) -> None:
        """A run of its own against their reference: those that it has too, and surely enough, are
        confirmed."""
        point = self.watch.points[-1]
        reference = fresh[0].reference or point.reference
        rest = [alarm for alarm in self.watch.alarms if alarm not in fresh]
        self.tell(f"{', '.join(alarm.name for alarm in fresh)}: measured once more")
        commits = {REFERENCE: reference, TIP: point.commit}
        if (good := fresh[0].good) != reference:
            commits[BEFORE] = good
        finest = min(self.file.experiment.measure.precision, *(abs(own.log) / 4 for own in fresh))
        try:
            run, verdict = self._measured("-confirm", commits, max(_LEAST, finest))
            if why := verdict.failed.get(REFERENCE) or verdict.failed.get(TIP):
                raise BuildError(f"{run.name}: not confirmed, for lack of a figure: {why}")
        except (BuildError, UsageError):  # no later tip waits until this one can be confirmed
            rest = [alarm for alarm in rest if alarm.state != "new"]
            self.save(alarms=tuple(rest), points=self.watch.points[:-1])
            raise
        confirmed = []
        for alarm in fresh:
            key = (alarm.suite, alarm.case, TIP)
            effect = verdict.effect_of(key)
            if effect is None or effect.ratio is None or effect.ci is None or not _moved(effect):
                continue
            p_value = 0.0 if effect.exact else 1.0 if effect.p_value is None else effect.p_value
            if alarm.p_value is not None:
                # Two independent runs on the same side: both have the square of the chance of one.
                p_value = max(alarm.p_value, p_value) ** 2
            if p_value > point.level or (effect.ratio > 1) != (alarm.ratio > 1):
                continue
            if BEFORE in commits:
                since = self.within(run, BEFORE, TIP).effect_of(key)
                if alarm.good != good or since is None or not self._all_of(effect, since):
                    alarm = replace(alarm, good=reference)
            low, high = effect.ci
            alarm = replace(alarm, ratio=effect.ratio, low=low, high=high, state="confirmed")
            confirmed.append(replace(alarm, runs=(*alarm.runs, run.name)))
        for name in [own.name for own in fresh if own.id not in {each.id for each in confirmed}]:
            self.tell(f"{name}: not confirmed")
        point = replace(point, discovery=point.discovery or bool(confirmed))
        self.save(alarms=(*rest, *confirmed), points=(*self.watch.points[:-1], point))

    def _search(self, alarm: Alarm) -> None:
        """Name the commits, or say why not; they are told once, and what is there by now is what
        later commits are compared with."""
        case = f"{alarm.suite}-{alarm.case}"
        place = self.folder / f"{alarm.good[:8]}-{alarm.bad[:8]}-{case}"
        note, state = "", None
        try:
            old = (place / STATE).is_file()
            state = load_search(place) if old else Found(self._question(alarm), self._range(alarm))
            state = self.search(place, state)
        except (UsageError, BuildError) as problem:
            note = str(problem)
        if state is not None and state.ends is not None and not state.reproduced:
            self.tell(f"{alarm.name}: a third run does not have it")
            # An alarm of the same range is searched for anew.
            (place / STATE).unlink(missing_ok=True)
            self.save(alarms=tuple(each for each in self.watch.alarms if each.id != alarm.id))
            return
        alarm = replace(alarm, state="bisected", search=str(place))
        alarms = []
        if state is not None and not note:
            checks = [(step, state.verification(step)) for step in state.search().steps]
            alarms = [
                self._step(alarm, state, step, check.difference)
                for step, check in checks
                if check is not None and check.holds
            ]
        if not alarms:
            spread = state is not None and state.ends is not None and state.search().spread
            alarms = [replace(alarm, note=note[:500] or (_SPREAD if spread else _NO_STEP))]
        others = [each for each in self.watch.alarms if each.id != alarm.id]
        ids = {new.id for new in alarms}
        # Undone by what was found as well: a rebased branch has both again.
        earlier = {each.id for each in others if each.state != "fixed"}
        earlier |= {each.undoes for each in others if each.id in ids and each.stands}
        for new in alarms:
            if new.id in earlier:
                continue
            # The title of a revert has that of the commit; else the size decides.
            undone = [
                (not each.title or each.title not in new.title, abs(each.log + new.log), at)
                for at, each in enumerate(others)
                if each.stands and each.name == new.name and each.word == "slower"
                if new.word == "faster" and abs(each.log + new.log) <= abs(each.log) / 2
            ]
            if undone:
                at = min(undone)[2]
                new = replace(new, undoes=others[at].id)
                others[at] = replace(others[at], state="fixed")
            others = [each for each in others if each.id != new.id] + [new]
        self.save(alarms=tuple(others), reference=alarm.bad)

    def _step(self, alarm: Alarm, state: Found, step: Span, size: Difference) -> Alarm:
        """The alarm with the commit of a step that was found."""
        of = state.range.points[step.high]
        own = git.Commit(of.commit, of.parents, of.author, of.date, of.title)
        return replace(
            alarm,
            id=_id(alarm.name, own.identity),
            **vars(size),
            commit=of.commit,
            title=of.title,
            author=of.author,
            among=step.high - step.low,
        )

    def _range(self, alarm: Alarm) -> Range:
        return Range(ranges.commits(self.repository, alarm.good, alarm.bad), "commit")

    def _question(self, alarm: Alarm) -> Question:
        return Question(
            suite=alarm.suite,
            case=alarm.case,
            base=base_of(self.file.tables, alarm.suite, alarm.case),
            repository=str(self.repository),
            min_effect=max(_LEAST, abs(alarm.log) / 4),
            max_minutes=self.file.experiment.measure.max_minutes or 15.0,
            home=str(self.file.experiment.path.parent) if self.file.experiment.path else "",
        )

    def _measured(
        self, name: str, commits: Mapping[str, str], precision: float | None = None
    ) -> tuple[Run, Verdict]:
        """A run of these commits, as patches over the tree of the reference."""
        variants = {}
        for variant, commit in commits.items():
            point = ranges.Point(variant, "", {}, commit)
            keys = (self.repository, point, commits[REFERENCE], self.folder / PATCHES)
            variants[variant] = dict(ranges.with_keys(*keys).keys)
        measure = dict(self.file.tables.get("measure", {}))
        if precision is not None:
            measure["precision"] = round(precision, 6)
        if name and "seed" in measure:  # another order and other draws than in the run before
            measure["seed"] += 1
        about = {"question": self.file.experiment.question, "baseline": REFERENCE}
        own = {**self.file.tables, "variant": variants, "measure": measure}
        return self.measure({"name": f"{self.watch.name}{name}", **about, **own})


_SPREAD = "it is spread over the commits, and none has enough of it on its own"
_NO_STEP = "no step: it was not there when parts of the range were measured"


def _id(case: str, identity: str) -> str:
    return sha256(f"{case}\0{identity}".encode()).hexdigest()[:10]


def _moved(effect: Effect) -> bool:
    """A difference that counts."""
    word = effect.verdict in ("faster", "slower")
    return word and not (effect.equivalent_too or effect.inside_noise_floor or effect.control)


def text(alarm: Alarm, watch: str) -> str:
    effect = text_of(Difference(alarm.ratio, alarm.low, alarm.high))
    lines = [f"{watch}: {alarm.name} is {alarm.word}: {effect}"]
    if alarm.commit:
        one = f" (one of {alarm.among} commits up to it)" if alarm.among > 1 else ""
        lines += [f"  commit    {alarm.commit[: git.SHORT]}  {alarm.title}{one}"]
        lines += [f"  author    {alarm.author}"]
    else:
        lines += [f"  no commit {alarm.note}"]
    if alarm.undoes:
        lines += [f"  undoes    {alarm.undoes}"]
    lines += [
        f"  between   {alarm.good[: git.SHORT]} and {alarm.bad[: git.SHORT]}",
        f"  runs      {', '.join(alarm.runs)}",
        f"  search    {alarm.search}",
        f"  id        {alarm.id}",
    ]
    return "\n".join(lines)
