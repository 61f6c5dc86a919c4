# SPDX-License-Identifier: MIT
"""What a controller has given out, on disk: whoever goes on with the run finds its jobs.

It lies in the person's own state folder: what somebody writes beside a run can neither name jobs
to be cancelled nor files to be shown nor commands. What jobs leave lies beside the run's folder.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated

from pydantic import Field

from kdyno.errors import ToolError
from kdyno.fleet.settings import Settings
from kdyno.reading.checked import FromTool
from kdyno.store.begun import BEGUN, Note
from kdyno.store.folder import Folder
from kdyno.store.reading import parse
from kdyno.store.run import open_run

FOLDER = ".fleet"
"""Of a folder of runs."""


class Given(FromTool):
    """A job that was given out, as `engine.Job` has it. ``number``: of its shard."""

    number: int
    groups: int
    name: Annotated[str, Field(pattern=r"^[0-9]+(_[0-9]+)?$")]
    outcome: Annotated[str, Field(pattern=r"^\w+/\w+\.json$")]
    """In the folder of jobs."""


class Record(FromTool):
    settings: Settings
    file: str
    """The experiment's."""
    ref: str = ""
    """The commit, of an experiment with [matrix]."""
    next: int = 0
    """Number of the next shard."""
    spent_s: float = 0.0
    """Of measuring, by controllers before."""
    built: list[str] = Field(default_factory=list)
    """Variants that have an image; empty: not known yet."""
    given: list[Given] = Field(default_factory=list)
    """Jobs that may be alive."""


@dataclass(frozen=True)
class Place:
    """The folder of a run's shards and jobs, which nobody else can look into."""

    run: Path

    @property
    def path(self) -> Path:
        return self.run.parent / FOLDER / self.run.name

    @property
    def jobs(self) -> Path:
        return self.path / "jobs"

    def shard(self, number: int) -> Path:
        """A folder of runs for each: nothing of one job is looked at by another."""
        return self.path / "shards" / str(number)

    def numbers(self) -> list[int]:
        """Of the shards that there are."""
        found = (self.path / "shards").glob("[0-9]*")
        return sorted(int(it.name) for it in found if it.name.isascii() and it.name.isdigit())

    def make(self) -> None:
        """ToolError where it is there and not this user's alone."""
        for it in (self.path.parent, self.path):
            Folder.private(it).close()

    @cached_property
    def _note(self) -> Note:
        return Note(open_run(self.run))

    def read(self) -> Record | None:
        """None: this person has begun no run in jobs here."""
        text = self._note.read()
        return None if text is None or text == BEGUN else parse(Record, text, self.path)

    def write(self, record: Record) -> None:
        self._note.write(record.model_dump_json(indent=1).encode())

    def remove(self) -> None:
        """What jobs have left, and the record."""
        self._note.remove()
        with suppress(ToolError), Folder.private(self.path.parent) as folder:
            folder.remove(self.path.name)
