# SPDX-License-Identifier: MIT
"""Instructions counted in QEMU, held against what is known of them (about 6 minutes).

    python -m benchmarks.counting [FIGURE ...] [--json FILE]

Figures: boot, same, known, layout, suite, profile, clock. Only `boot`, `suite`, `profile` and
`clock` are times: the counts come out the same whatever else the machine does, and `same` loads all
of its CPUs on purpose.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.kernels import result_of
from benchmarks.load import busy, on_every_cpu
from benchmarks.speed import Figure, finish, options, quiet, timed
from kdyno.experiment.model import Experiment
from kdyno.labs.profile.counts import count
from kdyno.machines.emulator import COUNTS
from kdyno.machines.machine import Outcome
from kdyno.measure import boot as booting
from kdyno.measure.bench import Bench, bench_of, plan_of
from kdyno.measure.builder import build_all, check
from kdyno.measure.execution import Options
from kdyno.paths import cache_root, data_root
from kdyno.store.boot import BootRecord
from kdyno.store.run import list_runs
from kdyno.suites.catalogue import load as load_suites
from kdyno.suites.record import Sample
from kdyno.verbs.subject import load

EXPERIMENTS = data_root() / "experiments"
KNOWN, LAYOUT = EXPERIMENTS / "known-path.toml", EXPERIMENTS / "layout.toml"
WORK = {"syscall": 50_000, "pipe": 15_000, "fscopy-1024": 20_000}
"""Operations of the cases whose counts are looked at by themselves."""
OF_PLACE = {"umask": "syscall", "pipe": "pipe", "file": "fscopy-1024"}
"""The first word of a variant's name, and the case that its place is in the path of."""
BOOTS = 10


def only(experiment: Experiment, variants: Sequence[str], cases: Sequence[str]) -> Experiment:
    """Of these variants and cases alone; where none are named, of all."""
    kept = tuple(
        variant for variant in experiment.variants if not variants or variant.name in variants
    )
    uses = tuple(replace(use, cases=tuple(cases) or use.cases) for use in experiment.suites)
    return replace(experiment, variants=kept, suites=uses)


def bench(file: Path, *variants: str) -> Bench:
    """Of these variants alone, with their kernels built."""
    experiment, suites = load(file)
    experiment = only(experiment, variants, ())
    cache = cache_root()
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


def boot() -> list[Figure]:
    setup = bench(KNOWN, "stock")
    took = [cpu_s(booted(setup, {})) for _ in range(5)]
    how = f"median of 5, {min(took):.2f} to {max(took):.2f}"
    return [Figure("boot to power-off, counted", statistics.median(took), "CPU s", 0.8, how=how)]


def same() -> list[Figure]:
    setup = bench(KNOWN, "stock")
    seen: dict[str, set[tuple[tuple[int, int], ...]]] = {name: set() for name in WORK}
    with on_every_cpu(busy):
        for _ in range(BOOTS):
            transcript = booted(setup, WORK).transcript
            for number, name in enumerate(job.case for job in setup.jobs if job.case in WORK):
                sample = transcript.result(number)
                assert isinstance(sample, Sample), sample
                seen[name].add(sample.reps)
    most = max(map(len, seen.values()))
    how = f"{BOOTS} boots of {', '.join(seen)} beside a load on every CPU"
    return [Figure("different counts of one case", most, "", 1, how=how)]


def known() -> list[Figure]:
    effects = result_of("run", str(KNOWN))["effects"]
    off = {}
    for effect in effects:
        place, _, number = effect["variant"].partition("-")
        more = int(number) if effect["case"] == OF_PLACE[place] else 0
        off[effect["variant"], effect["case"]] = abs(
            effect["value"] - effect["baseline_value"] - more
        )
    worst = max(off, key=lambda name: off[name])
    how = f"{len(off)} effects of n = 1, 5, 41 in three places; worst: {' in '.join(worst)}"
    inexact = sum(not effect["exact"] for effect in effects)
    return [
        Figure("n known instructions: off by, at most", off[worst], "instr", 0.0005, how=how),
        Figure("of these, effects that are not exact", inexact, "", 0),
    ]


def layout() -> list[Figure]:
    effects = result_of("run", str(LAYOUT))["effects"]
    exact = {_name(effect): abs(effect["ratio"] - 1) * 100 for effect in effects if effect["exact"]}
    others = {_name(effect): effect["ci"] for effect in effects if not effect["exact"]}
    missing = [name for name, ends in others.items() if not (ends and ends[0] <= 1 <= ends[1])]
    widest = max((ends[1] - ends[0] for ends in others.values() if ends), default=0.0)
    how = f"{len(others)} intervals, the widest {100 * widest:.2f} %; {', '.join(missing)}"
    return [
        Figure("layout alone: the largest exact effect", max(exact.values()), "%", 0.0005,
               how=", ".join(exact)),
        Figure("layout alone: intervals without 0", len(missing), "", 0, how=how.rstrip("; ")),
    ]  # fmt: skip


def _name(effect: Any) -> str:
    return f"{effect['variant']} {effect['case']}"


def suite() -> list[Figure]:
    """The whole of unixbench but its controls: two kernels, from the beginning to the verdict."""
    cases = [case.name for case in load_suites()["unixbench"].cases if not case.control]
    text = KNOWN.read_text(encoding="utf-8")
    begin = text.index("cases = ")
    text = text[:begin] + f"cases = {cases}" + text[text.index("\n", begin) :]
    with tempfile.TemporaryDirectory(prefix="kdyno-counting-") as folder:
        file = Path(folder) / "suite.toml"
        file.write_text(text.replace("'", '"'), encoding="utf-8")
        words = ("--variant", "pipe-41", "--exact-boots", "1")
        results: list[Any] = []
        took = timed(lambda: results.append(result_of("run", str(file), *words)))
    effects = results[0]["effects"]
    exact = sum(effect["exact"] for effect in effects)
    boots = results[0]["boots"]["stock"]
    how = f"{len(effects)} cases, {exact} exact after one boot, {boots} boots of each kernel in all"
    return [Figure("unixbench's kernel cases, two kernels", took, "s", 90, how=how)]


def profile() -> list[Figure]:
    experiment, suites = load(KNOWN)
    experiment = only(experiment, ("stock", "pipe-41"), ("pipe",))
    options = Options(cache=cache_root(), runs=Path())
    spent: list[float] = []
    plain, mine = (counted.cases[0] for counted in count(experiment, suites, options))
    effects = result_of("run", str(KNOWN), "--variant", "pipe-41", "--case", "pipe")["effects"]
    (counted,) = (effect["value"] - effect["baseline_value"] for effect in effects)
    ratio = (mine.total - plain.total) / counted
    setup = bench(KNOWN, "stock")
    for with_plugin in (False, True):
        spent.append(statistics.median(_boot_s(setup, with_plugin) for _ in range(3)))
    how = f"{mine.total - plain.total:.4f} against {counted:.4f}"
    slower = f"{spent[1]:.2f} against {spent[0]:.2f} CPU s of a boot with {', '.join(WORK)}"
    return [
        Figure("profile's sum ÷ counted difference, off 1 by", abs(ratio - 1), "", 1e-4, how=how),
        Figure("profiled boot ÷ ordinary boot", spent[1] / spent[0], "×", 3, how=slower),
    ]


def clock() -> list[Figure]:
    """The guest's seconds and the host's between its first and its last word, CPUs emulated."""
    text = KNOWN.read_text(encoding="utf-8").replace("metric", "# metric")
    text = text.replace('kind   = "qemu"', 'kind   = "qemu"\naccel  = "tcg"')
    with tempfile.TemporaryDirectory(prefix="kdyno-clock-") as folder:
        file = Path(folder) / "clock.toml"
        file.write_text(text, encoding="utf-8")
        words = ("--variant", "pipe-41", "--case", "pipe", "--interleave", "boots")
        quiet("run", str(file), *words, "--max-boots", "3", "--seconds", "0.2", "--runs", folder)
        (run,) = list_runs(Path(folder))
        hosts = [boot.host for boot in run.boots() if isinstance(boot, BootRecord)]
    apart = [abs((host.guest_clock_s or 0) - (host.host_clock_s or 0)) for host in hosts]
    how = f"of {len(hosts)} boots"
    return [Figure("emulated seconds, apart from the host's", max(apart), "s", 0.05, how=how)]


def _boot_s(setup: Bench, with_plugin: bool) -> float:
    with tempfile.TemporaryDirectory() as folder:
        left = ((COUNTS, Path(folder) / COUNTS),) if with_plugin else ()
        return cpu_s(booted(setup, WORK, left))


FIGURES: dict[str, Callable[[], list[Figure]]] = {
    figure.__name__: figure for figure in (boot, same, known, layout, suite, profile, clock)
}


if __name__ == "__main__":
    given = options(__doc__, FIGURES)
    names = given.parts or list(FIGURES)
    sys.exit(finish([figure for name in names for figure in FIGURES[name]()], given.json))
