# SPDX-License-Identifier: MIT
"""Which exporters there are: every module of this package that has an ``export``.

An exporter is one module with NAME, HELP, SUFFIX and ``export(verdict) -> str``.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass

import kdyno.report
from kdyno.errors import UsageError
from kdyno.store.verdict import Verdict


@dataclass(frozen=True)
class Exporter:
    name: str
    help: str
    suffix: str
    """With the dot."""
    export: Callable[[Verdict], str]


def exporters() -> dict[str, Exporter]:
    """Name → exporter, by name."""
    found = {}
    for info in pkgutil.iter_modules(kdyno.report.__path__):
        module = importlib.import_module(f"kdyno.report.{info.name}")
        if hasattr(module, "export"):
            found[module.NAME] = Exporter(module.NAME, module.HELP, module.SUFFIX, module.export)
    return dict(sorted(found.items()))


def exporter(name: str) -> Exporter:
    """The exporter of that name, or of a file's suffix (``.md``)."""
    found = exporters()
    for each in found.values():
        if name in (each.name, each.suffix):
            return each
    raise UsageError(f"{name}: no such format; there are {', '.join(found)}")
