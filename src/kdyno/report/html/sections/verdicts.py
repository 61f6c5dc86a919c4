# SPDX-License-Identifier: MIT
"""The table of verdicts: one row per variant and case."""

from __future__ import annotations

from kdyno.report import effects, figures, plain
from kdyno.report.evidence import Evidence
from kdyno.report.groups import groups
from kdyno.report.show.grid import Column, Grid, headed
from kdyno.report.show.html import table
from kdyno.report.show.markup import Html, join, tag
from kdyno.store.verdict import Effect, Verdict

ORDER = 10
TITLE = "Verdicts"
TIP = (
    "The effect is the variant ÷ the baseline, paired within blocks of boots; the value is the "
    "baseline’s median × the effect. A heading sorts by its column."
)


def section(evidence: Evidence) -> Html | None:
    verdict = evidence.verdict
    items = [it for group in groups(verdict) for it in group.effects]
    if not items:
        return None
    columns = [
        Column("case", lambda it: effects.case(it, "beside"), "name"),
        Column("variant", lambda it: it.variant, "name"),
        Column("effect", effects.effect, "effect"),
        *effects.counts(items),
        Column("verdict", effects.verdict, "verdict"),
        Column(effects.level(verdict), effects.interval, "number"),
        Column("baseline", lambda it: effects.amount(it, it.baseline_value), "number"),
        Column("value", effects.value, "number"),
        *effects.floors(items),
        Column("blocks", lambda it: it.blocks, "number"),
    ]
    facets = {
        "suite": lambda it: plain.short(it.suite),
        "variant": lambda it: plain.short(it.variant),
        "verdict": lambda it: it.verdict,
    }
    grid = Grid(headed(columns), items, "Verdicts", id="effects-table", facets=facets)
    return join([table(grid), _legend(items, verdict)])


def _legend(items: list[Effect], verdict: Verdict) -> Html:
    lines = []
    if any(it.verdict == "equivalent" for it in items):
        band = figures.tolerance(verdict.equivalent)
        lines.append(f"Equivalent: the interval lies inside {band}.")
    if any(it.verdict == "inconclusive" for it in items):
        lines.append("Inconclusive: the interval contains both no difference and one that matters.")
    if any(it.noise_floor is not None for it in items):
        lines.append("Noise floor: how far the baseline differs from its own copy.")
    if any(it.exact for it in items):
        boots = min(it.blocks for it in items if it.exact)
        lines.append(f"Exact: {figures.exact_because(boots)}.")
    if any(it.control for it in items):
        lines.append("Control: does not depend on the kernel and should not move.")
    return tag("p", " ".join(lines), class_="legend") if lines else Html("")
