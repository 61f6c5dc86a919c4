# SPDX-License-Identifier: MIT
"""The machine that it was measured on, by its own word at the start of the run."""

from __future__ import annotations

from kdyno.report import plain
from kdyno.report.evidence import Evidence
from kdyno.report.show.markup import Html, join, tag

ORDER = 80
TITLE = "Machine"

_RARELY = "vulnerability_"


def section(evidence: Evidence) -> Html | None:
    host = evidence.manifest.host if evidence.manifest else {}
    first = {key: value for key, value in host.items() if not key.startswith(_RARELY)}
    rest = {key: value for key, value in host.items() if key.startswith(_RARELY)}
    if not first and not rest:
        return None
    more = None
    if rest:
        summary = tag("summary", "Processor vulnerabilities and what is done about them")
        more = tag("details", summary, facts(rest))
    return join([facts(first), more])


def facts(found: dict[str, float | bool | str | None]) -> Html:
    """Keys and values as a list of definitions."""
    return tag(
        "dl",
        [
            tag("div", tag("dt", _named(key)), tag("dd", _shown(key, value)))
            for key, value in found.items()
        ],
        class_="facts-list",
    )


def _named(key: str) -> str:
    text = plain.name(key).removeprefix(_RARELY).removesuffix("_bytes")
    return text.replace("_", " ")


def _shown(key: str, value: float | bool | str | None) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None:
        return "not known"
    if isinstance(value, str):
        return plain.sentence(value)
    if key.endswith("_bytes"):
        return _bytes(value)
    return f"{value:.10g}"


def _bytes(value: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.4g} {unit}"
        value /= 1024
    return f"{value:.4g} TiB"
