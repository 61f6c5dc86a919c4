# SPDX-License-Identifier: MIT
"""The verdict on a terminal: the answer, one table per variant, and what to beware of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TextIO

from rich.table import Table
from rich.text import Text

from kdyno.report import (
    apart,
    chart,
    dots,
    effects,
    factors,
    figures,
    functions,
    plain,
    strata,
    values,
    wholes,
)
from kdyno.report.groups import Group, groups, shown
from kdyno.report.sentence import answer
from kdyno.report.show import terminal
from kdyno.report.show.grid import Cell, Column, Grid
from kdyno.report.show.terminal import ROOMY, STYLES, Layout, Part, Screen, words
from kdyno.store.verdict import Effect, Verdict

_CHART_LEAST, _CHART_MOST = 21, 51
_UNIT_MOST = 12


def show(verdict: Verdict, file: TextIO | None = None) -> None:
    """Prints to ``file`` (stdout): coloured on a terminal unless NO_COLOR, else plain text."""
    terminal.show(lambda screen: parts(verdict, screen), file)


def show_dots(verdict: Verdict, file: TextIO | None = None) -> None:
    """The dot chart alone, in characters; plain text whatever the file is."""
    terminal.show(lambda screen: dots.lines(verdict, screen.width, unicode=screen.unicode), file)


def text(verdict: Verdict, width: int, *, colour: bool = False, unicode: bool = True) -> str:
    """The report as text, at most ``width`` columns (40 to 160 are used)."""
    screen = Screen(width, colour, unicode)
    return terminal.text(parts(verdict, screen), screen)


def parts(verdict: Verdict, screen: Screen) -> Iterator[Part]:
    """All of the report, from the top to the bottom."""
    width = terminal.used(screen)
    title = Text(plain.name(verdict.experiment), style="bold")
    if verdict.question:
        title.append(f": {plain.sentence(verdict.question)}", style="not bold")
    yield title
    yield words(answer(verdict), "bold")
    verdict = shown(verdict)
    found = groups(verdict)
    if found:
        yield ""
        yield from _tables(verdict, found, width, screen.unicode)
    if verdict.values:
        yield from ("", values.grid(verdict))
    if (grouped := wholes.grid(verdict)) is not None:
        yield from ("", wholes.HEADING, terminal.fit(grouped, width, 1))
    yield from factors.parts(verdict, width)
    if (made := apart.grid(verdict)) is not None:
        yield from ("", apart.HEADING, terminal.fit(made, width, 1))
    if (several := strata.grid(verdict, strata.FEW)) is not None:
        yield from ("", strata.HEADING, terminal.fit(several, width, 1))
    if (counted := functions.grid(verdict)) is not None:
        yield from ("", functions.HEADING, terminal.fit(counted, width, 1))
    notes = _notes(verdict, found)
    if notes:
        yield ""
    for style, head, body in notes:
        yield _hanging(Text(head, style=style), words(body), width)


def _tables(
    verdict: Verdict, found: tuple[Group, ...], width: int, unicode: bool
) -> Iterator[Part]:
    """One for each variant and suite, with the same columns, so that they line up."""
    all_ = [it for group in found for it in group.effects]
    named = len({it.suite for it in all_}) > 1
    indent = 2 if named else 1
    layout = _layout(verdict, all_, width, indent, unicode)
    yield _only(layout, (), heads=True)
    for group in found:
        against = "itself (A/A)" if group.is_copy else plain.short(verdict.baseline)
        suite = "" if named else f" · {plain.short(group.suites[0])}"
        yield Text(f"{plain.short(group.variant)} ÷ {against}{suite}", style="bold")
        for suite in group.suites:
            if named:
                # Not a row: the column of cases may be narrower than the suite's name.
                shown = f" {plain.short(suite)}"
                yield Text(shown, style="dim", no_wrap=True, overflow="ellipsis")
            mine = [it for it in group.effects if it.suite == suite]
            yield _only(layout, mine)


def _only(layout: Layout, items: Sequence[Effect], heads: bool = False) -> Layout:
    return replace(layout, grid=replace(layout.grid, items=items), heads=heads)


def _layout(
    verdict: Verdict, items: list[Effect], width: int, indent: int, unicode: bool
) -> Layout:
    """Columns in the order of their worth, and a chart where there is room for it."""
    floors = [replace(it, head="noise", quiet=True, worth=3) for it in effects.floors(items)]
    drawn = any(it.ratio is not None for it in items)
    counts = [replace(it, worth=1) for it in effects.counts(items)]
    space = Column("", lambda _: " " * _CHART_LEAST, worth=4)
    columns = [
        Column("", effects.case, "name"),
        Column(
            "baseline", lambda it: effects.amount(it, it.baseline_value, _UNIT_MOST), "number",
            worth=5,
        ),
        Column("value", lambda it: effects.value(it, _UNIT_MOST), "number", worth=5),
        Column("effect", effects.effect, "effect"),
        *counts,
        Column(effects.level(verdict), effects.interval, "number", worth=1),
        *([space] if drawn else []),
        Column("verdict", lambda it: effects.verdict(it, width >= ROOMY), "verdict"),
        *floors,
        Column("blocks", lambda it: it.blocks, "number", quiet=True, worth=2),
    ]  # fmt: skip
    layout = terminal.fit(Grid(columns, items), width, indent)
    if space not in layout.grid.columns:
        return layout
    at = layout.grid.columns.index(space)
    on = chart.scale(items, verdict.equivalent, min(_CHART_LEAST + layout.left, _CHART_MOST))
    marks = chart.UNICODE if unicode else chart.ASCII
    chosen, widths = list(layout.grid.columns), list(layout.widths)
    chosen[at] = Column(chart.axis(on), lambda it: _drawn(it, on, marks))
    widths[at] = on.width
    return replace(layout, grid=replace(layout.grid, columns=chosen), widths=widths)


def _drawn(it: Effect, on: chart.Scale, marks: chart.Marks) -> Cell:
    return Cell(chart.draw(it, on, marks), style=STYLES[it.verdict].removeprefix("bold "))


def _hanging(head: Text, body: Text, width: int) -> Table:
    """A head and the text beside it, wrapped under itself."""
    indent = min(head.cell_len + 2, width // 3)
    table = Table.grid(padding=0)
    table.add_column(width=indent, overflow="fold")
    table.add_column(width=width - indent, overflow="fold")
    table.add_row(head, body)
    return table


def _notes(verdict: Verdict, found: tuple[Group, ...]) -> list[tuple[str, str, str]]:
    """(style, head, text) lines below the tables: failures first, then what to beware of."""
    notes = [
        ("bold magenta", "failed", f"{plain.name(variant)}: {plain.sentence(reason)}")
        for variant, reason in verdict.failed.items()
    ]
    effects = [it for group in found for it in group.effects]
    for it in effects:
        if it.reason:
            where = f"{plain.name(it.suite)}/{plain.name(it.case)} in {plain.name(it.variant)}"
            notes.append(("magenta", "no figure", f"{where}: {plain.sentence(it.reason)}"))
    if verdict.factors:
        notes += [("yellow", "missing", plain.sentence(it)) for it in verdict.factors.missing]
        notes.append(("dim", "×", factors.note(verdict)))
    for flag in verdict.flags:
        parts = [part for part in (flag.suite, flag.case) if part]
        about = "/".join(map(plain.name, parts))
        if flag.variant:
            about += (" in " if about else "") + plain.name(flag.variant)
        said = plain.sentence(flag.text)
        notes.append(("yellow", plain.short(flag.kind), f"{about}: {said}" if about else said))
    return notes + [("dim", head, body) for head, body in _legend(verdict, effects)]


def _legend(verdict: Verdict, effects: list[Effect]) -> list[tuple[str, str]]:
    """Only for the marks that are there."""
    band = figures.tolerance(verdict.equivalent)
    lines = []
    if any(it.equivalent_too for it in effects):
        lines.append(("≈", f"a real difference, but inside {band}: too little to matter"))
    if any(it.inside_noise_floor for it in effects):
        lines.append(("?", "no larger than the baseline's difference from itself"))
    if any(it.throughput is not None and it.throughput.decides for it in effects):
        lines.append(("Σ", f"of all turns in sum: typical ones are inside {band}, or disagree"))
    if any(it.verdict == "inconclusive" and it.predicted_blocks for it in effects):
        lines.append(("(n)", "about n blocks would settle it"))
    if any(it.exact for it in effects):
        boots = min(it.blocks for it in effects if it.exact)
        lines.append(("exact", figures.exact_because(boots)))
    if any(it.apart for it in effects):
        lines.append(("(±n)", apart.NOTE))
    if any(it.functions for it in effects):
        lines.append(("function", functions.NOTE))
    if any(it.better == "lower" for it in effects):
        lines.append(("↓", "lower is better"))
    if any(it.control for it in effects):
        lines.append(("*", "control: does not depend on the kernel and should not move"))
    return lines
