# SPDX-License-Identifier: MIT
"""A plugin for QEMU that counts how often each instruction was executed; built when needed."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

from kdyno import whole
from kdyno.command import capture, require
from kdyno.errors import ToolError
from kdyno.kernels.compiler import identify
from kdyno.machines.emulator import Emulator

COUNTS = "counts"
"""Name of what a counted boot leaves: lines of ``part N`` and ``ADDRESS COUNT``."""
_SOURCE = Path(__file__).with_name("count.c")
_FIRST_WITHOUT = 9
"""The interface of QEMU 9 counts in another way."""


@cache
def count_plugin(cache_root: Path, emulator: Emulator) -> Path:
    """The shared object. ToolError where this QEMU cannot load it or it does not build."""
    if int(emulator.version.partition(".")[0]) >= _FIRST_WITHOUT:
        raise ToolError(
            f"counts by address are made with QEMU 7.2 to 8.2, and this is {emulator.version}"
        )
    compiler = require("gcc", "to build the plugin that counts by address")
    digest = hashlib.sha256(_SOURCE.read_bytes() + identify("gcc").version.encode()).hexdigest()
    folder = cache_root / "plugin" / digest[:32]
    if not folder.is_dir():
        with whole.locked(folder.parent / ".lock"), whole.folder(folder) as aside:
            flags = (
                "-O2",
                "-Wall",
                "-Wextra",
                "-Werror",
                "-shared",
                "-fPIC",
                "-fvisibility=hidden",
            )
            done = capture([compiler, *flags, "-o", str(aside / "count.so"), str(_SOURCE)])
            if done.status != 0:
                raise ToolError(f"the plugin did not build: {done.output.strip()[-500:]}")
    return folder / "count.so"
