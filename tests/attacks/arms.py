# SPDX-License-Identifier: MIT
"""The two who start kdyno, for attacks that must fail with both: root, and an ordinary user.

Started by root, the tests play both. Started by an ordinary user they can play only that one, and
say of the others that they were left out.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from kdyno.paths import data_root
from kdyno.sandbox import Sandbox

NOBODY = 65534
_IS_ROOT = os.geteuid() == 0
_BECOME = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--"]


@dataclass(frozen=True)
class Arm:
    """Who starts kdyno, or the sandbox alone."""

    root: bool

    @property
    def uid(self) -> int:
        return 0 if self.root else NOBODY if _IS_ROOT else os.geteuid()

    def sandboxed(self, box: Sandbox, script: str) -> list[str]:
        """A shell script inside the sandbox as this user gets it."""
        line = box.argv(["sh", "-c", script], dropping=self.root)
        # The shell in front opens the filter, which may lie where that user may not read.
        first = line.index("bwrap")
        return line if self.root or not _IS_ROOT else [*line[:first], *_BECOME, *line[first:]]

    def python(self, *words: str, reads: Sequence[Path] = ()) -> list[str]:
        """This Python with ``words``, started by this user, who can read it and ``reads`` too.

        Where root plays the ordinary user those may lie below folders that only root can enter:
        they are shown in an empty folder in place of such a one.
        """
        argv = [sys.executable, *words]
        if self.root or not _IS_ROOT:
            return argv
        paths = [data_root(), Path(sys.prefix), Path(sys.base_prefix), *reads]
        line = ["bwrap", "--dev-bind", "/", "/", "--die-with-parent"]
        closed = dict.fromkeys(each for each in map(_closed, paths) if each is not None)
        for folder in closed:
            line += ["--perms", "0755", "--tmpfs", str(folder)]
        for path in dict.fromkeys(paths):
            if _closed(path) is not None:
                above = [
                    parent for parent in reversed(path.parents) if _closed(parent / "x") is not None
                ]
                line += [word for each in above for word in ("--dir", str(each))]
                line += ["--ro-bind", str(path), str(path)]
        return [*line, "--", *_BECOME, *argv]

    @contextmanager
    def place(self) -> Iterator[Path]:
        """A folder of this user's, which everybody can enter; gone afterwards."""
        with tempfile.TemporaryDirectory(prefix="kdyno-attack-", dir="/var/tmp") as folder:
            os.chmod(folder, 0o755)  # noqa: PTH101
            if _IS_ROOT:
                os.chown(folder, self.uid, self.uid)
            yield Path(folder)


def _closed(path: Path) -> Path | None:
    """The first folder on the way to ``path`` that others cannot enter."""
    for folder in reversed(path.parents):
        if not folder.stat().st_mode & 0o001:
            return folder
    return None


ARMS = (
    pytest.param(
        Arm(root=True),
        id="root",
        marks=pytest.mark.skipif(not _IS_ROOT, reason="only root can try what root can do"),
    ),
    pytest.param(Arm(root=False), id="an-ordinary-user"),
)
both = pytest.mark.parametrize("arm", ARMS)
