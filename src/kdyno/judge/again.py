# SPDX-License-Identifier: MIT
"""A stored run, of any version, judged by today's rule; or against another of its variants."""

from __future__ import annotations

from dataclasses import dataclass, replace

from kdyno.errors import UsageError
from kdyno.judge.judging import verdict_of
from kdyno.judge.question import Question
from kdyno.reading.mistakes import nearest, quoted
from kdyno.store.boot import BootRecord
from kdyno.store.earlier import whole_manifest
from kdyno.store.manifest import Manifest
from kdyno.store.run import Run
from kdyno.store.verdict import Flag, Verdict


@dataclass(frozen=True)
class Otherwise:
    """What is asked differently this time; None: as the run was asked."""

    confidence: float | None = None
    equivalent: float | None = None
    precision: float | None = None


def question_of(run: Run, otherwise: Otherwise) -> tuple[Question, Manifest]:
    """(what is to be judged, the run's whole manifest).

    UsageError for a run that has nothing to judge, ToolError for one that cannot be read.
    """
    manifest = whole_manifest(run)
    if not manifest.failed and not any(isinstance(boot, BootRecord) for boot in run.boots()):
        raise UsageError(f"{run.name} has no boot that can be read, so there is nothing to judge")
    question = Question.of(manifest)
    return replace(
        question,
        confidence=otherwise.confidence or question.confidence,
        equivalent=otherwise.equivalent or question.equivalent,
        precision=otherwise.precision or question.precision,
    ), manifest


def judge_again(run: Run, otherwise: Otherwise) -> tuple[Verdict, Manifest]:
    """(verdict without its words, the run's whole manifest). Errors as ``question_of``."""
    question, manifest = question_of(run, otherwise)
    verdict = verdict_of(run, question, manifest.stopped or "interrupted")
    if manifest.state in ("running", "interrupted"):
        verdict = verdict.model_copy(update={"flags": (*verdict.flags, _interrupted(verdict))})
    return verdict, manifest


def _interrupted(verdict: Verdict) -> Flag:
    return Flag(
        kind="interrupted",
        text=f"measuring did not come to its end; judged were the {sum(verdict.boots.values())} "
        "boots that ended well (`kdyno run --resume RUN` goes on)",
    )


def within(run: Run, against: str, variant: str | None = None) -> Verdict:
    """The run judged as if ``against`` were its baseline; of one variant, or of all the others.

    By the rule that every run is judged by, corrected for the effects that are asked for.
    UsageError where the run has no such variant.
    """
    question, manifest = question_of(run, Otherwise())
    names = question.names
    for name in (against, variant):
        if name is not None and name not in names:
            near = nearest(name, names)
            hint = f". Did you mean {quoted(near)}?" if near else "."
            raise UsageError(f"{run.name} has no variant {name!r}{hint} It has: {', '.join(names)}")
    others = tuple(name for name in names if name != against) if variant is None else (variant,)
    if others == (against,):
        raise UsageError(f"{against!r} against itself: take another --variant or --against")
    return verdict_of(run, _against(question, against, others), manifest.stopped or "interrupted")


def _against(question: Question, baseline: str, variants: tuple[str, ...]) -> Question:
    """Without the factors, whose main effects are against the baseline of the whole cross."""
    return replace(
        question,
        experiment=f"{question.experiment}, against {baseline}",
        baseline=baseline,
        variants=variants,
        copy=None,
        levels={},
    )
