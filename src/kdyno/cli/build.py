# SPDX-License-Identifier: MIT
"""kdyno build."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from kdyno.verbs.options import ExperimentFile, Jobs, NoSandbox, Ref, Refresh, Variants, load
from kdyno.verbs.output import Json, check_writable, say, show, write_json

if TYPE_CHECKING:
    from pathlib import Path

    from kdyno.measure.builder import Recipes

NAME = "build"
EXAMPLES = (
    "Examples: kdyno build experiments/simd-memcpy.toml | "
    "kdyno build mine.toml --variant mine --json -"
)


def verb(
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
    from kdyno import sandbox
    from kdyno.experiment.overrides import Overrides, apply
    from kdyno.machines.kinds import KINDS
    from kdyno.measure.builder import build_all, check
    from kdyno.paths import cache_root
    from kdyno.verbs.watching import Building

    check_writable(json)
    sandbox.require(not no_sandbox)
    asked, _ = load(experiment, ref)
    asked = apply(Overrides(variants=tuple(variant or ())), asked)
    if not KINDS[asked.machine.kind].builds:
        say(f"nothing to build: the machine {asked.machine.kind!r} runs the kernel as it is")
        if json is not None:
            write_json({"images": {}, "failed": {}}, json)
        return 0
    watch = Building()
    try:
        recipes = check(
            *(asked, cache_root(), watch.fetching), refresh=refresh, new=True, report=watch.building
        )
        for note in recipes.notes:
            say(note)
        if dry_run:
            return _wanted(recipes, cache_root(), json)
        built = build_all(
            asked,
            recipes,
            cache_root(),
            sandboxed=not no_sandbox,
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


def _wanted(recipes: Recipes, cache: Path, json: str | None) -> int:
    from kdyno.kernels.image import find

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
