# SPDX-License-Identifier: MIT
"""The report as one HTML file that needs no network, no server and no other file.

A page is a head, sections and a foot. A section of its own is a macro in sections.html, which gets
the evidence, and a row in SECTIONS; laboratories give theirs with the evidence."""

from __future__ import annotations

import shlex
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from hashlib import sha256
from statistics import fmean, median, quantiles, stdev
from typing import Any

from kdyno import __version__
from kdyno.errors import KdynoError
from kdyno.experiment import loader
from kdyno.kernels.installed import differing
from kdyno.report import effects, figures, plain, scores, tables
from kdyno.report.charts import panels
from kdyno.report.charts.vega import COLOURS, drawn
from kdyno.report.evidence import Evidence, Point
from kdyno.report.groups import displayed, first_groups, groups
from kdyno.report.sentence import answer
from kdyno.report.show.grid import Column, Grid, of_rows
from kdyno.report.show.html import ENVIRONMENT, TEMPLATES, Html, data, element, macros
from kdyno.store.manifest import CaseInfo
from kdyno.store.verdict import Verdict, deciding
from kdyno.suites.catalogue import load as catalogue

_MOST_OPTIONS, _MOST_VALUE = 300, 60
"""Rows of the table of options, and letters of a value in it."""
_RARE_FACT = "vulnerability_"
_MOST_LOOKS = 5000

Draw = Callable[[Evidence], Html | None]
"""What stands below a heading; None where there is nothing to show."""


@dataclass(frozen=True)
class Section:
    id: str
    title: str
    order: int
    content: Draw
    tip: str = ""
    """How to read it, below the heading; of the page's own sections sections.html has it."""
    slow: bool = False
    """It takes a second to draw: the pages of a site leave it out."""


ENVIRONMENT.globals |= {
    "method": tables.method,
    "note_of_factors": tables.note_of_factors,
    "note_of_uncorrected": effects.UNCORRECTED,
    "place": effects.place,
}
ENVIRONMENT.tests["uncorrected"] = effects.uncorrected


def page(evidence: Evidence, *, home: str = "") -> str:
    """The whole file. Nothing in it asks for anything from anywhere; the policy sees to it.

    home: the address of the site that it is a page of, which leaves out the slow sections."""
    added = [
        Section(lab.ID, lab.TITLE, lab.ORDER, lab.section, lab.TIP) for lab in evidence.sections
    ]
    rows = evidence.cut()
    tested = [effect for of in groups(evidence.verdict) if not of.is_copy for effect in of.tested]
    sections = [
        (section, content)
        for section in sorted((*SECTIONS, *added), key=lambda section: section.order)
        if not (home and section.slow) and (content := section.content(rows)) is not None
    ]
    return document(
        "report.html",
        title=f"{plain.short(evidence.verdict.experiment)} · kdyno",
        scripts=("tip.js", "page.js", "flame.js"),
        sections=sections,
        home=home,
        data=data(_page_data(rows), "run-data"),
        evidence=evidence,
        verdict=evidence.verdict,
        answer=answer(evidence.verdict),
        tested=tested,  # controls and the baseline's copy make no claim
        flags=displayed(evidence.verdict).flags,
    )


def document(
    template: str,
    *,
    title: str,
    skip: tuple[str, str] = ("main", "To the contents"),
    scripts: Sequence[str] = (),
    styles: Sequence[str] = (),
    also: str = "",
    **values: Any,
) -> str:
    """A whole page that may load nothing from anywhere, by its policy.

    skip: id and words of the link past the head. scripts, styles: files beyond those of every page.
    also: what the policy allows beyond the page's own style and script."""
    style = _colours() + "".join(map(_file, ("page.css", *styles)))
    script = "".join(map(_file, ("frame.js", *scripts)))
    policy = (
        "default-src 'none'; base-uri 'none'; form-action 'none'; "
        f"style-src {_digest(style)}; script-src {_digest(script)}{also}"
    )
    return ENVIRONMENT.get_template(template).render(
        policy=Html(policy),
        version=__version__,
        title=title,
        style=Html(style),
        script=Html(script),
        skip=skip,
        **values,
    )


@cache
def _file(name: str) -> str:
    return (TEMPLATES / name).read_text("utf-8")


def _colours() -> str:
    light = "".join(f"--{name}:{colour};" for name, (colour, _) in COLOURS.items())
    dark = "".join(f"--{name}:{colour};" for name, (_, colour) in COLOURS.items())
    return (
        f":root{{{light}}}\n"
        f"@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}\n"
        f"@media screen{{:root[data-theme=light]{{{light}}}:root[data-theme=dark]{{{dark}}}}}\n"
    )


def _digest(text: str) -> str:
    """What the policy calls a style or a script."""
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def _page_data(evidence: Evidence) -> dict[str, Any]:
    """The samples as the page's script reads them: for the download and the words at a point.

    Boots once, scores by case: ``scores[case][boot]`` is a number or null. Nine significant
    digits: a clock that ticks in nanoseconds has no more to say about a case."""
    variants = {name: at for at, name in enumerate(evidence.variants)}
    kinds = list(dict.fromkeys(kind for boot in evidence.boots for kind in boot.disturbed))
    boots = []
    for boot in evidence.boots:
        disturbed = [kinds.index(kind) for kind in boot.disturbed]
        boots.append([boot.index, boot.block, variants[boot.variant], boot.started_at, disturbed])
    cases = _measured(evidence)
    scores: dict[tuple[str, str], list[float | None]] = {key: [None] * len(boots) for key in cases}
    for case, _, points in evidence.cells:
        for point in points:
            scores[case.key][point.boot.position] = float(f"{point.score:.9g}")
    return {
        "run": plain.name(evidence.name),
        "variants": [plain.name(variant) for variant in variants],
        "kinds": [plain.name(kind) for kind in kinds],
        "boots": boots,
        "cases": [
            [*map(plain.name, (*case.key, case.unit)), case.better] for case in cases.values()
        ],
        "scores": list(scores.values()),
    }


def _measured(evidence: Evidence) -> dict[tuple[str, str], CaseInfo]:
    """Cases that have scores, in their order; the page's script knows them by their place."""
    return {case.key: case for case, _, _ in evidence.cells}


def _section(id_: str, evidence: Evidence, **values: Any) -> Html | None:
    """The section's macro, filled; None where it has nothing to show."""
    content: Html = getattr(macros("sections.html"), id_)(evidence, evidence.verdict, **values)
    return content.strip() or None


def _chart(panel: panels.Panel) -> Html:
    drawing = Html(drawn(panel.spec, panel.text))
    return element('<div class="drawing" tabindex="0">{}</div>', drawing)


def verdicts_section(evidence: Evidence) -> Html | None:
    verdict = evidence.verdict
    items = [effect for group in groups(verdict) for effect in group.effects]
    if not items:
        return None
    names = "variant effect instructions verdict interval baseline value floor blocks"
    columns = [
        Column("case", lambda effect: effects.case(effect, "beside"), "name"),
        *effects.columns(verdict, items, names),
    ]
    facets = ("variant", "verdict")
    grid = Grid(columns, items, "Verdicts", id="effects-table", facets=facets)
    return _section("verdicts", evidence, grid=grid)


def scores_section(evidence: Evidence) -> Html | None:
    """One table a suite: a row for each case, group and the whole of each kernel."""
    verdict = evidence.verdict
    try:
        of_variants = scores.of_verdict(verdict, catalogue())
    except (KdynoError, ValueError, ZeroDivisionError):
        return None  # cases of another catalogue; all that is certain stands in the verdicts
    name, *figures_of = scores.columns(verdict.baseline)
    columns = [
        replace(name, head="case"),
        Column("kernel", lambda row: row.variant, "name"),
        *figures_of,
        Column("kind", lambda row: row.kind),
    ]
    grids = []
    for suite in dict.fromkeys(each.suite for each in of_variants):
        own = [each for each in of_variants if each.suite == suite]
        rows = [row for each in own for row in each.rows]
        wholes = [row for row in rows if row.kind != "case"]
        # An index of one case alone adds nothing.
        if any({row.reference.value, row.own.value} != {None} for row in wholes):
            order = list(dict.fromkeys(row.name for row in rows))
            rows.sort(key=lambda row: order.index(row.name))
            id_, title = f"scores-{plain.name(suite)}", f"Scores of {suite}"
            lacks = dict.fromkeys(line for each in own for line in each.lacking)
            grid = Grid(columns, rows, title, id=id_, facets=("kind", "kernel"))
            grids.append((suite, grid, list(lacks)))
    return _section("scores", evidence, suites=grids)


def effects_section(evidence: Evidence) -> Html | None:
    verdict = evidence.verdict
    variants, left = first_groups(groups(verdict))
    charts = {group: panels.effects_panel(verdict, group) for group in variants}
    drawn = {group: _chart(panel) for group, panel in charts.items() if panel}
    return _section("effects", evidence, charts=drawn, left=left) if drawn else None


def factors_section(evidence: Evidence) -> Html | None:
    verdict = evidence.verdict
    if verdict.factors is None or not verdict.factors.effects:
        return None
    charts = [(panel.title, _chart(panel)) for panel in panels.factor_panels(verdict)]
    return _section("factors", evidence, charts=charts, tables=tables.factors(verdict))


def boots_section(evidence: Evidence) -> Html | None:
    """Every boot of every case as a point in time order, baseline and variant in one panel."""
    baseline = evidence.verdict.baseline
    others = [variant for variant in evidence.variants if variant != baseline] or [baseline]
    of_key = {effect.key: effect for effect in map(deciding, evidence.verdict.effects)}
    lost = [boot for boot in evidence.boots if not boot.ok]
    numbers = {key: at for at, key in enumerate(_measured(evidence))}
    rows = []
    for case, variant, points in evidence.cells:
        if variant == baseline and others != [baseline]:
            continue
        arms = {
            "baseline": evidence.points.get((*case.key, baseline), ()),
            "variant": () if variant == baseline else points,
        }
        failed = [boot.position for boot in lost if boot.variant in (baseline, variant)]
        strip, paths = panels.boots_strip(len(evidence.boots), arms, failed)
        effect = of_key.get((*case.key, variant))
        words = ""
        if effect is not None and effect.ratio is not None:
            words = f"{effects.effect(effect).text} {effects.word(effect)}"
        unit = plain.name(case.unit)
        kernels = {baseline: arms["baseline"], variant: points}
        about = "; ".join(_arm(name, of, unit) for name, of in kernels.items() if of)
        text = f"{plain.short(case.case)} in time order. {about}. {words}".rstrip()
        rows.append(
            {
                "case": case,
                "variant": variant,
                "effect": words,
                "word": effect.verdict if effect else "",
                "ends": [figures.quantity(end, unit) for end in (strip.high, strip.low)],
                "drawing": Html(strip.svg(text, paths)),
                "number": numbers[case.key],
                "arms": ",".join(str(evidence.variants.index(arm)) for arm in (baseline, variant)),
            }
        )
    return _section("boots", evidence, panels=rows, others=others, lost=lost) if rows else None


def _arm(variant: str, points: Sequence[Point], unit: str) -> str:
    middle = figures.quantity(median(point.score for point in points), unit)
    flagged = sum(bool(point.boot.disturbed) for point in points)
    boots = figures.count(len(points), "boot")
    return f"{plain.short(variant)}: {boots}, median {middle}, {flagged} flagged"


def spread_section(evidence: Evidence) -> Html | None:
    """Of boots, and of rounds and groups where guests took turns."""
    cells = [cell for cell in evidence.cells if len(cell[2]) > 1]
    boots = Grid(_SPREAD_COLUMNS, cells, "Spread of boots", id="spread-table", facets=("kernel",))
    turns = [effect for effect in evidence.verdict.effects if effect.spread is not None]
    title = "Spread of rounds and groups"
    rounds = Grid(_TURNS_COLUMNS, turns, title, id="turns-table", facets=("kernel",))
    return _section("spread", evidence, boots=boots, turns=rounds)


Scores = tuple[CaseInfo, str, Sequence[Point]]
"""Of the boots of one kernel in one case."""


def _median(cell: Scores) -> float:
    return median(point.score for point in cell[2])


def _middle_half(cell: Scores) -> float:
    """Interquartile range ÷ median."""
    quarter, _, three_quarters = quantiles((point.score for point in cell[2]), method="inclusive")
    return (three_quarters - quarter) / _median(cell)


def _variation(cell: Scores) -> float:
    """Standard deviation ÷ mean."""
    scores = [point.score for point in cell[2]]
    return stdev(scores) / fmean(scores)


_SPREAD_COLUMNS = (
    Column("Case", lambda cell: effects.case(cell[0], "beside"), "name"),
    Column("Kernel", lambda cell: cell[1], "name"),
    Column("Boots", lambda cell: len(cell[2]), "number"),
    Column("Flagged", lambda cell: sum(bool(of.boot.disturbed) for of in cell[2]), "number"),
    Column("Median", lambda cell: effects.amount(cell[0], _median(cell)), "number"),
    Column("Middle half", _middle_half, "number", figures.share),
    Column("Variation", _variation, "number", figures.share),
)
_TURNS_COLUMNS = (
    Column("Case", lambda effect: effects.case(effect, "beside"), "name"),
    Column("Kernel", lambda effect: effect.variant, "name"),
    Column("Rounds in a group", lambda effect: effect.spread.rounds, "number", "{:.0f}".format),
    Column("One round", lambda effect: effect.spread.within, "number", figures.share),
    Column("Between groups", lambda effect: effect.spread.between, "number", figures.share),
    Column("A group’s value", lambda effect: effect.spread.of_group, "number", figures.share),
)


def load_section(evidence: Evidence) -> Html | None:
    """What the load meter of a parallel case saw, in the boot nearest to its kernel's median."""
    rows = []
    for case, variant, points in evidence.cells:
        if metered := [point for point in points if point.load]:
            middle = median(point.score for point in metered)
            typical = min(metered, key=lambda point: abs(point.score - middle))
            if seen := looks(typical.load):
                rows.append((case, variant, seen, typical.tasks))
    grid = Grid(_LOAD_COLUMNS, rows, "Load", id="load-table")
    return _section("one_table", evidence, grid=grid if rows else None)


def looks(text: str) -> list[tuple[int, int]]:
    """(runnable tasks, CPU %) from ``100:1:100 201:2:98``; what is not a look is left out."""
    words = [word.split(":") for word in text.split()[:_MOST_LOOKS]]
    return [
        (int(parts[1][:9]), int(parts[2][:9]))
        for parts in words
        if len(parts) == 3 and all(part.isascii() and part.isdigit() for part in parts)
    ]


def _below_half(row: tuple[CaseInfo, str, list[tuple[int, int]], float | None]) -> float | None:
    tasks = row[3]
    return None if tasks is None else fmean(2 * runnable < tasks for runnable, _ in row[2])


_LOAD_COLUMNS = (
    Column("Case", lambda row: effects.case(row[0], "beside"), "name"),
    Column("Kernel", lambda row: row[1], "name"),
    Column("Asked for", lambda row: row[3], "number", "{:g}".format),
    Column("Runnable", lambda row: fmean(tasks for tasks, _ in row[2]), "number", "{:.1f}".format),
    Column("Below half", _below_half, "number", figures.share),
    Column("CPU busy", lambda row: fmean(busy for _, busy in row[2]), "number", "{:.0f} %".format),
)


def machine_section(evidence: Evidence) -> Html | None:
    """The machine that it was measured on, by its own word at the start of the run."""
    common: dict[str, str] = {}
    rare: dict[str, str] = {}
    for key, value in (evidence.manifest.host if evidence.manifest else {}).items():
        name = plain.name(key).removeprefix(_RARE_FACT).removesuffix("_bytes").replace("_", " ")
        (rare if key.startswith(_RARE_FACT) else common)[name] = _fact(key, value)
    return _section("machine", evidence, common=common, rare=rare) if common or rare else None


def _fact(key: str, value: float | bool | str | None) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None:
        return "not known"
    if isinstance(value, str):
        return plain.sentence(value)
    if not key.endswith("_bytes"):
        return f"{value:.10g}"
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.4g} {unit}"
        value /= 1024
    return f"{value:.4g} TiB"


def builds_section(evidence: Evidence) -> Html | None:
    routines = {}
    for variant, record in evidence.builds.items():
        chosen, best = (record.get(key) for key in ("routines", "best"))
        reasons = best if isinstance(best, Mapping) else {}
        # Each with the reason where it was asked for as the best.
        routines[variant] = ", ".join(
            f"{function} {routine}" + (f" ({reasons[function]})" if function in reasons else "")
            for function, routine in (chosen if isinstance(chosen, Mapping) else {}).items()
        )
    return _section("builds", evidence, routines=routines) if routines else None


def options_section(evidence: Evidence) -> Html | None:
    """Where the configurations of installed kernels differ."""
    options = {
        variant: {str(name): str(value)[:_MOST_VALUE] for name, value in own.items()}
        for variant, record in evidence.builds.items()
        if isinstance(own := record.get("options"), Mapping)
    }
    rows = list(differing(options))
    if not rows:
        return None
    # What is set in all of them and differs first: the others come with another version.
    rows.sort(key=lambda row: "n" in row[1].values())
    heads = ["option", *map(plain.name, options)]
    cells = [[f"CONFIG_{name}", *values.values()] for name, values in rows[:_MOST_OPTIONS]]
    grid = of_rows(heads, cells, ["name"] * len(heads), id="options-table")
    legend = f"{figures.count(len(rows), 'option')} differ"
    if len(rows) > _MOST_OPTIONS:
        legend += f"; the first {_MOST_OPTIONS}, all are in images/NAME.json"
    return _section("one_table", evidence, grid=grid, legend=f"{legend}. n: not set.")


def again_section(evidence: Evidence) -> Html | None:
    manifest = evidence.manifest
    if manifest is None:
        return None
    file = f"{plain.name(manifest.experiment)}.toml"
    one = not manifest.joined and not manifest.machines  # else the seed gives nobody's order
    command = run_command(file, manifest.overrides, manifest.seed if one else None)
    boots = {name: shlex.join(words) for name, words in evidence.commands.items() if words}
    return _section("again", evidence, file=file, command=command, boots=boots, one=one)


def run_command(file: str, overrides: Mapping[str, Any], seed: int | None = None) -> str:
    """``kdyno run FILE`` with the options that this run had."""
    words = loader.options({key: value for key, value in overrides.items() if key != "seed"})
    words += [] if seed is None else ["--seed", str(seed)]
    return shlex.join(["kdyno", "run", file, *words])


def _table(grid: Callable[[Verdict], Grid | None], legend: str = "") -> Draw:
    return lambda of: _section("one_table", of, grid=grid(of.verdict), legend=legend)


SECTIONS = (
    Section("verdicts", "Verdicts", 10, verdicts_section),
    Section("strata", "Effects by machine", 12, _table(partial(tables.strata, most=10_000))),
    Section("values", "Values", 15, _table(tables.values)),
    Section("scores", "Scores", 16, scores_section),
    Section("wholes", "Groups", 17, _table(tables.groups, f"{tables.NOTE_OF_GROUPS}.")),
    Section("effects", "Effects", 20, effects_section, slow=True),
    Section("apart", "What an operation is made of", 24, _table(tables.apart)),
    Section("functions", "Instructions by function", 25, _table(tables.functions)),
    Section("factors", "Factors", 30, factors_section, slow=True),
    Section("boots", "Boots", 40, boots_section),
    Section("spread", "Spread", 50, spread_section),
    Section("load", "Load", 55, load_section),
    Section("machine", "Machine", 80, machine_section),
    Section("builds", "Builds", 85, builds_section),
    Section("options", "Configurations", 87, options_section),
    Section("again", "Do it again", 90, again_section),
    Section("samples", "Samples", 95, lambda evidence: _section("samples", evidence)),
)
