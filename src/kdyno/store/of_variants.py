# SPDX-License-Identifier: MIT
"""Files of a run of which there is one for each variant, in a folder of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Protocol, TypeVar

from kdyno.errors import ToolError
from kdyno.store.boot import plain_name
from kdyno.store.folder import Folder
from kdyno.store.run import Run

_MOST_BYTES = 64 << 20


class OfVariant(Protocol):
    @property
    def variant(self) -> str: ...


T = TypeVar("T", bound=OfVariant)


def read_each(
    run: Run, folder: str, read: Callable[[bytes, Path], T], names: Iterable[str] | None = None
) -> dict[str, T]:
    """Variant → what its file says, the baseline's first; those of ``names``, or of all variants.

    Empty where there is none. ToolError names the file that is damaged or not the variant's.
    """
    found: dict[str, T] = {}
    with Folder.open(run.path) as whole:
        if folder not in whole.folders():
            return {}
        if names is None:
            manifest = run.manifest()
            names = (manifest.baseline, *manifest.images)
        with whole.folder(folder) as inside:
            for name in dict.fromkeys(names):
                file = file_name(name)
                if not inside.has(file):
                    continue
                path = run.path / folder / file
                it = read(inside.read(file, _MOST_BYTES), path)
                if it.variant != name:
                    raise ToolError(f"{path}: damaged: it is of {it.variant!r}, not {name!r}")
                found[name] = it
    return found


def file_name(variant: str) -> str:
    return f"{plain_name(variant)}.json"
