# SPDX-License-Identifier: MIT
"""Everything that goes into an image, as one value with one digest, and who may share the products.

What a build leaves (objects, cached compilations, configurations, images) says what foreign code
that ran in it made it say. So each product belongs to the set of foreign parts that ran, and goes
to builds that run all of them anyway."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from kdyno.errors import UsageError
from kdyno.experiment.model import NATIVE_COPIES, ConfigFragment, Variant
from kdyno.kernels import changes as changing, cpu
from kdyno.kernels.changes import Changes
from kdyno.kernels.compiler import Compiler, for_tree
from kdyno.kernels.config import Arch, Wish, arch, wishes
from kdyno.kernels.routines.routine import (
    PAGES,
    PAGES_PATCH,
    Routine,
    flatten,
    kernel_sources,
    of_variant,
    patches_folder,
    routines_folder,
)
from kdyno.kernels.scheduler import refuse_unfit
from kdyno.kernels.source import Tree
from kdyno.kernels.sources.tree import sha256_of

# Part of every digest: raise it when the way of building changes what comes out.
RECIPE_VERSION = 1
_LARGEST_BYTES = 1 << 30
_FILES = (
    "SYSTEM_TRUSTED_KEYS",
    "SYSTEM_REVOCATION_KEYS",
    "MODULE_SIG_KEY",
    "BOOT_CONFIG_EMBED_FILE",
)
"""Options whose value is a file; of the source, where it does not begin at the root."""
_OTHER_ARCH = re.compile(r"arch/(?!um/|x86/)")
_PATH = re.compile(r"(?<![^\s=,:])/[^\s=,:]+")
_HEADER = re.compile(
    r"(?:(?:arch/(?:um|x86)/)?include/(?:uapi/|shared/(?:skas/)?)?|arch/x86/um/(?:shared/)?)(.+\.h)"
)


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
    """What code it brings along, see foreign_parts; no part of the digest."""
    layout: int = 0
    """Seed of the order in which its code is linked, see leavings.py; 0: the linker's own."""

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
            **self.around,
        }

    @cached_property
    def around(self) -> dict[str, object]:
        """What flags and options name and do not say: the CPU that a kernel is compiled on, and the
        content of files of this machine."""
        flags = " ".join((self.cflags, *(own for _file, own in self.file_cflags)))
        options = {wish.option: wish.value.strip('"') for wish in self.wishes}
        folder = Path(options.get("CONFIG_EXTRA_FIRMWARE_DIR") or "/lib/firmware")
        named = [Path(each) for each in _PATH.findall(flags)]
        sources = options.get("CONFIG_INITRAMFS_SOURCE", "").split()
        named += [file for each in sources for file in _of_initramfs(Path(each))]
        values = (Path(options.get(f"CONFIG_{option}", "")) for option in _FILES)
        named += [value for value in values if value.is_absolute()]
        named += [folder / each for each in options.get("CONFIG_EXTRA_FIRMWARE", "").split()]
        files = {str(each): sha256_of(each) for each in named if _is_plain_file(each)}
        native = "=native" in flags or options.get("CONFIG_X86_NATIVE_CPU") == "y"
        here = {"cpu": [cpu.this_cpu().model, *sorted(cpu.flags())]} if native else {}
        return {**({"files": files} if files else {}), **here}

    @cached_property
    def digest(self) -> str:
        """Name of the image: 32 hex digits."""
        return _digest(json.dumps(self.inputs, sort_keys=True).encode())[:32]

    @cached_property
    def config_digest(self) -> str:
        """Name of the final .config: what Kconfig can see of the inputs."""
        return self._seen_by_kconfig()

    @cached_property
    def kconfig_digest(self) -> str:
        """Equal where one Kconfig serves two recipes, whatever options they request."""
        return f"{self._seen_by_kconfig(config=[])} {sorted(self.foreign)}"

    @cached_property
    def _files(self) -> Set[str]:
        """Paths of the source as it is built."""
        return (self.tree.manifest().keys() | self.changes.files.keys()) - self.changes.deleted

    @cached_property
    def namesakes(self) -> str:
        """Digest of the headers that have namesakes. One of those hides another, and what make and
        ccache record of an object are the files that were read, not what would be now."""
        places: dict[str, list[str]] = {}
        for path in sorted(self._files):
            if match := _HEADER.fullmatch(path):
                places.setdefault(match[1], []).append(path)
        several = [path for paths in places.values() if len(paths) > 1 for path in paths]
        # Nor does make see what a flag's value means today.
        several += [json.dumps(self.around, sort_keys=True)] if self.around else []
        return _digest("\n".join(several).encode("utf-8", "surrogateescape"))[:16]

    @cached_property
    def embedding(self) -> list[str]:
        """Names, without suffix, of the assembler files that bring in other files as they are."""

        def content(path: str) -> bytes:
            place = self.tree.path / path
            return self.changes.files.get(path) or (place.read_bytes() if place.is_file() else b"")

        own = (path for path in self._files if path.endswith(".S") and not _OTHER_ARCH.match(path))
        return sorted({Path(path).stem for path in own if b".incbin" in content(path)})

    def _seen_by_kconfig(self, **other: object) -> str:
        visible = [path for path in self.changes.files if not path.endswith((".c", ".S", ".h"))]
        inputs = dict(self.inputs, changes=self.changes.only(visible).digest(), cflags="", **other)
        return _digest(json.dumps(inputs, sort_keys=True).encode())[:32]


def _of_initramfs(source: Path) -> Iterator[Path]:
    """What goes into it: all of a folder, or a file, and what that names where it is a list."""
    if source.is_dir():
        yield from sorted(source.rglob("*"))
    elif _is_plain_file(source):
        yield source
        for line in source.read_bytes().splitlines() if source.suffix != ".cpio" else ():
            match line.split():
                case [b"file", _name, place, *_]:
                    yield Path(os.fsdecode(place))


def _is_plain_file(path: Path) -> bool:
    """With content and an end: not /proc/kmsg, not /proc/kcore."""
    try:
        return path.is_file() and 0 < path.stat().st_size < _LARGEST_BYTES
    except OSError:
        return False


def recipe_of(variant: Variant, tree: Tree) -> Recipe:
    """The recipe of ``variant`` on its fetched source tree. UsageError when a patch, applied to
    copies, does not fit, a file or compiler is missing, or a routine does not go with the arch."""
    chosen = arch(variant.arch)
    if variant.memcpy in NATIVE_COPIES and chosen.name != "x86_64":
        raise UsageError(
            f"variant {variant.name!r}: memcpy = {variant.memcpy!r} is for arch 'x86_64', whose "
            f"kernels choose by the CPU's features; arch {chosen.name!r} does not",
            key="memcpy",
        )
    placed: dict[str, str] = {}
    patches = variant.patches
    if routines := of_variant(variant.memcpy, variant.routines):
        if chosen.word_bits != 64:
            raise UsageError(
                f"variant {variant.name!r}: memory routines are for 64-bit kernels, "
                f"arch {chosen.name!r} is {chosen.word_bits}-bit",
                key=routines[0].function,
            )
        placed = kernel_sources(routines, chosen.name)
        if any(routine.function in PAGES for routine in routines):
            patches = tuple(dict.fromkeys((*patches, patches_folder() / PAGES_PATCH)))
    if variant.program_bits not in (None, *chosen.runs):
        raise UsageError(
            f"variant {variant.name!r}: a kernel of arch {chosen.name!r} runs no "
            f"{variant.program_bits}-bit programs",
            key="programs",
        )
    lines = tuple(Wish(name, value, "").line for name, value in chosen.config.items())
    own = ConfigFragment(f"arch = {chosen.name}", lines)
    for wish in wishes(variant.config):
        if chosen.config.get(wish.option, wish.value) != wish.value:
            raise UsageError(
                f"variant {variant.name!r}: {wish.line} (from {wish.origin}) contradicts "
                f"arch {chosen.name!r}, which sets it to {chosen.config[wish.option]}; "
                "choose another arch or drop the line",
                key="config",
            )
    requests = wishes((*variant.config, own))
    refuse_unfit(variant, requests, tree)
    return Recipe(
        tree=tree,
        arch=chosen,
        wishes=requests,
        changes=changing.of_variant(tree.path, patches, placed, variant.file_cflags),
        cflags=" ".join(variant.cflags.split()),
        file_cflags=variant.file_cflags,
        compiler=for_tree(variant.compiler, tree.path),
        foreign=foreign_parts(replace(variant, patches=patches), tree, routines, requests),
    )


def image_folder(cache: Path, recipe: Recipe) -> Path:
    return cache / "images" / f"{recipe.digest}{foreign_suffix(recipe.foreign)}"


_SOURCE = "source "
SUFFIX_LETTERS = 12
_COMPILER = re.compile(r"(?:x86_64-linux-gnu-)?(?:gcc|clang)(?:-[0-9]{1,3})?")
_FLAG = re.compile(
    r"-O(?:[0-3sgz]|fast)?|-g[0-3]?|-m(?!llvm)[a-z0-9.=_+-]+|-D[A-Za-z_]\w*(?:=\w*)?"
    r"|-f(?!plugin|pass-plugin|dump|profile|save|callgraph|sanitize|stack-usage|auto-profile)"
    r"[a-z0-9=_+-]+|-W[a-z0-9=+-]*"
)
"""Flags that name no file, no program and no further output."""
_VALUE = re.compile(r"[ynm]|-?[0-9]{1,20}|0x[0-9a-fA-F]{1,16}|\"[A-Za-z0-9 _.-]*\"")
"""Values that neither make nor a shell takes for more than text."""


def foreign_parts(
    variant: Variant, tree: Tree, routines: Iterable[Routine], wishes: Iterable[Wish]
) -> frozenset[str]:
    """The foreign parts of a variant, each under a name that its content or its place gives it."""
    parts = {_SOURCE + tree.origin} if tree.origin else set()
    for patch in variant.patches:
        if patch.resolve().parent != patches_folder().resolve():
            parts.add(f"patch {_digest(patch.read_bytes())}")
    for routine in routines:
        if routine.path.resolve().parent != routines_folder().resolve():
            parts.add(f"routine {_digest(flatten(routine.path).encode())}")
    for line in (variant.cflags, *(flags for _file, flags in variant.file_cflags)):
        parts |= {f"flag {word}" for word in line.split() if not _FLAG.fullmatch(word)}
    parts |= {f"option {wish.line}" for wish in wishes if not _VALUE.fullmatch(wish.value)}
    if not _COMPILER.fullmatch(variant.compiler):
        parts.add(f"compiler {variant.compiler}")
    return frozenset(parts)


def source_parts(foreign: frozenset[str]) -> frozenset[str]:
    """The part that is the source's own: what every variant of it shares."""
    return frozenset(part for part in foreign if part.startswith(_SOURCE))


def foreign_suffix(foreign: frozenset[str]) -> str:
    """For the names of files and folders that belong to these parts; empty where there are none."""
    if not foreign:
        return ""
    names = "\0".join(sorted(foreign)).encode("utf-8", "surrogateescape")
    return f"-{_digest(names)[:SUFFIX_LETTERS]}"


def compile_cache(cache: Path, foreign: frozenset[str]) -> tuple[Path, bool]:
    """The folder of compilations that a build may read, and whether it may add to them. One for all
    signed sources, one for each other source. What an experiment adds to a source only reads the
    source's, so that a patch cannot change what a build without it finds there."""
    home = source_parts(foreign)
    name = f"signed{foreign_suffix(home)}".removeprefix("signed-")
    return cache / "ccache" / name, foreign == home


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
