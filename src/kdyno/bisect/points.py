# SPDX-License-Identifier: MIT
"""The ordered kernels between a good and a bad one: commits, the patches of a series, the files in
which two sources differ, options.

Every point is a variant of an experiment: the keys of its [variant] table, or what it adds to the
point before it. Commits are laid over the good one's tree as a patch, so that one tree is unpacked
for all of them, and each build starts at a neighbour's objects. The repository is asked in the
sandbox and never written to.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

from kdyno import whole
from kdyno.errors import UsageError
from kdyno.kernels.history import OPEN, SHORT, Commit, commit_of, first_parents, merge_base
from kdyno.kernels.sources import git
from kdyno.kernels.sources import tree as trees
from kdyno.kernels.sources.tree import Tree
from kdyno.sandbox import confined

_DIFF = ("diff", "--no-color", "--no-ext-diff", "--no-textconv", "--no-renames", "--full-index")
_MOST_FILES = 250
"""Files of a patch over the good tree; beyond, a commit is unpacked as a tree of its own."""
_MOST_BYTES = 8_000_000
_DESCRIBES = ("Makefile", "Kbuild", "Kconfig")
"""Files that no object depends on by name, and that decide what is compiled."""
_LINES = re.compile(r"^(?:CONFIG_\w+=.*|# CONFIG_\w+ is not set)$")


@dataclass(frozen=True)
class Point:
    name: str
    """Of the variant that it is."""
    title: str
    """A commit's subject, a patch's file, an option's line."""
    keys: Mapping[str, Any]
    """Of its [variant] table; paths are absolute. Empty: a commit, or those of the point before
    with what it adds."""
    commit: str = ""
    """Empty: it is none."""
    parents: tuple[str, ...] = ()
    author: str = ""
    files: tuple[str, ...] = ()
    """That the step to it changes."""
    date: str = ""
    """Of a commit's authoring."""
    adds: str = ""
    """A patch's path, an option's line."""

    @property
    def short(self) -> str:
        return self.commit[:SHORT] or self.name


@dataclass(frozen=True)
class Range:
    """Points in order; the first is good, the last is bad."""

    points: tuple[Point, ...]
    what: str
    """commit, patch, file, option"""

    def keys(self, point: Point) -> Mapping[str, Any]:
        """Of the [variant] table of a point that is no commit."""
        if point.keys:
            return point.keys
        adds = [each.adds for each in self.points[1 : self.points.index(point) + 1]]
        first = self.points[0].keys
        if self.what == "option":  # a later line of the same option goes before
            lines = {_option(line): line for line in (*first["config"], *adds)}
            return {"config": list(lines.values())}
        return {**first, "patches": adds}


# Commits.


def commits(folder: Path, good: str, bad: str) -> tuple[Point, ...]:
    """Those after ``good`` up to ``bad`` along the first parents, behind ``good`` itself; without
    keys yet. UsageError where ``good`` is no ancestor of ``bad``."""
    ends = [commit_of(folder, ref) for ref in (good, bad)]
    if ends[0] == ends[1]:
        raise UsageError(f"--good {good} and --bad {bad} are the same commit")
    base = merge_base(folder, *ends)
    if base == ends[1]:
        raise UsageError(f"--good {good} is a later commit than --bad {bad}: change the two")
    if base != ends[0]:
        raise UsageError(
            f"--good {good} is no ancestor of --bad {bad}. Where their histories part is "
            f"{base[:SHORT]}: --good {base[:SHORT]} searches what only {bad} has"
        )
    between = first_parents(folder, f"{ends[0]}..{ends[1]}")
    (first,) = first_parents(folder, "--max-count=1", ends[0])
    width = len(str(len(between)))
    return tuple(
        point_of(commit, f"{number:0{width}}-{commit.commit[:8]}")
        for number, commit in enumerate((first, *between))
    )


def point_of(own: Commit, name: str) -> Point:
    return Point(name, own.title, {}, own.commit, own.parents, own.author, own.files, own.date)


def merged(folder: Path, merge: Point) -> tuple[str, str] | None:
    """(where the branch of a merge began, its last commit); None for any other commit."""
    if len(merge.parents) != 2:
        return None
    base = merge_base(folder, *merge.parents)
    return (base, merge.parents[1]) if base != merge.parents[1] else None


def with_keys(folder: Path, point: Point, good: str, patches: Path) -> Point:
    """The point with the keys of its variant; the patch is written into ``patches`` once."""
    source = {"source": f"git:{folder}#{good}"}
    if point.commit == good:
        return replace(point, keys=source)
    file = patches / f"{point.commit}.patch"
    if not file.is_file():
        text = git.answer(folder, [*_DIFF, OPEN, good, point.commit])
        count = text.count(b"\ndiff --git ") + text.startswith(b"diff --git ")
        if count > _MOST_FILES or len(text) > _MOST_BYTES or b"\nBinary files " in text:
            return replace(point, keys={"source": f"git:{folder}#{point.commit}"})
        if not count:
            return replace(point, keys=source)
        patches.mkdir(parents=True, exist_ok=True)
        whole.write(file, text)
    return replace(point, keys={**source, "patches": [str(file)]})


def reverted(folder: Path, commit: Point, patches: Path) -> Path:
    """The commit's own change backwards, as a patch."""
    file = patches / f"revert-{commit.commit}.patch"
    if not file.is_file():
        text = git.answer(folder, [*_DIFF, OPEN, commit.commit, commit.parents[0]])
        patches.mkdir(parents=True, exist_ok=True)
        whole.write(file, text)
    return file


def active(points: Sequence[Point], compiled: frozenset[str]) -> tuple[Point, ...]:
    """The first, and those that change a file of ``compiled`` or what decides what is compiled. The
    last of them stands for those behind it. That the others change no kernel is believed for the
    search, and found out when the commit that it names is verified against its parent."""

    def counts(file: str) -> bool:
        name = PurePosixPath(file).name
        return file in compiled or name.startswith(_DESCRIBES) or file.startswith("scripts/")

    return (points[0], *(point for point in points[1:] if any(map(counts, point.files))))


# The patches of a series.


def series(folder: Path) -> tuple[Point, ...]:
    """A point for no patch, and one for each: in the order of ``series``, else by name. UsageError
    where there is none."""
    listing = folder / "series"
    if listing.is_file():
        lines = listing.read_text(encoding="utf-8", errors="replace").splitlines()
        names = [line.split()[0] for line in lines if line.strip() and line[0] != "#"]
    else:
        names = sorted(file.name for file in folder.glob("*.patch"))
    files = [(folder / name).resolve() for name in names]
    if missing := [str(file) for file in files if not file.is_file()]:
        raise UsageError(f"--series {folder}: {', '.join(missing[:4])} is not there")
    if not files:
        raise UsageError(f"--series {folder}: no patch there, neither *.patch nor a file `series`")
    width = len(str(len(files)))
    points = [Point(f"{0:0{width}}", "no patch", {"patches": []})]
    for number, file in enumerate(files, 1):
        points.append(Point(f"{number:0{width}}", file.name, {}, adds=str(file)))
    return tuple(points)


# The files in which two sources differ.


def files(first: Point, good: Tree, bad: Tree) -> tuple[Point, ...]:
    """The good end, and a point for each file of ``bad`` that differs: what others include or are
    built by is first."""
    before, after = good.manifest(), bad.manifest()
    paths = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
    own = enumerate(sorted(paths, key=lambda path: (not _is_read_first(path), path)), 1)
    width = len(str(len(paths)))
    return (first, *(Point(f"{at:0{width}}", path, {}, files=(path,)) for at, path in own))


def patched(points: Sequence[Point], good: Path, bad: Path, folder: Path) -> tuple[Point, ...]:
    """The files with their patches, which are written into ``folder``. What is no text is one
    last point without a patch, which is to be the bad end as it is."""
    folder.mkdir(parents=True, exist_ok=True)
    texts, others = [], []
    for point in points[1:]:
        if text := file_patch(good, bad, point.title):
            file = folder / f"{point.name}.patch"
            whole.write(file, text)
            texts.append(replace(point, adds=str(file)))
        else:
            others.append(point.title)
    if others:
        texts.append(Point("others", "files that are no text", {}, files=tuple(others)))
    return (points[0], *texts)


def _is_read_first(path: str) -> bool:
    name = PurePosixPath(path)
    return name.suffix == ".h" or name.name.startswith(_DESCRIBES)


def file_patch(good: Path, bad: Path, path: str) -> bytes:
    """From one tree to the other in one file, as git writes it; empty where it is no text."""
    sides = (good / path, bad / path)
    if any(side.is_symlink() for side in sides):
        return b""
    reads = [side for side in sides if side.is_file()]
    modes = ["100755" if side.stat().st_mode & 0o100 else "100644" for side in reads]
    there = [side in reads for side in sides]
    places = [side if side in reads else Path("/dev/null") for side in sides]
    labels = [
        f"{side}/{path}" if own else "/dev/null" for side, own in zip("ab", there, strict=True)
    ]
    command = ["diff", "--unified", *(f"--label={label}" for label in labels), *map(str, places)]
    text = trees.run(confined(command, reads=reads), allowed=(0, 1), called=command)
    header = [f"diff --git a/{path} b/{path}"]
    if not all(there):
        header.append(f"{'deleted' if there[0] else 'new'} file mode {modes[0]}")
    elif modes[0] != modes[1]:
        header += [f"old mode {modes[0]}", f"new mode {modes[1]}"]
    if text.startswith(b"Binary files ") or not (text or header[1:]):
        return b""
    return "\n".join([*header, ""]).encode("utf-8", "surrogateescape") + text


# The options in which two configurations differ.


def options(good: Path, bad: Path) -> tuple[Point, ...]:
    """A point for ``good``'s lines, and one for each line in which ``bad`` differs, added one after
    the other in ``bad``'s order, in which Kconfig writes what depends behind what it depends on.
    UsageError where they do not differ or are no configurations."""
    before, after = (_config(file) for file in (good, bad))
    lines = {option: line for option, line in after.items() if before.get(option) != line}
    for option in before.keys() - after.keys():
        lines[option] = f"# {option} is not set"
    if not lines:
        raise UsageError(f"--between {good} {bad}: the two set the same options")
    width = len(str(len(lines)))
    points = [Point(f"{0:0{width}}", good.name, {"config": list(before.values())})]
    for number, line in enumerate(lines.values(), 1):
        points.append(Point(f"{number:0{width}}", line, {}, adds=line))
    return tuple(points)


def _option(line: str) -> str:
    return line.removeprefix("# ").partition("=")[0].partition(" ")[0]


def _config(file: Path) -> dict[str, str]:
    try:
        text = file.read_text(encoding="utf-8", errors="replace")
    except OSError as problem:
        raise UsageError(f"--between {file}: {problem.strerror}") from problem
    lines = [line.strip() for line in text.splitlines()]
    options = {_option(line): line for line in lines if _LINES.match(line)}
    if not options:
        raise UsageError(f"--between {file}: it has no line such as CONFIG_SMP=y")
    return options
