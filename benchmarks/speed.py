# SPDX-License-Identifier: MIT
"""kdyno's own speed, as ratios within one run: part of ``make bench`` (12 minutes, two builds).

    python -m benchmarks.speed [PART ...] [--json FILE]

Parts: start, builds, boot-overhead, inside-cases. Nothing else should run on
the machine meanwhile.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from benchmarks.figure import KDYNO, Figure, boots_of, main, run_of, timed
from kdyno.kernels.build import build
from kdyno.machines.cpus import place
from kdyno.machines.guest import boot, guest_program
from kdyno.machines.uml import UmlBoot
from kdyno.measure.builder import check
from kdyno.paths import cache_root, data_root
from kdyno.suites.job import Job, render
from kdyno.verbs.subject import load

EXPERIMENT = data_root() / "experiments" / "simd-memcpy.toml"
PAIRS = 25


def start(_request: Any) -> Iterator[Figure]:
    program = Path(sys.executable).with_name("kdyno")
    words = [program, "--help"]
    times_s = [
        timed(lambda: subprocess.run(words, check=True, capture_output=True)) for _ in range(9)
    ]
    yield Figure("`kdyno --help`", statistics.median(times_s), "s", most=0.25)


def builds(_request: Any) -> Iterator[Figure]:
    """Clean builds against incremental ones, in a cache of their own without ccache's help."""
    experiment, _ = load(EXPERIMENT)
    recipes = check(experiment, cache_root(), lambda _text, _part: None)
    names = sorted(recipes.of, key=lambda name: name != experiment.baseline)
    with tempfile.TemporaryDirectory(dir=cache_root(), prefix="bench-") as folder:
        cache, seconds, images = Path(folder), {}, {}

        def build_s(name: str, from_scratch: bool = False) -> float:
            began_s, recipe = time.monotonic(), recipes.of[name]
            images[name] = build(recipe, cache, name=name, from_scratch=from_scratch)
            return time.monotonic() - began_s

        for name in names:
            seconds[name] = build_s(name)
            print(f"  built {name} in {seconds[name]:.1f} s", file=sys.stderr, flush=True)
        clean, *others = seconds.values()
        middle, four = statistics.median(others), clean + sum(others[:3])
        how = f"{middle:.1f} s against {clean:.0f} s"
        name = "variant that changes one file ÷ clean build"
        yield Figure(name, middle / clean, "×", most=0.05, how=how)
        name = "four kernels that differ in memcpy ÷ one clean build"
        yield Figure(name, four / clean, "×", 1.3)
        last = names[-1]
        kernel = images[last].kernel.read_bytes()
        (images[last].folder / "build.json").unlink()
        how = f"{last}; clean with a warm ccache: {build_s(last, from_scratch=True):.0f} s"
        same = float(images[last].kernel.read_bytes() == kernel)
        yield Figure("incremental image is byte for byte the clean one", same, "", least=1, how=how)


def boot_overhead(request: Any) -> Iterator[Figure]:
    """kdyno's boot with an empty job against the bare kernel process doing the same."""
    experiment, _ = load(EXPERIMENT)
    recipe = check(experiment, cache_root(), lambda _text, _part: None).of[experiment.baseline]
    image = build(recipe, cache_root(), name=experiment.baseline)
    program, placement = guest_program(cache_root(), 64), place(1)
    boot_of = UmlBoot(kernel=image.kernel, program=program, job=Job(), placement=placement)
    cpu, job = ",".join(map(str, placement.guest)), request.folder / "job"

    def bare() -> None:
        job.write_text(render(Job(), "0" * 32))
        line = [
            *("taskset", "-c", cpu, str(image.kernel), "mem=1024M", "root=/dev/root"),
            *("rootfstype=hostfs", "rootflags=/", "ro", "quiet", "con=null"),
            *("con0=null,fd:2", "con1=null,fd:1", f"uml_dir={request.folder}/", "umid=bench"),
            *("seccomp=on", f"init={program}", f"kdyno.job={job}"),
        ]
        done = subprocess.run(line, stdin=subprocess.DEVNULL, capture_output=True, check=True)
        assert b'"t":"bye"' in done.stdout, done

    def ours() -> None:
        assert boot(boot_of).host.status == "ok"

    ratios = [timed(ours) / timed(bare) for _ in range(PAIRS + 3)][3:]
    name, how = "empty boot: kdyno ÷ bare linux process", f"median of {PAIRS} pairs"
    yield Figure(name, statistics.median(ratios), "×", most=1.25, how=how)


def inside_cases(request: Any) -> Iterator[Figure]:
    """A measuring run: the share of its wall time inside cases, and kdyno's own memory."""
    words, peak = ("--interleave", "boots", "--max-boots", "8"), request.folder / "peak"
    run = run_of(EXPERIMENT, request.folder, *words, program=("-c", KDYNO, peak))
    boots = boots_of(run)
    inside_s = sum(boot.host.inside_s or 0 for boot in boots)
    first, last = (datetime.fromisoformat(boots[at].job.started_at) for at in (0, -1))
    wall_s = (last - first).total_seconds() + (boots[-1].host.wall_s or 0)
    name = "share of a measuring run inside cases"
    yield Figure(name, inside_s / wall_s, "", least=0.85, how=f"{len(boots)} boots")
    yield Figure("kdyno's own memory, peak", int(peak.read_text()) / 1024, "MB", most=200)


if __name__ == "__main__":
    main(__doc__, start, builds, boot_overhead, inside_cases)
