# SPDX-License-Identifier: MIT
"""The report in a real browser: drawn, sorted, filtered, lit, read, saved and printed."""

from __future__ import annotations

import csv
import os
from pathlib import Path
from typing import Any

import pytest

from kdyno.report.charts.vega import COLOURS
from kdyno.report.evidence import Evidence

pytestmark = pytest.mark.browser

ROWS = "#effects-table tbody tr"


def rgb(colour: str) -> str:
    return "rgb({}, {}, {})".format(*(int(colour[at : at + 2], 16) for at in (1, 3, 5)))


def ground(page: Any) -> str:
    result: str = page.evaluate("getComputedStyle(document.body).backgroundColor")
    return result


def effects(page: Any) -> list[str]:
    results: list[str] = page.locator(f"{ROWS}:visible td.effect").all_inner_texts()
    return results


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("name", ["demo", "hostile", "large", "short"])
def test_opens_without_a_word(
    opened: Any, name: str, width: int, scheme: str, tmp_path: Path
) -> None:
    page = opened(name, width, scheme)
    assert ground(page) == rgb(COLOURS["ground"][scheme == "dark"])
    # Nothing sticks out at the side.
    root = "document.documentElement"
    assert page.evaluate(f"{root}.scrollWidth <= {root}.clientWidth")
    folder = Path(os.environ.get("KDYNO_PICTURES", tmp_path))
    page.screenshot(path=folder / f"{name}-{width}-{scheme}.png", full_page=name != "large")


@pytest.mark.parametrize("name", ["demo", "hostile", "large"])
def test_marks_are_as_many_as_the_data(
    opened: Any, name: str, evidences: dict[str, Evidence]
) -> None:
    page = opened(name)
    result = evidences[name]
    measured = [effect for effect in result.verdict.effects if effect.ratio is not None]
    assert page.locator(ROWS).count() == len(result.verdict.effects)
    # Every dot of the dot charts is a filled path that is neither axis nor band.
    words = ("faster", "slower", "equivalent", "inconclusive")
    dots = [f'.effects .drawing path[fill="var(--{word})"]' for word in words]
    assert page.locator(", ".join(dots)).count() == len(measured)
    points = page.evaluate(
        "[...document.querySelectorAll('.strip')].map(svg => [...svg.querySelectorAll('.dots')]"
        ".reduce((sum, path) => sum + path.getAttribute('d').split('M').length - 1, 0))"
    )
    baseline, *others = result.variants
    assert points == [
        len(result.points[case.suite, case.case, baseline])
        + len(result.points[case.suite, case.case, other])
        for case in result.cases
        for other in others
    ]


def test_points_are_round_and_seen(opened: Any) -> None:
    """A zero-length stroke must be drawn by the browser: its colour is on the screen."""
    page = opened("demo")
    seen = page.evaluate(
        """() => {
          const path = document.querySelector('.strip .dots.variant');
          const svg = path.ownerSVGElement;
          svg.scrollIntoView({behavior: 'instant', block: 'center'});
          const [, x, y] = path.getAttribute('d').match(/^M(\\d+) (\\d+)h0/).map(Number);
          const box = svg.getBoundingClientRect();
          const at = (right) => document.elementFromPoint(
            box.left + x / 1000 * box.width + right, box.top + y / 240 * box.height);
          return [at(0), at(2), at(5)].map(el => el.getAttribute('class'));
        }"""
    )
    assert seen == ["dots variant", "dots variant", "strip"]


def test_sorting_by_pointer_and_by_keyboard(opened: Any, evidences: dict[str, Evidence]) -> None:
    page = opened("demo")
    ratios = sorted(effect.ratio or 0.0 for effect in evidences["demo"].verdict.effects)
    head = page.locator("#effects-table thead th", has_text="Effect")
    text = "els => els.map(el => Number(el.dataset.v))"
    cells = page.locator(f"{ROWS} td.effect")
    head.locator("button").click()
    assert head.get_attribute("aria-sort") == "descending"
    assert cells.evaluate_all(text) == pytest.approx(ratios[::-1])
    head.locator("button").focus()
    page.keyboard.press("Enter")
    assert head.get_attribute("aria-sort") == "ascending"
    assert cells.evaluate_all(text) == pytest.approx(ratios)
    page.locator("#effects-table thead button", has_text="Case").click()
    assert head.get_attribute("aria-sort") is None
    names = page.locator(f"{ROWS} th").evaluate_all("els => els.map(el => el.dataset.v)")
    assert names == sorted(names) and names[0] == "fio/case-0"


def test_cells_without_a_figure_sort_last(opened: Any) -> None:
    page = opened("short")  # three blocks: no interval anywhere
    head = page.locator("#effects-table thead button", has_text="interval")
    before = effects(page)
    head.click()
    assert effects(page) == before


def test_filtering(opened: Any, evidences: dict[str, Evidence]) -> None:
    page = opened("demo")
    form = page.locator('.filters[data-for="effects-table"]')
    message = form.locator("output")
    assert message.inner_text() == "36 of 36"
    form.locator('[data-facet="verdict"]').select_option("slower")
    slower = [effect for effect in evidences["demo"].verdict.effects if effect.verdict == "slower"]
    assert message.inner_text() == f"{len(slower)} of 36"
    assert len(effects(page)) == len(slower)
    form.locator("[data-search]").fill("fio case-2")
    assert message.inner_text() == "1 of 36"
    form.locator("[data-search]").fill("nothing has this name")
    assert message.inner_text() == "0 of 36" and effects(page) == []
    panels = page.locator('.filters[data-for="panels"]')
    panels.locator('[data-facet="variant"]').select_option("other")
    assert page.locator(".panel:visible").count() == 9


def test_dark_mode_by_switch_is_kept(opened: Any) -> None:
    page = opened("demo")
    switch = page.locator("#theme")
    assert switch.get_attribute("aria-pressed") == "false"
    switch.focus()
    page.keyboard.press("Space")
    assert switch.get_attribute("aria-pressed") == "true"
    assert ground(page) == rgb(COLOURS["ground"][1])
    dot = page.locator('.effects .drawing path[fill="var(--faster)"]').first
    assert dot.evaluate("el => getComputedStyle(el).fill") == rgb(COLOURS["faster"][1])
    page.reload()
    assert ground(page) == rgb(COLOURS["ground"][1])


def test_all_controls_are_reached_by_tab(opened: Any, by_tab: Any) -> None:
    wanted, reached = by_tab(opened("short"))
    assert reached == wanted


def test_arrow_keys_walk_through_the_boots(opened: Any, evidences: dict[str, Evidence]) -> None:
    page = opened("demo")
    result = evidences["demo"]
    first = result.cases[0]
    points = sorted(
        (
            point
            for variant in ("stock", "mine")
            for point in result.points[first.suite, first.case, variant]
        ),
        key=lambda point: point.boot.position,
    )
    page.locator(".strip").first.focus()
    tip = page.locator("#tip")
    for key, point in (("ArrowRight", points[0]), ("ArrowRight", points[1]), ("End", points[-1])):
        page.keyboard.press(key)
        text = tip.inner_text()
        assert text.startswith(f"{point.boot.variant}: ")
        assert f"boot {point.boot.index}, block {point.boot.block}," in text
        assert ("disturbed: neighbour" in text) == bool(point.boot.disturbed)
    page.keyboard.press("Escape")
    assert not tip.is_visible()
    # Scrolling takes the words away, and its event comes with the next frame.
    page.locator(".strip").first.scroll_into_view_if_needed()
    page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    page.locator(".strip").first.hover()
    assert tip.is_visible()


def test_samples_can_be_saved(opened: Any, evidences: dict[str, Evidence], tmp_path: Path) -> None:
    page = opened("demo")
    with page.expect_download() as waiting:
        page.locator("[data-samples]").click()
    file = tmp_path / "samples.csv"
    waiting.value.save_as(file)
    with file.open(encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines))
    saved = {(row["suite"], row["case"], int(row["boot"])): float(row["score"]) for row in rows}
    expected = {
        (suite, case, point.boot.index): pytest.approx(point.score, rel=1e-8)
        for (suite, case, _variant), points in evidences["demo"].points.items()
        for point in points
    }
    assert len(rows) == len(expected) and saved == expected
    with page.expect_download() as waiting:
        page.locator("summary", has_text="demo.toml").click()
        page.locator("[data-save]").click()
    assert waiting.value.suggested_filename == "demo.toml"
    assert Path(waiting.value.path()).read_text().startswith('name = "demo"')


def test_hostile_samples_are_no_formulas(opened: Any, tmp_path: Path) -> None:
    page = opened("hostile")
    with page.expect_download() as waiting:
        page.locator("[data-samples]").click()
    text = Path(waiting.value.path()).read_text("utf-8")
    rows = list(csv.reader(text.splitlines()))
    assert {len(row) for row in rows} == {11}
    assert not [cell for row in rows for cell in row if cell[:1] in ("=", "+", "@")]


def test_printing_shows_everything(opened: Any, tmp_path: Path) -> None:
    page = opened("demo", scheme="dark")
    page.emulate_media(media="print", color_scheme="dark")
    assert ground(page) == rgb(COLOURS["ground"][0])
    assert not page.locator("nav").is_visible()
    page.pdf(path=tmp_path / "report.pdf")
    assert page.evaluate("[...document.querySelectorAll('details')].every(el => el.open)")
    assert (tmp_path / "report.pdf").stat().st_size > 50_000
