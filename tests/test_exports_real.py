# SPDX-License-Identifier: MIT
"""Exports held against the programs that they are for."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from needed import found, need
from site_runs import measured

from kdyno.report.evidence import Evidence
from kdyno.report.exporters import exporter

pytestmark = pytest.mark.tools


@pytest.fixture(scope="module")
def evidence(tmp_path_factory: pytest.TempPathFactory) -> Evidence:
    return measured(tmp_path_factory.mktemp("runs"))


def said(words: Sequence[str | Path]) -> str:
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    return done.stdout


def program(name: str) -> str:
    need(name)
    return str(found(name))


def test_benchstat_reads_and_agrees(evidence: Evidence, tmp_path: Path) -> None:
    benchstat = program("benchstat")
    file = tmp_path / "demo.bench"
    file.write_text(str(exporter("benchstat").export(evidence)))
    text = said([benchstat, "-format", "csv", "-col", "variant", file])
    rows = {
        line.split(",")[0]: line.split(",") for line in text.splitlines() if re.match(r"\w+/", line)
    }
    assert set(rows) == {
        *(f"Unixbench/case={number}" for number in range(5)),
        *(f"Fio/case={number}" for number in range(3)),
        "Unixbench/whetstone-double",
    }
    heads = text.splitlines()[1].split(",")
    assert [head for head in heads if head] == list(evidence.variants)
    # Its figures are medians too; it compares unpaired, so only the size is held against ours.
    for it in evidence.verdict.effects:
        if it.variant != "mine" or it.control:
            continue
        row = rows[f"{it.suite.capitalize()}/{it.case.replace('-', '=')}"]
        column = heads.index("mine")
        assert float(row[1]) == pytest.approx(it.baseline_value, rel=1e-3)
        assert it.ratio is not None
        told = float(row[column + 2].removesuffix("%"))
        assert told == pytest.approx(100.0 * (it.ratio - 1.0), abs=0.3)
