# SPDX-License-Identifier: MIT
"""The memory-routine laboratory in tables and sentences: benches, copies and tunings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from functools import partial
from operator import itemgetter
from statistics import median
from typing import Any

from rich.text import Text

from kdyno.labs.memcpy import results
from kdyno.labs.memcpy.copies import Distribution, aligned, by_size, size_quantile
from kdyno.labs.memcpy.loads import Load
from kdyno.labs.memcpy.results import Bench
from kdyno.labs.memcpy.search import CpuTuned, Prediction, Tuned
from kdyno.report import figures, plain
from kdyno.report.show import spreadsheet, terminal
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


def title(level: str, mode: str, alignment: str) -> str:
    """What a curve was measured with, in words."""
    where = "in L1" if level == "L1" else f"from {level}"
    return f"{_MODES[mode]}, {where}{_ALIGNMENTS.get(alignment, '')}"


def label(level: str, mode: str, alignment: str) -> str:
    """The same in three words, for tables."""
    return f"{level} · {mode}" + (f" · {alignment}" if mode == "fixed" else "")


def ratio(effect: PairedEffect | None) -> str:
    """``×0.52 (0.51 … 0.53)``: a ratio of times; below 1 is faster."""
    if effect is None or effect.ratio is None:
        return ""
    return f"×{effect.ratio:.3f} ({ends(effect.lo, effect.hi).text or 'too few blocks'})"


def ends(low: float | None, high: float | None) -> Cell:
    """``0.51 … 0.53``: the interval alone."""
    return Cell() if low is None or high is None else Cell(f"{low:.3f} … {high:.3f}", low)


whole_percent = partial(figures.percent, signed=False, decimals=0)


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
    sentences = []
    rivals = " or ".join(map(plain.short, bench.ranked("rival")))
    if near and (winner := results.best(bench, near, near[0].least, near[-1].most)) is not None:
        text = f"{plain.short(winner.name)} is the fastest over all that was copied in L1"
        if winner.ratio is not None and winner.ratio.ratio is not None:
            faster = ", whichever is faster" if " or " in rivals else ""
            text += f": its time is {ratio(winner.ratio)} that of {rivals}{faster}"
        sentences.append(text + ".")
    steady = results.steadiest(bench, near)
    if steady is not None and len(near) > 1:
        load = steady.load
        sentences.append(
            f"{plain.short(steady.name)} has the mildest worst case: {ratio(steady.ratio)} at "
            f"{span(load.least, load.most)} bytes, "
            f"{title(load.level, load.mode, load.alignment)}."
        )
    return " ".join(sentences)


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
        f"{plain.sentence(bench.cpu)}, {bench.clock.core_ghz:.2f} GHz (time-stamp counter "
        f"{bench.clock.tsc_ghz:.2f}); {figures.count(bench.blocks, 'block')}; 95 % intervals; "
        "× is time ÷ time of the faster of the kernel’s loop (orig) and rep movsb",
        style="dim",
    )
    yield ""
    curves = {key: results.bands(bench, *key) for key in results.curves(bench)}
    grids = {key: Grid(BEST, bands) for key, bands in curves.items() if bands}
    widths = terminal.together(grids.values())
    for key, grid in grids.items():
        yield Text(f"Fastest, {title(*key)}", style="bold")
        yield Layout(grid, widths)
        yield ""
    fit = max(4, (terminal.used(screen) - _NAMES) // _TIME)
    for key in results.curves(bench):
        if key not in _TIMED and key[1] != "distribution":
            continue
        yield Text(f"ns per call, {title(*key)}", style="bold")
        loads = fitting(results.curve(bench, *key))
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
        return Cell(whole_percent(best) if best is not None else "", style="dim")
    value = results.ns(bench, name, load)
    least = min((results.ns(bench, each, load) for each in copying), default=0.0)
    text = f"{value:.3g}" if value < 1000 else f"{value:.0f}"
    return Cell(text, value, style="bold green" if value == least else "")


def bench_csv(bench: Bench) -> str:
    """One line per contender and load, full precision."""
    rows = results.timings(bench)
    return spreadsheet.text(Grid([Column(key, itemgetter(key)) for key in rows[0]], rows))


def figures_text(bench: Bench, name: str | None = None) -> str:
    """The goals of a best routine, one a line, each beside its target."""
    goals = results.goals(bench, name)
    none = "nothing to judge: no routine, or no rival, was timed in L1"
    columns = (
        Column("goal", lambda goal: goal.name),
        Column("measured", lambda goal: goal.value, "number", "{:.3f}".format),
        Column("95 % interval", lambda goal: ends(*goal.ends or (None, None)), "number"),
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
    """Who copies: the ``top`` sites with most calls, the rest in one line; in which sizes, as bars;
    and how aligned."""
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


def tuning(tuned: Tuned, load: Load, prediction: Prediction | None) -> Iterator[Part]:
    """The finalists, and the gain that is predicted."""
    name = tuned.shape.name
    yield (
        f"{name} is the fastest of {tuned.choice.tried} shapes for these copies "
        f"({load.least} to {load.most} bytes, {load.mean_bytes:.0f} on average, {load.mode})."
    )
    ratios = {other: ratio(effect) for other, effect in tuned.ratios.items()} | {name: "chosen"}
    columns = (
        Column("", itemgetter(0), "name"),
        Column("ns per call", lambda row: median(row[1]), "number", "{:.2f}".format),
        Column(f"time of {name} ÷ its time", lambda row: ratios[row[0]]),
    )
    yield from ("", Grid(columns, list(tuned.choice.finalists.items())))
    better = [other for other, effect in tuned.ratios.items() if (effect.lo or 0.0) > 1.0]
    if better:
        yield from ("", f"Not generated, yet faster here: {few(better)}.")
    yield from _unused(tuned)
    yield from ("", f"The routine: kdyno lab memcpy generate {name} -o FILE.S (or tune -o FILE.S).")
    if prediction is None:
        yield (
            "No prediction: give memcpy's share of the time, which `kdyno profile` shows, with "
            "--share, and a kernel source with --tree."
        )
    else:
        limits = f" ({figures.interval(prediction.ends)})" if prediction.ends else ""
        yield (
            f"Predicted: with {percent(prediction.share)} of the time in memcpy, "
            f"{figures.percent(prediction.ratio - 1.0)} of that time{limits}; a memcpy that costs "
            f"nothing: {figures.percent(-prediction.share)}."
        )


def cpu_tuning(tuned: CpuTuned) -> Iterator[Part]:
    """The finalists, the four figures, and the routine of each function."""
    memcpy = tuned.memcpy
    yield (
        f"{memcpy.shape.name} is the best memcpy of {memcpy.choice.tried} shapes on this CPU: "
        f"{memcpy.name}."
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
    for function, routine in tuned.routines.items():
        yield f"{function:10} {routine}"
    yield from _unused(memcpy)


def _unused(tuned: Tuned) -> Iterator[str]:
    """What was not timed, and why; of the shapes that a check refused the first one."""
    for name, why in tuned.left_out.items():
        yield f"left out: {plain.short(name)}: {plain.sentence(why)}"
    if tuned.refused:
        name, why = next(iter(tuned.refused.items()))
        count = figures.count(len(tuned.refused), "shape")
        yield f"refused: {count}; {plain.short(name)}: {plain.sentence(why)}"


def tuning_json(tuned: Tuned, load: Load, prediction: Prediction | None) -> dict[str, Any]:
    """Scores are ns per call. ``predicted``: time after ÷ time before."""
    ratios = {name: {"ratio": at.ratio, "ci": at.ci} for name, at in tuned.ratios.items()}
    value = _tuned_json(tuned, "memcpy-tuning") | {"load": load.id, "mean_bytes": load.mean_bytes}
    return value | {"time_ratios": ratios, "predicted": prediction and vars(prediction)}


def cpu_tuning_json(tuned: CpuTuned, row: str) -> dict[str, Any]:
    value = _tuned_json(tuned.memcpy, "memcpy-cpu-tuning") | {"row": row}
    figures = {goal.key: {"value": goal.value, "met": goal.met} for goal in tuned.goals}
    return value | {"routines": tuned.routines, "figures": figures}


def _tuned_json(tuned: Tuned, kind: str) -> dict[str, Any]:
    fields = {"shape": tuned.shape.name, "refused": tuned.refused, "left_out": tuned.left_out}
    return {"schema": 1, "kind": kind, **fields, **asdict(tuned.choice)}
