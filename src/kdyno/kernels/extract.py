# SPDX-License-Identifier: MIT
"""What a build can yield beside its image: something read from the object tree it leaves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from kdyno.kernels.image import Image
from kdyno.kernels.recipe import Recipe


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
