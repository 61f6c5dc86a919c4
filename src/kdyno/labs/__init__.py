# SPDX-License-Identifier: MIT
"""Laboratories beside the loop, each with its work, what it shows, and its verbs.

The report stands below and knows of none: whoever calls it hands over what a laboratory brings to
the page of a run and to its formats."""

from __future__ import annotations

from types import ModuleType


def reports() -> list[ModuleType]:
    """Sections for the page of a run, see ``report.page``, which are formats for it to be exported
    in as well, see ``report.exporters``. Each has a ``TIP``, which its section's title shows."""
    from kdyno.labs.profile import report

    return [report]
