# SPDX-License-Identifier: MIT
"""kdyno try."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kdyno.cli.run import measured
from kdyno.verbs.options import Extent, Metric, Push, Working

NAME = "try"
EXAMPLES = (
    "Examples: kdyno try --machine qemu --metric instructions -k patch=mine.patch -- ls -l | "
    "kdyno try -k memcpy=avx2 -- sort -n numbers.txt | "
    "kdyno try -k stock -k cflags=-O3 -k config=preempt -- tar cf /dev/null /usr/include | "
    "kdyno try -k patch=mine.patch -- hackbench -g 2 | "
    "kdyno try -k cflags=-O3 --figure 'avg: +([0-9.]+)' --unit ms -- sysbench cpu run"
)


def verb(
    command: Annotated[
        list[str],
        typer.Argument(
            metavar="-- COMMAND",
            help="Any command line; it runs in this folder, which it sees read-only.",
        ),
    ],
    kernel: Annotated[
        list[str] | None,
        typer.Option(
            "-k",
            "--kernel",
            metavar="KERNEL",
            help="stock, memcpy=NAME, config=NAME, patch=FILE, cflags=FLAGS, cmdline=WORDS, "
            "compiler=NAME, sysctl=NAME=VALUE, cpus=N, source=SOURCE; several joined by commas. "
            "May be repeated; the first is the baseline. One alone is compared with stock.",
        ),
    ] = None,
    source: Annotated[
        str,
        typer.Option("--source", metavar="SOURCE", help="Kernel source, as in an experiment file."),
    ] = "debian:linux-source-7.3",
    figure: Annotated[
        str | None,
        typer.Option(
            "--figure",
            metavar="REGEX",
            help="The figure in what the command prints, one group; else its time is the figure.",
        ),
    ] = None,
    unit: Annotated[str, typer.Option("--unit", metavar="UNIT", help="Unit of the figure.")] = "",
    better: Annotated[
        str,
        typer.Option(
            "--better",
            metavar="higher|lower",
            help="Which figure is the good one; without it, lower.",
        ),
    ] = "",
    cpus: Annotated[int, typer.Option("--cpus", metavar="N", min=1, help="CPUs of the guest.")] = 1,
    memory: Annotated[
        str,
        typer.Option("--memory", metavar="SIZE", help="Memory of the guest [1G; 512M in QEMU]."),
    ] = "",
    machine: Annotated[
        str,
        typer.Option(
            "--machine", metavar="uml|qemu", help="User Mode Linux, or a native kernel in QEMU."
        ),
    ] = "uml",
    metric: Metric = None,
    push: Push = False,
    *,
    extent: Extent,
    working: Working,
) -> int:
    """Time a command of your own in several kernels. It needs no experiment file."""
    from kdyno.errors import UsageError
    from kdyno.experiment import loader
    from kdyno.machines.kinds import KINDS
    from kdyno.measure.commands import Trial, experiment_text, option_of
    from kdyno.measure.vocabulary import vocabulary
    from kdyno.suites.catalogue import load as load_suites

    options = working.options(extent.overrides())
    if machine not in (kinds := [it.name for it in KINDS.values() if it.builds]):
        raise UsageError(
            f"--machine {machine!r}: a command is tried in several kernels; there are "
            f"{' and '.join(kinds)} for that"
        )
    trial = Trial(
        *(tuple(kernel or ()), tuple(command), source, figure, unit, better, cpus, memory),
        *(machine, metric or "time"),
    )
    suites = load_suites()
    text = experiment_text(trial, Path.cwd())
    experiment = loader.parse(text, "try", Path.cwd(), vocabulary(suites), option_of)
    return measured(experiment, suites, options, working.json, push=push)
