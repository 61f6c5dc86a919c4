# SPDX-License-Identifier: MIT
"""Tools that read what others wrote: git, tar, patch, compilers, binutils, each in the sandbox.

An experiment, a source and a run may come from anybody, and such a tool obeys what it reads (a
repository's settings), is chosen by it (a compiler) or may have a defect that it reaches. Inside
it sees what it is told to read, at its own path, writes where it is told to, and has no network.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from kdyno import sandbox
from kdyno.views import TOOL, around

_PRIVATE = Path("/tmp")
"""Of the sandbox's own: what lies here on the host is seen inside only where it is named."""


def confined(
    command: Sequence[str],
    *,
    reads: Sequence[Path] = (),
    writes: Sequence[Path] = (),
    settings: Mapping[str, str] | None = None,
) -> list[str]:
    """The command line that runs ``command`` inside.

    reads, writes: files and folders that it needs, wherever they lie; all keep their paths.
    settings: its environment, beside PATH; nothing of the caller's, in which there may be
    passwords. Where the machine has no sandbox the command is given back as it is to a person
    who said ``--no-sandbox``; ToolError for all others.
    """
    if not sandbox.confines():
        return list(command)
    for path in writes:
        sandbox.hand_over(path.resolve(), TOOL, again=True)
    program = Path(shutil.which(command[0]) or command[0])
    environment = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C.UTF-8"}
    return sandbox.Sandbox(
        TOOL,
        read_only=(*around(program), *_places(reads)),
        writable=tuple(_places(writes)),
        settings={**environment, **(settings or {})},
    ).argv(list(command))


def plain_status(status: int) -> int:
    """An exit status as subprocess gives it: the sandbox tells a signal as 128 and its number."""
    return 128 - status if 128 < status <= 128 + signal.NSIG else status


def _places(paths: Sequence[Path]) -> Iterator[tuple[Path, str]]:
    for path in paths:
        real, given = path.resolve(), path.absolute()
        yield real, str(real)
        # A symbolic link on the way is there inside as well, but for one in /tmp.
        if given != real and given.is_relative_to(_PRIVATE):
            yield real, str(given)
