# SPDX-License-Identifier: MIT
"""Today's answers to published claims: the evidence (runs, and files of other verbs), and the rows
of figures that it gives for what is asked."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any

from jinja2 import Environment, StrictUndefined
from pydantic import Field

from kdyno.errors import UsageError
from kdyno.labs.memcpy import copies as distribution, results
from kdyno.labs.profile.record import Profile, stored_profiles
from kdyno.labs.profile.tables import differences, rows as means_of
from kdyno.labs.published.article import Ask
from kdyno.labs.vectorize.loops import REASONS
from kdyno.machines.kinds import KINDS
from kdyno.paths import data_root
from kdyno.reading.checked import FromTool, check_json, values
from kdyno.report import figures, plain
from kdyno.report.page import run_command
from kdyno.stats.effect import mean_of
from kdyno.stats.verdict import word_of
from kdyno.store.reading import content
from kdyno.store.run import Run
from kdyno.store.verdict import Effect, FactorEffect, GroupEffect, Verdict, deciding

OTHERS = "all others"
"""In a profile that was shortened: stands for the functions that are not named."""
SURVEY, FORMS = "vectorization", "simd-forms"
CONTROL = " (control)"
"""Behind the name of a row that should not move."""
LESS = "less is better"
_MATTERS = 0.01
"""Differences of profiles and benches below this are called equivalent."""
_MOST_BYTES = 256 << 20


@dataclass(frozen=True)
class Source:
    """Where figures come from, in words."""

    name: str
    machine: str
    day: str
    """As 2026-11-22; empty: not known."""
    extent: str
    """How much was measured."""
    command: str = ""


@dataclass(frozen=True)
class OfRun:
    """What a run has: a verdict, profiles, or both."""

    source: Source
    baseline: str
    verdict: Verdict | None
    profiles: Mapping[str, Profile]
    created: str = ""


OfFile = tuple[Source, Any]
"""What a verb wrote into a file: a Bench, a Distribution, a Survey, Forms."""


class Places(FromTool):
    places: Annotated[int, Field(ge=0)]
    reasons: dict[str, Annotated[int, Field(ge=0)]] = Field(default_factory=dict)


class Side(FromTool):
    """What a compiler made of a kernel's loops with one set of flags, in places of the source."""

    flags: str
    vectorized: Places
    missed: Places


class Survey(FromTool):
    """What is read of a file of `kdyno lab vectorize --json`."""

    version: str
    compiler: str
    sides: list[Side]


class Form(FromTool):
    """A job by one form of its code: nanoseconds of a call over so many bytes."""

    candidate: str
    form: str
    bytes: Annotated[int, Field(gt=0)]
    ns: Annotated[float, Field(gt=0)]


class Forms(FromTool):
    cpu: str
    created: str
    forms: list[Form]


@dataclass(frozen=True)
class Evidence:
    runs: Mapping[str, Sequence[OfRun]] = field(default_factory=dict)
    """Experiment → its runs, the newest first."""
    files: Mapping[str, Sequence[OfFile]] = field(default_factory=dict)
    """Kind → files of it, the newest first as far as they have a day."""

    @property
    def sources(self) -> list[Source]:
        sources = [one.source for each in self.runs.values() for one in each]
        sources += [source for each in self.files.values() for source, _value in each]
        return sorted(sources, key=lambda source: (source.name, source.day))


def collect(paths: Iterable[Path]) -> Evidence:
    """Of folders of runs and of files. UsageError names what is neither."""
    runs: dict[str, list[OfRun]] = {}
    files: dict[str, list[OfFile]] = {}
    for path in paths:
        if path.is_dir():
            run = of_run(Run(path))
            runs.setdefault(run.source.name, []).append(run)
        else:
            kind, file = of_file(path)
            files.setdefault(kind, []).append(file)
    for each in runs.values():
        each.sort(key=attrgetter("created"), reverse=True)
    for file_list in files.values():
        file_list.sort(key=lambda file: file[0].day, reverse=True)
    return Evidence(runs, files)


def kept() -> list[Path]:
    """Runs and files that come with kdyno, as evidence for today's answers."""
    folder = data_root() / "published" / "runs"
    results = sorted(path for path in folder.glob("*") if path.suffix != ".md")
    return [*results, distribution.shipped()]


def _span(least: int, most: int) -> str:
    return str(least) if least == most else f"{least} to {most}"


def of_run(run: Run) -> OfRun:
    """What the run says. Errors as of a run that cannot be read."""
    manifest, verdict, profiles = run.manifest(), run.verdict(), stored_profiles(run)
    kind = manifest.machine.kind
    machine = KINDS[kind].label if kind in KINDS else kind
    if manifest.asked.metric == "instructions":
        machine += ", counting instructions"
    cpu = plain.short(str(manifest.host.get("cpu_model", "an unknown CPU")))
    if isinstance(count := manifest.host.get("cpus"), int | float):
        cpu += f", {count:g} CPUs"
    extent = []
    if verdict is not None:
        ways = {"turns": "by turns", "boots": "by whole boots"}
        how = ways.get(manifest.interleave, "by turns or by whole boots")
        counts = sorted(set(verdict.boots.values()))
        boots = f"{_span(counts[0], counts[-1])} boots of each kernel, " if counts else ""
        extent.append(boots + how)
    if profiles:
        least = min(len(profile.boots) for profile in profiles.values())
        method = next(iter(profiles.values())).method
        extent.append(f"{least} boots of each kernel under {method}")
    file = f"experiments/{plain.short(manifest.experiment)}.toml"
    command = run_command(file, manifest.overrides)
    if verdict is None:
        command = command.replace("kdyno run", "kdyno profile", 1)
    machine, day = f"{machine}, on {cpu}", manifest.created[:10]
    source = Source(manifest.experiment, machine, day, "; ".join(extent), command)
    return OfRun(source, manifest.baseline, verdict, profiles, manifest.created)


@cache
def _file_sources() -> dict[str, dict[str, str]]:
    """Kind of file → what is said of it, by the fields of a Source; templates."""
    return tomllib.loads(Path(__file__).with_name("sources.toml").read_text(encoding="utf-8"))


def of_file(path: Path) -> tuple[str, OfFile]:
    """(its kind, what it says). UsageError for a file of another kind, or that is no result."""
    data, origin = content(path, _MOST_BYTES, "result"), str(path)
    try:
        whole = values(data)
    except ValueError as problem:
        raise UsageError(f"{path}: neither a run's folder nor JSON ({problem})") from None
    kind = whole.get("kind") if isinstance(whole, dict) else None
    if not isinstance(kind, str) or kind not in _file_sources():
        names = ", ".join(_file_sources())
        what = f'"kind" is {str(kind)[:60]!r}; files are taken of the kinds {names}'
        raise UsageError(f"{path}: {what}")
    words = dict(_file_sources()[kind])
    way = f"`{words.pop('writer')}` writes such files"
    value: Any
    if kind == results.KIND:
        value = results.parse_bench(data, origin)
    elif kind == distribution.KIND:
        value = distribution.parse_distribution(data, origin)
    else:
        value = check_json(Survey if kind == SURVEY else Forms, data, origin, kind, way)
    environment = Environment(undefined=StrictUndefined)
    environment.filters["short"] = plain.short
    fields = {key: environment.from_string(text).render(file=value) for key, text in words.items()}
    return kind, (Source(**fields), value)


@dataclass(frozen=True)
class Row:
    """One figure of today. ``ratio`` and ``ci``: None where it is no ratio, or has no interval."""

    what: str
    compared: str
    unit: str
    text: str
    """The figure as people read it."""
    ratio: float | None = None
    ci: tuple[float, float] | None = None
    exact: bool = False
    verdict: str = ""
    equivalent_too: bool = False

    @property
    def gain(self) -> float:
        """The ratio as its logarithm, above 0 where that is better."""
        log = math.log(self.ratio or 1.0)
        return -log if self.unit.endswith(LESS) else log


@dataclass(frozen=True)
class Answer:
    """What one source says, or what is missing."""

    ask: Ask
    source: Source | None
    rows: tuple[Row, ...] = ()
    needs: str = ""
    """Markdown; where there is no source."""


def answer(ask: Ask, evidence: Evidence) -> Answer:
    """From the newest source that has a figure for it."""
    kind, read = _READERS[ask.what]
    runs = [(run.source, run) for run in evidence.runs.get(ask.run, ())]
    for source, value in evidence.files.get(kind, ()) if kind else runs:
        if rows := read(ask, value):
            return Answer(ask, source, tuple(rows))
    name = plain.short(ask.run)
    needs = f"a run of `experiments/{name}.toml`"
    if kind:
        needs = f"`{_file_sources()[kind]['writer']}`"
    elif not (data_root() / "experiments" / f"{ask.run}.toml").is_file():
        needs = f"an experiment `{name}`, which kdyno does not have yet"
    elif ask.what in ("profile", "share"):
        needs = f"`kdyno profile experiments/{name}.toml`"
    return Answer(ask, None, needs=needs)


def _judged(ask: Ask, run: OfRun) -> list[Row]:
    """The effects, the groups or the rows of factors of a verdict."""
    verdict, rows = run.verdict, []
    if verdict is None:
        return []
    for effect in verdict.effects if ask.what == "effect" else ():
        fits = ask.fits(case=effect.case, variant=effect.variant) and effect.ratio is not None
        if effect.suite == ask.suite and fits and effect.variant != verdict.copy_of_baseline:
            name = effect.case + CONTROL * effect.control
            rows.append(_row(name, f"{effect.variant} ÷ {run.baseline}", deciding(effect)))
    for group in verdict.groups if ask.what == "group" else ():
        if group.suite == ask.suite and ask.fits(case=group.group, variant=group.variant):
            compared = f"{group.variant} ÷ {run.baseline}"
            rows.append(_row(group.group, compared, deciding(group)))
    table = verdict.factors if ask.what == "factor" else None
    for row in table.effects if table else ():
        same = (row.suite, row.factor) == (ask.suite, ask.factor) and row.kind != "interaction"
        fits = ask.fits(case=row.case, level=row.level, other=row.other or "")
        if same and fits and row.ratio is not None:
            at = f" at {row.other} {row.at}" if row.other else ""
            compared = f"{row.factor} {row.level} ÷ {row.reference}{at}"
            rows.append(_row(row.case, compared, deciding(row)))
    return rows


def _row(what: str, compared: str, effect: Effect | GroupEffect | FactorEffect) -> Row:
    unit = "of its items"
    if not isinstance(effect, GroupEffect):
        unit = f"{effect.unit}, {LESS}" if effect.better == "lower" else effect.unit
    exact = isinstance(effect, Effect) and effect.exact
    text = figures.exact(effect.ratio) if exact else figures.effect(effect.ratio)
    judged = (effect.ratio, effect.ci, exact, effect.verdict, effect.equivalent_too)
    return Row(plain.name(what), plain.name(compared), plain.name(unit), text, *judged)


def _timed(
    what: str, compared: str, unit: str, ratio: float | None, ci: tuple[float, float] | None
) -> Row:
    """Of a ratio of times that no verdict has judged."""
    word, small = word_of(ci, "lower", _MATTERS)
    unit = f"{unit}, {LESS}"
    return Row(what, compared, unit, figures.effect(ratio), ratio, ci, False, word, small)


def _profiles(ask: Ask, run: OfRun) -> list[Row]:
    fitting = {
        name: profile
        for name, profile in run.profiles.items()
        if name == run.baseline or ask.fits(variant=name)
    }
    every, rows = ask.function == "*", []
    for pair in differences(fitting, run.baseline):
        for row in pair.by_where if every else pair.changes:
            change = row.relative
            if row.where == "kernel" and change and (every or ask.fits(function=row.function)):
                ci = change.ci and (1.0 + change.ci[0], 1.0 + change.ci[1])
                whose = "the kernel's own" if every else f"{ask.function}'s"
                about = (f"{whose} seconds", f"{pair.variant} ÷ {run.baseline}")
                rows.append(_timed(*about, "s of the same work", 1.0 + change.mean, ci))
    return rows


def _shares(ask: Ask, run: OfRun) -> list[Row]:
    """Of the kernel's own functions alone: not every method sees others."""
    base = run.profiles.get(run.baseline)
    whole_s = mean_of(list(base.totals("kernel").values())).mean if base is not None else 0.0
    if base is None or not whole_s:
        return []
    own = [row for row in means_of(base) if row.where == "kernel" and row.function != OTHERS]
    return [
        Row(
            row.function,
            run.baseline,
            f"of the kernel's own {whole_s:.3g} s a boot",
            f"{figures.share(row.seconds.mean / whole_s)}, place {place}",
        )
        for place, row in enumerate(own, 1)
        if ask.fits(function=row.function)
    ]


def _sizes(ask: Ask, bench: results.Bench) -> list[Row]:
    least, most = (ask.bytes[0], ask.bytes[-1]) if ask.bytes else (0, 1 << 62)
    loads = [load for load in bench.loads if load.curve == ("L1", "fixed", "aligned")]
    loads = [load for load in loads if least <= load.most <= most]
    if not loads or not {ask.routine, ask.against} <= set(bench.ns):
        return []
    effect = results.over(bench, ask.routine, [ask.against] * len(loads), loads)
    sizes = sorted({load.most for load in loads})
    compared = f"{ask.routine} ÷ {ask.against}"
    text = f"{_span(sizes[0], sizes[-1])} bytes"
    return [_timed(text, compared, "ns a call", effect.ratio, effect.ci)]


def _places(ask: Ask, survey: Survey) -> list[Row]:
    return [
        Row("loops in vectors", side.flags, "places in the source", str(side.vectorized.places))
        for side in survey.sides
        if ask.fits(flags=side.flags)
    ]


def _reasons(ask: Ask, survey: Survey) -> list[Row]:
    rows = []
    for side in (side for side in survey.sides if ask.fits(flags=side.flags)):
        for reason, count in side.missed.reasons.items():
            words, of = REASONS.get(reason, reason), side.missed.places
            if ask.fits(reason=words):
                amount = f"{count} of {of} ({figures.share(count / of)})" if of else str(count)
                rows.append(Row(words, side.flags, "of the others", amount))
    return rows


def _copied(ask: Ask, copies: distribution.Distribution) -> list[Row]:
    least, most = ask.bytes[0], ask.bytes[-1]
    inside = [cell for cell in copies.cells if least <= cell.size <= most]
    calls = sum(cell.calls for cell in inside) / copies.calls
    volume = sum(cell.bytes for cell in inside) / (copies.bytes or 1)
    return [
        Row(f"copies of {_span(least, most)} bytes", "counted", of, figures.share(share))
        for of, share in (("of all copies", calls), ("of all bytes", volume))
    ]


def _formed(ask: Ask, forms: Forms) -> list[Row]:
    rows = []
    names = dict.fromkeys(form.candidate for form in forms.forms)
    for job in (name for name in names if ask.fits(job=name)):
        for size in ask.bytes:
            own = [form for form in forms.forms if (form.candidate, form.bytes) == (job, size)]
            scalar = [form.ns for form in own if form.form.startswith("scalar")]
            others = [form for form in own if not form.form.startswith("scalar")]
            if scalar and others:
                best = min(others, key=lambda form: form.ns)
                ratio = best.ns / min(scalar)
                about = (f"{job}, {size} bytes", f"{best.form} ÷ scalar", f"ns a call, {LESS}")
                rows.append(Row(*about, figures.effect(ratio), ratio))
    return rows


_READERS: dict[str, tuple[str, Callable[[Ask, Any], list[Row]]]] = {
    **dict.fromkeys(("effect", "group", "factor"), ("", _judged)),
    "profile": ("", _profiles),
    "share": ("", _shares),
    "sizes": (results.KIND, _sizes),
    "places": (SURVEY, _places),
    "reasons": (SURVEY, _reasons),
    "copies": (distribution.KIND, _copied),
    "forms": (FORMS, _formed),
}
"""What is asked → (kind of file, or "" for a run; what finds the rows in it)."""
