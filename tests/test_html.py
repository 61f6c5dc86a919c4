# SPDX-License-Identifier: MIT
"""The report's page as text: whole, closed to the outside, and safe whatever a run holds; and one
table in each of its forms."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as xml

import pytest
from golden.verdicts import build
from site_runs import measured
from synthetic_run import HOSTILE, HOSTILE_SHAPE, Shape, case
from test_report_gate import crossed, level

from kdyno.report.charts.vega import COLOURS, filled, fitted
from kdyno.report.evidence import Evidence
from kdyno.report.exporters import exporter
from kdyno.report.page import page as export_run, run_command
from kdyno.report.show import grid as grids, html, terminal
from kdyno.report.show.grid import Cell, Column, Grid, headed, of_rows
from kdyno.report.show.html import Html, block, data, element
from kdyno.report.show.terminal import Layout, Screen

VERDICTS = build()
VOID = {"meta", "input", "br", "hr", "rect", "path", "line"}


class Page(HTMLParser):
    """Elements with their attributes, and texts; fails where tags do not match."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.texts: dict[str, str] = {}
        self.lines: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        for name in set(self.open):
            self.texts[name] = self.texts.get(name, "") + data
        if data.strip() and not {"script", "style", "svg"} & set(self.open):
            self.lines.append(" ".join(data.split()))

    def all(self, tag: str, **wanted: str) -> list[dict[str, str | None]]:
        return [
            attributes
            for name, attributes in self.elements
            if name == tag and all(attributes.get(key) == value for key, value in wanted.items())
        ]

    @property
    def section_ids(self) -> list[str | None]:
        return [attributes["id"] for attributes in self.all("section")]


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Evidence:
    return measured(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def page(demo: Evidence) -> str:
    return export_run(demo)


@pytest.mark.slow
def test_all_sections_with_data_and_no_others(page: str, demo: Evidence) -> None:
    expected = ["verdicts", "effects", "boots", "spread", "machine", "builds", "again", "samples"]
    assert Page(page).section_ids == expected
    assert Page(export_run(Evidence(demo.verdict))).section_ids == ["verdicts", "effects"]
    assert Page(export_run(Evidence(VERDICTS["baseline-failed"]))).section_ids == []


@pytest.mark.slow
def test_one_row_one_dot_one_point_each(page: str, demo: Evidence) -> None:
    rows = re.findall(r'<table id="effects-table".*?</table>', page, re.S)[0]
    assert rows.count('<th scope="row"') == len(demo.verdict.effects) == 36
    points = [
        point
        for each in demo.cases
        for other in demo.variants[1:]
        for variant in ("stock", other)
        for point in demo.points[each.suite, each.case, variant]
    ]
    dots = re.findall(r'<path class="dots \w+" d="([^"]*)"', page)
    assert sum(path.count("M") for path in dots) == len(points)
    rings = re.findall(r'<path class="ring" d="([^"]*)"', page)
    disturbed = sum(bool(point.boot.disturbed) for point in points)
    assert sum(path.count("M") for path in rings) == disturbed > 0


@pytest.mark.slow
def test_every_chart_has_words(page: str) -> None:
    drawings = Page(page).all("svg")
    assert len(drawings) == 4 + 9 * 4
    for drawing in drawings:
        assert drawing["role"] == "img" and len(drawing["aria-label"] or "") > 40


@pytest.mark.slow
def test_nothing_leaves_the_page(page: str) -> None:
    # Names of XML languages are no addresses.
    rest = re.sub(r"http://www\.w3\.org/(2000/svg|1999/xlink)", "", page)
    assert "http:" not in rest and "https:" not in rest and "//cdn" not in rest
    parsed = Page(page)
    assert not [name for name, _ in parsed.elements if name in ("link", "img", "iframe", "object")]
    assert [element for element in parsed.all("script") if "src" in element] == []
    assert all((element["href"] or "").startswith("#") for element in parsed.all("a"))
    for _, attributes in parsed.elements:
        assert "style" not in attributes and not any(key[:2] == "on" for key in attributes)


@pytest.mark.slow
def test_the_policy_names_the_style_and_the_script(page: str) -> None:
    policy = Page(page).all("meta", **{"http-equiv": "Content-Security-Policy"})[0]["content"]
    assert policy is not None and policy.startswith("default-src 'none'")
    style = re.findall(r"<style>(.*?)</style>", page, re.S)[0]
    script = re.findall(r"<script>(.*?)</script>", page, re.S)[0]
    for text, kind in ((style, "style-src"), (script, "script-src")):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{kind} 'sha256-{digest}'" in policy


def embedded(page: str) -> dict[str, Any]:
    text = re.findall(r'<script type="application/json" id="run-data">(.*?)</script>', page)[0]
    value: dict[str, Any] = json.loads(text)
    return value


def test_the_samples_are_all_there(page: str, demo: Evidence) -> None:
    result = embedded(page)
    assert result["variants"] == list(demo.variants)
    assert len(result["boots"]) == 120 and len(result["scores"]) == 9
    for about, row in zip(result["cases"], result["scores"], strict=True):
        points = {
            point.boot.position: pytest.approx(point.score, rel=1e-8)
            for variant in demo.variants
            for point in demo.points[about[0], about[1], variant]
        }
        assert points.keys() == {*range(120)} - {17}
        assert row == [points.get(position) for position in range(120)]


@pytest.mark.slow
def test_hostile_runs_stay_text(tmp_path: Path) -> None:
    evidence = measured(tmp_path, HOSTILE_SHAPE)
    text = export_run(evidence)
    parsed = Page(text)
    assert len(parsed.all("script")) == 2 and parsed.all("img") == []
    assert text.count("<script") == text.count("</script>") == 2
    assert "<img" not in text and "<!-- comment" not in text and "<b>" not in parsed.texts["h1"]
    assert not any(character in text for character in "\u202e\u202c\x1b\x07\x00")
    assert embedded(text)["variants"][0] == HOSTILE[1]
    lines = str(exporter("benchstat").export(evidence)).splitlines()
    scores = [line for line in lines if line.startswith("Benchmark")]
    assert len(scores) == 7 * 4 * len(HOSTILE)
    assert {len(line.split()) for line in scores} == {4}
    tests = xml.fromstring(exporter("junit").export(evidence)).findall("testsuite/testcase")
    assert len(tests) == 3 * len(HOSTILE)
    xml.fromstring(exporter("svg").export(evidence))


@pytest.mark.slow
def test_the_worst_verdicts_make_pages() -> None:
    for name in ("hostile", "failed", "too-few", "many", "control-moved"):
        parsed = Page(export_run(Evidence(VERDICTS[name])))
        assert "verdicts" in parsed.section_ids, name


@pytest.mark.slow
def test_a_hundred_cases_fit(tmp_path: Path) -> None:
    shape = Shape(
        cases=tuple(case(number, f"suite-{number // 20}") for number in range(100)),
        variants={"mine": 1.01},
        blocks=60,
    )
    text = export_run(measured(tmp_path, shape))
    assert len(text.encode()) < 3_000_000
    assert text.count('class="strip"') == 100


@pytest.mark.slow
def test_factors_become_lines_and_tables() -> None:
    rows = (
        level("faster", ratio=0.7, ci=(0.69, 0.71)),
        level("equivalent", "conditional", ratio=1.0, ci=(0.99, 1.01), other="jobs", at="1"),
        level("faster", "conditional", ratio=0.55, ci=(0.54, 0.56), other="jobs", at="4"),
    )
    factors = crossed(*rows).model_copy(update={"summary": ("<smp> helps",)})
    text = export_run(Evidence(VERDICTS["demo"].model_copy(update={"factors": factors})))
    assert Page(text).section_ids == ["verdicts", "effects", "factors"]
    assert "&lt;smp&gt; helps" in text
    label = "whole: smp on, by jobs: 1 0.00 %, 4 −45.0 %"
    assert len(Page(text).all("svg", **{"aria-label": label})) == 1


def test_markup_escapes_whatever_is_not_html() -> None:
    assert element('<td data-v="{}">{}{}{}</td>', '"1"', "a<b", Html("<i>x</i>"), "&{}") == (
        '<td data-v="&#34;1&#34;">a&lt;b<i>x</i>&amp;{}</td>'
    )
    assert element("{}", "\ud800\0") == "?\ufffd"
    assert "\x1b" not in block("\x1b[31mred\n\tindented")
    assert "\tindented" in block("\x1b[31mred\n\tindented")
    # Embedded data cannot end its element.
    text = data({"a": "</script><!--&\u2028"}, "x")
    assert text.count("<") == 2 and text.count(">") == 2 and "&" not in text
    assert json.loads(text.split(">")[1].split("<")[0]) == {"a": "</script><!--&\u2028"}
    with pytest.raises(ValueError):
        data(float("nan"), "x")


def test_the_command_has_what_the_run_had() -> None:
    overrides = {"quick": True, "variants": ["a b"], "cases": ["pipe"], "precision": 0.01}
    assert run_command("x.toml", overrides, 7) == (
        "kdyno run x.toml --quick --variant 'a b' --case pipe --precision 0.01 --seed 7"
    )
    calibrated = {"calibrate": True, "variants": ["stock"], "max_boots": 12, "seed": 3}
    assert run_command("x.toml", calibrated, 3) == (
        "kdyno run x.toml --calibrate --variant stock --max-boots 12 --seed 3"
    )


def _luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("ground", ["ground", "card"])
def test_text_can_be_read(dark: bool, ground: str) -> None:
    """WCAG 2 AA: 4.5 to 1."""
    behind = _luminance(COLOURS[ground][dark])
    for name in ("ink", "muted", "accent", "faster", "slower", "equivalent", "inconclusive"):
        over = _luminance(COLOURS[name][dark])
        contrast = (max(over, behind) + 0.05) / (min(over, behind) + 0.05)
        assert contrast >= 4.5, f"{name} on {ground}: {contrast:.2f}"


def test_a_chart_is_filled_by_name_and_its_labels_are_cut(tmp_path: Path) -> None:
    assert fitted("short", 100) == "short"
    assert fitted("😀" * 30, 67) == "😀😀😀😀…"
    file = tmp_path / "x.json"
    file.write_text('{"title": "$title", "layer": [{"data": {"values": "$rows"}}], "n": 1}')
    rows = [{"name": "$title"}]
    expected = {"title": "<a>", "layer": [{"data": {"values": rows}}], "n": 1}
    assert filled(file, title="<a>", rows=rows) == expected
    with pytest.raises(KeyError, match="rows"):
        filled(file, title="<a>")


# One table on a terminal, in Markdown, in HTML and in CSV.


ITEMS = (("pipe", 271828.1, "faster"), ("<b>|\x1b[31mx", None, "failed"))


def verdict(each: tuple[str, float | None, str]) -> Cell:
    why = "exit 1" if each[1] is None else ""
    return Cell(each[2], notes=("too little",), sign="≈", why=why, tone=each[2])


COLUMNS = (
    Column("case", lambda value: Cell(value[0], notes=("control",), sign="*"), "name"),
    Column("value", lambda value: value[1], "number", "{:.1f} k".format, absent="–", worth=2),
    Column("more", lambda _: "m" * 20, worth=3),
    Column("verdict", verdict, "verdict", worth=1),
)
GRID = Grid(COLUMNS, ITEMS, "A title", id="t", facets=("verdict",))


def test_on_a_terminal() -> None:
    two = Layout(replace(GRID, columns=COLUMNS[:2]))
    lines = [line.plain.rstrip() for line in terminal.lines(two)]
    assert lines == [
        "  case          value",
        "  pipe *   271828.1 k",
        "  <b>|x *           –",
    ]


def test_a_narrow_terminal_leaves_out_what_is_worth_least() -> None:
    def heads(width: int) -> list[str]:
        return [column.head for column in terminal.fit(GRID, width, 2).grid.columns]

    assert heads(80) == ["case", "value", "more", "verdict"]
    assert heads(45) == ["case", "value", "verdict"]
    assert heads(30) == ["case", "verdict"]
    assert heads(14) == ["case"]

    # Columns of the same worth stand and fall together.
    twins = [replace(each, worth=1) for each in COLUMNS[1:]]
    grid = replace(GRID, columns=[COLUMNS[0], *twins])
    assert len(terminal.fit(grid, 80, 0).grid.columns) == 4
    assert len(terminal.fit(grid, 50, 0).grid.columns) == 1


def test_a_name_folds_and_the_rest_stays_in_line() -> None:
    grid = of_rows(("a", "n"), (("x" * 5, 7), ("y", 8)))
    lines = [line.plain for line in terminal.lines(Layout(grid, (3, 1), indent=0))]
    assert lines == ["a    n", "xxx  7", "xx    ", "y    8"]


def test_colour_only_where_it_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = terminal.text([GRID])
    assert "\x1b" not in plain and "faster ≈" in plain
    coloured = terminal.text([GRID], Screen(80, colour=True))
    assert "\x1b[1;32mfaster ≈\x1b[0m" in coloured and "\x1b[31mx" not in coloured
    ascii_only = terminal.text([GRID, "µ"], Screen(80, unicode=False))
    assert ascii_only.isascii() and ascii_only.endswith("u\n")
    stream = io.StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert terminal.screen_of(stream).colour
    monkeypatch.setenv("NO_COLOR", "1")
    assert not terminal.screen_of(stream).colour


def test_no_part_moves_the_cursor() -> None:
    evil = "a\x1b[2Jb\x07\u202ec\x9b1md\re"
    grid = of_rows((evil, "n"), ((evil, 1),), title=evil)
    text = terminal.text([evil, grid])
    for each in (text, grids.markdown(grid), grids.csv(grid), html.table(grid)):
        assert each.replace("\n", "").isprintable()


def test_in_markdown() -> None:
    assert grids.markdown(GRID).splitlines() == [
        "| case | value | more | verdict |",
        "| --- | --: | --- | --- |",
        f"| pipe (control) | 271828.1 k | {'m' * 20} | **faster**, too little |",
        f"| \\<b\\>\\|x (control) | – | {'m' * 20} | **failed**, too little: exit 1 |",
    ]


def test_in_html() -> None:
    result = html.table(GRID)
    heads = re.findall(r'<th[^>]*scope="col"[^>]*><button type="button">(\w+)', result)
    assert heads == ["case", "value", "more", "verdict"]
    assert '<td class="number" data-v="271828.09999999998">271828.1 k</td>' in result
    assert '<tr data-f-verdict="failed">' in result and "<b>" not in result.replace("&lt;b&gt;", "")
    assert '<span class="badge faster">' in result and "<small><bdi>exit 1</bdi></small>" in result
    assert "filters" not in result
    assert 'data-facet="verdict"' in html.table(replace(GRID, items=ITEMS * 4))


def test_in_csv_the_figure_stands_not_the_words() -> None:
    grid = of_rows(("a", "b", "c", "d"), (("=1+1", 0.1 + 0.2, True, None), ("\x1b", 7, False, "")))
    first, second = csv.reader(io.StringIO(grids.csv(grid).partition("\n")[2]))
    assert first == ["'=1+1", "0.30000000000000004", "yes", ""]
    assert second == ["?", "7", "no", ""]
    text = Column("n", lambda value: value, "number", "{:.1f} k".format)
    assert grids.csv(Grid([text], [1.25])) == "n\n1.25\n"


def test_columns_of_figures_are_known_by_their_figures() -> None:
    grid = of_rows(("a", "b", "c"), (("x", 1, None), ("y", None, None)), absent="–")
    assert [column.kind for column in grid.columns] == ["text", "number", "text"]
    assert [cell.text for cell in grid.rows[1]] == ["y", "–", "–"]
    assert [each.head for each in headed(grid.columns)] == ["A", "B", "C"]
