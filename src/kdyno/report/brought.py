# SPDX-License-Identifier: MIT
"""What laboratories bring to a report: they stand above it, so it asks for them by name."""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType


def brought(name: str) -> list[ModuleType]:
    """The modules ``kdyno.labs.LABORATORY.name``, by laboratory."""
    labs = importlib.import_module("kdyno.labs")
    found = []
    for lab in sorted(info.name for info in pkgutil.iter_modules(labs.__path__)):
        package = importlib.import_module(f"kdyno.labs.{lab}")
        if name in {info.name for info in pkgutil.iter_modules(package.__path__)}:
            found.append(importlib.import_module(f"{package.__name__}.{name}"))
    return found
