# SPDX-License-Identifier: MIT
"""The run that jobs measure: their boots as they come, each of them once.

A job writes a run of its own, a shard. A group is in it whole or not at all, so what a job that
was lost had measured before counts, and what it was at does not. Every boot of the run names its
shard and its boot there: whoever goes on with the run knows what has been taken up."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from kdyno.errors import KdynoError, ToolError
from kdyno.store.boot import BootRecord
from kdyno.store.comparable import common_facts, difference, machine_of
from kdyno.store.manifest import Manifest
from kdyno.store.reading import Facts
from kdyno.store.run import Damaged, Run, RunWriter, list_runs
from kdyno.store.samples import Gathering, Samples


@dataclass
class Shard:
    """What one job measures, seen from outside. ``folder``: of runs, its own."""

    number: int
    folder: Path
    run: Run | None = None
    machine: str = ""
    """Empty before its first boot was taken up."""
    names: set[str] = field(default_factory=set)
    """Folders of its boots that were taken up."""

    def fresh(self) -> list[BootRecord]:
        """Its boots that were not taken up before, in the order in which they were measured."""
        if self.run is None:
            runs = list_runs(self.folder)
            if not runs:
                return []
            self.run = runs[0]
        boots = list(self.run.boots(self.names))
        # What cannot be read was whole when it got its name, and will not get better.
        whole = [boot for boot in boots if isinstance(boot, BootRecord)]
        self.names |= {boot.name for boot in boots if isinstance(boot, Damaged)}
        self.names |= {boot.folder_name for boot in whole}
        return whole

    def manifest(self) -> Manifest | None:
        """As it is now; None where it has none yet."""
        try:
            return self.run.manifest() if self.run is not None else None
        except KdynoError:
            return None


class Union:
    """``writer``: of a run that is not finished, with what an earlier controller took up."""

    def __init__(self, writer: RunWriter) -> None:
        self._writer = writer
        self.manifest = writer.run.manifest()
        self.blocks: list[tuple[str, ...]] = []
        """Variants of every block, in the order of their boots."""
        self.boots = 0
        self._gathered = Gathering()
        self._places: dict[str, int] = {}
        """SHARD/BLOCK → block of this run."""
        self._names: dict[int, set[str]] = {}
        """Shard → folders of its boots that are here."""
        self._first: Manifest | None = None
        self._text = writer.run.experiment_text()
        self._machines: dict[str, Facts] = {}
        """New ones, by name."""
        self._saved = True
        for boot in writer.run.boots():
            if isinstance(boot, BootRecord):
                number, _, rest = boot.job.shard.partition("/")
                place, _, name = rest.partition("/")
                if number.isascii() and number.isdigit():
                    self._names.setdefault(int(number), set()).add(name)
                    self._places[f"{number}/{place}"] = boot.block
                self._count(boot)

    @property
    def run(self) -> Run:
        return self._writer.run

    def shard(self, number: int, folder: Path) -> Shard:
        """A shard of which this run may have boots."""
        return Shard(number, folder, names=set(self._names.get(number, ())))

    def take(self, shard: Shard) -> int:
        """Takes up what the shard has by now; how many blocks are new.

        ToolError where it measured something else than the others."""
        boots = shard.fresh()
        if shard.run is None:
            return 0
        if shard.names and not shard.machine:
            self._check(shard, shard.run)
        before, moved = len(self.blocks), []
        for index, boot in enumerate(boots, self.boots):
            place = f"{shard.number}/{boot.block}"
            update = {
                "index": index,
                "block": self._places.setdefault(place, len(self._places)),
                "machine": shard.machine,
                "shard": f"{place}/{boot.folder_name}",
            }
            job = boot.job.model_copy(update=update)
            moved.append((boot.model_copy(update={"job": job}), shard.run.console(boot)))
        if moved:
            self._writer.add_boots(moved)
            self._saved = False
        for boot, _console in moved:
            self._count(boot)
        return len(self.blocks) - before

    def samples(self) -> Samples:
        return self._gathered.samples()

    def failed(self, why: dict[str, str]) -> None:
        """Variants that were given up somewhere."""
        if more := {name: text for name, text in why.items() if name not in self.manifest.failed}:
            self.save(failed={**self.manifest.failed, **more})

    def save(self, **changed: object) -> None:
        """The manifest on disk, with these fields changed."""
        machines = {**self.manifest.machines, **self._machines}
        if self._machines:
            host = common_facts(list(machines.values()))
            changed = {"machines": machines, "host": host, **changed}
            self._machines = {}
        changed = {"blocks": tuple(self.blocks), **changed}
        self.manifest = self.manifest.model_copy(update=changed)
        self._writer.save_manifest(self.manifest)
        self._saved = True

    def settle(self) -> None:
        """The same where there is something new."""
        if not self._saved:
            self.save()

    def save_images(self, folders: Iterable[Path]) -> None:
        """How the kernels were built, as the first shard with these images says it."""
        for run in (run for folder in folders for run in list_runs(folder)):
            if run.manifest().images == self.manifest.images:
                for variant in self.manifest.images:
                    self._writer.save_image(variant, run.image(variant))
                return

    def _count(self, boot: BootRecord) -> None:
        self.boots = max(self.boots, boot.index + 1)
        self.blocks += [()] * (boot.block + 1 - len(self.blocks))
        self.blocks[boot.block] += (boot.variant,)
        self._gathered.add(boot)

    def _check(self, shard: Shard, run: Run) -> None:
        """That it measures what the others do; what only it knows of the run is taken over."""
        manifest = run.manifest()  # what the probe saw is in it by now
        machine = machine_of(run, manifest)
        if run.experiment_text() != self._text:
            raise ToolError(
                f"{self.manifest.origin} was changed since the run began: {machine} measures "
                "something else. Begin a new run, or put the file back and go on with --resume"
            )
        if self._first is None:
            self._first = manifest
            keys = ("images", "cases", "machine", "variants", "interleave")
            update = {key: getattr(manifest, key) for key in keys}
            self.manifest = self.manifest.model_copy(update=update)
        elif what := difference(self._first, manifest):
            raise ToolError(
                f"{machine} measured something else than the nodes before it: the {what} "
                f"{'are' if what[-1] == 's' else 'is'} not theirs. `kdyno doctor --on` compares "
                "nodes; [fleet] constraint chooses like ones"
            )
        if machine not in self.manifest.machines:
            self._machines[machine] = manifest.host
            self._saved = False
        shard.machine = machine
