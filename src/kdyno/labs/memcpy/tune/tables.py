# SPDX-License-Identifier: MIT
"""A tuning in words: the finalists, the gain that is predicted, and the one that was measured."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from operator import itemgetter
from statistics import fmean, median
from typing import Any

from kdyno.labs.memcpy.time.tables import few, ratio
from kdyno.labs.memcpy.tune.result import Tuned
from kdyno.report import figures, plain
from kdyno.report.show.grid import Column, Grid
from kdyno.report.show.terminal import Part
from kdyno.store.verdict import Effect, Verdict

VARIANT = "tuned"


def parts(tuned: Tuned, verdict: Verdict | None = None) -> Iterator[Part]:
    """What a terminal shows."""
    load, choice = tuned.load, tuned.choice
    yield (
        f"{tuned.shape.name} is the fastest of {choice.tried} shapes for these copies "
        f"({load.least} to {load.most} bytes, {load.mean:.0f} on average, {load.mode})."
    )
    ratios = {name: ratio(tuned.ratios.get(name)) for name in choice.finalists}
    ratios[choice.best] = "chosen"
    columns = [
        Column("", itemgetter(0), "name"),
        Column("ns per call", lambda of: median(of[1]), "number", "{:.2f}".format),
        Column(f"time of {tuned.shape.name} ÷ its time", lambda of: ratios[of[0]]),
    ]
    yield from ("", Grid(columns, list(choice.finalists.items())))
    better = [
        name for name, effect in tuned.ratios.items() if effect.lo is not None and effect.lo > 1.0
    ]
    if better:
        yield from ("", f"Not generated, yet faster here: {few(better)}.")
    yield from unused(tuned.left_out, tuned.refused)
    yield from (
        "",
        f"The routine: kdyno memcpy generate {tuned.shape.name} -o FILE.S (or tune -o FILE.S).",
        _predicted(tuned),
    )
    if verdict is not None:
        yield "Measured, time tuned ÷ time stock:"
        yield Grid(_MEASURED, _effects(verdict))
        if (mean := measured_ratio(verdict)) is not None:
            yield f"  geometric mean of these cases (no controls): {_less(mean)}"


def unused(left_out: Mapping[str, str], refused: Mapping[str, str]) -> Iterator[str]:
    """What was not timed, and why; of the shapes that a check refused the first one."""
    for name, why in left_out.items():
        yield f"left out: {plain.short(name)}: {plain.sentence(why)}"
    if refused:
        name, why = next(iter(refused.items()))
        count = figures.count(len(refused), "shape")
        yield f"refused: {count}; {plain.short(name)}: {plain.sentence(why)}"


def _predicted(tuned: Tuned) -> str:
    it = tuned.prediction
    if it is None:
        return (
            "No prediction: give memcpy's share of the time with --share, or --profile "
            "(`kdyno profile` writes one), and a kernel source with --tree."
        )
    percent = figures.percent(it.share.value, signed=False, decimals=1)
    ends = "" if it.ends is None else f" ({figures.interval(it.ends)})"
    return (
        f"Predicted: with {percent} of {it.share.of} in memcpy, {_less(it.ratio)} of that time"
        f"{ends}; a memcpy that costs nothing: {_less(it.bound)}."
    )


def measured_ratio(verdict: Verdict) -> float | None:
    """Geometric mean over the cases of time tuned ÷ time stock; controls are left out."""
    logs = [math.log(_time(it)[0]) for it in _effects(verdict) if not it.control]
    return math.exp(fmean(logs)) if logs else None


def _effects(verdict: Verdict) -> list[Effect]:
    return [it for it in verdict.effects if it.variant == VARIANT and it.ratio is not None]


def _time(it: Effect) -> tuple[float, tuple[float, float] | None]:
    """The effect as a ratio of times, below 1 is faster."""
    assert it.ratio is not None
    if it.better == "lower":
        return it.ratio, it.ci
    return 1.0 / it.ratio, (1.0 / it.ci[1], 1.0 / it.ci[0]) if it.ci is not None else None


def _less(value: float) -> str:
    return figures.percent(value - 1.0)


_MEASURED = (
    Column("case", lambda it: f"{it.suite}/{it.case}", "name"),
    Column("change", lambda it: _time(it)[0], "number", _less),
    Column("interval", lambda it: _time(it)[1] and figures.interval(_time(it)[1]), "number"),
)


def to_json(tuned: Tuned, verdict: Verdict | None = None) -> dict[str, Any]:
    """The same for programs."""
    it = tuned.prediction
    found: dict[str, Any] = {
        "schema": 1,
        "kind": "memcpy-tuning",
        "shape": tuned.shape.name,
        "tried": tuned.choice.tried,
        "load": tuned.load.id,
        "mean_bytes": tuned.load.mean,
        "ns": {name: list(ns) for name, ns in tuned.choice.finalists.items()},
        "time_ratios": {
            name: {"ratio": effect.ratio, "ci": [effect.lo, effect.hi]}
            for name, effect in tuned.ratios.items()
        },
        "rounds": [
            {"stage": round_.stage, "ns": dict(round_.ns), "kept": list(round_.kept)}
            for round_ in tuned.choice.rounds
        ],
        "refused": tuned.refused,
        "left_out": tuned.left_out,
        "predicted": None
        if it is None
        else {
            "time_ratio": it.ratio,
            "ci": list(it.ends) if it.ends is not None else None,
            "share": it.share.value,
            "of": it.share.of,
            "bound": it.bound,
        },
    }
    if verdict is not None:
        found["measured"] = {
            "time_ratio": measured_ratio(verdict),
            "cases": [
                {"suite": each.suite, "case": each.case, "time_ratio": time, "ci": ends}
                for each in _effects(verdict)
                for time, ends in [_time(each)]
            ],
        }
    return found
