# SPDX-License-Identifier: MIT
"""One run in a few lines: what the list and the history need of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass, replace
from hashlib import sha256

from kdyno.errors import KdynoError
from kdyno.report import plain
from kdyno.report.evidence import Evidence, gather
from kdyno.report.sentence import answer
from kdyno.store.boot import plain_name
from kdyno.store.database.tables import Facts, Kernel, facts_of, kernels_of
from kdyno.store.run import Run
from kdyno.store.samples import Score, scores_of

_SHORT = 1000
SCHEMA = 1
"""Of manifest.json and verdict.json, as this kdyno reads them."""


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
    machine: str = ""
    """For people; "" where it is not known."""
    machine_key: str = ""
    """Equal for runs whose scores are one series."""
    kernels: Mapping[str, Kernel] | None = None
    counts: Mapping[str, int] | None = None
    """Verdict → effects."""
    scores: tuple[Score, ...] = ()
    has_report: bool = False


def page_name(name: str) -> str:
    """A file name for a run of any name; different for different runs."""
    clean = plain_name(name)
    if clean == name:
        return clean
    return f"{clean[:60]}-{sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:10]}"


def experiment_page(experiment: str) -> str:
    """The page of an experiment's history, below the site's folder."""
    return f"history/{page_name(experiment or '?')}.html"


def unreadable(name: str, state: str, reason: str) -> Summary:
    """A run of which nothing but its folder's name is known."""
    created, reason = plain.sentence(name[:15]), plain.sentence(reason)
    return Summary(plain.sentence(name), page_name(name), created, state, reason)


def summarize(run: Run) -> tuple[Summary, Evidence | None]:
    """The run's summary, and what its report shows, if any. Never raises for what the run holds."""

    def problem(error: KdynoError) -> str:
        # Without the folder of the runs: a site is passed on, and need not say where it lay.
        return str(error).replace(f"{run.path.parent}/", "")

    try:
        manifest = run.manifest()
    except KdynoError as error:
        return unreadable(run.name, "damaged", problem(error)), None
    if manifest.schema_ != SCHEMA:
        reason = f"written in schema {manifest.schema_}, this kdyno reads {SCHEMA}"
        return unreadable(run.name, f"schema {manifest.schema_}", reason), None
    verdict = evidence = None
    state, reason = run.state(manifest.state), manifest.stopped
    kernels: list[Kernel] = []
    scores: list[Score] = []
    try:
        if (verdict := run.verdict()) is not None:
            evidence = gather(run, verdict)
            kernels = kernels_of(run, manifest, verdict)
            scores = scores_of(verdict, manifest, evidence.samples)
    except KdynoError as error:
        verdict, evidence, state, reason = None, None, "damaged", problem(error)
    damaged = len(evidence.samples.damaged) if evidence else 0
    words = answer(verdict) if verdict else ""
    facts = facts_of(manifest, verdict, "", run.name, "")
    facts = replace(facts, state=state, reason=reason, answer=words, damaged=damaged)
    return _summary(facts, kernels, scores, manifest.machine.scattered), evidence


def of_rows(facts: Facts, kernels: Iterable[Kernel], scores: Iterable[Score]) -> Summary:
    """Of a run in the shared store: what ``summarize`` finds in its folder, without reading it."""
    if facts.state == "running":
        facts = replace(facts, state="interrupted")
    return _summary(facts, kernels, scores)


def _summary(
    facts: Facts, kernels: Iterable[Kernel], scores: Iterable[Score], scattered: bool = False
) -> Summary:
    text = plain.sentence
    odd = f"{facts.damaged} of its boots are damaged" if facts.damaged else ""
    outside = "without the sandbox" if facts.outside else ""
    parts = [facts.cpu_model or facts.host_arch or "an unknown machine"]
    parts += [] if facts.cpus is None else [f"{facts.cpus:.0f} CPUs"]
    parts += [] if facts.memory_bytes is None else [f"{facts.memory_bytes / 2**30:.0f} GiB"]
    kind = f"{facts.kind} ({facts.emulator})" if facts.emulator else facts.kind
    # As ``kdyno compare`` distinguishes machines. The host's memory is not in it: a kernel keeps
    # some for itself, so that the total differs a little between kernels.
    machine = (facts.kind, facts.emulator, facts.cpu_model, facts.host_arch, facts.cpus)
    guest = (facts.guest_memory_bytes, facts.guest_cpus, scattered)
    same = ("name", "created", "experiment", "question", "answer", "baseline")
    return Summary(
        **{key: text(getattr(facts, key)) for key in same},
        page=page_name(facts.name),
        state=facts.state,
        reason="; ".join(filter(None, [text(facts.reason), odd, outside])),
        machine=text(f"{kind} on {', '.join(parts)}"),
        machine_key=sha256(repr((machine, guest)).encode("utf-8", "replace")).hexdigest()[:12],
        kernels={text(each.variant): Kernel(*map(text, astuple(each))) for each in kernels},
        counts=facts.counts,
        scores=tuple(map(_safe, scores)),
        has_report=facts.judged,
    )


def _safe(score: Score) -> Score:
    # Of a thousand runs this is asked forty thousand times, and is almost always so already.
    text = score.suite + score.case + score.unit + score.variant
    if text.isascii() and text.isprintable() and len(text) < _SHORT:
        return score
    names = map(plain.sentence, (score.suite, score.case, score.unit, score.variant))
    suite, case, unit, variant = names
    return replace(score, suite=suite, case=case, unit=unit, variant=variant)
