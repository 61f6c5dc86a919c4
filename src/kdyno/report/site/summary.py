# SPDX-License-Identifier: MIT
"""One run in a few lines: what the list, the comparison and the history need of it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from typing import Any

from kdyno.errors import KdynoError, ToolError
from kdyno.reading.checked import values
from kdyno.report import plain
from kdyno.report.evidence import Evidence, gather
from kdyno.report.groups import groups
from kdyno.report.sentence import answer
from kdyno.store.boot import plain_name
from kdyno.store.comparable import label_of
from kdyno.store.database.facts import Facts
from kdyno.store.database.facts import Kernel as Row
from kdyno.store.manifest import MachineInfo, Manifest
from kdyno.store.run import Run
from kdyno.store.samples import Score, scores_of
from kdyno.store.verdict import Verdict

_SHORT = 1000
SCHEMA = 1
"""Of manifest.json and verdict.json, as this kdyno reads them."""


@dataclass(frozen=True)
class Kernel:
    version: str
    """Its release as far as it is known, else ""."""
    digest: str


@dataclass(frozen=True)
class Summary:
    """A run of any state. Text is as it was stored: whoever shows it makes it safe."""

    name: str
    page: str
    """Name of the run's files in the site, without suffix: letters, digits, dot, dash."""
    created: str
    """UTC, ISO 8601."""
    state: str
    """finished, running, interrupted, failed, empty, damaged, or ``schema N``."""
    reason: str = ""
    """Why there is no report, or what is odd."""
    experiment: str = ""
    question: str = ""
    answer: str = ""
    baseline: str = ""
    kind: str = ""
    machine: str = ""
    """For people; "" where it is not known."""
    machine_key: str = ""
    """Equal for runs that may be compared, as far as memory does not matter."""
    memory_bytes: float | None = None
    kernels: Mapping[str, Kernel] | None = None
    counts: Mapping[str, int] | None = None
    """Verdict → effects."""
    scores: tuple[Score, ...] = ()
    has_report: bool = False

    def to_json(self) -> str:
        return json.dumps(asdict(self), ensure_ascii=True, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Summary:
        """ValueError, TypeError or KeyError when it is none."""
        data: dict[str, Any] = values(text)
        data["scores"] = tuple(Score(**each) for each in data["scores"])
        kernels = data["kernels"] or {}
        data["kernels"] = {name: Kernel(**each) for name, each in kernels.items()}
        return cls(**data)


def page_name(name: str) -> str:
    """A file name for a run of any name; different for different runs."""
    clean = plain_name(name)
    if clean == name:
        return clean
    return f"{clean[:60]}-{sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:10]}"


def unreadable(name: str, state: str, reason: str) -> Summary:
    """A run of which nothing but its folder's name is known."""
    return Summary(
        name=_text(name),
        page=page_name(name),
        created=_text(name[:15]),
        state=state,
        reason=_text(reason),
    )


def summarize(run: Run) -> tuple[Summary, Evidence | None]:
    """The run's summary, and what its report shows; None where it has no report. Never raises
    because of what the run holds."""
    try:
        manifest = run.manifest()
    except KdynoError as error:
        return unreadable(run.name, "damaged", _reason(run, error)), None
    if manifest.schema_ != SCHEMA:
        reason = f"written in schema {manifest.schema_}, this kdyno reads {SCHEMA}"
        return unreadable(run.name, f"schema {manifest.schema_}", reason), None
    guest = manifest.machine
    known = Summary(
        name=_text(run.name),
        page=page_name(run.name),
        created=_text(manifest.created),
        state=_state(run, manifest),
        reason=_text(manifest.stopped),
        experiment=_text(manifest.experiment),
        baseline=_text(manifest.baseline),
        kind=guest.kind,
        machine=_told(manifest.host, guest),
        machine_key=_machine_key(manifest.host, guest),
        memory_bytes=_memory(manifest.host),
    )
    try:
        verdict = run.verdict()
        if verdict is None:
            return known, None
        evidence = gather(run, verdict)
    except KdynoError as error:
        return replace(known, state="damaged", reason=_reason(run, error)), None
    counts: dict[str, int] = {}
    for group in groups(verdict):
        for it in () if group.is_copy else group.tested:
            counts[it.verdict] = counts.get(it.verdict, 0) + 1
    odd = f"{len(evidence.damaged)} of its boots are damaged" if evidence.damaged else ""
    outside = "without the sandbox" if verdict.outside else ""
    full = replace(
        known,
        question=_text(verdict.question),
        answer=_text(answer(verdict)),
        reason="; ".join(filter(None, [known.reason, odd, outside])),
        kernels=_kernels(run, manifest, verdict),
        counts=counts,
        scores=tuple(_scores(evidence, verdict, manifest)),
        has_report=True,
    )
    return full, evidence


def of_rows(facts: Facts, kernels: Sequence[Row], scores: Sequence[Score]) -> Summary:
    """Of a run in the shared store: what ``summarize`` finds in its folder, without reading it."""
    host = {"cpu_model": facts.cpu_model, "host_arch": facts.host_arch, "cpus": facts.cpus}
    host["memory_bytes"] = facts.memory_bytes
    guest = MachineInfo(
        kind=facts.kind or "uml",
        memory_bytes=facts.guest_memory_bytes or 0,
        cpus=facts.guest_cpus or 1,
        emulator=facts.emulator,
    )
    odd = f"{facts.damaged} of its boots are damaged" if facts.damaged else ""
    outside = "without the sandbox" if facts.outside else ""
    state = "interrupted" if facts.state == "running" else facts.state
    return Summary(
        name=_text(facts.name),
        page=page_name(facts.name),
        created=_text(facts.created),
        state=state,
        reason="; ".join(filter(None, [_text(facts.reason), odd, outside])),
        experiment=_text(facts.experiment),
        question=_text(facts.question),
        answer=_text(facts.answer),
        baseline=_text(facts.baseline),
        kind=guest.kind,
        machine=_told(host, guest),
        machine_key=_machine_key(host, guest),
        memory_bytes=facts.memory_bytes,
        kernels={_text(it.variant): Kernel(_text(it.version), it.digest[:12]) for it in kernels},
        counts=facts.counts,
        scores=tuple(map(_safe, scores)),
        has_report=facts.judged,
    )


def _state(run: Run, manifest: Manifest) -> str:
    if manifest.state != "running":
        return manifest.state
    try:
        return "running" if run.is_being_written() else "interrupted"
    except KdynoError:
        return "interrupted"


def _told(host: Mapping[str, Any], guest: MachineInfo) -> str:
    """``uml on AMD EPYC, 2 CPUs, 24 GiB``."""
    parts = [str(host.get("cpu_model") or host.get("host_arch") or "an unknown machine")]
    if isinstance(cpus := host.get("cpus"), float):
        parts.append(f"{cpus:.0f} CPUs")
    if isinstance(memory := host.get("memory_bytes"), float):
        parts.append(f"{memory / 2**30:.0f} GiB")
    kind = f"{guest.kind} ({guest.emulator})" if guest.emulator else guest.kind
    return _text(f"{kind} on {', '.join(parts)}")


def _machine_key(host: Mapping[str, Any], guest: MachineInfo) -> str:
    """As ``kdyno compare`` tells machines apart. Memory is not in it: a kernel keeps some for
    itself, so that the total differs a little between kernels."""
    own: tuple[object, ...] = (guest.memory_bytes, guest.cpus) if guest.built else ()
    own += (guest.emulator,) if guest.emulator else ()
    own += ("scattered",) if guest.scattered else ()
    facts = (guest.kind, host.get("cpu_model"), host.get("host_arch"), host.get("cpus"), own)
    return sha256(repr(facts).encode("utf-8", "replace")).hexdigest()[:12]


def _memory(host: Mapping[str, Any]) -> float | None:
    memory = host.get("memory_bytes")
    return memory if isinstance(memory, float) else None


def _kernels(run: Run, manifest: Manifest, verdict: Verdict) -> dict[str, Kernel]:
    found = {}
    for variant in {manifest.baseline: 0, **dict.fromkeys(verdict.boots)}:
        version = label_of(run, manifest, variant)
        if version == variant:
            try:
                image = run.image(variant)
                version = str(image.get("release") or image.get("version") or "")
            except ToolError:
                version = ""
        digest = manifest.images.get(variant, "")
        found[_text(variant)] = Kernel(_text(version)[:80], _text(digest)[:12])
    return found


def _scores(evidence: Evidence, verdict: Verdict, manifest: Manifest) -> Iterator[Score]:
    values = {key: [it.score for it in points] for key, points in evidence.points.items()}
    for it in scores_of(evidence.cases, evidence.variants, values, verdict, manifest):
        yield _safe(it)


def _safe(it: Score) -> Score:
    # Of a thousand runs this is asked forty thousand times, and is almost always so already.
    text = it.suite + it.case + it.unit + it.variant
    if text.isascii() and text.isprintable() and len(text) < _SHORT:
        return it
    return replace(
        it,
        suite=_text(it.suite),
        case=_text(it.case),
        unit=_text(it.unit),
        variant=_text(it.variant),
    )


def _reason(run: Run, error: KdynoError) -> str:
    """Without the folder of the runs: a site is passed on, and need not say where it lay."""
    return _text(str(error).replace(f"{run.path.parent}/", ""))


def _text(text: str) -> str:
    return plain.sentence(text)
