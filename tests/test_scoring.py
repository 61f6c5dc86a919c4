# SPDX-License-Identifier: MIT
"""Scores of whole suites: indices and groups from a verdict; --scoring, from the boots of a run, by
medians or by UnixBench's own trimming."""

from __future__ import annotations

import json
import re
import statistics
from pathlib import Path

import pytest
from command_line import EXPERIMENT, Kdyno, by_sums, experiment_file, verdict
from hypothesis import given, strategies as st
from synthetic_run import record

from kdyno.errors import UsageError
from kdyno.report.evidence import Evidence
from kdyno.report.page import scores_section
from kdyno.report.scores import ScoreTable, check, of_verdict, passes, text
from kdyno.store.boot import Sample
from kdyno.store.verdict import Effect
from kdyno.suites.catalogue import load
from kdyno.suites.score import score_of

CATALOGUE = load()
UNIXBENCH = {
    case.name: case.baseline for case in CATALOGUE["unixbench"].cases if case.baseline is not None
}
PIPE = CATALOGUE["unixbench"].case("pipe")
# Loops in 0.1 s of three repetitions in each of two boots; the second boot of mine failed.
BOOTS = {"stock": ((1244, 1244, 1000), (1244, 1300, 1100)), "mine": ((2488, 2488, 2600), ())}


def effect(suite: str, name: str, before: float, factor: float | None) -> Effect:
    case = CATALOGUE[suite].case(name)
    return Effect(
        suite=suite, case=name, variant="mine", unit=case.unit, better=case.better,
        baseline_value=before, value=None if factor is None else factor * before, ratio=factor,
        ci=None, blocks=3, verdict="failed" if factor is None else "inconclusive",
    )  # fmt: skip


def tables_of(*effects: Effect) -> tuple[ScoreTable, ...]:
    return of_verdict(verdict(*effects), CATALOGUE)


def scores(table: ScoreTable, name: str) -> tuple[float | None, float | None]:
    """Against the reference, and against the baseline."""
    row = next(row for row in table.rows if row.name == name)
    return row.reference.value, row.own.value


def test_index_of_each_case_and_of_the_suite() -> None:
    effects = [effect("unixbench", name, base, 2.0) for name, base in UNIXBENCH.items()]
    stock, mine = tables_of(*effects)
    assert (stock.variant, mine.variant) == ("stock", "mine")
    assert (scores(stock, "pipe"), scores(mine, "pipe")) == ((10.0, 100.0), (20.0, 200.0))
    assert scores(mine, "index") == pytest.approx((20.0, 200.0))
    summed = by_sums("pipe", "slower", 0.5, unit=PIPE.unit, baseline_value=UNIXBENCH["pipe"])
    assert scores(tables_of(summed)[1], "pipe") == pytest.approx((5.0, 50.0))
    # On the page each kernel has a row.
    html = str(scores_section(Evidence(verdict(*effects))))
    rows = [re.sub(r"\s*<[^>]*>\s*", "|", row).strip("|") for row in html.split("<tr")[2:]]
    (row,) = [row for row in rows if re.search(r"\|pipe\|+mine\|", row)]
    assert re.search(r"\|20\.00\|+200\.00", row)
    # Without a member there is no index, and the member is named.
    broken = [each for each in effects if each.case != "shell8"]
    stock, mine = tables_of(*broken, effect("unixbench", "shell8", 6.0, None))
    assert scores(stock, "index") == pytest.approx((10.0, 100.0))
    assert scores(mine, "index") == (None, None)
    assert "index has no score; not measured: shell8" in text([mine])
    assert tables_of(effect("run", "command", 2.0, 0.5)) == ()


def test_groups_against_the_reference_and_against_the_baseline() -> None:
    cases = [case for case in CATALOGUE["xbench"].cases if case.name != "disk.random.read_4k"]
    _, mine = tables_of(*(effect("xbench", case.name, case.baseline or 7.0, 1.5) for case in cases))
    for group in ("memory", "disk.sequential"):
        assert scores(mine, group) == pytest.approx((150.0, 150.0))
    assert scores(mine, "quartz") == (None, pytest.approx(150.0))
    assert scores(mine, "disk") == scores(mine, "total") == (None, None)
    message = text([mine]).splitlines()
    assert "opengl has no score; no reference was published for opengl.spinning_squares" in message
    assert "disk has no score; not measured: disk.random.read_4k" in message
    assert any(line.startswith("total has no score; not measured: disk.random") for line in message)
    assert max(map(len, message[: message.index("")])) <= 80
    assert not any(row.name == "index" for row in mine.rows), "groups stand in its place"
    # Groups of which nothing was measured are not mentioned.
    _, mine = tables_of(effect("xbench", "cpu.gcd", 5.27, 1.0))
    assert [row.name for row in mine.rows] == ["cpu.gcd", "cpu", "total"]
    assert "cpu has no score; not measured: cpu.fp_basic, cpu.fft, cpu.fp_library" in text([mine])


def sample(loops: tuple[int, ...]) -> Sample:
    reps = tuple((float(count), 1e8) for count in loops)
    score = score_of(PIPE, [(count, 100_000_000) for count in loops])
    return Sample(suite="unixbench", case="pipe", score=score, reps=reps)


def run_of(runs: Path, suite: str = "unixbench") -> Path:
    judged = verdict(effect("unixbench", "pipe", 12440.0, 1.9).model_copy(update={"suite": suite}))
    boots = [
        (block, variant, [sample(loops)] if loops else "panic")
        for variant, blocks in BOOTS.items()
        for block, loops in enumerate(blocks)
    ]
    about = {"suite": suite, "case": "pipe", "unit": "loops/s", "better": "higher"}
    return record(runs, boots, judged, text='name = "tiny"\n', cases=(about,)).path


def row(out: str, variant: str, name: str) -> list[str]:
    part = out.split("Scores (")[1].split(f"{variant} · unixbench")[1].splitlines()
    return next(line.split() for line in part if line.strip().startswith(name))


def test_medians_and_unixbench_s_own(kdyno: Kdyno, tmp_path: Path) -> None:
    run_of(tmp_path / "runs")
    output = kdyno("report", "last", "--scoring", "kdyno")
    assert output.status == 0
    assert row(output.out, "stock", "pipe")[-2:] == ["10.00", "100.00"]
    # The effect, as in the table above it: medians of boots by themselves are 2 to 1.
    assert row(output.out, "mine", "pipe")[-2:] == ["19.00", "190.00"]
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
    assert (
        "**mine**, unixbench\n\n|  | value | score | stock = 100 |\n| --- | --: | --: | --: |\n"
        "| pipe | 25.43 k loops/s | 20.45 | 202.21 |\n| index |  | – | – |\n"
    ) in output.out
    data = json.loads(kdyno("report", "last", "--scoring", "unixbench", "--json", "-").out)
    assert data["schema"] == 1 and data["scores"]["scoring"] == "unixbench"
    stock, mine = data["scores"]["tables"]
    assert (mine["variant"], mine["rows"][0]["name"]) == ("mine", "pipe")
    assert mine["rows"][0]["score"] == pytest.approx(20.445, abs=0.001)
    assert "spawn" in stock["rows"][-1]["missing"] and stock["rows"][-1]["score"] is None
    assert "scores" not in json.loads(kdyno("report", "last", "--json", "-").out)


def test_suites_without_an_index(kdyno: Kdyno, tmp_path: Path) -> None:
    run_of(tmp_path / "runs", "hackbench")
    done = kdyno("report", "last", "--scoring", "kdyno")
    assert done.status == 2 and done.out == ""
    assert "none of this run's suites has an index; unixbench, xbench have" in done.err
    # A count has no index: 41 instructions more would be a better one.
    with pytest.raises(UsageError, match="an index is of speeds, and this run's are instructions"):
        check("kdyno", "instructions", ["unixbench"], CATALOGUE)
    # A run refuses before it builds.
    text = EXPERIMENT.replace('"unixbench"\ncases = ["pipe", "syscall"]', '"fio"')
    output = kdyno("run", experiment_file(tmp_path, text), "--scoring", "kdyno")
    assert "has an index" in output.err


def test_a_whole_index_is_a_line_below_the_table(kdyno: Kdyno, tmp_path: Path) -> None:
    path = run_of(tmp_path / "runs")
    about = {"suite": "unixbench", "better": "higher", "ci": None, "repetitions": 5}
    units = {case.name: case.unit for case in CATALOGUE["unixbench"].cases}
    values = [
        {**about, "case": name, "unit": units[name], "value": 3 * base}
        for name, base in UNIXBENCH.items()
    ]
    assert "index" not in kdyno("report", "last").out
    judged = verdict(baseline="host", values=values)
    (path / "verdict.json").write_text(judged.to_json())
    assert kdyno("report", "last").out.endswith("\nunixbench index: host 30.0\n")


@pytest.mark.slow
@given(
    st.lists(st.tuples(st.integers(1, 10**6), st.integers(10**6, 10**9)), min_size=1, max_size=9),
    st.floats(1e-3, 1e6),
    st.booleans(),
)
def test_the_median_of_passes(reps: list[tuple[int, int]], scale: float, higher: bool) -> None:
    pairs = tuple((float(count), float(ns)) for count, ns in reps)
    whole = Sample(suite="s", case="c", score=scale, reps=pairs)
    result = passes(whole, higher)
    assert len(result) == len(reps)
    assert statistics.median(result) == pytest.approx(scale)
    # A case without repetitions has its score, or none.
    assert passes(Sample(suite="s", case="c", score=scale), higher) == [scale]
    assert passes(Sample(suite="s", case="c", status="skip", text="none"), higher) == []
