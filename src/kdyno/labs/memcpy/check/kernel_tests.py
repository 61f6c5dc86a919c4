# SPDX-License-Identifier: MIT
"""A routine in a kernel that tests itself: build it with KUnit, boot it once, read what it says."""

from __future__ import annotations

from pathlib import Path

from kdyno import sandbox
from kdyno.errors import ToolError
from kdyno.experiment import loader
from kdyno.experiment.model import Experiment
from kdyno.kernels.progress import Report, silent
from kdyno.kernels.routines.routine import Routine, list_routines
from kdyno.kernels.source import Progress
from kdyno.labs.memcpy.check.ktap import KunitReport, parse_ktap
from kdyno.machines.cpus import place
from kdyno.machines.kinds import KINDS
from kdyno.machines.machine import Plan, Setup, run_to_end
from kdyno.measure.builder import build_all, check
from kdyno.measure.vocabulary import vocabulary
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
    config: tuple[str, ...] = (),
    patches: tuple[str, ...] = (),
    sandboxed: bool = True,
) -> KunitReport:
    """What the memcpy, string and usercopy tests of a kernel say that has ``routine``.

    config, patches: further ones, as an experiment file names them. UsageError, BuildError and
    ToolError as the builder and the machine raise them; a guest that dies is a problem in
    the report.
    """
    sandbox.require(sandboxed)
    keys: dict[str, object] = {
        "source": source,
        "config": ["bench", "kunit", *config],
        "patches": list(patches),
        **({} if routine is None else _asked(routine)),
    }
    variant = loader.variant(_VARIANT, keys, "kdyno memcpy check", Path.cwd(), vocabulary({}))
    experiment = Experiment("kunit", "", _VARIANT, (variant,), ())
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


def _asked(routine: Routine) -> dict[str, object]:
    """The routine's name where the project has it, else its file; under the function's key."""
    ours = routine in list_routines(function=routine.function)
    name = routine.name if ours else str(routine.path.absolute())
    return (
        {"memcpy": name} if routine.function == "memcpy" else {"routines": {routine.function: name}}
    )
