# SPDX-License-Identifier: MIT
"""The run that jobs measure: their boots as they come, each of them once.

A job writes a run of its own, a shard. A group is in it whole or not at all, so what a job that
was lost had measured before counts, and what it was at does not. Every boot of the run says which
boot of which shard it was: whoever goes on with the run finds what has been taken up.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from kdyno.errors import KdynoError, ToolError
from kdyno.store.boot import BootRecord
from kdyno.store.join import common_facts, difference, machine_of
from kdyno.store.manifest import Manifest
from kdyno.store.reading import Facts
from kdyno.store.run import Damaged, Run, RunWriter, list_runs
from kdyno.store.samples import Gathering, Samples


@dataclass
class Shard:
    """What one job measures, looked at from outside. ``folder``: of runs, its own."""

    number: int
    folder: Path
    run: Run | None = None
    manifest: Manifest | None = None
    machine: str = ""
    met: bool = False
    """It was found to measure what the others do."""
    seen: set[str] = field(default_factory=set)
    """Names of the folders of its boots that were taken up."""

    def fresh(self) -> list[BootRecord]:
        """Its boots that were not seen before, in the order in which they were made."""
        if self.run is None:
            found = list_runs(self.folder)
            if not found:
                return []
            self.run = found[0]
        found_boots = list(self.run.boots(self.seen))
        # What cannot be read was whole when it got its name, and will not get better.
        self.seen.update(_folder(it) for it in found_boots)
        if self.manifest is None and self.seen:  # what the probe saw is in it by now
            self.manifest = self.run.manifest()
            self.machine = machine_of(self.run, self.manifest)
        return [it for it in found_boots if isinstance(it, BootRecord)]

    def ended(self) -> Manifest | None:
        """Its manifest as it is now; None where it has none yet."""
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
        self._taken: dict[int, set[str]] = {}
        self._like: Manifest | None = None
        self._text = writer.run.experiment_text()
        self._machines: dict[str, Facts] = {}
        """New ones, by name."""
        self._saved = True
        for boot in writer.run.boots():
            if isinstance(boot, BootRecord):
                self._known(boot)
                self._count(boot)

    def _known(self, boot: BootRecord) -> None:
        """That it was taken up, if it says of which job."""
        number, _, rest = boot.job.shard.partition("/")
        place, _, name = rest.partition("/")
        if number.isascii() and number.isdigit():
            self._taken.setdefault(int(number), set()).add(name)
            self._places[f"{number}/{place}"] = boot.block

    @property
    def run(self) -> Run:
        return self._writer.run

    def shard(self, number: int, folder: Path) -> Shard:
        """A shard of which this run may have boots."""
        return Shard(number, folder, seen=set(self._taken.get(number, ())))

    def taken(self, number: int) -> int:
        """Blocks of this shard that were taken up."""
        return sum(place.startswith(f"{number}/") for place in self._places)

    def take(self, shard: Shard) -> int:
        """What the shard has by now; how many blocks are new.

        ToolError where it measured something else than the others.
        """
        boots = shard.fresh()
        if shard.manifest is not None and shard.run is not None and not shard.met:
            self._meet(shard.run, shard.manifest, shard.machine)
            shard.met = True
        if not boots or shard.run is None:
            return 0
        before = len(self.blocks)
        made = [
            (self._moved(shard, it, self.boots + at), shard.run.console(it))
            for at, it in enumerate(boots)
        ]
        self._writer.add_boots(made)
        for boot, _console in made:
            self._count(boot)
        self._saved = False
        return len(self.blocks) - before

    def samples(self) -> Samples:
        return self._gathered.samples()

    def failed(self, why: dict[str, str]) -> None:
        """Variants that were given up somewhere."""
        more = {name: text for name, text in why.items() if name not in self.manifest.failed}
        if more:
            self.save(failed={**self.manifest.failed, **more})

    def save(self, **changed: object) -> None:
        """What has become of it, on disk."""
        machines = {**self.manifest.machines, **self._machines}
        if self._machines:
            changed = {
                "machines": machines,
                "host": common_facts(list(machines.values())),
                **changed,
            }
            self._machines = {}
        changed = {"blocks": tuple(self.blocks), **changed}
        self.manifest = self.manifest.model_copy(update=changed)
        self._writer.save_manifest(self.manifest)
        self._saved = True

    def settle(self) -> None:
        """The same where there is something new."""
        if not self._saved:
            self.save()

    def _moved(self, shard: Shard, boot: BootRecord, index: int) -> BootRecord:
        place = f"{shard.number}/{boot.block}"
        block = self._places.setdefault(place, len(self._places))
        about = {
            **{"index": index, "block": block, "machine": shard.machine},
            "shard": f"{place}/{boot.folder_name}",
        }
        return boot.model_copy(update={"job": boot.job.model_copy(update=about)})

    def _count(self, boot: BootRecord) -> None:
        self.boots = max(self.boots, boot.index + 1)
        while len(self.blocks) <= boot.block:
            self.blocks.append(())
        self.blocks[boot.block] += (boot.variant,)
        self._gathered.add(boot)

    def _meet(self, run: Run, manifest: Manifest, machine: str) -> None:
        if run.experiment_text() != self._text:
            raise ToolError(
                f"{self.manifest.origin} was changed since the run began: {machine} measures "
                "something else. Begin a new run, or put the file back and go on with --resume"
            )
        if self._like is None:
            self._like = manifest
            self._take_over(manifest)
        elif what := difference(self._like, manifest):
            raise ToolError(
                f"{machine} measured something else than the nodes before it: the {what} "
                f"{'are' if what[-1] == 's' else 'is'} not theirs. `kdyno doctor --on` compares "
                "nodes; [fleet] constraint chooses like ones"
            )
        if machine not in self.manifest.machines:
            self._machines[machine] = manifest.host
            self._saved = False

    def _take_over(self, manifest: Manifest) -> None:
        """What the run says of itself that only who measures knows."""
        own = ("images", "cases", "machine", "variants", "interleave")
        self.manifest = self.manifest.model_copy(
            update={name: getattr(manifest, name) for name in own}
        )


def _folder(boot: BootRecord | Damaged) -> str:
    return boot.folder_name if isinstance(boot, BootRecord) else boot.name


def save_images(writer: RunWriter, shards: Iterable[Path]) -> None:
    """How the kernels were built, as the first shard says it that has boots."""
    for run in (run for folder in shards for run in list_runs(folder)):
        manifest = run.manifest()
        if dict(manifest.images) == dict(writer.run.manifest().images):
            for variant in manifest.images:
                writer.save_image(variant, run.image(variant))
            return
