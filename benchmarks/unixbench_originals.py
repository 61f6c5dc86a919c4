# SPDX-License-Identifier: MIT
"""kdyno's unixbench cases against the programs of BYTE UnixBench, in the same boots of one kernel.

    python -m benchmarks.unixbench_originals FOLDER [--boots 7] [--seconds 1] [--case NAME]...
        [--kernel FILE]

FOLDER holds the original programs under their own names: context1, dhry2reg, execl, fstime,
looper, pipe, spawn, syscall, whetstone-double, multi.sh, tst.sh. Their text is not part of this
project; build them with the flags of guest/Makefile (gcc -O2 -static). tst.sh must sort sort.src
once, as the scripts did before they learnt to repeat it. Each boot runs every case's two programs
one after the other, which of them first alternates, and the ratio is taken within the boot.
"""

from __future__ import annotations

import argparse
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from kdyno.kernels.build import build
from kdyno.machines.cpus import place
from kdyno.machines.guest import boot
from kdyno.machines.machine import Outcome
from kdyno.machines.program import guest_program
from kdyno.machines.uml import UmlBoot
from kdyno.measure.builder import check
from kdyno.paths import cache_root, data_root
from kdyno.suites.catalogue import Case, find
from kdyno.suites.catalogue import load as load_suites
from kdyno.suites.job import CaseJob, Job, case_job
from kdyno.suites.record import Sample
from kdyno.suites.score import score_of
from kdyno.verbs.subject import load

EXPERIMENT = data_root() / "experiments" / "simd-memcpy.toml"
_PLACE = "/run/kdyno/originals"
_COUNT = re.compile(r"COUNT\|([0-9.]+)\|([0-9]+)\|")
_TOOK = re.compile(r"^took ([0-9]+) ns$", re.MULTILINE)
_TIMEOUT_S = 90.0


@dataclass(frozen=True)
class Original:
    """How an original is called, for so many whole seconds, and how near its figure should be."""

    command: str
    tolerance: float
    whole_seconds: bool = False
    """It looks at the clock's whole seconds only, so its time has to be taken from outside."""
    long_loops: bool = False
    """So few loops fit into the time that the one which the end cuts off counts: half, on average.
    It gets five times the seconds."""

    def seconds(self, asked: int) -> int:
        return 5 * asked if self.long_loops else asked


def _copies(block: int, kib: int) -> Mapping[str, Original]:
    return {
        f"fs{verb}-{block}": Original(f"./fstime {flag} -t {{s}} -b {block} -m {kib} -d .", 0.03)
        for verb, flag in (("copy", "-c"), ("read", "-r"), ("write", "-w"))
    }


ORIGINALS: Mapping[str, Original] = {
    "dhry2reg": Original("./dhry2reg {s}", 0.15),
    "whetstone-double": Original("./whetstone-double {s}", 0.15),
    "execl": Original("./execl {s}", 0.05, whole_seconds=True),
    **_copies(256, 500),
    **_copies(1024, 2000),
    **_copies(4096, 8000),
    "pipe": Original("./pipe {s}", 0.03),
    "context1": Original("./context1 {s}", 0.03),
    "spawn": Original("./spawn {s}", 0.05),
    "shell1": Original("./looper {s} ./multi.sh 1", 0.05, long_loops=True),
    "shell8": Original("./looper {s} ./multi.sh 8", 0.05, long_loops=True),
    "syscall": Original("./syscall {s}", 0.03),
}


def original_job(name: str, seconds: int) -> CaseJob:
    """One run of the original in a folder in memory, as ours works in one."""
    original = ORIGINALS[name]
    call = original.command.format(s=original.seconds(seconds))
    script = (
        f"mkdir /tmp/o && cd /tmp/o && cp {_PLACE}/* . && export UB_BINDIR=/tmp/o && "
        f"a=$(date +%s%N) && {call} >/dev/null && echo took $(($(date +%s%N) - a)) ns"
    )
    args = ("--warmups", "0", "--", "/bin/sh", "-c", script)
    return CaseJob("original", name, "run", args, None, 1, _TIMEOUT_S)


def original_score(name: str, said: Sample, seconds: int) -> float:
    """Its figure in the case's unit; the last one it prints, for it warms up with others."""
    found = _COUNT.findall(said.extra["stderr"])
    if not found:
        raise SystemExit(f"{name}: the original printed no COUNT: {said.extra['stderr']!r}")
    count, base = float(found[-1][0]), int(found[-1][1])
    if not base:
        return count
    original = ORIGINALS[name]
    took = _TOOK.search(said.extra["stdout"])
    if original.whole_seconds and took:
        return count * base / (int(took[1]) / 1e9)
    return (count + (0.5 if original.long_loops else 0)) * base / original.seconds(seconds)


def measured(outcome: Outcome, number: int, name: str) -> Sample:
    result = outcome.transcript.result(number)
    if not isinstance(result, Sample):
        raise SystemExit(f"{name}: {result or outcome.host.text}")
    return result


@dataclass(frozen=True)
class Pair:
    case: str
    ours: float
    original: float


def pairs_of_a_boot(
    kernel: Path, cases: list[Case], folder: Path, seconds: int, original_first: bool
) -> Iterator[Pair]:
    jobs: list[CaseJob] = []
    for case in cases:
        own_s = float(ORIGINALS[case.name].seconds(seconds))
        both = [case_job(case, own_s), original_job(case.name, seconds)]
        jobs += reversed(both) if original_first else both
    outcome = boot(
        UmlBoot(
            kernel=kernel,
            program=guest_program(cache_root(), 64),
            job=Job(tuple(jobs)),
            placement=place(1),
            shared=((folder, "originals"),),
        )
    )
    for number, case in enumerate(cases):
        own, other = (2 * number + it for it in ((1, 0) if original_first else (0, 1)))
        yield Pair(
            case.name,
            score_of(case, measured(outcome, own, case.name).reps),
            original_score(case.name, measured(outcome, other, case.name), seconds),
        )


def table(cases: list[Case], pairs: list[Pair]) -> tuple[list[str], bool]:
    """Markdown lines, and whether every case is as near as it should be."""
    lines = [
        "| case | kdyno | original | kdyno ÷ original | of all boots | allowed | |",
        "| --- | --: | --: | --: | --: | --: | --- |",
    ]
    good = True
    for case in cases:
        mine = [pair for pair in pairs if pair.case == case.name]
        ratios = sorted(pair.ours / pair.original for pair in mine)
        middle = statistics.median(ratios)
        allowed = ORIGINALS[case.name].tolerance
        met = abs(middle - 1) <= allowed
        good &= met
        lines.append(
            f"| {case.name} | {statistics.median(it.ours for it in mine):.5g} {case.unit} "
            f"| {statistics.median(it.original for it in mine):.5g} | {middle:.3f} "
            f"| {ratios[0]:.3f} … {ratios[-1]:.3f} | ±{100 * allowed:.0f} % "
            f"| {'met' if met else 'MISSED'} |"
        )
    return lines, good


def with_text(originals: Path, inside: Path) -> Path:
    """A copy of the originals with the text that our scripts work on in place of theirs."""
    folder = inside / "originals"
    shutil.copytree(originals, folder)
    program = guest_program(cache_root(), 64)
    done = subprocess.run([str(program), "helper", "shell"], check=True, capture_output=True)
    (folder / "sort.src").write_bytes(done.stdout)
    return folder


def stock(say: Callable[[str], None]) -> Path:
    """The demo's unchanged kernel, built where it is not there yet."""
    experiment, _ = load(EXPERIMENT)
    name = experiment.baseline
    recipes = check(experiment, cache_root(), lambda text, _part: say(text))
    return build(recipes.of[name], cache_root(), name=name).kernel


def main() -> int:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("folder", type=Path)
    arguments.add_argument("--boots", type=int, default=7)
    arguments.add_argument("--seconds", type=int, default=1)
    arguments.add_argument("--case", action="append", choices=list(ORIGINALS))
    arguments.add_argument("--kernel", type=Path, help="a built UML kernel instead of the demo's")
    given = arguments.parse_args()

    def say(text: str) -> None:
        print(text, file=sys.stderr)

    suite = find(load_suites(), "unixbench")
    cases = [suite.case(name) for name in given.case or ORIGINALS]
    kernel = given.kernel or stock(say)
    pairs: list[Pair] = []
    with tempfile.TemporaryDirectory() as inside:
        folder = with_text(given.folder, Path(inside))
        for number in range(given.boots):
            say(f"boot {number + 1} of {given.boots}")
            pairs += pairs_of_a_boot(kernel, cases, folder, given.seconds, number % 2 == 1)
    lines, good = table(cases, pairs)
    print("\n".join(lines))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
