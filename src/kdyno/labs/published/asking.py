# SPDX-License-Identifier: MIT
"""What is asked today about a claim: ``[[check.today]]`` of an article's file."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from kdyno.labs.published.article import Ask
from kdyno.reading.checked import FromFile, wrong

What = Literal[
    "effect", "group", "factor", "profile", "share", "sizes", "places", "reasons", "copies", "forms"
]
RUNS: dict[str, tuple[str, ...]] = {
    "effect": ("run", "suite", "case"),
    "group": ("run", "suite", "case"),
    "factor": ("run", "suite", "case", "factor"),
    "profile": ("run", "function"),
    "share": ("run", "function"),
}
"""What a run answers, and the keys that it takes."""
FILES: dict[str, tuple[str, ...]] = {
    "sizes": ("routine", "against"),
    "places": (),
    "reasons": ("reason",),
    "copies": ("bytes",),
    "forms": ("job", "bytes"),
}
"""The same of files that other verbs write."""
_ALSO: dict[str, tuple[str, ...]] = {
    "effect": ("variant",),
    "group": ("variant",),
    "factor": ("level", "other"),
    "profile": ("variant",),
    "sizes": ("bytes",),
    "places": ("flags",),
    "reasons": ("flags",),
}
_NEEDED = RUNS | FILES


class Asking(FromFile):
    """One ``[[check.today]]``. Names may be patterns, as in a shell. See docs/comparing.md."""

    what: What = "effect"
    run: str = ""
    suite: str = ""
    case: str = ""
    variant: str = ""
    factor: str = ""
    level: str = ""
    other: str = ""
    function: str = ""
    routine: str = ""
    against: str = ""
    flags: str = ""
    reason: str = ""
    job: str = ""
    instead: str = ""
    bytes: list[int] = Field(default_factory=list)

    @model_validator(mode="after")
    def _has_what_it_needs(self) -> Asking:
        given = self.model_fields_set - {"what", "instead"}
        needed = _NEEDED[self.what]
        allowed = (*needed, *_ALSO.get(self.what, ()))
        for key in needed:
            if key not in given:
                raise wrong(key, f'is missing: what = "{self.what}" needs it')
        for key in sorted(given):
            if key not in allowed:
                raise wrong(key, f'does not go with what = "{self.what}"', None, allowed)
        return self

    def ask(self) -> Ask:
        """As a value: what was left out stands for all."""
        data = self.model_dump()
        every = {key: data[key] or "*" for key in ("variant", "level", "other", "flags")}
        return Ask(**(data | every | {"bytes": tuple(self.bytes)}))
