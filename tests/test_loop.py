# SPDX-License-Identifier: MIT
"""The loop on a machine in memory: order of turns, budgets, faults, resuming at every point; and
what the run says to beware of."""

from __future__ import annotations

import json
import math
import random
import shutil
from array import array
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import count, pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_machine import Fault
from fake_run import (
    LONG,
    PIPE,
    PRINTED,
    asking,
    bench,
    boots_of,
    judged,
    machine_of,
    manifest_of,
    measured,
    resumed,
    steady,
    texts_of,
)

from kdyno.errors import UsageError
from kdyno.judge.flags import asleep, of_manifest, restless
from kdyno.judge.pairs import Pair
from kdyno.machines import facts
from kdyno.machines.machine import Can, Footprint
from kdyno.machines.process import Dialogue, Outcome
from kdyno.measure import loop as measuring, turns
from kdyno.measure.bench import Bench, plan_of
from kdyno.measure.execution import interleaved
from kdyno.measure.loop import block_order, choose, draw_of, effort
from kdyno.measure.turns import Member, orders, why_whole
from kdyno.stats.groups import spread
from kdyno.store.boot import BootHost, BootRecord
from kdyno.store.manifest import CaseInfo, Criteria
from kdyno.store.run import Run, create_run
from kdyno.store.samples import Samples, gather
from kdyno.store.verdict import Effect
from kdyno.suites.catalogue import load
from kdyno.suites.job import CaseJob, Job
from kdyno.suites.protocol import Reader

SPEEDS = {"stock": 1.0, "mine": 1.02, "other": 0.97}
PAIR = ("stock", "mine")
PIPE_TOO = replace(PIPE, name="pipe2")
ways = pytest.mark.parametrize("way", ["boots", "turns"])


def usual(**more: Any) -> Bench:
    return bench(steady(SPEEDS), **more)


def effects(run: Run) -> dict[str, Effect]:
    return {effect.variant: effect for effect in judged(run).effects}


def of(run: Run, variant: str) -> list[BootRecord]:
    return [boot for boot in boots_of(run) if boot.variant == variant]


def places(boots: Sequence[BootRecord]) -> list[tuple[int, str]]:
    return [(boot.block, boot.variant) for boot in boots]


def planned(run: Run) -> list[tuple[int, str]]:
    return [(at, name) for at, order in enumerate(run.manifest().blocks) for name in order]


@pytest.mark.slow
@ways
def test_blocks_are_shuffled_by_the_seed_and_recorded(tmp_path: Path, way: str) -> None:
    setup = usual()
    run, why = measured(setup, tmp_path, way)
    assert why == "max_boots = 8 reached"
    blocks = run.manifest().blocks
    assert blocks == tuple(block_order(7, number, tuple(SPEEDS)) for number in range(8))
    assert len(set(blocks)) > 2 and places(boots_of(run)) == planned(run)
    # The pages of a block lie at the same random places.
    assert machine_of(setup).draws == [draw_of(7, block) for block in range(8) for _ in SPEEDS]


def test_a_run_that_began_with_pages_in_order_goes_on_so(tmp_path: Path) -> None:
    setup = usual(max_boots=4)
    manifest = manifest_of(setup)
    assert manifest.machine.scattered
    machine = manifest.machine.model_copy(update={"scattered": False})
    before = manifest.model_copy(update={"machine": machine})
    with create_run(tmp_path, "", before) as writer:
        measuring.Loop(setup, writer, before, lambda _status: None).run()
    assert machine_of(setup).draws == [0] * 12


@pytest.mark.slow
@ways
def test_a_known_difference_is_detected(tmp_path: Path, way: str) -> None:
    rows = effects(measured(usual(), tmp_path, way)[0])
    assert rows["mine"].ratio == pytest.approx(1.02, rel=1e-4)
    assert rows["other"].ratio == pytest.approx(0.97, rel=1e-4)
    assert (rows["mine"].verdict, rows["other"].verdict) == ("faster", "slower")
    assert rows["mine"].baseline_value == pytest.approx(200_000, rel=1e-3)


@pytest.mark.slow
def test_what_the_machine_does_cancels_within_a_round(tmp_path: Path) -> None:
    """The speed of the machine halves every 50 ms and comes back: boots cannot see 1 %."""

    def wild(variant: str, _case: str, now_s: float) -> float:
        return 5e-6 * (2 if int(now_s / 0.05) % 2 else 1) / (1.01 if variant == "mine" else 1.0)

    effect = effects(measured(bench(wild, PAIR, max_boots=12), tmp_path)[0])["mine"]
    assert effect.verdict == "faster" and effect.ratio == pytest.approx(1.01, abs=0.003)


def pair_of(run: Run, variant: str) -> Pair:
    manifest = run.manifest()
    return Pair(gather(run.boots()), manifest, manifest.cases[0], variant)


def counts_of(pair: Pair) -> tuple[list[int], list[int]]:
    """Rounds of each group that count, and all."""
    every = pair.data.rounds[pair.key].values()
    return [len(logs) for _, logs in pair.rounds()], list(map(len, every))


@pytest.mark.slow
def test_rounds_in_which_a_guest_waited_for_the_cpu_are_left_out(tmp_path: Path) -> None:
    """Somebody else has the CPU in about every third turn, for as long as it takes or longer."""
    setup = usual(max_boots=4)
    setup = replace(setup, jobs=tuple(replace(job, seconds=0.25) for job in setup.jobs))
    chance = random.Random(1)
    machine_of(setup).waits = lambda _now_s: chance.choice((0.0, 0.0, chance.uniform(0.002, 0.02)))
    run, _ = measured(setup, tmp_path)
    for variant in ("mine", "other"):
        pair = pair_of(run, variant)
        assert np.exp(pair.log_ratios) == pytest.approx([SPEEDS[variant]] * 4, rel=1e-5)
        counts, every = counts_of(pair)
        assert all(4 <= few < 0.8 * many for few, many in zip(counts, every, strict=True))


def test_where_the_guests_always_wait_every_round_counts(tmp_path: Path) -> None:
    setup = usual(max_boots=3)
    machine_of(setup).waits = lambda _now_s: 0.003
    few, every = counts_of(pair_of(measured(setup, tmp_path)[0], "mine"))
    assert few == every and min(few) >= 8


@pytest.mark.slow
@pytest.mark.parametrize(
    ("around_s", "marks_end", "stock", "mine"),
    [(0.0, True, 0.1, 0.08), (0.333, True, 0.1, 0.08), (0.333, False, 0.766, 0.766)],
    ids=["unmarked", "marked", "no end: the whole"],
)
def test_a_long_operation_is_frozen_and_timed_by_the_hosts_clock(
    tmp_path: Path, around_s: float, marks_end: bool, stock: float, mine: float
) -> None:
    """Of a command that marks what is timed, that alone; where it marks no end, all of it."""
    speed = 1.25 if marks_end else 1.0
    setup = bench(steady({"stock": 1.0, "mine": speed}), PAIR, (LONG,), max_boots=6)
    machine = machine_of(setup)
    machine.around_s, machine.ends_marks = around_s, marks_end
    run, _ = measured(setup, tmp_path)
    scores = {boot.variant: boot.samples[0].score for boot in boots_of(run)}
    assert scores == pytest.approx({"stock": stock, "mine": mine}, rel=1e-6)
    sample = of(run, "mine")[0].samples[0]
    assert sample.interleave == "frozen" and {count for count, _ in sample.reps} == {1}
    if marks_end:
        assert effects(run)["mine"].ratio == pytest.approx(0.8, rel=1e-6)
    # Every guest has done the command once before: else who finds its length has in memory what
    # the others still read from the disk.
    for name in PAIR:
        turned = sum(variant == name for variant, _, _ in machine.turned)
        assert turned == sum(len(boot.samples[0].reps) for boot in of(run, name)) + 6


def test_a_command_that_marks_a_short_part_of_it_keeps_the_others_waiting(tmp_path: Path) -> None:
    """Its mark is no answer; and there are as many turns as there is time for whole commands."""
    setup, starts = usual(max_boots=1), list[float]()
    machine = machine_of(setup)
    machine.around_s = 0.3
    machine.waits = lambda now_s: starts.append(now_s) or 0.0  # type: ignore[func-returns-value]
    run, _ = measured(setup, tmp_path)
    assert min(np.diff(starts)) >= 2 * machine.around_s
    scores = {boot.variant: boot.samples[0].score for boot in boots_of(run)}
    assert scores == pytest.approx({name: 200_000 * speed for name, speed in SPEEDS.items()})
    (sample,) = {(len(boot.samples[0].reps), boot.samples[0].interleave) for boot in boots_of(run)}
    assert sample == (3, "turns")


def test_the_figure_of_a_fixed_work_is_had_from_its_time(tmp_path: Path) -> None:
    requests = replace(PRINTED, name="long", unit="requests/s", work="requests")
    setup = bench(steady({"stock": 1.0, "mine": 1.25}), PAIR, (requests,), max_boots=3)
    setup = replace(setup, jobs=tuple(replace(job, work=500) for job in setup.jobs))
    run, _ = measured(setup, tmp_path)
    scores = {boot.variant: boot.samples[0].score for boot in boots_of(run)}
    assert scores == pytest.approx({"stock": 5000.0, "mine": 6250.0}, rel=1e-6)
    assert {boot.samples[0].interleave for boot in boots_of(run)} == {"frozen"}


def test_a_case_that_cannot_take_turns_is_measured_whole(tmp_path: Path) -> None:
    run, _ = measured(usual(cases=(PIPE, PRINTED, PIPE_TOO), max_boots=2), tmp_path)
    for boot in boots_of(run):
        assert boot.ok and [sample.interleave for sample in boot.samples] == ["turns", "", "turns"]


def test_a_group_is_first_as_often_as_second_and_third(tmp_path: Path) -> None:
    run, _ = measured(usual(max_boots=2), tmp_path)
    for block in (0, 1):
        (count,) = {len(each.samples[0].reps) for each in boots_of(run) if each.block == block}
        assert count >= 8 and count % 3 == 0


@pytest.mark.parametrize("seed", range(10))
def test_the_rounds_that_are_measured_are_balanced(
    seed: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    rounds = list[tuple[str, ...]]()

    def take(present: Sequence[Member], size: turns.Size) -> dict[str, int]:
        rounds.append(tuple(member.name for member in present))
        return dict.fromkeys(rounds[-1], round(size.turn_s * 1e9))

    monkeypatch.setattr(turns, "turns", take)
    setup = usual()
    plans = [plan_of(setup, name, turns=True) for name in SPEEDS]
    turns.measure(setup, plans, f"{seed}:0", first_index=0, effort={})
    _warm, *counted = rounds
    places = Counter((name, at) for order in counted for at, name in enumerate(order))
    assert len(places) == 9 and len(set(places.values())) == 1


@pytest.mark.parametrize("kind", ["boot", "die", "silent"])
@ways
def test_a_guest_that_fails_leaves_the_others_their_pairs(
    tmp_path: Path, way: str, kind: str
) -> None:
    run, why = measured(usual(faults={"mine": {1: Fault(kind)}}, max_boots=4), tmp_path, way)
    assert why == "max_boots = 4 reached" and run.manifest().failed == {}
    assert places([boot for boot in boots_of(run) if not boot.ok]) == [(1, "mine")]
    scores = gather(run.boots()).scores
    assert set(scores["s", "pipe", "mine"]) == {0, 2, 3}
    assert set(scores["s", "pipe", "other"]) == {0, 1, 2, 3}


def test_a_turn_of_nothing_in_no_time_is_no_answer(tmp_path: Path) -> None:
    run, _ = measured(usual(faults={"mine": {1: Fault("idle")}}, max_boots=3), tmp_path)
    scores = gather(run.boots()).scores
    assert set(scores["s", "pipe", "mine"]) == {0, 2}
    assert set(scores["s", "pipe", "other"]) == {0, 1, 2}


@pytest.mark.slow
@ways
def test_three_failures_in_a_row_give_a_variant_up(tmp_path: Path, way: str) -> None:
    faults = {"mine": {number: Fault("die") for number in (1, 2, 3)}}
    run, _ = measured(usual(faults=faults, max_boots=6), tmp_path, way)
    assert "3 boots in a row failed: panic" in run.manifest().failed["mine"]
    assert Counter(boot.variant for boot in boots_of(run)) == {"stock": 6, "other": 6, "mine": 4}
    every = {number: Fault("boot") for number in range(9)}
    run, why = measured(usual(faults={"mine": every, "other": every}), tmp_path / "two", way)
    assert why == "every other variant failed" and {*run.manifest().failed} == {"mine", "other"}
    _, why = measured(usual(faults={"stock": every}), tmp_path / "baseline", way)
    assert why == "the baseline failed"


def test_a_forged_turn_is_not_believed(tmp_path: Path) -> None:
    run, _ = measured(usual(faults={"mine": {0: Fault("forge")}}, max_boots=2), tmp_path)
    assert of(run, "mine")[0].samples[0].score == pytest.approx(204_000, rel=1e-3)


@pytest.mark.slow
def test_a_guest_whose_clock_jumps_does_not_end_the_run(tmp_path: Path) -> None:
    drawn = random.Random(1)
    setup = bench(
        lambda *_: 5e-6 * (1 + 0.02 * drawn.random()),
        PAIR,
        faults={"mine": {5: Fault("jump")}},
        max_boots=8,
    )
    run, why = measured(setup, tmp_path)
    assert why == "max_boots = 8 reached"
    assert max(boot.host.inside_s or 0.0 for boot in boots_of(run)) > 600
    more = replace(setup.experiment.measure, max_boots=9)
    setup = replace(setup, experiment=replace(setup.experiment, measure=more))
    assert resumed(setup, run) == "max_boots = 9 reached"


@ways
def test_an_error_or_a_skip_of_a_case_is_no_failed_boot(tmp_path: Path, way: str) -> None:
    faults = {"mine": {0: Fault("error", case=0)}}
    run, _ = measured(usual(cases=(PIPE, PIPE_TOO), faults=faults, max_boots=2), tmp_path, way)
    data = gather(run.boots())
    assert set(data.scores["s", "pipe", "mine"]) == {1}
    assert set(data.scores["s", "pipe2", "mine"]) == {0, 1}
    assert data.missing["s", "pipe", "mine"] == {"error: made to fail": 1}
    setup = usual(cases=(PIPE, PIPE_TOO), lacking={"s/pipe": "no fio"}, max_boots=2)
    for boot in boots_of(measured(setup, tmp_path / "lacking", way)[0]):
        assert [sample.status for sample in boot.samples] == ["skip", "ok"]


@ways
def test_precision_ends_it_by_width_alone(tmp_path: Path, way: str) -> None:
    setup = usual(precision=0.01, min_boots=6, max_boots=50)
    assert measured(setup, tmp_path, way)[1] == "precision reached"


@pytest.mark.slow
@ways
def test_a_block_that_would_end_beyond_the_minutes_is_not_begun(tmp_path: Path, way: str) -> None:
    run, why = measured(usual(max_boots=1000, max_minutes=0.2), tmp_path, way)
    assert why == "max_minutes = 0.2 reached"
    hosts = {boot.block if way == "turns" else boot.index: boot.host for boot in boots_of(run)}
    spent_s = sum(
        (host.group_s if way == "turns" else host.wall_s) or math.nan for host in hosts.values()
    )
    assert 8 < spent_s <= 12


@pytest.mark.slow
def test_the_last_blocks_without_which_nothing_has_an_interval_are_finished(tmp_path: Path) -> None:
    def blocks_in(minutes: float) -> tuple[int, float]:
        setup = bench(steady({"stock": 1.0, "mine": 1.1}), max_boots=1000, max_minutes=minutes)
        boots = boots_of(measured(setup, tmp_path / f"{minutes}", "boots")[0])
        blocks = len({boot.block for boot in boots})
        return blocks, sum(boot.host.wall_s or math.nan for boot in boots) / blocks / 60

    _, block = blocks_in(0.2)
    for budget, blocks in ((5.4, 6), (3.4, 3), (7.4, 7)):
        assert blocks_in(budget * block)[0] == blocks


class _Stop(Exception):
    """As if kdyno were killed."""


@pytest.mark.parametrize(
    ("way", "after"), [*(("boots", n) for n in range(10)), ("turns", 0), ("turns", 2)]
)
def test_an_interrupted_run_goes_on_with_the_same_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str, after: int
) -> None:
    whole, _ = measured(usual(max_boots=4), tmp_path / "whole", way)
    run = cut_off(tmp_path / "cut", monkeypatch, way, after)
    assert resumed(usual(max_boots=4), run) == "max_boots = 4 reached"
    assert run.manifest().blocks == whole.manifest().blocks
    assert places(boots_of(run)) == planned(run)


def cut_off(folder: Path, monkeypatch: pytest.MonkeyPatch, way: str, after: int) -> Run:
    """A run that was ended when it was about to write for the ``after``-th time."""
    runs: list[Run] = []
    keep = measuring.Loop._keep

    def stopping(self: measuring.Loop, boots: Any) -> None:
        runs.append(self.writer.run)
        if len(runs) > after:
            raise _Stop
        keep(self, boots)

    with monkeypatch.context() as patched:
        patched.setattr(measuring.Loop, "_keep", stopping)
        with pytest.raises(_Stop):
            measured(usual(max_boots=4), folder, way)
    return runs[-1]


def test_of_a_group_that_was_cut_off_while_it_was_written_the_rest_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = cut_off(tmp_path, monkeypatch, "turns", 2)
    lost = boots_of(run)[-1]
    shutil.rmtree(run.path / "boots" / lost.folder_name)
    assert resumed(usual(max_boots=4), run) == "max_boots = 4 reached"
    assert {*planned(run)} - {*places(boots_of(run))} == {(1, lost.variant)}


def test_auto_takes_turns_wherever_it_can() -> None:
    setup = usual()
    assert choose(setup, "auto")[0] == "turns" and choose(setup, "boots")[0] == "boots"
    assert choose(usual(variants=("stock",)), "auto")[0] == "boots"
    way, why = choose(usual(cases=(PRINTED,)), "auto")
    assert way == "boots" and "a clock that jumps" in why
    machine_of(setup).can = Can(turns="it has one guest")
    assert choose(setup, "auto") == ("boots", "it has one guest")
    machine_of(setup).can, machine_of(setup).memory = Can(), Footprint(1 << 30, 2 << 30)
    with pytest.raises(UsageError, match=r"3 guests .* 3\.0 GiB, and 2\.0 GiB are free"):
        choose(setup, "turns")


def test_neither_the_others_of_a_group_nor_kdyno_are_intruders() -> None:
    """All of them share a CPU; only what is left of the foreign seconds is somebody else's."""
    setup = usual(variants=PAIR)
    host = BootHost(
        status="ok", wall_s=9.0, user_s=1.5, sys_s=0.5, after={"guest_cpus_others_s": 3.4}
    )
    outcome = Outcome(host, Reader("0" * 32, 1).finish(), b"", ("made-up",))
    plans = [plan_of(setup, name, turns=True) for name in setup.variants]
    machine = setup.machine
    members = [Member(plan, machine.open(plan), machine.clock, "2026-01-01") for plan in plans]
    records = turns.records_of(setup, members, [outcome, outcome], 0, 9.0, 0.3)
    assert [boot.host.after["guest_cpus_others_s"] for boot, _ in records] == [1.1, 1.1]
    # Of a guest that was killed nobody knows what it used.
    killed = replace(outcome, host=host.model_copy(update={"user_s": None, "sys_s": None}))
    records = turns.records_of(setup, members, [outcome, killed], 0, 9.0, 0.3)
    assert not any("guest_cpus_others_s" in boot.host.after for boot, _ in records)


@pytest.mark.parametrize("last", ["mark", "bye", "fatal", "done", "ready"])
def test_a_guest_that_says_more_than_an_answer_keeps_its_deadline(last: str) -> None:
    """Else one that hangs in the case, or on its way out, is waited for without an end."""
    job = Job((CaseJob("s", "c", "run", timeout_s=60.0),), turns=True)
    dialogue = Dialogue(job, {})
    nonce, number = dialogue.text.decode().split("nonce ")[1].split()[0], count()

    def say(kind: str, **fields: object) -> None:
        record = {"t": kind, "n": nonce, "seq": next(number), **fields}
        dialogue.results(json.dumps(record).encode() + b"\n")

    say("hello", protocol=1, release="7.3", machine="m", word_bits=64, cpus=1, mem_kb=1, mono_ns=1)
    assert math.isinf(dialogue.due_s())
    fields = {
        "mark": {"case": 0, "begins": 1},
        "bye": {"mono_ns": 2, "inside_ns": 1},
        "fatal": {"reason": "x"},
        "done": {"case": 0, "user_ns": 1, "sys_ns": 1, "extra": {}},
        "ready": {"case": 0},
    }
    if last in ("bye", "fatal"):
        dialogue.ordered("bye", 60.0)
    else:
        dialogue.ordered("begin 0", 60.0)
        say("begin", case=0, bench="run", mono_ns=1)
        assert math.isfinite(dialogue.due_s())
        say("ready", case=0)
        assert math.isinf(dialogue.due_s())
        dialogue.ordered("turn 0 5", 60.0)
    say(last, **fields[last])
    assert not dialogue.reader.transcript.anomaly_texts and math.isfinite(dialogue.due_s())


def test_steal_is_that_of_the_guests_cpus() -> None:
    before, after = ({cpu: (0.0, s * cpu) for cpu in range(64)} for s in (0.0, 0.02))
    moments = [facts.Moment(cpus, {}) for cpus in (before, after)]
    for cpus, steal_s in (((0,), 0.0), ((1,), 0.02), ((1, 2), 0.03)):
        assert facts.between(*moments, frozenset(cpus), 0.0)["steal_s"] == steal_s


@pytest.mark.parametrize(("turn_s", "best"), [(0.004, 50.0), (0.1, 10.0), (2.5, 2.0)])
def test_a_group_has_the_rounds_that_are_worth_their_time(turn_s: float, best: float) -> None:
    """Kalibera & Jones: sqrt(seconds of a group ÷ seconds of a round) × within ÷ between."""
    setup = usual(variants=PAIR, cases=(LONG,), max_boots=2)
    setup = replace(setup, jobs=(replace(setup.jobs[0], seconds=60.0),))
    within = [0.02 * step for step in (-1, 1, -0.5, 0.5, 0)]
    groups = {block: [offset + each for each in within] for block, offset in enumerate(within * 2)}
    seen = spread(list(groups.values()))
    assert seen is not None
    stock, mine = ("s", "long", "stock"), ("s", "long", "mine")
    logs = {
        stock: {block: array("d", [0.0] * 5) for block in groups},
        mine: {block: array("d", own) for block, own in groups.items()},
    }
    data = Samples(rounds=logs, turn_s={stock: turn_s, mine: 9.0})
    group_s = 2 * 0.004 * (50.0 * seen.between / seen.within) ** 2
    seconds = effort(setup, manifest_of(setup), data, group_s)
    assert seconds["s", "long"] == pytest.approx(best * turn_s)


@pytest.mark.slow
def test_a_turn_has_the_same_size_whoever_is_first(tmp_path: Path) -> None:
    """Of kernels that differ by a factor: a turn of one's size would be 4 or 12 ms long."""
    setup = bench(steady({"stock": 1.0, "mine": 3.0}), PAIR, max_boots=12)
    run, _ = measured(setup, tmp_path)
    assert {order[0] for order in run.manifest().blocks} == {*PAIR}
    sizes = {reps[0] for boot in boots_of(run) for reps in boot.samples[0].reps}
    assert sizes == {round(0.004 / (5e-6 / math.sqrt(3)))}


@pytest.mark.slow
def test_each_group_has_its_cases_in_an_order_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[str] = []
    begin = turns.begin_case

    def watched(members: list[Member], index: int, *rest: Any, **more: Any) -> list[Member]:
        begun.append("abcd"[index])
        return begin(members, index, *rest, **more)

    monkeypatch.setattr(turns, "begin_case", watched)
    cases = [replace(PIPE, name=name) for name in "abcd"]
    run, _ = measured(usual(cases=cases, max_boots=6), tmp_path)
    groups = ["".join(begun[at : at + 4]) for at in range(0, len(begun), 4)]
    assert len(groups) == 6 and {"".join(sorted(group)) for group in groups} == {"abcd"}
    assert len(set(groups)) > 3
    expected = [(name, "ok") for name in "abcd"]
    for boot in boots_of(run):
        assert [(sample.case, sample.status) for sample in boot.samples] == expected


@pytest.mark.parametrize("names", ["ab", "abc", "abcd", "abcdefg"])
def test_rounds_are_balanced_and_follow_from_the_seed(names: str) -> None:
    """As often at every position; and each follows on each and on itself as often, so who makes
    the next one slower does so to all alike."""
    count = 1000 * len(names)
    result, again, other = (orders(seed, list(names)) for seed in ("7:0", "7:0", "8:0"))
    first = [next(result) for _ in range(count)]
    assert first == [next(again) for _ in range(count)]
    assert names == "ab" or first != [next(other) for _ in range(count)]
    for position in range(len(names)):
        assert Counter(order[position] for order in first) == dict.fromkeys(names, 1000)
    pairs = Counter(pairwise(name for order in first for name in order))
    for before, after in product(names, names):
        assert pairs[before, after] == pytest.approx(1000, rel=0.15)


def test_what_of_each_suite_is_measured_whole() -> None:
    """As the table of docs/how-it-measures.md says."""
    suites = load()
    whole = {
        name: {case.name for case in suite.cases if why_whole(case)}
        for name, suite in suites.items()
    }
    cases = {name: {case.name for case in suite.cases} for name, suite in suites.items()}
    by_turns = ("unixbench", "xbench", "run", "kernel-compile", "make", "apachebench", "hackbench")
    assert {name: whole[name] for name in by_turns} == {name: set() for name in by_turns}
    for name in ("fio", "tiobench", "sysbench", "stress-ng", "wakeup"):
        assert whole[name] == cases[name], name
    assert cases["perf-bench"] - whole["perf-bench"] == {"sched-messaging"}
    item = suites["xbench"].case("disk.random.write_4k")
    unknown = replace(item, work="")
    assert why_whole(item) == "" and "what the program says" in why_whole(unknown)
    assert "goes on writing" in why_whole(replace(unknown, figure=None))


# What a run by turns says to beware of.


def test_what_was_not_measured_by_turns_says_why(tmp_path: Path) -> None:
    messages: list[str] = []
    setup = bench(steady(SPEEDS), cases=(PIPE, PRINTED), max_boots=2)
    result = interleaved(setup, messages.append)
    why = "its figure is what the program says, by a clock that jumps when a guest is frozen"
    assert result == {"interleave": "turns", "why_boots": "", "whole": {"s/printed": why}}
    run, _ = measured(setup, tmp_path)
    writer_manifest = run.manifest().model_copy(update=result)
    assert [flag.text for flag in of_manifest(writer_manifest)] == [
        f"printed: whole, one guest after the other, not by turns: {why}"
    ]
    alone = bench(steady(SPEEDS), cases=(PRINTED,), max_boots=2)
    by_boots = run.manifest().model_copy(update=interleaved(alone, messages.append))
    assert [flag.text for flag in of_manifest(by_boots)] == [
        f"one whole boot after the other, not by turns: no case can take turns: {why}"
    ]
    assert len(messages) == 2
    assert texts_of(judged(run), "not-by-turns") == []


@pytest.mark.slow
@pytest.mark.parametrize(("swing", "message"), [(0.0, ""), (0.1, "changed by 1")])
def test_a_machine_whose_speed_changes_is_told_from_its_rounds(
    swing: float, message: str, tmp_path: Path
) -> None:
    """Every guest alike, so no effect moves; neither steal nor other programs show for it."""

    def rule(variant: str, _case: str, now_s: float) -> float:
        wave = 1 + swing * math.sqrt(2) * math.sin(2 * math.pi * now_s / 0.9)
        return 5e-6 * wave / SPEEDS[variant]

    run, _ = measured(bench(rule, max_boots=8), tmp_path)
    verdict = judged(run)
    texts = texts_of(verdict, "restless-host")
    assert len(texts) == bool(message)
    assert all(f"speed {message}" in text and "Turns cancel that" in text for text in texts)
    ratios = {effect.variant: effect.ratio for effect in verdict.effects}
    assert ratios["mine"] == pytest.approx(1.02, abs=0.004)


@pytest.mark.parametrize(("awake", "message"), [(0.99, ""), (0.7, "30 %"), (0.2, "80 %")])
def test_a_frozen_command_that_sleeps_is_flagged_by_what_that_could_hide(
    awake: float, message: str, tmp_path: Path
) -> None:
    setup = bench(steady(SPEEDS), cases=(PIPE, LONG), max_boots=3)
    machine_of(setup).awake = awake
    run, _ = measured(setup, tmp_path)
    texts = texts_of(judged(run), "asleep")
    assert len(texts) == bool(message)
    # Three guests: of a wait that is long two thirds were in the others' turns.
    hidden = f"{200 * (1 - awake):.0f} % of its time"
    assert all(f"no CPU for {message}" in text and hidden in text for text in texts)
    for boot in boots_of(run):
        (own,) = [sample for sample in boot.samples if sample.case == "long"]
        assert own.interleave == "frozen" and len(own.cpu_ns) == len(own.reps)


def test_cases_of_one_name_in_two_suites_are_two() -> None:
    """The restless one of three decides nothing alone, and is named with its suite."""
    random = np.random.default_rng(3)
    cases = [CaseInfo(suite=suite, case="copy", unit="x", better="higher") for suite in "abc"]
    spread = {"a": 0.2, "b": 0.05, "c": 0.05}
    data = Samples(blocks=4)
    for case in cases:
        for block in range(4):
            moved = random.normal(0, spread[case.suite], 40)
            for variant in ("stock", "mine"):
                logs = array("d", moved + random.normal(0, 0.001, 40))
                data.rounds.setdefault((case.suite, "copy", variant), {})[block] = logs
    manifest = asking(cases)
    (flag,) = restless(data, manifest)
    assert "changed by 5 %" in flag.text and "a/copy: 2" in flag.text


def test_kernels_of_which_one_sleeps_more_are_flagged(tmp_path: Path) -> None:
    setup = bench(steady({}), variants=("stock", "mine"), cases=(LONG,), max_boots=8)
    run, _ = measured(setup, tmp_path)
    data, manifest = gather(run.boots()), run.manifest()
    for at in range(8):
        data.asleep["s", "long", "stock"][at] = 0.01 + 0.0001 * (at % 3)
        data.asleep["s", "long", "mine"][at] = 0.03
    (flag,) = asleep(data, manifest)
    assert flag.text.startswith("mine had no CPU for +2.0 % more of its frozen turns. ")
    assert asleep(data, manifest.model_copy(update={"asked": Criteria(equivalent=0.05)})) == []


FACTORS = {"smp": ("off", "on"), "preempt": ("none", "full")}


@pytest.mark.slow
@ways
def test_precision_ends_a_run_when_its_factors_can_have_intervals(tmp_path: Path, way: str) -> None:
    names = tuple("+".join(levels) for levels in product(*FACTORS.values()))
    speeds = {name: 1.1 if name.startswith("on") else 1.0 for name in names}
    setup = bench(steady(speeds), names, max_boots=40, min_boots=2, precision=0.5)
    crossed = tuple(
        replace(variant, levels=tuple(zip(FACTORS, variant.name.split("+"), strict=True)))
        for variant in setup.experiment.variants
    )
    experiment = replace(setup.experiment, variants=crossed)
    setup = replace(setup, experiment=experiment, variants={each.name: each for each in crossed})
    run, why = measured(setup, tmp_path, way)
    assert why == "precision reached"
    # Six blocks have intervals, whatever the number of rows; four fifths of eight are seven.
    assert len(boots_of(run)) == 8 * len(names)
    table = judged(run).factors
    assert table is not None and len(table.effects) == 7
    assert all(effect.ci is not None for effect in table.effects)
