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
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from kdyno import space
from kdyno.errors import ToolError, UsageError
from kdyno.kernels.source import Progress, SourceSpec, Tree
from kdyno.kernels.sources import manifest, repository, shelf, tool

_Files = list[tuple[str, os.stat_result]]

_SETTLED_NS = 2_000_000_000
"""A file younger than this may change again without its times telling."""

_PRODUCT_FOLDERS = re.compile(r"(^|/)(\.git|\.tmp_versions)/|^include/(config|generated)/")
_GENERATED = re.compile(r"^arch/[^/]+/include/generated/")
_PRODUCT_NAMES = re.compile(
    r".*\.(o|a|ko|mod|mod\.c|symtypes|gcno|gcda|su|so\.dbg|rmeta)|\..*\.(cmd|d)|\.tmp_.*"
    r"|\.config(\.old)?|\.version|\.missing-syscalls\.d|\.git"
    r"|vmlinux|vmlinux\.(unstripped|bin)|linux|System\.map|Module\.symvers|modules\.order"
    r"|modules\.builtin(\.modinfo|\.ranges)?|modules-only\.symvers|bzImage|built-in\.a"
)


def resolve(spec: SourceSpec, cache: Path, progress: Progress, refresh: bool) -> Tree:
    folder = Path(spec.rest).expanduser().absolute()
    if not folder.is_dir():
        kind = "is a file: write tar:FILE for an archive" if folder.exists() else "does not exist"
        raise UsageError(f"source {spec}: {folder} {kind}")
    shelf.kernel_version(folder, str(spec))
    started_ns = time.time_ns()
    present = _present(folder)
    name = hashlib.blake2b(os.fsencode(folder), digest_size=12).hexdigest()
    home = cache / "sources" / "path"
    record, stats = home / f"{name}.json", home / f"{name}.stat"
    stamps = "\n".join([f"{path} {_stamp(found)}" for path, found in present])
    signature = hashlib.blake2b(os.fsencode(stamps), digest_size=32).hexdigest()
    known = shelf.read_json(record)
    if known and known.get("signature") == signature:
        tree = shelf.recorded(cache, record)
        if tree is not None:
            return tree
    progress(f"hashing {folder}", None)
    files = present if (folder / ".git").exists() else _without_products(present)
    manifest.refuse_large(files, str(spec))
    hashes = _hashed(folder, files, _read_stats(stats), progress)
    lines = [
        f"{digest} {manifest.short_mode(found.st_mode)} {path}"
        for (path, found), digest in zip(files, hashes, strict=True)
    ]
    digest = manifest.digest_of(lines)

    def unchanged(copied: list[str]) -> None:
        if copied != lines:
            differ = sorted(set(copied) ^ set(lines), key=lambda line: line.split(" ", 2)[2])
            raise ToolError(
                f"{folder} changed while it was copied (at {differ[0].split(' ', 2)[2]}). "
                "Run the command again"
            )

    def fill(scratch: Path) -> Path:
        return _copied(folder, files, scratch, progress)

    key = f"path-{digest[:40]}"
    description = f"{folder} as of {time.strftime('%Y-%m-%d %H:%M', time.gmtime())} UTC"
    tree = shelf.place(cache, spec, key, digest, description, fill, progress, unchanged)
    young_ns = started_ns - _SETTLED_NS
    _write_stats(stats, files, hashes, young_ns)
    if all(_changed_ns(found) < young_ns for _path, found in present):
        shelf.write_json(record, {"folder": str(folder), "signature": signature, "tree": key})
    return tree


def _present(folder: Path) -> _Files:
    """The files that git tracks or could track, else all files; with their lstat, by path."""
    base = str(folder)
    if (folder / ".git").exists():
        words = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        own = repository.own_ignores()
        options = ["-c", f"core.excludesFile={own.resolve()}"] if own else []
        listing = repository.asked(folder, [*options, *words], reads=[own] if own else [])
        found: _Files = []
        real: dict[str, bool] = {"": True}
        for path in sorted(set(os.fsdecode(listing).split("\0")) - {""}):
            if path.startswith("/") or ".." in path.split("/"):
                raise UsageError(f"source path:{folder}: git names a file outside of it: {path!r}")
            if not _real(base, path.rpartition("/")[0], real):
                continue  # a link took its folder's place, but it is still in the index
            try:
                state = os.lstat(f"{base}/{path}")
            except (FileNotFoundError, NotADirectoryError):
                continue  # deleted, but still in the index
            if not stat.S_ISDIR(state.st_mode):  # a submodule
                found.append((path, state))
        return found
    return sorted(manifest.walk(base), key=lambda pair: pair[0])


def _real(base: str, folder: str, known: dict[str, bool]) -> bool:
    """Whether no part of ``folder``, below ``base``, is a link. ``known``: answers so far."""
    if folder not in known:
        above = folder.rpartition("/")[0]
        known[folder] = _real(base, above, known) and not Path(base, folder).is_symlink()
    return known[folder]


def _without_products(present: _Files) -> _Files:
    names = {path for path, _found in present}
    return [pair for pair in present if not _is_product(pair[0], names)]


def _is_product(path: str, names: set[str]) -> bool:
    """Whether a build made the file: by its name, or because Kbuild kept its command line."""
    above, _slash, name = path.rpartition("/")
    return bool(
        _PRODUCT_NAMES.fullmatch(name)
        or _PRODUCT_FOLDERS.search(path)
        or _GENERATED.match(path)
        or (f"{above}/.{name}.cmd" if above else f".{name}.cmd") in names
    )


def _stamp(found: os.stat_result) -> str:
    return (
        f"{found.st_mode:o} {found.st_size} {found.st_mtime_ns} {found.st_ctime_ns} {found.st_ino}"
    )


def _hashed(folder: Path, files: _Files, known: dict[str, str], progress: Progress) -> list[str]:
    """Content hashes, in order, of all files; those that did not change come from ``known``."""

    def one(pair: tuple[str, os.stat_result]) -> str:
        path, found = pair
        old = known.get(f"{_stamp(found)} {path}")
        if old is not None:
            return old
        try:
            return manifest.content_hash(f"{folder}/{path}", found.st_mode, found.st_size)
        except (FileNotFoundError, NotADirectoryError) as problem:
            raise ToolError(
                f"{folder} changed while it was read ({path} vanished). Run the command again"
            ) from problem

    odd = [path for path, state in files if not (_plain(state) and "\n" not in path)]
    if odd:
        raise UsageError(f"source path:{folder}: {odd[0]!r} is neither file, folder nor link")
    hashes: list[str] = []
    with ThreadPoolExecutor(max_workers=min(8, (os.cpu_count() or 1) + 2)) as pool:
        for start in range(0, len(files), 4096):
            hashes += pool.map(one, files[start : start + 4096])
            progress(f"hashing {folder}", len(hashes) / len(files))
    return hashes


def _plain(found: os.stat_result) -> bool:
    return stat.S_ISREG(found.st_mode) or stat.S_ISLNK(found.st_mode)


def _copied(folder: Path, files: _Files, scratch: Path, progress: Progress) -> Path:
    """A copy of the files, sharing blocks where the file system can (reflink)."""
    needed_bytes = sum(found.st_size + 2048 for _path, found in files)
    space.require(scratch, needed_bytes)
    into = scratch / "copied"
    into.mkdir()
    progress(f"copying {folder}", None)
    copy = ["cp", "--reflink=auto", "--no-dereference", "--preserve=mode", "--parents"]
    tool.run(
        ["xargs", "-0", "-n", "4000", "--", *copy, "-t", str(into), "--"],
        cwd=folder,
        stdin=b"".join(os.fsencode(path) + b"\0" for path, _found in files),
    )
    return into


def _changed_ns(found: os.stat_result) -> int:
    return max(found.st_mtime_ns, found.st_ctime_ns)


def _read_stats(path: Path) -> dict[str, str]:
    """``STAMP PATH`` → content hash of the last snapshot's files."""
    try:
        text = path.read_bytes().decode("utf-8", "surrogateescape")
    except FileNotFoundError:
        return {}
    return {line[33:]: line[:32] for line in text.split("\n") if len(line) > 33}


def _write_stats(path: Path, files: _Files, hashes: list[str], young_ns: int) -> None:
    text = "".join(
        f"{digest} {_stamp(found)} {name}\n"
        for (name, found), digest in zip(files, hashes, strict=True)
        if _changed_ns(found) < young_ns
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    aside.write_bytes(text.encode("utf-8", "surrogateescape"))
    aside.replace(path)
