# SPDX-License-Identifier: MIT
"""From what a machine answered to the samples that are stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from kdyno.store.boot import BootFlag, Sample
from kdyno.suites import figure, record
from kdyno.suites.catalogue import Case
from kdyno.suites.protocol import Transcript
from kdyno.suites.score import score_of

OUTPUT_KEPT = 4096
"""Characters of a program's output that are stored with each sample: the last ones."""
_LOOSE = ("stdout", "stderr")


@dataclass(frozen=True)
class Rounds:
    """What one guest did of a case, round by round."""

    way: Literal["turns", "frozen"]
    turns: tuple[tuple[int, int], ...]
    """(operations, ns). The same index in every guest of a group is the same round."""
    cpu_ns: tuple[int, ...] = ()
    """Of each turn, where the host knows it."""


def samples_of(
    cases: Sequence[Case],
    said: Transcript,
    lacking: Sequence[str] = (),
    rounds: Mapping[int, Rounds] | None = None,
) -> tuple[Sample, ...]:
    """A score, or why there is none, for every case that was begun or cannot run here.

    ``lacking``: for each case why it was left out of the job; empty where it was not.
    ``rounds``: what cases that took turns did in them, by their place in the job.
    """
    samples = []
    number = 0
    for at, case in enumerate(cases):
        if lacking and lacking[at]:
            samples.append(_without(case, "skip", lacking[at]))
            continue
        result = said.result(number)
        took = (rounds or {}).get(number)
        number += 1
        if isinstance(result, record.Sample):
            samples.append(_sample(case, result, result.reps))
        elif isinstance(result, record.Done):
            if took is None or not took.turns:
                samples.append(_without(case, "error", "not one of its turns was answered"))
            else:
                sample = _sample(case, result, took.turns)
                known = took.cpu_ns if any(took.cpu_ns) else ()
                more = {"interleave": took.way, "cpu_ns": known}
                samples.append(sample.model_copy(update=more))
        elif result is not None:  # a case that was never begun has none; the boot says why
            status: Literal["skip", "error"] = "error"
            if isinstance(result, record.Skip):
                status = "skip"
            samples.append(_without(case, status, result.reason))
    return tuple(samples)


def load_flags(samples: Sequence[Sample]) -> tuple[BootFlag, ...]:
    """Where fewer tasks were runnable than were asked for, for long enough to say so."""
    flags = []
    for sample in samples:
        share = sample.extra.get(figure.LOW_PARALLELISM)
        if isinstance(share, float) and share >= figure.LOW_PARALLELISM_PERCENT:
            text = (
                f"{sample.suite}/{sample.case}: parallelism fell below half of -j "
                f"for {share:.0f} % of the time"
            )
            flags.append(BootFlag(kind="low-parallelism", text=text))
    return tuple(flags)


def _sample(
    case: Case, said: record.Sample | record.Done, reps: tuple[tuple[int, int], ...]
) -> Sample:
    extra: dict[str, float | bool | str | None] = {}
    for name, text in said.extra.items():
        extra[name] = text[-OUTPUT_KEPT:] if name in _LOOSE else _number_or_text(text)
    output = said.extra.get("stdout", "")
    try:
        if case.figure is None or isinstance(said, record.Done):
            score = score_of(case, reps)
            extra.update(figure.also(case, output))
        else:
            reading = figure.read(case, output)
            score = reading.value
            extra.update(reading.also)
    except figure.NoFigure as problem:
        return _without(case, "error", str(problem))
    return Sample(
        suite=case.suite,
        case=case.name,
        score=score,
        reps=reps,
        user_ns=said.user_ns,
        sys_ns=said.sys_ns,
        extra=extra,
    )


def _number_or_text(text: str) -> float | str:
    try:
        return float(text) if text[:1].isdigit() else text
    except ValueError:
        return text


def _without(case: Case, status: Literal["skip", "error"], why: str) -> Sample:
    return Sample(suite=case.suite, case=case.name, status=status, text=why)
