# SPDX-License-Identifier: MIT
"""Instructions counted in QEMU, held against what is known of them (about 6 minutes).

    python -m benchmarks.counting [PART ...] [--json FILE]

Parts: boot, exact, suite, profiled. All but `exact` are times: the counts come out the same
whatever else the machine does.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.figure import Figure, main, verdict_of
from kdyno.experiment.loader import Overrides, apply
from kdyno.labs.profile.counts import ready
from kdyno.machines.emulator import COUNTS
from kdyno.measure import boot as booting
from kdyno.measure.bench import Bench, plan_of
from kdyno.measure.execution import Options
from kdyno.paths import cache_root, data_root
from kdyno.suites.catalogue import load as load_suites
from kdyno.verbs.subject import load

KNOWN = data_root() / "experiments" / "known-path.toml"
WORK = {"syscall": 50_000, "pipe": 15_000, "fscopy-1024": 20_000}
"""Operations of the cases whose counts are looked at by themselves."""
OF_PLACE = {"umask": "syscall", "pipe": "pipe", "file": "fscopy-1024"}
"""The first word of a variant's name, and the case that its place is in the path of."""


def stock() -> Bench:
    """The baseline alone, with its kernel built."""
    experiment, suites = load(KNOWN)
    experiment = apply(Overrides(variants=("stock",)), experiment)
    return ready(experiment, suites, Options(cache_root(), Path()))


def boot_s(
    setup: Bench, cases: Mapping[str, int], left: tuple[tuple[str, Path], ...] = ()
) -> float:
    """CPU seconds of the baseline, booted once with so many operations of each case; ``left``: as
    Plan's."""
    jobs = tuple(
        replace(job, seconds=None, operations=cases[job.case])
        for job in setup.jobs
        if job.case in cases
    )
    plan = plan_of(setup, setup.experiment.baseline, jobs)
    host = booting.boot(setup, replace(plan, left=left)).host
    assert host.status == "ok", host
    return (host.user_s or 0.0) + (host.sys_s or 0.0)


def boot(_request: Any) -> Iterator[Figure]:
    setup = stock()
    took_s = median(boot_s(setup, {}) for _ in range(5))
    yield Figure("boot to power-off, counted", took_s, "CPU s", 0.8, how="median of 5")


def exact(request: Any) -> Iterator[Figure]:
    effects = verdict_of(KNOWN, request.folder).effects
    off = {}
    for effect in effects:
        place, _, number = effect.variant.partition("-")
        more = int(number) if effect.case == OF_PLACE[place] else 0
        assert effect.value is not None and effect.baseline_value is not None, effect
        difference = effect.value - effect.baseline_value
        off[f"{effect.variant} in {effect.case}"] = abs(difference - more)
    worst = max(off, key=lambda name: off[name])
    how = f"{len(off)} effects of n = 1, 5, 41 in three places; worst: {worst}"
    yield Figure("n known instructions: off by, at most", off[worst], "instr", 0.0005, how=how)
    inexact = sum(not effect.exact for effect in effects)
    yield Figure("of these, effects that are not exact", inexact, "", 0)


def suite(request: Any) -> Iterator[Figure]:
    """The whole of unixbench but its controls: two kernels, from the beginning to the verdict."""
    cases = [case.name for case in load_suites()["unixbench"].cases if not case.control]
    text = re.sub("(?m)^cases = .*", f"cases = {json.dumps(cases)}", KNOWN.read_text("utf-8"))
    began_s = time.monotonic()
    verdict = verdict_of(text, request.folder, "--variant", "pipe-41", "--exact-boots", "1")
    took_s = time.monotonic() - began_s
    effects, boots = verdict.effects, verdict.boots["stock"]
    first = sum(effect.exact for effect in effects)
    how = f"{len(effects)} cases, {first} exact after one boot, {boots} boots of each kernel in all"
    yield Figure("unixbench's kernel cases, two kernels", took_s, "s", 90, how=how)


def profiled(request: Any) -> Iterator[Figure]:
    setup, left = stock(), ((COUNTS, request.folder / COUNTS),)
    ordinary_s = median(boot_s(setup, WORK) for _ in range(3))
    profiled_s = median(boot_s(setup, WORK, left) for _ in range(3))
    how = f"{profiled_s:.2f} against {ordinary_s:.2f} CPU s of a boot with {', '.join(WORK)}"
    yield Figure("profiled boot ÷ ordinary boot", profiled_s / ordinary_s, "×", 3, how=how)


if __name__ == "__main__":
    main(__doc__, boot, exact, suite, profiled)
