# SPDX-License-Identifier: MIT
"""What a count of instructions does not decide: refused, or flagged where somebody insists."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from kdyno.errors import UsageError
from kdyno.experiment.model import Experiment
from kdyno.kernels.image import Image
from kdyno.store.verdict import Flag
from kdyno.suites.catalogue import Case, why_uncounted

_COPIES = (
    "a string instruction counts once for each byte that it moves, and a vector instruction once "
    "for 64 of them"
)
_MOST_NAMED = 6
COUNT_S = 0.02
"""Of a case, by a clock of one instruction a nanosecond. The guest program does it in nine parts
of 2.2 million: a tick (every 10 million) falls into two of them, so that most are without. How
short a part is does not matter: what refuses parts below a millisecond is for clocks."""
PARTS = 9
_TICKED = 1 / 3
"""Share of parts with a tick beyond which most may agree in one and not in none."""
_HZ = re.compile(r"^CONFIG_HZ=(\d+)$", re.MULTILINE)


def ticks_of(images: Mapping[str, Image]) -> tuple[Flag, ...]:
    """Kernels whose ticks come so often that counted parts without any are few."""
    found = {
        name: int(hz[1])
        for name, image in images.items()
        if (hz := _HZ.search(image.config.read_text(encoding="utf-8")))
    }
    often = [name for name, hz in found.items() if hz * COUNT_S / PARTS > _TICKED]
    if not often:
        return ()
    shown = ", ".join(f"{name} (HZ = {found[name]})" for name in often)
    text = (
        f"{shown}: many of the {PARTS} parts that are counted have a tick, so a count is of the "
        "case and of ticks, and may be of one more or less; CONFIG_HZ=100 counts the case alone"
    )
    return (Flag(kind="ticks", text=text),)


def undecided(experiment: Experiment, cases: Sequence[Case]) -> Mapping[str, str]:
    """What is asked → why the experiment's metric does not decide it."""
    metric = experiment.measure.metric
    if metric == "time":
        return {}
    found: dict[str, str] = {}
    if experiment.cpus > 1:
        found[f"cpus = {experiment.cpus}"] = (
            "a count is of one CPU; several run one after the other then, and what they cost each "
            "other is time"
        )
    routines = {(variant.memcpy, variant.routines) for variant in experiment.variants}
    if metric == "instructions" and len(routines) > 1:
        found["memory routines"] = _COPIES
    found |= {f"{case.suite}/{case.name}": why for case in cases if (why := why_uncounted(case))}
    return found


def refuse_undecided(experiment: Experiment, cases: Sequence[Case]) -> None:
    """UsageError with every reason, unless the experiment insists."""
    if experiment.measure.insist:
        return
    if said := _by_reason(undecided(experiment, cases)):
        metric = experiment.measure.metric
        raise UsageError(
            f'[measure] metric = "{metric}" does not decide {"; nor ".join(said)}. '
            'metric = "time" does; --case and cases = [...] leave cases out; '
            "[measure] insist = true counts all the same, and the verdict says so"
        )


def flags_of(experiment: Experiment, cases: Sequence[Case]) -> tuple[Flag, ...]:
    """For the verdict, where somebody insists."""
    return tuple(
        Flag(kind="not-decided", text=f"counted as was asked for, and decides nothing: {said}")
        for said in _by_reason(undecided(experiment, cases))
    )


def _by_reason(found: Mapping[str, str]) -> list[str]:
    names: dict[str, list[str]] = {}
    for name, why in found.items():
        names.setdefault(why, []).append(name)
    return [f"{_named(those)}: {why}" for why, those in names.items()]


def _named(names: list[str]) -> str:
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
