# SPDX-License-Identifier: MIT
"""Verdicts that no run ever made: figures that are none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import FASTER, SLOWER, Kdyno, stored, verdict

from kdyno.store.verdict import Verdict

FORMATS = ("html", "markdown", "csv", "junit", "json")
SHOWN = ((), ("--scoring", "unixbench"), *(("-f", each) for each in FORMATS))


def changed(run: Path, **values: object) -> None:
    """Every effect of the run's verdict gets these."""
    file = run / "verdict.json"
    data = json.loads(file.read_text())
    for each in data["effects"]:
        each.update(values)
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
    changed(run, **values)
    output = kdyno("report", run.name, *words)
    assert (output.status, output.err) == (0, "")
    assert "pipe" in output.out


def test_what_is_absent_is_null(tmp_path: Path) -> None:
    run = stored(tmp_path, verdict(FASTER))
    changed(run, baseline_value=0, ratio=1e308, ci=[0.9, 1e308], noise_floor=-1.0)
    odd = Verdict.from_json((run / "verdict.json").read_bytes()).effects[0]
    assert (odd.baseline_value, odd.ratio, odd.ci, odd.noise_floor) == (None,) * 4
    assert odd.value == 1050.0


@pytest.mark.parametrize("key", ["equivalent", "precision", "confidence"])
@pytest.mark.parametrize("value", [1e308, -1.0, float("nan")])
def test_a_margin_that_is_none_is_refused(
    kdyno: Kdyno, tmp_path: Path, key: str, value: float
) -> None:
    run = stored(tmp_path / "runs", verdict(FASTER))
    data = json.loads((run / "verdict.json").read_text())
    (run / "verdict.json").write_text(json.dumps(data | {key: value}))
    output = kdyno("report", run.name, "-f", "html")
    assert output.status == 2 and f"verdict.json: is not a verdict: {key}: " in output.err
