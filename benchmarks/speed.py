# SPDX-License-Identifier: MIT
"""kdyno's own speed, as ratios within one run: ``make bench`` (about 12 minutes, two builds).

    python -m benchmarks.speed [--skip-builds] [--sandbox] [--json FILE]

Every figure has its target beside it. Nothing else should run on the machine meanwhile.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path
from unittest import mock

from kdyno.experiment.model import Experiment
from kdyno.kernels.build import build
from kdyno.kernels.image import Image
from kdyno.labs.profile.record import stored_profiles
from kdyno.machines.cpus import place
from kdyno.machines.program import guest_program
from kdyno.machines.uml import UmlBoot, boot
from kdyno.measure.builder import Recipes, check
from kdyno.paths import cache_root, data_root
from kdyno.sandbox import Sandbox
from kdyno.store.boot import BootRecord
from kdyno.store.run import list_runs
from kdyno.suites.job import CaseJob, Job, render
from kdyno.verbs.options import load

EXPERIMENT = data_root() / "experiments" / "simd-memcpy.toml"


@dataclass(frozen=True)
class Figure:
    """One measured figure. ``most``/``least``: its target, one of them."""

    name: str
    value: float
    unit: str
    most: float | None = None
    least: float | None = None
    how: str = ""

    @property
    def met(self) -> bool:
        return (self.most is None or self.value <= self.most) and (
            self.least is None or self.value >= self.least
        )

    def line(self) -> str:
        target = f"≤ {self.most:g}" if self.most is not None else f"≥ {self.least:g}"
        word = "met" if self.met else "MISSED"
        return f"{self.name:58} {self.value:8.3f} {self.unit:5} {target:>8}  {word:6} {self.how}"


def finish(figures: Sequence[Figure], file: Path | None) -> int:
    """Prints the figures, keeps them in the file as JSON, and says the exit status."""
    for figure in figures:
        print(figure.line())
    if file is not None:
        values = [{**asdict(it), "met": it.met} for it in figures]
        file.write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")
    return 0 if all(figure.met for figure in figures) else 1


def timed(work: Callable[[], object]) -> float:
    start = time.monotonic()
    work()
    return time.monotonic() - start


def quiet(*arguments: str, **environment: str) -> float:
    """Wall seconds of one kdyno command."""
    return timed(
        lambda: subprocess.run(
            [sys.executable, "-m", "kdyno", *arguments],
            env={**os.environ, **environment},
            check=True,
            capture_output=True,
        )
    )


def boot_overhead(image: Image, pairs: int = 25) -> Figure:
    """kdyno's boot with an empty job against the bare kernel process doing the same."""
    program, placement = guest_program(cache_root(), 64), place(1)
    request = UmlBoot(kernel=image.kernel, program=program, job=Job(), placement=placement)
    cpu = ",".join(map(str, placement.guest))
    ratios = []
    with tempfile.TemporaryDirectory() as folder:
        job = Path(folder) / "job"

        def bare() -> None:
            job.write_text(render(Job(), "0" * 32))
            line = [
                *("taskset", "-c", cpu, str(image.kernel), "mem=1024M", "root=/dev/root"),
                *("rootfstype=hostfs", "rootflags=/", "ro", "quiet", "con=null"),
                *("con0=null,fd:2", "con1=null,fd:1", f"uml_dir={folder}/", "umid=bench"),
                *("seccomp=on", f"init={program}", f"kdyno.job={job}"),
            ]
            done = subprocess.run(line, stdin=subprocess.DEVNULL, capture_output=True, check=True)
            assert b'"t":"bye"' in done.stdout, done

        def ours() -> None:
            assert boot(request).host.status == "ok"

        for _ in range(3):
            bare(), ours()
        for _ in range(pairs):
            ratios.append(timed(ours) / timed(bare))
    return Figure(
        "empty boot: kdyno ÷ bare linux process",
        statistics.median(ratios),
        "×",
        most=1.25,
        how=f"median of {pairs} pairs",
    )


class Former(Sandbox):
    """The sandbox of a boot in 0.1.0: all of the host to be read, and root inside was root."""

    def argv(self, command: list[str], *, dropping: bool | None = None) -> list[str]:
        line = ["bwrap", "--unshare-all", "--die-with-parent", "--new-session"]
        line += ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/run"]
        line += ["--size", str(256 << 20), "--tmpfs", "/tmp"]
        for outside, inside in self.read_only:
            # Its /proc was there already, and shows more than this one file.
            line += ["--ro-bind", str(outside), inside] if inside != "/proc/cpuinfo" else []
        for descriptor, inside in self.files:
            line += ["--file", str(descriptor), inside]
        line += ["--size", str(self.memory_bytes), "--tmpfs", "/dev/shm"]
        line += ["--setenv", "HOME", "/tmp", "--setenv", "TMPDIR", "/dev/shm"]
        return [*line, "--chdir", self.chdir, "--as-pid-1", "--", *command]


class Unfiltered(Sandbox):
    """The sandbox without its filter of sockets, and without the shell that opens it."""

    def argv(self, command: list[str], *, dropping: bool | None = None) -> list[str]:
        line = super().argv(command, dropping=dropping)[4:]
        place = line.index("--seccomp")
        return line[:place] + line[place + 2 :]


def sandbox_cost(
    image: Image, name: str, other: type[Sandbox], most: float, job: Job, pairs: int
) -> Figure:
    """A boot in the sandbox against the same in another one, in turns."""
    program = guest_program(cache_root(), 64)
    request = UmlBoot(kernel=image.kernel, program=program, job=job, placement=place(1))

    def ours(kind: type[Sandbox]) -> float:
        with mock.patch("kdyno.machines.uml.Sandbox", kind):
            return timed(once)

    def once() -> None:
        done = boot(request)
        assert done.host.status == "ok", done.host

    for _ in range(3):
        ours(Sandbox), ours(other)
    ratios = []
    for number in range(pairs):
        order = (Sandbox, other) if number % 2 else (other, Sandbox)
        took = {kind: ours(kind) for kind in order}
        ratios.append(took[Sandbox] / took[other])
    low, middle, high = statistics.quantiles(ratios)
    how = f"median of {pairs} pairs, quartiles {low:.3f} and {high:.3f}"
    return Figure(name, middle, "×", most=most, how=how)


CALLS = Job(
    tuple(
        CaseJob("unixbench", case, bench, seconds=None, operations=count)
        for case, bench, count in (("pipe", "pipe", 200_000), ("context1", "context1", 40_000))
    )
)
"""A fixed number of operations, each of them some system calls of UML's own process."""


def sandbox_costs(image: Image, pairs: int = 60) -> list[Figure]:
    return [
        sandbox_cost(image, "empty boot: sandbox ÷ that of 0.1.0", Former, 1.05, Job(), pairs),
        sandbox_cost(
            image, "empty boot: with the filter ÷ without", Unfiltered, 1.02, Job(), pairs
        ),
        sandbox_cost(
            *(image, "boot of many system calls: with the filter ÷ without", Unfiltered),
            *(1.02, CALLS, pairs),
        ),
    ]


def builds(experiment: Experiment, recipes: Recipes) -> list[Figure]:
    """Clean builds against incremental ones, in a cache of their own without ccache's help."""
    figures = []
    with tempfile.TemporaryDirectory(dir=cache_root(), prefix="bench-") as folder:
        cache = Path(folder)
        seconds, images = {}, {}
        names = [experiment.baseline, *(n for n in recipes.of if n != experiment.baseline)]
        for name in names:
            recipe = recipes.of[name]
            seconds[name] = timed(
                lambda recipe=recipe, name=name: images.__setitem__(
                    name, build(recipe, cache, name=name)
                )
            )
            print(f"  built {name} in {seconds[name]:.1f} s", file=sys.stderr, flush=True)
        clean = seconds[experiment.baseline]
        others = [seconds[name] for name in names[1:]]
        four = clean + sum(others[:3])
        figures += [
            Figure(
                "variant that changes one file ÷ clean build",
                statistics.median(others) / clean,
                "×",
                most=0.05,
                how=f"{statistics.median(others):.1f} s against {clean:.0f} s",
            ),
            Figure(
                "four kernels that differ in memcpy ÷ one clean build", four / clean, "×", most=1.3
            ),
        ]
        last = names[-1]
        kept = images[last].kernel.read_bytes()
        (images[last].folder / "build.json").unlink()
        again = timed(lambda: build(recipes.of[last], cache, name=last, from_scratch=True))
        same = images[last].kernel.read_bytes() == kept
        figures.append(
            Figure(
                "incremental image is byte for byte the clean one",
                float(same),
                "",
                least=1,
                how=f"{last}; clean with a warm ccache: {again:.0f} s",
            )
        )
    return figures


def same_again() -> Figure:
    quiet("build", str(EXPERIMENT))
    took = [quiet("build", str(EXPERIMENT), "--variant", "fsrm") for _ in range(5)]
    return Figure("`kdyno build` of the same variant again", statistics.median(took), "s", most=0.5)


def help_time() -> Figure:
    kdyno = Path(sys.executable).with_name("kdyno")
    took = [
        timed(lambda: subprocess.run([kdyno, "--help"], check=True, capture_output=True))
        for _ in range(9)
    ]
    return Figure("`kdyno --help`", statistics.median(took), "s", most=0.25)


def inside_cases() -> list[Figure]:
    """A measuring run: the share of its wall time inside cases, and kdyno's own memory."""
    with tempfile.TemporaryDirectory() as folder:
        quiet(
            *("run", str(EXPERIMENT), "--interleave", "boots", "--max-boots", "8"),
            *("--runs", folder),
        )
        memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        (run,) = list_runs(Path(folder))
        boots = [it for it in run.boots() if isinstance(it, BootRecord)]
        inside = sum(it.host.inside_s or 0 for it in boots)
        first = datetime.fromisoformat(boots[0].job.started_at)
        last = datetime.fromisoformat(boots[-1].job.started_at)
        wall = (last - first).total_seconds() + (boots[-1].host.wall_s or 0)
    return [
        Figure(
            "share of a measuring run inside cases",
            inside / wall,
            "",
            least=0.85,
            how=f"{len(boots)} boots",
        ),
        Figure("kdyno's own memory, peak", memory, "MB", most=200),
    ]


def sampled() -> Figure:
    """perf's samples of a boot, all together, against the CPU time that the host counted."""
    with tempfile.TemporaryDirectory() as folder:
        words = ("--method", "perf", "--case", "fscopy-1024", "--seconds", "0.5", "--boots", "2")
        quiet("profile", str(EXPERIMENT), "--variant", "fsrm", *words, "--runs", folder)
        (run,) = list_runs(Path(folder))
        boots = [it for profile in stored_profiles(run).values() for it in profile.boots]
    off = [abs(it.sampled_s / it.cpu_s - 1) for it in boots if it.cpu_s]
    how = f"worst of {len(off)} boots; more where perf may not look into the host's kernel"
    return Figure("perf: samples ÷ CPU time, off 1 by", max(off), "", most=0.15, how=how)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--skip-builds", action="store_true")
    parser.add_argument("--sandbox", action="store_true", help="only what the sandbox costs")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    experiment, _ = load(EXPERIMENT)
    recipes = check(experiment, cache_root(), lambda _text, _part: None)
    experiment = replace(
        experiment, variants=tuple(it for it in experiment.variants if it.name in recipes.of)
    )
    if asked.sandbox:
        image = build(recipes.of[experiment.baseline], cache_root(), name=experiment.baseline)
        return finish(sandbox_costs(image), asked.json)
    figures = [help_time()]
    if not asked.skip_builds:
        figures += builds(experiment, recipes)
    figures += [same_again()]
    image = build(recipes.of[experiment.baseline], cache_root(), name=experiment.baseline)
    figures += [boot_overhead(image), *sandbox_costs(image), *inside_cases(), sampled()]
    return finish(figures, asked.json)


if __name__ == "__main__":
    sys.exit(main())
