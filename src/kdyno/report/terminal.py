# SPDX-License-Identifier: MIT
"""The verdict on a terminal: the answer, one table per variant, and what to beware of."""

from __future__ import annotations

import io
import os
import sys
from typing import TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from kdyno.report import dots, factors, figures, plain, values
from kdyno.report.chart import ASCII, UNICODE
from kdyno.report.columns import Layout, fit
from kdyno.report.groups import Group, groups
from kdyno.report.sentence import answer
from kdyno.store.verdict import Effect, Verdict

NARROWEST, WIDEST = 40, 160
# Rich breaks lines at no-break spaces too; a private character, which no name can hold here.
_UNBROKEN = "\ue000"

_STYLES = {
    "faster": "bold green",
    "slower": "bold red",
    "equivalent": "cyan",
    "inconclusive": "yellow",
    "failed": "bold magenta",
}
# For terminals and files that take no Unicode.
_TO_ASCII = str.maketrans(
    {
        "−": "-", "…": "~", "÷": "/", "±": "", "↓": "v", "≈": "~", "≥": ">=", "·": "-", "×": "x",
        "“": '"', "”": '"', "’": "'", "–": "-", "—": "-", "µ": "u", "°": "o",
        "▲": "+", "▼": "-",
    }
)  # fmt: skip


def show(verdict: Verdict, file: TextIO | None = None) -> None:
    """Prints to ``file`` (stdout): coloured on a terminal unless NO_COLOR, else plain text."""
    file = file if file is not None else sys.stdout
    console = Console(file=file)
    colour = console.is_terminal and not os.environ.get("NO_COLOR")
    encoding = (getattr(file, "encoding", None) or "utf-8").lower()
    unicode = encoding.replace("-", "") == "utf8"
    out = text(verdict, console.width, colour=colour, unicode=unicode)
    # A name may hold what the terminal's encoding does not.
    file.write(out if unicode else out.encode(encoding, "replace").decode(encoding))


def show_dots(verdict: Verdict, file: TextIO | None = None) -> None:
    """The dot chart alone, in characters; plain text whatever the file is."""
    file = file if file is not None else sys.stdout
    encoding = (getattr(file, "encoding", None) or "utf-8").lower()
    unicode = encoding.replace("-", "") == "utf8"
    out = "\n".join(dots.lines(verdict, Console(file=file).width, unicode=unicode)) + "\n"
    if not unicode:
        out = out.translate(_TO_ASCII).encode(encoding, "replace").decode(encoding)
    file.write(out)


def text(verdict: Verdict, width: int, *, colour: bool = False, unicode: bool = True) -> str:
    """The report as text, at most ``width`` columns (40 to 160 are used)."""
    out = io.StringIO()
    console = Console(
        file=out,
        width=max(NARROWEST, min(width, WIDEST)),
        # Sixteen colours: the person's own terminal theme decides how they look.
        color_system="standard" if colour else None,
        force_terminal=colour,
        legacy_windows=False,
        highlight=False,
        emoji=False,
        markup=False,
    )
    _print(console, verdict, unicode)
    rendered = out.getvalue().replace(_UNBROKEN, " ")
    lines = [line.rstrip() if not colour else line for line in rendered.splitlines()]
    found = "\n".join(lines).rstrip() + "\n"
    return found if unicode else found.translate(_TO_ASCII)


def _print(console: Console, verdict: Verdict, unicode: bool) -> None:
    title = Text(plain.name(verdict.experiment), style="bold")
    if verdict.question:
        title.append(f": {plain.sentence(verdict.question)}", style="not bold")
    console.print(title)
    console.print(Text(_unbroken(answer(verdict)), style="bold"))
    found = groups(verdict)
    marks = UNICODE if unicode else ASCII
    layout = fit(verdict, found, console.width, marks)
    if found:
        console.print()
        console.print(_table(layout, header=True))
    for group in found:
        console.print(Text(layout.title(group), style="bold"))
        for suite in group.suites:
            if layout.names_suites:
                # Not a row: the column of cases may be narrower than the suite's name.
                name = Text(f" {plain.short(suite)}", style="dim")
                console.print(name, no_wrap=True, overflow="ellipsis")
            table = _table(layout, header=False)
            _fill(table, group, suite, layout)
            console.print(table)
    for line in ["", *values.lines(verdict)] if verdict.values else []:
        console.print(Text(_unbroken(line)), overflow="fold")
    for line in ["", *factors.lines(verdict, console.width)] if verdict.factors else []:
        console.print(Text(_unbroken(line)), overflow="fold")
    notes = _notes(verdict, found)
    if notes:
        console.print()
    for style, head, body in notes:
        console.print(_hanging(Text(head, style=style), _unbroken(body), console.width))


def _unbroken(text: str) -> str:
    """Keeps a line from ending between a number and its percent sign."""
    return text.replace(" %", f"{_UNBROKEN}%")


def _hanging(head: Text, body: str, width: int) -> Table:
    """A head and the text beside it, wrapped under itself."""
    indent = min(head.cell_len + 2, width // 3)
    table = Table.grid(padding=0)
    table.add_column(width=indent, overflow="fold")
    table.add_column(width=width - indent, overflow="fold")
    table.add_row(head, Text(body))
    return table


def _table(layout: Layout, header: bool) -> Table:
    table = Table(
        box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim", show_header=header
    )
    for column in layout.columns:
        table.add_column(
            Text(column.head), justify=column.justify, width=column.width, overflow="fold"
        )
    return table


def _fill(table: Table, group: Group, suite: str, layout: Layout) -> None:
    for it in group.effects:
        if it.suite == suite:
            table.add_row(*(_styled(column.kind, column.cell(it), it) for column in layout.columns))


def _styled(kind: str, cell: str, it: Effect) -> Text:
    if kind in ("verdict", "chart"):
        style = _STYLES[it.verdict]
        return Text(cell, style=style if kind == "verdict" else style.removeprefix("bold "))
    if kind == "effect":
        return Text(cell, style="bold" if it.verdict in ("faster", "slower") else "")
    if kind == "case":
        return Text(cell, style="italic" if it.control else "")
    return Text(cell, style="dim" if kind in ("blocks", "floor") else "")


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
        lines.append(("≈", f"a real difference, but inside {band}: too small to matter"))
    if any(it.inside_noise_floor for it in effects):
        lines.append(("?", "no larger than the baseline's difference from itself"))
    if any(it.verdict == "inconclusive" and it.predicted_blocks for it in effects):
        lines.append(("(n)", "about n blocks would settle it"))
    if any(it.better == "lower" for it in effects):
        lines.append(("↓", "lower is better"))
    if any(it.control for it in effects):
        lines.append(("*", "control: does not depend on the kernel and should not move"))
    return lines
