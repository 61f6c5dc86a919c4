# SPDX-License-Identifier: MIT
"""fleet.toml: which machines a person's runs may use."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from kdyno.errors import UsageError
from kdyno.reading.checked import FromFile, check

Name = Literal["slurm", "local"]
NAMES: tuple[Name, ...] = ("slurm", "local")
FILE = "fleet.toml"


class Settings(FromFile):
    """The table ``[fleet]`` of the file; what is not given is the engine's own."""

    engine: Name = "slurm"
    partition: str | None = None
    constraint: str | None = None
    nodes: Annotated[int, Field(ge=1, le=10_000)] = 2
    """Jobs at once."""
    groups: Annotated[int, Field(ge=1, le=1000)] = 32
    """That a job measures at most before it gives its node back."""
    minutes: Annotated[int, Field(ge=1, le=100_000)] = 60
    """A job may take."""
    beside: bool = False
    """Jobs may share a machine; each measures on CPUs that no other has."""
    sbatch: dict[str, str | int | bool] = Field(default_factory=dict)
    """Further options of sbatch, by their long names."""


class _File(FromFile):
    fleet: Settings = Settings()


def settings(on: str, file: Path) -> Settings:
    """What ``--on`` asks for, ENGINE or ENGINE:PARTITION, over what the file says.

    UsageError for an engine that there is not, and for a file with mistakes.
    """
    engine, _, partition = on.partition(":")
    if engine not in NAMES or (partition and engine != "slurm"):
        raise UsageError(f"--on {on!r}: there are slurm, slurm:PARTITION and local")
    found = _read(file)
    update: dict[str, object] = {"engine": engine}
    if partition:
        update["partition"] = partition
    return found.model_copy(update=update)


def _read(file: Path) -> Settings:
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        return Settings()
    except (OSError, UnicodeDecodeError) as problem:
        raise UsageError(f"{file}: cannot be read: {problem}") from problem
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        raise UsageError(f"{file}: is not TOML: {problem}") from problem
    return check(_File, data, str(file), text, way="see docs/team.md").fleet
