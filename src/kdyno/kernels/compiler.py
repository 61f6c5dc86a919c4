# SPDX-License-Identifier: MIT
"""The compiler that builds a variant: found, and identified by what it says of itself."""

from __future__ import annotations

import functools
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from kdyno.command import capture
from kdyno.confined import confined
from kdyno.errors import UsageError

_NAME = re.compile(r"^[A-Za-z0-9_./+-]+$")


@dataclass(frozen=True)
class Compiler:
    """``name`` as the experiment says it; ``version`` is the first line of --version."""

    name: str
    path: str
    version: str
    clang: bool

    def make_arguments(self, ccache: str | None) -> list[str]:
        """Arguments for the kernel's make."""
        front = [f"{Path(ccache).name} "] if ccache else [""]
        line = [f"CC={front[0]}{self.path if '/' in self.name else self.name}"]
        if self.clang:
            line += [f"HOSTCC={self.name}"]
            # Kbuild looks the target up by SUBARCH and knows this one only as x86.
            line += ["CLANG_TARGET_FLAGS_x86_64=x86_64-linux-gnu"]
        return line


@functools.cache
def identify(name: str) -> Compiler:
    """Find ``name`` on PATH; UsageError with the compilers that are there otherwise."""
    found = shutil.which(name) if _NAME.match(name) else None
    if found is None:
        there = ", ".join(installed()) or "none"
        raise UsageError(
            f"compiler {name!r} is not on this machine (found: {there}). "
            "Install it, or name one of those under `compiler`."
        )
    # An experiment may name any program of the machine, or one that came with it.
    said = capture(confined([found, "--version"], reads=[Path(found)]))
    first = said.output.splitlines()[0].strip() if said.output.strip() else ""
    if said.status != 0 or not first:
        raise UsageError(f"compiler {name!r} ({found}) does not answer --version")
    return Compiler(name, found, first, "clang" in first.lower())


def installed() -> list[str]:
    """Names of the C compilers on PATH, for messages."""
    versions = [*(f"gcc-{n}" for n in range(8, 20)), *(f"clang-{n}" for n in range(11, 25))]
    return [name for name in ("gcc", "clang", *versions) if shutil.which(name)]
