# SPDX-License-Identifier: MIT
"""--scoring: indices from the boots of a run, by medians or by UnixBench's own trimming."""

from __future__ import annotations

import json
import statistics
from pathlib import Path

import pytest
from command_line import Kdyno, experiment_file
from hypothesis import given
from hypothesis import strategies as st
from synthetic_run import record

from kdyno.report.scores import passes
from kdyno.store.boot import Sample
from kdyno.store.verdict import CaseValue, Effect, Verdict
from kdyno.suites.catalogue import load
from kdyno.suites.score import score_of

PIPE = load()["unixbench"].case("pipe")
# Loops in 0.1 s of three repetitions in each of two boots; the second boot of mine failed.
BOOTS = {"stock": ((1244, 1244, 1000), (1244, 1300, 1100)), "mine": ((2488, 2488, 2600), ())}


def sample(loops: tuple[int, ...]) -> Sample:
    reps = tuple((float(count), 1e8) for count in loops)
    score = score_of(PIPE, [(count, 100_000_000) for count in loops])
    return Sample(suite="unixbench", case="pipe", score=score, reps=reps)


def run_of(runs: Path, suite: str = "unixbench") -> Path:
    about = {"suite": suite, "case": "pipe", "unit": "loops/s", "better": "higher"}
    effect = Effect.model_validate(
        about
        | {"variant": "mine", "baseline_value": 12440.0, "value": 24880.0, "ratio": 2.0}
        | {"ci": None, "blocks": 1, "verdict": "inconclusive"}
    )
    boots = [
        (block, variant, [sample(loops)] if loops else "panic")
        for variant, blocks in BOOTS.items()
        for block, loops in enumerate(blocks)
    ]
    judged = Verdict(
        experiment="tiny", baseline="stock", boots={"stock": 2, "mine": 1}, effects=(effect,)
    )
    return record(runs, boots, judged, text='name = "tiny"\n', cases=(about,)).path


def row(out: str, variant: str, name: str) -> list[str]:
    part = out.split("Scores (")[1].split(f"{variant} · unixbench")[1].splitlines()
    return next(line.split() for line in part if line.strip().startswith(name))


def test_medians_and_unixbench_s_own(kdyno: Kdyno, tmp_path: Path) -> None:
    run_of(tmp_path / "runs")
    output = kdyno("report", "last", "--scoring", "kdyno")
    assert output.status == 0
    assert row(output.out, "stock", "pipe")[-2:] == ["10.00", "100.00"]
    assert row(output.out, "mine", "pipe")[-2:] == ["20.00", "200.00"]
    assert "index has no score; not measured: dhry2reg" in output.out
    # Of six passes the two worst go: (12440³ × 13000)^¼ = 12577.6; of mine's three one of the
    # two lowest: √(24880 × 26000) = 25433.8.
    output = kdyno("report", "last", "--scoring", "unixbench")
    assert row(output.out, "stock", "pipe")[-2:] == ["10.11", "100.00"]
    assert row(output.out, "mine", "pipe")[-2:] == ["20.45", "202.21"]
    assert "the worst third is dropped" in output.out


@pytest.mark.slow
def test_in_markdown_and_json(kdyno: Kdyno, tmp_path: Path) -> None:
    run_of(tmp_path / "runs")
    output = kdyno("report", "last", "--scoring", "unixbench", "-f", "markdown")
    assert "| pipe | 25.43 k loops/s | 20.45 | 202.21 |" in output.out
    data = json.loads(kdyno("report", "last", "--scoring", "unixbench", "--json", "-").out)
    assert data["schema"] == 1 and data["scores"]["scoring"] == "unixbench"
    stock, mine = data["scores"]["tables"]
    assert (mine["variant"], mine["rows"][0]["name"]) == ("mine", "pipe")
    assert mine["rows"][0]["score"] == pytest.approx(20.445, abs=0.001)
    assert "spawn" in stock["rows"][-1]["missing"] and stock["rows"][-1]["score"] is None
    assert "scores" not in json.loads(kdyno("report", "last", "--json", "-").out)


@pytest.mark.parametrize(
    ("suite", "options", "message"),
    [
        ("unixbench", ("unixbensh",), "did you mean 'unixbench'?"),
        ("unixbench", ("kdyno", "-f", "csv"), "goes with the table, markdown and json, not csv"),
        ("hackbench", ("kdyno",), "none of this run's suites has an index; unixbench, xbench have"),
    ],
)
def test_what_cannot_be_scored(
    kdyno: Kdyno, tmp_path: Path, suite: str, options: tuple[str, ...], message: str
) -> None:
    run_of(tmp_path / "runs", suite)
    done = kdyno("report", "last", "--scoring", *options)
    assert done.status == 2 and message in done.err and done.out == ""


def test_run_refuses_before_it_builds(kdyno: Kdyno, tmp_path: Path) -> None:
    file = experiment_file(tmp_path)
    output = kdyno("run", file, "--scoring", "median")
    assert output.status == 2 and "--scoring 'median' (allowed: kdyno, unixbench)" in output.err
    file.write_text(file.read_text().replace('"unixbench"\ncases = ["pipe", "syscall"]', '"fio"'))
    assert "has an index" in kdyno("run", file, "--scoring", "kdyno").err


def test_a_whole_index_is_a_line_below_the_table(kdyno: Kdyno, tmp_path: Path) -> None:
    path = run_of(tmp_path / "runs")
    values = tuple(
        CaseValue(
            suite="unixbench", case=case.name, unit=case.unit, better="higher",
            value=3 * case.baseline, ci=None, repetitions=5,
        )
        for case in load()["unixbench"].cases
        if case.baseline is not None
    )  # fmt: skip
    assert "index" not in kdyno("report", "last").out
    judged = Verdict(experiment="tiny", baseline="host", boots={}, values=values)
    (path / "verdict.json").write_text(judged.to_json())
    assert kdyno("report", "last").out.endswith("\nunixbench index: host 30.0\n")


@given(
    st.lists(st.tuples(st.integers(1, 10**6), st.integers(10**6, 10**9)), min_size=1, max_size=9),
    st.floats(1e-3, 1e6),
    st.booleans(),
)
def test_passes_have_the_score_for_their_median(
    reps: list[tuple[int, int]], scale: float, higher: bool
) -> None:
    pairs = tuple((float(count), float(ns)) for count, ns in reps)
    whole = Sample(suite="s", case="c", score=scale, reps=pairs)
    result = passes(whole, higher)
    assert len(result) == len(reps)
    assert statistics.median(result) == pytest.approx(scale)


def test_passes_of_a_case_without_repetitions() -> None:
    assert passes(Sample(suite="s", case="c", score=4.0), True) == [4.0]
    assert passes(Sample(suite="s", case="c", status="skip", text="none"), True) == []
