# SPDX-License-Identifier: MIT
"""One profile in figures, and what differs between two: per function, in sum, and what is left."""

from __future__ import annotations

from dataclasses import dataclass

from kdyno.errors import UsageError
from kdyno.labs.profile.record import WHERES, Profile, Where
from kdyno.stats.additive import Estimate, difference_of, mean_of, relative


@dataclass(frozen=True)
class FunctionMean:
    """One function: seconds a boot, and the share of all seconds that the profile saw."""

    where: Where
    function: str
    seconds: Estimate
    share: float
    calls: float | None = None


@dataclass(frozen=True)
class Change:
    """One function in two kernels. Seconds a boot; ``delta`` is variant − baseline by blocks."""

    where: Where
    function: str
    baseline_s: float
    variant_s: float
    delta: Estimate
    relative: Estimate | None
    """``delta`` as a share of the baseline's seconds."""


@dataclass(frozen=True)
class Difference:
    baseline: str
    variant: str
    method: str
    changes: tuple[Change, ...]
    """The largest |delta| first."""
    by_where: tuple[Change, ...]
    """The same for all functions of the UML kernel, the host's kernel, user code together."""
    sampled: Change
    """All functions together: what the profile explains."""
    measured: Change | None
    """CPU seconds of the whole guest by the host's accounting, without any profiler."""

    @property
    def unexplained_s(self) -> float | None:
        """Measured change that is in no function's."""
        return None if self.measured is None else self.measured.delta.mean - self.sampled.delta.mean


def rows(profile: Profile) -> tuple[FunctionMean, ...]:
    """Every function of the profile, most seconds first."""
    totals = profile.totals()
    whole = sum(totals.values()) / len(totals) if totals else 0.0
    found = []
    for where, function in profile.names:
        seconds = mean_of(list(profile.seconds(where, function).values()))
        share = seconds.mean / whole if whole else 0.0
        found.append(FunctionMean(where, function, seconds, share, profile.calls(where, function)))
    return tuple(found)


def total(profile: Profile) -> Estimate:
    """Seconds a boot of all functions."""
    return mean_of(list(profile.totals().values()))


def difference(baseline: Profile, variant: Profile) -> Difference:
    """UsageError where the two did not do the same work by the same method."""
    _comparable(baseline, variant)
    names = dict.fromkeys((*baseline.names, *variant.names))
    changes = [
        _change(
            where,
            function,
            baseline.seconds(where, function),
            variant.seconds(where, function),
        )
        for where, function in names
    ]
    changes.sort(key=lambda it: (-abs(it.delta.mean), it.where, it.function))
    by_where = [
        _change(where, "", baseline.totals(where), variant.totals(where))
        for where in WHERES
        if any(it.where == where for it in changes)
    ]
    measured = None
    if baseline.measured() and variant.measured():
        measured = _change("kernel", "", baseline.measured(), variant.measured())
    return Difference(
        baseline=baseline.variant,
        variant=variant.variant,
        method=variant.method,
        changes=tuple(changes),
        by_where=tuple(by_where),
        sampled=_change("kernel", "", baseline.totals(), variant.totals()),
        measured=measured,
    )


def _change(
    where: Where,
    function: str,
    before: dict[int, float],
    after: dict[int, float],
) -> Change:
    return Change(
        where,
        function,
        sum(before.values()) / len(before) if before else 0.0,
        sum(after.values()) / len(after) if after else 0.0,
        difference_of(before, after),
        relative(before, after),
    )


def _comparable(baseline: Profile, variant: Profile) -> None:
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
