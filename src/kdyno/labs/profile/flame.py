# SPDX-License-Identifier: MIT
"""A profile's stacks as one tree of moderate size, for a flame graph."""

from __future__ import annotations

from typing import Any

from kdyno.labs.profile.record import Profile
from kdyno.labs.profile.stacks import stacks_of

SMALLEST = 0.0005
"""Share of the whole below which a frame would be no wider than a hair."""
_DEEPEST = 64


def flame_data(profile: Profile) -> list[Any]:
    """``[name, where, seconds, [children …]]``, children with most seconds first.

    ``where`` of a frame is that of what ran in it; of one with several kinds below, the largest.
    """
    root: dict[str, Any] = _node("all")
    for it in stacks_of(profile):
        node = root
        _count(node, it.where, it.seconds)
        for frame in it.frames[:_DEEPEST]:
            node = node["below"].setdefault(frame, _node(frame))
            _count(node, it.where, it.seconds)
    return _shape(root, SMALLEST * root["seconds"])


def _node(name: str) -> dict[str, Any]:
    return {"name": name, "seconds": 0.0, "kinds": {}, "below": {}}


def _count(node: dict[str, Any], where: str, seconds: float) -> None:
    node["seconds"] += seconds
    node["kinds"][where] = node["kinds"].get(where, 0.0) + seconds


def _shape(node: dict[str, Any], smallest: float) -> list[Any]:
    below = [
        _shape(it, smallest)
        for it in sorted(node["below"].values(), key=lambda it: (-it["seconds"], it["name"]))
        if it["seconds"] >= smallest and it["seconds"] > 0
    ]
    kinds = node["kinds"]
    where = max(kinds, key=lambda kind: (kinds[kind], kind)) if kinds else ""
    return [node["name"], where, round(node["seconds"], 6), below]
