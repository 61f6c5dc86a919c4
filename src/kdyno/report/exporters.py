# SPDX-License-Identifier: MIT
"""Which exporters there are: modules of this package, and those that the caller adds.

An exporter is one module with NAME, HELP, SUFFIX and, defined in it, one of

- ``export(verdict) -> str``: it needs the verdict only;
- ``export_run(evidence) -> str | bytes``: it needs the boots as well. It must cope with evidence
  that is a verdict and nothing else. Where it gives bytes the module says IS_TEXT = False.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

import kdyno.report
from kdyno.errors import UsageError
from kdyno.store.verdict import Verdict

if TYPE_CHECKING:
    from kdyno.report.evidence import Evidence


@dataclass(frozen=True)
class Exporter:
    name: str
    help: str
    suffix: str
    """With the dot; may have two (``.speedscope.json``)."""
    needs_run: bool
    """It shows boots: ``export`` wants Evidence, and makes do with a bare verdict."""
    module: ModuleType
    is_text: bool = True

    def export(self, subject: Verdict | Evidence) -> str | bytes:
        """Text, or bytes for formats that are no text."""
        from kdyno.report.evidence import Evidence

        evidence = subject if isinstance(subject, Evidence) else Evidence(subject)
        found: str | bytes
        if self.needs_run:
            found = self.module.export_run(evidence)
        else:
            found = self.module.export(evidence.verdict)
        return found


def exporters(more: Iterable[ModuleType] = ()) -> dict[str, Exporter]:
    """Name → exporter, by name."""
    found = {}
    own = [info.name for info in pkgutil.iter_modules(kdyno.report.__path__)]
    for module in (*(import_module(f"kdyno.report.{name}") for name in own), *more):
        needs_run = _defines(module, "export_run")
        if needs_run or _defines(module, "export"):
            is_text = getattr(module, "IS_TEXT", True)
            found[module.NAME] = Exporter(
                module.NAME, module.HELP, module.SUFFIX, needs_run, module, is_text
            )
    return dict(sorted(found.items()))


def _defines(module: ModuleType, name: str) -> bool:
    """One that is only imported there is another module's."""
    return getattr(getattr(module, name, None), "__module__", "") == module.__name__


def exporter(name: str, more: Iterable[ModuleType] = ()) -> Exporter:
    """The exporter of that name, or of a file's suffix (``.md``)."""
    found = exporters(more)
    for each in found.values():
        if name in (each.name, each.suffix):
            return each
    raise UsageError(f"{name}: no such format; there are {', '.join(found)}")


def exporter_for(file: str, more: Iterable[ModuleType] = ()) -> Exporter:
    """The exporter that a file's name asks for: the one with the longest suffix that fits."""
    found = exporters(more)
    fitting = [each for each in found.values() if file.lower().endswith(each.suffix)]
    if fitting:
        return max(fitting, key=lambda each: len(each.suffix))
    known = ", ".join(f"{each.suffix} {name}" for name, each in found.items())
    raise UsageError(f"-o {file}: which format? Add -f FORMAT, or end the name in one of: {known}")
