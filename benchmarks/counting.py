# SPDX-License-Identifier: MIT
"""Instructions counted in QEMU, held against what is known of them (about 6 minutes).

    python -m benchmarks.counting [PART ...] [--json FILE]

Parts: boot, exact, suite, profile, clock. All but `exact` are times: the counts come out the same
whatever else the machine does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.figure import Figure, boots_of, main, median_of, result_of, run_of, timed
from kdyno.experiment.model import Experiment
from kdyno.labs.profile.counts import count
from kdyno.machines.emulator import COUNTS
from kdyno.machines.machine import Outcome
from kdyno.measure import boot as booting
from kdyno.measure.bench import Bench, bench_of, plan_of
from kdyno.measure.builder import build_all, check
from kdyno.measure.execution import Options
from kdyno.paths import cache_root, data_root
from kdyno.suites.catalogue import load as load_suites
from kdyno.verbs.subject import load

KNOWN = data_root() / "experiments" / "known-path.toml"
WORK = {"syscall": 50_000, "pipe": 15_000, "fscopy-1024": 20_000}
"""Operations of the cases whose counts are looked at by themselves."""
OF_PLACE = {"umask": "syscall", "pipe": "pipe", "file": "fscopy-1024"}
"""The first word of a variant's name, and the case that its place is in the path of."""


def of_variants(experiment: Experiment, *names: str) -> Experiment:
    kept = tuple(variant for variant in experiment.variants if variant.name in names)
    return replace(experiment, variants=kept)


def stock() -> Bench:
    """The baseline alone, with its kernel built."""
    experiment, suites = load(KNOWN)
    experiment, cache = of_variants(experiment, "stock"), cache_root()
    images = build_all(experiment, check(experiment, cache, lambda *_: None), cache).images
    return bench_of(experiment, suites, images, None, cache, lambda _text: None)


def booted(
    setup: Bench, cases: Mapping[str, int], left: tuple[tuple[str, Path], ...] = ()
) -> Outcome:
    """The baseline, once, with so many operations of each case; ``left``: as Plan's."""
    jobs = tuple(
        replace(job, seconds=None, operations=cases[job.case])
        for job in setup.jobs
        if job.case in cases
    )
    plan = plan_of(setup, setup.experiment.baseline, jobs)
    outcome = booting.boot(setup, replace(plan, left=left))
    assert outcome.host.status == "ok", outcome.host
    return outcome


def cpu_s(outcome: Outcome) -> float:
    return (outcome.host.user_s or 0.0) + (outcome.host.sys_s or 0.0)


def boot(_request: Any) -> Iterator[Figure]:
    setup = stock()
    took_s = median_of(5, lambda: cpu_s(booted(setup, {})))
    yield Figure("boot to power-off, counted", took_s, "CPU s", 0.8, how="median of 5")


def exact(_request: Any) -> Iterator[Figure]:
    effects = result_of("run", KNOWN)["effects"]
    off = {}
    for effect in effects:
        place, _, number = effect["variant"].partition("-")
        more = int(number) if effect["case"] == OF_PLACE[place] else 0
        difference = effect["value"] - effect["baseline_value"]
        off[f"{effect['variant']} in {effect['case']}"] = abs(difference - more)
    worst = max(off, key=lambda name: off[name])
    how = f"{len(off)} effects of n = 1, 5, 41 in three places; worst: {worst}"
    yield Figure("n known instructions: off by, at most", off[worst], "instr", 0.0005, how=how)
    inexact = sum(not effect["exact"] for effect in effects)
    yield Figure("of these, effects that are not exact", inexact, "", 0)


def suite(request: Any) -> Iterator[Figure]:
    """The whole of unixbench but its controls: two kernels, from the beginning to the verdict."""
    cases = [case.name for case in load_suites()["unixbench"].cases if not case.control]
    text = KNOWN.read_text(encoding="utf-8")
    begin = text.index("cases = ")
    text = text[:begin] + f"cases = {cases}" + text[text.index("\n", begin) :]
    file = request.folder / "suite.toml"
    file.write_text(text.replace("'", '"'), encoding="utf-8")
    results: list[Any] = []
    words = ("--variant", "pipe-41", "--exact-boots", "1")
    took_s = timed(lambda: results.append(result_of("run", file, *words)))
    effects, boots = results[0]["effects"], results[0]["boots"]["stock"]
    first = sum(effect["exact"] for effect in effects)
    how = f"{len(effects)} cases, {first} exact after one boot, {boots} boots of each kernel in all"
    yield Figure("unixbench's kernel cases, two kernels", took_s, "s", 90, how=how)


def profile(request: Any) -> Iterator[Figure]:
    experiment, suites = load(KNOWN)
    experiment = of_variants(experiment, "stock", "pipe-41")
    pipe = tuple(replace(use, cases=("pipe",)) for use in experiment.suites)
    options = Options(cache=cache_root(), runs=Path())
    results = count(replace(experiment, suites=pipe), suites, options)
    plain, mine = (counted.cases[0].total for counted in results)
    (effect,) = result_of("run", KNOWN, "--variant", "pipe-41", "--case", "pipe")["effects"]
    counted = effect["value"] - effect["baseline_value"]
    off, how = abs((mine - plain) / counted - 1), f"{mine - plain:.4f} against {counted:.4f}"
    yield Figure("profile's sum ÷ counted difference, off 1 by", off, "", 1e-4, how=how)
    setup, left = stock(), ((COUNTS, request.folder / COUNTS),)
    ordinary_s, profiled_s = (
        median_of(3, lambda own=own: cpu_s(booted(setup, WORK, own)))  # type: ignore[misc]
        for own in ((), left)
    )
    how = f"{profiled_s:.2f} against {ordinary_s:.2f} CPU s of a boot with {', '.join(WORK)}"
    yield Figure("profiled boot ÷ ordinary boot", profiled_s / ordinary_s, "×", 3, how=how)


def clock(request: Any) -> Iterator[Figure]:
    """The guest's seconds and the host's between its first and its last word, CPUs emulated."""
    text = KNOWN.read_text(encoding="utf-8").replace("metric", "# metric")
    text = text.replace('kind   = "qemu"', 'kind   = "qemu"\naccel  = "tcg"')
    words = ("--variant", "pipe-41", "--case", "pipe", "--interleave", "boots")
    run = run_of(text, request.folder, *words, "--max-boots", "3", "--seconds", "0.2")
    hosts = [boot.host for boot in boots_of(run)]
    apart = max(abs((host.guest_clock_s or 0) - (host.host_clock_s or 0)) for host in hosts)
    yield Figure("emulated seconds, apart from the host's", apart, "s", 0.05)


if __name__ == "__main__":
    main(__doc__, boot, exact, suite, profile, clock)
