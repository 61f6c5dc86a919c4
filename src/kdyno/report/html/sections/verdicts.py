# SPDX-License-Identifier: MIT
"""The table of verdicts: one row per variant and case."""

from __future__ import annotations

from kdyno.report import figures, plain
from kdyno.report.evidence import Evidence
from kdyno.report.groups import groups
from kdyno.report.html.head import badge
from kdyno.report.html.markup import Content, Html, join, short, tag
from kdyno.report.html.table import Cell, Row, table
from kdyno.store.verdict import Effect, Verdict

ORDER = 10
TITLE = "Verdicts"
TIP = (
    "The effect is the variant’s value ÷ the baseline’s, paired within blocks of boots. A heading "
    "sorts by its column."
)

_RANK = {"slower": 0, "faster": 1, "failed": 2, "inconclusive": 3, "equivalent": 4}


def section(evidence: Evidence) -> Html | None:
    verdict = evidence.verdict
    effects = [it for group in groups(verdict) for it in group.effects]
    if not effects:
        return None
    floor = any(it.noise_floor is not None for it in effects)
    level = f"{100 * verdict.confidence:g} % interval"
    heads = ["Case", "Variant", "Effect", "Verdict", level, "Baseline", "Value"]
    heads += [*(["Noise floor"] if floor else []), "Blocks"]
    rows = [
        Row(
            _cells(it, verdict, floor),
            {
                "suite": plain.short(it.suite),
                "variant": plain.short(it.variant),
                "verdict": it.verdict,
            },
        )
        for it in effects
    ]
    shown = table("effects-table", "Verdicts", heads, rows, ("suite", "variant", "verdict"))
    return join([shown, _legend(effects, verdict)])


def _cells(it: Effect, verdict: Verdict, floor: bool) -> list[Cell]:
    unit = plain.name(it.unit)
    low = it.ci[0] if it.ci else None
    cells = [
        Cell(_case(it), f"{plain.name(it.suite)}/{plain.name(it.case)}"),
        Cell(short(it.variant), plain.name(it.variant)),
        Cell(_effect(it), it.ratio, True, f"effect {it.verdict}"),
        Cell(_word(it), _RANK[it.verdict]),
        Cell(figures.interval(it.ci) if it.ci else "", low, True),
        Cell(_amount(it.baseline_value, unit), it.baseline_value, True),
        Cell(_amount(it.value, unit), it.value, True),
    ]
    if floor:
        known = it.noise_floor is not None
        text = figures.percent(it.noise_floor, signed=False) if known else ""
        cells.append(Cell(text, it.noise_floor, True))
    return [*cells, Cell(str(it.blocks), it.blocks, True)]


def _case(it: Effect) -> Content:
    notes = [short(it.suite)]
    if it.better == "lower":
        notes.append(Html("lower is better"))
    if it.control:
        notes.append(Html("control"))
    parts = [tag("small", note) for note in notes]
    return [short(it.case), *parts]


def _effect(it: Effect) -> str:
    return figures.effect(it.ratio) if it.ratio is not None else ""


def _word(it: Effect) -> Content:
    notes = []
    if it.equivalent_too:
        notes.append("too little to matter")
    if it.inside_noise_floor:
        notes.append("inside the noise floor")
    if it.verdict == "inconclusive" and it.predicted_blocks:
        notes.append(f"about {it.predicted_blocks} blocks would settle it")
    if it.reason:
        notes.append(plain.sentence(it.reason))
    return [badge(it.verdict), *(tag("small", note) for note in notes)]


def _amount(value: float | None, unit: str) -> str:
    return "" if value is None else figures.quantity(value, unit)


def _legend(effects: list[Effect], verdict: Verdict) -> Html:
    lines = []
    if any(it.verdict == "equivalent" for it in effects):
        band = figures.tolerance(verdict.equivalent)
        lines.append(f"Equivalent: the interval lies inside {band}.")
    if any(it.verdict == "inconclusive" for it in effects):
        lines.append("Inconclusive: the interval holds both no difference and one that matters.")
    if any(it.noise_floor is not None for it in effects):
        lines.append("Noise floor: how far the baseline differs from its own copy.")
    if any(it.control for it in effects):
        lines.append("Control: does not depend on the kernel and should not move.")
    return tag("p", " ".join(lines), class_="legend") if lines else Html("")
