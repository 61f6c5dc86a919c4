# SPDX-License-Identifier: MIT
"""The image cache: bootable files named by the digest of everything that went into them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from kdyno import whole
from kdyno.errors import ToolError
from kdyno.kernels.recipe import Recipe, image_folder
from kdyno.kernels.scheduler import Scheduler
from kdyno.reading.checked import values_in


@dataclass(frozen=True)
class Image:
    """A built kernel. ``kernel`` is the file that a machine boots."""

    digest: str
    folder: Path
    arch: str
    word_bits: int
    version: str
    build: dict[str, Any]
    """How it was built: inputs, commands, seconds, objects compiled."""
    scheduler: Scheduler | None = None
    """The program that is to decide in it who runs; None: the kernel itself."""
    links: tuple[Image, ...] = ()
    """The same code linked in other orders, where [layout] asks for them."""

    def link(self, number: int) -> Image:
        """Of its links, which go round; itself where it has none."""
        return self.links[number % len(self.links)] if self.links else self

    @property
    def kernel(self) -> Path:
        return self.folder / "linux"

    @property
    def config(self) -> Path:
        return self.folder / "config"

    @cached_property
    def smp(self) -> bool:
        """Whether it can use more than one CPU."""
        return "\nCONFIG_SMP=y\n" in self.config.read_text(encoding="utf-8")


def find(cache: Path, recipe: Recipe) -> Image | None:
    """The image of ``recipe`` when it was built before."""
    folder = image_folder(cache, recipe)
    try:
        build = values_in(folder / "build.json")
    except (OSError, ValueError):
        return None
    if not (folder / "linux").is_file():
        return None
    with suppress(OSError):  # a cache that others own and this user only reads
        os.utime(folder)
    return Image(
        recipe.digest, folder, recipe.arch.name, recipe.arch.word_bits, recipe.tree.version, build
    )


@contextmanager
def building(cache: Path, digest: str, waiting: Callable[[str], None]) -> Iterator[None]:
    """Hold the image's lock: one process builds, the others wait and find it built."""

    def told(who: str) -> None:
        waiting(f"{who} is building the same image; waiting for it")

    with whole.locked(cache / "images" / f".{digest}.lock", told):
        yield


def install(cache: Path, recipe: Recipe, work: Path, files: dict[str, Path]) -> Image:
    """Put the finished files of a build under the image's name, whole or not at all."""
    folder = image_folder(cache, recipe)
    if (there := find(cache, recipe)) is not None:
        # The same image was built before: it may be booting, and only lacks a file beside it.
        for name, file in files.items():
            if not (folder / name).exists():
                os.link(file, folder / name)
        return there
    aside = work / f"image-{recipe.layout}"
    aside.mkdir()
    for name, file in files.items():
        os.link(file, aside / name)
    for name in files:
        with (aside / name).open("rb") as handle:
            os.fsync(handle.fileno())
    if folder.exists():  # damaged: find() did not take it
        folder.rename(work / f"damaged-{time.monotonic_ns()}")
    whole.into_place(aside, folder)
    image = find(cache, recipe)
    if image is None:
        raise ToolError(f"{folder}: written, but it cannot be read back")
    return image


@dataclass(frozen=True)
class Extract:
    """``flags`` ask the compiler to write more than objects, and must not change the code: the
    image keeps the name that it has without them."""

    name: str
    """Of the file that is kept beside the image."""
    flags: str
    collect: Callable[[Path, Path], None]
    """(object tree, file to write), after make and before the tree is kept or deleted."""

    def compiled_by(self, recipe: Recipe) -> Recipe:
        """The recipe as make sees it; its objects are no start for a build without the flags."""
        return replace(recipe, cflags=f"{recipe.cflags} {self.flags}".strip())


def has(image: Image, extract: Extract | None) -> bool:
    """Whether the file of ``extract`` lies beside the image."""
    return extract is None or (image.folder / extract.name).is_file()
