# SPDX-License-Identifier: MIT
"""A tuning in words: the finalists, the gain that is predicted, and the one that was measured."""

from __future__ import annotations

import math
from statistics import fmean, median
from typing import Any

from kdyno.memcpy.tuned import Tuned
from kdyno.report import figures, plain
from kdyno.report.benchtable import few, ratio
from kdyno.store.verdict import Effect, Verdict

VARIANT = "tuned"


def text(tuned: Tuned, verdict: Verdict | None = None) -> str:
    """What a terminal shows."""
    load, choice = tuned.load, tuned.choice
    lines = [
        f"{tuned.shape.name} is the fastest of {choice.tried} shapes for these copies "
        f"({load.least} to {load.most} bytes, {load.mean:.0f} on average, {load.mode}).",
        "",
        f"{'':28} {'ns per call':>11}  time of {tuned.shape.name} ÷ its time",
    ]
    for name, ns in choice.finalists.items():
        said = ratio(tuned.ratios.get(name)) if name != choice.best else "chosen"
        lines.append(f"{plain.short(name):28} {median(ns):11.2f}  {said}")
    better = [
        name for name, effect in tuned.ratios.items() if effect.lo is not None and effect.lo > 1.0
    ]
    if better:
        lines += ["", f"Not generated, yet faster here: {few(better)}."]
    for name, why in tuned.left_out.items():
        lines.append(f"left out: {plain.short(name)}: {plain.sentence(why)}")
    if tuned.refused:
        name, why = next(iter(tuned.refused.items()))
        lines.append(
            f"refused: {figures.count(len(tuned.refused), 'shape')}; {plain.short(name)}: "
            f"{plain.sentence(why)}"
        )
    lines += [
        "",
        f"The routine: kdyno memcpy generate {tuned.shape.name} -o FILE.S (or tune -o FILE.S).",
        *_predicted(tuned, verdict),
    ]
    return "\n".join(lines) + "\n"


def _predicted(tuned: Tuned, verdict: Verdict | None) -> list[str]:
    it = tuned.prediction
    lines = []
    if it is None:
        lines.append(
            "No prediction: give memcpy's share of the time by --share, or --profile "
            "(`kdyno profile` writes one), and a kernel source by --tree."
        )
    else:
        percent = figures.percent(it.share.value, signed=False, decimals=1)
        lines.append(
            f"Predicted: with {percent} of {it.share.of} in memcpy, {_less(it.ratio)} of that time"
            f"{_ends(it.ends)}; a memcpy that costs nothing: {_less(it.bound)}."
        )
    if verdict is not None:
        effects = _effects(verdict)
        lines.append("Measured, time tuned ÷ time stock:")
        for effect in effects:
            time, ends = _time(effect)
            lines.append(
                f"  {plain.short(effect.suite)}/{plain.short(effect.case):24} {_less(time)}"
                f"{_ends(ends)}"
            )
        mean = measured_ratio(verdict)
        if mean is not None:
            lines.append(f"  geometric mean of these cases (no controls): {_less(mean)}")
    return lines


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


def _ends(ends: tuple[float, float] | None) -> str:
    return "" if ends is None else f" ({figures.interval(ends)})"


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
