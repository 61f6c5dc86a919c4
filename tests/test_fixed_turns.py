# SPDX-License-Identifier: MIT
"""The same fixed work in guests that take turns, on the machine in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fake_machine import FakeMachine, Fault
from fake_run import bench, manifest_of, steady

from kdyno.labs.profile import boots
from kdyno.labs.profile.boots import in_turns
from kdyno.labs.profile.record import FunctionTime, Profile, Stack, stored_profiles
from kdyno.machines.machine import Machine, Plan
from kdyno.machines.process import Outcome
from kdyno.measure.execution import Listener, Options
from kdyno.measure.turns import LONGEST_S, TURN_S
from kdyno.store.run import create_run
from kdyno.suites.job import CaseJob, Job
from kdyno.suites.protocol import Done, Sample

SPEEDS = {"stock": 1.0, "mine": 0.5}
JOBS = (
    CaseJob("s", "pipe", "pipe", seconds=None, operations=100_003),
    CaseJob("s", "long", "run", seconds=None, operations=3),
)


def run(machine: FakeMachine, *jobs: CaseJob, whole: str = "") -> Mapping[str, Outcome]:
    plans = [Plan(name, Job(jobs or JOBS, (), True)) for name in SPEEDS]
    return in_turns(machine, plans, "7", {f"s/{whole}": "whole"})


def sizes_of(machine: FakeMachine, variant: str, case: str) -> list[int]:
    """Operations of the turns, in their order."""
    return [count for who, of, count in machine.turned if (who, of) == (variant, case)]


def test_each_guest_does_all_of_the_work_in_turns() -> None:
    machine = FakeMachine(steady(SPEEDS))
    outcomes = run(machine)
    assert [outcome.host.status for outcome in outcomes.values()] == ["ok", "ok"]
    for outcome in outcomes.values():
        assert [type(result) for result in outcome.transcript.results] == [Done, Done]
    for name in SPEEDS:
        sizes = sizes_of(machine, name, "pipe")
        assert sum(sizes) == 100_003
        # By the faster of the two, which has the whole of a turn's time.
        assert max(sizes) == TURN_S / 5e-6 and len(sizes) > 60
        assert sizes_of(machine, name, "long") == [1, 1, 1]


def test_a_long_operation_is_handed_over_in_its_middle_from_the_first_on() -> None:
    """Its length is not known then; a command of a second is often the only one that is done."""
    machine = FakeMachine(steady(SPEEDS))
    run(machine, replace(JOBS[1], operations=1))
    # Slices of 10 ms: 0.1 s and, at half the speed, 0.2 s; both are stopped once before they begin.
    assert machine.pauses["stock"] == pytest.approx(10, abs=1)
    assert machine.pauses["mine"] == pytest.approx(20, abs=1)


def test_a_round_is_one_turn_of_each_of_the_same_size_in_changing_order() -> None:
    machine = FakeMachine(steady(SPEEDS))
    run(machine)
    pairs = list(zip(machine.turned[::2], machine.turned[1::2], strict=True))
    assert all({one[0], other[0]} == set(SPEEDS) for one, other in pairs)
    assert all(one[1:] == other[1:] for one, other in pairs)
    first = Counter(one[0] for one, _ in pairs)
    assert abs(first["stock"] - first["mine"]) <= 2


def test_a_case_that_takes_no_turns_is_done_whole_by_each() -> None:
    machine = FakeMachine(steady(SPEEDS))
    outcomes = run(machine, whole="pipe")
    assert {case for _, case, _ in machine.turned} == {"long"}
    for outcome in outcomes.values():
        assert [type(result) for result in outcome.transcript.results] == [Sample, Done]


@pytest.mark.parametrize("kind", ["boot", "die", "silent"])
def test_the_others_end_their_work_where_one_is_lost(kind: str) -> None:
    machine = FakeMachine(steady(SPEEDS), {"mine": {0: Fault(kind)}})
    outcomes = run(machine)
    statuses = {name: outcome.host.status for name, outcome in outcomes.items()}
    assert statuses == {"stock": "ok", "mine": "failed"}
    assert sum(sizes_of(machine, "stock", "pipe")) == 100_003


def test_a_first_turn_that_was_interrupted_makes_the_next_small_and_not_the_work() -> None:
    slow = iter([LONGEST_S, LONGEST_S])

    def rule(_variant: str, _case: str, _now_s: float) -> float:
        return next(slow, 5e-6)

    machine = FakeMachine(rule)
    run(machine)
    sizes = sizes_of(machine, "stock", "pipe")
    assert sizes[:2] == [1, 1] and sum(sizes) == 100_003 and max(sizes) == TURN_S / 5e-6


@pytest.fixture
def profiling(monkeypatch: pytest.MonkeyPatch) -> None:
    """A profiler that sees one function for a tenth of a second in every boot."""

    def read(_self: object, _machine: Machine, so_far: Profile, *boot: Any) -> Profile:
        outcome, block, _folder = boot
        boots._cpu_s(outcome)
        times = (FunctionTime("kernel", "f", 0.1),)
        return boots._added(so_far, block, 1.0, times, (Stack("kernel", ("f",), 0.1),))

    monkeypatch.setattr(boots.Profiler, "_read", read)


@pytest.mark.usefixtures("profiling")
@pytest.mark.parametrize("way", ["turns", "boots"])
def test_blocks_are_added_to_those_of_an_earlier_call(tmp_path: Path, way: str) -> None:
    faults = {"mine": {1: Fault("die")}}
    setup = bench(steady(SPEEDS), tuple(SPEEDS), faults=faults, interleave=way)
    messages: list[str] = []
    options = Options(tmp_path, tmp_path, listener=Listener(notify=messages.append))
    text: list[tuple[int, int]] = []

    def show(done: int, boots: int, *_: object) -> None:
        text.append((done, boots))

    with create_run(tmp_path / "runs", "", manifest_of(setup, way)) as writer:
        for number in (1, 3):
            request = boots.Request("gprof", boots=number)
            profiles = boots._blocks(writer, 7, setup, request, options, show)
        stored = stored_profiles(writer.run)
    kept = {name: value.boots for name, value in stored.items()}
    assert kept == {name: profile.boots for name, profile in profiles.items()}
    assert set(profiles) == set(SPEEDS)
    for profile in profiles.values():
        assert [boot.block for boot in profile.boots] == [0, 1, 2]
        assert profile.stacks == (Stack("kernel", ("f",), pytest.approx(0.1)),)
        assert any("took turns" in note for note in profile.notes) == (way == "turns")
    assert len({tuple(profile.operations.items()) for profile in profiles.values()}) == 1
    assert text[-1] == ((2, 4) if way == "turns" else (3, 4))
    assert sum("failed and is done again" in line for line in messages) == 1
