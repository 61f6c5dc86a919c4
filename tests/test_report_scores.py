# SPDX-License-Identifier: MIT
"""Tables of whole suites' scores, from a verdict."""

from __future__ import annotations

import re

import pytest

from kdyno.report.evidence import Evidence
from kdyno.report.page import scores_section
from kdyno.report.scores import markdown, tables, text, values_of
from kdyno.store.verdict import Effect, Verdict
from kdyno.suites.catalogue import load

CATALOGUE = load()


def effect(suite: str, case: str, variant: str, before: float, after: float | None) -> Effect:
    expected = CATALOGUE[suite].case(case)
    return Effect(
        suite=suite,
        case=case,
        variant=variant,
        unit=expected.unit,
        better=expected.better,
        baseline_value=before,
        value=after,
        ratio=None if after is None else after / before,
        ci=None,
        blocks=3,
        verdict="inconclusive" if after is not None else "failed",
    )


def verdict(*effects: Effect) -> Verdict:
    return Verdict(experiment="e", baseline="stock", boots={}, effects=effects)


def unixbench(factor: float) -> list[Effect]:
    return [
        effect("unixbench", case.name, "mine", case.baseline, factor * case.baseline)
        for case in CATALOGUE["unixbench"].cases
        if case.baseline is not None
    ]


def of(result: object, name: str) -> tuple[float | None, float | None]:
    row = next(row for row in result.rows if row.name == name)  # type: ignore[attr-defined]
    return row.reference.value, row.own.value


def test_index_of_each_case_and_of_the_suite() -> None:
    judged = verdict(*unixbench(2.0))
    stock, mine = tables(values_of(judged), CATALOGUE, "stock")
    assert (stock.variant, mine.variant) == ("stock", "mine")
    assert of(stock, "pipe") == (10.0, 100.0)
    assert of(mine, "pipe") == (20.0, 200.0)
    assert of(mine, "index") == (pytest.approx(20.0), pytest.approx(200.0))


def test_a_missing_member_is_named_and_the_index_absent() -> None:
    whole = unixbench(2.0)
    broken = [
        effect("unixbench", "shell8", "mine", 6.0, None) if each.case == "shell8" else each
        for each in whole
    ]
    stock, mine = tables(values_of(verdict(*broken)), CATALOGUE, "stock")
    assert of(stock, "index") == (pytest.approx(10.0), pytest.approx(100.0))
    assert of(mine, "index") == (None, None)
    assert "index has no score; not measured: shell8" in text([mine])


def test_groups_against_the_reference_and_against_the_baseline() -> None:
    cases = [case for case in CATALOGUE["xbench"].cases if case.name != "disk.random.read_4k"]
    judged = verdict(
        *(
            effect("xbench", case.name, "mine", case.baseline or 7.0, 1.5 * (case.baseline or 7.0))
            for case in cases
        )
    )
    _, mine = tables(values_of(judged), CATALOGUE, "stock")
    assert of(mine, "memory") == (pytest.approx(150.0), pytest.approx(150.0))
    assert of(mine, "quartz") == (None, pytest.approx(150.0))
    assert of(mine, "disk.sequential") == (pytest.approx(150.0), pytest.approx(150.0))
    assert of(mine, "disk") == (None, None)
    assert of(mine, "total") == (None, None)
    message = text([mine]).splitlines()
    assert "opengl has no score; no reference was published for opengl.spinning_squares" in message
    assert "disk has no score; not measured: disk.random.read_4k" in message
    assert any(line.startswith("total has no score; not measured: disk.random") for line in message)
    assert max(map(len, message[: message.index("")])) <= 80
    assert not any(row.name == "index" for row in mine.rows), "groups stand in its place"


def test_groups_that_nobody_measured_are_not_mentioned() -> None:
    judged = verdict(effect("xbench", "cpu.gcd", "mine", 5.27, 5.27))
    _, mine = tables(values_of(judged), CATALOGUE, "stock")
    assert [row.name for row in mine.rows] == ["cpu.gcd", "cpu", "total"]
    assert "cpu has no score; not measured: cpu.fp_basic, cpu.fft, cpu.fp_library" in text([mine])


def test_as_markdown() -> None:
    judged = verdict(effect("unixbench", "pipe", "mine", 12440.0, 24880.0))
    stock, _ = tables(values_of(judged), CATALOGUE, "stock")
    assert markdown([stock]).splitlines()[:6] == [
        "**stock**, unixbench",
        "",
        "|  | value | score | stock = 100 |",
        "| --- | --: | --: | --: |",
        "| pipe | 12.44 k loops/s | 10.00 | 100.00 |",
        "| index |  | – | – |",
    ]


def test_suites_without_an_index_have_no_table() -> None:
    lower = effect("run", "command", "mine", 2.0, 1.0)
    assert tables(values_of(verdict(lower)), CATALOGUE, "stock") == ()


def test_on_the_page_each_kernel_has_a_row() -> None:
    html = str(scores_section(Evidence(verdict(*unixbench(2.0)))))
    rows = [
        re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row, re.DOTALL) for row in html.split("<tr")[2:]
    ]
    cells = [[re.sub(r"<[^>]*>", "", cell).strip() for cell in row] for row in rows]
    assert [row[:2] for row in cells if row[0] == "pipe"] == [["pipe", "stock"], ["pipe", "mine"]]
    assert next(row for row in cells if row[:2] == ["pipe", "mine"])[3:5] == ["20.00", "200.00"]
