# SPDX-License-Identifier: MIT
"""Runs beside each other: whether two kernels of several can be compared at all (the same machine,
kind, cases and work), and runs of one question on several machines joined to one run."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

from kdyno.errors import ToolError, UsageError
from kdyno.store.boot import BootRecord
from kdyno.store.manifest import CaseInfo, Manifest
from kdyno.store.reading import Facts
from kdyno.store.run import Run, RunWriter, create_run
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
        scores = self.data.scores.get((*case.key, self.variant), {})
        return [scores[block] for block in sorted(scores)]


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
        cases={case.key: case for case in manifest.cases},
        seconds={
            f"{case.suite}/{case.case}": case.seconds for case in manifest.cases if case.seconds
        },
        machine=machine,
        variant=name,
        outside=host.get("sandbox") is False,
        # Caveats about boots do not apply where runs are compared.
        caveats=tuple(flag for flag in guest.caveats if flag.kind == "machine"),
        counted=manifest.asked.metric != "time",
        data=data,
    )


def refuse_different(
    runs: Sequence[Measured], *, common: bool
) -> tuple[list[CaseInfo], tuple[str, ...]]:
    """(cases that all runs have, names of those that were left out).

    UsageError for different machines or kinds, and for different cases unless ``common``."""
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
                    f"{_quoted(value)} in the one and {_quoted(other.machine.get(what))} in the "
                    "other. Kernels are compared on one machine"
                )
    everything = list(dict.fromkeys(key for run in runs for key in run.cases))
    shared = [key for key in everything if all(key in run.cases for run in runs)]
    alike = [key for key in shared if all(_alike(first.cases[key], run.cases[key]) for run in runs)]
    names = ["/".join(key) for key in everything if key not in alike]
    if names and not common:
        why = [f"{'/'.join(key)}: not the same work" for key in shared if key not in alike]
        why += [f"{'/'.join(key)}: not in all" for key in everything if key not in shared]
        raise UsageError(
            f"the runs did not measure the same cases ({'; '.join(why[:6])}"
            f"{'; …' if len(why) > 6 else ''}). --common compares those that they share"
        )
    if not alike:
        raise UsageError("the runs have no case in common, so there is nothing to compare")
    return [first.cases[key] for key in alike], tuple(names)


def _alike(one: CaseInfo, other: CaseInfo) -> bool:
    if (one.unit, one.better, one.scale) != (other.unit, other.better, other.scale):
        return False
    # A machine that lacks a case never did its work, which is then not known of old runs.
    return one.work == other.work or not (one.work and other.work)


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return abs(one - other) <= MEMORY_TOLERANCE * max(one, other)
    return bool(one == other)


def _quoted(value: Any) -> str:
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


def join(runs: Sequence[Run], folder: Path) -> RunWriter:
    """A new run in ``folder`` with all their boots, not judged yet.

    Block and index of a boot are new, and it says which machine it ran on. Damaged boots are left
    behind. The same runs give a run of the same identity. UsageError where they differ in more
    than the machine, or one of them is there twice or is still being measured."""
    manifests = [run.manifest() for run in runs]
    for run in runs:
        if run.is_being_written():
            raise UsageError(f"{run.name} is still being measured; join it when that has ended")
    _refuse_different(runs, manifests)
    names = [machine_of(run, manifest) for run, manifest in zip(runs, manifests, strict=True)]
    manifest = _joined(runs, manifests, names)
    # Until all is there it is a run that was never finished.
    begun = manifest.model_copy(update={"state": "running", "stopped": ""})
    writer = create_run(folder, runs[0].experiment_text(), begun)
    try:
        for variant in manifest.images:
            writer.save_image(variant, runs[0].image(variant))
        index = block = 0
        for run, machine in zip(runs, names, strict=True):
            places: dict[int, int] = {}
            for boot in run.boots():
                if not isinstance(boot, BootRecord):
                    continue
                place = places.setdefault(boot.block, block + len(places))
                about = {"index": index, "block": place, "machine": machine}
                moved = boot.model_copy(update={"job": boot.job.model_copy(update=about)})
                writer.add_boot(moved, run.console(boot))
                index += 1
            block += len(places)
        writer.save_manifest(manifest)
    except BaseException:
        writer.close()
        shutil.rmtree(writer.run.path, ignore_errors=True)
        raise
    return writer


def _joined(runs: Sequence[Run], manifests: Sequence[Manifest], names: Sequence[str]) -> Manifest:
    first, hosts = manifests[0], [manifest.host for manifest in manifests]
    seeds = "\n".join(f"{manifest.created} {manifest.seed}" for manifest in manifests)
    caveats = dict.fromkeys(flag for manifest in manifests for flag in manifest.machine.caveats)
    return first.model_copy(
        update={
            "created": _after(max(manifest.created for manifest in manifests)),
            "seed": int.from_bytes(sha256(seeds.encode()).digest()[:4], "big"),
            "host": common_facts(hosts),
            "machine": first.machine.model_copy(update={"caveats": tuple(caveats)}),
            "machines": dict(zip(names, hosts, strict=True)),
            "joined": tuple(run.name for run in runs),
            "blocks": tuple(block for manifest in manifests for block in manifest.blocks),
            "failed": {name: why for own in manifests for name, why in own.failed.items()},
            "overrides": {},
            "state": "finished",
            "stopped": f"{len(runs)} runs were joined",
        }
    )


def _after(created: str) -> str:
    """A microsecond later, so that what was joined is newer than all that it came from."""
    try:
        later = datetime.fromisoformat(created) + timedelta(microseconds=1)
    except (ValueError, OverflowError):
        return created
    return later.isoformat(timespec="microseconds")


def common_facts(hosts: Sequence[Facts]) -> Facts:
    """What all hosts say alike; CPU models side by side, and no sandbox where one had none."""
    facts = {
        name: value
        for name, value in hosts[0].items()
        if all(host.get(name) == value for host in hosts)
    }
    models = sorted({str(host.get("cpu_model") or "unknown CPU") for host in hosts})
    facts["cpu_model"] = " + ".join(models)[:1000]
    facts["sandbox"] = all(host.get("sandbox") is not False for host in hosts)
    return facts


def machine_of(run: Run, manifest: Manifest) -> str:
    """A name for the machine of a run: equal where it was the same one.

    Where the host had no machine-id, a run counts as a machine of its own."""
    host = manifest.host
    model = str(host.get("cpu_model") or "unknown CPU")[:100]
    which = host.get("node") or host.get("machine_id") or run.name
    return f"{model} {which}"[:200]


def _refuse_different(runs: Sequence[Run], manifests: Sequence[Manifest]) -> None:
    if len(runs) < 2:
        raise UsageError("join takes two runs or more")
    first = manifests[0]
    names: dict[tuple[str, int], str] = {}
    for run, manifest in zip(runs, manifests, strict=True):
        if manifest.joined or manifest.machines:
            raise UsageError(f"{run.name} was put together itself; join the runs that it came from")
        same = names.setdefault((manifest.created, manifest.seed), run.name)
        if same != run.name or [other.path for other in runs].count(run.path) > 1:
            raise UsageError(f"{run.name} is the same run as {same}: it would count twice")
        if what := difference(first, manifest):
            raise UsageError(
                f"{runs[0].name} and {run.name} differ in more than where they ran: the "
                f"{what} of the one {'are' if what[-1] == 's' else 'is'} not the other's"
            )


def difference(one: Manifest, other: Manifest) -> str:
    """What beside the machine two runs differ in, as a noun; empty where nothing does."""

    def facts(run: Manifest) -> dict[str, object]:
        guest = run.machine
        return {
            "experiment": run.experiment,
            "baseline": run.baseline,
            "kernels": dict(run.images),
            "cases": [(c.suite, c.case, c.unit, c.better, c.scale, c.work) for c in run.cases],
            "question": run.asked,
            "machine": (guest.kind, guest.memory_bytes, guest.cpus, guest.emulator),
        }

    others = facts(other)
    return next((what for what, value in facts(one).items() if value != others[what]), "")
