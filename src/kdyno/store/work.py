# SPDX-License-Identifier: MIT
"""What a case did, as a digest that is equal for equal work, whoever wrote the job down."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256

_TEMPORARY = re.compile(r"/\S*kdyno-\S*")
_CASE = re.compile(r"^case \d+ ", re.MULTILINE)


@dataclass(frozen=True)
class Work:
    digest: str
    seconds: float | None
    """For which the case was measured; None: not said."""


def work_digest(bench: str, operations: int | None, args: Sequence[str]) -> str:
    """Of the benchmark, its fixed number of operations and its arguments.

    How long it is measured is not in it, nor are the names of kdyno's own temporary folders.
    """
    fixed = [f"operations {operations}"] if operations is not None else []
    return _digest([bench, *fixed, *(f"arg {arg}" for arg in args)])


def works_in(job: str) -> list[Work]:
    """The cases of a boot's job as runs of 0.1.0 stored it, in the job's order."""
    found = []
    for part in _CASE.split(job)[1:]:
        kept, seconds = [], None
        for line in part.splitlines():
            if line.startswith("seconds "):
                seconds = _number(line.removeprefix("seconds "))
            elif not line.startswith("timeout ") and line != "end":
                kept.append(line)
        found.append(Work(_digest(kept), seconds))
    return found


def _digest(lines: Sequence[str]) -> str:
    text = "\n".join(_TEMPORARY.sub("PATH", line) for line in lines)
    return sha256(text.encode("utf-8", "replace")).hexdigest()[:16]


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 < value < 1e9 else None
