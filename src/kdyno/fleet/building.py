# SPDX-License-Identifier: MIT
"""Kernels built by jobs: the trunk first, then one job for each image that is not there yet.

Which images there are to be is asked of a node, whose compiler is part of them. Variants with the
same image get one job.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Protocol

from kdyno.errors import ToolError
from kdyno.fleet.engine import LATE_S, PYTHON, Commands, Job
from kdyno.store.folder import Folder
from kdyno.store.reading import Name, Seconds, Text, parse
from kdyno.store.reading import Record as Answer

_TRIES = 3
"""Jobs for one image that may be lost."""
_LOOK_S = 0.2
_LIMIT_BYTES = 16 << 20


class _Image(Answer):
    """Of `kdyno build`: what it plans has ``digest`` and ``built``, what it built ``seconds``."""

    digest: str = ""
    built: bool = False
    seconds: Seconds = 0.0


class _Said(Answer):
    images: dict[Name, _Image]
    failed: dict[Name, Text]


class AnEngine(Protocol):
    def submit(self, work: Sequence[Commands]) -> list[Job]: ...
    def look(self, jobs: Sequence[Job]) -> None: ...
    def cancel(self, jobs: Sequence[Job]) -> None: ...


@dataclass
class Built:
    """``names``: variants that have an image; ``failed``: variant → why it has none."""

    names: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)


@dataclass
class Building:
    """``words``: of `kdyno build`; ``folder``: for what jobs say of their images."""

    engine: AnEngine
    words: Sequence[str]
    baseline: str
    folder: Path
    told: Callable[[str], None]
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic

    def run(self) -> Built:
        """All images. ToolError, with the node's words, where the baseline has none, and where
        jobs are lost again and again."""
        plan = self._asked({"plan": ["--dry-run"]})["plan"]
        built = Built(failed=dict(plan.failed))
        missing = {name: it.digest for name, it in plan.images.items() if not it.built}
        if self.baseline in missing:
            self._make([self.baseline], built)
        first = {it: name for name, it in reversed(missing.items()) if name != self.baseline}
        first.pop(missing.get(self.baseline, ""), None)
        self._make(sorted(first.values()), built)
        # Who shares an image shares why there is none.
        for name, digest in missing.items():
            if (why := built.failed.get(first.get(digest, ""))) is not None:
                built.failed[name] = why
        built.names = [name for name in plan.images if name not in built.failed]
        return built

    def _make(self, names: Sequence[str], built: Built) -> None:
        found = self._asked({name: ["--variant", name] for name in names})
        for name in names:
            if (why := found[name].failed.get(name)) is not None:
                built.failed[name] = why
                self.told(why)
            elif (image := found[name].images.get(name)) is not None:
                self.told(f"{name}: built in {image.seconds:.0f} s")
            else:
                raise ToolError(f"{self._file(name)}: damaged: nothing is said of {name}")

    def _asked(self, wanted: dict[str, list[str]]) -> dict[str, _Said]:
        """What `kdyno build` says of each, by a job each; one that is lost is done again."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for name in wanted:
            self._file(name).unlink(missing_ok=True)
        found: dict[str, _Said] = {}
        tries = dict.fromkeys(wanted, 0)
        alive: dict[str, Job] = {}
        over_s: dict[str, float] = {}
        try:
            while len(found) < len(wanted):
                if idle := [it for it in wanted if it not in found and it not in alive]:
                    made = self.engine.submit([[self._command(it, wanted[it])] for it in idle])
                    alive.update(zip(idle, made, strict=True))
                    jobs = ", ".join(f"{it} by job {alive[it].name}" for it in idle)
                    self.told(f"kernels: {jobs}")
                self.engine.look(list(alive.values()))
                for name in [it for it, job in alive.items() if job.done]:
                    job, said = alive[name], self._said(name)
                    began_s = over_s.setdefault(job.name, self.clock())
                    if said is None and job.well and self.clock() - began_s < LATE_S:
                        continue  # it has answered, which is not seen here yet
                    del alive[name]
                    if said is not None:
                        found[name] = said
                        continue
                    tries[name] += 1
                    # A node that answers would answer the same again.
                    if tries[name] == _TRIES or job.node:
                        why = job.failure() or f"{self._file(name)} is not seen here"
                        raise ToolError(f"the kernels were not built: {why}")
                    self.told(job.failure())
                self.sleep(_LOOK_S)
        finally:
            self.engine.cancel(list(alive.values()))
        return found

    def _command(self, name: str, options: list[str]) -> list[str]:
        command = [*PYTHON, "kdyno", "build", *self.words, *options]
        return [*command, "--json", str(self._file(name))]

    def _file(self, name: str) -> Path:
        return self.folder / f"{sha256(name.encode()).hexdigest()[:16]}.json"

    def _said(self, name: str) -> _Said | None:
        file = self._file(name)
        if not file.exists():
            return None
        with Folder.open(file.parent) as folder:
            return parse(_Said, folder.read(file.name, _LIMIT_BYTES), file)
