# SPDX-License-Identifier: MIT
"""The profile of one kernel: seconds per function in every profiled boot, its JSON, and a run's."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from kdyno.errors import ToolError
from kdyno.store.reading import AS_WRITTEN, Count, Name, Seconds, Text, content, parse
from kdyno.store.run import Run, read_each

Where = Literal["kernel", "host", "user"]
Method = Literal["perf", "gprof"]
WHERES: dict[Where, str] = {"kernel": "UML kernel", "host": "host kernel", "user": "user code"}
"""Where code runs, and what people call it."""
FOLDER = "profile"
"""Of a run: one file for each variant."""

OUTSIDE = "booted without the sandbox (--no-sandbox), at least once"
"""The note of a profile that was made so."""

_LIMIT_BYTES = 64 << 20
FUNCTIONS_MOST = 50_000
_BOOTS_MOST = 10_000
STACKS_MOST = 20_000


@dataclass(frozen=True)
class FunctionTime:
    """Seconds that one function itself took (without those it called) in one boot.

    where: ``kernel`` the User Mode Linux kernel, ``host`` the kernel below it, ``user`` the
    code of the guest's programs. calls: None where nothing counted them."""

    where: Where
    function: Name
    seconds: Seconds
    calls: Count | None = None
    __pydantic_config__ = AS_WRITTEN


@dataclass(frozen=True)
class ProfiledBoot:
    """One profiled boot. Boots of the same block belong together across variants."""

    block: Annotated[int, Field(ge=0, le=10_000_000)]
    cpu_s: Seconds | None
    """CPU seconds of the whole process tree by the host's accounting: the measured total."""
    functions: Annotated[tuple[FunctionTime, ...], Field(max_length=FUNCTIONS_MOST)]
    __pydantic_config__ = AS_WRITTEN


@dataclass(frozen=True)
class Stack:
    """Seconds spent with exactly these functions on the stack, the outermost first."""

    where: Where
    """Of the innermost function."""
    frames: Annotated[tuple[Name, ...], Field(min_length=1, max_length=256)]
    seconds: Seconds
    __pydantic_config__ = AS_WRITTEN


@dataclass(frozen=True)
class Profile:
    """All profiled boots of one variant. ``profile/VARIANT.json`` of a run."""

    variant: Name
    method: Method
    event: Name
    """What was sampled: ``cpu-clock``, ``cycles``, or gprof's clock."""
    image: Text
    """Digest of the kernel that was booted; gprof has one of its own."""
    operations: Annotated[Mapping[Name, Count], Field(max_length=10_000)]
    """suite/case → operations that every boot did, the same for all variants."""
    boots: Annotated[tuple[ProfiledBoot, ...], Field(max_length=_BOOTS_MOST)]
    stacks: Annotated[tuple[Stack, ...], Field(max_length=STACKS_MOST)] = ()
    """Mean seconds per boot; empty where the method sees no stacks."""
    notes: Annotated[tuple[Text, ...], Field(max_length=100)] = ()
    """What this profile does not see, in words."""
    schema: Literal[1] = 1
    __pydantic_config__ = AS_WRITTEN

    @cached_property
    def names(self) -> tuple[tuple[Where, str], ...]:
        """Every (where, function), the one with most seconds first."""
        total: defaultdict[tuple[Where, str], float] = defaultdict(float)
        for row in (row for boot in self.boots for row in boot.functions):
            total[row.where, row.function] += row.seconds
        return tuple(sorted(total, key=lambda key: (-total[key], key)))

    def seconds(self, where: str, function: str) -> dict[int, float]:
        """Block → seconds; 0 in a boot in which the function was never sampled."""
        return {block: row.get((where, function), 0.0) for block, row in self._by_block.items()}

    def mean_s(self, where: str, function: str) -> float:
        """Of a boot."""
        return sum(self.seconds(where, function).values()) / max(1, len(self.boots))

    def calls(self, where: str, function: str) -> float | None:
        """Mean calls per boot; None where they were not counted."""
        counts = self._calls.get((where, function))
        return sum(counts) / len(counts) if counts else None

    def totals(self, where: str | None = None) -> dict[int, float]:
        """Block → seconds of all functions (of ``where``)."""
        return {
            boot.block: sum(row.seconds for row in boot.functions if where in (None, row.where))
            for boot in self.boots
        }

    def measured(self) -> dict[int, float]:
        """Block → CPU seconds by the host's accounting, where known."""
        return {boot.block: boot.cpu_s for boot in self.boots if boot.cpu_s is not None}

    @cached_property
    def _calls(self) -> dict[tuple[str, str], list[int]]:
        calls: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
        for row in (row for boot in self.boots for row in boot.functions):
            if row.calls is not None:
                calls[row.where, row.function].append(row.calls)
        return calls

    @cached_property
    def _by_block(self) -> dict[int, dict[tuple[str, str], float]]:
        blocks: dict[int, dict[tuple[str, str], float]] = {}
        for boot in self.boots:
            row = blocks.setdefault(boot.block, defaultdict(float))
            for function in boot.functions:
                row[function.where, function.function] += function.seconds
        return blocks


def from_bytes(data: bytes, path: Path) -> Profile:
    """The profile in ``data``; ToolError with path, key and what is wrong."""
    profile = parse(Profile, data, path)
    blocks = [boot.block for boot in profile.boots]
    if len(set(blocks)) != len(blocks):
        raise ToolError(f"{path}: damaged: a block is there twice")
    return profile


def read_profile(path: Path) -> Profile:
    """The profile in a file; ToolError when it is missing, too large or damaged."""
    return from_bytes(content(path, _LIMIT_BYTES, "profile", ToolError), path)


def to_json(profile: Profile) -> str:
    """One boot and one stack a line; seconds to a tenth of a microsecond."""

    def plainly(row: FunctionTime | Stack) -> dict[str, object]:
        fields = {**vars(row), "seconds": round(row.seconds, 7)}
        return {key: value for key, value in fields.items() if value is not None}

    boots = [
        {"block": boot.block, "cpu_s": boot.cpu_s, "functions": [*map(plainly, boot.functions)]}
        for boot in profile.boots
    ]
    keys = ("schema", "variant", "method", "event", "image", "notes")
    head = {key: vars(profile)[key] for key in keys} | {"operations": dict(profile.operations)}
    return by_line({**head, "boots": boots, "stacks": [*map(plainly, profile.stacks)]})


def by_line(values: Mapping[str, Any]) -> str:
    """JSON with each item of a list on a line, so that two files can be held side by side."""
    between = ",\n  "
    lines = [
        f' "{key}": [\n  {between.join(map(json.dumps, value))}\n ]'
        if isinstance(value, list)
        else f' "{key}": {json.dumps(value)}'
        for key, value in values.items()
    ]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def stored_profiles(run: Run) -> dict[str, Profile]:
    """Variant → profile, the baseline's first; empty where nothing was profiled.

    ToolError names the file that is damaged or not the variant's."""
    return read_each(run, FOLDER, from_bytes)
