# SPDX-License-Identifier: MIT
"""What stands beside an effect says the same as the effect, wherever it is shown."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from command_line import Kdyno
from site_runs import evidence_of
from synthetic_run import DEMO, make
from test_html import Page
from test_report_sentence import one

from kdyno import labs
from kdyno.report import gate
from kdyno.report.evidence import Evidence
from kdyno.report.exporters import exporters
from kdyno.report.page import builds_section
from kdyno.report.scores import values_of
from kdyno.report.sentence import answer
from kdyno.report.terminal import text
from kdyno.store.verdict import Verdict

DRIFTED = one("pipe", 0.996, "slower", baseline_value=37.5, value=38.61, equivalent_too=True)
"""The medians by themselves are 2.96 % apart: the baseline's boots met another machine."""
WHOLE = Verdict(
    experiment="x", baseline="stock", boots={"stock": 20, "mine": 20}, effects=(DRIFTED,)
)
RENDERED = {
    "terminal": text(WHOLE, 160),
    **{
        name: exporters()[name].export(Evidence(WHOLE))
        for name in ("html", "markdown", "csv", "junit", "json")
    },
}


@pytest.mark.parametrize("place", ["terminal", "html", "markdown", "junit"])
def test_the_value_is_the_baselines_times_the_effect(place: str) -> None:
    content = str(RENDERED[place])
    assert "37.5" in content and "37.35" in content and "38.6" not in content


def test_old_columns_stay_and_the_new_one_stands_beside_them() -> None:
    head, row = (line.split(",") for line in str(RENDERED["csv"]).splitlines())
    result = dict(zip(head, row, strict=True))
    assert (result["baseline_value"], result["value"]) == ("37.5", "38.61")
    assert float(result["paired_value"]) == pytest.approx(37.35)
    (effect,) = json.loads(RENDERED["json"])["effects"]
    assert (effect["baseline_value"], effect["value"]) == (37.5, 38.61)
    assert effect["paired_value"] == pytest.approx(37.35)
    assert Verdict.from_json(str(RENDERED["json"])) == WHOLE
    assert values_of(WHOLE)["mine"]["u", "pipe"] == pytest.approx(37.35)
    lone = DRIFTED.model_copy(update={"ratio": None})
    assert lone.paired_value is None and "38.61" in text(
        WHOLE.model_copy(update={"effects": (lone,)}), 160
    )


def test_counts_more_or_less_are_those_of_the_effect() -> None:
    unit = {"unit": "instructions/operation", "better": "lower"}
    row = one("pipe", 1.01, "slower", baseline_value=1000.0, value=1200.0, **unit)
    assert "+10.000" in text(WHOLE.model_copy(update={"effects": (row,)}), 160)


@pytest.mark.parametrize("place", RENDERED)
def test_a_real_difference_that_is_too_small_keeps_its_word(place: str) -> None:
    """``slower``, with its mark: nowhere equivalent, nowhere a failure."""
    content = str(RENDERED[place])
    if place == "html":
        assert "slower than stock by too little to matter" in Page(content).texts["p"]
    for title in ("Equivalent means", "equivalent_too", '"equivalent": 0.01'):
        content = content.replace(title, "")
    assert "slower" in content
    if place in ("terminal", "markdown", "junit", "json"):
        assert "equivalent" not in content
    if place in ("terminal", "junit"):
        assert "slower ≈" in content
    assert "<failure" not in content


def test_the_sentence_and_the_gate() -> None:
    assert answer(WHOLE) == (
        "mine is slower than stock by too little to matter (within ±1 %) in pipe (−0.40 %); "
        "20 boots of each."
    )
    assert gate.exit_status(WHOLE, ["slower"]) == 0


def test_a_run_that_ships_without_images_has_no_builds(tmp_path: Path) -> None:
    run = make(tmp_path, replace(DEMO, blocks=6))
    whole = evidence_of(run)
    shutil.rmtree(run.path / "images")
    evidence = evidence_of(run)
    assert builds_section(whole) is not None and builds_section(evidence) is None


def test_help_names_every_value(kdyno: Kdyno, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    helped = {verb: kdyno(verb, "--help").out for verb in ("report", "compare", "list", "doctor")}
    named = exporters(labs.formats())
    assert [name for name in named if not re.search(rf"\b{name}\b", helped["report"])] == []
    for name in ("markdown", "csv", "json", "junit", "html"):
        assert name in helped["compare"]
    for name in ("experiments", "cases", "routines", "schedulers", "fragments", "published"):
        assert name in helped["list"]
    assert re.search(r"Check the\s+machines", helped["doctor"])
