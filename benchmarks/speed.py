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
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any
from unittest import mock

from kdyno.experiment.model import Experiment
from kdyno.kernels.build import build
from kdyno.kernels.image import Image
from kdyno.labs.profile.record import stored_profiles
from kdyno.machines.cpus import place
from kdyno.machines.guest import boot
from kdyno.machines.program import guest_program
from kdyno.machines.uml import UmlBoot
from kdyno.measure.builder import Recipes, check
from kdyno.paths import cache_root, data_root
from kdyno.sandbox import Sandbox
from kdyno.store.boot import BootRecord
from kdyno.store.run import list_runs
from kdyno.suites.job import CaseJob, Job, render
from kdyno.verbs.subject import load

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
        values = [
            {**asdict(figure), "value": float(figure.value), "met": bool(figure.met)}
            for figure in figures
        ]
        file.write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")
    return 0 if all(figure.met for figure in figures) else 1


def options(doc: str | None, parts: Iterable[str] = (), **defaults: Any) -> argparse.Namespace:
    """The command line: which of ``parts`` (none: all), an option for each default, a flag where
    that is False, and --json."""
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    if parts:
        parser.add_argument("parts", nargs="*", choices=[*parts, []], metavar="PART")
    for name, default in defaults.items():
        option = f"--{name.replace('_', '-')}"
        if default is False:
            parser.add_argument(option, action="store_true")
        else:
            parser.add_argument(option, type=type(default), default=default)
    parser.add_argument("--json", type=Path, metavar="FILE")
    return parser.parse_args()


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
    name, how = "empty boot: kdyno ÷ bare linux process", f"median of {pairs} pairs"
    return Figure(name, statistics.median(ratios), "×", most=1.25, how=how)


class Unfiltered(Sandbox):
    """The sandbox without its filter of sockets, and without the shell that opens it."""

    def argv(self, command: list[str], *, dropping: bool | None = None) -> list[str]:
        line = super().argv(command, dropping=dropping)[4:]
        place = line.index("--seccomp")
        return line[:place] + line[place + 2 :]


CALLS = Job(
    tuple(
        CaseJob("unixbench", case, bench, seconds=None, operations=count)
        for case, bench, count in (("pipe", "pipe", 200_000), ("context1", "context1", 40_000))
    )
)
"""A fixed number of operations, each of them some system calls of UML's own process."""


def sandbox_costs(image: Image, pairs: int = 60) -> list[Figure]:
    """A boot in the sandbox against the same without its filter of sockets, in turns."""
    figures = []
    for name, job in (("empty boot", Job()), ("boot of many system calls", CALLS)):
        program = guest_program(cache_root(), 64)
        request = UmlBoot(kernel=image.kernel, program=program, job=job, placement=place(1))

        def once(kind: type[Sandbox], request: UmlBoot = request) -> float:
            with mock.patch("kdyno.machines.guest.Sandbox", kind):
                started_s = time.monotonic()
                result = boot(request)
            assert result.host.status == "ok", result.host
            return time.monotonic() - started_s

        for _ in range(3):
            once(Sandbox), once(Unfiltered)
        ratios = []
        for number in range(pairs):
            order = (Sandbox, Unfiltered) if number % 2 else (Unfiltered, Sandbox)
            took = {kind: once(kind) for kind in order}
            ratios.append(took[Sandbox] / took[Unfiltered])
        low, middle, high = statistics.quantiles(ratios)
        how = f"median of {pairs} pairs, quartiles {low:.3f} and {high:.3f}"
        figures.append(Figure(f"{name}: with the filter ÷ without", middle, "×", 1.02, how=how))
    return figures


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
        how = f"{statistics.median(others):.1f} s against {clean:.0f} s"
        one = statistics.median(others) / clean
        figures += [
            Figure("variant that changes one file ÷ clean build", one, "×", most=0.05, how=how),
            Figure("four kernels that differ in memcpy ÷ one clean build", four / clean, "×", 1.3),
        ]
        last = names[-1]
        kept = images[last].kernel.read_bytes()
        (images[last].folder / "build.json").unlink()
        again = timed(lambda: build(recipes.of[last], cache, name=last, from_scratch=True))
        same = images[last].kernel.read_bytes() == kept
        how = f"{last}; clean with a warm ccache: {again:.0f} s"
        name = "incremental image is byte for byte the clean one"
        figures.append(Figure(name, float(same), "", least=1, how=how))
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
        boots = [boot for boot in run.boots() if isinstance(boot, BootRecord)]
        inside = sum(boot.host.inside_s or 0 for boot in boots)
        first = datetime.fromisoformat(boots[0].job.started_at)
        last = datetime.fromisoformat(boots[-1].job.started_at)
        wall = (last - first).total_seconds() + (boots[-1].host.wall_s or 0)
    how, name = f"{len(boots)} boots", "share of a measuring run inside cases"
    return [
        Figure(name, inside / wall, "", least=0.85, how=how),
        Figure("kdyno's own memory, peak", memory, "MB", most=200),
    ]


def sampled() -> Figure:
    """perf's samples of a boot, all together, against the CPU time that the host counted."""
    with tempfile.TemporaryDirectory() as folder:
        words = ("--method", "perf", "--case", "fscopy-1024", "--seconds", "0.5", "--boots", "2")
        quiet("profile", str(EXPERIMENT), "--variant", "fsrm", *words, "--runs", folder)
        (run,) = list_runs(Path(folder))
        boots = [boot for profile in stored_profiles(run).values() for boot in profile.boots]
    off = [abs(boot.sampled_s / boot.cpu_s - 1) for boot in boots if boot.cpu_s]
    how = f"worst of {len(off)} boots; more where perf may not look into the host's kernel"
    return Figure("perf: samples ÷ CPU time, off 1 by", max(off), "", most=0.15, how=how)


def main() -> int:
    given = options(__doc__, skip_builds=False, sandbox=False)
    experiment, _ = load(EXPERIMENT)
    recipes = check(experiment, cache_root(), lambda _text, _part: None)
    variants = tuple(variant for variant in experiment.variants if variant.name in recipes.of)
    experiment = replace(experiment, variants=variants)
    figures = [] if given.sandbox else [help_time()]
    if not given.skip_builds and not given.sandbox:
        figures += builds(experiment, recipes)
    if not given.sandbox:
        figures.append(same_again())
    image = build(recipes.of[experiment.baseline], cache_root(), name=experiment.baseline)
    figures += sandbox_costs(image)
    if not given.sandbox:
        figures += [boot_overhead(image), *inside_cases(), sampled()]
    return finish(figures, given.json)


if __name__ == "__main__":
    sys.exit(main())
