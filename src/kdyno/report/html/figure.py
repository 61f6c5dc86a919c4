# SPDX-License-Identifier: MIT
"""A chart on the page, drawn for wide and for narrow windows; the style sheet shows one of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from kdyno.report.charts.vega import Spec, drawn
from kdyno.report.show.markup import Html, tag

T = TypeVar("T")


def drawings(sizes: Mapping[str, T], chart: Callable[[T], Spec], told: str) -> list[Html]:
    """One drawing a size. sizes: ``wide`` and ``narrow`` → what ``chart`` is drawn by."""
    return [
        tag("div", Html(drawn(chart(size), told)), class_=f"drawing {kind}")
        for kind, size in sizes.items()
    ]


def captioned(title: str, told: str, found: list[Html]) -> Html:
    """The drawings below their title and what is told of them, which begins with the title."""
    said = told.removeprefix(f"{title}: ")
    words = tag("figcaption", tag("b", tag("bdi", title)), tag("small", said))
    return tag("figure", words, found)
