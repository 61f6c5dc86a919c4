# SPDX-License-Identifier: MIT
"""Which runs this person began on this machine: what a folder of runs says of that is not believed.

A note of each lies in the person's own state folder. It goes by what the run
would build and by when it began: a run that is moved keeps its note, one that was changed has none.
"""

from __future__ import annotations

import json
from contextlib import suppress
from hashlib import sha256

from kdyno.errors import ToolError
from kdyno.paths import state_root
from kdyno.store.folder import Folder
from kdyno.store.run import Run

_LIMIT_BYTES = 64 << 20
BEGUN = b"{}\n"
"""The note of a run of which nothing more is to be kept."""


class Note:
    """Of one run. Its text is the one who began it's: nobody else can write there."""

    def __init__(self, run: Run) -> None:
        manifest = run.manifest()
        facts = (manifest.created, manifest.seed, manifest.origin, manifest.overrides)
        text = json.dumps((run.experiment_text(), *facts), sort_keys=True)
        self._name = f"{sha256(text.encode()).hexdigest()[:32]}.json"
        self._folder = state_root() / "runs"

    def read(self) -> bytes | None:
        """None: somebody else began it, or it was changed. ToolError where others write, too."""
        if not self._folder.is_dir():
            return None
        with self._opened() as folder:
            return folder.read(self._name, _LIMIT_BYTES) if folder.has(self._name) else None

    def write(self, text: bytes = BEGUN) -> None:
        with self._opened() as folder:
            folder.write(self._name, text)

    def remove(self) -> None:
        with suppress(ToolError), self._opened() as folder:
            folder.remove(self._name)

    def _opened(self) -> Folder:
        Folder.private(self._folder.parent).close()
        return Folder.private(self._folder)
