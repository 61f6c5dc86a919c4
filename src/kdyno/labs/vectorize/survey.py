# SPDX-License-Identifier: MIT
"""A survey: one kernel compiled with several sets of flags, and what became of its loops."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from kdyno.labs.vectorize.flags import FlagSet
from kdyno.labs.vectorize.loops import REGISTER, Loop, Records, from_json, to_json


@dataclass(frozen=True)
class Side:
    """One set of flags and the build that it gave."""

    flags: FlagSet
    records: Records
    image: str = ""
    """Digest of the kernel; empty where only a build's leavings were read."""
    seconds: float | None = None
    """What the build took, reading the record included; None where nobody knows."""

    @cached_property
    def loops(self) -> list[Loop]:
        return self.records.loops

    @cached_property
    def vectors(self) -> list[Loop]:
        """Loops in vector registers, in every function that they ended up in."""
        return [loop for loop in self.loops if loop.is_vector]

    @cached_property
    def narrow(self) -> list[Loop]:
        """What the compiler calls vectorised but does in general registers."""
        return [loop for loop in self.loops if loop.width_bytes and not loop.is_vector]

    @cached_property
    def missed(self) -> list[Loop]:
        return [loop for loop in self.loops if loop.reason]

    @cached_property
    def library(self) -> list[Loop]:
        return [loop for loop in self.loops if loop.library]

    @cached_property
    def places(self) -> set[tuple[str, int, int]]:
        """Places of the source: a loop that was inlined into ten functions is one."""
        return {loop.place for loop in self.vectors}

    def widths(self) -> dict[int, int]:
        """Width in bytes → vectorised loops; every width is there."""
        counted = Counter(loop.width_bytes for loop in self.vectors)
        return {width: counted.get(width, 0) for width in REGISTER}

    def seen(self) -> dict[str, int]:
        """What the machine code says of the vectorised loops: loop, function, no."""
        counted = Counter(loop.seen for loop in self.vectors)
        return {word: counted.get(word, 0) for word in ("loop", "function", "no")}

    def files(self) -> Counter[str]:
        """File of the source → vectorised places in it."""
        return Counter(file for file, _, _ in self.places)

    def reasons(self) -> Counter[str]:
        """Reason → missed places of the source; a place that was vectorised somewhere is none."""
        found = {loop.place: loop.reason for loop in self.missed if loop.place not in self.places}
        return Counter(found.values())

    def damaged(self) -> list[str]:
        """Records that could not be read to their end."""
        return [f"{it.object}: {it.damage}" for it in self.records.objects if it.damage]


@dataclass(frozen=True)
class Survey:
    """Sides in the order in which they were asked for."""

    source: str
    version: str
    compiler: str
    sides: tuple[Side, ...]

    def files(self) -> list[tuple[str, list[int]]]:
        """(file, vectorised places on each side), the one with most on any side first."""
        counts = [side.files() for side in self.sides]
        rows = {file: [count.get(file, 0) for count in counts] for file in set().union(*counts)}
        return sorted(rows.items(), key=lambda row: (-max(row[1]), -sum(row[1]), row[0]))

    def reasons(self) -> list[tuple[str, list[int]]]:
        """(reason, missed places on each side), the commonest first."""
        counts = [side.reasons() for side in self.sides]
        rows = {name: [count.get(name, 0) for count in counts] for name in set().union(*counts)}
        return sorted(rows.items(), key=lambda row: (-max(row[1]), row[0]))


def survey_to_json(survey: Survey) -> dict[str, Any]:
    """Schema 1: totals for programs, and every loop for whoever wants to count anew."""
    return {
        "schema": 1,
        "kind": "vectorization",
        "source": survey.source,
        "version": survey.version,
        "compiler": survey.compiler,
        "sides": [
            {
                "flags": side.flags.name,
                "cflags": side.flags.cflags,
                "image": side.image,
                "seconds": side.seconds,
                "vectorized": {
                    "places": len(side.places),
                    "loops": len(side.vectors),
                    "by_width_bytes": {str(it): count for it, count in side.widths().items()},
                    "in_machine_code": side.seen(),
                    "in_general_registers": len(side.narrow),
                    "files": dict(sorted(side.files().items())),
                },
                "replaced_by_calls": len({loop.place for loop in side.library}),
                "missed": {
                    "places": sum(side.reasons().values()),
                    "reasons": dict(side.reasons().most_common()),
                },
                "damaged": side.damaged(),
                "records": to_json(side.records),
            }
            for side in survey.sides
        ],
    }


def survey_from_json(data: Mapping[str, Any]) -> Survey:
    """ValueError for what ``survey_to_json`` did not write."""
    try:
        if data["schema"] != 1 or data["kind"] != "vectorization":
            raise ValueError("no survey that this kdyno knows")
        sides = tuple(
            Side(
                FlagSet(str(it["flags"]), str(it["cflags"])),
                from_json(it["records"]),
                str(it["image"]),
                None if it["seconds"] is None else float(it["seconds"]),
            )
            for it in data["sides"]
        )
        if not sides:
            raise ValueError("a survey without a side")
        return Survey(str(data["source"]), str(data["version"]), str(data["compiler"]), sides)
    except (KeyError, TypeError, AttributeError) as problem:
        raise ValueError(f"no survey: {problem!r}") from None
