# SPDX-License-Identifier: MIT
"""verdict.json, the contract for other programs."""

from __future__ import annotations

from kdyno.store.verdict import Verdict

NAME = "json"
HELP = "the whole verdict for programs; fields are added over time, never changed"
SUFFIX = ".json"


def export(verdict: Verdict) -> str:
    return verdict.to_json() + "\n"
