# SPDX-License-Identifier: MIT
"""Stacks as folded text, which flame graphs and viewers such as speedscope read, and as one tree
for the page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kdyno.errors import UsageError
from kdyno.labs.profile.record import OUTSIDE, WHERES, Profile, Stack, stored_profiles
from kdyno.report import plain
from kdyno.report.evidence import Evidence

NAME = "folded"
HELP = "the profile of every kernel as folded stacks, for flame graphs"
SUFFIX = ".folded"


def export_run(evidence: Evidence) -> str:
    """UsageError where the run was not profiled; of a bare verdict nothing."""
    if evidence.run is None:
        return ""
    profiles = stored_profiles(evidence.run)
    if not profiles:
        raise UsageError(f"{evidence.name} has no profile; `kdyno profile RUN` makes one")
    return folded(profiles)


def stacks_of(profile: Profile) -> tuple[Stack, ...]:
    """The profile's stacks; without any, each function alone below the kind of its code."""
    if profile.stacks:
        return profile.stacks
    boots = max(1, len(profile.boots))
    return tuple(
        Stack(
            where, (WHERES[where], function), sum(profile.seconds(where, function).values()) / boots
        )
        for where, function in profile.names
    )


def folded(profiles: Mapping[str, Profile]) -> str:
    """``frame;frame;frame count`` a line, outermost first, counted in microseconds per boot.

    The variant is the outermost frame, with the method, and that the sandbox was not there."""
    lines = []
    for name, profile in profiles.items():
        outside = ", without the sandbox" if OUTSIDE in profile.notes else ""
        for stack in stacks_of(profile):
            frames = (f"{name} ({profile.method}{outside})", *stack.frames)
            count = round(stack.seconds * 1e6)
            if count:
                lines.append(f"{';'.join(map(_plain, frames))} {count}")
    return "".join(f"{line}\n" for line in sorted(lines))


def _plain(frame: str) -> str:
    """Semicolons part frames and the last blank begins the count."""
    return " ".join(plain.name(frame).replace(";", ":").split())


SMALLEST = 0.0005
"""Share of the whole below which a frame would be no wider than a hair."""
_DEEPEST = 64


def flame_data(profile: Profile) -> list[Any]:
    """``[name, where, seconds, [children …]]``, children with most seconds first.

    ``where`` of a frame is that of what ran in it; of one with several kinds below, the largest."""
    root: dict[str, Any] = _node("all")
    for stack in stacks_of(profile):
        node = root
        _count(node, stack.where, stack.seconds)
        for frame in stack.frames[:_DEEPEST]:
            node = node["below"].setdefault(frame, _node(frame))
            _count(node, stack.where, stack.seconds)
    return _shape(root, SMALLEST * root["seconds"])


def _node(name: str) -> dict[str, Any]:
    return {"name": name, "seconds": 0.0, "kinds": {}, "below": {}}


def _count(node: dict[str, Any], where: str, seconds: float) -> None:
    node["seconds"] += seconds
    node["kinds"][where] = node["kinds"].get(where, 0.0) + seconds


def _shape(node: dict[str, Any], smallest: float) -> list[Any]:
    large = [child for child in node["below"].values() if child["seconds"] >= smallest > 0]
    large.sort(key=lambda child: (-child["seconds"], child["name"]))
    kinds = node["kinds"]
    where = max(kinds, key=lambda kind: (kinds[kind], kind)) if kinds else ""
    below = [_shape(child, smallest) for child in large]
    return [node["name"], where, round(node["seconds"], 6), below]
