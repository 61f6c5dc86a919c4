# SPDX-License-Identifier: MIT
"""Laboratories beside the loop, each with its work, what it shows, and its verbs.

The report stands below and knows of none: whoever calls it hands over what a laboratory brings to
the page of a run and to its formats."""

from __future__ import annotations

from types import ModuleType


def sections() -> list[ModuleType]:
    """For the page of a run: see ``report.page``."""
    from kdyno.labs.profile import report

    return [report]


def formats() -> list[ModuleType]:
    """For a run to be exported in: see ``report.exporters``."""
    return sections()
