# SPDX-License-Identifier: MIT
"""How each kernel was built, and the one command that builds it again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kdyno.report import plain
from kdyno.report.evidence import Evidence
from kdyno.report.show.markup import Html, block, name, tag

ORDER = 85
TITLE = "Builds"

_DIGEST_SHOWN = 16


def section(evidence: Evidence) -> Html | None:
    if not evidence.builds:
        return None
    return tag("div", [_build(*item) for item in evidence.builds.items()], class_="builds")


def _build(variant: str, facts: Mapping[str, Any]) -> Html:
    inputs = facts.get("inputs")
    inputs = inputs if isinstance(inputs, Mapping) else {}
    known = {
        "version": facts.get("version"),
        "source": facts.get("source"),
        "architecture": inputs.get("arch"),
        "compiler": _last(inputs.get("compiler")),
        "memory routines": _routines(facts),
        "flags": inputs.get("cflags"),
        "image": str(facts.get("digest") or "")[:_DIGEST_SHOWN],
        "objects built": facts.get("objects"),
        "seconds to build": facts.get("seconds"),
        "changed files": ", ".join(map(str, _items(facts.get("changed_files"))[:20])),
        "unreadable": facts.get("unreadable"),
    }
    rows = [
        tag("div", tag("dt", key), tag("dd", plain.sentence(str(value))))
        for key, value in known.items()
        if value not in (None, "", [])
    ]
    parts = [tag("h3", name(variant)), tag("dl", rows, class_="facts-list")]
    for title, text in (
        ("Build it again", str(facts.get("build_again") or "")),
        ("What was run", "\n".join(map(str, _items(facts.get("commands"))))),
        ("Configuration asked for", "\n".join(map(str, _items(inputs.get("config"))))),
    ):
        if text:
            parts.append(tag("details", tag("summary", title), block(text)))
    return tag("article", parts)


def _routines(facts: Mapping[str, Any]) -> str:
    """``memcpy fsrm``; with the reason where a routine was asked for as the best."""
    chosen, best = (facts.get(key) for key in ("routines", "best"))
    if not isinstance(chosen, Mapping):
        return ""
    reasons = best if isinstance(best, Mapping) else {}
    return ", ".join(
        f"{function} {routine}" + (f" ({reasons[function]})" if function in reasons else "")
        for function, routine in chosen.items()
    )


def _items(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _last(value: object) -> object:
    """The compiler is kept as its command and what it says of itself."""
    return value[-1] if isinstance(value, list) and value else value
