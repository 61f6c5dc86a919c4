# SPDX-License-Identifier: MIT
"""Profiles as figures, what differs between two, and both on a terminal and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from kdyno.errors import UsageError
from kdyno.labs.profile.record import WHERES, Profile, Where
from kdyno.report import figures, plain
from kdyno.report.show.grid import Cell, Column, Grid
from kdyno.report.show.terminal import Part
from kdyno.stats.effect import Estimate, difference_of, mean_of, relative


@dataclass(frozen=True)
class FunctionMean:
    """One function: seconds per boot, and its share of all sampled seconds."""

    variant: str
    where: Where | None
    """None: of the smallest together."""
    function: str
    seconds: Estimate
    share: float
    calls: float | None = None


@dataclass(frozen=True)
class Change:
    """One function in two kernels. Seconds per boot; ``delta_s``: variant − baseline by blocks."""

    where: Where
    function: str
    baseline_s: float
    variant_s: float
    delta_s: Estimate
    relative: Estimate | None
    """``delta_s`` as a share of the baseline's seconds."""


@dataclass(frozen=True)
class Difference:
    baseline: str
    variant: str
    method: str
    event: str
    changes: tuple[Change, ...]
    """The largest |delta_s| first."""
    by_where: tuple[Change, ...]
    """The same for all functions of the UML kernel, the host's kernel, user code together."""
    sampled: Change
    """All functions together: what the profile explains."""
    measured: Change | None
    """CPU seconds of the whole guest by the host's accounting, without any profiler."""

    @property
    def unexplained_s(self) -> float | None:
        """Measured change that is in no function's. None for cycles, whose seconds are made to add
        up to what was measured."""
        if self.measured is None or self.event == "cycles":
            return None
        return self.measured.delta_s.mean - self.sampled.delta_s.mean


def rows(profile: Profile) -> tuple[FunctionMean, ...]:
    """Every function of the profile, most seconds first."""
    totals = profile.totals()
    whole = sum(totals.values()) / len(totals) if totals else 0.0
    means = []
    for where, function in profile.names:
        seconds = mean_of(list(profile.seconds(where, function).values()))
        share = seconds.mean / whole if whole else 0.0
        calls = profile.calls(where, function)
        means.append(FunctionMean(profile.variant, where, function, seconds, share, calls))
    return tuple(means)


def total(profile: Profile) -> Estimate:
    """Seconds per boot of all functions."""
    return mean_of(list(profile.totals().values()))


def difference(baseline: Profile, variant: Profile) -> Difference:
    """UsageError where the two did not do the same work by the same method."""
    for what, one, other in (
        ("method", baseline.method, variant.method),
        ("event", baseline.event, variant.event),
        ("work", dict(baseline.operations), dict(variant.operations)),
    ):
        if one != other:
            raise UsageError(
                f"the profiles of {baseline.variant!r} and {variant.variant!r} differ in their "
                f"{what} ({one} and {other}): seconds of different work cannot be subtracted. "
                "Profile both again: `kdyno profile RUN --replace`"
            )
    names = dict.fromkeys((*baseline.names, *variant.names))
    changes = [_change(*name, baseline.seconds(*name), variant.seconds(*name)) for name in names]
    changes.sort(key=lambda change: (-abs(change.delta_s.mean), change.where, change.function))
    by_where = [
        _change(where, "", baseline.totals(where), variant.totals(where))
        for where in WHERES
        if any(change.where == where for change in changes)
    ]
    measured = None
    if baseline.measured() and variant.measured():
        measured = _change("kernel", "", baseline.measured(), variant.measured())
    return Difference(
        baseline=baseline.variant,
        variant=variant.variant,
        method=variant.method,
        event=variant.event,
        changes=tuple(changes),
        by_where=tuple(by_where),
        sampled=_change("kernel", "", baseline.totals(), variant.totals()),
        measured=measured,
    )


def _change(
    where: Where, function: str, before: dict[int, float], after: dict[int, float]
) -> Change:
    return Change(
        where,
        function,
        sum(before.values()) / len(before) if before else 0.0,
        sum(after.values()) / len(after) if after else 0.0,
        difference_of(before, after),
        relative(before, after),
    )


def seconds(value: float, signed: bool = False) -> str:
    """Three decimals, as many as a sampler of 100 to 1000 Hz can mean."""
    text = f"{abs(value):.3f}"
    sign = figures.MINUS if value < 0 else "+" if signed else ""
    return (sign if float(text) else "") + text


def limits(estimate: Estimate, signed: bool = False) -> str:
    """The interval, or how many boots it takes to have one."""
    if estimate.ci is None:
        return f"none from {figures.count(estimate.n, 'boot')}"
    return f"{seconds(estimate.ci[0], signed)} … {seconds(estimate.ci[1], signed)}"


def parts(profiles: Mapping[str, Profile], baseline: str, top: int = 15) -> Iterator[Part]:
    for profile in profiles.values():
        items = list(rows(profile))
        if rest := items[top:]:
            seconds_s = Estimate(0, sum(row.seconds.mean for row in rest))
            share = sum(row.share for row in rest)
            others = f"others: {len(rest)}"
            items[top:] = [FunctionMean(profile.variant, None, others, seconds_s, share)]
        yield from (headline(profile), Grid(FUNCTIONS, items), "")
    for pair in differences(profiles, baseline):
        yield f"{plain.short(pair.variant)} − {plain.short(pair.baseline)}, {pair.method}"
        yield change_grid(pair, top)
        if text := unexplained(pair):
            yield text
        yield ""
    yield from (f"note: {note}" for note in notes(profiles))


def notes(profiles: Mapping[str, Profile]) -> list[str]:
    """What they do not see, each thing once."""
    every = dict.fromkeys(note for profile in profiles.values() for note in profile.notes)
    return [plain.sentence(note) for note in every]


def differences(profiles: Mapping[str, Profile], baseline: str) -> list[Difference]:
    """Every variant against the baseline; none where that was not profiled."""
    base = profiles.get(baseline)
    if base is None or not base.boots:
        return []
    return [
        difference(base, profile)
        for name, profile in profiles.items()
        if name != baseline and profile.boots
    ]


def as_json(profiles: Mapping[str, Profile], baseline: str) -> dict[str, Any]:
    return {
        "schema": 1,
        "baseline": baseline,
        "profiles": [
            {
                **{key: getattr(profile, key) for key in ("variant", "method", "event")},
                "boots": len(profile.boots),
                "operations": dict(profile.operations),
                "seconds": _json(total(profile)),
                "functions": _json(rows(profile)),
                "notes": list(profile.notes),
            }
            for profile in profiles.values()
        ],
        "differences": [
            {
                "variant": pair.variant,
                "functions": _json(pair.changes),
                "where": {each.where: _json(each) for each in pair.by_where},
                "sampled": _json(pair.sampled),
                "measured": _json(pair.measured),
                "unexplained_s": pair.unexplained_s,
            }
            for pair in differences(profiles, baseline)
        ],
    }


def _json(value: object) -> object:
    """Dataclasses as tables, an estimate as its mean, interval and number of boots."""
    if isinstance(value, Estimate):
        return {"mean": value.mean, "ci": value.ci, "n": value.n}
    if isinstance(value, tuple):
        return [_json(each) for each in value]
    if isinstance(value, FunctionMean | Change):
        return {key: _json(each) for key, each in vars(value).items()}
    return value


def headline(profile: Profile) -> str:
    """The kernel, what it was profiled with, and how much of its CPU time was sampled."""
    cpu = profile.measured()
    text = (
        f"{plain.short(profile.variant)}: {profile.method} ({profile.event}), "
        f"{figures.count(len(profile.boots), 'boot')}, {seconds(total(profile).mean)} s a boot seen"
    )
    return f"{text} of {seconds(sum(cpu.values()) / len(cpu))} s CPU" if cpu else text


FUNCTIONS = (
    Column("where", lambda row: WHERES[row.where] if row.where else ""),
    Column("function", lambda row: row.function, "name"),
    Column("seconds", lambda row: row.seconds.mean, "number", seconds),
    Column("share", lambda row: row.share, "number", figures.share),
    Column("95 % interval", lambda row: limits(row.seconds) if row.where else "", "number"),
    Column("calls", lambda row: row.calls, "number", figures.amount),
)


def change_grid(difference: Difference, top: int) -> Grid:
    """The largest changes, their sums by kind of code, and what was measured."""
    items = [(WHERES[change.where], change.function, change) for change in difference.changes[:top]]
    items += [(WHERES[change.where], "all functions", change) for change in difference.by_where]
    items.append(("", "sum of the profile", difference.sampled))
    if difference.measured is not None:
        items.append(("", "CPU time, measured", difference.measured))
    title = f"Seconds of {plain.short(difference.variant)} minus the baseline's"
    return Grid(_CHANGES, items, title)


def unexplained(difference: Difference) -> str:
    """Empty where nothing was measured without the profiler."""
    if difference.unexplained_s is None:
        return ""
    text = seconds(difference.unexplained_s, True)
    return f"unexplained: {text} s of the measured change is in no function of the profile"


_CHANGES = (
    Column("where", itemgetter(0)),
    Column("function", itemgetter(1), "name"),
    Column("baseline", lambda row: row[2].baseline_s, "number", seconds),
    Column("variant", lambda row: row[2].variant_s, "number", seconds),
    Column("Δ seconds", lambda row: _delta(row[2].delta_s), "number"),
    Column("95 % interval", lambda row: limits(row[2].delta_s, True), "number"),
    Column(
        "change", lambda row: row[2].relative and row[2].relative.mean, "number", figures.percent
    ),
)


def _delta(estimate: Estimate) -> Cell:
    return Cell(seconds(estimate.mean, True), estimate.mean, sign="*" if estimate.clear else "")
