# SPDX-License-Identifier: MIT
"""A bench of memory routines as text: the best by size, each against its rival, and as CSV."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, TextIO

from rich.text import Text

from kdyno.labs.memcpy.time import ratios
from kdyno.labs.memcpy.time.loads import Load
from kdyno.labs.memcpy.time.ratios import Best, Goal, goals
from kdyno.labs.memcpy.time.results import Bench
from kdyno.report import figures, plain
from kdyno.report.show import spreadsheet, terminal
from kdyno.report.show.grid import Cell, Column, Grid
from kdyno.report.show.terminal import Layout, Part, Screen

if TYPE_CHECKING:
    from kdyno.stats.effect import PairedEffect

_NAMES, _TIME = 18, 8
"""Columns of the terminal for a name, and for a figure of the table of times."""
_CEILING = "share of ceiling"
_TIMED = (("L1", "fixed", "aligned"), ("L1", "random", "any"))
"""Curves whose times are shown, beside those of recorded copies."""
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
        "behind": "source a byte before the target, in its page",
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
    steady = ratios.steadiest(bench, near)
    found = []
    rivals = " or ".join(plain.short(it.name) for it in bench.timed if it.rank == "rival")
    if near and (whole := ratios.best(bench, near, near[0].least, near[-1].most)) is not None:
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
    terminal.show(lambda screen: parts(bench, screen), file)


def text(bench: Bench, width: int = 100) -> str:
    """The same as plain text."""
    return terminal.text(parts(bench, Screen(width)), Screen(width))


def parts(bench: Bench, screen: Screen) -> Iterator[Part]:
    """The answer, the fastest by size, and the times of all that was timed."""
    yield Text(answer(bench), style="bold")
    yield Text(
        f"{plain.sentence(bench.cpu)}, {bench.core_ghz:.2f} GHz (time-stamp counter "
        f"{bench.tsc_ghz:.2f}); {figures.count(bench.blocks, 'block')}; 95 % intervals; "
        "× is time ÷ time of the faster of the kernel’s loop (orig) and rep movsb",
        style="dim",
    )
    yield ""
    winners = {key: ratios.bands(bench, *key) for key in curves(bench)}
    best = {key: Grid(_BEST, found) for key, found in winners.items() if found}
    widths = terminal.together(best.values())
    for key, grid in best.items():
        yield Text(f"Fastest, {title(*key)}", style="bold")
        yield Layout(grid, widths)
        yield ""
    for key in curves(bench):
        if key in _TIMED or key[1] in ("distribution", "trace"):
            yield Text(f"ns per call, {title(*key)}", style="bold")
            yield from _times(bench, shown(ratios.curve(bench, *key)), terminal.used(screen))
            yield ""
    for name, why in (*bench.failed.items(), *bench.left_out.items()):
        word = "failed" if name in bench.failed else "left out"
        yield Text(f"{word}: {plain.short(name)}: {plain.sentence(why)}", style="magenta")
    for remark in bench.remarks:
        yield Text(plain.sentence(remark), style="yellow")


_BEST = (
    Column("bytes", lambda it: span(it.least, it.most), "number"),
    Column("routine", lambda it: it.name, "name"),
    Column("time ÷ rival’s", lambda it: ratio_cell(it.ratio)),
    Column("not distinguishable from it", lambda it: few(it.others)),
)


def _times(bench: Bench, loads: Sequence[Load], width: int) -> Iterator[Grid]:
    """A row a contender and a column a load, in as many tables as the width makes it."""
    fit = max(4, (width - _NAMES) // _TIME)
    for start in range(0, len(loads), fit):
        columns = [Column("", str, "name")]
        columns += [
            Column(_heading(load), partial(_time, bench, load), "number")
            for load in loads[start : start + fit]
        ]
        yield Grid(columns, [*(it.name for it in bench.timed), _CEILING])


def _heading(load: Load) -> str:
    ends = [size(it).replace(" KiB", "K") for it in (load.least, load.most)]
    return "–".join(dict.fromkeys(ends))


def _time(bench: Bench, load: Load, name: str) -> Cell:
    """ns per call, the least of all in green; in the last row the best share of the ceiling."""
    judged = [it.name for it in bench.timed if it.rank != "bound"]
    if name == _CEILING:
        shares = [ratios.share(bench, it, load) for it in judged]
        known = [it for it in shares if it is not None]
        return Cell(whole_percent(max(known)) if known else "", style="dim")
    value = ratios.ns(bench, name, load)
    least = min((ratios.ns(bench, it, load) for it in judged), default=0.0)
    said = f"{value:.3g}" if value < 1000 else f"{value:.0f}"
    return Cell(said, value, style="bold green" if value == least else "")


_FEW = 3


def few(names: Sequence[str]) -> str:
    """``a, b, c and 4 more``."""
    rest = f" and {len(names) - _FEW} more" if len(names) > _FEW else ""
    return ", ".join(map(plain.short, names[:_FEW])) + rest


def shown(loads: Sequence[Load]) -> list[Load]:
    """Those that a table has room for: all, but of many fixed sizes the powers of two."""
    if len(loads) <= len(_SHOWN_SIZES):
        return list(loads)
    return [it for it in loads if it.least != it.most or it.most in _SHOWN_SIZES] or list(loads)


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
    ranks = {it.name: it.rank for it in bench.entries}
    columns = [
        Column("contender", lambda it: it.name),
        Column("rank", lambda it: ranks[it.name]),
        Column("level", lambda it: it.load.level),
        Column("mode", lambda it: it.load.mode),
        Column("least_bytes", lambda it: it.load.least),
        Column("most_bytes", lambda it: it.load.most),
        Column("mean_bytes", lambda it: it.load.mean),
        Column("alignment", lambda it: it.load.alignment),
        Column("ns_per_call", lambda it: it.ns),
        Column("bytes_per_cycle", lambda it: it.bytes_per_cycle),
        Column("share_of_ceiling", lambda it: it.share),
        Column("rival", lambda it: it.rival),
        Column("time_ratio", lambda it: it.ratio and it.ratio.ratio),
        Column("ci_low", lambda it: it.ratio and it.ratio.lo),
        Column("ci_high", lambda it: it.ratio and it.ratio.hi),
        Column("blocks", lambda _: bench.blocks),
    ]
    return spreadsheet.text(Grid(columns, ratios.rows(bench)))


def figures_text(bench: Bench, name: str | None = None) -> str:
    """The goals of a best routine, one a line, each beside its target."""
    items = goals(bench, name)
    none = "nothing to judge: no routine, or no rival, was timed in L1"
    return terminal.text([Grid(_GOALS, items) if items else none])


def _wanted(it: Goal) -> str:
    return f"≤ {it.most:g}" if it.most is not None else f"≥ {it.least:g}"


_GOALS = (
    Column("goal", lambda it: it.name),
    Column("found", lambda it: it.value, "number", "{:.3f}".format),
    Column("95 % interval", lambda it: it.ends, "number", lambda of: "{:.3f} … {:.3f}".format(*of)),
    Column("wanted", _wanted, "number"),
    Column("", lambda it: "met" if it.met else "MISSED"),
    Column("by", lambda it: it.how),
)
