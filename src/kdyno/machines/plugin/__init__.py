# SPDX-License-Identifier: MIT
"""Plugins for QEMU that see every instruction; built when needed."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from kdyno import whole
from kdyno.command import capture, for_tools, require
from kdyno.errors import ToolError
from kdyno.kernels.compiler import identify
from kdyno.machines.emulator import Emulator

COUNTS = "counts"
"""Name of what a counted boot leaves: how often each instruction was executed, and by which calls.
It is given FUNCTIONS."""
FUNCTIONS = "functions"
"""Name of what it is given: lines of ``ADDRESS NUMBER ENTERS``, where functions begin."""
_FOLDER = Path(__file__).parent
TALLY = "tally"
"""Name of the plugin that counts instructions of programs and of the kernel apart."""
_SOURCES = {
    COUNTS: ("count.c", "calls.c", "code.c", "counters.c"),
    TALLY: ("tally.c", "code.c", "counters.c"),
}
_SINCE = (((9, 1), 3), ((9, 0), 2))
"""Version of QEMU → of its interface, where older ones are refused or have other arguments."""
_FLAGS = (
    *("-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror"),
    *("-shared", "-fPIC", "-fvisibility=hidden"),
)


@dataclass(frozen=True)
class Plugin:
    """One to be loaded into a guest's QEMU."""

    library: Path
    writes: Path
    """The host's file that it fills."""
    reads: bytes = b""
    """What it is given beforehand."""


def interface_of(version: str) -> int:
    """Of QEMU's plugins, as INTERFACE in interface.h."""
    major, minor = map(int, version.split(".")[:2])
    return next((number for since, number in _SINCE if (major, minor) >= since), 1)


@cache
def library(name: str, cache_root: Path, emulator: Emulator) -> Path:
    """The shared object of a plugin, for the interface of this QEMU. ToolError where it does not
    build."""
    flags = (*_FLAGS, f"-DINTERFACE={interface_of(emulator.version)}")
    compiler = require("gcc", "to build the plugin that counts by address")
    sources = [_FOLDER / file for file in _SOURCES[name]]
    total = hashlib.sha256(f"{identify('gcc').version} {flags}".encode())
    for file in (*sources, *sorted(_FOLDER.glob("*.h"))):
        total.update(file.read_bytes())
    folder = cache_root / "plugin" / total.hexdigest()[:32]
    if not folder.is_dir():
        with whole.locked(folder.parent / ".lock"), whole.folder(folder) as aside:
            made = aside / f"{name}.so"
            argv = [compiler, *flags, "-o", str(made), *map(str, sources)]
            done = capture(argv, env=for_tools())
            if done.status != 0:
                raise ToolError(f"the plugin did not build: {done.output.strip()[-500:]}")
    return folder / f"{name}.so"
