# SPDX-License-Identifier: MIT
"""What taking turns is worth, on this machine, now: ``make bench`` has it (about 40 minutes).

    python -m benchmarks.turns [PART ...] [--minutes M] [--runs-of-copies N] [--json FILE]

Boots and turns are measured in the same minutes on the same images: whichever has had less time is
next. Half-widths are raw ones on the log scale, at the same seconds of measuring. Nothing else
should run on the machine; the loads of the parts called so are made here.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import random
import statistics
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.figure import Figure, main, verdict_of
from kdyno.experiment.loader import Overrides
from kdyno.judge.judging import look
from kdyno.labs.profile.counts import ready
from kdyno.machines.cpus import measuring
from kdyno.measure import boot as booting, turns
from kdyno.measure.bench import Bench, plan_of
from kdyno.measure.execution import Options, manifest_of
from kdyno.measure.loop import block_order, draw_of, effort
from kdyno.paths import cache_root, data_root
from kdyno.stats.effect import PairedEffect
from kdyno.store.samples import Key, Samples
from kdyno.store.verdict import Verdict
from kdyno.verbs.subject import load

EXPERIMENTS = data_root() / "experiments"
WAYS = ("boots", "turns")
HEAD = """
name = "turns"
question = "Turns, measured"
baseline = "stock"
[kernel]
source = "debian:linux-source-7.3"
config = ["bench"]
[variant.stock]
"""
SIX = """
[[suite]]
name = "unixbench"
cases = ["fscopy-256", "fscopy-1024", "fscopy-4096", "pipe", "syscall", "dhry2reg"]
[measure]
precision = "0.01%"
max_boots = 2000
equivalent = "0.5%"
"""
COPY = f"{HEAD}{SIX}calibrate = true\n"
TWO = f'{HEAD}[variant.fsrm]\nmemcpy = "fsrm"\n{SIX}'


def both_ways(setup: Bench, minutes: float) -> tuple[dict[str, Mapping[Key, PairedEffect]], float]:
    """So many minutes of boots and as many of turns, mixed: (way → raw effects, the share of the
    turns' wall time inside turns)."""
    manifest = manifest_of(setup.experiment, Overrides(), images={}, failed={}, cases=setup.infos)
    names = list(setup.variants)
    gathered = {way: Samples() for way in WAYS}
    spent_s = dict.fromkeys(WAYS, 0.0)
    inside_s, blocks = 0.0, dict.fromkeys(WAYS, 0)
    while min(spent_s.values()) < minutes * 60:
        way = min(WAYS, key=lambda name: spent_s[name])
        block = blocks[way]
        order, draw = block_order(1, block, names), draw_of(1, block)
        began_s = time.monotonic()
        if way == "turns":
            data = gathered[way]
            beside_s = (spent_s[way] - inside_s) / block if block else 1.0
            rounds = effort(setup, manifest, data, beside_s)
            plans = [plan_of(setup, name, turns=True, draw=draw, block=block) for name in order]
            boots = turns.measure(setup, plans, f"1:{block}", first_index=0, effort=rounds)
            for record, _ in boots:
                gathered[way].add(record)
                inside_s += record.host.inside_s or 0.0
        else:
            for name in order:
                plan = plan_of(setup, name, draw=draw, block=block)
                gathered[way].add(booting.measure(setup, [plan], first_index=0)[0][0])
        blocks[way] += 1
        spent_s[way] += time.monotonic() - began_s
    effects = {way: look(gathered[way], manifest, blocks[way], 0.01, 6)[0] for way in WAYS}
    for way, own in effects.items():
        widths = ", ".join(f"{100 * half_width(effect):.2f} %" for effect in own.values())
        print(f"  {way}: {blocks[way]} blocks in {spent_s[way]:.0f} s; half-widths {widths}")
    return effects, inside_s / spent_s["turns"]


def half_width(effect: PairedEffect) -> float:
    """On the log scale; NaN: there is no interval."""
    return math.nan if effect.half_width is None else effect.half_width


@contextmanager
def loaded(beside: bool) -> Iterator[None]:
    """Beside a process on each CPU that computes for 0.2 to 2 s and sleeps as long."""
    cpus = os.sched_getaffinity(0) if beside else ()
    start, parent = multiprocessing.Process, os.getpid()
    children = [start(target=_restless, args=(cpu, parent), daemon=True) for cpu in cpus]
    for child in children:
        child.start()
    try:
        yield
    finally:
        for child in children:
            child.kill()


def _restless(cpu: int, parent: int) -> None:
    os.sched_setaffinity(0, {cpu})
    dice = random.Random(cpu)
    while os.getppid() == parent:
        seconds = dice.uniform(0.2, 2.0)
        end_s = time.monotonic() + seconds
        while time.monotonic() < end_s:
            pass
        time.sleep(seconds)


def quiet(request: Any, beside: bool = False) -> Iterator[Figure]:
    experiment, suites = load(EXPERIMENTS / "simd-memcpy.toml")
    setup = ready(experiment, suites, Options(cache_root(), Path()))
    with measuring("a benchmark", wait=True), loaded(beside):
        effects, share = both_ways(setup, request.minutes)
    name = "half-width, boots ÷ turns"
    pairs = zip(effects["boots"].values(), effects["turns"].values(), strict=True)
    mean = statistics.geometric_mean(half_width(one) / half_width(two) for one, two in pairs)
    how = "geometric mean over the effects"
    if beside:
        yield Figure(f"{name}, beside a load", mean, "×", least=15, how=how)
    else:
        yield Figure(name, mean, "×", least=5, how=how)
        yield Figure("share of wall time inside turns", share, "", least=0.85)


def quiet_load(request: Any) -> Iterator[Figure]:
    yield from quiet(request, beside=True)


def widths_of(verdict: Verdict) -> list[float]:
    """Corrected half-widths, in per cent."""
    ends = [effect.ci or (0.0, math.inf) for effect in verdict.effects]
    return [50 * (high - low) for low, high in ends]


def copies(request: Any) -> Iterator[Figure]:
    """Runs of a kernel against itself in which anything is called faster or slower."""
    false = 0
    for seed in range(request.runs_of_copies):
        words = ("--max-minutes", 0.75, "--seed", seed)
        effects = verdict_of(COPY, request.folder, *words).effects
        false += any(effect.verdict in ("faster", "slower") for effect in effects)
    name = f"A/A, {request.runs_of_copies} runs: with a false verdict"
    yield Figure(name, false, "", most=1)


def demo(request: Any, beside: bool = False) -> Iterator[Figure]:
    with loaded(beside):
        verdict = verdict_of(EXPERIMENTS / "simd-demo.toml", request.folder)
    undecided = sum(effect.verdict == "inconclusive" for effect in verdict.effects)
    middle = statistics.median(widths_of(verdict))
    how = f"of {len(verdict.effects)}; median half-width, corrected, {middle:.2f} %"
    where, most = (", beside a load", 4) if beside else ("", 2)
    yield Figure(f"`make demo`{where}: effects undecided", undecided, "", most, how=how)


def demo_load(request: Any) -> Iterator[Figure]:
    yield from demo(request, beside=True)


def five(request: Any) -> Iterator[Figure]:
    name = "five minutes, two kernels: half-width"
    for where, most in (("", 0.2), (", beside a load", 0.35)):
        with loaded(bool(where)):
            widest = max(widths_of(verdict_of(TWO, request.folder, "--max-minutes", 5)))
        yield Figure(name + where, widest, "%", most=most, how="largest of six, corrected")


if __name__ == "__main__":
    parts = (quiet, quiet_load, demo, demo_load, five, copies)
    main(__doc__, *parts, minutes=3.0, runs_of_copies=20)
