# SPDX-License-Identifier: MIT
"""Everything that goes into an image, as one value with one digest."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from kdyno.errors import UsageError
from kdyno.experiment.model import NATIVE_COPIES, ConfigFragment, Variant
from kdyno.kernels import changes as changing
from kdyno.kernels import foreign
from kdyno.kernels.arch import Arch, arch
from kdyno.kernels.changes import Changes
from kdyno.kernels.compiler import Compiler, for_tree
from kdyno.kernels.config import Wish, wishes
from kdyno.kernels.routines.routine import (
    PAGES,
    PAGES_PATCH,
    kernel_sources,
    of_variant,
    patches_folder,
)
from kdyno.kernels.scheduler import refuse_unfit
from kdyno.kernels.source import Tree

# Part of every digest: raise it when the way of building changes what comes out.
RECIPE_VERSION = 1


@dataclass(frozen=True)
class Recipe:
    """What an image is made of. Two variants with equal digests share one image."""

    tree: Tree
    arch: Arch
    wishes: tuple[Wish, ...]
    changes: Changes
    cflags: str
    file_cflags: tuple[tuple[str, str], ...]
    compiler: Compiler
    foreign: frozenset[str] = frozenset(("unknown",))
    """What code it brings along, see foreign.py; no part of the digest."""
    layout: int = 0
    """Seed of the order in which its code is linked, see layout.py; 0: the linker's own."""

    @cached_property
    def inputs(self) -> dict[str, object]:
        """The inputs as JSON values, as they are recorded beside the image."""
        return {
            "recipe": RECIPE_VERSION,
            "source": self.tree.digest,
            "arch": self.arch.name,
            "config": [wish.line for wish in self.wishes],
            "changes": self.changes.digest(),
            "cflags": self.cflags,
            "compiler": [self.compiler.name, self.compiler.version],
            **({"layout": self.layout} if self.layout else {}),
        }

    @cached_property
    def digest(self) -> str:
        """Name of the image: 32 hex digits."""
        text = json.dumps(self.inputs, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    @cached_property
    def config_digest(self) -> str:
        """Name of the final .config: what Kconfig can see of the inputs."""
        return self._seen_by_kconfig()

    @cached_property
    def kconfig_digest(self) -> str:
        """Equal where one Kconfig serves two recipes, whatever they ask of it."""
        return f"{self._seen_by_kconfig(config=[])} {sorted(self.foreign)}"

    def _seen_by_kconfig(self, **other: object) -> str:
        seen = [path for path in self.changes.files if not path.endswith((".c", ".S", ".h"))]
        inputs = dict(self.inputs, changes=self.changes.only(seen).digest(), cflags="", **other)
        return hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()[:32]


def recipe_of(variant: Variant, tree: Tree) -> Recipe:
    """The recipe of ``variant`` on its fetched source tree.

    Applies patches to copies; UsageError when one does not apply, a file or a compiler is
    not there, or the memory routine does not go with the architecture.
    """
    chosen = arch(variant.arch)
    if variant.memcpy in NATIVE_COPIES and chosen.name != "x86_64":
        raise UsageError(
            f"variant {variant.name!r}: memcpy = {variant.memcpy!r} is for arch 'x86_64', whose "
            f"kernels choose by the CPU's features; arch {chosen.name!r} does not"
        )
    placed: dict[str, str] = {}
    patches = variant.patches
    if routines := of_variant(variant.memcpy, variant.routines):
        if chosen.word_bits != 64:
            raise UsageError(
                f"variant {variant.name!r}: memory routines are for 64-bit kernels, "
                f"arch {chosen.name!r} is {chosen.word_bits}-bit"
            )
        placed = kernel_sources(routines, chosen.name)
        if any(routine.function in PAGES for routine in routines):
            patches = tuple(dict.fromkeys((*patches, patches_folder() / PAGES_PATCH)))
    if variant.program_bits not in (None, *chosen.runs):
        raise UsageError(
            f"variant {variant.name!r}: a kernel of arch {chosen.name!r} runs no "
            f"{variant.program_bits}-bit programs"
        )
    own = ConfigFragment(
        f"arch = {chosen.name}",
        tuple(
            f"# {name} is not set" if value == "n" else f"{name}={value}"
            for name, value in chosen.config.items()
        ),
    )
    for wish in wishes(variant.config):
        if chosen.config.get(wish.option, wish.value) != wish.value:
            raise UsageError(
                f"variant {variant.name!r}: {wish.line} (from {wish.origin}) contradicts "
                f"arch {chosen.name!r}, which sets it to {chosen.config[wish.option]}; "
                "choose another arch or drop the line"
            )
    wanted = wishes((*variant.config, own))
    refuse_unfit(variant, wanted)
    return Recipe(
        tree=tree,
        arch=chosen,
        wishes=wanted,
        changes=changing.of_variant(tree.path, patches, placed, variant.file_cflags),
        cflags=" ".join(variant.cflags.split()),
        file_cflags=variant.file_cflags,
        compiler=for_tree(variant.compiler, tree.path),
        foreign=foreign.parts(replace(variant, patches=patches), tree, routines, wanted),
    )


def image_folder(cache: Path, recipe: Recipe) -> Path:
    """Where the image of ``recipe`` lies or will lie."""
    return cache / "images" / f"{recipe.digest}{foreign.suffix(recipe.foreign)}"
