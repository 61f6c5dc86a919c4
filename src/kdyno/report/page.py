# SPDX-License-Identifier: MIT
"""The report as one HTML file that needs no network, no server and no other file.

A page is a head, sections and a foot. A section of its own is a function from Evidence to what
stands below its heading, and a row in SECTIONS; laboratories give theirs with the evidence.
"""

from __future__ import annotations

import shlex
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from hashlib import sha256
from statistics import median
from typing import Any

from kdyno import __version__
from kdyno.command import shown as shown_command
from kdyno.errors import KdynoError
from kdyno.report import effects, figures, plain, scores, tables
from kdyno.report.charts import boots as of_boots
from kdyno.report.charts import effects as of_effects
from kdyno.report.charts import time as over_time
from kdyno.report.charts.vega import COLOURS, Spec, drawn
from kdyno.report.evidence import Evidence, Point
from kdyno.report.groups import drawn_first, groups, shown
from kdyno.report.sentence import answer
from kdyno.report.show.grid import Cell, Column, Grid, headed
from kdyno.report.show.html import (
    ENVIRONMENT,
    GLYPHS,
    TEMPLATES,
    Content,
    Html,
    data,
    headed_table,
    join,
    macros,
    table,
)
from kdyno.store.manifest import CaseInfo
from kdyno.store.verdict import Flag, Verdict
from kdyno.suites.catalogue import load as catalogue

WIDTHS_PX = {"wide": 1000, "narrow": 356}
"""Of a chart as wide as the page."""
_REPEATED = {"variants": "--variant", "cases": "--case"}
_RARE_FACT = "vulnerability_"
_DIGEST_CHARACTERS = 16


@dataclass(frozen=True)
class Section:
    id: str
    title: str
    order: int
    content: Callable[[Evidence], Html | None]
    """What stands below the heading; None where there is nothing to show."""
    tip: str = ""
    """How to read it, below the heading; of the page's own sections sections.html has it."""
    slow: bool = False
    """It takes a second to draw: the light pages of a site leave it out."""


def page(evidence: Evidence, *, light: bool = False, home: str = "") -> str:
    """The whole file. Nothing in it asks for anything from anywhere; the policy sees to it.

    ``light`` leaves out the slow sections; ``home`` is the address of the list of runs that this
    page belongs to.
    """
    given = [
        Section(
            module.ID,
            module.TITLE,
            module.ORDER,
            module.section,
            getattr(module, "TIP", ""),
            getattr(module, "SLOW", False),
        )
        for module in evidence.sections
    ]
    rows = evidence.cut()
    sections = [
        (section, content)
        for section in sorted((*SECTIONS, *given), key=lambda section: section.order)
        if not (light and section.slow) and (content := section.content(rows)) is not None
    ]
    return document(
        "report.html",
        title=f"{plain.short(evidence.verdict.experiment)} · kdyno",
        skip=("verdicts", "To the verdicts"),
        scripts=("tip.js", "page.js", "flame.js"),
        sections=sections,
        home=home,
        light=light,
        run=evidence.name,
        tool=evidence.manifest.tool if evidence.manifest else "",
        data=data(_page_data(rows), "run-data"),
        **_head(evidence),
    )


def alone(
    *,
    tool: str,
    title: str,
    heading: str,
    intro: Content,
    sections: Mapping[str, tuple[str, Content]],
    foot: str,
    skip: tuple[str, str],
) -> str:
    """A page of one verb's own: ``sections`` by id, each with its heading and what stands there."""
    return document(
        "alone.html",
        title=title,
        skip=skip,
        tool=tool,
        heading=heading,
        intro=join([intro]),
        sections={id_: (head, join([content])) for id_, (head, content) in sections.items()},
        foot=foot,
    )


def document(
    template: str,
    *,
    title: str,
    skip: tuple[str, str],
    scripts: Sequence[str] = (),
    styles: Sequence[str] = (),
    also: str = "",
    **values: Any,
) -> str:
    """A whole page that may load nothing from anywhere, by its policy.

    skip: id and words of the link past the head. scripts, styles: files beyond those of every page.
    also: what the policy allows beyond the page's own style and script.
    """
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
    light, dark = (
        "".join(f"--{name}:{pair[side]};" for name, pair in COLOURS.items()) for side in (0, 1)
    )
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
    digits: a clock that ticks in nanoseconds has no more to say about a case.
    """
    variants = {name: at for at, name in enumerate(evidence.variants)}
    kinds = list(dict.fromkeys(kind for boot in evidence.boots for kind in boot.disturbed))
    boots = [
        [
            boot.index,
            boot.block,
            variants[boot.variant],
            boot.started_at,
            [kinds.index(kind) for kind in boot.disturbed],
        ]
        for boot in evidence.boots
    ]
    cases = _measured(evidence)
    scores: dict[tuple[str, str], list[float | None]] = {key: [None] * len(boots) for key in cases}
    for case, _, points in evidence.cells:
        for point in points:
            scores[case.suite, case.case][point.boot.position] = float(f"{point.score:.9g}")
    return {
        "run": plain.name(evidence.name),
        "variants": [plain.name(variant) for variant in variants],
        "kinds": [plain.name(kind) for kind in kinds],
        "boots": boots,
        "cases": [
            [*map(plain.name, (case.suite, case.case, case.unit)), case.better]
            for case in cases.values()
        ],
        "scores": list(scores.values()),
    }


def _measured(evidence: Evidence) -> dict[tuple[str, str], CaseInfo]:
    """Cases that have scores, in their order; the page's script knows them by their place."""
    return {(case.suite, case.case): case for case, _, _ in evidence.cells}


def _head(evidence: Evidence) -> dict[str, Any]:
    """What was asked, what the answer is, and what to beware of."""
    verdict = evidence.verdict
    tested = [effect for group in groups(verdict) if not group.is_copy for effect in group.tested]
    # Controls and the baseline's copy make no claim.
    tally = {word: sum(effect.verdict == word for effect in tested) for word in GLYPHS}
    facts = []
    if booted := [count for count in verdict.boots.values() if count]:
        low, high = min(booted), max(booted)
        each = str(high) if low == high else f"{low} to {high}"
        facts.append(f"{each} boots of each of {figures.count(len(booted), 'kernel')}")
    facts.append(f"{100 * verdict.confidence:g} % intervals, corrected for the number of effects")
    facts.append(f"differences inside {figures.tolerance(verdict.equivalent)} do not matter")
    if evidence.manifest is not None:
        facts.append(f"begun {evidence.manifest.created[:16].replace('T', ' ')} UTC")
    if verdict.stopped:
        facts.append(f"ended: {plain.sentence(verdict.stopped)}")
    flags = shown(verdict).flags
    known = {flag.text for flag in flags if flag.kind == "damaged"}
    damaged = [
        f"{boot.name}: {boot.reason}"
        for boot in evidence.damaged
        if not any(boot.name in text for text in known)
    ]
    remarks = len(verdict.failed) + len(flags) + len(damaged)
    return {
        "question": plain.sentence(verdict.question),
        "experiment": verdict.experiment,
        "answer": answer(verdict),
        "tally": {word: count for word, count in tally.items() if count},
        "facts": " · ".join(facts),
        "failed": verdict.failed,
        "flags": [(_about(flag), flag) for flag in flags],
        "damaged": damaged,
        "remarks": figures.count(remarks, "remark") if remarks else "",
        # A failure or a control that moved must be seen without a click.
        "loud": bool(verdict.failed)
        or any("moved" in flag.kind for flag in verdict.flags)
        or remarks < 4,
    }


def _about(flag: Flag) -> str:
    where = "/".join(plain.short(part) for part in (flag.suite, flag.case) if part)
    if flag.variant:
        where += f"{' in ' if where else ''}{plain.short(flag.variant)}"
    return where


def _of(section: str, **values: Any) -> Html:
    """The section's macro, filled."""
    content: Html = getattr(macros("sections.html"), section)(**values)
    return content


def drawings(sizes: Mapping[str, Any], chart: Callable[[Any], Spec], text: str) -> Html:
    """A chart for wide and for narrow windows; the style sheet shows one of them. sizes: ``wide``
    and ``narrow`` → what the chart is made for."""
    svgs = {kind: Html(drawn(chart(size), text)) for kind, size in sizes.items()}
    content: Html = macros("parts.html").drawings(svgs)
    return content


def verdicts_section(evidence: Evidence) -> Html | None:
    verdict = evidence.verdict
    items = [effect for group in groups(verdict) for effect in group.effects]
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
    legend = []
    if any(effect.verdict == "equivalent" for effect in items):
        band = figures.tolerance(verdict.equivalent)
        legend.append(f"Equivalent: the interval lies inside {band}.")
    if any(effect.verdict == "inconclusive" for effect in items):
        legend.append(
            "Inconclusive: the interval contains both no difference and one that matters."
        )
    if any(map(effects.uncorrected, items)):
        legend.append(f"In brackets: {effects.UNCORRECTED}.")
    if any(effect.noise_floor is not None for effect in items):
        legend.append("Noise floor: how far the baseline differs from its own copy.")
    if exact := [effect.blocks for effect in items if effect.exact]:
        legend.append(f"Exact: {figures.exact_because(min(exact))}.")
    if any(effect.control for effect in items):
        legend.append("Control: does not depend on the kernel and should not move.")
    return _of("table", table=table(grid), legend=" ".join(legend))


def _grid(
    grid: Callable[[Verdict], Grid | None], evidence: Evidence, legend: str = ""
) -> Html | None:
    """A section that is one table of the verdict's."""
    rows = grid(evidence.verdict)
    return None if rows is None else _of("table", table=headed_table(rows), legend=legend)


def scores_section(evidence: Evidence) -> Html | None:
    """One table a suite: a row for each case, group and the whole; two columns for each kernel."""
    verdict = evidence.verdict
    try:
        of_variants = scores.tables(scores.values_of(verdict), catalogue(), verdict.baseline)
    except (KdynoError, ValueError, ZeroDivisionError):
        return None  # cases of another catalogue; all that is certain stands in the verdicts
    suites: dict[str, list[scores.ScoreTable]] = {}
    for of_variant in of_variants:
        suites.setdefault(of_variant.suite, []).append(of_variant)
    shown = []
    for suite, of_suite in suites.items():
        # An index for one case alone tells nothing new.
        if not any(
            row.kind != "case" and (row.reference.value is not None or row.own.value is not None)
            for of_variant in of_suite
            for row in of_variant.rows
        ):
            continue
        keys = list(dict.fromkeys((row.kind, row.name) for each in of_suite for row in each.rows))
        columns = [
            Column(
                "Case",
                lambda key: Cell(key[1], notes=() if key[0] == "case" else (key[0],)),
                "name",
            )
        ]
        for of_variant in of_suite:
            rows = {(row.kind, row.name): row for row in of_variant.rows}
            variant = plain.short(of_variant.variant)
            columns.append(_score_column(variant, rows, "reference"))
            if of_variant.variant != of_variant.baseline:  # which is 100 throughout
                head = f"{variant}, {plain.short(of_variant.baseline)} = 100"
                columns.append(_score_column(head, rows, "own"))
        id_ = f"scores-{plain.name(suite)}"
        facets = {"kind": lambda key: key[0]}
        grid = Grid(columns, keys, f"Scores of {suite}", id=id_, facets=facets)
        lacks = dict.fromkeys(line for of_variant in of_suite for line in of_variant.lacking)
        shown.append((suite, table(grid), list(lacks)))
    return _of("scores", suites=shown) if shown else None


def _score_column(head: str, rows: Mapping[tuple[str, str], scores.ScoreRow], scale: str) -> Column:
    """A kernel's scores on one of the two scales."""

    def value(key: tuple[str, str]) -> float | None:
        score: scores.Score | None = getattr(rows.get(key), scale, None)
        return score.value if score is not None else None

    return Column(head, value, "number", figures.amount, absent="–")


def effects_section(evidence: Evidence) -> Html | None:
    verdict = evidence.verdict
    first, left = drawn_first(groups(verdict))
    charts = []
    for group in first:
        if not any(effect.ratio is not None for effect in group.effects):
            continue
        text = of_effects.summary(verdict, group)
        chart = partial(_effects_chart, verdict, group)
        # Width of the drawing and, of it, what is kept for the effect in figures.
        charts.append((group, drawings({"wide": (1000, 150), "narrow": (356, 0)}, chart, text)))
    if not charts:
        return None
    return _of(
        "effects",
        charts=charts,
        baseline=verdict.baseline,
        left=left,
        level=f"{100 * verdict.confidence:g} %",
        band=figures.tolerance(verdict.equivalent),
        has_floor=any(effect.noise_floor is not None for effect in verdict.effects),
        has_lower=any(effect.better == "lower" for effect in verdict.effects),
        has_control=any(effect.control for effect in verdict.effects),
    )


def _effects_chart(verdict: Verdict, group: Any, sizes_px: tuple[int, int]) -> Spec:
    chart = of_effects.effects_chart(verdict, group, *sizes_px)
    assert chart is not None
    return chart


def factors_section(evidence: Evidence) -> Html | None:
    crossed = evidence.verdict.factors
    if crossed is None or not crossed.effects:
        return None
    charts = [
        (line.title, drawings({"wide": 480, "narrow": 350}, line.chart, line.text))
        for line in of_effects.interactions(evidence.verdict)
    ]
    grids = [(grid.title, headed_table(grid)) for grid in tables.factors(evidence.verdict)]
    note = tables.note_of_factors(evidence.verdict)
    return _of("factors", factors=crossed, charts=charts, tables=grids, note=note)


def boots_section(evidence: Evidence) -> Html | None:
    """Every boot of every case as a point in time order, baseline and variant in one panel."""
    baseline = evidence.verdict.baseline
    others = [variant for variant in evidence.variants if variant != baseline] or [baseline]
    by_key = {
        (effect.suite, effect.case, effect.variant): effect for effect in evidence.verdict.effects
    }
    lost: dict[str, list[int]] = {}
    for boot in evidence.boots:
        if not boot.ok:
            lost.setdefault(boot.variant, []).append(boot.position)
    numbers = {key: at for at, key in enumerate(_measured(evidence))}
    panels = []
    for case, variant, points in evidence.cells:
        if variant == baseline and others != [baseline]:
            continue
        arms = {
            "baseline": evidence.points.get((case.suite, case.case, baseline), ()),
            "variant": () if variant == baseline else points,
        }
        failed = sorted({*lost.get(baseline, ()), *lost.get(variant, ())})
        strip, paths = of_boots.boots_strip(len(evidence.boots), arms, failed)
        effect = by_key.get((case.suite, case.case, variant))
        words = ""
        if effect is not None and effect.ratio is not None:
            words = f"{figures.effect(effect.ratio)} {effects.word(effect)}"
        text = _boots_text(case, {baseline: arms["baseline"], variant: points}, words)
        panels.append(
            {
                "case": case,
                "variant": variant if arms["variant"] else "",
                "effect": words,
                "word": effect.verdict if effect else "",
                "high": figures.quantity(strip.high, plain.name(case.unit)),
                "low": figures.quantity(strip.low, plain.name(case.unit)),
                "drawing": Html(strip.svg(text, paths)),
                "number": numbers[case.suite, case.case],
                "arms": ",".join(str(evidence.variants.index(arm)) for arm in (baseline, variant)),
                "facet": plain.short(variant),
            }
        )
    if not panels:
        return None
    return _of(
        "boots",
        panels=panels,
        choices={"variant": [plain.short(name) for name in others]} if len(others) > 1 else {},
        baseline=baseline,
        has_variants=len(evidence.variants) > 1,
        has_disturbed=any(boot.disturbed for boot in evidence.boots),
        has_lost=bool(lost),
    )


def _boots_text(case: CaseInfo, arms: Mapping[str, Sequence[Point]], effect: str) -> str:
    """The panel in words. arms: variant → points."""
    unit = plain.name(case.unit)
    parts = []
    for variant, points in arms.items():
        if points:
            middle = figures.quantity(median(point.score for point in points), unit)
            disturbed = sum(bool(point.boot.disturbed) for point in points)
            parts.append(
                f"{plain.short(variant)}: {figures.count(len(points), 'boot')}, median {middle}, "
                f"{disturbed} disturbed"
            )
    return f"{plain.short(case.case)} in time order. {'; '.join(parts)}. {effect}".rstrip()


def spread_section(evidence: Evidence) -> Html | None:
    """Of boots, and of rounds and groups where guests took turns."""
    spreads = of_boots.spreads(evidence)
    turns = [effect for effect in evidence.verdict.effects if effect.spread is not None]
    if not spreads and not turns:
        return None
    baseline = evidence.verdict.baseline
    drawable = spreads
    if len(spreads) > of_boots.MOST_ROWS:  # the chart would be longer than anyone reads
        drawable = [row for row in spreads if row.variant == baseline][: of_boots.MOST_ROWS]
    chart = None
    if drawable:
        draw = partial(of_boots.spread_chart, drawable, baseline)
        chart = drawings(WIDTHS_PX, draw, of_boots.spread_summary(spreads))
    left = f"The chart shows {len(drawable)} of {len(spreads)} rows."
    boots_grid = Grid(
        _SPREAD_COLUMNS, spreads, "Spread of boots", id="spread-table", facets=_KERNEL
    )
    title = "Spread of rounds and groups"
    turns_grid = Grid(_TURNS_COLUMNS, turns, title, id="turns-table", facets=_KERNEL)
    return _of(
        "spread",
        chart=chart,
        left=left if 0 < len(drawable) < len(spreads) else "",
        boots=table(boots_grid) if spreads else "",
        turns_title=title,
        turns=table(turns_grid) if turns else "",
    )


_KERNEL: Mapping[str, Callable[[Any], str]] = {"kernel": lambda it: plain.short(it.variant)}
_SPREAD_COLUMNS = (
    Column("Case", lambda it: effects.case(it.case, "beside"), "name"),
    Column("Kernel", lambda it: it.variant, "name"),
    Column("Boots", lambda it: it.boots, "number"),
    Column("Disturbed", lambda it: it.disturbed, "number"),
    Column("Median", lambda it: effects.amount(it.case, it.median), "number"),
    Column("Middle half", lambda it: it.middle_half, "number", figures.share),
    Column("Variation", lambda it: it.variation, "number", figures.share),
)
_TURNS_COLUMNS = (
    Column("Case", lambda it: effects.case(it, "beside"), "name"),
    Column("Kernel", lambda it: it.variant, "name"),
    Column("Rounds in a group", lambda it: it.spread.rounds, "number", "{:.0f}".format),
    Column("One round", lambda it: it.spread.within, "number", figures.share),
    Column("Between groups", lambda it: it.spread.between, "number", figures.share),
    Column("A group’s value", lambda it: it.spread.of_group, "number", figures.share),
)


def rounds_section(evidence: Evidence) -> Html | None:
    turns = over_time.turns(evidence)
    if turns is None:
        return None
    return _of("charts", charts=[_captioned(turns, WIDTHS_PX, turns.chart)])


def load_section(evidence: Evidence) -> Html | None:
    loads = over_time.loads(evidence)
    if not loads:
        return None
    top = max(load.highest for load in loads)
    sizes = {"wide": 400, "narrow": 280}
    charts = [_captioned(load, sizes, partial(load.chart, highest=top)) for load in loads]
    keys = "Dashed: as many as were asked for (-j). Shaded: fewer than half of that."
    return _of("charts", charts=charts, legend=keys, kind="pair")


def _captioned(
    line: over_time.Turns | over_time.Load, sizes: Mapping[str, int], chart: Callable[[int], Spec]
) -> tuple[str, str, Html]:
    """Title, words without it, drawings."""
    return line.title, line.text.removeprefix(f"{line.title}: "), drawings(sizes, chart, line.text)


def machine_section(evidence: Evidence) -> Html | None:
    """The machine that it was measured on, by its own word at the start of the run."""
    host = evidence.manifest.host if evidence.manifest else {}
    if not host:
        return None
    first: dict[str, str] = {}
    rest: dict[str, str] = {}
    for key, value in host.items():
        name = plain.name(key).removeprefix(_RARE_FACT).removesuffix("_bytes").replace("_", " ")
        (rest if key.startswith(_RARE_FACT) else first)[name] = _fact(key, value)
    return _of("machine", first=first, rest=rest)


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
    """How each kernel was built, and the one command that builds it again."""
    if not evidence.builds:
        return None
    return _of("builds", builds={name: _build(facts) for name, facts in evidence.builds.items()})


def _build(facts: Mapping[str, Any]) -> tuple[dict[str, str], dict[str, str]]:
    """Facts, and texts to unfold; what is missing or of another type is left out."""
    given = facts.get("inputs")
    inputs = given if isinstance(given, Mapping) else {}
    # The compiler is kept as its command and what it says of itself.
    compiler = inputs.get("compiler")
    known = {
        "version": facts.get("version"),
        "source": facts.get("source"),
        "architecture": inputs.get("arch"),
        "compiler": compiler[-1] if isinstance(compiler, list) and compiler else compiler,
        "memory routines": _routines(facts),
        "flags": inputs.get("cflags"),
        "image": str(facts.get("digest") or "")[:_DIGEST_CHARACTERS],
        "objects built": facts.get("objects"),
        "seconds to build": facts.get("seconds"),
        "changed files": ", ".join(_lines(facts.get("changed_files"))[:20]),
        "unreadable": facts.get("unreadable"),
    }
    texts = {
        "Build it again": str(facts.get("build_again") or ""),
        "What was run": "\n".join(_lines(facts.get("commands"))),
        "Configuration asked for": "\n".join(_lines(inputs.get("config"))),
    }
    return (
        {
            key: plain.sentence(str(value))
            for key, value in known.items()
            if value not in (None, "", [])
        },
        {title: text for title, text in texts.items() if text},
    )


def _routines(facts: Mapping[str, Any]) -> str:
    """``memcpy fsrm``; with the reason where a routine was asked for as the best."""
    chosen, best = (facts.get(key) for key in ("routines", "best"))
    if not isinstance(chosen, Mapping):
        return ""
    reasons = best if isinstance(best, Mapping) else {}
    return ", ".join(
        f"{function} {routine}" + (f" ({reasons[function]})" if function in reasons else "")
        for function, routine in chosen.items()
    )


def _lines(value: object) -> list[str]:
    return list(map(str, value)) if isinstance(value, list) else []


def again_section(evidence: Evidence) -> Html | None:
    """The exact commands that do it again."""
    manifest = evidence.manifest
    if manifest is None:
        return None
    stem = plain.name(manifest.experiment)
    return _of(
        "again",
        file=f"{stem}.toml",
        command=run_command(f"{stem}.toml", manifest.overrides, manifest.seed),
        experiment=evidence.experiment_text,
        boots={
            variant: shown_command(words)
            for variant in evidence.variants
            if (words := evidence.commands.get(variant))
        },
    )


def run_command(file: str, overrides: Mapping[str, Any], seed: int) -> str:
    """``kdyno run FILE`` with the options that this run had."""
    words = ["kdyno", "run", file]
    for key, value in overrides.items():
        if key in _REPEATED:
            for each in value if isinstance(value, list | tuple) else ():
                words += [_REPEATED[key], str(each)]
        elif key == "seed":
            continue
        elif value is True:
            words.append(f"--{key.replace('_', '-')}")
        elif isinstance(value, int | float) and value is not False:
            words += [f"--{key.replace('_', '-')}", f"{value:g}"]
    words += ["--seed", str(seed)]
    return " ".join(map(shlex.quote, words))


def samples_section(evidence: Evidence) -> Html | None:
    """The raw samples, to download from the page itself."""
    count = sum(map(len, evidence.points.values()))
    if not count:
        return None
    boots = figures.count(len(evidence.boots), "boot")
    return _of("samples", scores=figures.count(count, "score"), boots=boots)


SECTIONS = (
    Section("verdicts", "Verdicts", 10, verdicts_section),
    Section("strata", "Effects by machine", 12, partial(_grid, partial(tables.strata, most=10000))),
    Section("values", "Values", 15, partial(_grid, tables.values)),
    Section("scores", "Scores", 16, scores_section),
    Section(
        "wholes", "Groups", 17, partial(_grid, tables.groups, legend=f"{tables.NOTE_OF_GROUPS}.")
    ),
    Section("effects", "Effects", 20, effects_section, slow=True),
    Section("apart", "What an operation is made of", 24, partial(_grid, tables.apart)),
    Section("functions", "Instructions by function", 25, partial(_grid, tables.functions)),
    Section("factors", "Factors", 30, factors_section, slow=True),
    Section("boots", "Boots", 40, boots_section),
    Section("spread", "Spread", 50, spread_section, slow=True),
    Section("rounds", "Rounds", 52, rounds_section, slow=True),
    Section("load", "Load", 55, load_section, slow=True),
    Section("machine", "Machine", 80, machine_section),
    Section("builds", "Builds", 85, builds_section),
    Section("again", "Do it again", 90, again_section),
    Section("samples", "Samples", 95, samples_section),
)
