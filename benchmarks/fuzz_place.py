# SPDX-License-Identifier: MIT
"""Where fuzzing happens: a folder with nothing of worth, and a file that nobody may touch."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CANARY = b"what lies outside of a run\n"

Case = Mapping[str, Any]
"""JSON values only; ``target`` is its kind."""


@dataclass(frozen=True)
class Place:
    """Where cases are played. Nothing of it is worth anything."""

    folder: Path
    runs: Mapping[str, Path]
    """Name → a run as it should be; copied for each case."""
    experiments: Sequence[bytes] = ()

    @property
    def canary(self) -> Path:
        return self.folder / "outside" / "canary"

    @classmethod
    def at(cls, folder: Path, runs: Mapping[str, Path], experiments: Sequence[bytes] = ()) -> Place:
        place = cls(folder, runs, experiments)
        place.canary.parent.mkdir()
        place.canary.write_bytes(CANARY)
        return place


def packed(data: bytes) -> str:
    """Any bytes as text, small."""
    return base64.b85encode(zlib.compress(data, 9)).decode()


def unpacked(text: str) -> bytes:
    return zlib.decompress(base64.b85decode(text))
