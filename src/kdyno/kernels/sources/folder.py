# SPDX-License-Identifier: MIT
"""``path:DIR``: a snapshot of a folder as it is now. Its identity is the snapshot's manifest.

In the top folder of a git checkout the snapshot holds what git tracks or could track; else
everything but build products. An unchanged folder is recognised by the sizes and times of its
files, without reading them.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import time
from pathlib import Path

from kdyno import whole
from kdyno.errors import ToolError, UsageError
from kdyno.kernels.sources import git
from kdyno.kernels.sources import tree as trees
from kdyno.kernels.sources.tree import Files, Progress, Request, Tree

_SETTLED_NS = 2_000_000_000
"""A file younger than this may change again without its times showing it."""

_PRODUCT_FOLDERS = re.compile(r"(^|/)(\.git|\.tmp_versions)/|^include/(config|generated)/")
_GENERATED = re.compile(r"^arch/[^/]+/include/generated/")
_PRODUCT_NAMES = re.compile(
    r".*\.(o|a|ko|mod|mod\.c|symtypes|gcno|gcda|su|so\.dbg|rmeta)|\..*\.(cmd|d)|\.tmp_.*"
    r"|\.config(\.old)?|\.version|\.missing-syscalls\.d|\.git"
    r"|vmlinux|vmlinux\.(unstripped|bin)|linux|System\.map|Module\.symvers|modules\.order"
    r"|modules\.builtin(\.modinfo|\.ranges)?|modules-only\.symvers|bzImage|built-in\.a"
)


def resolve(request: Request) -> Tree:
    spec, progress = request.spec, request.progress
    folder = Path(spec.rest).expanduser().absolute()
    if not folder.is_dir():
        kind = "is a file: write tar:FILE for an archive" if folder.exists() else "does not exist"
        raise UsageError(f"source {spec}: {folder} {kind}")
    trees.kernel_version(folder, str(spec))
    started_ns = time.time_ns()
    tracked = (folder / ".git").exists()
    present = _tracked(folder) if tracked else sorted(trees.walk(str(folder)), key=_path)
    name = hashlib.blake2b(os.fsencode(folder), digest_size=12).hexdigest()
    record, stats = request.home / f"{name}.json", request.home / f"{name}.stat"
    stamps = "\n".join([f"{path} {_stamp(status)}" for path, status in present])
    signature = hashlib.blake2b(os.fsencode(stamps), digest_size=32).hexdigest()
    known = trees.read_json(record)
    if known and known.get("signature") == signature:
        tree = trees.recorded(request.cache, record)
        if tree is not None:
            return tree
    progress(f"hashing {folder}", None)
    names = set(map(_path, present))
    files = present if tracked else [it for it in present if not _is_product(it[0], names)]
    trees.refuse_large(files, str(spec))
    hashes = _hashed(folder, files, _read_stats(stats), progress)
    lines = [
        f"{digest} {trees.short_mode(status.st_mode)} {path}"
        for (path, status), digest in zip(files, hashes, strict=True)
    ]
    digest = trees.digest_of(lines)

    def unchanged(copied: list[str]) -> None:
        if copied != lines:
            differ = sorted(set(copied) ^ set(lines), key=lambda line: line.split(" ", 2)[2])
            raise ToolError(
                f"{folder} changed while it was copied (at {differ[0].split(' ', 2)[2]}). "
                "Run the command again"
            )

    def fill(scratch: Path) -> Path:
        """A copy of the files, sharing blocks where the file system can (reflink)."""
        whole.require_space(scratch, sum(status.st_size + 2048 for _, status in files))
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
    young_ns = started_ns - _SETTLED_NS
    _write_stats(stats, files, hashes, young_ns)
    if all(_changed_ns(status) < young_ns for _, status in present):
        trees.write_json(record, {"folder": str(folder), "signature": signature, "tree": key})
    return tree


def _path(file: tuple[str, os.stat_result]) -> str:
    return file[0]


def _tracked(folder: Path) -> Files:
    """The files that git tracks or could track, by path."""
    base = str(folder)
    words = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    own = git.own_ignores()
    options = ["-c", f"core.excludesFile={own.resolve()}"] if own else []
    listing = git.answer(folder, [*options, *words], reads=[own] if own else [])
    files: Files = []
    real: dict[str, bool] = {"": True}
    for path in sorted(set(os.fsdecode(listing).split("\0")) - {""}):
        if path.startswith("/") or ".." in path.split("/"):
            raise UsageError(f"source path:{folder}: git names a file outside of it: {path!r}")
        if not _real(base, path.rpartition("/")[0], real):
            continue  # a link took its folder's place, but it is still in the index
        try:
            status = os.lstat(f"{base}/{path}")
        except (FileNotFoundError, NotADirectoryError):
            continue  # deleted, but still in the index
        if not stat.S_ISDIR(status.st_mode):  # a submodule
            files.append((path, status))
    return files


def _real(base: str, folder: str, known: dict[str, bool]) -> bool:
    """Whether no part of ``folder``, below ``base``, is a link. ``known``: answers so far."""
    if folder not in known:
        above = folder.rpartition("/")[0]
        known[folder] = _real(base, above, known) and not Path(base, folder).is_symlink()
    return known[folder]


def _is_product(path: str, names: set[str]) -> bool:
    """Whether a build made the file: by its name, or because Kbuild kept its command line."""
    above, _slash, name = path.rpartition("/")
    return bool(
        _PRODUCT_NAMES.fullmatch(name)
        or _PRODUCT_FOLDERS.search(path)
        or _GENERATED.match(path)
        or (f"{above}/.{name}.cmd" if above else f".{name}.cmd") in names
    )


def _stamp(status: os.stat_result) -> str:
    times = f"{status.st_mtime_ns} {status.st_ctime_ns}"
    return f"{status.st_mode:o} {status.st_size} {times} {status.st_ino}"


def _changed_ns(status: os.stat_result) -> int:
    return max(status.st_mtime_ns, status.st_ctime_ns)


def _hashed(folder: Path, files: Files, known: dict[str, str], progress: Progress) -> list[str]:
    """Content hashes, in order, of all files; those that did not change come from ``known``."""
    for path, status in files:
        mode = status.st_mode
        if "\n" in path or not (stat.S_ISREG(mode) or stat.S_ISLNK(mode)):
            raise UsageError(f"source path:{folder}: {path!r} is neither file, folder nor link")

    def hashes_of(batch: Files) -> list[str]:
        hashes = []
        for path, status in batch:
            try:
                hashes.append(
                    known.get(f"{_stamp(status)} {path}")
                    or trees.content_hash(f"{folder}/{path}", status.st_mode, status.st_size)
                )
            except (FileNotFoundError, NotADirectoryError) as problem:
                raise ToolError(
                    f"{folder} changed while it was read ({path} vanished). Run the command again"
                ) from problem
        return hashes

    hashes: list[str] = []
    for part in trees.many(hashes_of, files):
        hashes += part
        progress(f"hashing {folder}", len(hashes) / len(files))
    return hashes


def _read_stats(path: Path) -> dict[str, str]:
    """``STAMP PATH`` → content hash of the last snapshot's files."""
    try:
        text = path.read_bytes().decode("utf-8", "surrogateescape")
    except FileNotFoundError:
        return {}
    return {line[33:]: line[:32] for line in text.split("\n") if len(line) > 33}


def _write_stats(path: Path, files: Files, hashes: list[str], young_ns: int) -> None:
    text = "".join(
        f"{digest} {_stamp(status)} {name}\n"
        for (name, status), digest in zip(files, hashes, strict=True)
        if _changed_ns(status) < young_ns
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    aside.write_bytes(text.encode("utf-8", "surrogateescape"))
    aside.replace(path)
