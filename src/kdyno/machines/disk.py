# SPDX-License-Identifier: MIT
"""A disk for one boot: a sparse file with an ext4, or on the host a folder; gone afterwards."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kdyno import space, whole
from kdyno.command import capture, require
from kdyno.errors import ToolError

SPARE_BYTES = 1 << 30
"""Left free on the host's file system, whatever a boot writes."""


@contextmanager
def image(parent: Path, size_bytes: int) -> Iterator[Path]:
    """A file of ``size_bytes`` with an empty ext4, the same in every boot.

    ToolError where the file system of ``parent`` has not that much to spare.
    """
    with folder(parent, size_bytes) as inside:
        file = inside / "disk"
        with file.open("wb") as handle:
            handle.truncate(size_bytes)
        # Nothing is left for the kernel to initialise later, in the middle of a measurement;
        # fixed identifiers, so that directories hash alike in every boot.
        fixed = "6b64796e-6f00-4000-8000-000000000001"
        options = f"lazy_itable_init=0,lazy_journal_init=0,hash_seed={fixed}"
        made = capture(
            [
                _mkfs(),
                *("-q", "-F", "-t", "ext4", "-m", "0", "-U", fixed, "-E", options),
                *("-J", "size=16", str(file)),
            ]
        )
        if made.status != 0:
            raise ToolError(f"{file}: mkfs.ext4 failed: {made.output.strip()[-500:]}")
        yield file


@contextmanager
def folder(parent: Path, size_bytes: int) -> Iterator[Path]:
    """An empty folder on the file system of ``parent``, which must have the room."""
    parent.mkdir(parents=True, exist_ok=True)
    whole.sweep(parent)  # before it is asked whether there is room
    space.require(parent, size_bytes + SPARE_BYTES)
    with whole.scratch("boot", parent) as made:
        yield made


def _mkfs() -> str:
    for program in ("mkfs.ext4", "/usr/sbin/mkfs.ext4", "/sbin/mkfs.ext4"):
        if shutil.which(program):
            return program
    return require("mkfs.ext4", "for cases on a disk (Debian package e2fsprogs)")
