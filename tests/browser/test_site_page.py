# SPDX-License-Identifier: MIT
"""The site in a real browser: from its files, and served."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from site_runs import small, weeks
from synthetic_run import HOSTILE, Shape, case, make
from test_page import ground, rgb

from kdyno.report.charts.vega import COLOURS
from kdyno.report.site.build import build_site
from kdyno.report.site.history import Series, series_of
from kdyno.report.site.server import SiteServer
from kdyno.report.site.summary import Summary, summarize

pytestmark = pytest.mark.browser

ROWS = "#runs-table tbody tr"
LEVELS = [1.0] * 10 + [0.9] * 8


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site of 18 runs of one experiment, one of another, hostile and broken ones."""
    base = tmp_path_factory.mktemp("site")
    weeks(base / "runs", LEVELS)
    small(base / "runs", 40, 2.0, experiment="other", cpu="Another CPU")
    shape = Shape(
        cases=tuple(case(0, HOSTILE[n % 3], case=text) for n, text in enumerate(HOSTILE)),
        variants={HOSTILE[0]: 1.02, HOSTILE[3]: 0.97},
        baseline=HOSTILE[1],
        blocks=6,
        question="".join(HOSTILE),
        experiment=HOSTILE[6],
    )
    for name in ("2025-01-01 <img src=x onerror=alert(1)>", "2025 مرحبا \u202e😀" + "n" * 200):
        make(base / "runs", shape).path.rename(base / "runs" / name)
    broken = small(base / "runs", 50)
    (broken.path / "manifest.json").write_text("{")
    (base / "runs" / "2026-09-09T0900-empty-0000").mkdir()
    build_site(base / "runs", base / "site")
    return base


@pytest.fixture(scope="module")
def summaries(folder: Path) -> list[Summary]:
    from kdyno.store.run import list_runs

    results = [summarize(run)[0] for run in list_runs(folder / "runs")]
    return sorted(results, key=lambda value: value.created)


Shown = Callable[..., Any]


@pytest.fixture
def opened(visit: Shown, folder: Path) -> Shown:
    """``opened("index.html", width=390)``: a page of the files, which asks for pages of the site
    alone."""
    home = (folder / "site").as_uri()

    def go(name: str, width: int = 1280, scheme: str = "light") -> Any:
        def allowed(request: Any) -> bool:
            return request.url.startswith(home) and request.resource_type == "document"

        return visit(f"{home}/{name}", allowed, width, scheme)

    return go


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("name", ["index.html", "history.html", "history/nightly.html"])
def test_opens_without_a_word(
    opened: Shown, name: str, width: int, scheme: str, tmp_path: Path
) -> None:
    page = opened(name, width, scheme)
    assert ground(page) == rgb(COLOURS["ground"][scheme == "dark"])
    root = "document.documentElement"
    assert page.evaluate(f"{root}.scrollWidth <= {root}.clientWidth")
    place = Path(os.environ.get("KDYNO_PICTURES", tmp_path))
    page.screenshot(path=place / f"site-{name.replace('/', '-')}-{width}-{scheme}.png")


def test_the_list_sorts_and_filters(opened: Shown, summaries: list[Summary]) -> None:
    page = opened("index.html")
    message = page.locator(".filters output")
    assert message.inner_text() == "23 of 23" and page.locator(ROWS).count() == 23
    begun = page.locator("#runs-table thead th", has_text="Begun")
    begun.locator("button").focus()
    page.keyboard.press("Enter")
    assert begun.get_attribute("aria-sort") == "ascending"
    column = f"{ROWS} td:nth-child(4)"
    dates = page.locator(column).evaluate_all("els => els.map(el => el.dataset.v)")
    assert dates == sorted(dates)
    page.locator('[data-facet="state"]').select_option("damaged")
    assert message.inner_text() == "1 of 23"
    page.locator('[data-facet="state"]').select_option("")
    page.locator('[data-facet="experiment"]').select_option("nightly")
    assert (
        message.inner_text()
        == f"{sum(summary.experiment == 'nightly' for summary in summaries)} of 23"
    )
    page.locator("[data-search]").fill("7.10.0")
    assert message.inner_text() == "8 of 23"


def test_from_the_list_to_a_report_and_back(opened: Shown) -> None:
    page = opened("index.html")
    page.locator(f"{ROWS} th a", has_text="-nightly-").first.click()
    page.wait_for_url("**/runs/*.html")
    assert page.locator("h1").inner_text() == "Is it faster?"
    page.locator("nav a", has_text="All runs").click()
    page.wait_for_url("**/index.html")


def test_history_marks_are_as_many_as_the_data(opened: Shown, summaries: list[Summary]) -> None:
    results: list[Series] = [each for each in series_of(summaries) if each.experiment == "nightly"]
    page = opened("history/nightly.html")
    counts = (
        "[...document.querySelectorAll('.strip')].map(svg => "
        "[...svg.querySelectorAll('path.%s')].reduce("
        "(sum, path) => sum + path.getAttribute('d').split('M').length - 1, 0))"
    )
    assert page.evaluate(counts % "dots") == [len(each.marks) for each in results] == [18] * 6
    assert page.evaluate(counts % "change") == [len(each.changes) for each in results]
    assert sum(len(each.changes) for each in results) >= 4
    assert page.evaluate(counts % "level") == [len(each.levels) for each in results]
    spans = [sum(mark.low is not None for mark in each.marks) for each in results]
    assert page.evaluate(counts % "spans") == spans
    assert page.locator(".changes li").count() == sum(len(each.changes) for each in results)


def test_arrow_keys_walk_through_the_runs(opened: Shown, summaries: list[Summary]) -> None:
    nightly = [
        summary for summary in summaries if summary.experiment == "nightly" and summary.scores
    ]
    page = opened("history/nightly.html")
    page.locator(".strip").first.focus()
    tip = page.locator("#tip")
    for key, run in (("ArrowRight", nightly[0]), ("ArrowRight", nightly[1]), ("End", nightly[-1])):
        page.keyboard.press(key)
        assert tip.inner_text().endswith(run.name)
        version = (run.kernels or {})["stock"].version
        assert f"kernel {version}:" in tip.inner_text()
    page.keyboard.press("Escape")
    assert not tip.is_visible()


def test_the_table_of_series_leads_to_its_chart(opened: Shown) -> None:
    page = opened("history.html")
    page.locator('[data-facet="experiment"]').select_option("nightly")
    page.locator('[data-facet="measure"]').select_option("effect")
    page.locator("#series-table tbody tr:visible a").first.click()
    page.wait_for_url("**/history/nightly.html#series-2")
    assert (
        page.locator(".panel:target figcaption").inner_text().startswith("pipe · mine ÷ baseline")
    )


def test_all_controls_are_reached_by_tab(opened: Shown, by_tab: Any) -> None:
    wanted, reached = by_tab(opened("history/nightly.html"))
    assert reached == wanted > 10


def test_dark_by_switch_holds_on_the_other_pages(opened: Shown) -> None:
    page = opened("index.html")
    page.locator("#theme").click()
    page.locator("nav a", has_text="History").click()
    page.wait_for_url("**/history.html")
    assert page.locator("html").get_attribute("data-theme") == "dark"


def test_served_pages_take_in_news(browser: Any, tmp_path: Path) -> None:
    """Poll by hand: the page's own clock is set forward instead of waiting for it."""
    runs, site = tmp_path / "runs", tmp_path / "site"
    small(runs)
    server = SiteServer(site, "127.0.0.1", 0)
    server.edition = build_site(runs, site, live=True).edition
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    context = browser.new_context()
    wrong: list[str] = []
    try:
        page = context.new_page()
        page.on("console", lambda message: wrong.append(message.text))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.clock.install()
        with page.expect_response("**/edition"):
            page.goto(server.url)
        assert page.locator(ROWS).count() == 1
        small(runs, 1)
        server.edition = build_site(runs, site, live=True).edition
        page.clock.run_for(3500)
        page.locator(ROWS).nth(1).wait_for()
        for day in range(2, 10):
            small(runs, day)
        server.edition = build_site(runs, site, live=True).edition
        page.clock.run_for(3500)
        page.locator(ROWS).nth(9).wait_for()
        page.locator("[data-search]").fill("nightly")
        small(runs, 11)
        server.edition = build_site(runs, site, live=True).edition
        page.clock.run_for(3500)
        page.locator("#news").wait_for()  # what was typed is not thrown away
        assert page.locator(ROWS).count() == 10
        page.locator("#news").click()
        page.locator(ROWS).nth(10).wait_for()
        assert wrong == []
    finally:
        context.close()
        server.shutdown()
        thread.join()
        server.server_close()
