# SPDX-License-Identifier: MIT
"""Any variant of a run against any other of it: they were measured together, so pairs there are."""

from __future__ import annotations

from dataclasses import replace

from kdyno.errors import UsageError
from kdyno.judge.again import Otherwise, question_of
from kdyno.judge.judging import verdict_of
from kdyno.judge.question import Question
from kdyno.reading.mistakes import nearest, quoted
from kdyno.store.run import Run
from kdyno.store.verdict import Verdict


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
