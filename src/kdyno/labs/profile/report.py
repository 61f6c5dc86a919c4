# SPDX-License-Identifier: MIT
"""A profile in the report of its run: the section of the page, and stacks as folded text, which
flame graphs and viewers such as speedscope read."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from kdyno.errors import KdynoError, UsageError
from kdyno.labs.profile import tables
from kdyno.labs.profile.record import OUTSIDE, WHERES, Profile, Stack, stored_profiles
from kdyno.report import plain
from kdyno.report.evidence import Evidence
from kdyno.report.show.grid import Column, Grid
from kdyno.report.show.html import ENVIRONMENT, Html, data, element

ORDER = 60
ID = "profile"
TITLE = "Where the time goes"
TIP = (
    "Every kernel did the same work in boots of their own, so seconds of one can be taken from "
    "those of another."
)

_CHANGES, _ROWS_MOST = 12, 400


def section(evidence: Evidence) -> Html | None:
    if evidence.run is None or evidence.manifest is None:
        return None
    try:
        profiles = {
            key: profile for key, profile in stored_profiles(evidence.run).items() if profile.boots
        }
        changes = tables.differences(profiles, evidence.verdict.baseline)
    except KdynoError as problem:
        return element("<p>The profile cannot be shown: {}</p>", plain.sentence(str(problem)))
    if not profiles:
        return None
    trees = {
        plain.name(key): flame_data(profile) for key, profile in profiles.items() if profile.stacks
    }
    items = [row for profile in profiles.values() for row in tables.rows(profile)[:_ROWS_MOST]]
    columns = [Column("kernel", lambda row: row.variant, "name"), *tables.FUNCTIONS]
    facets = ("kernel", "where")
    template = Path(__file__).with_name("section.html").read_text(encoding="utf-8")
    content = ENVIRONMENT.from_string(template).render(
        headlines=_list(map(tables.headline, profiles.values())),
        changes=[(of, tables.change_grid(of, _CHANGES), tables.unexplained(of)) for of in changes],
        functions=Grid(columns, items, "Seconds per function", id="profile-table", facets=facets),
        kernels=list(trees),
        trees=data(trees, "flame-data"),
        remarks=_list(tables.notes(profiles)),
    )
    return Html(content)


def _list(lines: Iterable[str]) -> Html | None:
    items = Html().join(element("<li>{}</li>", line) for line in lines)
    return element("<ul>{}</ul>", items) if items else None


NAME = "folded"
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
    return tuple(
        Stack(where, (WHERES[where], function), profile.mean_s(where, function))
        for where, function in profile.names
    )


def folded(profiles: Mapping[str, Profile]) -> str:
    """``frame;frame;frame count`` a line, outermost first, counted in microseconds per boot.

    The variant is the outermost frame, with the method, and that the sandbox was not there."""
    stacks = []
    for name, profile in profiles.items():
        outside = ", without the sandbox" if OUTSIDE in profile.notes else ""
        head = f"{name} ({profile.method}{outside})"
        stacks += [((head, *each.frames), each.seconds * 1e6) for each in stacks_of(profile)]
    return fold(stacks)


def fold(stacks: Iterable[tuple[Sequence[str], float]]) -> str:
    """The text of (frames, count), the count as a whole number."""
    # Semicolons part frames and the last blank begins the count.
    lines = sorted(
        ";".join(" ".join(plain.name(each).replace(";", ":").split()) or "?" for each in frames)
        + f" {round(count)}\n"
        for frames, count in stacks
        if round(count)
    )
    return "".join(lines)


SMALLEST = 0.0005
"""Share of the whole below which a frame would be no wider than a hair."""
_DEEPEST = 64


def flame_data(profile: Profile) -> list[Any]:
    """``[name, where, seconds, [children …]]``, children with most seconds first.

    ``where`` of a frame is that of what ran in it; of one with several kinds below, the largest."""
    stacks = stacks_of(profile)
    return _frame("all", stacks, 0, SMALLEST * sum(stack.seconds for stack in stacks))


def _frame(name: str, stacks: Sequence[Stack], depth: int, smallest: float) -> list[Any]:
    """A frame that all these stacks have, and those that stand below it there."""
    kinds: defaultdict[str, float] = defaultdict(float)
    below: defaultdict[str, list[Stack]] = defaultdict(list)
    for stack in stacks:
        kinds[stack.where] += stack.seconds
        if depth < min(len(stack.frames), _DEEPEST):
            below[stack.frames[depth]].append(stack)
    seconds = {frame: sum(stack.seconds for stack in own) for frame, own in below.items()}
    large = [frame for frame in below if seconds[frame] >= smallest > 0]
    large.sort(key=lambda frame: (-seconds[frame], frame))
    where = max(kinds, key=lambda kind: (kinds[kind], kind), default="")
    whole = round(sum(stack.seconds for stack in stacks), 6)
    return [name, where, whole, [_frame(each, below[each], depth + 1, smallest) for each in large]]
