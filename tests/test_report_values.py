# SPDX-License-Identifier: MIT
"""Figures in the formats that carry them: of a run that compares nothing, of long runs, beside an
effect, and of verdicts that no run ever made."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as xml

import pytest
from command_line import FASTER, SLOWER, UNDECIDED, Kdyno, effect, stored, verdict
from on_screen import text
from site_runs import evidence_of
from synthetic_run import DEMO, make
from test_html import Page
from test_report_gate import crossed, level
from test_report_sentence import one

from kdyno import labs
from kdyno.machines.host import CAVEAT
from kdyno.report import exporters
from kdyno.report.evidence import Evidence
from kdyno.report.page import builds_section
from kdyno.report.scores import values_of
from kdyno.report.sentence import worded
from kdyno.store.manifest import Manifest
from kdyno.store.verdict import CaseValue, Flag, Verdict
from kdyno.suites.catalogue import load

FIGURE = CaseValue(
    suite="sysbench", case="cpu", unit="events/s", better="higher", value=1234.5,
    ci=(1200.0, 1300.0), repetitions=9,
)  # fmt: skip
NONE = CaseValue(
    suite="hackbench", case="groups|1", unit="s", better="lower", value=None, repetitions=0,
    reason="skip: hackbench is missing",
)  # fmt: skip
HOST = Verdict(
    experiment="host", baseline="running", boots={"running": 1}, values=(FIGURE, NONE),
    answer="Two cases.",
)  # fmt: skip


@pytest.mark.slow
def test_values_in_every_format() -> None:
    content = exporters.markdown(HOST)
    assert "| sysbench/cpu | 1234 events/s | 1200 … 1300 | 9 |" in content
    assert "groups\\|1 (lower is better) | no figure: skip: hackbench is missing" in content
    first, second = csv.DictReader(io.StringIO(exporters.csv(Evidence(HOST))))
    assert (first["case"], first["value"], first["value_low"]) == ("cpu", "1234.5", "1200.0")
    assert (first["verdict"], first["blocks"]) == ("", "9")
    assert (second["value"], second["reason"]) == ("", "skip: hackbench is missing")
    root = xml.fromstring(exporters.junit(HOST))
    assert (root.get("tests"), root.get("errors"), root.get("failures")) == ("2", "1", "0")
    drawing = str(exporters.exporter("svg").export(Evidence(HOST)))
    assert "nothing was compared" in drawing and "nothing was measured" not in drawing


def test_a_kernel_that_was_booted_alone_is_not_the_one_that_runs_here() -> None:
    about = {"tool": "0", "created": "2026-01-01T00:00:00", "experiment": "x", "seed": 1}
    about |= {"baseline": "stock", "host": {"host_kernel": "6.1"}}
    for machine, kernel, boots in (
        ("uml", "The kernel stock", "9 boots"),
        ("host", "The running kernel 6.1", "9 repetitions"),
    ):
        manifest = Manifest.model_validate(about | {"machine": {"kind": machine}})
        words = worded(HOST.model_copy(update={"baseline": "stock"}), manifest).answer
        assert words.startswith(f"{kernel}: 1 case of 2 measured, {boots} at most; nothing is")
    for flags, noun in (((), "boot"), ((CAVEAT,), "repetition")):
        judged = HOST.model_copy(update={"flags": flags})
        markdown, html = (
            str(exporters.exporter(form).export(Evidence(judged))) for form in ("markdown", "html")
        )
        for content in (markdown, html):
            assert "paired within blocks" not in content and "do not matter" not in content
        assert f"{noun.title()}s: running 1." in markdown
        assert f"1 {noun} of each of 1 kernel " in html


def test_a_remark_says_what_it_is_about() -> None:
    flag = Flag(kind="tail", text="by summed times", variant="mine", suite="u", case="a*b")
    judged = verdict(SLOWER, flags=(flag,))
    assert "- tail: u/a\\*b in mine: by summed times" in exporters.markdown(judged)
    assert 'value="tail: u/a*b in mine: by summed times"' in exporters.junit(judged)


def test_what_a_variant_that_failed_gave_before_is_not_called_no_figure() -> None:
    late = effect("pipe", "failed", 0.8, reason="panic")
    never = SLOWER.model_copy(update={"verdict": "failed", "ratio": None, "reason": "panic"})
    judged = verdict(late, never, failed={"mine": "panic"})
    content = text(judged, 100)
    assert "no figure  unixbench/syscall in mine: panic" in content
    assert "unixbench/pipe in mine" not in content
    assert len(exporters.csv(Evidence(judged)).splitlines()) == 3  # none for the variant itself


def test_factors_in_junit_follow_the_gate() -> None:
    rows = (
        level("slower"),
        level("slower", "conditional", other="jobs", at="4"),
        level("slower", "interaction", other="jobs", at="4"),
        level("inconclusive"),
        level("slower", factor="jobs"),
        level("faster"),
    )
    judged = verdict(effect("c", "faster", 1.1), factors=crossed(*rows))
    root = xml.fromstring(exporters.junit(judged))
    suite = next(each for each in root if each.get("name") == "factors")
    assert [suite.get(key) for key in ("tests", "failures", "skipped")] == ["4", "2", "1"]
    assert suite[1].get("name") == "smp on at jobs 4 in kernel-compile/whole"
    assert (root.get("tests"), root.get("failures")) == ("5", "2")
    none = effect("c", "failed", 1.0).model_copy(update={"ratio": None, "ci": None, "value": None})
    extra = [none.model_copy(update=why) for why in ({"variant": "copy"}, {"control": True})]
    judged = verdict(effect("c", "faster", 1.1), *extra, copy_of_baseline="copy")
    assert xml.fromstring(exporters.junit(judged)).get("errors") == "0"


def test_a_long_summary_says_what_changed_and_folds_the_rest() -> None:
    many = [effect(f"case-{number}", "equivalent", 1.0) for number in range(20)]
    moved = Flag(kind="control-moved", text="dhry2reg moved")
    quiet = Flag(kind="machine", text="measured under UML")
    text = exporters.markdown(verdict(*many, SLOWER, flags=(moved, quiet)))
    tables, folded = text.split("<details><summary>All 21 effects</summary>")
    assert "| unixbench/syscall | mine | −5.00 % | −5.20 … −4.80 % | **slower** |" in tables
    assert "case-7" not in tables and "case-7" in folded
    before, after = folded.split("<details><summary>Conditions and method</summary>")
    assert "control-moved" in before and "measured under UML" in after
    assert text.count("<details>") == text.count("</details>") == 2
    assert "\n\nNothing is faster or slower by more than" in exporters.markdown(verdict(*many))
    tiny = effect("tiny", "slower", 0.999, equivalent_too=True)
    content = exporters.markdown(verdict(*many, tiny, UNDECIDED))
    assert "Nothing was found faster or slower by more than does not matter; 1 of 22" in content
    # Not above a row that is: of a factor, a group, or the baseline's copy alone.
    group = {"suite": "unixbench", "group": "total", "variant": "mine", "ratio": 0.97}
    group |= {"ci": (0.96, 0.98), "blocks": 12, "verdict": "slower"}
    copies = [effect(f"case-{number}", "slower", 0.9, variant="copy") for number in range(9)]
    for judged in (
        verdict(*many, factors=crossed(level("slower"))),
        verdict(*many, groups=(group,)),
        verdict(*copies, copy_of_baseline="copy"),
    ):
        assert "Nothing" not in exporters.markdown(judged)


DRIFTED = one("pipe", 0.996, "slower", baseline_value=37.5, value=38.61, equivalent_too=True)
"""The medians by themselves are 2.96 % apart: the baseline's boots met another machine."""
WHOLE = verdict(DRIFTED, answer="")


def test_a_score_is_the_paired_value_or_else_the_median() -> None:
    """CSV and JSON have both: golden/recorded/tail.*"""
    suites = load()
    own = {"suite": "unixbench", "unit": suites["unixbench"].case("pipe").unit}
    here = verdict(DRIFTED.model_copy(update=own))
    assert values_of(here, suites)["mine"]["unixbench", "pipe"] == pytest.approx(37.35)
    # A count is no speed, whose index would be higher for a slower kernel.
    counted = own | {"unit": "instructions/operation", "better": "lower"}
    assert values_of(verdict(DRIFTED.model_copy(update=counted)), suites) == {"stock": {}}
    lone = DRIFTED.model_copy(update={"ratio": None})
    assert lone.paired_value is None and "38.61" in text(verdict(lone), 160)


def test_counts_more_or_less_are_those_of_the_effect() -> None:
    unit = {"unit": "instructions/operation", "better": "lower"}
    row = one("pipe", 1.01, "slower", baseline_value=1000.0, value=1200.0, **unit)
    assert "+10.000" in text(verdict(row), 160)


@pytest.mark.slow
@pytest.mark.parametrize("place", ["terminal", "html", "markdown", "csv", "junit", "json"])
def test_a_real_difference_that_is_too_small_keeps_its_word(place: str) -> None:
    """``slower``, with its mark: nowhere equivalent, nowhere a failure. The value is the baseline's
    times the effect, where there is no column of its own for that."""
    if place == "terminal":
        content = text(WHOLE, 160)
    else:
        content = str(exporters.exporter(place).export(Evidence(WHOLE)))
    if place not in ("csv", "json"):
        assert "37.5" in content and "37.35" in content and "38.6" not in content
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


@pytest.mark.slow
def test_a_run_that_ships_without_images_has_no_builds(tmp_path: Path) -> None:
    run = make(tmp_path, replace(DEMO, blocks=6))
    assert builds_section(evidence_of(run)) is not None
    shutil.rmtree(run.path / "images")
    assert builds_section(evidence_of(run)) is None


def test_help_names_every_format(kdyno: Kdyno, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    page = kdyno("report", "--help").out
    named = exporters.exporters(labs.reports())
    assert [name for name in named if not re.search(rf"\b{name}\b", page)] == []


FORMATS = ("html", "markdown", "csv", "junit", "json")
SHOWN = ((), ("--scoring", "unixbench"), *(("-f", each) for each in FORMATS))


def changed(run: Path, in_effects: dict[str, object], **values: object) -> None:
    """The run's verdict gets these values, and every effect in it."""
    file = run / "verdict.json"
    data = json.loads(file.read_text()) | values
    data["effects"] = [each | in_effects for each in data["effects"]]
    file.write_text(json.dumps(data))


@pytest.mark.slow
@pytest.mark.parametrize("words", SHOWN, ids=lambda words: words[-1] if words else "table")
@pytest.mark.parametrize(
    "values",
    [
        {"baseline_value": 0},
        {"value": 0, "baseline_value": -0.0},
        {"ratio": 1e308},
        {"ratio": 0},
        {"ratio": -3.0, "ci": [-4.0, 5e-324]},
        {"ci": [0.9, 1e308]},
        {"ci": [5e-324, 1e308], "ci_raw": [-1e308, 1e308]},
    ],
    ids=str,
)
def test_a_figure_that_is_none_is_absent(
    kdyno: Kdyno, tmp_path: Path, words: tuple[str, ...], values: dict[str, object]
) -> None:
    run = stored(tmp_path / "runs", verdict(FASTER, SLOWER))
    changed(run, values)
    output = kdyno("report", run.name, *words)
    assert (output.status, output.err) == (0, "")
    assert "pipe" in output.out


def test_what_is_absent_is_null(tmp_path: Path) -> None:
    run = stored(tmp_path, verdict(FASTER))
    changed(run, {"baseline_value": 0, "ratio": 1e308, "ci": [0.9, 1e308], "noise_floor": -1.0})
    odd = Verdict.from_json((run / "verdict.json").read_bytes()).effects[0]
    assert (odd.baseline_value, odd.ratio, odd.ci, odd.noise_floor) == (None,) * 4
    assert odd.value == 1050.0


@pytest.mark.parametrize("key", ["equivalent", "precision", "confidence"])
@pytest.mark.parametrize("value", [1e308, -1.0, float("nan")])
def test_a_margin_that_is_none(kdyno: Kdyno, tmp_path: Path, key: str, value: float) -> None:
    run = stored(tmp_path / "runs", verdict(FASTER))
    changed(run, {}, **{key: value})
    output = kdyno("report", run.name, "-f", "html")
    assert output.status == 2 and f"verdict.json: is not a verdict: {key}: " in output.err
