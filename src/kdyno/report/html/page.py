# SPDX-License-Identifier: MIT
"""Sections, style and script put together into one page."""

from __future__ import annotations

from base64 import b64encode
from functools import cache
from hashlib import sha256
from html import escape
from importlib.resources import files
from string import Template

from kdyno import __version__
from kdyno.report import plain
from kdyno.report.charts.palette import css_rules
from kdyno.report.evidence import Evidence
from kdyno.report.html import sections
from kdyno.report.html.data import page_data
from kdyno.report.html.head import head
from kdyno.report.html.markup import Html, data, join, tag


def page(evidence: Evidence) -> str:
    """The whole file. Nothing in it asks for anything from anywhere; the policy sees to it."""
    parts = []
    links = []
    for module in sections.modules():
        found = module.section(evidence)
        if found is None:
            continue
        id_ = module.__name__.rpartition(".")[2]
        tip = getattr(module, "TIP", "")
        parts.append(
            tag(
                "section",
                tag("h2", module.TITLE, id=f"{id_}-title"),
                tag("p", tip, class_="tip") if tip else None,
                found,
                id=id_,
                aria_labelledby=f"{id_}-title",
            )
        )
        links.append(tag("a", module.TITLE, href=f"#{id_}"))
    body = join([head(evidence, links), tag("main", parts), _foot(evidence)])
    style, script = _style(), _file("page.js")
    policy = (
        "default-src 'none'; base-uri 'none'; form-action 'none'; "
        f"style-src {_hash(style)}; script-src {_hash(script)}"
    )
    return Template(_file("page.html")).substitute(
        policy=policy,
        version=escape(__version__),
        title=escape(f"{plain.short(evidence.verdict.experiment)} · kdyno"),
        style=style,
        body=body,
        data=data(page_data(evidence), "run-data"),
        script=script,
    )


def _foot(evidence: Evidence) -> Html:
    manifest = evidence.manifest
    text = f"Run {plain.name(evidence.name)}"
    if manifest is not None:
        text += f", measured by kdyno {manifest.tool}"
    return tag("footer", tag("p", f"{text}; this page by kdyno {__version__}."))


@cache
def _file(name: str) -> str:
    return files(__package__).joinpath(name).read_text("utf-8")


@cache
def _style() -> str:
    """The style sheet with the palette, which the charts use as well."""
    light, dark = css_rules(dark=False), css_rules(dark=True)
    rules = _file("page.css")
    return (
        f":root{{{light}}}\n"
        f"@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}\n"
        f"@media screen{{:root[data-theme=light]{{{light}}}:root[data-theme=dark]{{{dark}}}}}\n"
        f"{rules}"
    )


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
