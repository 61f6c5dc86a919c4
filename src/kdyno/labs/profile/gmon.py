# SPDX-License-Identifier: MIT
"""gmon.out, which a kernel built with CONFIG_GPROF leaves at a clean power-off.

Its histogram and its call arcs are read here instead of gprof's printed table: that is rounded,
and its columns change where a call count is missing, as it is for functions in assembly. A bin
that two functions share is divided between them by length, as gprof does. The format is that of
gprof's manual, "Profiling Data File Format"."""

from __future__ import annotations

import struct
from collections import defaultdict
from dataclasses import dataclass

from kdyno.errors import ToolError
from kdyno.labs.profile.record import FunctionTime
from kdyno.labs.profile.symbols import Symbols

_MAGIC = b"gmon"
_HEAD = struct.Struct("<4sI12x")
_HISTOGRAM = struct.Struct("<QQII15sc")
_ARC = struct.Struct("<QQI")
_BINS_MOST = 16 << 20
OUTSIDE = "[outside the kernel's text]"


@dataclass(frozen=True)
class Gmon:
    """low, high: addresses of the text; counts: samples per bin, of equal length in bytes."""

    low: int
    high: int
    rate_hz: int
    counts: tuple[int, ...]
    arcs: tuple[tuple[int, int, int], ...]
    """(address of the call, address of the called function, calls)."""


def parse(data: bytes) -> Gmon:
    """ToolError with what is wrong: the file comes from the kernel under test."""
    if len(data) < _HEAD.size or data[:4] != _MAGIC:
        raise ToolError("gmon.out: is not a profile (it does not begin with gmon)")
    _magic, version = _HEAD.unpack_from(data)
    if version != 1:
        raise ToolError(f"gmon.out: version {version}, known is 1")
    at = _HEAD.size
    text: tuple[int, int, int] | None = None
    counts: list[int] = []
    arcs: list[tuple[int, int, int]] = []
    try:
        while at < len(data):
            kind, at = data[at], at + 1
            if kind == 0:
                low, high, bins, rate_hz, _dimension, _letter = _HISTOGRAM.unpack_from(data, at)
                if not 0 < bins <= _BINS_MOST or high <= low or not 0 < rate_hz <= 1_000_000:
                    raise ToolError(
                        f"gmon.out: a histogram of {bins} bins from {low:#x} to {high:#x} at "
                        f"{rate_hz} Hz makes no sense"
                    )
                own = struct.unpack_from(f"<{bins}H", data, at + _HISTOGRAM.size)
                if text is not None and (text, len(counts)) != ((low, high, rate_hz), bins):
                    raise ToolError("gmon.out: two histograms that do not fit together")
                counts = [a + b for a, b in zip(counts, own, strict=True)] if text else [*own]
                text = low, high, rate_hz
                at += _HISTOGRAM.size + 2 * bins
            elif kind == 1:
                arcs.append(_ARC.unpack_from(data, at))
                at += _ARC.size
            else:
                raise ToolError(f"gmon.out: record of unknown kind {kind} at byte {at - 1}")
    except struct.error:
        raise ToolError(
            "gmon.out is cut short: the kernel did not end by a clean power-off"
        ) from None
    if text is None:
        raise ToolError("gmon.out: there is no histogram in it: nothing was sampled")
    return Gmon(*text, tuple(counts), tuple(arcs))


def functions(histogram: Gmon, symbols: Symbols) -> tuple[FunctionTime, ...]:
    """Seconds and calls per function, most seconds first. Assembly has no calls (None)."""
    seconds: defaultdict[str, float] = defaultdict(float)
    span = (histogram.high - histogram.low) / len(histogram.counts)
    for index, count in enumerate(histogram.counts):
        if not count:
            continue
        low = histogram.low + round(index * span)
        high = max(low + 1, histogram.low + round((index + 1) * span))
        left = 1.0
        for name, share in symbols.within(low, high):
            seconds[name] += share * count / histogram.rate_hz
            left -= share
        if left > 1e-9:
            seconds[OUTSIDE] += left * count / histogram.rate_hz
    calls: defaultdict[str, int] = defaultdict(int)
    for _caller, called, count in histogram.arcs:
        if (callee := symbols.name(called)) is not None:
            calls[callee] += count
    # A function that was called and never sampled says nothing about time.
    rows = [FunctionTime("kernel", name, own_s, calls.get(name)) for name, own_s in seconds.items()]
    return tuple(sorted(rows, key=lambda row: (-row.seconds, row.function)))
