# SPDX-License-Identifier: MIT
"""What lists, filters and histories know of a run: one row, and a few for kernels and cases.

Rows are checked before they are believed. Whoever may write to a store may write anything: SQLite
keeps text where a number belongs, and PostgreSQL's figures may be NaN. What is odd in one run must
not keep the others from being shown.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from kdyno.errors import KdynoError, ToolError
from kdyno.store.comparable import label_of
from kdyno.store.join import machine_of
from kdyno.store.manifest import CaseInfo, Manifest
from kdyno.store.samples import Score, scores_of
from kdyno.store.verdict import RATIO_MOST, SCORE_MOST

if TYPE_CHECKING:
    from kdyno.store.run import Run
    from kdyno.store.samples import Samples
    from kdyno.store.verdict import Verdict

_MOST, _MOST_BYTES = (1 << 31) - 1, (1 << 63) - 1
"""Of what columns hold: a hostile verdict says that it has 10^30 blocks."""
_INDEXED = 200
"""Characters; PostgreSQL refuses to index much more than 2,000 bytes."""


@dataclass(frozen=True)
class Facts:
    """A row of ``runs``, as the table has it. Text is as it was stored."""

    identity: str
    name: str
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
    cpus: float | None = None
    memory_bytes: float | None = None
    guest_cpus: int | None = None
    guest_memory_bytes: int | None = None
    counts: Mapping[str, int] = field(default_factory=dict)
    """Verdict → effects, without controls and the baseline's copy."""
    judged: bool = False
    boots: int = 0
    damaged: int = 0
    outside: bool = False
    """At least one boot was outside the sandbox."""
    files: int = 0
    size_bytes: int = 0


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
    experiment. What a resumed run changes is not in it.
    """
    parts = (manifest.created, str(manifest.seed), manifest.experiment, manifest.baseline)
    text = "\n".join((*parts, experiment_text))
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def facts_of(manifest: Manifest, verdict: Verdict | None, **own: Any) -> Facts:
    """``own``: identity, name, digest, and what only who has read the boots knows."""
    guest, host = manifest.machine, manifest.host
    whole = not guest.built
    return Facts(
        **own,
        created=text(manifest.created),
        experiment=text(manifest.experiment),
        state=manifest.state,
        reason=text(manifest.stopped),
        question=text(verdict.question if verdict else ""),
        answer=text(verdict.answer if verdict else ""),
        baseline=text(manifest.baseline),
        kind=text(guest.kind),
        emulator=text(guest.emulator),
        cpu_model=text(host.get("cpu_model") or "")[:_INDEXED],
        host_arch=text(host.get("host_arch") or "")[:_INDEXED],
        cpus=_figure(host.get("cpus")),
        memory_bytes=_figure(host.get("memory_bytes")),
        guest_cpus=None if whole else guest.cpus,
        guest_memory_bytes=None if whole else guest.memory_bytes,
        counts=dict(_counts(verdict)) if verdict else {},
        judged=verdict is not None,
        outside=verdict.outside if verdict else False,
    )


def kernels_of(run: Run, manifest: Manifest, verdict: Verdict | None) -> list[Kernel]:
    """The baseline's first."""
    found = {}
    booted = verdict.boots if verdict else manifest.images
    for variant in {manifest.baseline: 0, **dict.fromkeys(booted)}:
        version: str = label_of(run, manifest, variant)
        image: dict[str, Any] = {}
        with suppress(ToolError):
            image = run.image(variant)
        if version == variant:
            version = str(image.get("release") or image.get("version") or "")
        source, digest = str(image.get("source") or ""), manifest.images.get(variant, "")
        key = text(variant)
        found[key] = Kernel(key, text(version)[:80], text(source)[:500], text(digest)[:80])
    return list(found.values())


def machines_of(run: Run, manifest: Manifest) -> list[Machine]:
    """All on which it was measured."""
    hosts = manifest.machines or {machine_of(run, manifest): manifest.host}
    return [
        Machine(text(name), text(host.get("cpu_model") or "")[:_INDEXED])
        for name, host in hosts.items()
    ]


def scores_in(verdict: Verdict, manifest: Manifest, samples: Samples) -> list[Score]:
    """A row for each case of a variant that has a score."""
    known = {(it.suite, it.case): it for it in manifest.cases}
    for it in verdict.effects:
        if (it.suite, it.case) not in known:
            known[it.suite, it.case] = CaseInfo.model_construct(
                suite=it.suite, case=it.case, unit=it.unit, better=it.better
            )
    variants = dict.fromkeys((verdict.baseline, *verdict.boots, *samples.boots))
    values = {key: list(blocks.values()) for key, blocks in samples.scores.items()}
    return scores_of(known.values(), variants, values, verdict, manifest)


def scores_said(verdict: Verdict) -> list[Score]:
    """The same by the verdict alone, without reading a boot: no intervals of the levels."""
    found: dict[tuple[str, str, str], Score] = {}
    for it in verdict.effects:
        about: dict[str, Any] = {"suite": it.suite, "case": it.case, "unit": it.unit}
        about |= {"better": it.better, "work": "", "low": None, "high": None, "boots": it.blocks}
        nothing = {"ratio": None, "ratio_low": None, "ratio_high": None, "verdict": ""}
        low, high = it.ci or (None, None)
        own = {"ratio": it.ratio, "ratio_low": low, "ratio_high": high, "verdict": it.verdict}
        for variant, value, more in (
            (verdict.baseline, it.baseline_value, nothing),
            (it.variant, it.value, own),
        ):
            if value is not None:
                key = (it.suite, it.case, variant)
                found.setdefault(key, Score(**about, variant=variant, value=value, **more))
    return list(found.values())


def series_in(samples: Samples) -> list[Series]:
    found = []
    for (suite, case, variant), blocks in samples.scores.items():
        order = sorted(blocks)
        names = (text(suite), text(case), text(variant))
        found.append(Series(*names, order, [blocks[block] for block in order]))
    return found


def damaged_run(run: Run, problem: KdynoError, *, created: str, **own: Any) -> Facts:
    """A run of which little but its folder's name is known."""
    return Facts(**own, created=text(created or run.name[:15]), reason=text(str(problem)))


def text(value: Any) -> str:
    """No database takes lone surrogates, and PostgreSQL no NUL."""
    return str(value).encode("utf-8", "replace").decode().replace("\0", "")[:4000]


def rows(found: Iterable[Any]) -> list[Mapping[str, Any]]:
    """Of dataclasses, with what no database takes made harmless."""
    return [{key: _taken(key, it) for key, it in vars(each).items()} for each in found]


def _taken(key: str, value: Any) -> Any:
    if isinstance(value, str):
        return text(value)
    if isinstance(value, list):
        return [_taken(key, it) for it in value]
    if isinstance(value, int) and not isinstance(value, bool):
        return max(-_MOST, min(value, _MOST if not key.endswith("_bytes") else _MOST_BYTES))
    return value


def _counts(verdict: Verdict) -> Counter[str]:
    copy = verdict.copy_of_baseline
    return Counter(it.verdict for it in verdict.effects if not it.control and it.variant != copy)


def _figure(value: Any) -> float | None:
    return value if isinstance(value, float) else None


ODD = "its row in the store holds what no kdyno writes"
_FIGURES = ("cpus", "memory_bytes")
_COUNTS = ("boots", "damaged", "files", "size_bytes")


def facts_in(row: Iterable[Any]) -> Facts | None:
    """A row of ``runs``. One that is odd is a damaged run of that name; None: it has no name."""
    it = Facts(*row)
    if not (_texts(it.identity, it.name) and it.name):
        return None
    if _is_sound(it):
        return it
    created, experiment = (text if _texts(text) else "" for text in (it.created, it.experiment))
    return Facts(it.identity, it.name, "", created, experiment, reason=ODD)


def kernel_in(row: Iterable[Any]) -> Kernel | None:
    """None for one that is odd."""
    found = tuple(row)
    return Kernel(*found) if _texts(*found) else None


def score_in(row: Iterable[Any]) -> Score | None:
    """None for one without a figure. An interval or a ratio that says nothing is not there."""
    it = Score(*row)
    texts = (it.suite, it.case, it.unit, it.better, it.variant, it.work, it.verdict)
    if not (_texts(*texts) and _within(it.value, SCORE_MOST) and _whole(it.boots)):
        return None
    level = _both(it.low, it.high, SCORE_MOST)
    ratio = _both(it.ratio_low, it.ratio_high, RATIO_MOST)
    if level and ratio and (it.ratio is None or _within(it.ratio, RATIO_MOST)):
        return it
    low, high = (it.low, it.high) if level else (None, None)
    own = it.ratio if _within(it.ratio, RATIO_MOST) else None
    ends = (it.ratio_low, it.ratio_high) if ratio and own is not None else (None, None)
    return Score(*texts[:6], it.boots, it.value, low, high, own, *ends, it.verdict)


def _is_sound(it: Facts) -> bool:
    texts = (value for key, value in vars(it).items() if key not in _OTHERS)
    figures = (getattr(it, key) for key in _FIGURES)
    guest = (it.guest_cpus, it.guest_memory_bytes)
    return (
        _texts(*texts)
        and all(value is None or _is_figure(value) for value in figures)
        and all(value is None or _whole(value) for value in guest)
        and all(_whole(getattr(it, key)) for key in _COUNTS)
        and isinstance(it.counts, dict)
        and _texts(*it.counts)
        and all(map(_whole, it.counts.values()))
        and isinstance(it.judged, bool)
        and isinstance(it.outside, bool)
    )


_OTHERS = {*_FIGURES, *_COUNTS, "guest_cpus", "guest_memory_bytes", "counts", "judged", "outside"}


def _texts(*values: Any) -> bool:
    return set(map(type, values)) <= {str}


def _whole(value: Any) -> bool:
    return type(value) is int and value >= 0


def _is_figure(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)


def _within(value: Any, most: float) -> bool:
    return type(value) in (int, float) and 1 / most <= value <= most


def _both(low: Any, high: Any, most: float) -> bool:
    """An interval, or none."""
    if low is None or high is None:
        return low is None and high is None
    return _within(low, most) and _within(high, most) and low <= high
