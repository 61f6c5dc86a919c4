# SPDX-License-Identifier: MIT
"""Whether runs can be compared at all: the same machine, kind, cases and work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kdyno.errors import ToolError, UsageError
from kdyno.store.manifest import CaseInfo, Manifest
from kdyno.store.run import Run
from kdyno.store.samples import Samples, gather
from kdyno.store.verdict import Flag

MEMORY_TOLERANCE = 0.02
"""A kernel keeps some memory for itself, so the total differs a little between kernels."""

Key = tuple[str, str]


@dataclass(frozen=True)
class Measured:
    """What one run says of one kernel."""

    name: str
    label: str
    """The kernel's release on the host, else the variant's name."""
    kernel: str
    """Digest of the kernel and, on the host, how it was booted."""
    kind: str
    created: str
    """UTC; text order is time order."""
    boots: int
    cases: Mapping[Key, CaseInfo]
    seconds: Mapping[str, float]
    """suite/case → seconds it was measured for, where that is known."""
    machine: Mapping[str, Any]
    variant: str
    outside: bool
    """Of the sandbox, at least one boot."""
    caveats: tuple[Flag, ...]
    """What figures of its machine do not say."""
    counted: bool
    """Its scores are instructions, which nothing that changed meanwhile can touch."""
    data: Samples = field(repr=False)

    def scores_of(self, case: CaseInfo) -> list[float]:
        found = self.data.scores.get((case.suite, case.case, self.variant), {})
        return [found[block] for block in sorted(found)]


def measured(run: Run, variant: str | None = None) -> Measured:
    """The run's kernel: ``variant``, else its baseline."""
    manifest = run.manifest()
    name = variant or manifest.baseline
    if name not in manifest.images and variant:
        raise UsageError(
            f"{run.name} has no variant {name!r}; it has {', '.join(manifest.images) or 'none'}"
        )
    data = gather(run.boots())
    if not data.boots.get(name):
        raise UsageError(
            f"{run.name}: no boot of {name} ended well, so there is nothing to compare"
        )
    guest = manifest.machine
    host = manifest.host
    machine = {"CPU": host.get("cpu_model"), "architecture": host.get("host_arch")}
    machine |= {"memory": host.get("memory_bytes"), "host's CPUs": host.get("cpus")}
    if guest.emulator:
        machine["emulator"] = guest.emulator
    if guest.scattered:
        machine["places of pages"] = "drawn"
    if guest.built:
        machine |= {"guest's memory": guest.memory_bytes, "guest's CPUs": guest.cpus}
    return Measured(
        name=run.name,
        label=label_of(run, manifest, name),
        kernel=manifest.images.get(name, name),
        kind=guest.kind,
        created=manifest.created,
        boots=data.boots[name],
        cases={(case.suite, case.case): case for case in manifest.cases},
        seconds={
            f"{case.suite}/{case.case}": case.seconds for case in manifest.cases if case.seconds
        },
        machine=machine,
        variant=name,
        outside=host.get("sandbox") is False,
        # Of what is said of boots nothing holds where runs are compared.
        caveats=tuple(flag for flag in guest.caveats if flag.kind == "machine"),
        counted=manifest.asked.metric != "time",
        data=data,
    )


def refuse_different(
    runs: Sequence[Measured], *, common: bool
) -> tuple[list[CaseInfo], tuple[str, ...]]:
    """(cases that all runs have, names of those that were left out).

    UsageError for different machines or kinds, and for different cases unless ``common``.
    """
    first = runs[0]
    for other in runs[1:]:
        if other.kind != first.kind:
            raise UsageError(
                f"{first.name} was measured on the machine kind {first.kind!r}, {other.name} on "
                f"{other.kind!r}: their figures have nothing in common"
            )
        for what in dict.fromkeys((*first.machine, *other.machine)):
            value = first.machine.get(what)
            if not _same(value, other.machine.get(what)):
                raise UsageError(
                    f"{first.name} and {other.name} come from different machines: {what} is "
                    f"{_shown(value)} in the one and {_shown(other.machine.get(what))} in the "
                    "other. Kernels are compared on one machine"
                )
    everything = list(dict.fromkeys(key for run in runs for key in run.cases))
    shared = [key for key in everything if all(key in run.cases for run in runs)]
    alike = [key for key in shared if all(_alike(first, run, key) for run in runs)]
    names = ["/".join(key) for key in everything if key not in alike]
    if names and not common:
        why = [
            f"{name}: not the same work" for name in ("/".join(k) for k in shared if k not in alike)
        ]
        why += [f"{'/'.join(key)}: not in all" for key in everything if key not in shared]
        raise UsageError(
            f"the runs did not measure the same cases ({'; '.join(why[:6])}"
            f"{'; …' if len(why) > 6 else ''}). --common compares those that they share"
        )
    if not alike:
        raise UsageError("the runs have no case in common, so there is nothing to compare")
    return [first.cases[key] for key in alike], tuple(names)


def _alike(first: Measured, other: Measured, key: Key) -> bool:
    mine, theirs = first.cases[key], other.cases[key]
    units = (mine.unit, mine.better, mine.scale) == (theirs.unit, theirs.better, theirs.scale)
    # A machine that lacks a case never did its work, which is then not known of old runs.
    known = mine.work and theirs.work
    return units and (mine.work == theirs.work or not known)


def _same(mine: Any, theirs: Any) -> bool:
    if isinstance(mine, float) and isinstance(theirs, float):
        return abs(mine - theirs) <= MEMORY_TOLERANCE * max(mine, theirs)
    return bool(mine == theirs)


def _shown(value: Any) -> str:
    if value is None:
        return "not known"
    if isinstance(value, int | float) and value > 1 << 20:
        return f"{value / (1 << 20):.0f} MiB"
    return f"{value:g}" if isinstance(value, float) else str(value)


def label_of(run: Run, manifest: Manifest, name: str) -> str:
    """The kernel's release on the host, else the variant's name."""
    if manifest.machine.built:
        return name
    try:
        release = run.image(name).get("release")
    except ToolError:
        release = None
    return str(release or manifest.host.get("host_kernel") or name)
