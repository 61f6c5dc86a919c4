# SPDX-License-Identifier: MIT
"""The commits of a repository, in order, as git lists them in the sandbox."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

from kdyno.errors import ToolError, UsageError
from kdyno.kernels.sources import git

OPEN = "--end-of-options"
SHORT = 12
_FORMAT = "--format=%x1e%H%x1f%P%x1f%an%x1f%aI%x1f%s"
# -m: what a merge changes is what it changes against its first parent.
_ALONG = ("log", "--first-parent", "-m", "--reverse", "--name-only", "--no-renames", _FORMAT)


@dataclass(frozen=True)
class Commit:
    commit: str
    """Its full name."""
    parents: tuple[str, ...]
    author: str
    date: str
    """Of authoring, ISO 8601."""
    title: str
    files: tuple[str, ...] = ()
    """That it changes against its first parent."""

    @property
    def identity(self) -> str:
        """What it keeps when its branch is rebased: author, date of authoring and subject."""
        text = f"{self.author}\0{self.date}\0{self.title}"
        return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def first_parents(folder: Path, *words: str) -> tuple[Commit, ...]:
    """Commits of a span such as ``v7.2..v7.3``, which is the last word, the oldest first."""
    return _commits(folder, *_ALONG, *words[:-1], OPEN, words[-1])


def all_commits(folder: Path, span: str) -> tuple[Commit, ...]:
    """Those of merged branches too; without their files."""
    return _commits(folder, "log", "--reverse", _FORMAT, OPEN, span)


def _commits(folder: Path, *words: str) -> tuple[Commit, ...]:
    commits = []
    for block in answer(folder, *words).split("\x1e")[1:]:
        head, *files = block.split("\n")
        commit, parents, author, date, title = head.split("\x1f", 4)
        own = tuple(file for file in files if file)
        commits.append(Commit(commit, tuple(parents.split()), author[:200], date, title[:200], own))
    return tuple(commits)


def commit_of(folder: Path, ref: str) -> str:
    """The full name of a commit. UsageError where there is none of this name."""
    try:
        name = answer(folder, "rev-parse", "--verify", OPEN, f"{ref}^{{commit}}").strip()
    except ToolError as problem:
        raise UsageError(f"{folder} has no branch, tag or commit {ref!r}") from problem
    if not re.fullmatch(r"[0-9a-f]{40,64}", name):
        raise ToolError(f"git names no commit for {ref!r}: {name[:80]!r}")
    return name


def merge_base(folder: Path, first: str, second: str) -> str:
    """The newest commit that both have. ToolError where they have none."""
    return answer(folder, "merge-base", OPEN, first, second).strip()


def answer(folder: Path, *words: str) -> str:
    """What git prints, as text; names of files as they are."""
    return git.answer(folder, ["-c", "core.quotePath=off", *words]).decode("utf-8", "replace")
