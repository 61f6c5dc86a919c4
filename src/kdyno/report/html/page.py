# SPDX-License-Identifier: MIT
"""Sections, style and script put together into one page."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from html import escape
from importlib.resources import files
from string import Template

from kdyno import __version__
from kdyno.report import plain
from kdyno.report.charts.vega import COLOURS
from kdyno.report.evidence import Evidence
from kdyno.report.html import sections
from kdyno.report.html.data import page_data
from kdyno.report.html.head import head
from kdyno.report.show.markup import Content, Html, data, join, tag


def page(evidence: Evidence, *, light: bool = False, home: str = "") -> str:
    """The whole file. Nothing in it asks for anything from anywhere; the policy sees to it.

    ``light`` leaves out the sections that take a second to draw (those with SLOW); ``home`` is
    the address of the list of runs that this page belongs to.
    """
    parts = []
    links = [tag("a", "← All runs", href=home)] if home else []
    rows = evidence.cut()
    for module in sections.modules(evidence.sections):
        if light and getattr(module, "SLOW", False):
            continue
        found = module.section(rows)
        if found is None:
            continue
        id_ = getattr(module, "ID", module.__name__.rpartition(".")[2])
        tip = getattr(module, "TIP", "")
        told = tag("p", tip, class_="tip") if tip else None
        parts.append(_section(id_, module.TITLE, [told, found]))
        links.append(tag("a", module.TITLE, href=f"#{id_}"))
    body = join([head(evidence, links), tag("main", parts), _foot(evidence, light)])
    return document(
        title=f"{plain.short(evidence.verdict.experiment)} · kdyno",
        body=body,
        skip=("verdicts", "To the verdicts"),
        scripts=file_text("tip.js") + file_text("page.js") + file_text("flame.js"),
        data=data(page_data(rows), "run-data"),
    )


def alone(
    *,
    tool: str,
    title: str,
    heading: str,
    intro: Content,
    sections: Mapping[str, tuple[str, Content]],
    foot: str,
    skip: tuple[str, str],
) -> str:
    """A page of one verb's own: ``sections`` by id, each with its heading and what stands there."""
    switch = tag("button", "Dark", type="button", id="theme", aria_pressed="false")
    links = [tag("a", words, href=f"#{id_}") for id_, (words, _) in sections.items()]
    header = tag(
        "header",
        tag("div", tag("p", tool, class_="experiment"), switch, class_="top"),
        tag("h1", heading),
        intro,
        tag("nav", links, aria_label="Sections"),
    )
    parts = [_section(id_, *of) for id_, of in sections.items()]
    body = join([header, tag("main", parts, id="main"), tag("footer", tag("p", foot))])
    return document(title=title, body=body, skip=skip)


def _section(id_: str, heading: str, content: Content) -> Html:
    named = f"{id_}-title"
    return tag("section", tag("h2", heading, id=named), content, id=id_, aria_labelledby=named)


def document(
    *,
    title: str,
    body: Html,
    skip: tuple[str, str],
    scripts: str = "",
    styles: str = "",
    data: str = "",
    kind: str = "",
    also: str = "",
) -> str:
    """A whole page that may load nothing from anywhere, by its policy.

    skip: id and words of the link past the head. scripts, styles: beyond those of every page.
    kind: a class of the body. also: what the policy allows beyond the page's own style and script.
    """
    style, script = style_sheet() + styles, file_text("frame.js") + scripts
    policy = (
        "default-src 'none'; base-uri 'none'; form-action 'none'; "
        f"style-src {digest(style)}; script-src {digest(script)}{also}"
    )
    return Template(file_text("page.html")).substitute(
        policy=policy,
        version=escape(__version__),
        title=escape(title),
        style=style,
        kind=f' class="{kind}"' if kind else "",
        first=skip[0],
        skip=skip[1],
        body=body,
        data=data,
        script=script,
    )


def _foot(evidence: Evidence, light: bool) -> Html:
    manifest = evidence.manifest
    text = f"Run {plain.name(evidence.name)}"
    if manifest is not None:
        text += f", measured by kdyno {plain.short(manifest.tool)}"
    more = None
    if light:
        command = tag("code", f"kdyno report {plain.name(evidence.name)} -o report.html")
        said = "This page of a site leaves out what takes long to draw (effects, spread, factors): "
        more = tag("p", said, command, " has everything.")
    return tag("footer", tag("p", f"{text}; this page by kdyno {__version__}."), more)


@cache
def file_text(name: str) -> str:
    """A file of this folder."""
    return files(__package__).joinpath(name).read_text("utf-8")


@cache
def style_sheet() -> str:
    """The style of every page: page.css with the palette, which the charts use as well."""
    light, dark = (
        "".join(f"--{name}:{pair[side]};" for name, pair in COLOURS.items()) for side in (0, 1)
    )
    rules = file_text("page.css")
    return (
        f":root{{{light}}}\n"
        f"@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}\n"
        f"@media screen{{:root[data-theme=light]{{{light}}}:root[data-theme=dark]{{{dark}}}}}\n"
        f"{rules}"
    )


def digest(text: str) -> str:
    """What the policy calls a style or a script by."""
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
