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
from operator import itemgetter
from pathlib import Path

from kdyno import whole
from kdyno.errors import ToolError, UsageError
from kdyno.kernels.sources import git
from kdyno.kernels.sources import tree as trees
from kdyno.kernels.sources.tree import Files, Request, Tree

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
    earlier = trees.read_json(record)
    if earlier and earlier.get("signature") == signature:
        tree = trees.recorded(request.cache, record)
        if tree is not None:
            return tree
    names = {path for path, _status in present}
    files = present if tracked else [file for file in present if not _is_product(file[0], names)]
    try:
        lines = trees.manifest_lines(folder, files, str(spec), progress)
    except (FileNotFoundError, NotADirectoryError) as problem:
        raise ToolError(
            f"{folder} changed while it was read ({problem.filename} vanished). "
            "Run the command again"
        ) from problem
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


def _real(base: str, folder: str, answers: dict[str, bool]) -> bool:
    """Whether no part of ``folder``, below ``base``, is a link. ``answers``: of earlier calls."""
    if folder not in answers:
        above = folder.rpartition("/")[0]
        answers[folder] = _real(base, above, answers) and not Path(base, folder).is_symlink()
    return answers[folder]


def _is_product(path: str, names: set[str]) -> bool:
    """Whether a build made the file: by its name, or because Kbuild kept its command line."""
    above, _slash, name = path.rpartition("/")
    return bool(
        _PRODUCT_NAMES.fullmatch(name)
        or _PRODUCT_FOLDERS.search(path)
        or _GENERATED.match(path)
        or (f"{above}/.{name}.cmd" if above else f".{name}.cmd") in names
    )
