# SPDX-License-Identifier: MIT
"""The tables of an experiment file for many commits: [matrix], [watch], [bisect]."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import PlainValidator

from kdyno.experiment.model import Experiment, Share, Text, Texts, up_to, whole
from kdyno.reading.checked import Closed

_COMMIT = re.compile(r"[\w./~^@+-]{1,200}", re.ASCII)


def _commits(value: object) -> tuple[str, ...] | str:
    refs = value.split("..", 1) if isinstance(value, str) and ".." in value else value
    if not isinstance(refs, list) or not refs or not all(isinstance(ref, str) for ref in refs):
        raise ValueError('is "FROM..TO" or a list of commits')
    for ref in refs:
        if not _COMMIT.fullmatch(ref) or ".." in ref:
            raise ValueError(f"{ref!r} names no commit")
    if len(set(refs)) < len(refs):
        raise ValueError("a commit stands there twice")
    return value if isinstance(value, str) else tuple(refs)


@dataclass(frozen=True)
class Matrix(Closed):
    """Which commits: as listed, or "FROM..TO", those after the one up to the other."""

    refs: Annotated[tuple[str, ...] | str, PlainValidator(_commits)]

    @property
    def span(self) -> tuple[str, str] | None:
        if not isinstance(self.refs, str):
            return None
        first, _dots, last = self.refs.partition("..")
        return first, last


def _ref(value: object) -> str:
    if not isinstance(value, str) or not _COMMIT.fullmatch(value) or ".." in value:
        raise ValueError("names no commit, tag or branch")
    return value


Ref = Annotated[str, PlainValidator(_ref)]


@dataclass(frozen=True)
class Watching(Closed):
    """What `kdyno watch` does beyond measuring."""

    base: Ref | None = None
    """With what the branch is compared at first, and whenever it was rebased: the newest commit
    that both have."""
    command: Texts = ()
    """Gets each difference as JSON on its stdin."""


@dataclass(frozen=True)
class Searching(Closed):
    """What `kdyno bisect` searches."""

    good: Ref | None = None
    bad: Ref | None = None
    case: Text | None = None
    """SUITE/CASE, where the file has several."""
    min_effect: Share | None = None
    max_minutes: Annotated[float, up_to(60 * 24, "minutes")] | None = None
    layouts: Annotated[int, whole(6, 100)] | None = None


@dataclass(frozen=True)
class OfCommits:
    """An experiment whose variants are commits, for a watch or a search."""

    tables: dict[str, Any]
    """That all variants have in common."""
    experiment: Experiment
    """With the variants of ``ENDS``, both of the source as the file has it."""
    watch: Watching
    bisect: Searching


ENDS = ("reference", "tip")
