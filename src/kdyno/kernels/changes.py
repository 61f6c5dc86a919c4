# SPDX-License-Identifier: MIT
"""What a variant changes in the source tree, without touching the tree.

A tree in the cache is pristine and shared by every variant. A variant's patches, memory
routine and per-file flags become a set of changed files, computed on copies in a scratch
folder; the build sees them in place of the originals (see view.py).
"""

from __future__ import annotations

import difflib
import hashlib
import re
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from kdyno.command import capture, require
from kdyno.errors import UsageError

_FILE_LINE = re.compile(r"^(?:---|\+\+\+) ([^\t\n]+)", re.MULTILINE)
_GIT_LINE = re.compile(r"^(?:rename|copy) (?:from|to) (.+)$", re.MULTILINE)
_GIT_HEADER = re.compile(r"^diff --git (\S+) (\S+)$", re.MULTILINE)
_FAILED = re.compile(r"^Hunk #(\d+) (?:FAILED|ignored) at (\d+)", re.MULTILINE)
_PATCHING = re.compile(r"^(?:patching|checking) file '?([^'\n]+?)'?(?: \(.*\))?$")


@dataclass(frozen=True)
class Changes:
    """Path in the tree → new content; None for a file that the variant deletes."""

    files: Mapping[str, bytes | None] = field(default_factory=dict)

    def digest(self) -> str:
        """Hex digest over paths and contents."""
        total = hashlib.sha256()
        for path in sorted(self.files):
            content = self.files[path]
            mark = b"-" if content is None else hashlib.sha256(content).digest()
            total.update(path.encode() + b"\0" + mark)
        return total.hexdigest()


def safe_path(path: str, origin: str) -> str:
    """``path`` when it stays inside a tree; UsageError otherwise."""
    parts = PurePosixPath(path).parts
    if not parts or path.startswith("/") or ".." in parts or "\0" in path:
        raise UsageError(f"{origin}: {path!r} leads out of the kernel tree")
    return path


def touched_paths(patch: str, origin: str) -> list[str]:
    """Paths that a ``-p1`` patch names, in order, without its ``a/`` and ``b/``."""
    names: list[str] = [name.strip().strip('"') for name in _FILE_LINE.findall(patch)]
    for pair in _GIT_HEADER.findall(patch):
        names.extend(pair)
    found = [name.split("/", 1)[1] for name in names if name != "/dev/null" and "/" in name]
    found += [name.strip() for name in _GIT_LINE.findall(patch)]
    if not found:
        raise UsageError(
            f"patch {origin}: no file names found; a patch is a unified diff whose paths "
            "start with a/ and b/ (as `git diff` and `git format-patch` write it)"
        )
    return [safe_path(path, f"patch {origin}") for path in dict.fromkeys(found)]


def of_variant(
    tree: Path,
    patches: Iterable[Path],
    placed: Mapping[str, str],
    file_cflags: Iterable[tuple[str, str]],
) -> Changes:
    """The changed files of a variant: patches in order, then ``placed``, then flags.

    placed: path in the tree → text that replaces it (a memory routine). file_cflags: (source
    file, flags) pairs, appended to the Makefile of the file's folder as CFLAGS_x.o.
    """
    with tempfile.TemporaryDirectory(prefix="kdyno-patch-") as name:
        scratch = Path(name)
        touched: set[str] = set()
        for patch in patches:
            touched |= _apply(tree, patch, scratch, touched)
        files: dict[str, bytes | None] = {}
        for path in touched:
            now = scratch / path
            if now.is_symlink():
                raise UsageError(f"a patch makes {path} a symbolic link; kdyno does not follow it")
            content = now.read_bytes() if now.is_file() else None
            original = tree / path
            if content is None and not original.exists():
                continue
            if content is None or not original.is_file() or original.read_bytes() != content:
                files[path] = content
    for path, text in placed.items():
        if path in files:
            raise UsageError(f"a patch changes {path}, which `memcpy` replaces; use one of them")
        if not (tree / path).is_file():
            raise UsageError(f"this source has no {path}, the place of a memory routine")
        files[path] = text.encode()
    for path, flags in file_cflags:
        makefile = _makefile_of(tree, path)
        before = files.get(makefile) or (tree / makefile).read_bytes()
        stem = PurePosixPath(path).stem
        files[makefile] = before.rstrip(b"\n") + f"\n\nCFLAGS_{stem}.o += {flags}\n".encode()
    return Changes(files)


def _makefile_of(tree: Path, path: str) -> str:
    safe_path(path, "cflags")
    if not path.endswith(".c") or not (tree / path).is_file():
        raise UsageError(f"cflags for {path!r}: no such .c file in this source{_near(tree, path)}")
    folder = PurePosixPath(path).parent
    for name in ("Kbuild", "Makefile"):
        if (tree / folder / name).is_file():
            return str(folder / name)
    raise UsageError(f"cflags for {path!r}: its folder has no Makefile of its own")


def _near(tree: Path, path: str) -> str:
    folder = (tree / path).parent
    names = [file.name for file in folder.glob("*.c")] if folder.is_dir() else []
    near = difflib.get_close_matches(Path(path).name, names, n=1)
    return f"; nearest: {PurePosixPath(path).parent / near[0]}" if near else ""


def _apply(tree: Path, patch: Path, scratch: Path, already: set[str]) -> set[str]:
    text = patch.read_text("utf-8", "surrogateescape")
    paths = touched_paths(text, str(patch))
    for path in paths:
        original, copy = tree / path, scratch / path
        if path not in already and original.is_file():
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(original, copy)
    # No fuzz: a hunk put in the wrong place is worse than one that is refused.
    done = capture(
        [
            require("patch", "to apply the patches of a variant"),
            *("-p1", "--batch", "--forward", "--fuzz=0", "--no-backup-if-mismatch", "-r", "-"),
            *("-d", str(scratch), "-i", str(patch.resolve())),
        ]
    )
    if done.status != 0:
        raise UsageError(f"patch {patch} does not apply: {_failure(done.output, paths, tree)}")
    return set(paths)


def _failure(output: str, paths: list[str], tree: Path) -> str:
    current, found = "", []
    for line in output.splitlines():
        if match := _PATCHING.match(line):
            current = match[1]
        elif match := _FAILED.match(line):
            found.append(f"{current}: hunk #{match[1]} at line {match[2]} does not match")
        elif "previously applied" in line:
            found.append(f"{current or paths[0]}: seems to be applied already")
        elif "can't find file" in line:
            gone = [path for path in paths if not (tree / path).exists()]
            found.append(f"{', '.join(gone) or paths[0]}: no such file in this source")
    return "; ".join(dict.fromkeys(found)) or output.strip() or "patch gave no reason"
