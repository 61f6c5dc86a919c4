# SPDX-License-Identifier: MIT
"""How far a kernel build is, read from what make prints."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

# Kbuild's short form: two spaces, the step, the file. Host tools count as well.
_STEP = re.compile(r"^  (?:HOST)?(CC|AS|LD|AR|CPP|GEN|LINK|LEX|YACC|[A-Z]+)\b.* (\S+)$")
_COMPILED = re.compile(r"^  (CC|AS) +(?:\[M\] +)?(\S+)$")


@dataclass(frozen=True)
class BuildProgress:
    """One step of a build. ``total`` is None while nobody can know it."""

    variant: str
    phase: str
    """copy, configure, compile, link, done, waiting"""
    objects: int
    total: int | None
    elapsed_s: float
    detail: str = ""

    @property
    def left_s(self) -> float | None:
        """Seconds left at the pace so far; None before that means anything."""
        if self.total is None or self.objects < 10:
            return None
        return max(0.0, self.elapsed_s / self.objects * (self.total - self.objects))


Report = Callable[[BuildProgress], None]


def silent(_progress: BuildProgress) -> None:
    """A Report that shows nothing."""


def compiled_object(line: str) -> str | None:
    """The object that a line of make's output says it compiles."""
    match = _COMPILED.match(line)
    return match[2] if match else None


def is_link(line: str) -> bool:
    """Whether the line belongs to the linking of the image."""
    match = _STEP.match(line)
    return bool(match) and ("vmlinux" in line or line.startswith("  LINK"))


def expected_objects(options_set: int) -> int:
    """Objects of a full build of a configuration with ``options_set`` options at y.

    An estimate for the first build only (737 objects at 230 options were seen on 7.3 under
    ARCH=um); later builds use the count of the build before.
    """
    return round(3.2 * options_set)


_ERROR_LINES = 12


def error_lines(log: str) -> list[str]:
    """The compiler's and make's own lines about what failed, in order, without repeats.

    Where only make complains, the lines before its complaint are the failed program's.
    """
    telling = re.compile(
        r"(?:\b(?:error|Error)\b[: ]|undefined reference|multiple definition|No rule to make"
        r"|\*\*\* |not found|cannot find|No such file|No space left|^bwrap: )"
    )
    said = [line for line in log.splitlines() if line.strip() and line[:2] != "$ "]
    found = [at for at, line in enumerate(said) if telling.search(line)]
    own = [said[at] for at in found if not said[at].startswith(("make", "gmake"))]
    if not own and found:
        own = said[max(0, found[0] - 4) : found[0]] + [said[at] for at in found]
    return list(dict.fromkeys(own or said[-4:]))[:_ERROR_LINES]
