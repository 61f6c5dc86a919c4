# SPDX-License-Identifier: MIT
"""Charts as pictures: one of each kind, what each holds, and what is refused."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from command_line import FASTER, Kdyno, kdyno, stored, verdict
from hypothesis import given
from hypothesis import strategies as st
from site_runs import measured
from synthetic_run import DEMO

from kdyno.errors import UsageError
from kdyno.report import drawings
from kdyno.report.charts.panels import looks
from kdyno.report.evidence import Evidence
from kdyno.report.page import load_section

__all__ = ["kdyno"]


@pytest.fixture(scope="module")
def evidence(tmp_path_factory: pytest.TempPathFactory) -> Evidence:
    return measured(
        tmp_path_factory.mktemp("runs"),
        dataclasses.replace(DEMO, blocks=8, variants={"mine": 1.03}),
    )


def loaded(evidence: Evidence, text: str, tasks: float | None) -> Evidence:
    """Every boot looked at by a load meter."""
    points = {
        key: tuple(dataclasses.replace(it, load=text, tasks=tasks) for it in found)
        for key, found in evidence.points.items()
        if key[1] == "case-0"
    }
    return dataclasses.replace(evidence, points=points)


@pytest.mark.slow
@pytest.mark.parametrize("chart", ["effects", "boots", "spread"])
def test_each_is_a_picture(evidence: Evidence, chart: str) -> None:
    svg = drawings.picture(chart, evidence, "svg")
    assert isinstance(svg, str) and svg.startswith("<svg ") and "var(--" not in svg
    assert "demo" in svg and "case-0" in svg


def test_a_chart_without_data_names_those_with_some(evidence: Evidence) -> None:
    with pytest.raises(UsageError, match=r"--chart load: .* it has effects, boots, spread$"):
        drawings.picture("load", evidence, "svg")


@pytest.mark.slow
def test_load_says_where_it_sagged(evidence: Evidence) -> None:
    busy = loaded(evidence, "100:4:100 200:1:50 300:1:50 400:4:100", 4.0)
    svg = drawings.picture("load", busy, "svg")
    assert isinstance(svg, str)
    assert "2.5 runnable tasks on average, CPU 75 % busy, 4 asked for" in svg
    assert "fewer than half of that for 50 % of the time" in svg
    html = load_section(busy)
    assert html is not None and html.count("<svg") == 2 * len(busy.points)
    unknown = drawings.picture("load", loaded(evidence, "100:4:100", None), "svg")
    assert isinstance(unknown, str) and "asked for" not in unknown


def test_load_of_nonsense_is_no_chart(evidence: Evidence) -> None:
    assert load_section(loaded(evidence, "a:b:c 1:2 -1:2:3 ١:٢:٣", 4.0)) is None


@given(st.text())
def test_looks_take_any_text(text: str) -> None:
    for look in looks(text):
        assert look.ms >= 0 and look.runnable >= 0


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--chart", "boot", "-o", "x.svg"), "did you mean boots?"),
        (("--chart", "boots"), "--chart goes with a picture: add -o boots.svg or -o boots.png"),
        (("--chart", "boots", "-o", "x.md"), "--chart goes with a picture"),
        (("--chart", "boots", "-o", "x.svg"), "has nothing of the kind to draw; it has effects"),
    ],
)
def test_refused(
    kdyno: Kdyno,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: tuple[str, ...],
    told: str,
) -> None:
    stored(tmp_path / "runs", verdict(FASTER))
    monkeypatch.chdir(tmp_path)
    said = kdyno("report", "last", *options)
    assert said.status == 2 and told in said.err


def test_the_picture_is_written(kdyno: Kdyno, tmp_path: Path) -> None:
    stored(tmp_path / "runs", verdict(FASTER))
    said = kdyno("report", "last", "--chart", "effects", "-o", tmp_path / "x.svg")
    assert said.status == 0 and (tmp_path / "x.svg").read_text().startswith("<svg ")
