# SPDX-License-Identifier: MIT
"""The picture of a group's rounds, and the two levels of spread, in the report."""

from __future__ import annotations

import math
from array import array
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from site_runs import evidence_of, measured
from synthetic_run import DEMO, case, make

from kdyno.report import drawings
from kdyno.report.charts.panels import COLOURS, Turns, turns
from kdyno.report.evidence import Evidence
from kdyno.report.page import rounds_section, spread_section
from kdyno.store.manifest import Manifest
from kdyno.store.samples import Samples
from kdyno.store.verdict import Verdict

CALM = [0.0] * 8
RESTLESS = [0.0] * 5 + [math.log(0.5)] * 3
"""The machine in eight rounds, log scale."""


def of_rounds(groups: dict[str, list[list[float]]], variants: dict[str, float]) -> Evidence:
    """case → the machine in each of its groups; variant → its speed ÷ the baseline's."""
    cases = tuple(case(int(name[-1])) for name in groups)
    found = {
        ("unixbench", name, variant): {
            block: array("d", (math.log(speed) + log for log in logs))
            for block, logs in enumerate(of_case)
        }
        for name, of_case in groups.items()
        for variant, speed in {"stock": 1.0, **variants}.items()
    }
    manifest = Manifest.model_construct(cases=cases)
    boots = dict.fromkeys(("stock", *variants), 2)
    verdict = Verdict(experiment="x", baseline="stock", boots=boots, effects=())
    return Evidence(verdict, manifest, samples=Samples(rounds=found, blocks=2))


def drawn_turns(evidence: Evidence) -> Turns:
    found = turns(evidence)
    assert found is not None
    return found


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Evidence:
    return measured(
        tmp_path_factory.mktemp("runs"), replace(DEMO, rounds=40, blocks=8, variants={"mine": 1.03})
    )


def test_the_most_restless_group_is_shown() -> None:
    found = drawn_turns(
        of_rounds({"case-0": [CALM, CALM], "case-1": [CALM, RESTLESS]}, {"mine": 1.02})
    )
    assert (found.case.case, found.block) == ("case-1", 1)
    assert found.machine == pytest.approx(RESTLESS)
    # Against the median of all rounds of both kernels: here, the baseline's while all was calm.
    assert found.speeds["stock"] == pytest.approx(RESTLESS)
    assert found.speeds["mine"] == pytest.approx(np.array(RESTLESS) + math.log(1.02))
    assert found.ratios["mine"] == pytest.approx([math.log(1.02)] * 8)
    assert found.panel.text == (
        "case-1 · group 2: 8 rounds. What all kernels had in common, the machine’s own speed, went "
        "from −50.0 % to 0.00 % in nine rounds of ten. mine ÷ stock: +2.00 %, its rounds from "
        "+2.00 % to +2.00 %."
    )


def test_a_ratio_of_times_goes_down_where_the_speed_goes_up() -> None:
    found = drawn_turns(of_rounds({"case-2": [RESTLESS]}, {"mine": 1.25}))
    assert found.case.better == "lower"
    assert found.speeds["mine"][0] - found.speeds["stock"][0] == pytest.approx(math.log(1.25))
    assert "mine ÷ stock: −20.0 %" in found.panel.text


def test_as_many_kernels_as_there_are_colours() -> None:
    variants = {f"v{number}": 1.0 + number / 100 for number in range(9)}
    found = drawn_turns(of_rounds({"case-0": [RESTLESS]}, variants))
    assert list(found.speeds) == ["stock", "v0", "v1", "v2", "v3", "v4"]
    assert len(found.ratios) == len(COLOURS) == 5


def test_both_panels_have_one_scale() -> None:
    found = drawn_turns(of_rounds({"case-0": [RESTLESS]}, {"mine": 1.02}))
    panels = found.chart(900)["vconcat"]
    domains = [panel["encoding"]["y"]["scale"]["domain"] for panel in panels]
    spans = [high - low for low, high in domains]
    assert spans[0] == pytest.approx(spans[1]) and spans[0] > 50
    assert domains[1][0] < 2.0 < domains[1][1]
    value = panels[1]["layer"][1]["data"]["values"]
    assert value == [{"percent": 2.0, "name": "mine"}]
    assert len(panels[0]["data"]["values"]) == 16


def test_one_wild_round_does_not_squeeze_the_others() -> None:
    rows = [0.01 * (-1) ** number for number in range(40)]
    found = drawn_turns(of_rounds({"case-0": [[*rows, math.log(0.1)]]}, {"mine": 1.02}))
    low, high = found.chart(900)["vconcat"][0]["encoding"]["y"]["scale"]["domain"]
    assert high - low < 10


@pytest.mark.slow
def test_whole_boots_have_no_rounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = make(tmp_path, replace(DEMO, blocks=6, failed=()), monkeypatch)
    whole = evidence_of(run)
    assert turns(whole) is None and rounds_section(whole) is None
    html = spread_section(whole)
    assert html is not None and "turns-table" not in html
    few = of_rounds({"case-0": [[0.0] * 3]}, {"mine": 1.0})
    assert turns(few) is None
    assert turns(of_rounds({"case-0": [RESTLESS]}, {})) is None


@pytest.mark.slow
def test_the_section_from_a_run_on_disk(demo: Evidence) -> None:
    found = drawn_turns(demo)
    assert (found.case.case, found.block, len(found.machine)) == ("case-1", 2, 40)
    assert list(found.speeds) == ["stock", "mine", "stock-again"]
    assert found.restless == pytest.approx(0.7, abs=0.03)
    html = rounds_section(demo)
    assert html is not None and html.count("<svg") == 2
    assert "case-1 · group 3" in html and ">stock-again<" in html and "style=" not in html
    svg = drawings.picture("rounds", demo, "svg")
    assert isinstance(svg, str) and "var(--" not in svg and "case-1" in svg
