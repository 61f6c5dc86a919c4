# SPDX-License-Identifier: MIT
"""The guest program, compiled once from guest/ for each word size and kept in the cache."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
from functools import cache
from pathlib import Path

from kdyno.command import capture, require
from kdyno.errors import ToolError
from kdyno.kernels.compiler import identify
from kdyno.paths import data_root


@cache
def guest_program(cache_root: Path, word_bits: int) -> Path:
    """Path of the static guest program for kernels of ``word_bits``.

    The same file is used in every variant: only the kernel may differ. ToolError where the
    compiler cannot link static programs of that word size.
    """
    source = data_root() / "guest"
    folder = cache_root / "guest" / _digest(source)
    program = folder / f"kdyno-guest-{word_bits}"
    if not folder.is_dir():
        _compile(source, folder)
    if not program.is_file():
        raise ToolError(
            f"no {word_bits}-bit guest program: gcc cannot link static {word_bits}-bit programs. "
            "On Debian: apt-get install gcc-multilib"
        )
    return program


def _digest(source: Path) -> str:
    total = hashlib.sha256(identify("gcc").version.encode())
    for file in sorted(source.rglob("*")):
        if file.suffix in (".c", ".h") or file.name == "Makefile":
            total.update(str(file.relative_to(source)).encode() + b"\0" + file.read_bytes())
    # Whether -m32 links decides what is built, so a later gcc-multilib gives a new name.
    total.update(capture(["gcc", "-m32", "-print-file-name=libc.a"]).output.encode())
    return total.hexdigest()[:32]


def _compile(source: Path, folder: Path) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / ".lock").open("a+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if folder.is_dir():
            return
        aside = folder.parent / f".{folder.name}.{os.getpid()}"
        shutil.rmtree(aside, ignore_errors=True)
        make = require("make", "to build the guest program")
        done = capture([make, "-C", str(source), f"OUT={aside}", "-j2"])
        if done.status != 0:
            shutil.rmtree(aside, ignore_errors=True)
            raise ToolError(f"the guest program did not build:\n{done.output.strip()[-2000:]}")
        aside.rename(folder)
