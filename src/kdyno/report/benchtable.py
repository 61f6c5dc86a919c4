# SPDX-License-Identifier: MIT
"""A bench of memory routines as text: the best by size, each against its rival, and as CSV."""

from __future__ import annotations

import csv
import io
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, TextIO

from kdyno.memcpy import judging
from kdyno.memcpy.goals import goals
from kdyno.memcpy.judging import Best
from kdyno.memcpy.loads import Load
from kdyno.memcpy.results import Bench
from kdyno.report import figures, plain
from kdyno.report.show.grid import Cell

if TYPE_CHECKING:
    from rich.console import Console

    from kdyno.stats.effect import PairedEffect

COLUMNS = (
    "contender",
    "rank",
    "level",
    "mode",
    "least_bytes",
    "most_bytes",
    "mean_bytes",
    "alignment",
    "ns_per_call",
    "bytes_per_cycle",
    "share_of_ceiling",
    "rival",
    "time_ratio",
    "ci_low",
    "ci_high",
    "blocks",
)
_SHOWN_SIZES = (8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 16384, 65536)


def size(count: int) -> str:
    """``64``, ``4 KiB``; bytes below 1 KiB have no unit."""
    return f"{count >> 10} KiB" if count >= 1024 and count % 1024 == 0 else str(count)


def span(least: int, most: int) -> str:
    """``1 – 16``; one size alone where both are the same."""
    return size(least) if least == most else f"{size(least)} – {size(most)}"


def title(level: str, mode: str, alignment: str) -> str:
    """What a curve was measured with, in words."""
    words = {
        "fixed": "one size again and again",
        "random": "sizes and offsets drawn",
        "distribution": "as recorded",
        "trace": "as recorded, in order",
    }
    where = {"L1": "in L1", "L2": "from L2", "L3": "from L3", "memory": "from memory"}[level]
    how = {
        "aligned": "both ends at 64 bytes",
        "source": "source 13 bytes off a line",
        "target": "target 13 bytes off a line",
        "both": "both off a line",
        "aliased": "both at the same place of a page",
    }.get(alignment)
    return f"{words[mode]}, {where}" + (f", {how}" if how else "")


def label(level: str, mode: str, alignment: str) -> str:
    """The same in three words, for tables."""
    return f"{level} · {mode}" + (f" · {alignment}" if mode == "fixed" else "")


def curves(bench: Bench) -> list[tuple[str, str, str]]:
    """(level, mode, alignment) of every curve, in the order of the loads."""
    return list(dict.fromkeys((it.level, it.mode, it.alignment) for it in bench.loads))


def ratio(effect: PairedEffect | None) -> str:
    """``×0.52 (0.51 … 0.53)``: a ratio of times; below 1 is faster."""
    if effect is None or effect.ratio is None:
        return ""
    if effect.lo is None or effect.hi is None:
        return f"×{effect.ratio:.3f} (too few blocks)"
    return f"×{effect.ratio:.3f} ({effect.lo:.3f} … {effect.hi:.3f})"


def ratio_cell(effect: PairedEffect | None) -> Cell:
    """The same for a table."""
    return Cell(ratio(effect), effect.ratio if effect is not None else None)


def ends(effect: PairedEffect | None) -> Cell:
    """``0.51 … 0.53``: the interval alone."""
    if effect is None or effect.lo is None or effect.hi is None:
        return Cell()
    return Cell(f"{effect.lo:.3f} … {effect.hi:.3f}", effect.lo)


def whole_percent(share: float) -> str:
    return figures.percent(share, signed=False, decimals=0)


def answer(bench: Bench) -> str:
    """The finding in one or two sentences."""
    near = [load for load in bench.loads if load.level == "L1"]
    steady = judging.steadiest(bench, near)
    found = []
    rivals = " or ".join(plain.short(it.name) for it in bench.timed if it.rank == "rival")
    if near and (whole := judging.best(bench, near, near[0].least, near[-1].most)) is not None:
        text = f"{plain.short(whole.name)} is the fastest over all that was copied in L1"
        if whole.ratio is not None and whole.ratio.ratio is not None:
            faster = ", whichever is faster" if " or " in rivals else ""
            text += f": its time is {ratio(whole.ratio)} that of {rivals}{faster}"
        found.append(text + ".")
    if steady is not None and len(near) > 1:
        load = steady.load
        found.append(
            f"{plain.short(steady.name)} has the mildest worst case: {ratio(steady.ratio)} at "
            f"{span(load.least, load.most)} bytes, "
            f"{title(load.level, load.mode, load.alignment)}."
        )
    return " ".join(found)


def show(bench: Bench, file: TextIO | None = None) -> None:
    """Print to ``file`` (stdout): coloured on a terminal unless NO_COLOR, else plain text."""
    from rich.console import Console

    file = file if file is not None else sys.stdout
    console = Console(file=file, highlight=False, emoji=False, markup=False)
    colour = console.is_terminal and not os.environ.get("NO_COLOR")
    width = max(60, min(console.width, 120))
    console = Console(
        file=file,
        width=width,
        color_system="standard" if colour else None,
        force_terminal=bool(colour),
        highlight=False,
        emoji=False,
        markup=False,
    )
    _print(console, bench)


def text(bench: Bench, width: int = 100) -> str:
    """The same as plain text."""
    from rich.console import Console

    out = io.StringIO()
    _print(Console(file=out, width=width, color_system=None, highlight=False), bench)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def _print(console: Console, bench: Bench) -> None:
    from rich.text import Text

    console.print(Text(answer(bench), style="bold"))
    console.print(
        Text(
            f"{plain.sentence(bench.cpu)}, {bench.core_ghz:.2f} GHz (time-stamp counter "
            f"{bench.tsc_ghz:.2f}); {figures.count(bench.blocks, 'block')}; 95 % intervals; "
            "× is time ÷ time of the faster of the kernel’s loop (orig) and rep movsb",
            style="dim",
        )
    )
    console.print()
    _best_table(console, bench)
    for key in curves(bench):
        if key in (("L1", "fixed", "aligned"), ("L1", "random", "any")) or key[1] in (
            "distribution",
            "trace",
        ):
            _time_table(console, bench, key)
    for name, why in (*bench.failed.items(), *bench.left_out.items()):
        word = "failed" if name in bench.failed else "left out"
        console.print(Text(f"{word}: {plain.short(name)}: {plain.sentence(why)}", style="magenta"))
    for remark in bench.remarks:
        console.print(Text(plain.sentence(remark), style="yellow"))


def _best_table(console: Console, bench: Bench) -> None:
    from rich.table import Table
    from rich.text import Text

    for key in curves(bench):
        winners = judging.bands(bench, *key)
        if not winners:
            continue
        console.print(Text(f"Fastest, {title(*key)}", style="bold"))
        table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
        table.add_column("bytes", justify="right", no_wrap=True, min_width=13)
        table.add_column("routine", no_wrap=True, min_width=14)
        table.add_column("time ÷ rival’s", no_wrap=True, min_width=24)
        table.add_column("not told apart from it", overflow="fold")
        for it in winners:
            table.add_row(
                span(it.least, it.most), plain.short(it.name), ratio(it.ratio), few(it.others)
            )
        console.print(table)
        console.print()


def few(names: Sequence[str], most: int = 3) -> str:
    """``a, b, c and 4 more``."""
    rest = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(map(plain.short, names[:most])) + rest


def _time_table(console: Console, bench: Bench, key: tuple[str, str, str]) -> None:
    from rich.table import Table
    from rich.text import Text

    loads = shown(judging.curve(bench, *key))
    console.print(Text(f"ns per call, {title(*key)}", style="bold"))
    names = [it.name for it in bench.timed]
    # As many columns as fit: each is eight wide.
    fit = max(4, (console.width - 18) // 8)
    for start in range(0, len(loads), fit):
        part = loads[start : start + fit]
        table = Table(box=None, padding=(0, 1, 0, 0), header_style="dim")
        table.add_column("", no_wrap=True, max_width=18)
        for load in part:
            label = size(load.most).replace(" KiB", "K")
            if load.least != load.most:
                label = f"{size(load.least).replace(' KiB', 'K')}–{label}"
            table.add_column(label, justify="right", no_wrap=True)
        least = {
            load.id: min(
                (judging.ns(bench, it.name, load) for it in bench.timed if it.rank != "bound"),
                default=0.0,
            )
            for load in part
        }
        for name in names:
            cells = []
            for load in part:
                value = judging.ns(bench, name, load)
                style = "bold green" if value == least[load.id] else ""
                cells.append(Text(f"{value:.3g}" if value < 1000 else f"{value:.0f}", style=style))
            table.add_row(plain.short(name), *cells)
        table.add_row(
            Text("share of ceiling", style="dim"), *[_best_share(bench, it) for it in part]
        )
        console.print(table)
    console.print()


def shown(loads: Sequence[Load]) -> list[Load]:
    """Those that a table has room for: all, but of many fixed sizes the powers of two."""
    if len(loads) <= len(_SHOWN_SIZES):
        return list(loads)
    return [it for it in loads if it.least != it.most or it.most in _SHOWN_SIZES] or list(loads)


def _best_share(bench: Bench, load: Load) -> str:
    shares = [judging.share(bench, it.name, load) for it in bench.timed if it.rank != "bound"]
    known = [it for it in shares if it is not None]
    return f"{100 * max(known):.0f} %" if known else ""


def told(winners: Sequence[Best]) -> str:
    """The best by size in words, for those who cannot see a chart."""
    return "; ".join(
        f"{span(it.least, it.most)} bytes: {plain.name(it.name)}, {ratio(it.ratio)}"
        if it.ratio is not None
        else f"{span(it.least, it.most)} bytes: {plain.name(it.name)}"
        for it in winners
    )


def to_csv(bench: Bench) -> str:
    """One line per contender and load, full precision."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    ranks = {it.name: it.rank for it in bench.entries}
    for it in judging.rows(bench):
        load, effect = it.load, it.ratio
        writer.writerow(
            [
                plain.name(it.name),
                ranks[it.name],
                *(load.level, load.mode, load.least, load.most, load.mean, load.alignment),
                *(it.ns, it.bytes_per_cycle, it.share, it.rival),
                *((effect.ratio, effect.lo, effect.hi) if effect else (None, None, None)),
                bench.blocks,
            ]
        )
    return out.getvalue()


def figures_text(bench: Bench, name: str | None = None) -> str:
    """The goals of a best routine, one a line, each beside its target."""
    lines = []
    for it in goals(bench, name):
        target = f"≤ {it.most:g}" if it.most is not None else f"≥ {it.least:g}"
        ends = f"({it.ends[0]:.3f} … {it.ends[1]:.3f})" if it.ends is not None else ""
        word = "met" if it.met else "MISSED"
        lines.append(f"{it.name:72} {it.value:6.3f} {ends:17} {target:>6}  {word:6} {it.how}")
    return "\n".join(lines) or "nothing to judge: no routine, or no rival, was timed in L1"
