# SPDX-License-Identifier: MIT
"""Real Chromium, without a window, on pages made from synthetic runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import needed
import pytest
from site_runs import measured
from synthetic_run import DEMO, HOSTILE_SHAPE, Shape, case

from kdyno.report.evidence import Evidence
from kdyno.report.page import page

LARGE = Shape(
    cases=tuple(case(number, f"suite-{number // 20}") for number in range(100)),
    variants={"mine": 1.02},
    blocks=60,
)
SHAPES = {"demo": DEMO, "hostile": HOSTILE_SHAPE, "large": LARGE, "short": replace(DEMO, blocks=3)}


@pytest.fixture(scope="session")
def evidences(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Evidence]:
    return {
        name: measured(tmp_path_factory.mktemp(f"runs-{name}"), shape)
        for name, shape in SHAPES.items()
    }


@pytest.fixture(scope="session")
def pages(
    evidences: dict[str, Evidence], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    for name, evidence in evidences.items():
        (folder / f"{name}.html").write_text(page(evidence), encoding="utf-8")
    return {name: folder / f"{name}.html" for name in evidences}


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    # Not above: this file is imported by whoever collects the tests, with a browser or without.
    from playwright.sync_api import sync_playwright

    needed.need("chromium")
    with sync_playwright() as engine:
        flags = ["--no-sandbox", "--disable-gpu"]
        chromium = engine.chromium.launch(executable_path=needed.path_of("chromium"), args=flags)
        yield chromium
        chromium.close()


@pytest.fixture
def by_tab() -> Callable[[Any], tuple[int, int]]:
    """``by_tab(page)``: how many controls it shows, and how many of them the Tab key comes to."""

    def walk(page: Any) -> tuple[int, int]:
        controls = page.evaluate_handle(
            "[...document.querySelectorAll('a[href], button, input, select, summary, [tabindex]')]"
            ".filter(el => el.checkVisibility() && el.tabIndex >= 0)"
        )
        wanted = controls.evaluate("all => all.length")
        reached = set()
        for _ in range(wanted + 5):
            page.keyboard.press("Tab")
            reached.add(controls.evaluate("all => all.indexOf(document.activeElement)"))
        return wanted, len(reached - {-1})

    return walk


Visit = Callable[..., Any]


@pytest.fixture
def visit(browser: Any) -> Iterator[Visit]:
    """``visit(address, allowed, width=390)``: the page, which must stay without a complaint or a
    request that is not allowed until the end of the test."""
    contexts: list[Any] = []
    wrong: list[str] = []

    def go(
        address: str, allowed: Callable[[Any], bool], width: int = 1280, scheme: str = "light"
    ) -> Any:
        context = browser.new_context(
            viewport={"width": width, "height": 900},
            color_scheme=scheme,
            reduced_motion="reduce",
            accept_downloads=True,
        )
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: wrong.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: wrong.append(f"error: {error}"))
        page.on("dialog", lambda dialog: (wrong.append("a dialog"), dialog.dismiss()))
        page.on(
            "request",
            lambda request: allowed(request) or wrong.append(f"request: {request.url}"),
        )
        page.goto(address)
        return page

    yield go
    for context in contexts:
        context.close()
    assert wrong == []


@pytest.fixture
def opened(visit: Visit, pages: dict[str, Path]) -> Callable[..., Any]:
    """``opened("demo", width=390)``: a report; it asks for nothing but what it saves itself."""

    def go(name: str, width: int = 1280, scheme: str = "light") -> Any:
        address = pages[name].as_uri()
        return visit(address, lambda value: value.url.startswith((address, "blob:")), width, scheme)

    return go
