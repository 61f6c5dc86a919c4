# SPDX-License-Identifier: MIT
"""What other programs read: the formats' own rules, and figures that come through unchanged."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as xml

import pytest
from needed import path_of
from site_runs import evidence_of, measured
from synthetic_run import DEMO, make
from test_report_golden import VERDICTS

from kdyno import labs
from kdyno.errors import ToolError
from kdyno.report import gate
from kdyno.report.evidence import Evidence
from kdyno.report.exporters import exporter, exporter_for, exporters


@pytest.fixture(scope="module")
def evidence(tmp_path_factory: pytest.TempPathFactory) -> Evidence:
    return measured(tmp_path_factory.mktemp("runs"))


@pytest.mark.slow
def test_evidence_is_what_the_store_has(evidence: Evidence) -> None:
    assert evidence.variants == ("stock", "mine", "other", "nothing", "stock-again")
    assert len(evidence.boots) == 24 * 5
    assert [boot.position for boot in evidence.boots] == list(range(120))
    lost = evidence.boots[17]
    assert not lost.ok
    for variant in DEMO.variants:
        assert len(evidence.points["fio", "case-0", variant]) == 24 - (variant == lost.variant)
    assert any(boot.disturbed == ("neighbour",) for boot in evidence.boots)
    assert evidence.commands["mine"][0] == "bwrap"
    assert evidence.builds["mine"]["version"] == "7.3.4"
    assert [each.suite for each in evidence.cases] == ["unixbench"] * 6 + ["fio"] * 3


@pytest.mark.slow
def test_a_damaged_boot_is_told_and_left_out(tmp_path: Path) -> None:
    run = make(tmp_path, replace(DEMO, blocks=7, failed=()))
    boots = sorted((run.path / "boots").iterdir())
    (boots[3] / "samples.jsonl").write_text("{")
    (run.path / "images" / "mine.json").write_text("[]")
    result = evidence_of(run)
    assert [each.name for each in result.samples.damaged] == [boots[3].name]
    assert len(result.boots) == 7 * 5 - 1
    assert "damaged" in result.builds["mine"]["unreadable"]


@pytest.mark.parametrize("name", VERDICTS)
def test_junit_fails_where_the_gate_does(name: str) -> None:
    verdict = VERDICTS[name]
    content = str(exporter("junit").export(Evidence(verdict)))
    root = xml.fromstring(content.encode("utf-8", "replace"))
    status = gate.exit_status(verdict, ["slower"])
    assert (int(root.get("failures", "0")) > 0) == (status == gate.SLOWER)
    if status == gate.FAILED and name != "itself":  # of which nothing is watched
        assert int(root.get("errors", "0")) > 0


@pytest.mark.slow
def test_parquet_has_every_score(evidence: Evidence) -> None:
    import io

    from pyarrow import parquet

    data = exporter("parquet").export(evidence)
    table = parquet.read_table(io.BytesIO(data))
    assert table.num_rows == sum(map(len, evidence.points.values()))
    row = table.slice(0, 1).to_pylist()[0]
    point = evidence.points["unixbench", "case-0", "stock"][0]
    assert row["score"] == point.score and row["boot"] == point.boot.index
    assert (row["variant"], row["unit"], row["control"]) == ("stock", "loops/s", False)
    assert table.schema.metadata[b"baseline"] == b"stock"


@pytest.mark.slow
def test_parquet_without_pyarrow_says_what_to_do(
    evidence: Evidence, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ToolError, match=r"pip install kdyno\[parquet\]"):
        exporter("parquet").export(evidence)


@pytest.mark.slow
def test_charts_as_files(evidence: Evidence) -> None:
    drawing = str(exporter("svg").export(evidence))
    root = xml.fromstring(drawing)
    assert root.get("role") == "img" and "mine is faster" in root.get("aria-label", "")
    assert "var(--" not in drawing and "href" not in drawing
    for variant in ("mine ÷ stock", "stock-again ÷ stock"):
        assert variant in drawing
    picture = exporter("png").export(evidence)
    assert isinstance(picture, bytes) and picture.startswith(b"\x89PNG\r\n")
    # Twice the drawing's pixels, in the header's first field.
    assert int.from_bytes(picture[16:20], "big") == round(2 * float(root.get("width", "")))


def test_nothing_measured_still_exports() -> None:
    question = {"question": "Is var(--word) a colour?"}
    empty = Evidence(VERDICTS["baseline-failed"].model_copy(update=question))
    for name, each in exporters(labs.reports()).items():
        # A verdict alone has no profile to fold.
        assert each.export(empty) or name == "folded", name
    drawing = str(exporter("svg").export(empty))
    assert "nothing was measured" in drawing and "Is var(--word) a colour?" in drawing


def test_a_file_name_says_the_format() -> None:
    names = {"report.html": "html", "x.MD": "markdown", "x.json": "json"}
    names |= {"junit.xml": "junit", "x.bench": "benchstat"}
    assert {file: exporter_for(file).name for file in names} == names
    suffixes = [each.suffix for each in exporters(labs.reports()).values()]
    assert len(suffixes) == len(set(suffixes))


@pytest.mark.slow
@pytest.mark.tools
@pytest.mark.needs("benchstat")
def test_benchstat_reads_and_agrees(evidence: Evidence, tmp_path: Path) -> None:
    file = tmp_path / "demo.bench"
    file.write_text(str(exporter("benchstat").export(evidence)))
    words = [str(path_of("benchstat")), "-format", "csv", "-col", "variant", file]
    done = subprocess.run(words, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    lines = [line.split(",") for line in done.stdout.splitlines()]
    rows = {line[0]: line for line in lines if re.match(r"\w+/", line[0])}
    assert set(rows) == {
        *(f"Unixbench/case={number}" for number in range(5)),
        *(f"Fio/case={number}" for number in range(3)),
        "Unixbench/whetstone-double",
    }
    assert [head for head in lines[1] if head] == list(evidence.variants)
    # Its figures are medians too; it compares unpaired, so only the size is held against ours.
    for effect in evidence.verdict.effects:
        if effect.variant != "mine" or effect.control:
            continue
        row = rows[f"{effect.suite.capitalize()}/{effect.case.replace('-', '=')}"]
        column = lines[1].index("mine")
        assert float(row[1]) == pytest.approx(effect.baseline_value, rel=1e-3)
        message = float(row[column + 2].removesuffix("%"))
        assert message == pytest.approx(100.0 * (effect.ratio - 1.0), abs=0.3)
