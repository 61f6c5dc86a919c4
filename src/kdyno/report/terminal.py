# SPDX-License-Identifier: MIT
"""The verdict on a terminal: the answer, one table per variant, and warnings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TextIO

from rich.table import Table
from rich.text import Text

from kdyno.judge.flags import contrast
from kdyno.report import effects, figures, plain, tables
from kdyno.report.groups import Group, displayed, groups
from kdyno.report.sentence import answer
from kdyno.report.show import terminal
from kdyno.report.show.grid import Cell, Column, Grid
from kdyno.report.show.terminal import ROOMY, STYLES, Layout, Part, Screen, words
from kdyno.store.manifest import Manifest
from kdyno.store.verdict import Effect, Verdict, by_sums

_CHART_LEAST, _CHART_MOST = 21, 51
_UNIT_MOST = 12
_FIRST_RULE = "hl-signedrank-holm/1"
_MOST_CHANGES = 12


def show(verdict: Verdict, file: TextIO | None = None) -> None:
    """Prints to ``file`` (stdout): coloured on a terminal unless NO_COLOR, else plain text."""
    terminal.show(lambda screen: parts(verdict, screen), file)


def parts(verdict: Verdict, screen: Screen) -> Iterator[Part]:
    width = terminal.used(screen)
    title = Text(plain.name(verdict.experiment), style="bold")
    if verdict.question:
        title.append(f": {plain.sentence(verdict.question)}", style="not bold")
    yield title
    yield words(answer(verdict), "bold")
    verdict = displayed(verdict)
    variants = groups(verdict)
    if variants:
        yield ""
        yield from _tables(verdict, variants, width)
    if (values := tables.values(verdict)) is not None:
        yield from ("", values)
    if (of_cases := tables.groups(verdict)) is not None:
        yield from ("", "effects on groups of cases", terminal.fit(of_cases, width, 1))
    if verdict.factors is not None:
        yield from ("", "factors")
        yield from (words(f"  {plain.sentence(line)}") for line in verdict.factors.summary)
        for grid in tables.factors(verdict):
            yield from ("", words(grid.title), terminal.fit(grid, width, 1))
    for detail in tables.DETAILS:
        if (rows := detail.grid(verdict)) is not None:
            yield from ("", detail.heading, terminal.fit(rows, width, 1))
    notes = _notes(verdict, [effect for group in variants for effect in group.effects], width)
    if notes:
        yield ""
    for style, head, body in notes:
        # A head and the text beside it, wrapped under itself.
        indent = min(Text(head).cell_len + 2, width // 3)
        table = Table.grid(padding=0)
        table.add_column(width=indent, overflow="fold")
        table.add_column(width=width - indent, overflow="fold")
        table.add_row(Text(head, style=style), words(body))
        yield table


def _tables(verdict: Verdict, variants: Sequence[Group], width: int) -> Iterator[Part]:
    """One for each variant and suite, with the same columns, so that they line up."""
    effects = [effect for group in variants for effect in group.effects]
    named = len({effect.suite for effect in effects}) > 1
    layout = _layout(verdict, effects, width, 2 if named else 1)
    yield replace(layout, grid=replace(layout.grid, items=()))
    for group in variants:
        against = "itself (A/A)" if group.is_copy else plain.short(verdict.baseline)
        suite = "" if named else f" · {plain.short(group.suites[0])}"
        yield Text(f"{plain.short(group.variant)} ÷ {against}{suite}", style="bold")
        for suite in group.suites:
            if named:
                # Not a row: the column of cases may be narrower than the suite's name.
                head = f" {plain.short(suite)}"
                yield Text(head, style="dim", no_wrap=True, overflow="ellipsis")
            rows = [effect for effect in group.effects if effect.suite == suite]
            yield replace(layout, grid=replace(layout.grid, items=rows), heads=False)


def _layout(verdict: Verdict, items: list[Effect], width: int, indent: int) -> Layout:
    """Columns in the order of their worth, and a chart where there is room for it."""
    before = "baseline value effect instructions interval"
    after = effects.columns(verdict, items, "verdict floor blocks")
    space = Column("", lambda _: " " * _CHART_LEAST, worth=4)
    after[0] = replace(after[0], of=lambda effect: effects.word_cell(effect, width >= ROOMY))
    columns = [
        Column("", effects.case, "name"),
        *effects.columns(verdict, items, before, _UNIT_MOST),
        *([space] if any(effect.ratio is not None for effect in items) else []),
        *(replace(column, head=column.head.removesuffix(" floor")) for column in after),
    ]
    layout = terminal.fit(Grid(columns, items), width, indent)
    if space not in layout.grid.columns:
        return layout
    at = layout.grid.columns.index(space)
    room = min(_CHART_LEAST + layout.left, _CHART_MOST) - 1 | 1  # odd: 1 is in the middle
    half = effects.limit(verdict)
    decimals = 0 if half >= 0.02 else 1 if half >= 0.002 else 2 if half >= 0.0002 else 3
    low, high = (figures.percent(side * half, decimals=decimals) for side in (-1, 1))
    axis = f"{low.ljust(room // 2)}0"

    def picture(effect: Effect) -> Cell:
        style = STYLES[effect.verdict].removeprefix("bold ")
        return Cell(_plot(effect, half, verdict.equivalent, room), style=style)

    chosen, widths = list(layout.grid.columns), list(layout.widths)
    chosen[at], widths[at] = Column(axis + high.rjust(room - len(axis)), picture), room
    return replace(layout, grid=replace(layout.grid, columns=chosen), widths=widths)


def _plot(effect: Effect, half: float, equivalent: float, width: int) -> str:
    """The interval in characters, 1 ± half from edge to edge; arrows mark what lies outside."""

    def column(ratio: float) -> int:
        """0 … width − 1; −1 and width lie outside."""
        return max(-1, min(width, width // 2 + round((ratio - 1.0) / half * (width // 2))))

    cells = [" "] * width
    for edge in map(column, (1.0 - equivalent, 1.0 + equivalent)):
        if 0 <= edge < width:
            cells[edge] = "┊"
    cells[width // 2] = "│"
    points = [column(end) for end in effect.ci or effect.ci_raw or ()]
    if points:
        low, high = max(points[0], 0), min(points[1], width - 1)
        cells[low : high + 1] = "─" * (high + 1 - low)
    if effect.ratio is not None:
        points.append(column(effect.ratio))
        if 0 <= points[-1] < width:
            cells[points[-1]] = "●"
    if min(points, default=0) < 0:
        cells[0] = "◂"
    if max(points, default=0) >= width:
        cells[-1] = "▸"
    return "".join(cells)


def _notes(verdict: Verdict, rows: Sequence[Effect], width: int) -> list[tuple[str, str, str]]:
    """(style, head, text) lines below the tables: failures first, then warnings, then
    what marks mean that are there."""
    notes = [
        ("bold magenta", "failed", f"{plain.name(variant)}: {plain.sentence(reason)}")
        for variant, reason in verdict.failed.items()
    ]
    for effect in rows:
        if effect.reason and effect.ratio is None:
            text = f"{effects.about(effect)}{plain.sentence(effect.reason)}"
            notes.append(("magenta", "no figure", text))
    if verdict.factors:
        notes += [("yellow", "missing", plain.sentence(text)) for text in verdict.factors.missing]
        notes.append(("dim", "×", tables.note_of_factors(verdict)))
    for flag in verdict.flags:
        text = f"{effects.about(flag)}{plain.sentence(flag.text)}"
        notes.append(("yellow", plain.short(flag.kind), text))
    band = figures.tolerance(verdict.equivalent)
    of_factors = verdict.factors.effects if verdict.factors else ()
    every: tuple[effects.OfAny, ...] = (*rows, *verdict.groups, *of_factors)
    with_blocks = every if width >= ROOMY else every[len(rows) :]  # else effects are without (n)
    exact = [effect.blocks for effect in rows if effect.exact]
    details = {detail.mark: detail.note for detail in tables.DETAILS}
    legend = (
        ("≈", f"a real difference, but inside {band}: too little to matter",
         any(row.equivalent_too for row in every)),
        ("?", "no larger than the baseline's difference from itself",
         any(effect.inside_noise_floor for effect in rows)),
        ("Σ", f"of all turns in sum: typical ones are inside {band}, or disagree",
         any(map(by_sums, every))),
        ("( )", effects.UNCORRECTED, any(map(effects.uncorrected, rows))),
        ("(n)", "about n blocks would settle it",
         any(row.verdict == "inconclusive" and row.predicted_blocks for row in with_blocks)),
        ("exact", figures.exact_because(min(exact, default=0)), bool(exact)),
        ("(±n)", details["(±n)"], any(effect.apart for effect in rows)),
        ("function", details["function"], any(effect.functions for effect in rows)),
        ("↓", "lower is better", any(effect.better == "lower" for effect in rows)),
        ("*", "control: does not depend on the kernel and should not move",
         any(effect.control for effect in rows)),
    )  # fmt: skip
    return notes + [("dim", mark, meaning) for mark, meaning, there in legend if there]


def rejudged(first: Verdict | None, now: Verdict, manifest: Manifest) -> list[str]:
    """A run's newest verdict beside its first, a line each; then effects whose word changed."""

    def scope(verdict: Verdict) -> str:
        band = figures.tolerance(verdict.equivalent)
        return f"{100 * verdict.confidence:g} %, equivalent {band}"

    def words_of(verdict: Verdict) -> dict[str, str]:
        table = verdict.factors.effects if verdict.factors else ()
        rows: list[tuple[str, str, effects.OfAny]] = [
            *((of.case, f" in {of.variant}", of) for of in verdict.effects),
            *((of.group, f" in {of.variant}", of) for of in verdict.groups),
            *((of.case, f", {contrast(of)}", of) for of in table),
        ]
        return {
            f"{plain.name(of.suite)}/{plain.name(case)}{plain.line(where)}": effects.word(of)
            for case, where, of in rows
        }

    lines = [f"now    kdyno {now.tool}, rule {now.rule}, {scope(now)}"]
    if first is None:
        return [*lines, "not judged before"]
    by, rule = first.tool or manifest.tool, first.rule or _FIRST_RULE
    lines.append(f"first  kdyno {plain.short(by)}, rule {plain.short(rule)}, {scope(first)}")
    before, after = words_of(first), words_of(now)
    changed = [
        f"{row}: {before[row]} → {word}"
        for row, word in after.items()
        if before.get(row, word) != word
    ]
    if new := len(after.keys() - before.keys()):
        changed.append(f"{figures.count(new, 'effect')} that the first one does not have")
    if not changed:
        return [*lines, "no word changed"]
    if len(changed) > _MOST_CHANGES:
        changed = [*changed[:_MOST_CHANGES], f"… and {len(changed) - _MOST_CHANGES} more"]
    return [*lines, "changed:", *(f"  {line}" for line in changed)]
