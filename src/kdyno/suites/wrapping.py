# SPDX-License-Identifier: MIT
"""Cases that wrap an existing program: their command line.

In a command, ``{name}`` is a setting of the case, or one of

seconds        as asked for, such as 0.5      whole_seconds  the same, rounded up, at least 1
milliseconds   the same in whole ones         cpus           CPUs of the machine
dir            a working folder, in memory in a guest
disk           a folder on a real file system tree           the kernel source, read-only
programs       kdyno's own programs, scripts  prepared       what the case's ``prepare`` made

The last five are known to the machine only, which puts them in.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

PLACES = frozenset({"dir", "disk", "tree", "programs", "prepared"})
"""Placeholders that a machine fills."""
BUILTIN = PLACES | {"seconds", "whole_seconds", "milliseconds", "cpus"}
_PLACEHOLDER = re.compile(r"\{([a-z][a-z0-9_]*)\}")


def placeholders(word: str) -> list[str]:
    """The names in ``{…}`` in a word of a command."""
    return _PLACEHOLDER.findall(word)


def filled_in(
    command: tuple[str, ...], settings: Mapping[str, str], seconds: float, cpus: int
) -> tuple[str, ...]:
    """The command with its settings in place; a machine's own places are left for it."""
    values = {
        **settings,
        "seconds": f"{seconds:g}",
        "whole_seconds": str(max(1, math.ceil(seconds))),
        "milliseconds": str(max(1, round(1000 * seconds))),
        "cpus": str(cpus),
    }
    return tuple(
        _PLACEHOLDER.sub(lambda match: values.get(match[1], match[0]), word) for word in command
    )


def in_words(words: tuple[str, ...], places: Mapping[str, str]) -> tuple[str, ...]:
    """The words with a machine's places in them."""
    return tuple(_PLACEHOLDER.sub(lambda it: places.get(it[1], it[0]), word) for word in words)
