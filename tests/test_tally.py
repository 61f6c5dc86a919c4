# SPDX-License-Identifier: MIT
"""What an operation is made of: read from QEMU's plugin, kept with samples, shown."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from synthetic_run import record

from kdyno.judge.judging import verdict_of
from kdyno.judge.pairs import Question
from kdyno.machines.emulator import Tally, read_tallies, with_tallies
from kdyno.report import exporters, terminal
from kdyno.store.boot import Sample as Stored
from kdyno.store.verdict import Verdict
from kdyno.suites.catalogue import UNIT
from kdyno.suites.protocol import CaseError, Sample, Transcript
from kdyno.suites.score import steady

PART, HALF = (400, 600), (200, 300)
LINE = b"part 400 600\n"


def test_parts_are_read_as_far_as_they_are_whole() -> None:
    assert read_tallies(io.BytesIO(LINE + LINE + b"part 1 ")) == [PART, PART]
    assert read_tallies(io.BytesIO(LINE + b"rubbish\n" + LINE)) == [PART]
    assert read_tallies(io.BytesIO(b"")) == []


def sample(case: int, *reps: tuple[int, int]) -> Sample:
    return Sample(case, reps, 1, 1, 1, 1, {"stdout": "x"})


@pytest.mark.parametrize(
    ("reps", "parts", "user", "kernel"),
    [
        (((10, 1010), (10, 520)), [PART, HALF], "20.0", "30.0"),
        # Most parts agree; a cheaper one, without a step that the others have, is not the score.
        (((10, 520), (10, 1010), (10, 1010)), [HALF, PART, PART], "40.0", "60.0"),
    ],
)
def test_counts_are_of_the_part_that_is_the_score(
    reps: tuple[tuple[int, int], ...], parts: list[Tally], user: str, kernel: str
) -> None:
    (result,) = with_tallies(Transcript(1, results=(sample(0, *reps),)), parts).results
    assert isinstance(result, Sample) and result.reps == reps
    assert parts[steady(reps)][0] == 10 * float(user)
    assert result.extra == {"stdout": "x", "counted-user": user, "counted-kernel": kernel}


def test_parts_of_a_case_that_failed_are_nobodys() -> None:
    results = (sample(0, (1, 9)), CaseError(1, "it crashed"), sample(2, (1, 9)))
    first, failed, last = with_tallies(Transcript(3, results=results), [PART] * 3).results
    assert isinstance(first, Sample) and failed == results[1]
    assert isinstance(last, CaseError) and "a case before it failed" in last.reason
    (short,) = with_tallies(Transcript(1, results=results[:1]), []).results
    assert short == CaseError(0, "its counts are not whole")


def counted(tmp_path: Path) -> Verdict:
    """Eight blocks; the variant has 40 instructions of the kernel more."""
    case = {"suite": "unixbench", "case": "pipe"}
    boots = []
    for index in range(16):
        more = 40.0 * (index % 2)
        figures = {"counted-user": 400.0, "counted-kernel": 1000.0 + more}
        score = 1400.0 + more
        kept = Stored(**case, score=score, reps=((10.0, 10 * score),), extra=figures)  # type: ignore[arg-type]
        boots.append((index // 2, ("stock", "mine")[index % 2], [kept]))
    run = record(
        tmp_path,
        boots,
        cases=(case | {"unit": UNIT, "better": "lower"},),
        images={"stock": "a", "mine": "b"},
        asked={"metric": "instructions"},
        variants={"stock": {}, "mine": {}},
        machine={"kind": "qemu"},
    )
    return verdict_of(run, Question.of(run.manifest()), "precision reached")


def test_an_effect_says_what_its_operation_is_made_of(tmp_path: Path) -> None:
    verdict = counted(tmp_path)
    (effect,) = verdict.effects
    assert (effect.verdict, effect.exact) == ("slower", True)
    assert [(each.figure, each.baseline_value, each.value) for each in effect.apart] == [
        ("user", 400.0, 400.0),
        ("kernel", 1000.0, 1040.0),
    ]
    assert Verdict.from_json(verdict.to_json()) == verdict
    lines = terminal.text(verdict, 120).partition("an operation is made of")[2].splitlines()
    row = next(line for line in lines if line.split()[:2] == ["mine", "pipe"])
    assert row.split()[2:] == ["400.0", "1,040.0", "(+40.000)"]
    assert "| 1,040.0 (+40.000) |" in exporters.markdown(verdict)
