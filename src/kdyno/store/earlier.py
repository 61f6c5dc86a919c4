# SPDX-License-Identifier: MIT
"""Runs of kdyno 0.1.0: what their manifest does not say, from what else they have.

The only place that reads the stored experiment, the boots' jobs or the first verdict for what a
manifest says today.
"""

from __future__ import annotations

import re
import tomllib
from contextlib import suppress
from itertools import product
from typing import Any

from kdyno.errors import KdynoError
from kdyno.store.boot import BootRecord
from kdyno.store.manifest import Asked, CaseInfo, MachineInfo, Manifest, VariantInfo
from kdyno.store.run import Run
from kdyno.store.verdict import Flag, Verdict
from kdyno.store.work import Work, works_in

_CAVEATS = {
    "uml": Flag(
        kind="machine",
        text="measured under User Mode Linux: comparisons of kernel code carry over, absolute "
        "figures and the cost of entering the kernel do not",
    ),
    "host": Flag(
        kind="not-rebooted",
        text="every repetition ran on one and the same boot of the host's kernel: the spread "
        "between boots is not in these intervals",
    ),
}
"""As 0.1.0 said them in its verdicts."""
_PROBED = ("ptrace-mode", "mixed-modes")
_LACKING = re.compile(r" not installed(: |$)|^it compiles a kernel source: ")
"""Why a case was left out of the job, other than by the guest's own word."""
_MEMORY = re.compile(r"(\d{1,12})([KMGT])(?:i?B)?", re.IGNORECASE)
_SHIFTS = {"K": 10, "M": 20, "G": 30, "T": 40}
_QUICK_PRECISION = 0.02


def whole_manifest(run: Run) -> Manifest:
    """The run's manifest with everything that today's has.

    ToolError when the manifest, or the experiment of a run of 0.1.0, cannot be read.
    """
    manifest = run.manifest()
    found: dict[str, Any] = {}
    if manifest.machine is None or manifest.asked is None:
        table, first = _experiment(run), _first_verdict(run)
        found["machine"] = _machine(table, first)
        found["variants"] = _variants(table, manifest, first)
        found["asked"] = _asked(table, manifest, first)
    if not all(case.work for case in manifest.cases):
        found["cases"] = _cases(run, manifest)
    return manifest.model_copy(update=found)


def _experiment(run: Run) -> dict[str, Any]:
    try:
        return tomllib.loads(run.experiment_text())
    except (tomllib.TOMLDecodeError, RecursionError):
        return {}


def _first_verdict(run: Run) -> Verdict | None:
    """As 0.1.0 wrote it; a later judgement may have been asked for other thresholds."""
    with suppress(KdynoError):
        found = run.first_verdict() or run.verdict()
        return found if found is not None and not found.tool else None
    return None


def _part(table: dict[str, Any], key: str) -> dict[str, Any]:
    found = table.get(key)
    return found if isinstance(found, dict) else {}


def _machine(table: dict[str, Any], first: Verdict | None) -> MachineInfo:
    said = _part(table, "machine")
    kind, cpus = said.get("kind", "uml"), said.get("cpus", 1)
    kind = kind if isinstance(kind, str) and 0 < len(kind) <= 200 else "uml"
    match = _MEMORY.fullmatch(str(said.get("memory", "1G")).strip())
    memory_bytes = int(match[1]) << _SHIFTS[match[2].upper()] if match else 1 << 30
    probed = [flag for flag in first.flags if flag.kind in _PROBED] if first else []
    found = MachineInfo(
        kind=kind,
        memory_bytes=min(memory_bytes, 1 << 62),
        cpus=cpus if isinstance(cpus, int) and cpus > 0 else 1,
        caveats=(*([_CAVEATS[kind]] if kind in _CAVEATS else []), *probed),
    )
    return found.model_copy(update={"builds": found.built})


def _copy_of(manifest: Manifest, first: Verdict | None) -> str | None:
    name = f"{manifest.baseline}.copy"
    return first.copy_of_baseline if first else name if name in manifest.images else None


def _variants(
    table: dict[str, Any], manifest: Manifest, first: Verdict | None
) -> dict[str, VariantInfo]:
    copy = _copy_of(manifest, first)
    names = [manifest.baseline, *(first.boots if first else manifest.images), *manifest.failed]
    levels = _levels(table, {name for case in manifest.cases for name in case.levels})
    return {
        name: VariantInfo(levels=levels.get(name, {}))
        for name in dict.fromkeys(names)
        if name != copy
    }


def _levels(table: dict[str, Any], of_cases: set[str]) -> dict[str, dict[str, str]]:
    """Name of a cell → its levels: cells are called VARIANT+LEVEL+LEVEL, in the file's order."""
    factors = {
        str(name): [str(level) for level in levels]
        for name, levels in _part(table, "factor").items()
        if name not in of_cases and 0 < len(name) <= 200 and isinstance(levels, dict | list)
    }
    explicit = list(_part(table, "variant"))
    if not factors or not all(levels and all(levels) for levels in factors.values()):
        return {}
    dimensions = [explicit] if explicit else []
    found = {}
    for cell in product(*dimensions, *factors.values()):
        named = zip(factors, cell[len(dimensions) :], strict=True)
        of_variants = {"variant": cell[0]} if len(explicit) > 1 else {}
        found["+".join(cell)] = {**of_variants, **dict(named)}
        if len(found) > 10_000:
            return {}
    return found


def _asked(table: dict[str, Any], manifest: Manifest, first: Verdict | None) -> Asked:
    copy = _copy_of(manifest, first)
    if first is not None:
        with suppress(ValueError):  # a verdict may say what no experiment can ask
            return Asked(
                question=first.question,
                confidence=first.confidence,
                equivalent=first.equivalent,
                precision=first.precision,
                copy_of_baseline=copy,
            )
    said, changed = _part(table, "measure"), manifest.overrides
    precision = _share(said.get("precision"), 0.005)
    if changed.get("quick"):
        precision = max(precision, _QUICK_PRECISION)
    return Asked(
        question=str(table.get("question", "")),
        confidence=_share(said.get("confidence"), 0.95, 0.5, 0.9999),
        equivalent=_share(said.get("equivalent"), 0.01),
        precision=_share(changed.get("precision"), precision),
        copy_of_baseline=copy,
    )


def _share(value: Any, default: float, least: float = 0.0, most: float = 1.0) -> float:
    try:
        found = float(str(value).removesuffix("%")) / (100 if str(value).endswith("%") else 1)
    except ValueError:
        return default
    return found if 0 < found < 1 and least <= found <= most else default


def _cases(run: Run, manifest: Manifest) -> tuple[CaseInfo, ...]:
    """The cases with their work and seconds, by the job of the first boot that ended well."""
    boots = (boot for boot in run.boots() if isinstance(boot, BootRecord) and boot.ok)
    boot = next(boots, None)
    if boot is None:
        return manifest.cases
    done = _matched(works_in(boot.job.job), manifest.cases, boot)
    return tuple(
        case.model_copy(update={"work": work.digest, "seconds": work.seconds}) if work else case
        for case, work in zip(manifest.cases, done, strict=True)
    )


def _matched(works: list[Work], cases: tuple[CaseInfo, ...], boot: BootRecord) -> list[Work | None]:
    """For each case its work. A job leaves out what the machine lacks; such a case was skipped."""
    nothing: list[Work | None] = [None] * len(cases)
    skipped = {(it.suite, it.case): it.text for it in boot.samples if it.status == "skip"}
    without = [(case.suite, case.case) for case in cases if (case.suite, case.case) in skipped]
    missing = len(cases) - len(works)
    if len(without) != missing:  # the guest may skip, too, what was in its job
        without = [key for key in without if _LACKING.search(skipped[key])]
    if missing == 0:
        without = []
    if len(without) != missing:
        return nothing
    rest = iter(works)
    return [None if (case.suite, case.case) in without else next(rest) for case in cases]
