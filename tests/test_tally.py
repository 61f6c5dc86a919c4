# SPDX-License-Identifier: MIT
"""What an operation is made of: read from QEMU's plugin, summed to an estimate, shown as one."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from kdyno.errors import UsageError
from kdyno.experiment import loader
from kdyno.experiment.model import Cache, CacheModel
from kdyno.judge.judging import verdict_of
from kdyno.judge.question import Question
from kdyno.machines import emulator
from kdyno.machines.emulator import Emulator
from kdyno.machines.kinds import KINDS
from kdyno.machines.machine import Asked
from kdyno.machines.tally import Tally, asked, read, with_tallies
from kdyno.measure.vocabulary import vocabulary
from kdyno.report import markdown, terminal
from kdyno.store.boot import BootHost, BootJob, BootRecord
from kdyno.store.boot import Sample as Stored
from kdyno.store.manifest import Asked as AskedOf
from kdyno.store.manifest import CaseInfo, MachineInfo, Manifest
from kdyno.store.run import create_run
from kdyno.store.verdict import Flag, Verdict
from kdyno.suites.catalogue import load
from kdyno.suites.instructions import ESTIMATE_UNIT
from kdyno.suites.protocol import Transcript
from kdyno.suites.record import CaseError, Sample
from kdyno.suites.score import steady

PART = Tally(
    user=400, kernel=600, pieces=100, piece_bytes=640, l1i=3, l1d=4, l2=2, llc=1, branches=5
)
LINE = b"part 400 600 100 640 3 4 2 1 5\n"


def test_cycles_are_instructions_and_so_many_for_each_miss() -> None:
    # 900 that are no pieces, 640 bytes at 32 a cycle, and the misses.
    assert PART.cycles(CacheModel()) == 900 + 20 + 10 * 7 + 20 * 2 + 100 * 1 + 10 * 5
    other = CacheModel(l1_miss=1, l2_miss=2, llc_miss=3, branch_miss=4, string_bytes=1)
    assert PART.cycles(other) == 900 + 640 + 7 + 4 + 3 + 20


def test_the_plugin_is_told_the_sizes() -> None:
    assert asked(0xC0000000, None) == b"kernel 3221225472\n"
    assert asked(1 << 63, CacheModel(l2=Cache(512 << 10, 4))).decode().splitlines() == [
        "kernel 9223372036854775808",
        "l1i 32768 8",
        "l1d 32768 8",
        "l2 524288 4",
        "llc 16777216 16",
        "line 64",
        "history 12",
    ]


def test_parts_are_read_as_far_as_they_are_whole() -> None:
    assert read(io.BytesIO(LINE + LINE + b"part 1 2")) == [PART, PART]
    assert read(io.BytesIO(LINE + b"rubbish\n" + LINE)) == [PART]
    assert read(io.BytesIO(b"")) == []


def sample(case: int, *reps: tuple[int, int]) -> Sample:
    return Sample(case, reps, 1, 1, 1, 1, {"stdout": "x"})


def half(of: Tally) -> Tally:
    return Tally(*(count // 2 for count in (of.user, of.kernel)), 0, 0, 0, 0, 0, 0, 0)


def test_with_a_model_the_score_is_its_estimate() -> None:
    said = Transcript(1, results=(sample(0, (10, 1010), (10, 520)),))
    found = with_tallies(said, [PART, half(PART)], CacheModel()).result(0)
    assert isinstance(found, Sample)
    assert found.reps == ((10, 1180), (10, 500))
    # Of the part that is the score, the cheapest where no two agree, and of one operation.
    assert found.extra["counted-instructions"] == "50.0" and found.extra["stdout"] == "x"
    assert found.extra["counted-l1d"] == "0.0"


def test_without_one_instructions_are_told_apart() -> None:
    said = Transcript(1, results=(sample(0, (10, 1010), (10, 520)),))
    found = with_tallies(said, [PART, half(PART)], None).result(0)
    assert isinstance(found, Sample) and found.reps == ((10, 1010), (10, 520))
    assert found.extra == {"stdout": "x", "counted-user": "20.0", "counted-kernel": "30.0"}


def test_they_are_told_of_the_part_that_is_the_score() -> None:
    """Most parts agree; a cheaper one, without a step that the others have, is not the score."""
    reps = ((10, 520), (10, 1010), (10, 1010))
    said = Transcript(1, results=(sample(0, *reps),))
    found = with_tallies(said, [half(PART), PART, PART], None).result(0)
    assert isinstance(found, Sample) and reps[steady(reps)] == (10, 1010)
    assert found.extra == {"stdout": "x", "counted-user": "40.0", "counted-kernel": "60.0"}


def test_parts_of_a_case_that_failed_are_nobodys() -> None:
    results = (sample(0, (1, 9)), CaseError(1, "it crashed"), sample(2, (1, 9)))
    first, failed, last = with_tallies(Transcript(3, results=results), [PART] * 3, None).results
    assert isinstance(first, Sample) and failed == results[1]
    assert isinstance(last, CaseError) and "a case before it failed" in last.reason
    (short,) = with_tallies(Transcript(1, results=results[:1]), [], None).results
    assert short == CaseError(0, "its counts are not whole")


def experiment_of(more: str) -> loader.Experiment:
    text = f"""
name = "e"
question = "?"
[kernel]
source = "debian:linux-source-7.3"
[variant.stock]
[machine]
kind = "qemu"
[[suite]]
name = "unixbench"
cases = ["pipe"]
[measure]
calibrate = true
metric = "cycles-estimated"
{more}
"""
    return loader.parse(text, "e.toml", Path("/"), vocabulary(load()))


def test_the_model_is_in_the_experiment() -> None:
    assert experiment_of("").model == CacheModel()
    text = '[model]\nl1d = "48K 12-way"\nllc = "4M 16-way"\nhistory = 8\nllc_miss = 200'
    found = experiment_of(text).model
    assert found == CacheModel(
        l1d=Cache(48 << 10, 12), llc=Cache(4 << 20, 16), history=8, llc_miss=200.0
    )


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ('l1d = "48K 8-way"', "no power of two of sets"),
        ('l2 = "big"', 'text like "32K 8-way"'),
        ("line = 48", "is not a power of two"),
        ("history = 21", "Allowed: 0 to 20"),
        ("l3_miss = 3", "l3_miss"),
    ],
)
def test_a_model_that_cannot_be_is_refused(line: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        experiment_of(f"[model]\n{line}")


@pytest.mark.parametrize(
    ("kind", "how", "why"),
    [
        ("uml", Asked("cycles-estimated"), "nobody counts exactly"),
        ("uml", Asked(apart=True), 'goes with metric = "instructions"'),
        ("qemu", Asked("cycles-estimated", "kvm"), "counts what it emulates"),
        ("qemu", Asked(apart=True), 'goes with metric = "instructions"'),
    ],
)
def test_where_it_cannot_be_it_is_refused(
    kind: str, how: Asked, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(emulator, "find", lambda: Emulator("qemu", "7.2.22"))
    with pytest.raises(UsageError, match=why):
        KINDS[kind].check(how)


CASE = CaseInfo(suite="unixbench", case="pipe", unit=ESTIMATE_UNIT, better="lower")


def estimated(tmp_path: Path) -> Verdict:
    """Eight blocks; the variant has 40 instructions and 2 misses more."""
    manifest = Manifest(
        tool="0", created="2026", experiment="e", baseline="stock", seed=1, cases=(CASE,),
        images={"stock": "a", "mine": "b"}, asked=AskedOf(metric="cycles-estimated"),
        variants={"stock": {}, "mine": {}},  # type: ignore[dict-item]
        machine=MachineInfo(kind="qemu", caveats=(Flag(kind="estimate", text="not time"),)),
    )  # fmt: skip
    with create_run(tmp_path, "", manifest) as writer:
        for index in range(16):
            block, mine = divmod(index, 2)
            figures = {"instructions": 1400.0 + 40 * mine, "l1d": 3.0 + 2 * mine}
            kept = Stored(
                suite="unixbench", case="pipe", score=1430.0 + 60 * mine + block,
                reps=((10.0, 14300.0),),
                extra={f"counted-{name}": value for name, value in figures.items()},
            )  # fmt: skip
            job = BootJob(index=index, block=block, variant=("stock", "mine")[mine])
            writer.add_boot(BootRecord(job=job, host=BootHost(status="ok"), samples=(kept,)), b"")
        return verdict_of(writer.run, Question.of(manifest), "precision reached")


def test_an_estimate_is_told_as_one_with_all_that_it_is_made_of(tmp_path: Path) -> None:
    verdict = estimated(tmp_path)
    (effect,) = verdict.effects
    assert (effect.verdict, effect.exact, effect.unit) == ("slower", False, ESTIMATE_UNIT)
    assert [(it.figure, it.baseline_value, it.value) for it in effect.apart] == [
        ("instructions", 1400.0, 1440.0),
        ("l1d", 3.0, 5.0),
    ]
    assert Verdict.from_json(verdict.to_json()) == verdict
    shown = terminal.text(verdict, 120)
    assert "cycles, est." in shown and "estimate  not time" in shown
    row = next(line for line in shown.splitlines() if line.split()[:2] == ["mine", "pipe"])
    assert row.split()[2:] == ["1,493.5", "(+60.000)", "1,440.0", "(+40.000)", "5.0", "(+2.000)"]
    assert "more estimated cycles/operation" in shown
    assert "| 5.0 (+2.000) |" in markdown.export(verdict)
