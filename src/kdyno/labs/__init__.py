# SPDX-License-Identifier: MIT
"""Laboratories beside the loop, each with its work, what it shows, and its verbs.

A laboratory may bring ``section.py`` to the page of a run, and ``export.py`` to its formats. The
report stands below and knows of neither: whoever calls it hands them over."""

from __future__ import annotations

import pkgutil
from importlib import import_module
from types import ModuleType


def sections() -> list[ModuleType]:
    """For the page of a run: see ``report.page``."""
    return _modules("section")


def formats() -> list[ModuleType]:
    """For a run to be exported in: see ``report.exporters``."""
    return _modules("export")


def _modules(name: str) -> list[ModuleType]:
    """``LABORATORY.name`` of every laboratory that has it."""
    packages = [import_module(f"{__name__}.{info.name}") for info in pkgutil.iter_modules(__path__)]
    return [
        import_module(f"{package.__name__}.{name}")
        for package in packages
        if name in {info.name for info in pkgutil.iter_modules(package.__path__)}
    ]
