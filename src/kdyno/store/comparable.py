# SPDX-License-Identifier: MIT
"""Runs of one question on several machines, joined to one run."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

from kdyno.errors import ToolError, UsageError
from kdyno.store.boot import BootRecord
from kdyno.store.manifest import Manifest
from kdyno.store.reading import Facts
from kdyno.store.run import Run, RunWriter, create_run


def label_of(run: Run, manifest: Manifest, name: str) -> str:
    """The kernel's release on the host, else the variant's name."""
    if manifest.machine.built:
        return name
    release = None
    with suppress(ToolError):
        release = run.image(name).get("release")
    return str(release or manifest.host.get("host_kernel") or name)


def join(runs: Sequence[Run], folder: Path) -> RunWriter:
    """A new run in ``folder`` with all their boots, not judged yet.

    Block and index of a boot are new, and it says which machine it ran on. Damaged boots are left
    behind. The same runs in any order give a run of the same identity. UsageError where they differ
    in more than the machine, or one of them is there twice or is still being measured."""
    pairs = [(run, run.manifest()) for run in runs]
    pairs.sort(key=lambda pair: (pair[1].created, pair[1].seed))
    runs, manifests = [run for run, _ in pairs], [manifest for _, manifest in pairs]
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
            for boot in (each for each in run.boots() if isinstance(each, BootRecord)):
                place = places.setdefault(boot.block, block + len(places))
                moved = boot.moved(index=index, block=place, machine=machine)
                writer.add_boots([(moved, run.console(boot))])
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
    # Those of one run alone: its random order, and which run it confirms.
    shared = {key: own for key, own in first.overrides.items() if key not in ("seed", "confirms")}
    for manifest in manifests:
        shared = {key: own for key, own in shared.items() if manifest.overrides.get(key) == own}
    seeds = "\n".join(f"{manifest.created} {manifest.seed}" for manifest in manifests)
    later = max(manifest.created for manifest in manifests)
    # A microsecond later, so that what was joined is newer than all that it came from.
    with suppress(ValueError, OverflowError):
        after = datetime.fromisoformat(later) + timedelta(microseconds=1)
        later = after.isoformat(timespec="microseconds")
    return first.model_copy(
        update={
            "created": later,
            "seed": int.from_bytes(sha256(seeds.encode()).digest()[:4], "big"),
            "host": common_facts(hosts),
            "machines": dict(zip(names, hosts, strict=True)),
            "joined": tuple(run.name for run in runs),
            "blocks": tuple(block for manifest in manifests for block in manifest.blocks),
            "failed": {name: why for own in manifests for name, why in own.failed.items()},
            **reservations(manifests),
            "overrides": shared,
            "state": "finished",
            "stopped": f"{len(runs)} runs were joined",
        }
    )


def reservations(manifests: Sequence[Manifest]) -> dict[str, Any]:
    """What holds for all of these runs because it holds for one: keys of the manifest of all.
    What is to be said of a machine, how variants alternated, and why by whole boots, or a case
    whole."""
    caveats = dict.fromkeys(flag for own in manifests for flag in own.machine.caveats)
    whys = dict.fromkeys(why for own in manifests for why in own.why_boots.split("; ") if why)
    ways = {own.interleave for own in manifests}
    return {
        "interleave": ways.pop() if len(ways) == 1 else "mixed",
        "machine": manifests[-1].machine.model_copy(update={"caveats": tuple(caveats)[:1000]}),
        "why_boots": "; ".join(whys)[:1000],  # a reason of several stands there once
        "whole": {name: why for own in manifests for name, why in own.whole.items()},
    }


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
        key = (manifest.created, manifest.seed)
        if key in names:
            raise UsageError(f"{run.name} is the same run as {names[key]}: it would count twice")
        names[key] = run.name
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
