# SPDX-License-Identifier: MIT
"""kdyno check and kdyno build: an experiment's mistakes and cost, and its kernels."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from kdyno import sandbox
from kdyno.cli.matrix import refs_of
from kdyno.errors import UsageError
from kdyno.experiment import loader
from kdyno.experiment.model import Experiment
from kdyno.kernels.image import find
from kdyno.machines.kinds import KINDS
from kdyno.measure import builder
from kdyno.measure.bench import check_cases, check_machine
from kdyno.measure.execution import cost, measure_s
from kdyno.paths import cache_root
from kdyno.suites.catalogue import Catalogue
from kdyno.suites.job import cases_of
from kdyno.verbs import options
from kdyno.verbs.options import Extent, option
from kdyno.verbs.output import answer, check_writable, say, write_json
from kdyno.verbs.subject import load, overrides_of
from kdyno.verbs.watching import Building, duration

_UNCHECKED = "not checked, for it is not on this machine (--fetch): patches, options, sysctls of"


def check(
    experiment: options.ExperimentFile = None,
    variant: options.Variants = None,
    case: options.Cases = None,
    ref: options.Ref = None,
    fetch: bool = option("--fetch", "Fetch sources that are not on this machine yet.", False),
    no_sandbox: options.NoSandbox = False,
    json: options.Json = None,
    *,
    extent: Extent,
) -> int:
    """Find an experiment's mistakes and its cost, without building.

    Examples:
      kdyno check mine.toml
      kdyno check mine.toml --fetch
      kdyno check mine.toml --quick --json -
    """
    check_writable(json)
    sandbox.require()
    try:
        if ref is None and experiment is not None:
            matrix = loader.read_matrix(loader.read(experiment), str(experiment))
            if matrix is not None:
                refs = refs_of(matrix, experiment, yes=True)
                ref = refs[-1]
                text = f"[matrix] has {len(refs)} commits, a run for each"
                say(f"{text}; checked with the last, {ref}")
        plan, suites = load(experiment, ref)
        overrides = overrides_of(extent, variants=tuple(variant or ()), cases=tuple(case or ()))
        return examined(loader.apply(overrides, plan), suites, json, fetching=fetch)
    except UsageError as problem:
        write_json({"ok": False, "mistakes": list(problem.mistakes)}, json)
        raise


def examined(experiment: Experiment, suites: Catalogue, json: str | None, *, fetching: bool) -> int:
    """Everything that can be known before a build, said; UsageError with every mistake."""
    cache, kind = cache_root(), KINDS[experiment.machine.kind]
    check_machine(experiment, cases_of(experiment, suites))
    with Building() as watch:
        recipes = builder.Recipes({}, {})
        if kind.builds:
            more: Any = {"fetching": fetching, "new": True, "report": watch.building}
            recipes = builder.check(experiment, cache, watch.fetching, **more)
        lacking = check_cases(experiment, suites, cache, recipes)
    price = cost(experiment, recipes, cache)
    minutes = measure_s(experiment) / 60
    notes = [*recipes.notes, *lacking, *(f"{_UNCHECKED} {name}" for name in recipes.absent)]
    variants = {name: {"digest": digest} for name, digest in recipes.digests.items()}
    variants |= {name: {"skipped": why} for name, why in recipes.skipped.items()}
    lines = [f"{experiment.name}: no mistake found"]
    if price.kernels:
        text = f"{price.kernels}, {price.cached} in the cache"
        if build := price.kernels - price.cached:
            source = f"by {price.builds} of before" if price.builds else "a guess: none before"
            text += f", {build} to build: about {duration(price.build_s)} ({source})"
        lines.append(f"kernels    {text}")
    boots = f"{experiment.measure.max_boots} boots of each variant"
    lines.append(f"measuring  at most about {duration(60 * minutes)} ({boots}), often less")
    free = f"{price.free_bytes / 1e9:.1f} GB free at {cache}"
    lines.append(f"disk       {price.disk_bytes / 1e9:.1f} GB; {free}")
    if price.disk_bytes > price.free_bytes:
        notes.append("the disk is too small: free some, or KDYNO_CACHE names another folder")
    for source in price.fetch:
        built = any(variant.image == source for variant in experiment.variants)
        size = "0.1 GB, 0.4" if built else "0.2 GB, 2"
        lines.append(f"to fetch   {source}: about {size} GB unpacked")
    lines += [f"note       {note}" for note in notes]
    facts = {"ok": True, "mistakes": [], "notes": notes, "variants": variants}
    answer({**facts, "measure_minutes": minutes, **asdict(price)}, lines, json)
    return 0


def build(
    experiment: options.ExperimentFile = None,
    variant: options.Variants = None,
    ref: options.Ref = None,
    jobs: options.Jobs = None,
    refresh: options.Refresh = False,
    no_sandbox: options.NoSandbox = False,
    dry_run: bool = option("--dry-run", "Only list the required images, and which exist.", False),
    json: options.Json = None,
) -> int:
    """Build the kernels of an experiment. Existing images are reused.

    Examples:
      kdyno build experiments/simd-memcpy.toml
      kdyno build mine.toml --variant mine --json -
    """
    check_writable(json)
    sandbox.require()
    plan, _ = load(experiment, ref)
    plan = loader.apply(loader.Overrides(variants=tuple(variant or ())), plan)
    cache = cache_root()
    if not KINDS[plan.machine.kind].builds:
        say(f"nothing to build: the machine {plan.machine.kind!r} runs the kernel as it is")
        answer({"images": {}, "failed": {}}, (), json)
        return 0
    images: dict[str, dict[str, object]]
    with Building() as watch:
        more: Any = {"refresh": refresh, "new": True, "report": watch.building}
        recipes = builder.check(plan, cache, watch.fetching, **more)
        for note in recipes.notes:
            say(note)
        if dry_run:
            failed = dict(recipes.skipped)
            there = {name: find(cache, recipe) is not None for name, recipe in recipes.of.items()}
            images = {
                name: {"digest": digest, "built": there.get(name, True)}
                for name, digest in recipes.digests.items()
            }
            lines = [
                f"{name}\t{image['digest']}\t{'built' if image['built'] else 'not built'}"
                for name, image in images.items()
            ]
        else:
            more = {"jobs": jobs, "report": watch.building, "notify": say}
            built = builder.build_all(plan, recipes, cache, **more)
            failed = dict(built.failed)
            images = {
                name: {"kernel": str(image.kernel), "digest": image.digest, **image.build}
                for name, image in built.images.items()
            }
            lines = [f"{name}\t{image.kernel}" for name, image in built.images.items()]
    answer({"images": images, "failed": failed}, lines, json)
    if json != "-":
        for name, why in failed.items():
            say(f"{name}: {why}")
    return int(not dry_run and any(not why.startswith("skipped") for why in failed.values()))


VERBS = {"check": check, "build": build}
