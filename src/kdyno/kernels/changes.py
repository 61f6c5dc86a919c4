# SPDX-License-Identifier: MIT
"""What a variant changes in the source tree: a set of changed files, computed on copies.

The build sees the pristine tree with the changed files bound over it, one mount each; only where a
file appears or disappears is its folder a copy of hard links. Every build sees its tree at the same
path, so that object files, dependency files and ccache agree between variants."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from kdyno import whole
from kdyno.command import capture, require
from kdyno.errors import UsageError
from kdyno.reading.mistakes import nearest
from kdyno.sandbox import Binds, confined

_FILE_LINE = re.compile(r"(?:---|\+\+\+) ([^\t]+)")
_GIT_LINE = re.compile(r"(?:rename|copy) (?:from|to) (.+)")
_GIT_HEADER = re.compile(r"diff --git (\S+) (\S+)\s*$")
_HUNK = re.compile(r"@@ -\d+(?:,(\d{1,9}))? \+\d+(?:,(\d{1,9}))? @@")
_FAILED = re.compile(r"^Hunk #(\d+) (?:FAILED|ignored) at (\d+)", re.MULTILINE)
_EXISTS = re.compile(r"^The next patch would create the file '?(.+?)'?,$")
_PATCHING = re.compile(r"^(?:patching|checking) file '?([^'\n]+?)'?(?: \(.*\))?$")


@dataclass(frozen=True)
class Changes:
    """Path in the tree → new content; None for a file that the variant deletes."""

    files: Mapping[str, bytes | None] = field(default_factory=dict)
    executable: frozenset[str] = frozenset()
    """Which of the files have mode 755; the others have 644."""

    @property
    def deleted(self) -> frozenset[str]:
        return frozenset(path for path, content in self.files.items() if content is None)

    def only(self, paths: Iterable[str]) -> Changes:
        chosen = {path: self.files[path] for path in paths}
        return Changes(chosen, self.executable & chosen.keys())

    def digest(self) -> str:
        """Hex digest over paths, contents and modes."""
        total = hashlib.sha256()
        for path in sorted(self.files):
            content = self.files[path]
            mark = b"-" if content is None else hashlib.sha256(content).digest()
            mode = b"x" if path in self.executable else b""
            total.update(path.encode("utf-8", "surrogateescape") + b"\0" + mark + mode)
        return total.hexdigest()


def safe_path(path: str, origin: str) -> str:
    """``path`` when it stays inside a tree; UsageError otherwise."""
    parts = PurePosixPath(path).parts
    if not parts or path.startswith("/") or ".." in parts or "\0" in path:
        raise UsageError(f"{origin}: {path!r} leads out of the kernel tree")
    return path


def touched_paths(patch: str, origin: str) -> list[str]:
    """Paths that a ``-p1`` patch names, in order, without its ``a/`` and ``b/``."""
    paths: list[str] = []
    for line in _outside_hunks(patch):
        names: list[str] = []
        if match := _FILE_LINE.match(line):
            names = [match[1].strip().strip('"')]
        elif match := _GIT_HEADER.match(line):
            names = [match[1], match[2]]
        elif match := _GIT_LINE.match(line):
            paths.append(match[1].strip())
        for name in names:
            if name != "/dev/null" and "/" in name:
                paths.append(name if name.startswith("/") else name.split("/", 1)[1])
    if not paths:
        raise UsageError(
            f"patch {origin}: no file names found; a patch is a unified diff whose paths "
            "start with a/ and b/ (as `git diff` and `git format-patch` write it)"
        )
    return [safe_path(path, f"patch {origin}") for path in dict.fromkeys(paths)]


def _outside_hunks(patch: str) -> Iterator[str]:
    """The header lines: text within a hunk may look like one (``-- x`` removed is ``--- x``)."""
    old = new = 0
    in_git_header = False
    for line in patch.split("\n"):
        if old > 0 or new > 0:
            mark = line[:1]
            old -= mark not in ("+", "\\")
            new -= mark not in ("-", "\\")
        elif hunk := _HUNK.match(line):
            old, new = (int(count or 1) for count in hunk.groups())
            in_git_header = False
        elif not _GIT_LINE.match(line) or in_git_header:
            in_git_header = in_git_header or line.startswith("diff --git ")
            yield line


def of_variant(
    tree: Path,
    patches: Iterable[Path],
    placed: Mapping[str, str],
    file_cflags: Iterable[tuple[str, str]],
) -> Changes:
    """The changed files of a variant: patches in order, then ``placed``, then flags. placed: path
    in the tree → text that replaces it (a memory routine). file_cflags: (source file, flags) pairs,
    appended to the Makefile of the file's folder as CFLAGS_x.o."""
    with whole.scratch("patch") as scratch:
        touched: set[str] = set()
        for patch in patches:
            touched |= _apply(tree, patch, scratch, touched)
        files: dict[str, bytes | None] = {}
        executable: set[str] = set()
        for path in sorted(touched):
            before, after = _content(tree / path), _content(scratch / path)
            if after != before:
                files[path] = after[0] if after else None
                if after and after[1]:
                    executable.add(path)
    for path, text in placed.items():
        _check_links(tree, path, "a memory routine")
        if path in files:
            raise UsageError(
                f"a patch changes {path}, which a memory routine replaces; use one of them"
            )
        if not (tree / path).is_file():
            raise UsageError(f"this source has no {path}, the place of a memory routine")
        files[path] = text.encode()
    for path, flags in file_cflags:
        makefile, lines = _makefile_of(tree, files, path)
        stem = PurePosixPath(path).stem
        files[makefile] = lines.rstrip(b"\n") + f"\n\nCFLAGS_{stem}.o += {flags}\n".encode()
    return Changes(files, frozenset(executable))


def _check_links(tree: Path, path: str, origin: str) -> None:
    """UsageError for a path through a link: it is written in copies of folders, from which the same
    link leads elsewhere."""
    for each in (PurePosixPath(path), *PurePosixPath(path).parents):
        if (tree / each).is_symlink():
            raise UsageError(f"{origin}: {each} is a symbolic link; change the file itself")


def _content(file: Path) -> tuple[bytes, bool] | None:
    """(content, whether it may be run); None where there is no file."""
    return (file.read_bytes(), bool(file.stat().st_mode & 0o100)) if file.is_file() else None


def _makefile_of(tree: Path, files: Mapping[str, bytes | None], path: str) -> tuple[str, bytes]:
    """Path and present text of the Makefile that compiles ``path``."""
    _check_links(tree, safe_path(path, "cflags"), "cflags")

    def content(name: str) -> bytes | None:
        return files[name] if name in files else (_content(tree / name) or (None,))[0]

    if not path.endswith(".c") or content(path) is None:
        parent = PurePosixPath(path).parent
        near = nearest(Path(path).name, [file.name for file in (tree / parent).glob("*.c")])
        hint = f"; nearest: {parent / near}" if near else ""
        raise UsageError(f"cflags for {path!r}: no such .c file in this source{hint}", key="cflags")
    for name in ("Kbuild", "Makefile"):
        makefile = str(PurePosixPath(path).parent / name)
        if (text := content(makefile)) is not None:
            return makefile, text
    raise UsageError(f"cflags for {path!r}: its folder has no Makefile of its own", key="cflags")


def _apply(tree: Path, patch: Path, scratch: Path, already: set[str]) -> set[str]:
    content = patch.read_bytes()
    paths = touched_paths(content.decode("utf-8", "surrogateescape"), str(patch))
    for path in paths:
        original, copy = tree / path, scratch / path
        _check_links(tree, path, f"patch {patch}")
        if path not in already and original.is_file():
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(original, copy)
    # No fuzz: a hunk put in the wrong place is worse than one that is refused.
    command = [
        require("patch", "to apply the patches of a variant"),
        # Of one form only: another one is a script for the editor ed.
        *("-p1", "--unified", "--batch", "--forward", "--fuzz=0", "--no-backup-if-mismatch"),
        *("-r", "-", "-d", str(scratch), "-i"),
    ]
    # A copy, for inside is another user, who need not be able to read what this one can.
    with whole.scratch("patch") as folder:
        file = folder / "patch"
        file.write_bytes(content)
        file.chmod(0o644)
        result = capture(confined([*command, str(file)], reads=[file], writes=[scratch]))
    if result.status != 0:
        raise UsageError(f"patch {patch} does not apply: {_failure(result.output, paths, tree)}")
    # Before the next patch: through a link it would write outside the scratch folder.
    for file in scratch.rglob("*"):
        if file.is_symlink():
            link = file.relative_to(scratch)
            raise UsageError(f"patch {patch} makes {link} a symbolic link; kdyno follows none")
    results = {str(p.relative_to(scratch)) for p in scratch.rglob("*") if p.is_file()}
    for path in results:
        _check_links(tree, path, f"patch {patch}")
    return results.union(paths)


def _failure(output: str, paths: list[str], tree: Path) -> str:
    current, reasons = paths[0], []
    for line in output.splitlines():
        if match := _PATCHING.match(line):
            current = match[1]
        elif match := _FAILED.match(line):
            reasons.append(f"{current}: hunk #{match[1]} at line {match[2]} does not match")
        elif match := _EXISTS.match(line):
            reasons.append(f"{match[1]}: is to be created, but exists already")
        elif "previously applied" in line:
            reasons.append(f"{current}: seems to be applied already")
        elif "can't find file" in line:
            gone = [path for path in paths if not (tree / path).exists()]
            reasons.append(f"{', '.join(gone) or paths[0]}: no such file in this source")
    return "; ".join(dict.fromkeys(reasons)) or output.strip() or "patch gave no reason"


BUILD_SOURCE = "/tmp/kdyno/src"
BUILD_OBJECTS = "/tmp/kdyno/obj"


def lay(tree: Path, changes: Changes, folder: Path, fresh: Set[str]) -> Binds:
    """Write the changed files into ``folder`` (empty, on the tree's filesystem) and bind them:
    (path on the host, path inside the build's namespace), outermost first.

    fresh: paths to be newer than every object; the others keep the tree's old time stamp, so that
    make sees no reason to compile them again."""
    structural: set[str] = set()  # folders in which a file appears or disappears
    for path, content in changes.files.items():
        if content is None or not (tree / path).exists():
            folders = PurePosixPath(path).parents
            parent = next(above for above in folders if (tree / above).is_dir())
            structural.add("" if str(parent) == "." else str(parent))
    copies: dict[str, Path] = {}
    for root in sorted(structural):
        if not any(_below(root, other) for other in copies):
            copies[root] = folder / f"folder-{len(copies)}"
            _linked(tree / root, copies[root])
    binds = [(copy, root) for root, copy in copies.items()]
    for number, path in enumerate(sorted(changes.files)):
        above = next((root for root in copies if _below(path, root)), None)
        if above is None:
            place = folder / f"file-{number}"
            binds.append((place, path))
        else:
            place = copies[above] / os.path.relpath(path, above or ".")
        _put(place, tree, changes, path, fresh)
    inside = [(host, f"{BUILD_SOURCE}/{path}".rstrip("/")) for host, path in binds]
    return tuple(inside) if "" in copies else ((tree, BUILD_SOURCE), *inside)


def flatten(tree: Path, changes: Changes, folder: Path, fresh: Set[str]) -> Path:
    """The whole view as a real folder of hard links, for builds without a sandbox."""
    copy = folder / "src"
    _linked(tree, copy)
    for path in changes.files:
        _put(copy / path, tree, changes, path, fresh)
    return copy


def _linked(folder: Path, copy: Path) -> None:
    shutil.copytree(folder, copy, symlinks=True, copy_function=os.link)


def _below(path: str, root: str) -> bool:
    return root == "" or path == root or path.startswith(root + "/")


def _put(place: Path, tree: Path, changes: Changes, path: str, fresh: Set[str]) -> None:
    # Unlink first: what lies here may be a hard link to the pristine tree.
    place.unlink(missing_ok=True)
    if (content := changes.files[path]) is not None:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)
        place.chmod(0o755 if path in changes.executable else 0o644)
        if path not in fresh:
            stamp_ns = (tree / "Makefile").stat().st_mtime_ns
            os.utime(place, ns=(stamp_ns, stamp_ns))
