# SPDX-License-Identifier: MIT
"""The experiment that holds a tuned routine against the stock kernel."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from kdyno.errors import UsageError

SUITE = "unixbench"
CASES = ("fscopy-256", "fscopy-1024", "fscopy-4096", "pipe", "dhry2reg")


def experiment_text(routine: Path, source: str, cases: Sequence[str] = ()) -> str:
    """A whole experiment file, to lie beside ``routine`` (FILE.S).

    cases: ``CASE`` or ``SUITE/CASE``; UsageError for an empty part.
    """
    suites: dict[str, list[str]] = {}
    for each in cases or CASES:
        suite, slash, case = each.rpartition("/")
        if not case or (slash and not suite):
            raise UsageError(f"--case {each!r}: give CASE of {SUITE}, or SUITE/CASE")
        suites.setdefault(suite or SUITE, []).append(case)
    blocks = [
        "\n".join(
            [
                "[[suite]]",
                f"name = {json.dumps(suite)}",
                f"cases = {json.dumps(names)}",
                "seconds = 0.25",
                "",
            ]
        )
        for suite, names in suites.items()
    ]
    return "\n".join(
        [
            "# SPDX-License-Identifier: MIT",
            "# Written by kdyno memcpy tune --verify.",
            f"name = {json.dumps('verify-' + routine.stem[:40])}",
            'question = "Does the routine tuned to these copies make the kernel faster?"',
            'baseline = "stock"',
            "",
            "[kernel]",
            f"source = {json.dumps(source)}",
            'arch = "um"',
            'config = ["bench"]',
            "",
            "[variant.stock]",
            "[variant.tuned]",
            f"memcpy = {json.dumps(routine.name)}",
            "",
            "[machine]",
            'kind = "uml"',
            "",
            *blocks,
            "[measure]",
            'precision = "0.5%"',
            "max_boots = 40",
            "max_minutes = 10",
            'equivalent = "1%"',
            "",
        ]
    )
