# SPDX-License-Identifier: MIT
"""The memory-routine laboratory in tables, sentences and curves: benches, copies and tunings.

Curves are ns per call by size, both axes logarithmic, above the ceiling's line. Only as many
routines are plotted as there are distinguishable colours; the tables have them all."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from functools import partial
from operator import itemgetter
from pathlib import Path
from statistics import median
from typing import Any

from rich.text import Text

from kdyno.labs.memcpy import results
from kdyno.labs.memcpy.copies import Distribution, aligned, by_size, size_quantile
from kdyno.labs.memcpy.loads import Curve, Load
from kdyno.labs.memcpy.results import Bench
from kdyno.labs.memcpy.search import CpuTuned, Tuned, after
from kdyno.report import figures, plain
from kdyno.report.charts import vega
from kdyno.report.show import terminal
from kdyno.report.show.grid import Cell, Column, Grid, Kind
from kdyno.report.show.terminal import Layout, Part, Screen
from kdyno.stats.effect import PairedEffect

_NAMES, _TIME = 18, 8
"""Columns of the terminal for a name, and for a figure of the table of times."""
_CEILING = "share of ceiling"
_TIMED = (("L1", "fixed", "aligned"), ("L1", "random", "any"))
"""Curves whose times are shown, beside those of recorded copies."""
_SIZES = (8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 16384, 65536)
_FEW = 3
_BAR = 24


def size(count: int) -> str:
    """``64``, ``4 KiB``; bytes below 1 KiB have no unit."""
    return f"{count >> 10} KiB" if count >= 1024 and count % 1024 == 0 else str(count)


def span(least: int, most: int) -> str:
    """``1 – 16``; one size alone where both are the same."""
    return size(least) if least == most else f"{size(least)} – {size(most)}"


_MODES = {
    "fixed": "one size again and again",
    "random": "random sizes and offsets",
    "distribution": "as recorded",
}
_ALIGNMENTS = {
    "aligned": ", both ends at 64 bytes",
    "source": ", source 13 bytes off a line",
    "target": ", target 13 bytes off a line",
    "both": ", both off a line",
    "aliased": ", both at the same place of a page",
    "behind": ", source a byte before the target, in its page",
}


def title(key: Curve) -> str:
    """What a curve was measured with, in words."""
    level, mode, alignment = key
    where = "in L1" if level == "L1" else f"from {level}"
    return f"{_MODES[mode]}, {where}{_ALIGNMENTS.get(alignment, '')}"


def ratio(effect: PairedEffect | None) -> str:
    """``×0.52 (0.51 … 0.53)``: a ratio of times; below 1 is faster."""
    if effect is None or effect.ratio is None:
        return ""
    return f"×{effect.ratio:.3f} ({ends(effect.ci).text or 'too few blocks'})"


def ends(ci: tuple[float, float] | None) -> Cell:
    """``0.51 … 0.53``: the interval alone."""
    return Cell() if ci is None else Cell(f"{ci[0]:.3f} … {ci[1]:.3f}", ci[0])


def few(names: Sequence[str]) -> str:
    """``a, b, c and 4 more``."""
    rest = f" and {len(names) - _FEW} more" if len(names) > _FEW else ""
    return ", ".join(map(plain.short, names[:_FEW])) + rest


def fitting(loads: Sequence[Load]) -> list[Load]:
    """Those that a table has room for: all, but of many fixed sizes the powers of two."""
    if len(loads) <= len(_SIZES):
        return list(loads)
    chosen = [load for load in loads if load.least != load.most or load.most in _SIZES]
    return chosen or list(loads)


def answer(bench: Bench) -> str:
    """The result in one or two sentences."""
    near = [load for load in bench.loads if load.level == "L1"]
    text = ""
    rivals = " or ".join(map(plain.short, bench.ranked("rival")))
    if near and (winner := results.best(bench, near, near[0].least, near[-1].most)) is not None:
        text = f"{plain.short(winner.name)} is the fastest over all that was copied in L1"
        if winner.ratio is not None and winner.ratio.ratio is not None:
            faster = ", whichever is faster" if " or " in rivals else ""
            text += f": its time is {ratio(winner.ratio)} that of {rivals}{faster}"
        text += "."
    if len(near) > 1 and (steady := results.steadiest(bench, near)) is not None:
        load = steady.load
        text += (
            f" Of the routines {plain.short(steady.name)} has the mildest worst case: "
            f"{ratio(steady.ratio)} at "
            f"{span(load.least, load.most)} bytes, {title(load.curve)}."
        )
    return text


BEST = (
    Column("bytes", lambda best: Cell(span(best.least, best.most), best.least), "number"),
    Column("routine", lambda best: best.name, "name"),
    Column("time ÷ rival’s", lambda best: Cell(ratio(best.ratio), best.ratio and best.ratio.ratio)),
    Column("not distinguishable from it", lambda best: few(best.others)),
)
"""Of the best for each band of sizes."""


def bench_parts(bench: Bench, screen: Screen) -> Iterator[Part]:
    """The answer, the fastest by size, and the times of all that was timed."""
    yield Text(answer(bench), style="bold")
    yield Text(
        f"{plain.sentence(bench.cpu)}, {bench.clock.core_ghz:.2f} GHz; "
        f"{figures.count(bench.blocks, 'block')}; 95 % intervals; "
        f"× is time ÷ time of {results.rivals(bench) or 'a rival, of which none was timed'}",
        style="dim",
    )
    yield ""
    curves = {key: results.bands(bench, key) for key in results.curves(bench)}
    grids = {key: Grid(BEST, bands) for key, bands in curves.items() if bands}
    widths = terminal.together(grids.values())
    for key, grid in grids.items():
        yield Text(f"Fastest, {title(key)}", style="bold")
        yield Layout(grid, widths)
        yield ""
    fit = max(4, (terminal.used(screen) - _NAMES) // _TIME)
    for key in results.curves(bench):
        if key not in _TIMED and key[1] != "distribution":
            continue
        yield Text(f"ns per call, {title(key)}", style="bold")
        loads = fitting(results.curve(bench, key))
        for start in range(0, len(loads), fit):
            columns = [Column("", str, "name")]
            for load in loads[start : start + fit]:
                heads = [size(count).replace(" KiB", "K") for count in (load.least, load.most)]
                head = "–".join(dict.fromkeys(heads))
                columns.append(Column(head, partial(_time, bench, load), "number"))
            yield Grid(columns, [*(each.name for each in bench.timed), _CEILING])
        yield ""
    for name, why in (*bench.failed.items(), *bench.left_out.items()):
        word = "failed" if name in bench.failed else "left out"
        yield Text(f"{word}: {plain.short(name)}: {plain.sentence(why)}", style="magenta")
    for remark in bench.remarks:
        yield Text(plain.sentence(remark), style="yellow")


def _time(bench: Bench, load: Load, name: str) -> Cell:
    """ns per call, the least of all in green; in the last row the best share of the ceiling."""
    copying = bench.ranked("routine", "rival", "other")
    if name == _CEILING:
        shares = [results.share(bench, each, load) for each in copying]
        best = max((share for share in shares if share is not None), default=None)
        text = figures.percent(best, signed=False, decimals=0) if best is not None else ""
        return Cell(text, style="dim")
    value = results.ns(bench, name, load)
    least = min((results.ns(bench, each, load) for each in copying), default=0.0)
    text = f"{value:.3g}" if value < 1000 else f"{value:.0f}"
    return Cell(text, value, style="bold green" if value == least else "")


def figures_text(bench: Bench, name: str | None = None) -> str:
    """The goals of a best routine, one a line, each beside its target."""
    goals = results.goals(bench, name)
    none = "nothing to judge: no routine, or no rival, was timed in L1"
    columns = (
        Column("goal", lambda goal: goal.name),
        Column("measured", lambda goal: goal.value, "number", "{:.3f}".format),
        Column("95 % interval", lambda goal: ends(goal.ends), "number"),
        Column("target", lambda goal: goal.target, "number"),
        Column("", lambda goal: "met" if goal.met else "MISSED"),
        Column("by", lambda goal: goal.how),
    )
    return terminal.text([Grid(columns, goals) if goals else none])


def volume(number: float) -> str:
    """1234567 bytes as "1.235 MB"."""
    text = figures.amount(number)
    return f"{text}B" if " " in text else f"{text} B"


percent = partial(figures.percent, signed=False, decimals=1)
_WHOLE: tuple[Kind, Callable[[float], str]] = ("number", "{:.0f}".format)


def copies(
    distribution: Distribution,
    notes: Iterable[str] = (),
    top: int = 20,
    *,
    ascii_only: bool = False,
) -> Iterator[Part]:
    """The ``top`` sites with most calls, the rest in one line; sizes, as bars; how aligned."""
    calls, volume_bytes = distribution.calls, distribution.bytes
    source = plain.sentence(distribution.source)
    yield from [f"{source}: {figures.amount(calls)} copies, {volume(volume_bytes)}", *notes, ""]
    if distribution.sites:
        rows = [(site.site, site.calls, site.bytes) for site in distribution.sites[:top]]
        if rest := distribution.sites[top:]:
            totals = sum(site.calls for site in rest), sum(site.bytes for site in rest)
            rows.append((f"{len(rest)} more", *totals))
        columns = [
            Column("call site", itemgetter(0), "name"),
            Column("calls", itemgetter(1), "number", figures.amount),
            Column("share", lambda row: row[1] / calls, "number", percent),
            Column("bytes", itemgetter(2), "number", volume),
            Column("share", lambda row: row[2] / (volume_bytes or 1), "number", percent),
            Column("bytes a call", lambda row: row[2] / row[1] if row[1] else None, *_WHOLE),
        ]
        yield from (Grid(columns, rows), "")
    full = "#" if ascii_only else "█"

    def bar(share: float) -> str:
        """Something that is not nothing shows."""
        return full * max(round(share * _BAR), share > 0)

    columns = [
        Column("bytes a copy", lambda share: share.label, "number"),
        Column("of all calls", lambda share: bar(share.calls)),
        Column("", lambda share: share.calls, "number", percent),
        Column("of all bytes", lambda share: bar(share.bytes)),
        Column("", lambda share: share.bytes, "number", percent),
    ]
    yield from (Grid(columns, by_size(distribution)), "")
    half, most = size_quantile(distribution, 0.5), size_quantile(distribution, 0.9)
    weight = size_quantile(distribution, 0.5, of_bytes=True)
    lines, words = ([f"{100 * part:.0f} %" for part in aligned(distribution, n)] for n in (64, 8))
    yield (
        f"Half of the calls copy at most {half} bytes, nine of ten at most {most}; half of the "
        f"bytes move in copies of {weight} bytes or less."
    )
    yield (
        f"Target at a multiple of 64: {lines[0]} of calls, source: {lines[1]}, both: {lines[2]}; "
        f"of 8: {', '.join(words)}."
    )


def tuning(tuned: Tuned, load: Load, share: float | None) -> Iterator[Part]:
    """The finalists, and the gain that is predicted."""
    name, ratios = tuned.shape.name, tuned.ratios
    yield (
        f"{name}: of {tuned.choice.tried} shapes none is clearly faster for these copies "
        f"({load.least} to {load.most} bytes, {load.mean_bytes:.0f} on average)."
    )
    words = {other: ratio(effect) for other, effect in ratios.items()} | {name: "chosen"}
    columns = (
        Column("", itemgetter(0), "name"),
        Column("ns per call", lambda row: median(row[1]), "number", "{:.2f}".format),
        Column(f"time of {name} ÷ its time", lambda row: words[row[0]]),
    )
    yield from ("", Grid(columns, list(tuned.choice.finalists.items())))
    if better := [other for other, effect in ratios.items() if effect.ci and effect.ci[0] > 1.0]:
        yield from ("", f"Not generated, yet faster here: {few(better)}.")
    yield from _refused(tuned)
    yield from ("", f"The routine: kdyno lab memcpy generate {name} -o FILE.S (or tune -o FILE.S).")
    now = ratios.get("orig")
    if share is None or now is None or now.ratio is None:
        yield (
            "No prediction: that needs memcpy's share of the time, which `kdyno profile` shows, "
            "as --share, and a kernel source in the cache."
        )
    else:
        interval = ""
        if now.ci is not None:
            low, high = now.ci
            interval = f" ({figures.interval((after(share, low), after(share, high)))})"
        yield (
            f"Predicted: with {percent(share)} of the time in memcpy, "
            f"{figures.percent(after(share, now.ratio) - 1.0)} of that time"
            f"{interval}; a memcpy that costs nothing: {figures.percent(-share)}."
        )


def cpu_tuning(tuned: CpuTuned) -> Iterator[Part]:
    """The finalists, the four figures, and the routine of each function."""
    memcpy = tuned.memcpy
    yield (
        f"{memcpy.shape.name}: of {memcpy.choice.tried} shapes of memcpy none is clearly better on "
        f"this CPU: {memcpy.name}."
    )
    columns = (
        Column("", itemgetter(0), "name"),
        Column("score", lambda row: median(row[1]), "number", "{:.3f}".format),
    )
    yield from ("", Grid(columns, list(memcpy.choice.finalists.items())))
    yield (
        "The score is the time ÷ the faster of memcpy_orig and rep movsb over all loads, times by "
        "how much the worst of them exceeds 1.05; less is better."
    )
    yield from ("", figures_text(tuned.benches["memcpy"], memcpy.name).rstrip("\n"), "")
    yield from (f"{function:10} {routine}" for function, routine in tuned.routines.items())
    yield from _refused(memcpy)


def _refused(tuned: Tuned) -> Iterator[str]:
    """Of the shapes that were not timed the first one."""
    if tuned.refused:
        name, why = next(iter(tuned.refused.items()))
        count = figures.count(len(tuned.refused), "shape")
        yield f"refused: {count}; {plain.short(name)}: {plain.sentence(why)}"


def tuning_json(tuned: Tuned, **more: object) -> dict[str, Any]:
    """Scores are ns per call of recorded copies, or a CPU's."""
    ratios = {name: {"ratio": at.ratio, "ci": at.ci} for name, at in tuned.ratios.items()}
    value = {"schema": 1, "shape": tuned.shape.name, "refused": tuned.refused}
    return {**value, **asdict(tuned.choice), "time_ratios": ratios, **more}


_COLOURS = ("variant", "slower", "faster", "failed", "inconclusive")
_KNOWN = {
    "orig": ("ink", [6, 3]),
    "fsrm": ("baseline", [6, 3]),
    "rep-movsb": ("baseline", [6, 3]),
    "glibc": ("muted", [2, 2]),
    "nothing": ("muted", [1, 3]),
}
"""Rivals, the C library and the bound: colour and dashes."""
_FEWEST = 3
"""A curve of fewer sizes is not a curve."""


def picture(bench: Bench) -> str:
    """All curves below each other as one SVG that stands alone."""
    keys = [key for key in results.curves(bench) if len(results.curve(bench, key)) >= _FEWEST]
    keys = keys or results.curves(bench)[:1]
    head = vega.heading(
        "Memory routines" + (": the published comparison" * (bench.plan == "paper")),
        f"{plain.sentence(bench.cpu)}, {bench.clock.core_ghz:.2f} GHz, {bench.blocks} blocks",
    )
    words = " ".join([answer(bench), *(_in_words(bench, key) for key in keys)])
    panels = [_chart(bench, key) for key in keys]
    return vega.alone(vega.stack(panels, head, spacing_px=28), words) + "\n"


def _chart(bench: Bench, key: Curve) -> vega.Spec:
    loads = results.curve(bench, key)
    near = [load for load in bench.loads if load.level == bench.loads[0].level]
    fastest = results.speed(bench, bench.ranked("routine"), near)
    fastest = [each for each in fastest if each not in _KNOWN][: len(_COLOURS)]
    styles = {name: (colour, [1, 0]) for name, colour in zip(fastest, _COLOURS, strict=False)}
    styles |= {each.name: _KNOWN[each.name] for each in bench.timed if each.name in _KNOWN}
    rows = [
        {"name": plain.short(each), "bytes": load.mean_bytes, "ns": results.ns(bench, each, load)}
        for each in styles
        for load in loads
    ]
    for load in loads:
        if (least_ns := results.ceiling_ns(bench, load)) is not None:
            # What lies far below one call's cost would only stretch the axis.
            row = {"name": "ceiling", "bytes": load.mean_bytes, "ns": max(least_ns, 0.3)}
            rows.append(row)
    styles["ceiling"] = ("accent", [8, 2, 1, 2])
    low, high = loads[0].mean_bytes, loads[-1].mean_bytes
    one_size = loads[0].least == loads[0].most
    # The fastest of each band, the band's middle and its lower edge; random sizes overlap: there
    # are no bands along the axis.
    winners: list[dict[str, Any]] = []
    for best in results.bands(bench, key) if one_size else ():
        edge, end = max(low, best.least), min(high, best.most)
        # A band of one point at the axis' end has no room for a word.
        if end > 1.5 * edge:
            name = vega.fitted(plain.short(best.name), 90)
            winners.append({"name": name, "middle": math.sqrt(edge * end), "edge": edge})
    # Copies of nothing have a mean below one byte.
    first, last = max(0, math.ceil(math.log2(low))), math.floor(math.log2(high) + 1e-9)
    powers = [1 << power for power in range(first, last + 1)]
    times = [results.ns(bench, each.name, load) for each in bench.timed for load in loads]
    # 1, 2, 5, 10 … over all times; of many only 1, 10 …
    decades = [10.0**power for power in range(-2, 9)]
    marks = [factor * ten for ten in decades for factor in (1, 2, 5)]
    marks = [mark for mark in marks if min([*times, 0.3]) <= mark <= max(times, default=0.3)]
    return vega.filled(
        Path(__file__).with_name("curve.json"),
        title=title(key),
        domain=[low, high],
        x_title="bytes" if one_size else "mean bytes of the draws",
        sizes=powers[:: max(1, math.ceil(len(powers) / 9))],
        times=marks if len(marks) <= 9 else [mark for mark in marks if mark in decades],
        rows=rows,
        winners=winners,
        edges=winners[1:],
        names=[plain.short(name) for name in styles],
        colours=[f"var(--{colour})" for colour, _ in styles.values()],
        dashes=[dash for _, dash in styles.values()],
    )


def _in_words(bench: Bench, key: Curve) -> str:
    """The curve's result for those who cannot see it."""
    loads = results.curve(bench, key)
    winners = "; ".join(
        f"{span(best.least, best.most)} bytes: {plain.name(best.name)}"
        + (f", {ratio(best.ratio)}" if best.ratio is not None else "")
        for best in results.bands(bench, key)
    )
    return (
        f"Time per call by size, {title(key)}, "
        f"{span(loads[0].least, loads[-1].most)} bytes. Fastest: {winners}. "
        "The JSON file has every figure."
    )
