# SPDX-License-Identifier: MIT
"""The tuning of a CPU in words and for programs."""

from __future__ import annotations

from collections.abc import Iterator
from operator import itemgetter
from statistics import median
from typing import Any

from kdyno.labs.memcpy.time.tables import figures_text
from kdyno.labs.memcpy.tune.for_cpu import CpuTuned
from kdyno.labs.memcpy.tune.tables import unused
from kdyno.report.show.grid import Column, Grid
from kdyno.report.show.terminal import Part


def parts(tuned: CpuTuned) -> Iterator[Part]:
    """What a terminal shows."""
    yield (
        f"{tuned.shape.name} is the best memcpy of {tuned.choice.tried} shapes on this CPU: "
        f"{tuned.name}."
    )
    columns = [
        Column("", itemgetter(0), "name"),
        Column("score", lambda of: median(of[1]), "number", "{:.3f}".format),
    ]
    yield from ("", Grid(columns, list(tuned.choice.finalists.items())))
    yield (
        "The score is the time ÷ the faster of memcpy_orig and rep movsb over all loads, times by "
        "how much the worst of them exceeds 1.05; less is better."
    )
    yield from ("", figures_text(tuned.benches["memcpy"], tuned.name).rstrip("\n"), "")
    for function, routine in tuned.routines.items():
        yield f"{function:10} {routine}"
    yield from unused(tuned.left_out, tuned.refused)


def to_json(tuned: CpuTuned, row: str) -> dict[str, Any]:
    """The same for programs."""
    return {
        "schema": 1,
        "kind": "memcpy-cpu-tuning",
        "row": row,
        "shape": tuned.shape.name,
        "tried": tuned.choice.tried,
        "routines": dict(tuned.routines),
        "scores": {name: list(values) for name, values in tuned.choice.finalists.items()},
        "figures": {goal.key: goal.value for goal in tuned.goals},
        "met": {goal.key: goal.met for goal in tuned.goals},
        "rounds": [
            {"stage": it.stage, "scores": dict(it.ns), "kept": list(it.kept)}
            for it in tuned.choice.rounds
        ],
        "refused": dict(tuned.refused),
        "left_out": dict(tuned.left_out),
    }
