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
from kdyno.report.charts.panels import effects_panel, limit, looks
from kdyno.report.evidence import Evidence
from kdyno.report.groups import groups
from kdyno.report.page import load_section
from kdyno.store.verdict import Effect, Verdict

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


@pytest.mark.parametrize("width_px", [900, 420])
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
    width_px: int,
    ratio: float,
    ci: tuple[float, float] | None,
    line: tuple[float, float] | None,
    place: tuple[str, float],
    words: str,
) -> None:
    def one(case: str, ratio: float, ci: tuple[float, float] | None) -> Effect:
        figures = {"unit": "loops/s", "better": "higher", "baseline_value": 1.0, "value": 1.0}
        about = {"suite": "unixbench", "case": case, "variant": "mine", "ratio": ratio, "ci": ci}
        return Effect.model_validate({**about, **figures, "blocks": 9, "verdict": "slower"})

    others = [one(f"other{at}", 1.0, (0.98, 1.02)) for at in range(20)]
    verdict = Verdict(
        experiment="x", baseline="stock", boots={}, effects=(one("far", ratio, ci), *others)
    )
    (group,) = groups(verdict)
    panel = effects_panel(verdict, group)
    assert panel is not None and limit(verdict) == pytest.approx(0.1)
    spec = panel.draw(width_px)["vconcat"][0]
    (row,) = (row for row in spec["data"]["values"] if row["row"].endswith(" far"))
    assert (row["low"], row["high"]) == pytest.approx(line) if line else "low" not in row
    key, at = place
    figure = f"{100 * (ratio - 1):+.1f} % slower".replace("-", "−")
    text = words if width_px == 900 else f"{figure}, {words}" if words else figure
    assert row[key] == text and row["text_at"] == pytest.approx(at)
    assert {"beside", "above"} & row.keys() == {key}
