# SPDX-License-Identifier: MIT
"""A git repository on this machine that somebody else may have made: asked only in the sandbox.

Git obeys a repository's own settings: monitors, hooks, filters and helpers are programs that its
``.git/config`` names, and no option switches all of them off (gitsecurityboundary(7)). What git
answers from in there is taken as a stranger's word.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from kdyno import sandbox
from kdyno.confined import confined
from kdyno.errors import ToolError, UsageError
from kdyno.kernels.sources import tool

CLEAN = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    # Attributes of this user's or this machine's would give one tree hash different files.
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_CONFIG_COUNT": "1",
    "GIT_CONFIG_KEY_0": "core.attributesFile",
    "GIT_CONFIG_VALUE_0": os.devnull,
    "GIT_CONFIG_PARAMETERS": "",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_ALLOW_PROTOCOL": "file",
}
"""Nobody's settings and nobody's programs, for repositories of kdyno's own."""
_PROGRAMS_OFF = (
    *("-c", "core.fsmonitor=false", "-c", f"core.hooksPath={os.devnull}"),
    # Inside it is harmless to read another user's repository, which git refuses elsewhere.
    *("-c", "safe.directory=*"),
)
_MOST_ALTERNATES = 16


def asked(folder: Path, words: Sequence[str], reads: Sequence[Path] = ()) -> bytes:
    """What ``git WORDS`` prints in ``folder``. UsageError where there is no repository.

    reads: files that it needs besides the repository's own.
    """
    git = ["git", "-C", str(folder)]
    inside = confined(
        [*git, *_PROGRAMS_OFF, *words], reads=[*parts(folder), *reads], settings=CLEAN
    )
    with readable(folder):
        return tool.run(inside, env=CLEAN, called=[*git, *words])


@contextmanager
def readable(folder: Path) -> Iterator[None]:
    """A failure of git gets the way out where it may be that not everybody can read ``folder``."""
    try:
        yield
    except ToolError as problem:
        private = any(it.stat().st_mode & 0o005 != 0o005 for it in parts(folder) if it.exists())
        if not (sandbox.drops_root() and private):
            raise
        raise ToolError(
            f"{problem}\nIn the sandbox git is not root, and {folder} cannot be read by everybody: "
            f"chmod -R o+rX {folder}, or run kdyno as the user that it belongs to"
        ) from problem


def upload_pack(folder: Path) -> str:
    """For ``git fetch --upload-pack``: the program that hands out the repository's objects.

    What fetches from it counts every object's hash itself, and so gets what the hashes say.
    """
    words = ["git", *_PROGRAMS_OFF, "-c", "uploadpack.allowAnySHA1InWant=true", "upload-pack"]
    return shlex.join(confined(words, reads=parts(folder), settings=CLEAN))


def own_ignores() -> Path | None:
    """The file of names that this user's own settings have git leave out everywhere."""
    argv = ["git", "config", "--global", "--type=path", "--get", "core.excludesFile"]
    named = os.fsdecode(tool.run(argv, allowed=(0, 1))).rstrip("\n")
    settings = os.environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    file = Path(named or f"{settings}/git/ignore")
    return file if file.is_file() else None


def parts(folder: Path) -> tuple[Path, ...]:
    """Every folder that git reads for the repository at or above ``folder``."""
    for place in (folder, *folder.parents):
        if (place / ".git").exists():
            home = _linked(place / ".git")
            return tuple(dict.fromkeys((place, home, *_shared(home))))
        if _is_store(place):
            return tuple(dict.fromkeys((place, *_shared(place))))
    raise UsageError(f"{folder} is not a git repository (nor any of the parent directories)")


def _linked(git: Path) -> Path:
    """Where ``.git`` leads: a file in a work tree of another repository, or in a submodule."""
    if git.is_dir():
        return git
    home = git.parent / _first_line(git).removeprefix("gitdir:").strip()
    if not (home / "HEAD").is_file():
        raise UsageError(f"{git.parent} is not a git repository: {git} leads to none")
    return home.resolve()


def _shared(home: Path) -> Iterator[Path]:
    """The repository that a work tree belongs to, and the stores that objects are borrowed from."""
    common = home / _first_line(home / "commondir")
    if common != home and _is_store(common):
        yield common.resolve()
    waiting, seen = [common / "objects"], set[Path]()
    while waiting and len(seen) < _MOST_ALTERNATES:
        objects = waiting.pop()
        for line in _lines(objects / "info" / "alternates"):
            other = (objects / line).resolve()
            if other not in seen and (other / "pack").is_dir():
                seen.add(other)
                waiting.append(other)
                yield other


def _is_store(place: Path) -> bool:
    return (place / "HEAD").is_file() and (place / "objects").is_dir()


def _first_line(file: Path) -> str:
    return next(iter(_lines(file)), "")


def _lines(file: Path) -> list[str]:
    try:
        with file.open(encoding="utf-8", errors="surrogateescape") as stream:
            return stream.read(1 << 16).splitlines()
    except (OSError, ValueError):
        return []
