# SPDX-License-Identifier: MIT
"""What a controller has given out, on disk: whoever goes on with the run finds its jobs.

It lies beside the run's folder and not in it. A run that came from elsewhere has none, and can
neither name jobs to be cancelled nor commands.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field

from kdyno.errors import UsageError
from kdyno.fleet.settings import Settings
from kdyno.reading.checked import FromTool, check
from kdyno.store.folder import Folder

FOLDER = ".fleet"
"""Of a folder of runs."""
_FILE = "fleet.json"
_LIMIT_BYTES = 64 << 20


class Given(FromTool):
    """A job that was given out, as `engine.Job` has it. ``number``: of its shard."""

    number: int
    groups: int
    name: str
    outcome: str
    log: str


class Record(FromTool):
    settings: Settings
    words: list[str]
    """The experiment's file and the options, as `kdyno run` takes them."""
    building: list[str]
    """The same as `kdyno build` takes them."""
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
    """The folder of a run's shards and jobs."""

    path: Path

    @classmethod
    def of(cls, run: Path) -> Place:
        return cls(run.parent / FOLDER / run.name)

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

    def there(self) -> bool:
        return (self.path / _FILE).is_file()

    def read(self) -> Record:
        file = self.path / _FILE
        with Folder.open(self.path) as folder:
            text = folder.read(_FILE, _LIMIT_BYTES)
        try:
            data = json.loads(text)
        except (ValueError, RecursionError) as problem:
            raise UsageError(f"{file}: cannot be read: {problem}") from problem
        return check(Record, data, str(file))

    def write(self, record: Record) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        with Folder.open(self.path) as folder:
            folder.write(_FILE, record.model_dump_json(indent=1).encode())

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
