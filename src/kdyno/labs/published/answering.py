# SPDX-License-Identifier: MIT
"""From what is asked about a claim, and the evidence, to the rows that answer it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase

from kdyno.labs.memcpy.time import ratios
from kdyno.labs.memcpy.time.loads import Load
from kdyno.labs.profile.differences import Change, difference, rows
from kdyno.labs.published.article import Ask
from kdyno.labs.published.evidence import OTHERS, Evidence, OfFile, Side, Source
from kdyno.labs.vectorize.reasons import REASONS
from kdyno.paths import data_root
from kdyno.report import figures, plain
from kdyno.stats.additive import mean_of
from kdyno.stats.effect import PairedEffect, interval
from kdyno.stats.verdict import word_of
from kdyno.store.verdict import Effect, FactorEffect, GroupEffect

EVERY = "*"
_PAPER = "kdyno memcpy bench --paper --json FILE"
_NEEDS = {
    "sizes": f"`{_PAPER}`",
    "places": "`kdyno vectorize --flags sse2 --flags avx2 --flags avx512 --json FILE`",
    "reasons": "`kdyno vectorize --flags sse2 --flags avx2 --flags avx512 --json FILE`",
    "copies": "`kdyno memcpy histogram -o FILE.json`",
    "forms": "`python -m benchmarks.simd_candidates --json FILE`",
}
CONTROL = " (control)"
"""Behind the name of a row that should not move."""
_LESS = "less is better"
_MATTERS = 0.01
"""Differences of profiles and benches below this are called equivalent."""


@dataclass(frozen=True)
class Row:
    """One figure of today. ``ratio`` and ``ci``: None where it is no ratio, or has no interval."""

    what: str
    compared: str
    unit: str
    shown: str
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
        return -log if self.unit.endswith(_LESS) else log


@dataclass(frozen=True)
class Answer:
    """What one source says, or what is missing."""

    ask: Ask
    source: Source | None
    rows: tuple[Row, ...] = ()
    needs: str = ""
    """Markdown; where there is no source."""


def answer(ask: Ask, evidence: Evidence) -> Answer:
    """By the newest source that has a figure for it."""
    for source, found in _READERS[ask.what](ask, evidence):
        if found:
            return Answer(ask, source, tuple(found))
    return Answer(ask, None, needs=_needs(ask))


def _needs(ask: Ask) -> str:
    if ask.what in _NEEDS:
        return _NEEDS[ask.what]
    name = plain.short(ask.run)
    if not (data_root() / "experiments" / f"{ask.run}.toml").is_file():
        return f"an experiment `{name}`, which kdyno does not have yet"
    if ask.what in ("profile", "share"):
        return f"`kdyno profile experiments/{name}.toml`"
    return f"a run of `experiments/{name}.toml`"


Found = Iterator[tuple[Source, list[Row]]]


def _effects(ask: Ask, evidence: Evidence) -> Found:
    for run in evidence.runs.get(ask.run, ()):
        effects = run.verdict.effects if run.verdict else ()
        yield (
            run.source,
            [
                _row(it.case, f"{it.variant} ÷ {run.baseline}", it, it.exact)
                for it in effects
                if it.suite == ask.suite
                and _all(ask, case=it.case, variant=it.variant)
                and it.ratio is not None
                and run.verdict is not None
                and it.variant != run.verdict.copy_of_baseline
            ],
        )


def _groups(ask: Ask, evidence: Evidence) -> Found:
    for run in evidence.runs.get(ask.run, ()):
        found = run.verdict.groups if run.verdict else ()
        yield (
            run.source,
            [
                _row(it.group, f"{it.variant} ÷ {run.baseline}", it)
                for it in found
                if it.suite == ask.suite and _all(ask, case=it.group, variant=it.variant)
            ],
        )


def _factors(ask: Ask, evidence: Evidence) -> Found:
    for run in evidence.runs.get(ask.run, ()):
        table = run.verdict.factors if run.verdict else None
        yield (
            run.source,
            [
                _row(it.case, _levels(it), it)
                for it in (table.effects if table else ())
                if it.kind != "interaction"
                and it.suite == ask.suite
                and it.factor == ask.factor
                and _all(ask, case=it.case, level=it.level, other=it.other or "")
                and it.ratio is not None
            ],
        )


def _levels(it: FactorEffect) -> str:
    at = f" at {it.other} {it.at}" if it.other else ""
    return f"{it.factor} {it.level} ÷ {it.reference}{at}"


def _row(
    what: str, compared: str, it: Effect | GroupEffect | FactorEffect, exact: bool = False
) -> Row:
    unit = "of its items" if isinstance(it, GroupEffect) else it.unit
    if not isinstance(it, GroupEffect) and it.better == "lower":
        unit += f", {_LESS}"
    control = CONTROL if isinstance(it, Effect) and it.control else ""
    return Row(
        plain.name(what) + control,
        plain.name(compared),
        plain.name(unit),
        figures.exact(it.ratio) if exact else figures.effect(it.ratio),
        it.ratio,
        it.ci,
        exact,
        it.verdict,
        it.equivalent_too,
    )


def _profiles(ask: Ask, evidence: Evidence) -> Found:
    for run in evidence.runs.get(ask.run, ()):
        base = run.profiles.get(run.baseline)
        found = []
        for variant, profile in run.profiles.items():
            if base is None or variant == run.baseline or not _all(ask, variant=variant):
                continue
            made = difference(base, profile)
            changes = made.by_where if ask.function == EVERY else made.changes
            found += [
                _seconds(ask, it, f"{variant} ÷ {run.baseline}")
                for it in changes
                if it.where == "kernel"
                and it.relative is not None
                and _all(ask, function=it.function or EVERY)
            ]
        yield run.source, found


def _seconds(ask: Ask, it: Change, compared: str) -> Row:
    assert it.relative is not None
    low, high = it.relative.lo, it.relative.hi
    ends = None if low is None or high is None else (1.0 + low, 1.0 + high)
    low, high = ends if ends is not None else (None, None)
    word, small = word_of(low, high, "lower", _MATTERS)
    what = "the kernel's own seconds" if ask.function == EVERY else f"{ask.function}'s seconds"
    ratio = 1.0 + it.relative.mean
    unit = "s of the same work, less is better"
    return Row(what, compared, unit, figures.effect(ratio), ratio, ends, False, word, small)


def _shares(ask: Ask, evidence: Evidence) -> Found:
    """Of the kernel's own functions alone: not every method sees others."""
    for run in evidence.runs.get(ask.run, ()):
        base = run.profiles.get(run.baseline)
        found = []
        if base is not None:
            whole = mean_of(list(base.totals("kernel").values())).mean
            own = [it for it in rows(base) if it.where == "kernel" and it.function != OTHERS]
            for place, it in enumerate(own, 1):
                if _all(ask, function=it.function) and whole:
                    shown = f"{figures.share(it.seconds.mean / whole)}, place {place}"
                    unit = f"of the kernel's own {whole:.3g} s a boot"
                    found.append(Row(it.function, run.baseline, unit, shown))
        yield run.source, found


def _sizes(ask: Ask, evidence: Evidence) -> Found:
    least, most = (ask.bytes[0], ask.bytes[-1]) if ask.bytes else (0, 1 << 62)
    for it in evidence.benches:
        bench = it.value
        if not {ask.routine, ask.against} <= set(bench.ns):
            continue
        loads = [load for load in bench.loads if load.mode == "fixed" and load.level == "L1"]
        loads = [load for load in loads if least <= load.most <= most]
        if loads:
            made = ratios.over(bench, ask.routine, [ask.against] * len(loads), loads)
            yield it.source, [_timed(ask, loads, made)]


def _timed(ask: Ask, loads: list[Load], made: PairedEffect) -> Row:
    sizes = sorted({load.most for load in loads})
    what = f"{sizes[0]} bytes" if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]} bytes"
    ends = interval(made.lo, made.hi)
    word, small = word_of(made.lo, made.hi, "lower", _MATTERS)
    return Row(
        what,
        f"{ask.routine} ÷ {ask.against}",
        "ns a call, less is better",
        figures.effect(made.ratio),
        made.ratio,
        ends,
        False,
        word,
        small,
    )


def _places(ask: Ask, evidence: Evidence) -> Found:
    for it, sides in _sides(ask, evidence):
        yield (
            it.source,
            [
                Row("loops in vectors", side.flags, "places in the source", str(side.places))
                for side in sides
            ],
        )


def _reasons(ask: Ask, evidence: Evidence) -> Found:
    for it, sides in _sides(ask, evidence):
        yield (
            it.source,
            [
                Row(words, side.flags, "of the places that are not", _part(count, side.missed))
                for side in sides
                for reason, count in side.reasons.items()
                if fnmatchcase(words := REASONS.get(reason, reason), ask.reason)
            ],
        )


def _part(count: int, of: int) -> str:
    return f"{count} of {of} ({figures.share(count / of)})" if of else str(count)


def _sides(ask: Ask, evidence: Evidence) -> Iterator[tuple[OfFile[tuple[Side, ...]], list[Side]]]:
    for it in evidence.surveys:
        yield it, [side for side in it.value if fnmatchcase(side.flags, ask.flags)]


def _copies(ask: Ask, evidence: Evidence) -> Found:
    least, most = ask.bytes[0], ask.bytes[-1]
    for it in evidence.copies:
        inside = [cell for cell in it.value.cells if least <= cell.size <= most]
        calls = sum(cell.calls for cell in inside) / it.value.calls
        volume = sum(cell.bytes for cell in inside) / it.value.bytes
        what = f"copies of {least} to {most} bytes" if least < most else f"copies of {least} bytes"
        yield (
            it.source,
            [
                Row(what, "counted", "of all copies", figures.share(calls)),
                Row(what, "counted", "of all bytes", figures.share(volume)),
            ],
        )


def _forms(ask: Ask, evidence: Evidence) -> Found:
    for it in evidence.forms:
        found = []
        for job in dict.fromkeys(form.job for form in it.value if fnmatchcase(form.job, ask.job)):
            for size in ask.bytes:
                mine = [form for form in it.value if (form.job, form.bytes) == (job, size)]
                scalar = [form.ns for form in mine if form.form.startswith("scalar")]
                others = [form for form in mine if not form.form.startswith("scalar")]
                if scalar and others:
                    best = min(others, key=lambda form: form.ns)
                    ratio = best.ns / min(scalar)
                    found.append(
                        Row(
                            f"{job}, {size} bytes",
                            f"{best.form} ÷ scalar",
                            "ns a call, less is better",
                            figures.effect(ratio),
                            ratio,
                        )
                    )
        yield it.source, found


def _all(ask: Ask, **named: str) -> bool:
    """Every name fits what was asked for."""
    return all(fnmatchcase(name, getattr(ask, key)) for key, name in named.items())


_READERS: dict[str, Callable[[Ask, Evidence], Found]] = {
    "effect": _effects,
    "group": _groups,
    "factor": _factors,
    "profile": _profiles,
    "share": _shares,
    "sizes": _sizes,
    "places": _places,
    "reasons": _reasons,
    "copies": _copies,
    "forms": _forms,
}


def summary(rows: Iterable[Row]) -> str:
    """``4 faster, 1 equivalent (0.28 % worse to 10.2 % better)``: all figures of a claim in a few
    words, whichever way their units go."""
    every = list(rows)
    ordered = sorted((it for it in every if it.ratio), key=lambda it: it.gain)
    if not ordered:
        return "; ".join(f"{it.what}: {it.shown} {it.unit}" for it in every[:2])
    counts = {word: sum(it.verdict == word for it in every) for word in _WORDS}
    words = ", ".join(f"{count} {_WORDS[word]}" for word, count in counts.items() if count)
    ends = " to ".join(dict.fromkeys(_better(it) for it in (ordered[0], ordered[-1])))
    return f"{words} ({ends})" if words else ends


def _better(it: Row) -> str:
    way = "better" if it.gain > 0 else "worse"
    return f"{figures.size(it.ratio)} {way}" if it.gain else "no difference"


_WORDS = {
    "faster": "faster",
    "slower": "slower",
    "equivalent": "equivalent",
    "inconclusive": "undecided",
    "failed": "failed",
}
