# SPDX-License-Identifier: MIT
"""The loop on a machine in memory: order of turns, budgets, faults, resuming at every point."""

from __future__ import annotations

import dataclasses
import math
import random
import shutil
from array import array
from collections import Counter
from dataclasses import replace
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pytest
from fake_machine import FakeMachine, Fault
from fake_run import LONG, PIPE, PRINTED, bench, boots_of, manifest_of, measured, resumed, steady

from kdyno.judge.judging import verdict_of
from kdyno.judge.pairs import Pair, Question, all_rounds, rounds
from kdyno.machines.machine import Can, Footprint, Outcome
from kdyno.measure import loop as measuring
from kdyno.measure import turns
from kdyno.measure.bench import plan_of
from kdyno.measure.loop import block_order, choose, draw_of, effort
from kdyno.measure.turns import Member, orders, why_whole
from kdyno.stats.groups import spread
from kdyno.store.boot import BootHost
from kdyno.store.run import Run, create_run
from kdyno.store.samples import Samples, samples
from kdyno.suites.catalogue import load
from kdyno.suites.protocol import Reader

SPEEDS = {"stock": 1.0, "mine": 1.02, "other": 0.97}
WAYS = ("boots", "turns")


@pytest.mark.parametrize("way", WAYS)
def test_blocks_are_shuffled_by_the_seed_and_recorded(tmp_path: Path, way: str) -> None:
    run, why = measured(bench(steady(SPEEDS)), tmp_path, way)
    assert why == "max_boots = 8 reached"
    blocks = run.manifest().blocks
    names = ("stock", "mine", "other")
    assert blocks == tuple(block_order(7, number, names) for number in range(8))
    assert len(set(blocks)) > 2
    started = [(boot.block, boot.variant) for boot in boots_of(run)]
    assert started == [(at, name) for at, order in enumerate(blocks) for name in order]


@pytest.mark.parametrize("way", WAYS)
def test_the_pages_of_a_block_lie_at_the_same_drawn_places(tmp_path: Path, way: str) -> None:
    made = bench(steady(SPEEDS), max_boots=4)
    measured(made, tmp_path, way)
    assert isinstance(made.machine, FakeMachine)
    assert made.machine.draws == [draw_of(7, block) for block in range(4) for _ in SPEEDS]


def test_a_run_that_began_with_pages_in_order_goes_on_so(tmp_path: Path) -> None:
    made = bench(steady(SPEEDS), max_boots=4)
    manifest = manifest_of(made)
    assert manifest.machine is not None and manifest.machine.scattered
    before = manifest.model_copy(
        update={"machine": manifest.machine.model_copy(update={"scattered": False})}
    )
    with create_run(tmp_path, "", before) as writer:
        measuring.Loop(made, Question.of(before), writer, before, lambda _status: None).run()
    assert isinstance(made.machine, FakeMachine)
    assert made.machine.draws == [0] * 12


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_a_known_difference_is_found(tmp_path: Path, way: str) -> None:
    made = bench(steady(SPEEDS))
    run, _ = measured(made, tmp_path, way)
    verdict = verdict_of(run, Question.of(run.manifest()), "")
    found = {effect.variant: effect for effect in verdict.effects}
    assert found["mine"].ratio == pytest.approx(1.02, rel=1e-4)
    assert found["other"].ratio == pytest.approx(0.97, rel=1e-4)
    assert (found["mine"].verdict, found["other"].verdict) == ("faster", "slower")
    assert found["mine"].baseline_value == pytest.approx(200_000, rel=1e-3)


def test_what_the_machine_does_cancels_within_a_round(tmp_path: Path) -> None:
    """The speed of the machine halves every 50 ms and comes back: boots cannot see 1 %."""

    def wild(variant: str, _case: str, now_s: float) -> float:
        return 5e-6 * (2 if int(now_s / 0.05) % 2 else 1) / (1.01 if variant == "mine" else 1.0)

    made = bench(wild, variants=("stock", "mine"), max_boots=12)
    run, _ = measured(made, tmp_path)
    verdict = verdict_of(run, Question.of(run.manifest()), "")
    (effect,) = verdict.effects
    assert effect.verdict == "faster"
    assert effect.ratio == pytest.approx(1.01, abs=0.003)


def test_rounds_in_which_a_guest_waited_for_the_cpu_are_left_out(tmp_path: Path) -> None:
    """Somebody else has the CPU in about every third turn, for as long as it takes or longer."""
    made = bench(steady(SPEEDS), max_boots=4)
    made = dataclasses.replace(
        made, jobs=tuple(dataclasses.replace(job, seconds=0.25) for job in made.jobs)
    )
    assert isinstance(made.machine, FakeMachine)
    chance = random.Random(1)
    made.machine.waits = lambda _now_s: chance.choice((0.0, 0.0, chance.uniform(0.002, 0.02)))
    run, _ = measured(made, tmp_path)
    question = Question.of(run.manifest())
    data = samples(run)
    (case,) = question.cases
    for variant in ("mine", "other"):
        assert np.exp(Pair(data, question, case, variant).log_ratios) == pytest.approx(
            [SPEEDS[variant]] * 4, rel=1e-5
        )
        counts = [len(logs) for _, logs in rounds(data, case, "stock", variant)]
        every = [len(logs) for _, logs in all_rounds(data, case, "stock", variant)]
        assert all(4 <= few < 0.8 * many for few, many in zip(counts, every, strict=True))


def test_where_the_guests_always_wait_every_round_counts(tmp_path: Path) -> None:
    made = bench(steady(SPEEDS), max_boots=3)
    assert isinstance(made.machine, FakeMachine)
    made.machine.waits = lambda _now_s: 0.003
    run, _ = measured(made, tmp_path)
    data, (case,) = samples(run), Question.of(run.manifest()).cases
    few = [len(logs) for _, logs in rounds(data, case, "stock", "mine")]
    assert few == [len(logs) for _, logs in all_rounds(data, case, "stock", "mine")]
    assert min(few) >= 8


def test_a_long_operation_is_frozen_and_timed_by_the_hosts_clock(tmp_path: Path) -> None:
    made = bench(steady({"stock": 1.0, "mine": 1.25}), ("stock", "mine"), (LONG,), max_boots=6)
    run, _ = measured(made, tmp_path)
    (boot, *_) = [boot for boot in boots_of(run) if boot.variant == "mine"]
    (sample,) = boot.samples
    assert sample.interleave == "frozen"
    assert sample.score == pytest.approx(0.08, rel=1e-6)
    assert [operations for operations, _ in sample.reps] == [1] * len(sample.reps)
    verdict = verdict_of(run, Question.of(run.manifest()), "")
    assert verdict.effects[0].ratio == pytest.approx(0.8, rel=1e-6)
    assert verdict.effects[0].verdict == "faster"


def test_of_a_command_that_marks_what_is_timed_nothing_else_is(tmp_path: Path) -> None:
    made = bench(steady({"stock": 1.0, "mine": 1.25}), ("stock", "mine"), (LONG,), max_boots=3)
    assert isinstance(made.machine, FakeMachine)
    made.machine.around_s = 0.333
    run, _ = measured(made, tmp_path)
    scores = {boot.variant: boot.samples[0].score for boot in boots_of(run)}
    assert scores == pytest.approx({"stock": 0.1, "mine": 0.08}, rel=1e-6)


def test_a_command_that_marks_no_end_is_timed_whole(tmp_path: Path) -> None:
    made = bench(steady({}), ("stock", "mine"), (LONG,), max_boots=3)
    made.machine.around_s, made.machine.ends_marks = 0.333, False  # type: ignore[attr-defined]
    run, _ = measured(made, tmp_path)
    scores = [boot.samples[0].score for boot in boots_of(run)]
    assert scores == pytest.approx([0.766] * 6, rel=1e-6)


def test_the_figure_of_a_fixed_work_is_had_from_its_time(tmp_path: Path) -> None:
    requests = dataclasses.replace(PRINTED, name="long", unit="requests/s", work="requests")
    made = bench(steady({"stock": 1.0, "mine": 1.25}), ("stock", "mine"), (requests,), max_boots=3)
    jobs = tuple(dataclasses.replace(job, work=500) for job in made.jobs)
    run, _ = measured(dataclasses.replace(made, jobs=jobs), tmp_path)
    samples = {boot.variant: boot.samples[0] for boot in boots_of(run)}
    assert {it.interleave for it in samples.values()} == {"frozen"}
    assert samples["stock"].score == pytest.approx(5000, rel=1e-6)
    assert samples["mine"].score == pytest.approx(6250, rel=1e-6)


def test_every_guest_has_done_a_frozen_command_once_before_it_is_measured(tmp_path: Path) -> None:
    """Else who finds its length has in memory what the others still read from the disk."""
    made = bench(steady(SPEEDS), cases=(LONG,), max_boots=3)
    machine = made.machine
    assert isinstance(machine, FakeMachine)
    run, _ = measured(made, tmp_path)
    for boot in boots_of(run):
        turns = sum(variant == boot.variant for variant, _, _ in machine.turned)
        rounds = sum(len(it.samples[0].reps) for it in boots_of(run) if it.variant == boot.variant)
        assert turns == rounds + 3


def test_a_case_that_cannot_take_turns_is_measured_whole(tmp_path: Path) -> None:
    made = bench(steady(SPEEDS), cases=(PIPE, PRINTED, PIPE_TOO), max_boots=2)
    run, _ = measured(made, tmp_path)
    for boot in boots_of(run):
        assert [sample.interleave for sample in boot.samples] == ["turns", "", "turns"]
        assert boot.ok


PIPE_TOO = dataclasses.replace(PIPE, name="pipe2")


def test_rounds_are_paired_by_their_number(tmp_path: Path) -> None:
    made = bench(steady(SPEEDS), max_boots=2)
    run, _ = measured(made, tmp_path)
    data = samples(run)
    question = Question.of(run.manifest())
    found = Pair(data, question, question.cases[0], "mine").log_ratios
    assert [math.exp(each) for each in found] == pytest.approx([1.02] * 2, 1e-4)
    for block in (0, 1):
        counts = {len(boot.samples[0].reps) for boot in boots_of(run) if boot.block == block}
        # As often at every position.
        (count,) = counts
        assert count >= 8 and count % 3 == 0


@pytest.mark.parametrize("kind", ["boot", "die", "silent"])
@pytest.mark.parametrize("way", WAYS)
def test_a_guest_that_fails_leaves_the_others_their_pairs(
    tmp_path: Path, way: str, kind: str
) -> None:
    made = bench(steady(SPEEDS), faults={"mine": {1: Fault(kind)}}, max_boots=4)
    run, why = measured(made, tmp_path, way)
    assert why == "max_boots = 4 reached"
    boots = boots_of(run)
    failed = [(boot.block, boot.variant) for boot in boots if not boot.ok]
    assert failed == [(1, "mine")]
    data = samples(run)
    assert set(data.scores["s", "pipe", "mine"]) == {0, 2, 3}
    assert set(data.scores["s", "pipe", "other"]) == {0, 1, 2, 3}
    assert run.manifest().failed == {}


@pytest.mark.parametrize("way", WAYS)
def test_three_failures_in_a_row_give_a_variant_up(tmp_path: Path, way: str) -> None:
    faults = {"mine": {number: Fault("die") for number in (1, 2, 3)}}
    run, _ = measured(bench(steady(SPEEDS), faults=faults, max_boots=6), tmp_path, way)
    assert "3 boots in a row failed: panic" in run.manifest().failed["mine"]
    assert Counter(boot.variant for boot in boots_of(run)) == {"stock": 6, "other": 6, "mine": 4}


@pytest.mark.parametrize("way", WAYS)
def test_two_variants_that_fail_at_once(tmp_path: Path, way: str) -> None:
    every = {number: Fault("boot") for number in range(9)}
    made = bench(steady(SPEEDS), faults={"mine": every, "other": every})
    run, why = measured(made, tmp_path, way)
    assert why == "every other variant failed"
    assert set(run.manifest().failed) == {"mine", "other"}
    _, why = measured(bench(steady(SPEEDS), faults={"stock": every}), tmp_path, way)
    assert why == "the baseline failed"


def test_a_forged_turn_is_not_believed(tmp_path: Path) -> None:
    made = bench(steady(SPEEDS), faults={"mine": {0: Fault("forge")}}, max_boots=2)
    run, _ = measured(made, tmp_path)
    (boot, *_) = [boot for boot in boots_of(run) if boot.variant == "mine"]
    assert boot.samples[0].score == pytest.approx(204_000, rel=1e-3)


@pytest.mark.parametrize("way", WAYS)
def test_an_error_of_a_case_is_no_failed_boot(tmp_path: Path, way: str) -> None:
    faults = {"mine": {0: Fault("error", case=0)}}
    made = bench(steady(SPEEDS), cases=(PIPE, PIPE_TOO), faults=faults, max_boots=2)
    run, _ = measured(made, tmp_path, way)
    data = samples(run)
    assert set(data.scores["s", "pipe", "mine"]) == {1}
    assert set(data.scores["s", "pipe2", "mine"]) == {0, 1}
    assert data.missing["s", "pipe", "mine"] == {"error: made to fail": 1}


def test_cases_that_this_machine_lacks_are_skips(tmp_path: Path) -> None:
    made = bench(steady(SPEEDS), cases=(PIPE, PIPE_TOO), lacking=("no fio", ""), max_boots=2)
    for way in WAYS:
        run, _ = measured(made, tmp_path, way)
        for boot in boots_of(run):
            assert [sample.status for sample in boot.samples] == ["skip", "ok"]


@pytest.mark.parametrize("way", WAYS)
def test_precision_ends_it_by_width_alone(tmp_path: Path, way: str) -> None:
    made = bench(steady(SPEEDS), precision=0.01, min_boots=6, max_boots=50)
    _, why = measured(made, tmp_path, way)
    assert why == "precision reached"


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_a_block_that_would_end_beyond_the_minutes_is_not_begun(tmp_path: Path, way: str) -> None:
    made = bench(steady(SPEEDS), max_boots=1000, max_minutes=0.2)
    run, why = measured(made, tmp_path, way)
    assert why == "max_minutes = 0.2 reached"
    boots = boots_of(run)
    groups = {boot.block: boot.host.group_s for boot in boots}
    if way == "turns":
        spent_s = sum(it or math.nan for it in groups.values())
    else:
        spent_s = sum(boot.host.wall_s or math.nan for boot in boots)
    assert 8 < spent_s <= 12


class _Stop(Exception):
    """As if kdyno were killed."""


@pytest.mark.parametrize(
    ("way", "after"), [*(("boots", n) for n in range(10)), ("turns", 0), ("turns", 2)]
)
def test_an_interrupted_run_goes_on_with_the_same_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str, after: int
) -> None:
    whole, _ = measured(bench(steady(SPEEDS), max_boots=4), tmp_path / "whole", way)
    run = cut_off(tmp_path / "cut", monkeypatch, way, after)
    assert resumed(bench(steady(SPEEDS), max_boots=4), run) == "max_boots = 4 reached"
    assert run.manifest().blocks == whole.manifest().blocks
    boots = [(boot.block, boot.variant) for boot in boots_of(run)]
    assert boots == [(at, name) for at, order in enumerate(run.manifest().blocks) for name in order]


def cut_off(folder: Path, monkeypatch: pytest.MonkeyPatch, way: str, after: int) -> Run:
    """A run that was ended when it was about to write for the ``after``-th time."""
    found: list[Run] = []
    left = [after]
    keep = measuring.Loop._keep

    def stopping(self: measuring.Loop, boots: object) -> None:
        found.append(self.writer.run)
        if not left[0]:
            raise _Stop
        left[0] -= 1
        keep(self, boots)  # type: ignore[arg-type]

    with monkeypatch.context() as patched:
        patched.setattr(measuring.Loop, "_keep", stopping)
        with pytest.raises(_Stop):
            measured(bench(steady(SPEEDS), max_boots=4), folder, way)
    return found[-1]


def test_of_a_group_that_was_cut_off_while_it_was_written_the_rest_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = cut_off(tmp_path, monkeypatch, "turns", 2)
    lost = boots_of(run)[-1]
    shutil.rmtree(run.path / "boots" / lost.folder_name)
    assert resumed(bench(steady(SPEEDS), max_boots=4), run) == "max_boots = 4 reached"
    boots = {(boot.block, boot.variant) for boot in boots_of(run)}
    every = {(at, name) for at, order in enumerate(run.manifest().blocks) for name in order}
    assert every - boots == {(1, lost.variant)}


def test_auto_takes_turns_wherever_it_can() -> None:
    made = bench(steady(SPEEDS))
    assert choose(made, "auto").way == "turns"
    assert choose(made, "boots").way == "boots"
    one = bench(steady(SPEEDS), variants=("stock",))
    assert choose(one, "auto").way == "boots"
    printed = choose(bench(steady(SPEEDS), cases=(PRINTED,)), "auto")
    assert printed.way == "boots" and "a clock that jumps" in printed.why


def test_what_forbids_turns_is_said() -> None:
    from kdyno.errors import UsageError

    made = bench(steady(SPEEDS))
    made.machine.can = Can(turns="it has one guest")  # type: ignore[misc]
    assert choose(made, "auto").why == "it has one guest"
    made.machine.can = Can()  # type: ignore[misc]
    made.machine.memory = Footprint(1 << 30, 2 << 30)  # type: ignore[attr-defined]
    with pytest.raises(UsageError, match=r"3 guests .* 3\.0 GiB, and 2\.0 GiB are free"):
        choose(made, "turns")
    assert manifest_of(made, "boots").interleave == "boots"


def test_neither_the_others_of_a_group_nor_kdyno_are_intruders() -> None:
    """All of them share a CPU; only what is left of the foreign seconds is somebody else's."""
    made = bench(steady(SPEEDS), ("stock", "mine"))
    host = BootHost(
        status="ok", wall_s=9.0, user_s=1.5, sys_s=0.5, after={"guest_cpus_others_s": 3.4}
    )
    outcome = Outcome(host, Reader("0" * 32, 1).finish(), b"", ("made-up",))
    plans = [plan_of(made, name, turns=True) for name in made.variants]
    members = [
        Member(plan, made.machine.open(plan), made.machine.clock, "2026-01-01") for plan in plans
    ]
    records = turns.records_of(made, members, [outcome, outcome], 0, 0, 9.0, 0.3)
    assert [boot.host.after["guest_cpus_others_s"] for boot, _ in records] == [1.1, 1.1]


@pytest.mark.parametrize(("turn_s", "best"), [(0.004, 50.0), (0.1, 10.0), (2.5, 2.0)])
def test_a_group_has_the_rounds_that_are_worth_their_time(
    turn_s: float, best: float, tmp_path: Path
) -> None:
    """Kalibera & Jones: sqrt(seconds of a group ÷ seconds of a round) × within ÷ between."""
    made = bench(steady(SPEEDS), ("stock", "mine"), (LONG,), max_boots=2)
    run, _ = measured(made, tmp_path)
    job = dataclasses.replace(made.jobs[0], seconds=60.0)
    made = dataclasses.replace(made, jobs=(job,))
    within = [0.02 * step for step in (-1, 1, -0.5, 0.5, 0)]
    groups = {block: [offset + it for it in within] for block, offset in enumerate(within * 2)}
    still = {block: array("d", [0.0] * 5) for block in groups}
    moved = {block: array("d", logs) for block, logs in groups.items()}
    stock, mine = ("s", "long", "stock"), ("s", "long", "mine")
    seen = spread(list(groups.values()))
    assert seen is not None
    data = Samples(rounds={stock: still, mine: moved}, turn_s={stock: turn_s, mine: 9.0})
    group_s = 2 * 0.004 * (50.0 * seen.between / seen.within) ** 2
    asked = effort(made, Question.of(run.manifest()), data, group_s)
    assert asked.seconds["s", "long"] == pytest.approx(best * turn_s)


def test_a_turn_has_the_same_size_whoever_is_first(tmp_path: Path) -> None:
    """Of kernels that differ by a factor: a turn of one's size would be 4 or 12 ms long."""
    made = bench(steady({"stock": 1.0, "mine": 3.0}), ("stock", "mine"), max_boots=12)
    run, _ = measured(made, tmp_path)
    assert {order[0] for order in run.manifest().blocks} == {"stock", "mine"}
    sizes = {reps[0] for boot in boots_of(run) for reps in boot.samples[0].reps}
    assert sizes == {round(0.004 / (5e-6 / math.sqrt(3)))}


def test_each_group_has_its_cases_in_an_order_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[str] = []
    begin = turns.begin_case

    def watched(members: list[Member], index: int, *rest: object, **more: object) -> list[Member]:
        begun.append("abcd"[index])
        return begin(members, index, *rest, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(turns, "begin_case", watched)
    cases = [dataclasses.replace(PIPE, name=name) for name in "abcd"]
    run, _ = measured(bench(steady(SPEEDS), cases=cases, max_boots=6), tmp_path)
    groups = ["".join(begun[at : at + 4]) for at in range(0, len(begun), 4)]
    assert len(groups) == 6 and {"".join(sorted(it)) for it in groups} == {"abcd"}
    assert len(set(groups)) > 3
    for boot in boots_of(run):
        assert [it.case for it in boot.samples] == ["a", "b", "c", "d"]
        assert all(it.status == "ok" for it in boot.samples)


def test_positions_in_rounds_are_balanced_and_follow_from_the_seed() -> None:
    names = ("a", "b", "c", "d")
    made = orders("7:0:s/pipe", names)
    first = [next(made) for _ in range(40)]
    again = orders("7:0:s/pipe", names)
    assert first == [next(again) for _ in range(40)]
    assert first != [next(orders("8:0:s/pipe", names)) for _ in range(40)]
    for position in range(4):
        assert Counter(order[position] for order in first) == dict.fromkeys(names, 10)
    assert len(set(first)) > 8


@pytest.mark.parametrize("names", ["ab", "abc", "abcd", "abcdefg"])
def test_each_follows_on_each_and_on_itself_as_often(names: str) -> None:
    """So who makes the next one slower does so to all alike."""
    made = orders("1", list(names))
    rounds_of = 4000 * len(names)
    turns = [name for _ in range(rounds_of) for name in next(made)]
    pairs = Counter(pairwise(turns))
    for before in names:
        for after in names:
            assert pairs[before, after] == pytest.approx(rounds_of / len(names), rel=0.1)


def test_what_of_each_suite_is_measured_whole() -> None:
    """As the table of docs/how-it-measures.md says."""
    whole = {
        name: sorted(case.name for case in suite.cases if why_whole(case))
        for name, suite in load().items()
    }
    cases = {name: sorted(case.name for case in suite.cases) for name, suite in load().items()}
    for name in (
        "unixbench",
        "xbench",
        "run",
        "kernel-compile",
        "make",
        "apachebench",
        "hackbench",
    ):
        assert whole[name] == [], name
    for name in ("fio", "tiobench", "sysbench", "stress-ng"):
        assert whole[name] == cases[name], name
    assert set(cases["perf-bench"]) - set(whole["perf-bench"]) == {"sched-messaging"}


def test_a_disk_that_nothing_is_known_of_takes_no_turns() -> None:
    item = load()["xbench"].case("disk.random.write_4k")
    unknown = replace(item, work="")
    assert why_whole(item) == ""
    assert "what the program says" in why_whole(unknown)
    assert "goes on writing" in why_whole(replace(unknown, figure=None))


FACTORS = {"smp": ("off", "on"), "preempt": ("none", "full")}


@pytest.mark.parametrize("way", ["boots", "turns"])
def test_precision_ends_a_run_when_its_factors_can_have_intervals(tmp_path: Path, way: str) -> None:
    names = tuple("+".join(levels) for levels in product(*FACTORS.values()))
    speeds = {name: 1.1 if name.startswith("on") else 1.0 for name in names}
    made = bench(steady(speeds), names, max_boots=40, min_boots=2, precision=0.5)
    crossed = tuple(
        dataclasses.replace(it, levels=tuple(zip(FACTORS, it.name.split("+"), strict=True)))
        for it in made.experiment.variants
    )
    made = dataclasses.replace(
        made,
        experiment=dataclasses.replace(made.experiment, variants=crossed),
        variants={it.name: it for it in crossed},
    )
    run, why = measured(made, tmp_path, way)
    assert why == "precision reached"
    # Six blocks have intervals, whatever the number of rows; four fifths of eight are seven.
    assert len(boots_of(run)) == 8 * len(names)
    table = verdict_of(run, Question.of(run.manifest()), "").factors
    assert table is not None and len(table.effects) == 7
    assert all(it.ci is not None for it in table.effects)


def test_the_last_blocks_without_which_nothing_has_an_interval_are_finished(
    tmp_path: Path,
) -> None:
    def blocks_in(minutes: float) -> tuple[int, float]:
        made = bench(steady({"stock": 1.0, "mine": 1.1}), max_boots=1000, max_minutes=minutes)
        run, _ = measured(made, tmp_path / f"{minutes}", "boots")
        boots = boots_of(run)
        spent_s = sum(boot.host.wall_s or math.nan for boot in boots)
        blocks = len({boot.block for boot in boots})
        return blocks, spent_s / blocks / 60

    _, block = blocks_in(0.2)
    assert blocks_in(5.4 * block)[0] == 6
    assert blocks_in(3.4 * block)[0] == 3
    assert blocks_in(7.4 * block)[0] == 7
