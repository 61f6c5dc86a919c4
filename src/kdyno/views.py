# SPDX-License-Identifier: MIT
"""What each kind of work may see of the host inside the sandbox: one table for all of them."""

from __future__ import annotations

import functools
import os
import re
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

Binds = tuple[tuple[Path, str], ...]
"""(path on the host, path inside)."""

SYSTEM = (
    *("bin", "sbin", "usr", "etc", "opt"),
    *("lib", "lib32", "lib64", "libx32"),
    *("nix", "gnu"),
)
"""Folders of ``/`` with programs, libraries and their settings: seen read-only by all work."""
EMPTY = (
    *("boot", "home", "media", "mnt", "proc", "root", "run", "srv", "sys", "tmp", "var"),
    *("var/lib", "var/log", "var/tmp"),
)
"""Folders that exist inside with nothing in them: homes, sockets and data of services are not for
work that is not trusted, and a guest mounts its own over some of them."""
_OWN = frozenset({"dev", "proc", "run", "sys", "tmp"})
"""Places in ``/`` that a sandbox or a guest has its own of."""
_PATH_IN_WORD = re.compile(r"(?:(?<=[\s=,:;'\"(])|^)/[^\s'\",:;()|&<>$`*?\[\]{}]+")


@dataclass(frozen=True)
class View:
    """One row of the table.

    uid: who its commands are, user and group; a number for each, so that none can touch what
    another made, and so that each has its own count of processes. host: paths shown read-only
    beside SYSTEM. processes: how many of them, threads counted, may
    live at once. proc: whether there is a /proc, with its own processes. tmp_bytes: size of the
    /tmp inside, which is memory; None is the kernel's default, half of what the machine has.
    """

    name: str
    what: str
    uid: int
    host: tuple[str, ...] = ()
    processes: int = 4096
    proc: bool = True
    tmp_bytes: int | None = None


_CPUS = "/sys/devices/system"

# Of the numbers that no distribution gives away (60706 to 61183, by systemd's list), and below
# 65536, so that containers have them as well.
BUILD = View("build", "a kernel's build", 60906, host=(_CPUS,))
# A guest's root sees what its kernel's process sees: in /proc that would be this very process, and
# its memory.
GUEST = View(
    *("guest", "a booted UML kernel", 60907), processes=16384, proc=False, tmp_bytes=256 << 20
)
HOST = View(
    *("host", "cases on the running kernel", 60908),
    host=(_CPUS,),
    processes=16384,
    tmp_bytes=256 << 20,
)
PREPARE = View(
    "prepare", "what a case makes once beforehand", 60909, host=(_CPUS,), tmp_bytes=1 << 30
)
TOOL = View("tool", "a tool that reads what others wrote", 60910, tmp_bytes=256 << 20)
# As many threads as it likes for reading and writing files: it gives up where it gets none.
QEMU = View("qemu", "a booted native kernel, in QEMU", 60911, proc=False)
VIEWS = (BUILD, GUEST, HOST, PREPARE, TOOL, QEMU)


@functools.cache
def system(root: Path = Path("/")) -> tuple[tuple[str, str, str], ...]:
    """bubblewrap's words for SYSTEM as this machine has it: (option, source, place inside).

    A link stays a link (``/bin`` is one to ``usr/bin`` nowadays).
    """
    found = []
    for name in SYSTEM:
        path = root / name
        if path.is_symlink():
            found.append(("--symlink", str(path.readlink()), f"/{name}"))
        elif path.is_dir():
            found.append(("--ro-bind", str(path), f"/{name}"))
    return tuple(found)


def is_seen(path: Path) -> bool:
    """Whether ``path`` lies in what every view shows."""
    top = path.parts[1] if len(path.parts) > 1 else ""
    return top in SYSTEM


def around(program: Path) -> Binds:
    """What must be shown so that a program in an odd place works: the folder it is installed in.

    For ``PREFIX/bin/PROGRAM`` that is PREFIX, else its folder, but never a home or a folder of
    the root as a whole: there it is the program alone. Its real place counts, too.
    """
    binds: dict[str, Path] = {}
    for path in dict.fromkeys((program.absolute(), program.resolve())):
        if is_seen(path) or not path.exists():
            continue
        folder = path.parent.parent if path.parent.name == "bin" else path.parent
        shown = next((it for it in (folder, path.parent) if not _too_much(it)), path)
        binds[str(shown)] = shown
    return tuple((path, inside) for inside, path in sorted(binds.items()))


def named(*commands: Sequence[str]) -> Binds:
    """The files and folders that command lines name and that no view shows, at their own places.

    A program comes with what lies around it. Left out are sockets, pipes and devices, homes and
    the system's folders as a whole, what a link leads to elsewhere, and for root folders that are
    closed to others: those would be opened with root's rights.
    """
    binds: dict[str, Path] = {}
    for words in commands:
        for word in words:
            for found in {word, *_PATH_IN_WORD.findall(word)}:
                path = Path(os.path.normpath(found))
                if found.startswith("/") and _may_be_named(path):
                    binds[str(path)] = path
                    if path.is_file() and os.access(path, os.X_OK):
                        binds |= {inside: folder for folder, inside in around(path)}
    return tuple((path, inside) for inside, path in sorted(binds.items()))


def _may_be_named(path: Path) -> bool:
    try:
        real = path.resolve(strict=True)
        mode = real.stat().st_mode
    except (OSError, RuntimeError, ValueError):  # not there, links in a circle, no name
        return False
    closed = stat.S_ISDIR(mode) and os.geteuid() == 0 and mode & 0o005 != 0o005
    return (
        (stat.S_ISREG(mode) or stat.S_ISDIR(mode))
        and not closed
        and not is_seen(path)
        and all(_is_part(it) for it in (path, real))
        and not any(_leads_elsewhere(it) for it in (path, *path.parents))
    )


def _is_part(path: Path) -> bool:
    """Whether it is in no place of the sandbox's own, and no home or system's folder as a whole."""
    top, home = path.parts[1:2], Path.home()
    whole = str(path)[1:] in EMPTY or path.parent == Path("/home") or path in (home, *home.parents)
    return bool(top) and top[0] not in _OWN and not whole


def _leads_elsewhere(path: Path) -> bool:
    """Whether it is a link out of its folder; those in ``/`` itself are the system's."""
    if not path.is_symlink() or path.parent == Path("/"):
        return False
    to = path.resolve()
    return not (to.is_relative_to(path.parent.resolve()) or is_seen(to))


def _too_much(folder: Path) -> bool:
    home = Path.home()
    shared = len(folder.parts) < 3 or folder.parent == Path("/home")
    return shared or folder == home or folder in home.parents or not os.access(folder, os.R_OK)
