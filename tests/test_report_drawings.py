# SPDX-License-Identifier: MIT
"""What the chart of effects plots, and the table of load."""

from __future__ import annotations

import dataclasses
import re

import pytest
from command_line import effect, verdict
from hypothesis import given, strategies as st
from on_screen import text
from site_runs import measured
from synthetic_run import DEMO

from kdyno.report.charts.panels import effects_panel
from kdyno.report.effects import limit
from kdyno.report.evidence import Evidence
from kdyno.report.groups import groups
from kdyno.report.page import load_section, looks
from kdyno.store.verdict import Interval


@pytest.fixture(scope="module")
def evidence(tmp_path_factory: pytest.TempPathFactory) -> Evidence:
    shape = dataclasses.replace(DEMO, blocks=8, variants={"mine": 1.03})
    return measured(tmp_path_factory.mktemp("runs"), shape)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "tasks", "cells"),
    [
        ("100:4:100 200:1:50 300:1:50 400:4:100", 4.0, ["4", "2.5", "50.0 %", "75 %"]),
        ("100:4:100", None, ["", "4.0", "", "100 %"]),
        ("a:b:c 1:2 -1:2:3 ١:٢:٣", 4.0, None),
    ],
)
def test_load_says_how_often_it_sagged(
    evidence: Evidence, text: str, tasks: float | None, cells: list[str] | None
) -> None:
    points = {
        key: tuple(dataclasses.replace(point, load=text, tasks=tasks) for point in of_key)
        for key, of_key in evidence.points.items()
        if key[1] == "case-0"
    }
    html = load_section(dataclasses.replace(evidence, points=points))
    if cells is None:
        assert html is None
        return
    assert html is not None and html.count('<th scope="row"') == len(points)
    rows = re.findall(r"<td[^>]*>(.*?)</td>", html)
    assert rows[1:5] == cells


@given(st.text())
def test_looks_take_any_text(text: str) -> None:
    for runnable, busy in looks(text):
        assert runnable >= 0 and busy >= 0


@pytest.mark.parametrize(
    ("ci", "ends"), [((0.8, 1.3), (-9.9, 9.9)), ((0.98, 1.3), (None, 9.9)), ((0.99, 1.03), None)]
)
def test_an_interval_that_goes_beyond_the_axis_has_a_mark_at_its_end(
    ci: Interval, ends: tuple[float | None, float | None] | None
) -> None:
    others = [effect(f"other{at}", "slower", 1.0, ci=(0.98, 1.02)) for at in range(20)]
    judged = verdict(effect("wild", "inconclusive", 1.01, ci=ci), *others)
    panel = effects_panel(judged, *groups(judged))
    assert panel is not None
    (row,) = (row for row in panel.spec["vconcat"][0]["data"]["values"] if "wild" in row["row"])
    assert (row.get("cut_low"), row.get("cut_high")) == pytest.approx(ends or (None, None))


@pytest.mark.parametrize(
    ("equivalent", "end"),
    [(0.01, "1.5 %"), (0.001, "0.15 %"), (0.0001, "0.015 %"), (0.002, "0.3 %")],
)
def test_the_axis_of_a_terminal_ends_where_it_says(equivalent: float, end: str) -> None:
    judged = verdict(
        effect("pipe", "equivalent", 1.0, ci=(0.99999, 1.00001)), equivalent=equivalent
    )
    assert f"+{end}" in text(judged, 120)


@pytest.mark.parametrize(
    ("ratio", "ci", "line", "place", "words"),
    [
        # Wholly beyond the axis of ±10 %: the arrow, and no stub beside it.
        (0.6, (0.55, 0.66), None, ("beside", -9.4), "−45.0 … −34.0 %"),
        (1.5, (1.097, 1.7), None, ("beside", 9.4), "+9.7 … +70.0 %"),
        # From within the axis to the arrow; in words before it, or above it where that is long.
        (1.5, (1.07, 1.7), (7.0, 9.4), ("beside", 7.0), "+7.0 … +70.0 %"),
        (0.6, (0.5, 1.002), (-9.4, 0.2), ("above", -9.4), "−50.0 … +0.2 %"),
        (1.5, None, None, ("beside", 9.4), ""),
    ],
)
def test_what_lies_beyond_the_axis_is_an_arrow_and_words(
    ratio: float, ci: Interval, line: Interval, place: tuple[str, float], words: str
) -> None:
    others = [effect(f"other{at}", "slower", 1.0, ci=(0.98, 1.02)) for at in range(20)]
    judged = verdict(effect("far", "slower", ratio, ci=ci), *others)
    (group,) = groups(judged)
    panel = effects_panel(judged, group)
    assert panel is not None and limit(judged) == pytest.approx(0.1)
    spec = panel.spec["vconcat"][0]
    (row,) = (row for row in spec["data"]["values"] if row["row"].endswith(" far"))
    assert (row["low"], row["high"]) == pytest.approx(line) if line else "low" not in row
    key, at = place
    assert row[key] == words and row["text_at"] == pytest.approx(at)
    assert row["at_right"] == f"{100 * (ratio - 1):+.1f} % slower".replace("-", "−")
    assert {"beside", "above"} & row.keys() == {key}
