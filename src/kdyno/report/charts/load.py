# SPDX-License-Identifier: MIT
"""Runnable tasks over the time of a case, against how many were asked for (-j)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from kdyno.report import figures, plain
from kdyno.report.charts.vega import Spec, layer, panel
from kdyno.report.evidence import Evidence, Point
from kdyno.store.manifest import CaseInfo

HEIGHT_PX = 150
MOST = 24
"""Charts; a run with more cases and kernels than that shows its first ones."""
_LOOKS_MOST = 5000


@dataclass(frozen=True)
class Look:
    """What the load meter saw at one time."""

    ms: int
    runnable: int
    busy_percent: int


@dataclass(frozen=True)
class Load:
    """One case in the boot whose score is nearest to the kernel's median."""

    case: CaseInfo
    variant: str
    boot: int
    tasks: float | None
    """Asked for; None: not recorded."""
    looks: tuple[Look, ...]

    @property
    def title(self) -> str:
        return f"{plain.short(self.case.case)} · {plain.short(self.variant)}"

    @property
    def sagging(self) -> tuple[Look, ...]:
        """Looks at which fewer than half of the tasks asked for were runnable."""
        if self.tasks is None:
            return ()
        return tuple(look for look in self.looks if 2 * look.runnable < self.tasks)

    @property
    def text(self) -> str:
        """The finding in words."""
        mean = sum(look.runnable for look in self.looks) / len(self.looks)
        busy = sum(look.busy_percent for look in self.looks) / len(self.looks)
        said = f"{self.title}: {mean:.1f} runnable tasks on average, CPU {busy:.0f} % busy"
        if self.tasks is None:
            return f"{said}."
        low = figures.percent(len(self.sagging) / len(self.looks), signed=False, decimals=0)
        sags = f"for {low} of the time" if self.sagging else "at no time"
        return f"{said}, {self.tasks:g} asked for; fewer than half of that {sags}."


def looks(text: str) -> tuple[Look, ...]:
    """From ``100:1:100 201:2:98``; what is not a look is left out."""
    found = []
    for word in text.split()[:_LOOKS_MOST]:
        parts = word.split(":")
        if len(parts) == 3 and all(part.isascii() and part.isdigit() for part in parts):
            found.append(Look(*(int(part[:9]) for part in parts)))
    return tuple(found)


def loads(evidence: Evidence) -> tuple[Load, ...]:
    """By case, then by variant; only what a load meter looked at."""
    found: list[Load] = []
    for case, variant, points in evidence.cells:
        seen = [point for point in points if point.load]
        if not seen or len(found) >= MOST:
            continue
        middle = median(point.score for point in seen)
        typical = min(seen, key=lambda point: abs(point.score - middle))
        if line := looks(typical.load):
            asked = _asked(case, typical)
            found.append(Load(case, variant, typical.boot.index, asked, line))
    return tuple(found)


def _asked(case: CaseInfo, point: Point) -> float | None:
    """As recorded; in runs from before it was, the level of the factor that says so."""
    if point.tasks is not None:
        return point.tasks
    try:
        return float(case.levels["jobs"])
    except (KeyError, ValueError):
        return None


def load_chart(load: Load, width_px: int, title: str = "", highest: float = 0.0) -> Spec:
    """Tasks as steps; dashed: as many as asked for; ground: where it sagged below half of that.

    ``highest``: the upper end of the axis, at least, so that charts can be compared.
    """
    import altair

    top = max(highest, load.tasks or 0.0, *(look.runnable for look in load.looks)) * 1.05
    scale = altair.Scale(domain=[0, max(1.0, top)], nice=False)
    y_axis = altair.Axis(title="runnable tasks", tickMinStep=1, tickCount=4)
    x_axis = altair.Axis(title="seconds", tickCount=6, grid=False)
    ends = altair.Scale(domain=[0, load.looks[-1].ms / 1000.0], nice=False)
    x = altair.X("s:Q", axis=x_axis, scale=ends)
    y = altair.Y("tasks:Q", axis=y_axis, scale=scale)
    chart = altair.Chart()
    layers: list[Spec] = []
    if sags := _sags(load):
        ground = chart.mark_rect(color="var(--slower)", opacity=0.16)
        # Without y it reaches from the bottom to the top.
        layers.append(layer(ground.encode(x=x, x2=altair.X2("until:Q")), sags))
    steps = chart.mark_line(interpolate="step-before", color="var(--variant)", strokeWidth=1.5)
    rows: list[Spec] = [{"s": look.ms / 1000.0, "tasks": look.runnable} for look in load.looks]
    layers.append(layer(steps.encode(x=x, y=y), [{**rows[0], "s": 0.0}, *rows]))
    if load.tasks is not None:
        asked = chart.mark_rule(color="var(--muted)", strokeDash=[5, 4], strokeWidth=1.5)
        layers.append(layer(asked.encode(y=y), [{"tasks": load.tasks}]))
    return panel(layers, width_px, HEIGHT_PX, title)


def highest(found: Sequence[Load]) -> float:
    """The upper end of an axis that all of them fit on."""
    return max(
        (max(load.tasks or 0.0, *(look.runnable for look in load.looks)) for load in found),
        default=0.0,
    )


def _sags(load: Load) -> list[Spec]:
    """Neighbouring looks that sag, as one stretch of time each."""
    low = set(load.sagging)
    stretches: list[Spec] = []
    before = 0.0
    for look in load.looks:
        now = look.ms / 1000.0
        if look in low:
            if stretches and stretches[-1]["until"] == before:
                stretches[-1]["until"] = now
            else:
                stretches.append({"s": before, "until": now})
        before = now
    return stretches
