# SPDX-License-Identifier: MIT
"""The colours of reports, light and dark, under the names that charts and the page use.

Charts hold ``var(--name)`` and so follow the page; a chart on its own gets the light ones.
Pairs of text and ground reach 4.5:1; faster and slower differ in lightness too, for readers who
do not tell green from red.
"""

from __future__ import annotations

import re

COLOURS: dict[str, tuple[str, str]] = {
    "ground": ("#ffffff", "#11151b"),
    "card": ("#f5f7f9", "#1a2029"),
    "line": ("#d9dfe5", "#303a46"),
    "grid": ("#e9edf1", "#252d37"),
    "ink": ("#1a2027", "#e7ebf0"),
    "muted": ("#586370", "#9ba7b5"),
    "accent": ("#1f5fbf", "#7fb0ff"),
    "band": ("#dfe9f7", "#1e3048"),
    "floor": ("#c5ccd4", "#46515e"),
    "baseline": ("#6d7885", "#9aa5b2"),
    "variant": ("#1f5fbf", "#7fb0ff"),
    "faster": ("#0b6e4f", "#5fd6a8"),
    "slower": ("#c4400a", "#ff9a62"),
    "equivalent": ("#3f5fa8", "#9db8f5"),
    "inconclusive": ("#7d6200", "#dcbf57"),
    "failed": ("#9d1c9d", "#ee8bee"),
}

_USE = re.compile(r"var\(--([a-z]+)\)")


def css_rules(dark: bool) -> str:
    """The custom properties, for a rule of the page's style sheet."""
    return "".join(f"--{name}:{pair[dark]};" for name, pair in COLOURS.items())


def resolved(svg: str) -> str:
    """The chart with the light colours in place of the page's variables, to stand alone."""
    return _USE.sub(lambda found: COLOURS[found[1]][0], svg)
