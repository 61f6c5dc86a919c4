# SPDX-License-Identifier: MIT
"""A stored run, judged by today's rule: of any version, interrupted or with damaged boots."""

from __future__ import annotations

from dataclasses import dataclass, replace

from kdyno.errors import UsageError
from kdyno.judge.judging import verdict_of
from kdyno.judge.question import Question
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
