# SPDX-License-Identifier: MIT
"""The parts of the page: every module here, and those that its caller adds; by ORDER.

A section is one module with ORDER, TITLE and ``section(evidence) -> Html | None``: what stands
below its heading, or None where there is nothing to show. It may give TIP, a sentence below the
heading that says how to read it, and SLOW = True where drawing takes long: the light pages of a
site leave such a section out. Its place on the page is called by the module's name, or by ID.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable
from types import ModuleType


def modules(more: Iterable[ModuleType] = ()) -> list[ModuleType]:
    found = [
        importlib.import_module(f"{__name__}.{info.name}")
        for info in pkgutil.iter_modules(__path__)
    ]
    return sorted([*found, *more], key=lambda each: each.ORDER)
