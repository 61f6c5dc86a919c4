# SPDX-License-Identifier: MIT
"""Where a kernel's source comes from: how it is written, and how it gets into the cache."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from kdyno import deferred, whole
from kdyno.errors import UsageError
from kdyno.kernels.sources import git
from kdyno.kernels.sources import tree as trees
from kdyno.kernels.sources.git import is_url
from kdyno.kernels.sources.tree import KERNEL_TREE_BYTES, Progress, Request, SourceSpec, Tree
from kdyno.reading.mistakes import meant

__all__ = ["KERNEL_TREE_BYTES", "Progress", "SourceSpec", "Tree", "is_url"]


class Kind(NamedTuple):
    """A kind of source."""

    form: str
    """How it is written."""
    resolve: Callable[[Request], Tree]
    record: Callable[[SourceSpec, Path], Path] | None = None
    """(source, cache) → the record of its tree; None: it is on this machine."""
    names: str = ".+"
    """What may follow the colon, as a pattern."""
    noun: str = ""
    """What it is that follows the colon, for messages."""
    verified: bool = False
    """It is signed, or has a published checksum."""


_DEBIAN = "debian:PACKAGE or debian:PACKAGE=VERSION, for example debian:linux-source-6.12"
_TAR = "tar:FILE, a .tar, .tar.xz, .tar.gz, .tar.bz2 or .tar.zst"
_GIT = "git:DIR_OR_URL#REF; without #REF it is HEAD"
_RELEASE = "kernel.org:VERSION, for example kernel.org:6.12.3"
_PACKAGE = r"[a-z0-9][a-z0-9+.-]+(=[A-Za-z0-9.+:~-]+)?"
_VERSION = r"[1-9]\d*\.\d+(\.\d+)?(-rc\d+)?"


def _late(place: str) -> Callable[..., Any]:
    return deferred(f"kdyno.kernels.sources.{place}")


_KINDS: Mapping[str, Kind] = {
    "debian": Kind(
        _DEBIAN,
        _late("debian:resolve"),
        _late("debian:record_of"),
        _PACKAGE,
        "a Debian package name",
        verified=True,
    ),
    "tar": Kind(_TAR, _late("archive:from_file")),
    "git": Kind(_GIT, git.resolve, git.record_of),
    "kernel.org": Kind(
        _RELEASE,
        _late("archive:from_kernel_org"),
        _late("archive:release_record"),
        _VERSION,
        "a kernel release",
        verified=True,
    ),
    "path": Kind("path:DIR, a snapshot of a folder as it is now", _late("folder:resolve")),
}
KINDS: Mapping[str, str] = {name: kind.form for name, kind in _KINDS.items()}
"""Kind of source → how it is written."""


def parse(text: str) -> SourceSpec:
    """Take ``KIND:REST`` apart. UsageError says what is wrong with it and what is allowed."""
    name, colon, rest = text.partition(":")
    if not colon or name not in _KINDS:
        hint = meant(name, KINDS, " Did you mean {}:?")
        raise UsageError(
            f"source {text!r} does not begin with a kind of source.{hint} Allowed: "
            + "; ".join(KINDS.values())
        )
    kind = _KINDS[name]
    if not rest or any(ord(letter) < 32 or ord(letter) == 127 for letter in rest):
        problem = "has nothing after the colon" if not rest else "contains a control character"
        raise UsageError(f"source {text!r} {problem}. It is written {kind.form}")
    if name == "git":
        return git.parse(text, rest, kind.form)
    if not re.fullmatch(kind.names, rest):
        raise UsageError(f"source {text!r}: {rest!r} is not {kind.noun}. {kind.form}")
    return SourceSpec(name, rest)


def fetch(spec: SourceSpec, cache: Path, progress: Progress, *, refresh: bool = False) -> Tree:
    """The tree of ``spec``, fetched and unpacked into ``cache`` unless it is there already.

    What was fetched once is used without the network; ``refresh`` asks for the newest package
    of a ``debian:`` source and for the present place of a ``git:`` URL's branch. Folders and
    files of this machine are looked at every time. UsageError for a source that cannot be,
    ToolError for a network, disk or program that failed.
    """
    with whole.cache_errors(cache, KERNEL_TREE_BYTES):
        tree = _KINDS[spec.kind].resolve(Request(spec, cache, progress, refresh))
    return replace(tree, origin=origin_of(spec))


def origin_of(spec: SourceSpec) -> str:
    """Who answers for its code: empty for what is signed or has a published checksum."""
    if _KINDS[spec.kind].verified:
        return ""
    place = spec.rest if is_url(spec.rest) else Path(spec.rest).expanduser().resolve()
    return f"{spec.kind}:{place}"


def at_hand(spec: SourceSpec, cache: Path) -> bool:
    """Whether ``fetch`` needs no network: it is on this machine, or was fetched before."""
    record = _KINDS[spec.kind].record
    if record is None or (spec.kind == "git" and not is_url(spec.rest)):
        return True
    return trees.recorded(cache, record(spec, cache)) is not None
