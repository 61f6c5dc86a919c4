# SPDX-License-Identifier: MIT
"""A routine in a kernel that tests itself: build it with KUnit, boot it once, read what it says."""

from __future__ import annotations

import json
from pathlib import Path

from kdyno import sandbox
from kdyno.errors import ToolError
from kdyno.experiment.loader import parse
from kdyno.kernels.progress import Report, silent
from kdyno.kernels.routines.routine import Routine, list_routines
from kdyno.kernels.source import Progress
from kdyno.labs.memcpy.check.ktap import KunitReport, parse_ktap
from kdyno.machines.cpus import place
from kdyno.machines.kinds import KINDS
from kdyno.machines.machine import Plan, Setup
from kdyno.machines.session import run_to_end
from kdyno.measure.builder import build_all, check
from kdyno.measure.vocabulary import vocabulary
from kdyno.suites.catalogue import load
from kdyno.suites.job import Job

_VARIANT = "tested"
_MEMORY_BYTES = 256 << 20
_LIMIT_S = 120.0


def kernel_tests(
    routine: Routine | None,
    source: str,
    cache: Path,
    progress: Progress,
    report: Report = silent,
    *,
    patches: tuple[str, ...] = (),
    sandboxed: bool = True,
) -> KunitReport:
    """What the memcpy, string and usercopy tests of a kernel say that has ``routine``.

    patches: further ones, as an experiment file names them. UsageError, BuildError and
    ToolError as the builder and the machine raise them; a guest that dies is a problem in
    the report.
    """
    if sandboxed:
        sandbox.require()
    text = _experiment(routine, source, patches)
    experiment = parse(text, "kdyno memcpy check", Path.cwd(), vocabulary(load()))
    recipes = check(experiment, cache, progress)
    built = build_all(experiment, recipes, cache, sandboxed=sandboxed, report=report)
    if _VARIANT not in built.images:
        raise ToolError("; ".join(built.failed.values()) or "there is no kernel to test")
    machine = KINDS[experiment.machine.kind].make(
        Setup(
            variants={it.name: it for it in experiment.variants},
            images=built.images,
            placement=place(1),
            memory_bytes=_MEMORY_BYTES,
            timeout_s=_LIMIT_S,
            cpus=1,
            cache=cache,
            sandboxed=sandboxed,
        )
    )
    # What the tests say is logged as information, which "quiet" hides.
    session = machine.open(Plan(_VARIANT, Job(), cmdline="loglevel=7"))
    outcome = run_to_end(session, machine.clock)
    machine.close()
    return parse_ktap(outcome.console.decode("utf-8", "replace"))


def _experiment(routine: Routine | None, source: str, patches: tuple[str, ...]) -> str:
    lines = [
        'name = "kunit"',
        'question = "Do the kernel\'s own tests pass?"',
        f'baseline = "{_VARIANT}"',
        "[kernel]",
        f"source = {json.dumps(source)}",
        'config = ["bench", "kunit"]',
        f"patches = {json.dumps(list(patches))}",
        f"[variant.{_VARIANT}]",
    ]
    if routine is not None:
        name = json.dumps(_asked(routine))
        lines.append(
            f"memcpy = {name}"
            if routine.function == "memcpy"
            else f"routines = {{ {routine.function} = {name} }}"
        )
    lines += [
        *("[machine]", 'kind = "uml"', "[[suite]]", 'name = "unixbench"', 'cases = ["pipe"]'),
        *("[measure]", "calibrate = true"),
    ]
    return "\n".join(lines) + "\n"


def _asked(routine: Routine) -> str:
    """The routine's name where the project has it, else its file."""
    ours = routine in list_routines(function=routine.function)
    return routine.name if ours else str(routine.path.absolute())
