# SPDX-License-Identifier: MIT
"""Runs of the same kernels, cases and question on several machines, put together to one run."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from datetime import datetime, timedelta
from hashlib import sha256
from pathlib import Path

from kdyno.errors import UsageError
from kdyno.store.boot import BootRecord
from kdyno.store.manifest import Manifest
from kdyno.store.reading import Facts
from kdyno.store.run import Run, RunWriter, create_run


def join(found: Sequence[Run], runs: Path) -> RunWriter:
    """A new run in the folder ``runs`` with all their boots, not judged yet.

    Block and index of a boot are new, and it says which machine it ran on. Damaged boots are left
    behind. The same runs give a run of the same identity. UsageError where they differ in more
    than the machine, or one of them is there twice or is still being measured.
    """
    manifests = [run.manifest() for run in found]
    for run in found:
        if run.is_being_written():
            raise UsageError(f"{run.name} is still being measured; join it when that has ended")
    _refuse_different(found, manifests)
    names = [machine_of(run, it) for run, it in zip(found, manifests, strict=True)]
    manifest = _joined(found, manifests, names)
    # Until all is there it is a run that was never finished.
    begun = manifest.model_copy(update={"state": "running", "stopped": ""})
    writer = create_run(runs, found[0].experiment_text(), begun)
    try:
        for variant in manifest.images:
            writer.save_image(variant, found[0].image(variant))
        index = block = 0
        for run, machine in zip(found, names, strict=True):
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


def _joined(found: Sequence[Run], manifests: Sequence[Manifest], names: Sequence[str]) -> Manifest:
    first = manifests[0]
    seed = sha256("\n".join(f"{it.created} {it.seed}" for it in manifests).encode()).digest()
    caveats = dict.fromkeys(flag for it in manifests for flag in it.machine.caveats)
    return first.model_copy(
        update={
            "created": _after(max(it.created for it in manifests)),
            "seed": int.from_bytes(seed[:4], "big"),
            "host": common_facts([it.host for it in manifests]),
            "machine": first.machine.model_copy(update={"caveats": tuple(caveats)}),
            "machines": {name: it.host for name, it in zip(names, manifests, strict=True)},
            "joined": tuple(run.name for run in found),
            "blocks": tuple(block for it in manifests for block in it.blocks),
            "failed": {name: why for it in manifests for name, why in it.failed.items()},
            "overrides": {},
            "state": "finished",
            "stopped": f"{len(found)} runs were joined",
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
    found = {
        name: value
        for name, value in hosts[0].items()
        if all(host.get(name) == value for host in hosts)
    }
    models = sorted({str(host.get("cpu_model") or "unknown CPU") for host in hosts})
    found["cpu_model"] = " + ".join(models)[:1000]
    found["sandbox"] = all(host.get("sandbox") is not False for host in hosts)
    return found


def machine_of(run: Run, manifest: Manifest) -> str:
    """A name for the machine of a run: equal where it was the same one.

    Where the host had no machine-id, a run counts as a machine of its own.
    """
    host = manifest.host
    model = str(host.get("cpu_model") or "unknown CPU")[:100]
    which = host.get("node") or host.get("machine_id") or run.name
    return f"{model} {which}"[:200]


def _refuse_different(found: Sequence[Run], manifests: Sequence[Manifest]) -> None:
    if len(found) < 2:
        raise UsageError("join takes two runs or more")
    first = manifests[0]
    seen: dict[tuple[str, int], str] = {}
    for run, manifest in zip(found, manifests, strict=True):
        if manifest.joined or manifest.machines:
            raise UsageError(f"{run.name} was put together itself; join the runs that it came from")
        same = seen.setdefault((manifest.created, manifest.seed), run.name)
        if same != run.name or sum(it.path == run.path for it in found) > 1:
            raise UsageError(f"{run.name} is the same run as {same}: it would count twice")
        if what := difference(first, manifest):
            raise UsageError(
                f"{found[0].name} and {run.name} differ in more than where they ran: the "
                f"{what} of the one {'are' if what[-1] == 's' else 'is'} not the other's"
            )


def difference(one: Manifest, other: Manifest) -> str:
    """What beside the machine two runs differ in, as a noun; empty where nothing does."""
    for what, mine, theirs in (
        ("experiment", one.experiment, other.experiment),
        ("baseline", one.baseline, other.baseline),
        ("kernels", dict(one.images), dict(other.images)),
        ("cases", _work(one), _work(other)),
        ("question", one.asked, other.asked),
        ("machine", _guest(one), _guest(other)),
    ):
        if mine != theirs:
            return what
    return ""


def _work(manifest: Manifest) -> list[tuple[object, ...]]:
    return [(it.suite, it.case, it.unit, it.better, it.scale, it.work) for it in manifest.cases]


def _guest(manifest: Manifest) -> tuple[object, ...]:
    it = manifest.machine
    return it.kind, it.memory_bytes, it.cpus, it.emulator
