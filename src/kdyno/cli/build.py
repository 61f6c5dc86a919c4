# SPDX-License-Identifier: MIT
"""kdyno check and kdyno build: an experiment's mistakes and cost, and its kernels."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from kdyno import sandbox
from kdyno.errors import UsageError
from kdyno.experiment.model import Experiment
from kdyno.experiment.overrides import Overrides, apply
from kdyno.kernels.image import find
from kdyno.machines.kinds import KINDS
from kdyno.measure import builder
from kdyno.measure.bench import check_cases, check_machine
from kdyno.measure.extent import Cost, cost
from kdyno.measure.extent import extent as extent_of
from kdyno.paths import cache_root
from kdyno.report.progress import duration
from kdyno.suites.catalogue import Catalogue
from kdyno.suites.job import cases_of
from kdyno.verbs.matrix import matrix_of, refs_of
from kdyno.verbs.options import (
    Cases,
    ExperimentFile,
    Extent,
    Jobs,
    NoSandbox,
    Ref,
    Refresh,
    Variants,
    load,
)
from kdyno.verbs.output import Json, check_writable, say, show, write_json
from kdyno.verbs.verb import Verb
from kdyno.verbs.watching import Building

_UNCHECKED = "not checked, for it is not on this machine (--fetch): patches, options, sysctls of"


def check(
    experiment: ExperimentFile = None,
    variant: Variants = None,
    case: Cases = None,
    ref: Ref = None,
    fetch: Annotated[
        bool, typer.Option("--fetch", help="Fetch sources that are not on this machine yet.")
    ] = False,
    no_sandbox: NoSandbox = False,
    json: Json = None,
    *,
    extent: Extent,
) -> int:
    """Find an experiment's mistakes, and its cost, without a build."""
    check_writable(json)
    sandbox.require()
    try:
        if ref is None and experiment and (commits := matrix_of(experiment)) is not None:
            refs = refs_of(commits, experiment, yes=True)
            ref = refs[-1]
            say(f"[matrix] has {len(refs)} commits, a run for each; checked with the last, {ref}")
        asked, suites = load(experiment, ref)
        overrides = extent.overrides(variants=tuple(variant or ()), cases=tuple(case or ()))
        return examined(apply(overrides, asked), suites, json, fetching=fetch)
    except UsageError as problem:
        if json is not None:
            write_json({"ok": False, "mistakes": list(problem.mistakes)}, json)
        raise


def examined(experiment: Experiment, suites: Catalogue, json: str | None, *, fetching: bool) -> int:
    """Everything that can be known before a build, said; UsageError with every mistake."""
    cache = cache_root()
    check_machine(experiment, cases_of(experiment, suites))
    watch = Building()
    try:
        recipes = builder.Recipes({}, {})
        if KINDS[experiment.machine.kind].builds:
            recipes = builder.check(
                *(experiment, cache, watch.fetching),
                fetching=fetching,
                new=True,
                report=watch.building,
            )
        lacking = check_cases(experiment, suites, cache, recipes)
    finally:
        watch.end()
    found = cost(experiment, recipes, cache)
    minutes = 60 * extent_of(experiment).measure_hours
    notes = [*recipes.notes, *lacking, *(f"{_UNCHECKED} {it}" for it in recipes.absent)]
    if json is not None:
        value = {
            "ok": True,
            "mistakes": [],
            "notes": notes,
            "variants": {
                **{name: {"digest": it.digest} for name, it in recipes.of.items()},
                **{name: {"skipped": why} for name, why in recipes.skipped.items()},
            },
            "measure_minutes": minutes,
            **asdict(found),
        }
        write_json(value, json)
    if json != "-":
        for line in _lines(experiment, found, minutes, notes, cache):
            show(line)
    return 0


def _lines(
    experiment: Experiment, found: Cost, minutes: float, notes: list[str], cache: Path
) -> list[str]:
    lines = [f"{experiment.name}: no mistake found"]
    if found.kernels:
        build = found.kernels - found.cached
        text = f"{found.kernels}, {found.cached} in the cache"
        if build:
            source = f"by {found.builds} of before" if found.builds else "a guess: none before"
            text += f", {build} to build: about {duration(found.build_s)} ({source})"
        lines.append(f"kernels    {text}")
    boots = f"{experiment.measure.max_boots} boots of each variant"
    lines.append(f"measuring  at most about {duration(60 * minutes)} ({boots}), often less")
    free = f"{found.free_bytes / 1e9:.1f} GB free at {cache}"
    lines.append(f"disk       {found.disk_bytes / 1e9:.1f} GB; {free}")
    if found.disk_bytes > found.free_bytes:
        notes.append("the disk is too small: free some, or KDYNO_CACHE names another folder")
    lines += [f"to fetch   {it}: about 0.2 GB, 2 GB unpacked" for it in found.fetch]
    return [*lines, *(f"note       {note}" for note in notes)]


def build(
    experiment: ExperimentFile = None,
    variant: Variants = None,
    ref: Ref = None,
    jobs: Jobs = None,
    refresh: Refresh = False,
    no_sandbox: NoSandbox = False,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Only say which images are wanted, and which are there."),
    ] = False,
    json: Json = None,
) -> int:
    """Build the kernels of an experiment. What was built before is not built again."""
    check_writable(json)
    sandbox.require()
    asked, _ = load(experiment, ref)
    asked = apply(Overrides(variants=tuple(variant or ())), asked)
    if not KINDS[asked.machine.kind].builds:
        say(f"nothing to build: the machine {asked.machine.kind!r} runs the kernel as it is")
        if json is not None:
            write_json({"images": {}, "failed": {}}, json)
        return 0
    watch = Building()
    try:
        recipes = builder.check(
            *(asked, cache_root(), watch.fetching), refresh=refresh, new=True, report=watch.building
        )
        for note in recipes.notes:
            say(note)
        if dry_run:
            return _wanted(recipes, cache_root(), json)
        built = builder.build_all(
            asked,
            recipes,
            cache_root(),
            jobs=jobs,
            report=watch.building,
            told=say,
        )
    finally:
        watch.end()
    images = {
        name: {"kernel": str(image.kernel), "digest": image.digest, **image.build}
        for name, image in built.images.items()
    }
    if json is not None:
        write_json({"images": images, "failed": dict(built.failed)}, json)
    if json != "-":
        for name, image in built.images.items():
            show(f"{name}\t{image.kernel}")
        for name, why in built.failed.items():
            say(f"{name}: {why}")
    real = [name for name, why in built.failed.items() if not why.startswith("skipped")]
    return 1 if real else 0


def _wanted(recipes: builder.Recipes, cache: Path, json: str | None) -> int:
    images = {
        name: {"digest": recipe.digest, "built": find(cache, recipe) is not None}
        for name, recipe in recipes.of.items()
    }
    if json is not None:
        write_json({"images": images, "failed": dict(recipes.skipped)}, json)
    if json != "-":
        for name, it in images.items():
            show(f"{name}\t{it['digest']}\t{'built' if it['built'] else 'not built'}")
        for name, why in recipes.skipped.items():
            say(f"{name}: {why}")
    return 0


VERBS = (
    Verb(
        "check",
        check,
        (
            "kdyno check mine.toml",
            "kdyno check mine.toml --fetch",
            "kdyno check mine.toml --quick --json -",
        ),
    ),
    Verb(
        "build",
        build,
        (
            "kdyno build experiments/simd-memcpy.toml",
            "kdyno build mine.toml --variant mine --json -",
        ),
    ),
)
