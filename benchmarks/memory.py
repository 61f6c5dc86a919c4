# SPDX-License-Identifier: MIT
"""kdyno's own memory with a run of thousands of boots: judging it, reporting it, exporting it.

    python -m benchmarks.memory [--boots 5000] [--cases 20]

Makes such a run in a folder of its own, then runs each verb in a process of its own and takes the
largest resident set that the system saw. Exit status 1 when one is above 250 MB.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from kdyno.store.boot import BootHost, BootJob, BootRecord, Sample
from kdyno.store.manifest import CaseInfo, Manifest
from kdyno.store.run import Run, create_run

ALLOWED_MB = 250.0
BASELINE, VARIANTS = "stock", ("mine", "other", "nothing")
JUDGE = """
import sys
from pathlib import Path
from kdyno.lab.judging import Question, verdict_of
from kdyno.store.run import write_run
with write_run(Path(sys.argv[1])) as writer:
    question = Question(
        experiment="memory", text="", baseline="stock", variants=("mine", "other", "nothing"),
        copy=None, cases=writer.run.manifest().cases, confidence=0.95, equivalent=0.01,
        precision=0.005, machine="uml",
    )
    writer.save_verdict(verdict_of(writer.run, question, "max_boots"))
"""
KDYNO = "from kdyno.cli.main import main; raise SystemExit(main())"


@dataclass(frozen=True)
class Peak:
    what: str
    resident_mb: float
    took_s: float


def cases_of(count: int) -> tuple[CaseInfo, ...]:
    return tuple(
        CaseInfo(suite="unixbench", case=f"case-{number}", unit="loops/s", better="higher")
        for number in range(count)
    )


def make(folder: Path, boots: int, cases: int) -> Run:
    """A finished run without its verdict: so many boots of four variants, eight repetitions."""
    names = (BASELINE, *VARIANTS)
    chance = random.Random(7)
    blocks = tuple(tuple(chance.sample(names, len(names))) for _ in range(boots // len(names)))
    manifest = Manifest(
        tool="0",
        created="2026-01-01T00:00:00.000000+00:00",
        experiment="memory",
        baseline=BASELINE,
        seed=7,
        cases=cases_of(cases),
        blocks=blocks,
        state="finished",
        stopped="max_boots",
    )
    with create_run(folder, 'name = "memory"\n', manifest) as writer:
        index = 0
        for block, order in enumerate(blocks):
            for variant in order:
                writer.add_boot(_boot(index, block, variant, manifest, chance), b"console\n" * 50)
                index += 1
        return writer.run


def _boot(
    index: int, block: int, variant: str, manifest: Manifest, chance: random.Random
) -> BootRecord:
    samples = tuple(
        Sample(
            suite=case.suite,
            case=case.case,
            score=1000.0 * chance.gauss(1.0, 0.01),
            reps=tuple((1000.0, 1e8 * chance.gauss(1.0, 0.01)) for _ in range(8)),
            user_ns=10**8,
            sys_ns=10**8,
        )
        for case in manifest.cases
    )
    job = BootJob(index=index, block=block, variant=variant, command=("linux", "mem=1G"))
    return BootRecord(job=job, host=BootHost(status="ok", wall_s=4.0), samples=samples)


def peak(what: str, argv: list[str], environment: dict[str, str]) -> Peak:
    """The largest resident set of one process; it must end well."""
    started = time.monotonic()
    child = subprocess.Popen(argv, env=environment, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        raise SystemExit(f"{what}: exit status {child.returncode}")
    return Peak(what, usage.ru_maxrss / 1024, time.monotonic() - started)


def peaks(run: Run) -> list[Peak]:
    environment = {**os.environ, "KDYNO_RUNS": str(run.path.parent)}
    out = str(run.path.parent / "report")
    verbs = {
        "list runs": ["list", "runs"],
        "report": ["report", run.name],
        "report --scoring unixbench": ["report", run.name, "--scoring", "unixbench"],
        "report -f markdown": ["report", run.name, "-f", "markdown"],
        "report -f html": ["report", run.name, "-o", f"{out}.html"],
    }
    found = [peak("judging", [sys.executable, "-c", JUDGE, str(run.path)], environment)]
    for what, words in verbs.items():
        found.append(peak(what, [sys.executable, "-c", KDYNO, *words], environment))
    return found


def main() -> int:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--boots", type=int, default=5000)
    arguments.add_argument("--cases", type=int, default=20)
    arguments.add_argument("--json", metavar="FILE")
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory(prefix="kdyno-memory-") as folder:
        os.fsync = lambda _descriptor: None  # the run is thrown away: no need to reach the disk
        run = make(Path(folder), given.boots, given.cases)
        found = peaks(run)
    print(f"| {given.boots} boots, {given.cases} cases | largest resident set | allowed | time |")
    print("| --- | --: | --: | --: |")
    for it in found:
        print(f"| {it.what} | {it.resident_mb:.0f} MB | {ALLOWED_MB:.0f} MB | {it.took_s:.1f} s |")
    if given.json:
        values = {it.what: it.resident_mb for it in found}
        Path(given.json).write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")
    return 0 if all(it.resident_mb <= ALLOWED_MB for it in found) else 1


if __name__ == "__main__":
    sys.exit(main())
