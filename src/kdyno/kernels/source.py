# SPDX-License-Identifier: MIT
"""Where a kernel's source comes from, and the pristine tree that it becomes in the cache."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

from kdyno import space
from kdyno.errors import UsageError
from kdyno.reading.mistakes import meant

Progress = Callable[[str, float | None], None]
"""Called with what is being done and the fraction done (0..1), or None where nobody knows."""

KINDS: Mapping[str, str] = MappingProxyType(
    {
        "debian": "debian:PACKAGE, for example debian:linux-source-6.12",
        "tar": "tar:FILE, a .tar, .tar.xz, .tar.gz, .tar.bz2 or .tar.zst",
        "git": "git:DIR_OR_URL#REF; without #REF it is HEAD",
        "kernel.org": "kernel.org:VERSION, for example kernel.org:6.12.3",
        "path": "path:DIR, a snapshot of a folder as it is now",
    }
)
"""Kind of source → how it is written."""

KERNEL_TREE_BYTES = 2_000_000_000
"""What a whole kernel tree takes on disk (7.3: 1.7 GB in 96,000 files)."""

_ROOM = "kdyno.kernels.sources"
_MODULES = {
    "debian": "debian",
    "tar": "tarball",
    "git": "git",
    "kernel.org": "kernel_org",
    "path": "folder",
}
_PACKAGE = re.compile(r"[a-z0-9][a-z0-9+.-]+")
_RELEASE = re.compile(r"[1-9]\d*\.\d+(\.\d+)?(-rc\d+)?")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_SCP_LIKE = re.compile(r"[^/:]+@[^/:]+:.+")
_VERIFIED = ("debian", "kernel.org")
_GIT_SCHEMES = ("https", "http", "ssh", "git", "file")
_REF = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./@^~{}+-]*")


@dataclass(frozen=True)
class SourceSpec:
    """A source as written, taken apart. ``ref`` is set for git only."""

    kind: str
    rest: str
    ref: str | None = None

    def __str__(self) -> str:
        return f"{self.kind}:{self.rest}" + (f"#{self.ref}" if self.ref is not None else "")


@dataclass(frozen=True)
class Tree:
    """Pristine kernel source in the cache. Builds read it and never write there.

    Every regular file has mode 644 or 755 and the same modification time; beside the folder
    lies ``manifest``, one line ``HASH MODE PATH`` per file and link, sorted by path.
    """

    path: Path
    digest: str
    """Hexadecimal; equal digests mean equal source."""
    description: str
    version: str
    """From the Makefile, for example ``7.3.4`` or ``6.19.0-rc2``."""
    origin: str = "unknown"
    """Where it came from; empty for what is signed or has a published checksum."""

    @property
    def manifest_path(self) -> Path:
        return self.path.parent / "manifest"

    def manifest(self) -> dict[str, str]:
        """Path → ``"HASH MODE"``: BLAKE2b-128 of the content, mode 644, 755 or link."""
        from kdyno.kernels.sources.manifest import read

        return read(self.manifest_path)


def parse(text: str) -> SourceSpec:
    """Take ``KIND:REST`` apart. UsageError says what is wrong with it and what is allowed."""
    kind, colon, rest = text.partition(":")
    if not colon or kind not in KINDS:
        hint = meant(kind, KINDS, " Did you mean {}:?")
        raise UsageError(
            f"source {text!r} does not begin with a kind of source.{hint} Allowed: "
            + "; ".join(KINDS.values())
        )
    if not rest or any(ord(letter) < 32 or ord(letter) == 127 for letter in rest):
        problem = "has nothing after the colon" if not rest else "contains a control character"
        raise UsageError(f"source {text!r} {problem}. It is written {KINDS[kind]}")
    if kind == "git":
        return _parse_git(text, rest)
    if kind == "debian" and not _PACKAGE.fullmatch(rest):
        raise UsageError(f"source {text!r}: {rest!r} is not a Debian package name. {KINDS[kind]}")
    if kind == "kernel.org" and not _RELEASE.fullmatch(rest):
        raise UsageError(f"source {text!r}: {rest!r} is not a kernel release. {KINDS[kind]}")
    return SourceSpec(kind, rest)


def _parse_git(text: str, rest: str) -> SourceSpec:
    place, mark, ref = rest.rpartition("#") if "#" in rest else (rest, "", "HEAD")
    if not place or (mark and not ref):
        raise UsageError(f"source {text!r} lacks its folder, URL or ref. {KINDS['git']}")
    # A leading dash would be read as an option by git, and "::" starts a transport helper,
    # which is a program of the URL's choice.
    if place.startswith("-"):
        raise UsageError(f"source {text!r}: a folder or URL must not begin with '-'")
    scheme = _SCHEME.match(place)
    if "::" in place or (scheme and scheme[1].lower() not in _GIT_SCHEMES):
        raise UsageError(
            f"source {text!r}: kdyno fetches from git over {', '.join(_GIT_SCHEMES)} "
            "and from folders only"
        )
    if ref.startswith("-") or not _REF.fullmatch(ref):
        raise UsageError(
            f"source {text!r}: {ref!r} is not a branch, tag or commit "
            "(letters, digits and _ . / @ ^ ~ { } + -, not beginning with '-')"
        )
    return SourceSpec("git", place, ref)


def is_url(place: str) -> bool:
    """Whether a git source names a repository elsewhere (``scheme://`` or ``user@host:path``)."""
    return bool(_SCHEME.match(place) or _SCP_LIKE.fullmatch(place))


def fetch(spec: SourceSpec, cache: Path, progress: Progress, *, refresh: bool = False) -> Tree:
    """The tree of ``spec``, fetched and unpacked into ``cache`` unless it is there already.

    What was fetched once is used without the network; ``refresh`` asks for the newest package
    of a ``debian:`` source and for the present place of a ``git:`` URL's branch. Folders and
    files of this machine are looked at every time. UsageError for a source that cannot be,
    ToolError for a network, disk or program that failed.
    """
    module = importlib.import_module(f"{_ROOM}.{_MODULES[spec.kind]}")
    with space.told_of_cache(cache, KERNEL_TREE_BYTES):
        tree = module.resolve(spec, cache, progress, refresh)
    assert isinstance(tree, Tree)
    return replace(tree, origin=_origin(spec))


def at_hand(spec: SourceSpec, cache: Path) -> bool:
    """Whether ``fetch`` needs no network: it is on this machine, or was fetched before."""
    if spec.kind in ("path", "tar") or (spec.kind == "git" and not is_url(spec.rest)):
        return True
    from kdyno.kernels.sources import shelf

    module = importlib.import_module(f"{_ROOM}.{_MODULES[spec.kind]}")
    return shelf.recorded(cache, module.record(spec, cache)) is not None


def _origin(spec: SourceSpec) -> str:
    if spec.kind in _VERIFIED:
        return ""
    local = not is_url(spec.rest)
    return f"{spec.kind}:{Path(spec.rest).expanduser().resolve() if local else spec.rest}"
