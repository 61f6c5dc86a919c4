# SPDX-License-Identifier: MIT
"""The command lines of kdyno run and kdyno try. The work is in measuring.py, imported late."""

from __future__ import annotations

from dataclasses import dataclass

from kdyno import deferred
from kdyno.experiment.limits import FEWEST_LINKS, MOST_EXACT_BOOTS, MOST_LINKS
from kdyno.verbs import options
from kdyno.verbs.options import Bundle, Extent, Working, argument, option


@dataclass(frozen=True)
class Request(Bundle):
    """What a person asks of a run, beyond its extent."""

    experiment: options.ExperimentFile = None
    resume: str | None = option(
        "--resume RUN", "Go on with an interrupted run.", None, options.RUN_NAMES
    )
    interleave: str | None = option(
        "--interleave auto|turns|boots",
        "How kernels alternate: turns of milliseconds, whole boots, or auto.",
        None,
    )
    metric: options.Metric = None
    exact_boots: int | None = option(
        "--exact-boots N",
        "Boots of each kernel after which equal counts are exact [3].",
        None,
        min=1,
        max=MOST_EXACT_BOOTS,
    )
    layouts: int | None = option(
        "--layouts N",
        "Link each kernel N times, functions in random order; the interval is over the links.",
        None,
        min=FEWEST_LINKS,
        max=MOST_LINKS,
    )
    calibrate: bool = option("--calibrate", "Boot a copy of the baseline as well (A/A).", False)
    variant: options.Variants = None
    ref: options.Ref = None
    case: options.Cases = None
    fail_on: options.FailOn = None
    confirm: bool = option(
        "--confirm", "Measure what is slower again; --fail-on needs both measurements.", False
    )
    scoring: options.Scoring = None
    refresh: options.Refresh = False
    yes: options.Yes = False
    push: options.Push = False
    on: str | None = option(
        "--on slurm[:PARTITION]|local", "Measure in jobs, on many machines; see docs/team.md.", None
    )
    beside: bool = option(
        "--beside", "Let others measure meanwhile, on CPUs not given to this run.", False
    )
    dry_run: bool = option(
        "--dry-run", "Only check and estimate the cost, like `kdyno check`.", False
    )


@dataclass(frozen=True)
class Attempt(Bundle):
    """A command that is tried in several kernels, as typed."""

    command: list[str] = argument("-- COMMAND", "Any command line; it sees this folder read-only.")
    kernel: list[str] | None = option(
        "-k --kernel KERNEL",
        "stock, memcpy=NAME, config=NAME, patch=FILE, cflags=FLAGS, cmdline=WORDS, "
        "compiler=NAME, sysctl=NAME=VALUE, cpus=N, source=SOURCE; several joined by commas. "
        "May be repeated; the first is the baseline. One alone is compared with stock.",
        None,
    )
    source: str = option(
        "--source SOURCE", "Kernel source, as in an experiment file.", "debian:linux-source-7.3"
    )
    figure: str | None = option(
        "--figure REGEX", "The figure in the command's output, one group; default: its time.", None
    )
    unit: str = option("--unit UNIT", "Unit of the figure.", "")
    better: str = option("--better higher|lower", "Which figures are better [lower].", "")
    cpus: int = option("--cpus N", "CPUs of the guest.", 1, min=1)
    memory: str = option("--memory SIZE", "Memory of the guest [1G; 512M in QEMU].", "")
    machine: str = option(
        "--machine uml|qemu", "User Mode Linux, or a native kernel in QEMU.", "uml"
    )
    metric: options.Metric = None
    push: options.Push = False


_run = deferred("kdyno.cli.measuring:run")
_try = deferred("kdyno.cli.measuring:try_command")


def run(request: Request, extent: Extent, working: Working) -> int:
    """Build, boot, measure and judge the kernels of an experiment.

    Examples:
      kdyno run experiments/simd-memcpy.toml --quick
      kdyno run mine.toml --calibrate --fail-on slower
      kdyno run mine.toml --calibrate --variant stock
      kdyno run --resume last
    """
    return int(_run(request, extent, working))


def try_(attempt: Attempt, extent: Extent, working: Working) -> int:
    """Time a command of your own in several kernels. No experiment file is needed.

    Examples:
      kdyno try --machine qemu --metric instructions -k patch=mine.patch -- ls -l
      kdyno try -k memcpy=avx2 -- sort -n numbers.txt
      kdyno try -k stock -k cflags=-O3 -k config=preempt -- tar cf /dev/null /usr/include
      kdyno try -k patch=mine.patch -- hackbench -g 2
      kdyno try -k cflags=-O3 --figure 'avg: +([0-9.]+)' --unit ms -- sysbench cpu run
    """
    return int(_try(attempt, extent, working))


VERBS = {"run": run, "try": try_}
