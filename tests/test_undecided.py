# SPDX-License-Identifier: MIT
"""What a count does not decide: refused with the reason, or flagged where somebody insists."""

from __future__ import annotations

import dataclasses

import pytest

from kdyno.errors import UsageError
from kdyno.experiment.model import Experiment, Machine, Measure, SuiteUse, Variant
from kdyno.measure.bench import check_machine, flags_of, refuse_undecided
from kdyno.suites.catalogue import load, why_uncounted
from kdyno.suites.job import cases_of

SUITES = load()
COUNTED = Measure(metric="instructions")
TWO_CPUS = Machine("qemu", cpus=2)
INSISTING = dataclasses.replace(COUNTED, insist=True)


def asking(*uses: tuple[str, str], measure: Measure = COUNTED, **more: object) -> Experiment:
    given = {"variants": (Variant("stock", ""), Variant("mine", "")), **more}
    suites = tuple(SuiteUse(suite, (case,)) for suite, case in uses)
    return Experiment("e", "?", "stock", suites=suites, measure=measure, **given)  # type: ignore[arg-type]


def refused(experiment: Experiment) -> str:
    with pytest.raises(UsageError) as message:
        refuse_undecided(experiment, cases_of(experiment, SUITES))
    return str(message.value)


@pytest.mark.parametrize(
    ("suite", "case", "why"),
    [
        ("xbench", "memory.stream.triad", "its time is that of caches and memory"),
        ("xbench", "memory.system.fill", "its time is that of caches and memory"),
        ("perf-bench", "mem-memcpy", "its time is that of caches and memory"),
        ("xbench", "thread.lock_contention", "that want one lock is time"),
        ("hackbench", "pipes", "are switched hangs on single instructions"),
        ("perf-bench", "sched-messaging", "are switched hangs on single instructions"),
        ("sysbench", "cpu", "it runs for so many seconds"),
        ("stress-ng", "pipe", "it runs for so many seconds"),
        ("fio", "write-4k", "it waits for a disk"),
        ("xbench", "disk.random.write_4k", "it waits for a disk"),
        ("tiobench", "read", "it waits for a disk"),
    ],
)
def test_a_case_that_a_count_does_not_decide_is_refused(suite: str, case: str, why: str) -> None:
    text = refused(asking((suite, case), ("unixbench", "pipe")))
    assert f"does not decide {suite}/{case}: " in text and why in text
    assert "unixbench/pipe" not in text
    assert 'metric = "time" does' in text and "insist = true counts all the same" in text


def test_the_cases_of_unixbench_and_of_a_compiler_are_decided() -> None:
    for suite in ("unixbench", "apachebench", "kernel-compile", "run"):
        assert {why_uncounted(case) for case in SUITES[suite].cases} == {""}


def test_cases_of_one_reason_are_told_together_and_many_are_cut() -> None:
    uses = [("xbench", case.name) for case in SUITES["xbench"].cases if why_uncounted(case)]
    text = refused(asking(*uses))
    assert text.count("caches and memory") == 1 and text.count("it waits for a disk") == 1
    assert "memory.stream.triad: its time" in text and " and 2 more: it waits" in text


def test_several_cpus_and_different_memory_routines_are_refused() -> None:
    pipe = ("unixbench", "pipe")
    text = refused(asking(pipe, machine=TWO_CPUS))
    assert "does not decide cpus = 2: a count is of one CPU" in text
    stock, fsrm = Variant("stock", ""), Variant("mine", "", memcpy="fsrm")
    assert "cpus = 4" in refused(asking(pipe, variants=(stock, Variant("wide", "", cpus=4))))
    text = refused(asking(pipe, variants=(stock, fsrm)))
    assert "does not decide memory routines: a string instruction counts once" in text
    same = (dataclasses.replace(fsrm, name="stock"), fsrm)
    refuse_undecided(asking(pipe, variants=same), ())


def test_a_time_decides_all_of_it() -> None:
    timed = asking(("xbench", "memory.stream.triad"), measure=Measure(), machine=TWO_CPUS)
    refuse_undecided(timed, cases_of(timed, SUITES))
    assert flags_of(timed, cases_of(timed, SUITES)) == ()


def test_whoever_insists_gets_a_flag_for_each_reason() -> None:
    experiment = asking(("xbench", "memory.stream.copy"), measure=INSISTING, machine=TWO_CPUS)
    cases = cases_of(experiment, SUITES)
    refuse_undecided(experiment, cases)
    first, second = flags_of(experiment, cases)
    assert first.kind == second.kind == "not-decided"
    assert first.text.startswith("counted as was asked for, and decides nothing: cpus = 2: a count")
    assert "xbench/memory.stream.copy: its time" in second.text


def test_the_machine_is_asked_first() -> None:
    experiment = asking(("sysbench", "cpu"), machine=Machine("uml"))
    with pytest.raises(UsageError, match='kind = "uml": its code runs on the host'):
        check_machine(experiment, cases_of(experiment, SUITES))
