# SPDX-License-Identifier: MIT
"""The guest program, compiled once from guest/ for each word size and kept in the cache."""

from __future__ import annotations

import hashlib
import shutil
from functools import cache
from pathlib import Path

from kdyno import whole
from kdyno.command import capture, for_tools, require
from kdyno.errors import ToolError
from kdyno.kernels.compiler import identify
from kdyno.paths import data_root

GUEST_PLACES = {
    "dir": "/tmp",
    "disk": "/run/disk",
    "tree": "/run/kdyno/tree",
    "programs": "/run/kdyno/programs",
    "prepared": "/run/kdyno/prepared",
}
"""Where the program puts what a case's command line asks for, as a kernel's first process."""
_PACKAGES = "// packages: "
"""In a program's source: the pkg-config modules that it needs."""


@cache
def guest_program(cache_root: Path, word_bits: int) -> Path:
    """Path of the static guest program for kernels of ``word_bits``. The same file is used in every
    variant: only the kernel may differ. ToolError where the compiler cannot link static programs of
    that word size."""
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


def programs_folder(program: Path) -> Path:
    """Scripts and programs that suites call ``{programs}/NAME``, beside the guest program."""
    return program.parent / "programs"


def guest_digest() -> str:
    """Of all that kdyno's own programs are made of."""
    return _digest(data_root() / "guest")


def _digest(source: Path) -> str:
    total = hashlib.sha256(identify("gcc").version.encode())
    for file in sorted(source.rglob("*")):
        if file.suffix in (".c", ".h", ".S", ".sh", ".fio") or file.name == "Makefile":
            total.update(str(file.relative_to(source)).encode() + b"\0" + file.read_bytes())
    # Whether -m32 links decides what is built, so a later gcc-multilib gives a new name.
    total.update(capture(["gcc", "-m32", "-print-file-name=libc.a"]).output.encode())
    total.update(_libraries(source).encode())
    return total.hexdigest()[:32]


def _libraries(source: Path) -> str:
    """The versions of what guest/programs link with: a library that is installed later counts."""
    if shutil.which("pkg-config") is None:
        return ""
    packages: set[str] = set()
    for file in (source / "programs").glob("*.c"):
        for line in file.read_text(encoding="utf-8").splitlines()[:5]:
            if line.startswith(_PACKAGES):
                packages |= {*line.removeprefix(_PACKAGES).split()}
    command = ["pkg-config", "--modversion"]
    return "".join(f"{each} {capture([*command, each]).output}" for each in sorted(packages))


def _compile(source: Path, folder: Path) -> None:
    make = require("make", "to build the guest program")
    with whole.locked(folder.parent / ".lock"):
        if folder.is_dir():
            return
        with whole.folder(folder) as aside:
            result = capture([make, "-C", str(source), f"OUT={aside}", "-j2"], env=for_tools())
            if result.status != 0:
                text = result.output.strip()[-2000:]
                raise ToolError(f"the guest program did not build:\n{text}")
