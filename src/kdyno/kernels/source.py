# SPDX-License-Identifier: MIT
"""Where a kernel's source comes from: how it is written, how it gets into the cache, and the
simplest of the kinds, ``path:DIR``."""

from __future__ import annotations

import hashlib
import os
import re
import stat
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

from kdyno import deferred, whole
from kdyno.errors import ToolError, UsageError
from kdyno.kernels.sources import git, tree as trees
from kdyno.kernels.sources.git import is_url
from kdyno.kernels.sources.tree import Files, Progress, Request, SourceSpec, Tree
from kdyno.reading.mistakes import meant

__all__ = ["Progress", "SourceSpec", "Tree", "is_url"]

# ``path:DIR`` is a snapshot of a folder as it is now. Its identity is the snapshot's manifest. In
# the top folder of a git checkout the snapshot holds what git tracks or could track; else all but
# build products. An unchanged folder is recognised by the sizes and times of its files, unread.
_SETTLED_NS = 2_000_000_000
"""A file younger than this may change again without its times showing it."""

_PRODUCT_FOLDERS = re.compile(
    r"(^|/)(\.git|\.tmp_versions)/|^include/(config|generated)/|^arch/[^/]+/include/generated/"
)
_PRODUCT_NAMES = re.compile(
    r".*\.(o|a|ko|mod|mod\.c|symtypes|gcno|gcda|su|so\.dbg|rmeta)|\..*\.(cmd|d)|\.tmp_.*"
    r"|\.config(\.old)?|\.version|\.missing-syscalls\.d|\.git"
    r"|vmlinux|vmlinux\.(unstripped|bin)|linux|System\.map|Module\.symvers|modules\.order"
    r"|modules\.builtin(\.modinfo|\.ranges)?|modules-only\.symvers|bzImage|built-in\.a"
)


def _snapshot(request: Request) -> Tree:
    spec, progress = request.spec, request.progress
    folder = Path(spec.rest).expanduser().absolute()
    if not folder.is_dir():
        kind = "is a file: write tar:FILE for an archive" if folder.exists() else "does not exist"
        raise UsageError(f"source {spec}: {folder} {kind}")
    trees.kernel_version(folder, str(spec))
    young_ns = time.time_ns() - _SETTLED_NS
    tracked = (folder / ".git").exists()
    present = _tracked(folder) if tracked else sorted(trees.walk(str(folder)), key=itemgetter(0))
    name = hashlib.blake2b(os.fsencode(folder), digest_size=12).hexdigest()
    record = request.home / f"{name}.json"
    stamps = "\n".join(
        f"{path} {st.st_mode:o} {st.st_size} {st.st_mtime_ns} {st.st_ctime_ns} {st.st_ino}"
        for path, st in present
    )
    signature = hashlib.blake2b(os.fsencode(stamps), digest_size=32).hexdigest()
    earlier = trees.read_json(record) or {}
    if earlier.get("signature") == signature and (tree := trees.recorded(request.cache, record)):
        return tree
    names = {path for path, _status in present}
    files = present if tracked else [file for file in present if not _is_product(file[0], names)]

    def changed(at: str) -> ToolError:
        return ToolError(f"{folder} changed while it was read (at {at}). Run the command again")

    try:
        lines = trees.manifest_lines(folder, files, str(spec), progress)
    except (FileNotFoundError, NotADirectoryError) as problem:
        raise changed(problem.filename) from problem
    digest = trees.digest_of(lines)

    def unchanged(copied: list[str]) -> None:
        if differ := {line.split(" ", 2)[2] for line in set(copied) ^ set(lines)}:
            raise changed(min(differ))

    def fill(scratch: Path) -> Path:
        """A copy of the files, sharing blocks where the file system can (reflink)."""
        whole.require_space(request.cache, sum(status.st_size + 2048 for _, status in files))
        into = scratch / "copied"
        into.mkdir()
        progress(f"copying {folder}", None)
        copy = ["cp", "--reflink=auto", "--no-dereference", "--preserve=mode", "--parents"]
        trees.run(
            ["xargs", "-0", "-n", "4000", "--", *copy, "-t", str(into), "--"],
            cwd=folder,
            stdin=b"".join(os.fsencode(path) + b"\0" for path, _ in files),
        )
        return into

    key = f"path-{digest[:40]}"
    description = f"{folder} as of {time.strftime('%Y-%m-%d %H:%M', time.gmtime())} UTC"
    tree = request.place(key, digest, description, fill, unchanged)
    if all(max(status.st_mtime_ns, status.st_ctime_ns) < young_ns for _path, status in present):
        trees.write_json(record, {"folder": str(folder), "signature": signature, "tree": key})
    return tree


def _tracked(folder: Path) -> Files:
    """The files that git tracks or could track, by path."""
    words = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    own = git.own_ignores()
    options = ["-c", f"core.excludesFile={own.resolve()}"] if own else []
    listing = git.answer(folder, [*options, *words], reads=[own] if own else [])
    files: Files = []

    @cache
    def is_real(below: str) -> bool:
        """Whether no part of the folder ``below`` this one is a link."""
        above = below.rpartition("/")[0]
        return not below or (is_real(above) and not (folder / below).is_symlink())

    for path in sorted(set(os.fsdecode(listing).split("\0")) - {""}):
        if path.startswith("/") or ".." in path.split("/"):
            raise UsageError(f"source path:{folder}: git names a file outside of it: {path!r}")
        if not is_real(path.rpartition("/")[0]):
            continue  # a link took its folder's place, but it is still in the index
        try:
            status = os.lstat(folder / path)
        except (FileNotFoundError, NotADirectoryError):
            continue  # deleted, but still in the index
        if not stat.S_ISDIR(status.st_mode):  # a submodule
            files.append((path, status))
    return files


def _is_product(path: str, names: set[str]) -> bool:
    """Whether a build made the file: by its name, or because Kbuild kept its command line."""
    above, _slash, name = path.rpartition("/")
    return bool(
        _PRODUCT_NAMES.fullmatch(name)
        or _PRODUCT_FOLDERS.search(path)
        or (f"{above}/.{name}.cmd" if above else f".{name}.cmd") in names
    )


class Kind(NamedTuple):
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


def _by_name(spec: SourceSpec, cache: Path) -> Path:
    return cache / "sources" / spec.kind / f"{spec.rest}.json"


_SOURCES = "kdyno.kernels.sources"
_KINDS: Mapping[str, Kind] = {
    "debian": Kind(
        "debian:PACKAGE or debian:PACKAGE=VERSION, for example debian:linux-source-6.12",
        deferred(f"{_SOURCES}.debian:resolve"),
        _by_name,
        r"[a-z0-9][a-z0-9+.-]+(=[A-Za-z0-9.+:~-]+)?",
        "a Debian package name",
        verified=True,
    ),
    "tar": Kind(
        "tar:FILE, a .tar, .tar.xz, .tar.gz, .tar.bz2 or .tar.zst",
        deferred(f"{_SOURCES}.archive:from_file"),
    ),
    "git": Kind("git:DIR_OR_URL#REF; without #REF it is HEAD", git.resolve, git.record_of),
    "kernel.org": Kind(
        "kernel.org:VERSION, for example kernel.org:6.12.3",
        deferred(f"{_SOURCES}.archive:from_kernel_org"),
        _by_name,
        r"[1-9]\d*\.\d+(\.\d+)?(-rc\d+)?",
        "a kernel release",
        verified=True,
    ),
    "path": Kind("path:DIR, a snapshot of a folder as it is now", _snapshot),
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
    if not re.fullmatch(kind.names, rest):
        raise UsageError(f"source {text!r}: {rest!r} is not {kind.noun}. {kind.form}")
    return git.parse(text, rest, kind.form) if name == "git" else SourceSpec(name, rest)


def fetch(spec: SourceSpec, cache: Path, progress: Progress, *, refresh: bool = False) -> Tree:
    """The tree of ``spec``, fetched and unpacked into ``cache`` unless it is there already.

    What was fetched once is used without the network; ``refresh`` asks for the newest package of a
    ``debian:`` source and for the present place of a ``git:`` URL's branch. Folders and files of
    this machine are looked at every time. UsageError for a source that cannot be, ToolError for a
    network, disk or program that failed."""
    with whole.cache_errors(cache, trees.KERNEL_TREE_BYTES):
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
