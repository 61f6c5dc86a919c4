# SPDX-License-Identifier: MIT
"""Instructions and estimated cycles against time, on changes whose cost is known. By hand:

    python -m benchmarks.estimates [--minutes M] [--build]

Each change is from one kernel to another. Native kernels are counted and estimated in QEMU; the
same changes are timed by turns under User Mode Linux for M minutes. Printed for each change is what
either of the three says of its direction, and how often they agree with time: the table of
docs/counting.md. Exit status 1 where an estimate has the direction that time has not.
"""

from __future__ import annotations

import argparse
import dataclasses
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from kdyno.experiment.loader import parse
from kdyno.experiment.model import Experiment
from kdyno.judge.judging import verdict_of
from kdyno.judge.question import Question
from kdyno.measure.builder import build_all, check
from kdyno.measure.execution import Options, execute
from kdyno.measure.vocabulary import vocabulary
from kdyno.paths import cache_root
from kdyno.store.verdict import Verdict
from kdyno.suites.catalogue import load as load_suites

COSTS = {
    "nops": "-DKDYNO_NOPS=8000",
    "lines-512K": "-DKDYNO_LINES=128 -DKDYNO_ROOM=524288",
    "lines-64M": "-DKDYNO_LINES=128 -DKDYNO_ROOM=67108864",
    "branches": "-DKDYNO_BRANCHES=1000",
    "branches-by-chance": "-DKDYNO_BRANCHES=1000 -DKDYNO_CHANCE=1",
    "string": "-DKDYNO_STRING=16384 -DKDYNO_ROOM=16384",
}
"""Variant → flags of kernel/sys.c, see kernel/patches/known-costs.patch."""
OTHERS = {"pipe-O1": ("fs/pipe.c", "-O1")}
"""Variant → (file, its flags)."""


@dataclass(frozen=True)
class Change:
    """From one kernel to another, seen in one case."""

    before: str
    after: str
    case: str = "syscall"


CHANGES = (
    Change("stock", "nops"),
    Change("stock", "lines-512K"),
    Change("stock", "string"),
    Change("lines-512K", "lines-64M"),
    Change("branches", "branches-by-chance"),
    Change("nops", "lines-64M"),
    Change("nops", "branches-by-chance"),
    Change("nops", "string"),
    Change("string", "lines-512K"),
    Change("stock", "pipe-O1", "pipe"),
)
_NOTHING = 0.002
"""A difference of less than this is none: neither of the three is believed to less."""

_TEXT = """
name = "estimates"
question = "Does an estimate of cycles tell the direction of time?"
baseline = "stock"
[kernel]
source  = "debian:linux-source-7.3"
config  = ["bench"]
patches = ["known-costs.patch"]
[variant.stock]
{variants}
[machine]
{machine}
[[suite]]
name  = "unixbench"
cases = ["syscall", "pipe"]
[measure]
seed = 1
{measure}
"""
_MACHINES = {
    "time": ('kind = "uml"\nmemory = "256M"', "max_boots = 10000\nprecision = 0.0001"),
    "instructions": (
        'kind = "qemu"\nmemory = "256M"',
        'metric = "instructions"\nmax_boots = 3\nmin_boots = 3',
    ),
    "cycles-estimated": (
        'kind = "qemu"\nmemory = "256M"',
        'metric = "cycles-estimated"\nmax_boots = 3\nmin_boots = 3',
    ),
}


def experiment_of(metric: str) -> Experiment:
    flags = {name: ("kernel/sys.c", each) for name, each in COSTS.items()} | OTHERS
    variants = "\n".join(
        f'[variant.{name}]\ncflags = {{ "{file}" = "{each}" }}'
        for name, (file, each) in flags.items()
    )
    machine, measure = _MACHINES[metric]
    text = _TEXT.format(variants=variants, machine=machine, measure=measure)
    return parse(text, "benchmarks.estimates", Path.cwd(), vocabulary(load_suites()))


def measured(metric: str, minutes: float) -> Verdict:
    experiment = experiment_of(metric)
    if metric == "time":
        measure = dataclasses.replace(experiment.measure, max_minutes=minutes)
        experiment = dataclasses.replace(experiment, measure=measure)
    with tempfile.TemporaryDirectory() as folder:
        options = Options(cache=cache_root(), runs=Path(folder))
        run, _ = execute(experiment, load_suites(), options)
        return verdict_of(run, Question.of(run.manifest()), "")


def values_of(verdict: Verdict) -> dict[tuple[str, str], float]:
    """(variant, case) → how much an operation costs, against the baseline's 1."""
    found = {(verdict.baseline, it.case): 1.0 for it in verdict.effects}
    for it in verdict.effects:
        if it.ratio is not None:
            ratio = it.ratio if it.better == "lower" else 1 / it.ratio
            found[it.variant, it.case] = ratio
    return found


def change_of(values: Mapping[tuple[str, str], float], change: Change) -> float:
    """As a share: 0.1 is a tenth more."""
    return values[change.after, change.case] / values[change.before, change.case] - 1.0


def word(share: float) -> str:
    return "none" if abs(share) < _NOTHING else "more" if share > 0 else "less"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=4.0, help="of timing, by turns")
    parser.add_argument("--build", action="store_true", help="build the kernels and stop")
    asked = parser.parse_args()
    if asked.build:
        for metric in ("instructions", "time"):
            experiment = experiment_of(metric)
            recipes = check(experiment, cache_root(), lambda _text, _part: None)
            build_all(experiment, recipes, cache_root(), told=print)
        return 0
    found = {metric: values_of(measured(metric, asked.minutes)) for metric in _MACHINES}
    print("| from | to | case | time | instructions | estimated cycles |")
    print("| --- | --- | --- | --: | --: | --: |")
    agreed = dict.fromkeys(_MACHINES, 0)
    for change in CHANGES:
        shares = {metric: change_of(values, change) for metric, values in found.items()}
        cells = []
        for metric, share in shares.items():
            same = word(share) == word(shares["time"])
            agreed[metric] += same
            cells.append(f"{100 * share:+.1f} %" + ("" if same else " (no)"))
        print(f"| {change.before} | {change.after} | {change.case} | {' | '.join(cells)} |")
    print(
        f"\nthe direction of time: instructions {agreed['instructions']} of {len(CHANGES)}, "
        f"estimated cycles {agreed['cycles-estimated']} of {len(CHANGES)}"
    )
    return 0 if agreed["cycles-estimated"] == len(CHANGES) else 1


if __name__ == "__main__":
    raise SystemExit(main())
