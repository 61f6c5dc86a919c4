# SPDX-License-Identifier: MIT
"""A run that compares nothing, and long runs, in the formats that carry them."""

from __future__ import annotations

import csv
import io
from xml.etree import ElementTree as xml

from command_line import SLOWER, UNDECIDED, effect, verdict
from test_report_gate import level

from kdyno.report import exporters
from kdyno.report.evidence import Evidence
from kdyno.report.sentence import worded
from kdyno.report.terminal import text
from kdyno.store.manifest import Manifest
from kdyno.store.verdict import CaseValue, FactorTable, Flag, Verdict

FIGURE = CaseValue(
    suite="sysbench",
    case="cpu",
    unit="events/s",
    better="higher",
    value=1234.5,
    ci=(1200.0, 1300.0),
    repetitions=9,
)
NONE = CaseValue(
    suite="hackbench",
    case="groups|1",
    unit="s",
    better="lower",
    value=None,
    repetitions=0,
    reason="skip: hackbench is missing",
)
HOST = Verdict(
    experiment="host",
    baseline="running",
    boots={"running": 1},
    values=(FIGURE, NONE),
    answer="Two cases.",
)


def test_values_in_markdown() -> None:
    text = exporters.markdown(HOST)
    assert "| sysbench/cpu | 1234 events/s | 1200 … 1300 | 9 |" in text
    assert "hackbench/groups\\|1 (lower is better) | no figure: skip: hackbench is missing" in text


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
    for form in ("markdown", "html"):
        content = str(exporters.exporter(form).export(HOST))
        assert "paired within blocks" not in content and "do not matter" not in content


def test_a_remark_says_what_it_is_about() -> None:
    flag = Flag(kind="tail", text="by summed times", variant="mine", suite="u", case="a*b")
    judged = verdict(SLOWER, flags=(flag,))
    assert "- tail: u/a\\*b in mine: by summed times" in exporters.markdown(judged)
    assert 'value="tail: u/a*b in mine: by summed times"' in exporters.junit(judged)


def test_what_a_variant_that_failed_gave_before_is_not_called_no_figure() -> None:
    late = effect("pipe", "failed", 0.8, reason="panic")
    never = SLOWER.model_copy(update={"verdict": "failed", "ratio": None, "reason": "panic"})
    content = text(verdict(late, never, failed={"mine": "panic"}), 100)
    assert "no figure  unixbench/syscall in mine: panic" in content
    assert "unixbench/pipe in mine" not in content


def test_values_in_csv() -> None:
    first, second = csv.DictReader(io.StringIO(exporters.csv(Evidence(HOST))))
    assert (first["case"], first["value"], first["value_low"]) == ("cpu", "1234.5", "1200.0")
    assert (first["verdict"], first["blocks"]) == ("", "9")
    assert (second["value"], second["reason"]) == ("", "skip: hackbench is missing")


def test_values_in_junit() -> None:
    root = xml.fromstring(exporters.junit(HOST))
    assert (root.get("tests"), root.get("errors"), root.get("failures")) == ("2", "1", "0")


def test_factors_in_junit_follow_the_gate() -> None:
    def row(word: str, factor: str = "smp", kind: str = "main", at: str | None = None) -> object:
        return level(word, kind, factor, suite="s", case="c", other=at and "jobs", at=at)

    rows = (
        row("slower"),
        row("slower", kind="conditional", at="4"),
        row("slower", kind="interaction", at="4"),
        row("inconclusive"),
        row("slower", "jobs"),
        row("faster"),
    )
    table = FactorTable(
        factors={"smp": ("off", "on"), "jobs": ("1", "4")}, of_cases=("jobs",), effects=rows
    )
    root = xml.fromstring(exporters.junit(verdict(effect("c", "faster", 1.1), factors=table)))
    suite = next(each for each in root if each.get("name") == "factors")
    assert [suite.get(key) for key in ("tests", "failures", "skipped")] == ["4", "2", "1"]
    assert suite[1].get("name") == "smp on at jobs 4 in s/c"
    assert (root.get("tests"), root.get("failures")) == ("5", "2")


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


def test_a_long_summary_without_a_change_says_so() -> None:
    many = [effect(f"case-{number}", "equivalent", 1.0) for number in range(20)]
    assert "\n\nNothing is faster or slower by more than" in exporters.markdown(verdict(*many))
    tiny = effect("tiny", "slower", 0.999, equivalent_too=True)
    content = exporters.markdown(verdict(*many, tiny, UNDECIDED))
    assert "Nothing was found faster or slower by more than does not matter; 1 of 22" in content
