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
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

from kdyno import deferred, whole
from kdyno.errors import ToolError, UsageError
from kdyno.experiment.cross import option_of
from kdyno.kernels.config import Option, Wish, parse_line, rebuildable, values_of
from kdyno.kernels.sources import git, tree as trees
from kdyno.kernels.sources.git import OPEN, SHORT, commit_of, first_parents, merge_base
from kdyno.kernels.sources.tree import Tree
from kdyno.sandbox import confined

_disjoint_sets: Callable[..., Any] = deferred("scipy.cluster.hierarchy:DisjointSet")

_DIFF = ("diff-tree", "-p", "--no-ext-diff", "--no-textconv", "--no-renames", "--full-index")
"""Not ``diff``, for which a repository's settings may change the prefixes of names."""
_MOST_FILES = 250
"""Files of a patch over the good tree; beyond, a commit is unpacked as a tree of its own."""
_MOST_BYTES = 8_000_000
_DESCRIBES = ("Makefile", "Kbuild", "Kconfig")
"""Files that no object depends on by name, and that decide what is compiled."""
_ODD = re.compile(
    rb"^(?:(?:(?:new|deleted) file mode|(?:old|new) mode|index \w+\.\.\w+) 1[26]0000$"
    rb"|diff --git (?!a/[!-~]+ b/[!-~]+$)|Binary files )",
    re.MULTILINE,
)
"""Symbolic links, submodules, names with spaces or quotes, what is no text: no patch is laid."""
_WHOLE = "# Automatically generated file; DO NOT EDIT."
"""What Kconfig writes on top of a whole configuration."""
_SILENT = re.compile(r'/\*.*?\*/|//[^\n]*|"[^"\n]*"', re.DOTALL)
"""Comments and strings of C."""
_PROTOTYPE = re.compile(r"^(\w[\w\s*]*?)\b(\w+)\s*\(([^*;{}][^;{}]*)\)[^;{}()]*[;{]", re.MULTILINE)
"""Of a function that is declared or begins, at the beginning of a line."""
_VARIABLE = re.compile(r"^extern\s+(\w[\w\s*]*?)\b(\w+)\s*((?:\[[^;\[\]]*\])*)\s*;", re.MULTILINE)
_WORD = re.compile(r"\b[A-Za-z_]\w{3,}")
_QUOTED = re.compile(r"[`'‘](?:struct |union |enum )?(\w{4,})['’]")
"""A name in what a compiler or linker says."""
_PLACE = re.compile(r"^\s*(\S+\.[chS]):\d+", re.MULTILINE)
"""The file of an error, from wherever the compiler ran."""
_TELLING = 8
"""A name on the changed lines of more points does not tell which of them is needed."""


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
    """A patch's path; an option's line, or its name where nothing sets it; those of a choice."""

    @property
    def short(self) -> str:
        return self.commit[:SHORT] or self.name


@dataclass(frozen=True)
class Range:
    """Points in order; the first is good, the last is bad."""

    points: tuple[Point, ...]
    what: str
    """commit, patch, file, option"""
    complete: bool = False
    """Options of whole configurations: what does not survive here is left out."""

    def keys(self, point: Point) -> Mapping[str, Any]:
        """Of the [variant] table of a point that is no commit."""
        if point.keys:
            return point.keys
        adds = [each.adds for each in self.points[1 : self.points.index(point) + 1]]
        first = self.points[0].keys
        if self.what == "option":  # a later line of the same option goes before
            own = (line for lines in adds for line in lines.splitlines())
            lines = {option_of(line): line for line in (*first["config"], *own)}
            return {"config": [line for option, line in lines.items() if line != option]}
        return {**first, "patches": adds}


# Commits.


def commits(folder: Path, good: str, bad: str) -> tuple[Point, ...]:
    """``good`` and those after it up to ``bad`` along the first parents, as far as they have it;
    without keys yet. UsageError where ``good`` is no ancestor of ``bad``."""
    ends = [commit_of(folder, ref) for ref in (good, bad)]
    if ends[0] == ends[1]:
        raise UsageError(f"--good {good} and --bad {bad} are the same commit")
    base = ""
    with suppress(ToolError):  # as of two that were fetched without what is before them
        base = merge_base(folder, *ends)
    if base == ends[1]:
        raise UsageError(f"--good {good} is a later commit than --bad {bad}: change the two")
    if base != ends[0]:
        part, none = base[:SHORT], f"As far as {folder} goes back, the two have no commit in common"
        way = f"Where their histories part is {part}: --good {part} searches what only {bad} has"
        raise UsageError(f"--good {good} is no ancestor of --bad {bad}. {way if base else none}")
    (first,) = first_parents(folder, "--max-count=1", ends[0])
    line = first_parents(folder, f"{ends[0]}..{ends[1]}")
    # What a branch was before it took ``good`` in lacks what that brought.
    with_good = bisect_left(line, True, key=lambda own: has(folder, own.commit, ends[0]))
    return _numbered(*(Point("", keys={}, **vars(each)) for each in (first, *line[with_good:])))


def has(folder: Path, commit: str, older: str) -> bool:
    """Whether a commit's history has another one."""
    with suppress(ToolError):  # their histories may part before those that were fetched
        return merge_base(folder, older, commit) == older
    return False


def _numbered(*points: Point) -> tuple[Point, ...]:
    """With names that sort as the points are ordered."""
    width = len(str(len(points) - 1))
    hashes = (f"-{point.commit[:8]}" if point.commit else "" for point in points)
    return tuple(
        replace(point, name=f"{at:0{width}}{own}")
        for at, (point, own) in enumerate(zip(points, hashes, strict=True))
    )


def merged(folder: Path, merge: Point, before: Point) -> tuple[str, str] | None:
    """Of the branch that a merge brought to what was ``before``: (where it began, its last commit);
    None for any other commit. ToolError where it began before what was fetched."""
    if len(merge.parents) != 2:
        return None
    base = merge_base(folder, *merge.parents)
    # Where a branch took the mainline in, the mainline is what was before.
    new = [parent for parent in merge.parents if not has(folder, before.commit, parent)]
    return (base, new[-1]) if new and base != new[-1] else None


def with_keys(folder: Path, point: Point, good: str, patches: Path) -> Point:
    """The point with the keys of its variant; the patch is written into ``patches`` once."""
    source = {"source": f"git:{folder}#{good}"}
    file = patches / f"{point.commit}-{good[:SHORT]}.patch"
    if point.commit != good and not file.is_file():
        text = git.answer(folder, [*_DIFF, OPEN, good, point.commit])
        names = re.findall(r"^diff --git a/(\S+)", text.decode("latin-1"), re.M)
        files = set(map(PurePosixPath, names))
        whole_tree = _ODD.search(text) or any(files.intersection(each.parents) for each in files)
        if len(files) > _MOST_FILES or len(text) > _MOST_BYTES or whole_tree:
            return replace(point, keys={"source": f"git:{folder}#{point.commit}"})
        if files:
            patches.mkdir(parents=True, exist_ok=True)
            whole.write(file, text)
    own = {"patches": [str(file)]} if point.commit != good and file.is_file() else {}
    return replace(point, keys=source | own)


def reverted(folder: Path, commit: Point, patches: Path) -> Path:
    """The commit's own change backwards, as a patch."""
    file = patches / f"revert-{commit.commit}.patch"
    patches.mkdir(parents=True, exist_ok=True)
    whole.write(file, git.answer(folder, [*_DIFF, OPEN, commit.commit, commit.parents[0]]))
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
        entries = [re.split(r"(?:^|\s)#", line)[0].split() for line in lines]
        names = [entry[0] for entry in entries if entry]
        if odd := [" ".join(entry) for entry in entries if entry[1:] not in ([], ["-p1"])]:
            raise UsageError(f"--series {folder}: {odd[0]}: patches are applied forwards, with -p1")
    else:
        names = sorted(file.name for file in folder.glob("*.patch"))
    files = [(folder / name).resolve() for name in names]
    if missing := [str(file) for file in files if not file.is_file()]:
        raise UsageError(f"--series {folder}: {', '.join(missing[:4])} is not there")
    if not files:
        raise UsageError(f"--series {folder}: no patch there, neither *.patch nor a file `series`")
    patches = (Point("", file.name, {}, adds=str(file)) for file in files)
    return _numbered(Point("", "no patch", {"patches": []}), *patches)


# The files in which two sources differ.


def files(first: Point, good: Tree, bad: Tree) -> tuple[Point, ...]:
    """The good end, and a point for each file of ``bad`` that differs: what others include or are
    built by is first."""
    before, after = good.manifest(), bad.manifest()
    paths = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}

    def order(path: str) -> tuple[bool, str]:
        name = PurePosixPath(path)
        return not (name.suffix == ".h" or name.name.startswith(_DESCRIBES)), path

    changed = (Point("", path, {}, files=(path,)) for path in sorted(paths, key=order))
    return (first, *_numbered(first, *changed)[1:])


def patched(points: Sequence[Point], good: Path, bad: Path, folder: Path) -> tuple[Point, ...]:
    """The files with their patches, which are written into ``folder``; those that need one another
    are one point. Of what no patch is laid for one last point is made, which is to be the bad end
    as it is."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = {point.title: file_patch(good, bad, point.title) for point in points[1:]}
    by_title, own = {point.title: point for point in points[1:]}, []
    for files in _coupled([title for title, text in texts.items() if text], good, bad):
        point, more = by_title[files[0]], f" and {len(files) - 1} more" if files[1:] else ""
        file = folder / f"{point.name}.patch"
        whole.write(file, b"".join(texts[title] for title in files))
        own.append(replace(point, title=files[0] + more, files=tuple(files), adds=str(file)))
    if others := tuple(title for title, text in texts.items() if not text):
        own.append(Point("others", "files that no patch is laid for", {}, files=others))
    return (points[0], *own)


def _coupled(files: Sequence[str], good: Path, bad: Path) -> list[list[str]]:
    """Files that do not compile one by one: a header with whoever begins or ceases to use a name
    that is new in all of them or gone from all, and with whoever changes where they name a
    function or variable that the header declares otherwise. In the order of the first of each."""

    def text(file: Path) -> str:
        return _SILENT.sub(" ", file.read_text("utf-8", "replace")) if file.is_file() else ""

    def changes(file: str) -> str:
        return "\n".join({*before[file].splitlines()} ^ {*after[file].splitlines()})

    before, after = ({file: text(tree / file) for file in files} for tree in (good, bad))
    sides = [{file: set(_WORD.findall(own[file])) for file in files} for own in (before, after)]
    changed = set[str]().union(*sides[0].values()) ^ set[str]().union(*sides[1].values())
    users: dict[str, list[str]] = {}
    for file in files:
        for word in (sides[0][file] ^ sides[1][file]) & changed:
            users.setdefault(word, []).append(file)
    lines = {file: set(_WORD.findall(changes(file))) for file in files}
    coupled = [own for own in users.values() if any(file.endswith(".h") for file in own)]
    for header in (file for file in files if file.endswith(".h")):
        declared = [
            {
                (name, "".join(f"{kind}({more}".split()))
                for form in (_PROTOTYPE, _VARIABLE)
                for kind, name, more in form.findall(own[header])
            }
            for own in (before, after)
        ]
        for name in {name for name, _ in declared[0] ^ declared[1]}:
            coupled.append([header, *(file for file in files if name in lines[file])])
    groups = _disjoint_sets(files)
    for first, *others in coupled:
        for other in others:
            groups.merge(first, other)
    order = {file: at for at, file in enumerate(files)}
    return sorted(
        (sorted(own, key=order.__getitem__) for own in groups.subsets()),
        key=lambda own: order[own[0]],
    )


def needed(errors: str, later: Sequence[Point]) -> list[Point]:
    """Of later points those without which a build failed, by the compiler's words: with a file that
    it complains about, or with a name that it quotes on lines they change, headers before others.
    """
    places = [f"/{place}" for place in _PLACE.findall(errors)]
    names = set(_QUOTED.findall(errors))
    changing: dict[str, list[Point]] = {}
    for point in later:
        patch = Path(point.adds).read_text("utf-8", "replace") if point.adds else ""
        changed = "\n".join(re.findall(r"^(?!--- |\+\+\+ )[-+].*", patch, re.MULTILINE))
        for name in names.intersection(_WORD.findall(changed)):
            changing.setdefault(name, []).append(point)
    chosen = [
        point
        for point in later
        if any(place.endswith(f"/{file}") for place in places for file in point.files)
    ]
    for points in changing.values():
        headers = [point for point in points if any(file.endswith(".h") for file in point.files)]
        if len(own := headers or points) <= _TELLING:
            chosen += own
    return [point for point in later if point in chosen]


def file_patch(good: Path, bad: Path, path: str) -> bytes:
    """From one tree to the other in one file, as git writes it; empty where it is no text, its name
    has a space, or in one of the trees a link, a folder or a file is in the way of it."""
    sides = {"a": good / path, "b": bad / path}
    above = [root / parent for root in (good, bad) for parent in PurePosixPath(path).parents[:-1]]
    odd = any(side.is_dir() for side in sides.values()) or any(each.is_file() for each in above)
    if odd or path.split() != [path] or any(map(Path.is_symlink, (*sides.values(), *above))):
        return b""
    reads = [side for side in sides.values() if side.is_file()]
    modes = ["100755" if side.stat().st_mode & 0o100 else "100644" for side in reads]
    labels = [
        f"--label={name}/{path}" if side in reads else "--label=/dev/null"
        for name, side in sides.items()
    ]
    places = [str(side) if side in reads else "/dev/null" for side in sides.values()]
    command = ["diff", "--unified", *labels, *places]
    text = trees.run(confined(command, reads=reads), allowed=(0, 1), called=command)
    header = [f"diff --git a/{path} b/{path}"]
    if len(reads) == 1:
        header.append(f"{'deleted' if sides['a'] in reads else 'new'} file mode {modes[0]}")
    elif modes[0] != modes[1]:
        header += [f"old mode {modes[0]}", f"new mode {modes[1]}"]
    # An empty file does not go away by what patch takes.
    bare = not text and (not header[1:] or reads == [sides["a"]])
    if bare or text.startswith(b"Binary files "):
        return b""
    return "\n".join([*header, ""]).encode("utf-8", "surrogateescape") + text


# The options in which two configurations differ.


def options(good: Path, bad: Path) -> Range:
    """A point for ``good``'s lines, and one for each line in which ``bad`` differs, added one after
    the other in ``bad``'s order, in which Kconfig writes what depends behind what it depends on.
    UsageError where they do not differ or are no configurations."""
    texts = [_text(file) for file in (good, bad)]
    wholes = [_WHOLE in text for text in texts]
    complete = all(wholes)
    if complete != any(wholes):
        whole_one, part = (good, bad) if wholes[0] else (bad, good)
        raise UsageError(
            f"--between {good} {bad}: {whole_one} is a whole configuration and {part} only some "
            "options: give two of one kind (`make olddefconfig` completes one in a kernel's tree)"
        )
    before, after = (
        _config(file, rebuildable(text) if complete else text.splitlines())
        for file, text in zip((good, bad), texts, strict=True)
    )
    lines = {option: line for option, line in after.items() if before.get(option) != line}
    # What a whole configuration lacks is off; what some options leave out is Kconfig's to choose.
    gone = [option for option in before if option not in after]
    lines |= {option: f"# {option} is not set" if complete else option for option in gone}
    if not lines:
        raise UsageError(f"--between {good} {bad}: the two set the same options")
    first = Point("", good.name, {"config": list(before.values())})
    points = (
        Point("", line if line != option else f"without {before[option]}", {}, adds=line)
        for option, line in lines.items()
    )
    return Range(_numbered(first, *points), "option", complete)


def settable(
    range_: Range, good: str, bad: str, declared: Mapping[str, Option]
) -> tuple[Point, ...]:
    """Of whole configurations the points that a person can set and in which the final ones of the
    ends differ; what other options select follows from these. UsageError where there is none."""
    differing = {option for option, _value in _changed(good, bad)}

    def counts(point: Point) -> bool:
        option = option_of(point.adds)
        return option in differing and option in declared and declared[option].prompt

    points = tuple(filter(counts, range_.points[1:]))
    if not points:
        raise UsageError(
            "--between: the two make the same kernel here; they differ in names of versions, keys, "
            "modules or options that this source does not have"
        )
    return together((range_.points[0], *points), declared)


def together(points: Sequence[Point], declared: Mapping[str, Option]) -> tuple[Point, ...]:
    """Options as points, the answers of one choice as one, where the last of them was: between
    them the choice would fall back to its default, which is a third kernel."""
    by_choice: dict[str, list[Point]] = {}
    for point in points[1:]:
        option = option_of(point.adds)
        own = (declared[option].choice if option in declared else "") or option
        by_choice[own] = [*by_choice.pop(own, ()), point]
    joined = []
    for answers in by_choice.values():  # the one that was chosen gives the title
        chosen = next((point for point in answers if point.adds.endswith("=y")), answers[0])
        joined.append(replace(chosen, adds="\n".join(point.adds for point in answers)))
    return _numbered(points[0], *joined)


def drawn_along(point: Point, before: str, after: str) -> tuple[str, ...]:
    """The other lines of the final configuration that a point changes."""
    own = {option_of(line) for line in point.adds.splitlines()}
    changed = (Wish(option, value, "") for option, value in _changed(before, after))
    return tuple(wish.line for wish in changed if wish.option not in own)


def _changed(before: str, after: str) -> list[tuple[str, str]]:
    """(option, its value in ``after``) where two final configurations differ."""
    first, last = values_of(before), values_of(after)
    pairs = ((option, last.get(option, "n")) for option in sorted(first.keys() | last.keys()))
    return [(option, value) for option, value in pairs if first.get(option, "n") != value]


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except OSError as problem:
        raise UsageError(f"--between {file}: {problem.strerror}") from problem


def _config(file: Path, lines: Sequence[str]) -> dict[str, str]:
    options = {option_of(line): line for line in map(str.strip, lines) if parse_line(line)}
    if not options:
        raise UsageError(f"--between {file}: it has no line such as CONFIG_SMP=y")
    return options
