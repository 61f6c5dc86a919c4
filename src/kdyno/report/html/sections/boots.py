# SPDX-License-Identifier: MIT
"""Every boot of every case as a point in time order, baseline and variant in one panel."""

from __future__ import annotations

from statistics import median

from kdyno.report import effects, figures, plain
from kdyno.report.charts.boots import boots_strip
from kdyno.report.evidence import Evidence, Point
from kdyno.report.html.data import measured_cases
from kdyno.report.show.html import FILTER_FROM_ROWS, filters
from kdyno.report.show.markup import Html, join, name, short, tag
from kdyno.store.manifest import CaseInfo
from kdyno.store.verdict import Effect

ORDER = 40
TITLE = "Boots"
TIP = (
    "One point per boot, from the first on the left to the last on the right. With a panel in "
    "focus the arrow keys go from boot to boot."
)


def section(evidence: Evidence) -> Html | None:
    baseline = evidence.verdict.baseline
    effects = {(it.suite, it.case, it.variant): it for it in evidence.verdict.effects}
    lost: dict[str, list[int]] = {}
    for boot in evidence.boots:
        if not boot.ok:
            lost.setdefault(boot.variant, []).append(boot.position)
    panels = []
    others = [variant for variant in evidence.variants if variant != baseline] or [baseline]
    alone = others == [baseline]
    numbers = {(it.suite, it.case): at for at, it in enumerate(measured_cases(evidence))}
    for case, variant, points in evidence.cells:
        if variant != baseline or alone:
            before = evidence.points.get((case.suite, case.case, baseline), ())
            failed = sorted({*lost.get(baseline, ()), *lost.get(variant, ())})
            it = effects.get((case.suite, case.case, variant))
            arms = (before, () if alone else points)
            number = numbers[case.suite, case.case]
            panels.append(_panel(evidence, case, number, variant, arms, failed, it))
    if not panels:
        return None
    choices = {"variant": [plain.short(it) for it in others]} if len(others) > 1 else {}
    controls = filters("panels", len(panels), choices) if len(panels) >= FILTER_FROM_ROWS else None
    return join([_legend(evidence), controls, tag("div", panels, id="panels", class_="panels")])


def _panel(
    evidence: Evidence,
    case: CaseInfo,
    number: int,
    variant: str,
    arms: tuple[tuple[Point, ...], tuple[Point, ...]],
    failed: list[int],
    it: Effect | None,
) -> Html:
    before, after = arms
    unit = plain.name(case.unit)
    effect = f"{figures.effect(it.ratio)} {effects.word(it)}" if it and it.ratio is not None else ""
    names = list(evidence.variants)
    on, paths = boots_strip(len(evidence.boots), {"baseline": before, "variant": after}, failed)
    drawing = on.svg(_told(evidence, case, variant, arms, effect), paths)
    arm = [" · ", short(variant)] if after else []
    title = [short(case.case), arm, tag("small", short(case.suite))]
    return tag(
        "figure",
        tag(
            "figcaption",
            tag("b", title),
            tag("span", effect, class_=f"effect {it.verdict}" if it else None),
        ),
        tag("span", figures.quantity(on.high, unit), class_="end high"),
        tag("div", Html(drawing), class_="plot"),
        tag("span", figures.quantity(on.low, unit), class_="end low"),
        class_="panel",
        data_case=number,
        data_arms=f"{names.index(evidence.verdict.baseline)},{names.index(variant)}",
        data_f_variant=plain.short(variant),
    )


def _told(
    evidence: Evidence,
    case: CaseInfo,
    variant: str,
    arms: tuple[tuple[Point, ...], tuple[Point, ...]],
    effect: str,
) -> str:
    unit = plain.name(case.unit)
    parts = []
    for who, points in zip((evidence.verdict.baseline, variant), arms, strict=True):
        if points:
            middle = figures.quantity(median(point.score for point in points), unit)
            disturbed = sum(bool(point.boot.disturbed) for point in points)
            parts.append(
                f"{plain.short(who)}: {figures.count(len(points), 'boot')}, median {middle}, "
                f"{disturbed} disturbed"
            )
    return f"{plain.short(case.case)} in time order. {'; '.join(parts)}. {effect}".rstrip()


def _legend(evidence: Evidence) -> Html:
    parts = [tag("span", class_="key baseline"), name(evidence.verdict.baseline), ". "]
    if len(evidence.variants) > 1:
        parts += [tag("span", class_="key variant"), Html("the variant. ")]
    if any(boot.disturbed for boot in evidence.boots):
        parts += [
            tag("span", class_="key ring"),
            Html("disturbed: the host was busy; such boots count all the same. "),
        ]
    if any(not boot.ok for boot in evidence.boots):
        parts += [tag("span", class_="key lost"), Html("a boot that failed. ")]
    return tag("p", parts, Html("Lines: medians."), class_="legend")
