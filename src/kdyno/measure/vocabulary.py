# SPDX-License-Identifier: MIT
"""The words of an experiment file, gathered from the rooms that own them."""

from __future__ import annotations

from collections.abc import Mapping

from kdyno import deferred
from kdyno.experiment.model import Vocabulary
from kdyno.kernels import cpu
from kdyno.kernels.routines.routine import FUNCTIONS, best, find_routine, list_routines
from kdyno.kernels.scheduler import list_schedulers
from kdyno.kernels.source import parse
from kdyno.machines.kinds import KINDS
from kdyno.paths import data_root
from kdyno.suites.catalogue import Suite
from kdyno.suites.job import open_settings


def vocabulary(suites: Mapping[str, Suite]) -> Vocabulary:
    kernel = data_root() / "kernel"
    return Vocabulary(
        suites={name: tuple(case.name for case in suite.cases) for name, suite in suites.items()},
        settings={
            name: {case.name: open_settings(case) for case in suite.cases}
            for name, suite in suites.items()
        },
        routines={
            function: tuple(routine.name for routine in list_routines(function))
            for function in FUNCTIONS
        },
        schedulers=tuple(list_schedulers()),
        runs_here=lambda function, name: not cpu.missing(find_routine(name, function).requires),
        best=best,
        fragment_dirs=(kernel / "config",),
        patch_dirs=(kernel / "patches",),
        machines={kind.name: kind.archs for kind in KINDS.values()},
        check_source=parse,
        check_image=deferred("kdyno.kernels.installed:parse"),
        no_images={kind.name: kind.no_images for kind in KINDS.values() if kind.no_images},
    )
