# SPDX-License-Identifier: MIT
"""kdyno check."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from kdyno.errors import UsageError
from kdyno.verbs.options import (
    Cases,
    ExperimentFile,
    Extent,
    NoSandbox,
    Ref,
    Variants,
    load,
)
from kdyno.verbs.output import Json, check_writable, say, show, write_json

if TYPE_CHECKING:
    from pathlib import Path

    from kdyno.experiment.model import Experiment
    from kdyno.measure.extent import Cost
    from kdyno.suites.catalogue import Catalogue

NAME = "check"
EXAMPLES = (
    "Examples: kdyno check mine.toml | kdyno check mine.toml --fetch | "
    "kdyno check mine.toml --quick --json -"
)
_UNCHECKED = "not checked, for it is not on this machine (--fetch): patches, options, sysctls of"


def verb(
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
    from kdyno import sandbox
    from kdyno.experiment.overrides import apply
    from kdyno.verbs.matrix import matrix_of, refs_of

    check_writable(json)
    if not no_sandbox:
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
    from kdyno.machines.kinds import KINDS
    from kdyno.measure.bench import check_cases, check_machine
    from kdyno.measure.builder import Recipes, check
    from kdyno.measure.extent import cost
    from kdyno.measure.extent import extent as extent_of
    from kdyno.paths import cache_root
    from kdyno.suites.job import cases_of
    from kdyno.verbs.watching import Building

    cache = cache_root()
    check_machine(experiment, cases_of(experiment, suites))
    watch = Building()
    try:
        recipes = Recipes({}, {})
        if KINDS[experiment.machine.kind].builds:
            recipes = check(
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
    from kdyno.report.progress import duration

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
