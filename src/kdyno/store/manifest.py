# SPDX-License-Identifier: MIT
"""manifest.json: what a run is, what it plans, and how far it came."""

from __future__ import annotations

import re
from collections.abc import Sequence
from hashlib import sha256
from typing import Annotated, Any, Literal

from pydantic import Field

from kdyno.store.reading import Count, Facts, Name, Record, Text
from kdyno.store.verdict import RATIO_MOST, Confidence, Flag

State = Literal["running", "finished", "interrupted", "failed"]
_TEMPORARY = re.compile(r"/\S*kdyno-\S*")


class CaseInfo(Record):
    """A case of the run, with what a score of it means; copied from the suite's file."""

    suite: Name
    case: Name
    unit: Name
    better: Literal["higher", "lower"]
    scale: Annotated[float, Field(ge=1e-18, le=1e18)] = 1.0
    control: bool = False
    of: Annotated[str, Field(max_length=200)] = ""
    """For a cell of a cross: what the cases of all its levels are called together."""
    levels: dict[Name, Name] = Field(default_factory=dict, max_length=100)
    """Factor → level of such a cell."""
    seconds: Annotated[float, Field(gt=0, le=1e9)] | None = None
    """For which it is measured in a boot; None: fixed work, or not known."""
    operations: Annotated[int, Field(ge=1, le=1 << 62)] | None = None
    """Fixed work: how many in a boot."""
    work: Annotated[str, Field(max_length=200)] = ""
    """``work_digest`` of what it does; empty: not known."""

    @property
    def key(self) -> tuple[str, str]:
        return self.suite, self.case

    @property
    def about(self) -> dict[str, Any]:
        """What every row of results has of its case."""
        return {name: getattr(self, name) for name in ("suite", "case", "unit", "better")}


class MachineInfo(Record):
    """What the variants run on, as the experiment says it; ``Manifest.host`` is what it lay on."""

    kind: Name = "uml"
    builds: bool | None = None
    """See ``built``; None: the run is from before this was kept, when one kind did not."""
    memory_bytes: Count = 1 << 30
    cpus: Annotated[int, Field(ge=1)] = 1
    emulator: Annotated[str, Field(max_length=200)] = ""
    """What its figures depend on beside kernel and host: the version of an emulator, its CPU."""
    scattered: bool = False
    """Free pages are put at random places before the first case, other ones for each block."""
    caveats: Annotated[tuple[Flag, ...], Field(max_length=1000)] = ()
    """What its figures do not say, the probe before the first boot included."""

    @property
    def built(self) -> bool:
        """kdyno built its kernels and booted them; else it is the one that ran already."""
        return self.kind != "host" if self.builds is None else self.builds


class VariantInfo(Record):
    """A variant that was asked for, whether it could be built or not."""

    arch: Annotated[str, Field(max_length=200)] = ""
    """Empty: not known."""
    cpus: Annotated[int, Field(ge=1)] | None = None
    """None: the machine's."""
    levels: dict[Name, Name] = Field(default_factory=dict, max_length=100)
    """Factor → level, where the variants are a cross."""


class Criteria(Record):
    """What the experiment wants of its verdict."""

    question: Text = ""
    confidence: Confidence = 0.95
    equivalent: Annotated[float, Field(ge=0, le=RATIO_MOST)] = 0.01
    precision: Annotated[float, Field(gt=0, le=RATIO_MOST)] = 0.005
    copy_of_baseline: Name | None = None
    """Name of the variant that is the baseline once more (A/A)."""
    metric: Literal["time", "instructions"] = "time"
    """What was compared. Counts that agree in all boots are exact."""
    exact_boots: Annotated[int, Field(ge=1, le=100)] = 3
    """Of either kernel, after which they are; 1: what most parts of the boot agree in."""


class Manifest(Record):
    """Replaced as a whole before each block, so that the plan is on disk before it is followed."""

    schema_: int = Field(default=1, alias="schema")
    tool: Name
    """kdyno's version."""
    created: Name
    """UTC, ISO 8601 with fractions, so that text order is time order."""
    experiment: Name
    baseline: Name
    seed: Annotated[int, Field(ge=0)]
    host: Facts = Field(default_factory=dict)
    images: dict[Name, Text] = Field(default_factory=dict, max_length=10_000)
    """Variant → digest of its image."""
    cases: Annotated[tuple[CaseInfo, ...], Field(max_length=100_000)] = ()
    blocks: Annotated[
        tuple[Annotated[tuple[Name, ...], Field(max_length=10_000)], ...],
        Field(max_length=1_000_000),
    ] = ()
    """Order of variants in every block planned so far."""
    machine: MachineInfo = MachineInfo()
    machines: dict[Name, Facts] = Field(default_factory=dict, max_length=10_000)
    """Of a run on several: machine → its own facts. ``host`` is then what all agree in."""
    joined: Annotated[tuple[Name, ...], Field(max_length=10_000)] = ()
    """The runs that this one was put together from."""
    variants: dict[Name, VariantInfo] = Field(default_factory=dict, max_length=10_000)
    """In the file's order, the baseline among them and its copy not."""
    asked: Criteria = Criteria()
    failed: dict[Name, Text] = Field(default_factory=dict, max_length=10_000)
    """Variants given up, with the reason."""
    origin: Text = ""
    """Path of the experiment file, for what it names relative to itself."""
    interleave: Literal["boots", "turns", "mixed"] = "boots"
    """How the variants of a block alternate: one whole boot after the other, or turn by turn; of a
    run on several machines mixed, where some take turns and others do not."""
    why_boots: Text = ""
    """Why by boots, or some of it, where turns were wanted if they can be had."""
    whole: dict[Text, Text] = Field(default_factory=dict, max_length=10_000)
    """suite/case → why the guests of a group did it whole, one after the other."""
    overrides: dict[Name, Any] = Field(default_factory=dict, max_length=100)
    """What the command line changed against the file; see experiment/loader.py."""
    state: State = "running"
    stopped: Text = ""
    """Why measuring ended."""

    @property
    def others(self) -> tuple[str, ...]:
        """The variants without the baseline and its copy, in the file's order."""
        return tuple(name for name in self.variants if name != self.baseline)

    @property
    def compared(self) -> tuple[str, ...]:
        """What the baseline is compared with: the others, else its copy."""
        copy = self.asked.copy_of_baseline
        return self.others or ((copy,) if copy else ())

    @property
    def names(self) -> tuple[str, ...]:
        """All that was booted, the baseline first."""
        copy = self.asked.copy_of_baseline
        return (self.baseline, *((copy,) if copy else ()), *self.others)

    @property
    def counted(self) -> bool:
        """Instructions are compared; where all boots agree there is nothing to estimate."""
        return self.asked.metric == "instructions"


_REVISIONS = {"fscopy": 2, "fsread": 2, "fswrite": 2}
"""Of benchmarks that once did other work by the same arguments: 2, the block moves in its page."""


def work_digest(bench: str, operations: int | None, args: Sequence[str]) -> str:
    """Equal for equal work: of the benchmark, its fixed number of operations and its arguments.

    How long it is measured is not in it, nor are the names of kdyno's own temporary folders."""
    fixed = [f"operations {operations}"] if operations is not None else []
    revision = [f"revision {_REVISIONS[bench]}"] if bench in _REVISIONS else []
    lines = [bench, *revision, *fixed, *(f"arg {arg}" for arg in args)]
    text = "\n".join(_TEMPORARY.sub("PATH", line) for line in lines)
    return sha256(text.encode("utf-8", "replace")).hexdigest()[:16]
