# SPDX-License-Identifier: MIT
"""What lists, filters and histories know of a run: one row, and a few for kernels and cases.

Rows are checked when they are read. Whoever may write to a store may write anything: SQLite keeps
text where a number belongs, and PostgreSQL's figures may be NaN. What is odd in one run must not
keep the others from being shown."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from hashlib import sha256
from typing import Annotated, Any, TypeVar

from pydantic import Field, TypeAdapter, ValidationError
from sqlalchemy import Table

from kdyno.errors import ToolError
from kdyno.store.comparable import label_of, machine_of
from kdyno.store.manifest import CaseInfo, Manifest
from kdyno.store.run import Run
from kdyno.store.samples import Samples, Score, scores_of
from kdyno.store.verdict import Verdict

_MOST, _MOST_BYTES = (1 << 31) - 1, (1 << 63) - 1
"""Of what columns hold: a hostile verdict says that it has 10^30 blocks."""
_INDEXED = 200
"""Characters; PostgreSQL refuses to index much more than 2,000 bytes."""
ODD = "its row in the store holds what no kdyno writes"

_Whole = Annotated[int, Field(ge=0)]
_Figure = Annotated[float, Field(allow_inf_nan=False)]


@dataclass(frozen=True)
class Facts:
    """A row of ``runs``, as the table has it. Text is as it was stored."""

    identity: str
    name: Annotated[str, Field(min_length=1)]
    digest: str
    created: str
    """UTC, ISO 8601."""
    experiment: str = ""
    state: str = "damaged"
    """running, finished, interrupted, failed, or damaged."""
    reason: str = ""
    """Why measuring ended, or what is damaged."""
    question: str = ""
    answer: str = ""
    baseline: str = ""
    kind: str = ""
    emulator: str = ""
    cpu_model: str = ""
    host_arch: str = ""
    cpus: _Figure | None = None
    memory_bytes: _Figure | None = None
    guest_cpus: _Whole | None = None
    guest_memory_bytes: _Whole | None = None
    counts: Mapping[str, _Whole] = field(default_factory=dict)
    """Verdict → effects, without controls and the baseline's copy."""
    judged: bool = False
    boots: _Whole = 0
    damaged: _Whole = 0
    outside: bool = False
    """At least one boot was outside the sandbox."""
    files: _Whole = 0
    size_bytes: _Whole = 0


@dataclass(frozen=True)
class Kernel:
    """A row of ``kernels``."""

    variant: str
    version: str
    """Its release as far as it is known, else ""."""
    source: str
    digest: str


@dataclass(frozen=True)
class Machine:
    """A row of ``machines``."""

    name: str
    cpu_model: str


@dataclass(frozen=True)
class Series:
    """A row of ``samples``: a case of a variant, with its score in each block."""

    suite: str
    case: str
    variant: str
    blocks: list[int]
    scores: list[float]


def identity_of(manifest: Manifest, experiment_text: str) -> str:
    """The same for a run wherever it is copied to and whatever its folder is called.

    Of what is written once, when a run begins: its time to the microsecond, its seed, its
    experiment. What a resumed run changes is not in it."""
    parts = (manifest.created, str(manifest.seed), manifest.experiment, manifest.baseline)
    text = "\n".join((*parts, experiment_text))
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def facts_of(
    manifest: Manifest, verdict: Verdict | None, identity: str, name: str, digest: str
) -> Facts:
    """What is known without reading the boots."""
    guest, host = manifest.machine, manifest.host
    cpus, memory_bytes = host.get("cpus"), host.get("memory_bytes")
    return Facts(
        identity,
        name,
        digest,
        created=manifest.created,
        experiment=manifest.experiment,
        state=manifest.state,
        reason=manifest.stopped,
        question=verdict.question if verdict else "",
        answer=verdict.answer if verdict else "",
        baseline=manifest.baseline,
        kind=guest.kind,
        emulator=guest.emulator,
        cpu_model=str(host.get("cpu_model") or "")[:_INDEXED],
        host_arch=str(host.get("host_arch") or "")[:_INDEXED],
        cpus=cpus if isinstance(cpus, float) else None,
        memory_bytes=memory_bytes if isinstance(memory_bytes, float) else None,
        guest_cpus=guest.cpus if guest.built else None,
        guest_memory_bytes=guest.memory_bytes if guest.built else None,
        counts=Counter(
            effect.verdict
            for effect in (verdict.effects if verdict else ())
            if not effect.control and verdict and effect.variant != verdict.copy_of_baseline
        ),
        judged=verdict is not None,
        outside=verdict is not None and verdict.outside,
    )


def kernels_of(run: Run, manifest: Manifest, verdict: Verdict | None) -> list[Kernel]:
    """The baseline's first."""
    kernels = {}
    for variant in {manifest.baseline: 0, **(verdict.boots if verdict else manifest.images)}:
        image: dict[str, Any] = {}
        with suppress(ToolError):
            image = run.image(variant)
        version: str = label_of(run, manifest, variant)
        if version == variant:
            version = str(image.get("release") or image.get("version") or "")
        source, digest = str(image.get("source") or ""), manifest.images.get(variant, "")
        name = text(variant)
        kernels[name] = Kernel(name, version[:80], source[:500], digest[:80])
    return list(kernels.values())


def machines_of(run: Run, manifest: Manifest) -> list[Machine]:
    """All on which it was measured."""
    hosts = manifest.machines or {machine_of(run, manifest): manifest.host}
    return [
        Machine(name, str(host.get("cpu_model") or "")[:_INDEXED]) for name, host in hosts.items()
    ]


def scores_in(verdict: Verdict, manifest: Manifest, samples: Samples) -> list[Score]:
    """A row for each case of a variant that has a score."""
    cases = {case.key: case for case in manifest.cases}
    for effect in verdict.effects:
        about = {key: getattr(effect, key) for key in ("suite", "case", "unit", "better")}
        cases.setdefault(effect.key[:2], CaseInfo.model_construct(**about))
    variants = dict.fromkeys((verdict.baseline, *verdict.boots, *samples.boots))
    values = {key: list(blocks.values()) for key, blocks in samples.scores.items()}
    return scores_of(cases.values(), variants, values, verdict, manifest)


def scores_of_verdict(verdict: Verdict) -> list[Score]:
    """The same using the verdict alone, without reading a boot: no intervals of the levels."""
    scores: dict[tuple[str, str, str], Score] = {}
    for effect in verdict.effects:
        low, high = effect.ci or (None, None)
        own = (effect.ratio, low, high, effect.verdict)
        for variant, value, compared in (
            (verdict.baseline, effect.baseline_value, (None, None, None, "")),
            (effect.variant, effect.value, own),
        ):
            if value is not None:
                about = (effect.suite, effect.case, effect.unit, effect.better, variant, "")
                score = Score(*about, effect.blocks, value, None, None, *compared)
                scores.setdefault((effect.suite, effect.case, variant), score)
    return list(scores.values())


def series_in(samples: Samples) -> list[Series]:
    result = []
    for (suite, case, variant), blocks in samples.scores.items():
        order = sorted(blocks)
        names = (text(suite), text(case), text(variant))
        result.append(Series(*names, order, [blocks[block] for block in order]))
    return result


def text(value: Any) -> str:
    """No database takes lone surrogates, and PostgreSQL no NUL."""
    return str(value).encode("utf-8", "replace").decode().replace("\0", "")[:4000]


def rows(records: Iterable[Any]) -> list[Mapping[str, Any]]:
    """Of dataclasses, with what no database takes made harmless."""

    def harmless(key: str, value: Any) -> Any:
        if isinstance(value, str):
            return text(value)
        if isinstance(value, list):
            return [harmless(key, each) for each in value]
        if isinstance(value, int) and not isinstance(value, bool):
            return max(-_MOST, min(value, _MOST_BYTES if key.endswith("_bytes") else _MOST))
        return value

    return [{key: harmless(key, own) for key, own in vars(each).items()} for each in records]


def rows_of(table: Table, records: Iterable[Any], run: int) -> list[Mapping[str, Any]]:
    """Those of a run, with its number, and numbered themselves where the table has a place."""
    return [
        {**row, "run": run, "place": place} if "place" in table.c else {**row, "run": run}
        for place, row in enumerate(rows(records))
    ]


T = TypeVar("T")
_adapter: Callable[[Any], TypeAdapter[Any]] = cache(TypeAdapter)


def read_row(kind: type[T], row: Any) -> T | None:
    """A row of a table as one of these dataclasses; None for one that is odd."""
    try:
        value: T = _adapter(kind).validate_python(row._asdict())
    except ValidationError:
        return None
    return value


def read_facts(row: Any) -> Facts | None:
    """A row of ``runs``. One that is odd is a damaged run of that name; None: it has no name."""
    if (facts := read_row(Facts, row)) is not None:
        return facts
    own = [getattr(row, key) for key in ("identity", "name", "created", "experiment")]
    identity, name, created, experiment = (each if isinstance(each, str) else "" for each in own)
    if not (name and isinstance(own[0], str)):
        return None
    return Facts(identity, name, "", created, experiment, reason=ODD)


def read_score(row: Any) -> Score | None:
    """None for one without a figure. An interval or a ratio that says nothing is not there."""
    score = read_row(Score, row)
    if score is None:
        return None
    if not _is_interval(score.low, score.high):
        score = replace(score, low=None, high=None)
    if score.ratio is None or not _is_interval(score.ratio, score.ratio):
        score = replace(score, ratio=None, ratio_low=None, ratio_high=None)
    elif not _is_interval(score.ratio_low, score.ratio_high):
        score = replace(score, ratio_low=None, ratio_high=None)
    return score


def _is_interval(low: float | None, high: float | None) -> bool:
    """SQLite may have the text "Infinity"."""
    return low is not None and high is not None and 0 < low <= high < math.inf
