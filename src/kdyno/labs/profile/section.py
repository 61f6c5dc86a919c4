# SPDX-License-Identifier: MIT
"""Where the time goes: seconds per function at fixed work, differences, a flame graph."""

from __future__ import annotations

from collections.abc import Mapping

from kdyno.errors import KdynoError
from kdyno.labs.profile.export import flame_data
from kdyno.labs.profile.record import WHERES, Profile, stored_profiles
from kdyno.labs.profile.tables import (
    FUNCTIONS,
    Difference,
    change_grid,
    differences,
    headline,
    rows,
    unexplained,
)
from kdyno.report import plain
from kdyno.report.evidence import Evidence
from kdyno.report.show.grid import Column, Grid
from kdyno.report.show.html import Html, data, headed_table, join, short, table, tag

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
        changes = differences(profiles, evidence.verdict.baseline)
    except KdynoError as problem:
        return tag("p", f"The profile cannot be shown: {plain.sentence(str(problem))}")
    if not profiles:
        return None
    parts: list[Html | None] = [
        tag("ul", [tag("li", headline(profile)) for profile in profiles.values()])
    ]
    parts += [_difference(each) for each in changes]
    parts += [_functions(profiles), _flames(profiles)]
    notes = dict.fromkeys(note for profile in profiles.values() for note in profile.notes)
    if notes:
        parts.append(tag("ul", [tag("li", plain.sentence(note)) for note in notes]))
    return join(parts)


def _difference(difference: Difference) -> Html:
    """The largest changes with their intervals."""
    heading = tag("h3", short(difference.variant), " − ", short(difference.baseline))
    title = f"Seconds of {plain.short(difference.variant)} minus the baseline's"
    parts = [heading, headed_table(change_grid(difference, _CHANGES, title))]
    if text := unexplained(difference):
        parts.append(tag("p", f"{text}.", class_="legend"))
    return join(parts)


def _functions(profiles: Mapping[str, Profile]) -> Html:
    items = [row for profile in profiles.values() for row in rows(profile)[:_ROWS_MOST]]
    columns = [Column("kernel", lambda row: row.variant, "name"), *FUNCTIONS]
    facets = {
        "kernel": lambda row: plain.short(row.variant),
        "where": lambda row: WHERES[row.where],
    }
    grid = Grid(columns, items, "Seconds per function", id="profile-table", facets=facets)
    return tag("details", tag("summary", "Every function of every kernel"), table(grid))


def _flames(profiles: Mapping[str, Profile]) -> Html | None:
    trees = {
        plain.name(key): flame_data(profile) for key, profile in profiles.items() if profile.stacks
    }
    if not trees:
        return None
    note = (
        "Width is time, the callee stands below its caller. Click or press Enter to look into a "
        "frame; arrow keys move, Escape goes back out."
    )
    options = [tag("option", key, value=key) for key in trees]
    graph = tag(
        "div",
        tag("label", "Kernel ", tag("select", options), class_="flame-kernel"),
        tag("output", "", aria_live="polite"),
        tag("div", "", class_="flame-rows", role="tree", aria_label="Flame graph"),
        class_="flame",
    )
    heading = tag("h3", "Flame graph"), tag("p", note, class_="tip")
    return join([*heading, graph, data(trees, "flame-data")])
