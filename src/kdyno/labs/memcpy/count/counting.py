# SPDX-License-Identifier: MIT
"""Boot a kernel that counts its copies, work the cases off in it, and read the counts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from kdyno import sandbox, whole
from kdyno.errors import ToolError, UsageError
from kdyno.experiment.model import Experiment, Variant
from kdyno.kernels.image import Image
from kdyno.kernels.progress import Report, silent
from kdyno.kernels.source import Progress
from kdyno.labs.memcpy.count.dump import FILE, MOST_LISTED, WORD, Counted, read_dump
from kdyno.machines.kinds import KINDS
from kdyno.measure.bench import Bench, boot, plan_of
from kdyno.measure.benches import bench_of, tree_of
from kdyno.measure.builder import build_all, check
from kdyno.measure.sampling import samples_of
from kdyno.paths import data_root
from kdyno.suites.catalogue import Catalogue

PATCH = "count-copies.patch"


@dataclass(frozen=True)
class Options:
    """How to build and boot."""

    cache: Path
    sandboxed: bool = True
    jobs: int | None = None
    refresh: bool = False
    listed: int = 0
    """How many of the first copies to list in their order."""
    fetching: Progress = lambda _text, _part: None
    building: Report = silent
    told: Callable[[str], None] = lambda _text: None
    began: Callable[[str, int, int], None] = lambda _case, _number, _of: None
    """A case begins: its name, its number, how many there are."""


@dataclass(frozen=True)
class Counting:
    """The counts of one boot, and of what."""

    counted: Counted
    image: Image
    cases: tuple[str, ...]
    """suite/case of those that ran to their end."""
    failed: tuple[str, ...]
    """suite/case: why, of the others. Their copies are in the counts as far as they went."""


def counting_variant(variant: Variant) -> Variant:
    """The variant with its copies counted.

    Its memory routine goes: who copies what does not depend on how it is copied, and the counts
    are taken where the routine would be.
    """
    patch = data_root() / "kernel" / "patches" / PATCH
    patches = tuple(dict.fromkeys((*variant.patches, patch)))
    return replace(variant, patches=patches, memcpy=None)


def counting_experiment(experiment: Experiment, name: str | None = None) -> Experiment:
    """Only the variant ``name`` (the baseline unless told), counting its copies.

    UsageError for machines and kernels in which copies cannot be counted.
    """
    if why_not := KINDS[experiment.machine.kind].can.change:
        raise UsageError(
            f'{experiment.name}: {why_not}; copies are counted in a kernel of kind = "uml"'
        )
    named = {variant.name: variant for variant in experiment.variants}
    wanted = name or experiment.baseline
    if wanted not in named:
        raise UsageError(f"--variant {wanted!r}: {experiment.name} has {', '.join(named)}")
    variant = named[wanted]
    if variant.arch != "um":
        raise UsageError(
            f"variant {wanted!r} has arch {variant.arch!r}: copies are counted in 64-bit User "
            'Mode Linux, arch = "um"'
        )
    return replace(
        experiment,
        baseline=wanted,
        variants=(counting_variant(variant),),
        measure=replace(experiment.measure, calibrate=False, profile="none"),
    )


def build_counting(experiment: Experiment, suites: Catalogue, options: Options) -> Bench:
    """Build the counting kernel of ``counting_experiment``; ready to boot.

    BuildError when it does not build.
    """
    sandbox.require(options.sandboxed)
    recipes = check(experiment, options.cache, options.fetching, refresh=options.refresh)
    built = build_all(
        experiment,
        recipes,
        options.cache,
        sandboxed=options.sandboxed,
        jobs=options.jobs,
        report=options.building,
        told=options.told,
    )
    name = experiment.baseline
    if name not in built.images:
        raise ToolError(f"{name}: {built.failed.get(name, 'it was not built')}")
    return bench_of(
        experiment,
        suites,
        built.images,
        tree_of(experiment, recipes),
        options.cache,
        options.sandboxed,
        options.told,
    )


def count(bench: Bench, options: Options) -> Counting:
    """Boot once and count. ToolError when the guest died or left nothing that can be believed."""
    if not 0 <= options.listed <= MOST_LISTED:
        raise UsageError(f"a list of {options.listed} copies: at most {MOST_LISTED} are kept")
    name = bench.experiment.baseline
    plan = plan_of(bench, name)
    begun: list[str] = []

    def listener(case: str) -> None:
        begun.append(case)
        options.began(case, len(begun), len(plan.job.cases))

    with whole.scratch("copies") as folder:
        left = folder / FILE
        asked = replace(plan, cmdline=f"{WORD}={options.listed}", left=((FILE, left),))
        outcome = boot(bench, asked, listener)
        content = left.read_bytes() if left.is_file() else b""
    if outcome.host.status != "ok":
        raise ToolError(
            f"the counting kernel failed ({outcome.host.reason}): {outcome.host.text}\n"
            f"{outcome.host.console_tail}"
        )
    samples = samples_of(bench.cases, outcome.transcript, bench.equipment.lacking)
    done = tuple(f"{it.suite}/{it.case}" for it in samples if it.status == "ok")
    failed = tuple(f"{it.suite}/{it.case}: {it.text}" for it in samples if it.status != "ok")
    if samples and not done:
        raise ToolError(f"not one case ran: {'; '.join(failed)}")
    return Counting(read_dump(content), bench.images[name], done, failed)
