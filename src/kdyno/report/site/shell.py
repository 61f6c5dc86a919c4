# SPDX-License-Identifier: MIT
"""What all pages of a site have in common: head, ways between them, policy."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from kdyno import __version__
from kdyno.report.html.page import document, file_text
from kdyno.report.show.markup import Content, data, join, tag

PAGES = {"index.html": "Runs", "compare.html": "Compare", "history.html": "History"}


def shell(
    title: str,
    here: str,
    content: Content,
    *,
    intro: Content = None,
    scripts: Sequence[str] = (),
    values: Any = None,
    up: str = "",
    live: bool = False,
) -> str:
    """A whole page. ``here``: its file, for the ways to the others; ``up``: ``../`` in a folder.

    ``values`` go to the page's scripts as JSON. ``live`` pages ask their server now and then
    whether there is news; all others ask nobody for anything.
    """
    links = [
        tag("a", text, href=f"{up}{file}", aria_current="page" if file == here else None)
        for file, text in PAGES.items()
    ]
    switch = tag("button", "Dark", type="button", id="theme", aria_pressed="false")
    news = tag("button", "News: load again", type="button", id="news", hidden=True)
    name = tag("p", "kdyno", class_="experiment")
    top = tag("div", name, news if live else None, switch, class_="top")
    body = join(
        [
            tag(
                "header",
                top,
                tag("h1", title),
                intro,
                tag("nav", links, aria_label="Pages"),
            ),
            tag("main", content, id="main"),
            tag("footer", tag("p", f"Made by kdyno {__version__}.")),
        ]
    )
    own = (*scripts, *(["live.js"] if live else []))
    return document(
        title=f"{title} · kdyno",
        body=body,
        skip=("main", "To the contents"),
        scripts=file_text("tip.js") + "".join(map(_file, own)),
        styles=_file("site.css"),
        data="" if values is None else data(values, "site-data"),
        kind="site",
        also="; connect-src 'self'" if live else "",
    )


@cache
def _file(name: str) -> str:
    return files(__package__).joinpath(name).read_text("utf-8")
