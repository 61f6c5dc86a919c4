# SPDX-License-Identifier: MIT
"""The record of one boot, and its four files: job, console, samples and the host's record."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from kdyno.errors import ToolError
from kdyno.store.folder import Folder
from kdyno.store.reading import Count, Fact, Facts, Name, Record, Seconds, Text, parse
from kdyno.store.verdict import SCORE_MOST

JOB, CONSOLE, SAMPLES, HOST = "job.json", "console.log", "samples.jsonl", "host.json"

_LIMIT_BYTES = 1 << 20
"""Of the job and the host's record."""
_SAMPLES_LIMIT_BYTES = 16 << 20
CONSOLE_LIMIT_BYTES = 64 << 20
_LINES_LIMIT = 10_000

_NOT_PLAIN = re.compile(r"[^A-Za-z0-9._-]+")
_Part = Annotated[float, Field(ge=0, le=1e18)]
"""Operations or nanoseconds: thirty years of them."""


class Sample(Record):
    """One case in one boot. ``score`` is None exactly when ``status`` is not ``ok``."""

    suite: Name
    case: Name
    status: Literal["ok", "error", "skip"] = "ok"
    score: Annotated[float, Field(ge=1 / SCORE_MOST, le=SCORE_MOST)] | None = None
    """Median over the repetitions, in the case's unit. Positive: its logarithm is what counts."""
    reps: Annotated[tuple[tuple[_Part, _Part], ...], Field(max_length=100_000)] = ()
    """(operations, ns) of every repetition."""
    user_ns: Count | None = None
    sys_ns: Count | None = None
    interleave: Literal["", "turns", "frozen"] = ""
    """How it alternated with the other variants of its block. Where it took turns, ``reps`` are the
    rounds: the same index in every boot of the block is the same round."""
    cpu_ns: Annotated[tuple[Count, ...], Field(max_length=100_000)] = ()
    """CPU time of the guest's processes in each round, its hand-over included, by the host's
    accounting; of a frozen one to a tick. Less than the round took: it waited or slept."""
    text: Text = ""
    """Why there is no score."""
    extra: dict[Name, Fact] = Field(default_factory=dict, max_length=1000)


class BootFlag(Record):
    """A disturbance of this boot. The boot is kept; the flag goes to the report."""

    kind: Name
    text: Text


class BootJob(Record):
    """job.json: what this boot was to do. Enough to do it again by hand."""

    schema_: int = Field(default=1, alias="schema")
    index: Annotated[int, Field(ge=0, le=10_000_000)]
    block: Annotated[int, Field(ge=0, le=10_000_000)]
    variant: Name
    image: Text = ""
    """Digest of the image."""
    command: Annotated[tuple[Text, ...], Field(max_length=10_000)] = ()
    job: Text = ""
    """The guest's job as it was handed over, without the nonce."""
    machine: Annotated[str, Field(max_length=200)] = ""
    """On which of several it ran, as ``Manifest.machines`` calls it; empty: the run had one."""
    shard: Annotated[str, Field(max_length=300)] = ""
    """Of a run in jobs: which boot of which job it was, see fleet/waves.py."""
    layout: Annotated[int, Field(ge=0, le=10_000)] = 0
    """Which of several links of the variant's code was booted, from 1; 0: there is one."""
    started_at: Name = "unknown"
    """UTC, ISO 8601."""


class BootHost(Record):
    """host.json: how the boot went, as the host saw it."""

    status: Literal["ok", "failed"]
    reason: Annotated[str, Field(max_length=200)] = ""
    """A short stable word when it failed: panic, oops, hang, timeout, oom, init-died, flood,
    no-result, sandbox …"""
    text: Text = ""
    """The same for people, with the lines that show it."""
    console_tail: Text = ""
    wall_s: Seconds | None = None
    """Start of the process to its end."""
    boot_overhead_s: Seconds | None = None
    """The part of it outside the guest's own run: start, boot, power-off."""
    inside_s: Seconds | None = None
    """The part of it inside cases, by the guest's word; of a guest that took turns, in them."""
    group_s: Seconds | None = None
    """Of a guest that took turns: from the start of its group to its end."""
    guest_clock_s: Seconds | None = None
    host_clock_s: Seconds | None = None
    """The same span, from the guest's first record to its last, by either clock."""
    user_s: Seconds | None = None
    sys_s: Seconds | None = None
    """CPU of the whole process tree, by the host's accounting."""
    peak_rss_bytes: Count | None = None
    before: Facts = Field(default_factory=dict)
    after: Facts = Field(default_factory=dict)
    flags: Annotated[tuple[BootFlag, ...], Field(max_length=1000)] = ()


class BootRecord(Record):
    job: BootJob
    host: BootHost
    samples: Annotated[tuple[Sample, ...], Field(max_length=_LINES_LIMIT)] = ()

    @property
    def index(self) -> int:
        return self.job.index

    @property
    def block(self) -> int:
        return self.job.block

    @property
    def variant(self) -> str:
        return self.job.variant

    @property
    def ok(self) -> bool:
        return self.host.status == "ok"

    def header(self) -> BootRecord:
        """Without samples, facts and texts: what thousands of boots may keep in memory."""
        facts: dict[str, object] = {"before": {}, "after": {}, "flags": ()}
        texts = dict.fromkeys(("text", "console_tail"), "") if self.ok else {}
        host = self.host.model_copy(update=facts | texts)
        job = BootJob.model_construct(index=self.index, block=self.block, variant=self.variant)
        return BootRecord.model_construct(job=job, host=host, samples=())

    def moved(self, **place: object) -> BootRecord:
        """The same boot in a run that several others make up, with these fields of its job."""
        return self.model_copy(update={"job": self.job.model_copy(update=place)})

    @property
    def folder_name(self) -> str:
        return f"{self.job.index:04d}-{plain_name(self.job.variant)}"

    def files(self, console: bytes) -> Mapping[str, bytes]:
        """File name → content of the boot's folder."""
        return {
            JOB: self.job.to_json(),
            CONSOLE: console[:CONSOLE_LIMIT_BYTES],
            SAMPLES: b"".join(map(Sample.to_json, self.samples)),
            HOST: self.host.to_json(),
        }


def plain_name(text: str, limit: int = 80) -> str:
    """The text as part of a folder's name: letters, digits, dot, dash, underscore."""
    return _NOT_PLAIN.sub("-", text)[:limit].strip("-.") or "unnamed"


def read_boot(folder: Folder) -> BootRecord:
    """The boot in an open boot folder; ToolError with the reason when any file is damaged."""
    job = parse(BootJob, folder.read(JOB, _LIMIT_BYTES), folder.path / JOB)
    host = parse(BootHost, folder.read(HOST, _LIMIT_BYTES), folder.path / HOST)
    text = folder.read(SAMPLES, _SAMPLES_LIMIT_BYTES)
    where = folder.path / SAMPLES
    if text and not text.endswith(b"\n"):
        raise ToolError(f"{where}: damaged: ends in the middle of a line")
    lines = text.split(b"\n")[:-1]
    if len(lines) > _LINES_LIMIT:
        raise ToolError(f"{where}: {len(lines)} lines, at most {_LINES_LIMIT} expected")
    samples = tuple(parse(Sample, line, where) for line in lines)
    keys = set()
    for sample in samples:
        key = (sample.suite, sample.case)
        if key in keys:
            raise ToolError(f"{where}: damaged: {sample.suite}/{sample.case} is there twice")
        if (sample.score is None) == (sample.status == "ok"):
            raise ToolError(
                f"{where}: damaged: {sample.suite}/{sample.case} is {sample.status} "
                f"{'without' if sample.score is None else 'with'} a score"
            )
        keys.add(key)
    # model_construct: all three parts were just checked.
    boot = BootRecord.model_construct(job=job, host=host, samples=samples)
    if folder.path.name != boot.folder_name:
        raise ToolError(f"{folder.path / JOB}: damaged: it belongs to {boot.folder_name}")
    return boot
