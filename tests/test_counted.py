# SPDX-License-Identifier: MIT
"""Instructions in place of seconds: fixed work, exact verdicts, statistics where counts vary."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from fake_machine import Fault, Rule
from fake_run import (
    PIPE,
    asking,
    bench,
    boots_of,
    judged,
    machine_of,
    manifest_of,
    measured,
    texts_of,
)
from on_screen import text
from synthetic_run import record

from kdyno.errors import ToolError, UsageError
from kdyno.judge.judging import look
from kdyno.kernels.image import Image
from kdyno.measure.bench import Bench, ticks_of
from kdyno.measure.boot import at_once, with_fixed_work
from kdyno.measure.execution import probed
from kdyno.measure.loop import choose, draw_of
from kdyno.report.sentence import worded
from kdyno.store.boot import BootHost, BootJob, BootRecord, Sample
from kdyno.store.manifest import CaseInfo
from kdyno.store.run import Run
from kdyno.store.samples import gather
from kdyno.store.verdict import Effect, FactorEffect, Verdict
from kdyno.suites.catalogue import UNIT, Case, counted, find, load
from kdyno.suites.score import score_of

FORK = replace(PIPE, name="fork")
CASES = (counted(PIPE), counted(FORK))


def lengths(more: float, unsteady: bool = False, everywhere: bool = False) -> Rule:
    """A pipe's operation is 1387 instructions; ``mine`` has some more. A fork's may vary."""
    longer = ("pipe", "fork") if everywhere else ("pipe",)

    def each_s(variant: str, case: str, now_s: float) -> float:
        wander = random.Random(now_s).uniform(0, 200) if unsteady and case == "fork" else 0.0
        count = 1387.0 if case == "pipe" else 117759.0 + wander
        return (count + (more if variant == "mine" and case in longer else 0.0)) / 1e9

    return each_s


def counting(rule: Rule, cases: Sequence[Case] = CASES, **measure: Any) -> Bench:
    given = {"metric": "instructions", "max_boots": 20, "min_boots": 8, "precision": 0.005}
    return bench(rule, ("stock", "mine"), cases, **{**given, **measure})


def run_of(one: Bench, runs: Path) -> tuple[Run, Verdict]:
    if one.counts:
        one = with_fixed_work(one, one.infos, print)
    run, why = measured(one, runs, "boots")
    return run, worded(judged(run, why))


def by_case(verdict: Verdict) -> dict[str, Effect]:
    return {effect.case: effect for effect in verdict.effects}


def row_of(verdict: Verdict, case: str) -> str:
    lines = text(verdict, 120).splitlines()
    (row,) = [line for line in lines if line.strip().startswith(f"{case} ")]
    return row


def test_a_case_that_is_counted_has_less_for_better_and_no_index() -> None:
    case = counted(replace(PIPE, baseline=12440.0, scale=3.0, figure="x(.)"))
    assert (case.unit, case.better, case.scale) == (UNIT, "lower", 1.0)
    assert (case.figure, case.baseline) == (None, None)


def test_the_score_is_what_most_parts_agree_in() -> None:
    """As a copy of files had it: the fourth part has one step to the file's beginning less, and a
    tick or not, by the draw."""
    case = counted(PIPE)
    usual = [(1752, 3997002)] * 3
    for fourth in (3999475, 3995963):
        reps = [(1752, 4007755), *usual[:2], (1752, fourth), *usual[2:]]
        assert score_of(case, reps) == 3997002 / 1752

    # Where no parts agree it is the cheapest: a tick only adds.
    scaled = counted(replace(PIPE, scale=3.0))
    assert score_of(scaled, [(10, 1200), (10, 1005), (20, 2000), (10, 1001)]) == 100.0


def test_a_clock_that_counts_needs_neither_turns_nor_a_quiet_machine() -> None:
    timed = counting(lengths(0), metric="time")
    machine = replace(timed.experiment.machine, accel="icount")
    slow = replace(timed, experiment=replace(timed.experiment, machine=machine))
    assert choose(timed, "auto")[0] == "turns" and choose(slow, "auto") == ("boots", "")
    assert (timed.undisturbed, slow.undisturbed, slow.counts) == (False, True, False)
    assert at_once(timed) == 1 and at_once(slow) == at_once(counting(lengths(0)))


def test_work_is_fixed_by_the_baseline_and_written_down(tmp_path: Path) -> None:
    run, _ = run_of(counting(lengths(41)), tmp_path)
    cases = {case.case: case for case in run.manifest().cases}
    # 20 million instructions, in 400 equal parts.
    assert cases["pipe"].operations == 14400 and cases["fork"].operations == 170
    assert cases["pipe"].unit == UNIT and cases["pipe"].seconds is None
    for boot in boots_of(run):
        operations = [sum(int(n) for n, _ns in sample.reps) for sample in boot.samples]
        assert operations == [5 * 14400, 5 * 170]


@pytest.mark.slow
def test_counts_that_agree_in_all_boots_are_exact_and_end_the_run(tmp_path: Path) -> None:
    _, verdict = run_of(counting(lengths(41)), tmp_path)
    assert verdict.boots == {"stock": 3, "mine": 3} and verdict.stopped == "precision reached"
    pipe, fork = (by_case(verdict)[name] for name in ("pipe", "fork"))
    assert pipe.exact
    assert (pipe.value or 0) - (pipe.baseline_value or 0) == pytest.approx(41, abs=1e-3)
    assert pipe.ratio == pytest.approx(1428 / 1387, rel=1e-6)
    assert pipe.ci == (pipe.ratio, pipe.ratio) and pipe.verdict == "slower"
    assert fork.exact and (fork.ratio, fork.verdict) == (1.0, "equivalent")
    # Two boots are too few, and times are never exact.
    _, few = run_of(counting(lengths(41), max_boots=2, min_boots=2), tmp_path / "few")
    assert [effect.verdict for effect in few.effects] == ["inconclusive"] * 2
    _, timed = run_of(counting(lengths(41), metric="time", max_boots=8), tmp_path / "timed")
    assert not any(effect.exact for effect in timed.effects)
    assert texts_of(verdict, "few-boots") == []  # nothing is left to confirm
    assert verdict.answer.startswith(
        "mine is slower than stock in pipe with 41.000 more instructions an operation, "
        "equivalent (within ±1 %) in fork"
    )
    row = row_of(verdict, "pipe")
    assert "+2.96 %" in row and "+41.000" in row and " same in 3 boots " in row and "…" not in row
    screen = " ".join(text(verdict, 120).split())
    assert "counted, and the same in 3 boots of either kernel" in screen


def test_groups_of_counts_are_judged_and_exact_where_all_their_cases_are(tmp_path: Path) -> None:
    thread = tuple(map(counted, find(load(), "xbench").cases[4:6]))
    assert [case.name for case in thread] == ["thread.computation", "thread.lock_contention"]

    def each_s(variant: str, case: str, now_s: float) -> float:
        half = variant == "mine" and case == "thread.computation"
        return (500.0 if half else 1000.0) / 1e9

    _run, verdict = run_of(counting(each_s, thread, insist=True), tmp_path)
    (group,) = verdict.groups
    # Half the path is twice as good: the harmonic mean of 2 and 1.
    assert (group.group, group.verdict) == ("thread", "faster")
    assert group.ratio == pytest.approx(4 / 3) and group.blocks == 3
    more = counting(lambda name, *_: (1387 + 0.004 * (name == "mine")) / 1e9, thread, insist=True)
    _run, clock = run_of(more, tmp_path / "clock")
    assert {row.verdict for row in (*clock.effects, *clock.groups)} == {"equivalent"}
    assert clock.groups[0].ratio != 1.0


def test_a_case_that_varies_has_an_interval_and_as_many_boots_as_it_takes(tmp_path: Path) -> None:
    _, verdict = run_of(counting(lengths(41, unsteady=True)), tmp_path)
    assert verdict.boots["stock"] >= 8
    effects = by_case(verdict)
    assert effects["pipe"].exact and not effects["fork"].exact
    low, high = effects["fork"].ci or (0, 0)
    assert low < high and low < 1.001 and high > 0.999
    assert effects["fork"].verdict == "equivalent" or effects["fork"].equivalent_too


CONTROL = (CASES[0], replace(counted(FORK), control=True))


def test_a_difference_of_the_clock_is_called_none(tmp_path: Path) -> None:
    """Under 100 instructions in a part of 14415 pipes: 0.007 of an operation."""
    for more, words in ((0.004, {"equivalent"}), (0.01, {"slower"})):
        one = counting(lengths(more, everywhere=True), CONTROL)
        _, verdict = run_of(one, tmp_path / str(more))
        assert {effect.verdict for effect in verdict.effects if effect.case == "pipe"} == words
        assert verdict.flags == () or more > 0.007


def test_a_control_that_moved_is_told_with_the_digits_that_it_moved_by(tmp_path: Path) -> None:
    _, verdict = run_of(counting(lengths(5.0, everywhere=True), CONTROL), tmp_path)
    (flag,) = texts_of(verdict, "control-moved")
    assert "mine moved it by +0.004 % (too little to matter): what every case" in flag
    assert "+0.004 %" in row_of(verdict, "fork") and "+5.000" in row_of(verdict, "fork")


def test_what_no_cpu_does_is_left_out_when_work_is_fixed() -> None:
    def each_s(_variant: str, case: str, _now_s: float) -> float:
        return 1387e-9 if case == "pipe" else 1e-17

    notes: list[str] = []
    fixed = with_fixed_work(counting(each_s), (), notes.append)
    assert [job.case for job in fixed.runnable] == ["pipe"]
    (line,) = notes
    assert line.startswith("s/fork is left out: it claims ") and line.endswith(" s")


def test_a_case_that_fails_while_work_is_fixed_is_left_out(tmp_path: Path) -> None:
    """And the reason does not speak of a profile, which nobody asked for."""
    one = counting(lengths(41))
    machine_of(one).faults = {"stock": {0: Fault("error", case=1)}}
    notes: list[str] = []
    fixed = with_fixed_work(one, (), notes.append)
    (line,) = notes
    assert line.startswith("s/fork is left out: ") and "profile" not in line
    assert [job.case for job in fixed.runnable] == ["pipe"]
    run, _ = measured(fixed, tmp_path, "boots")
    fork = by_case(judged(run))["fork"]
    assert fork.verdict == "failed" and "skip: it failed in the boot" in (fork.reason or "")
    again = counting(lengths(41))
    resumed = with_fixed_work(again, run.manifest().cases, print)
    assert machine_of(again).opened == [] and resumed.runnable == fixed.runnable
    for fault, message in (
        (Fault("error"), "no case is left: see what each of them said"),
        (Fault("boot"), "stock: the boot that says how often each case does its"),
    ):
        one = counting(lengths(41), CASES[:1])
        machine_of(one).faults = {"stock": {0: fault}}
        with pytest.raises(ToolError, match=message):
            with_fixed_work(one, (), print)


def test_a_run_of_counts_goes_on_with_the_work_that_it_began_with() -> None:
    one = counting(lengths(41))
    fixed = with_fixed_work(one, (), print)
    again = counting(lambda *_: 1.0)  # whoever asked this baseline would fix other work
    resumed = with_fixed_work(again, fixed.infos, print)
    assert machine_of(again).opened == [] and resumed.jobs == fixed.jobs


def test_a_run_of_counts_goes_on_with_the_same_qemu_or_not_at_all() -> None:
    here, other = "QEMU 7.2.22, qemu64, count", "QEMU 10.0.3, qemu64, count"
    begun = probed(manifest_of(counting(lengths(41)), "boots"), (), here)
    assert begun.machine is not None and begun.machine.emulator == here
    assert probed(begun, (), here) == begun
    with pytest.raises(UsageError, match=f"began with {here}, and here is {other}: their figures"):
        probed(begun, (), other)


def test_one_boot_decides_what_most_of_its_parts_agree_in_and_says_so(tmp_path: Path) -> None:
    _, verdict = run_of(counting(lengths(41), exact_boots=1), tmp_path)
    assert verdict.boots == {"stock": 1, "mine": 1} and verdict.stopped == "precision reached"
    pipe = by_case(verdict)["pipe"]
    assert pipe.exact and pipe.blocks == 1 and pipe.verdict == "slower"
    assert (pipe.value or 0) - (pipe.baseline_value or 0) == pytest.approx(41, abs=1e-3)
    (flag,) = texts_of(verdict, "few-boots")
    assert flag.startswith(
        "one boot of either kernel decided the exact effects of 2 of 2 cases: most"
    )
    # 1 - 0.05 ** (1 / 13), of the cases that docs/counting.md has.
    assert flag.endswith("contradicted 0 of 13 cases, so they may contradict up to 21 % of cases "
                         "(95 % confidence)")  # fmt: skip
    assert "the same in most parts of the one boot of either kernel" in text(verdict, 120)


@pytest.mark.parametrize("blocks", [2, 6])
def test_exact_counts_without_a_common_block_are_not_judged(tmp_path: Path, blocks: int) -> None:
    """Each kernel fails where the other counts, but in the last of six blocks."""
    manifest = manifest_of(counting(lengths(0), CASES[:1], exact_boots=1), "boots")
    boots: list[tuple[int, str, Any]] = []
    for block, name in product(range(blocks), ("stock", "mine")):
        score = 1443.0 if name == "stock" else 1484.0
        reps = ((20.0, 20 * score),) * 9
        good = block == 5 or (block % 2 == 0) == (name == "stock")
        sample = Sample(suite="s", case="pipe", score=score, reps=reps)
        boots.append((block, name, [sample] if good else "panic"))
    run = record(tmp_path, boots, **dict(manifest))
    (effect,) = judged(run).effects
    assert (effect.blocks, effect.exact) == ((0, False) if blocks == 2 else (1, True))
    _, progress = look(gather(run.boots()), run.manifest(), blocks, 0.005, 6)
    assert progress.enough == effect.exact


@pytest.mark.slow
def test_a_further_boot_that_contradicts_a_case_widens_the_bound_of_one_boot(
    tmp_path: Path,
) -> None:
    """The baseline's forks agree within each boot, and no two boots do."""

    def by_boot(variant: str, case: str, now_s: float) -> float:
        within = random.Random(now_s).uniform(0, 200) if variant == "mine" else int(now_s / 0.15)
        return (1387.0 + (within if case == "fork" else 0.0)) / 1e9

    _, verdict = run_of(counting(by_boot, exact_boots=1, max_boots=8), tmp_path)
    (flag,) = texts_of(verdict, "few-boots")
    assert flag.startswith("one boot of either kernel decided the exact effects of 1 of 2 cases: ")
    assert "contradicted 1 of 1 cases, so they may contradict up to 100 % of cases" in flag


@pytest.mark.slow
def test_one_boot_does_not_decide_what_differs_from_part_to_part(tmp_path: Path) -> None:
    """And what it has decided is not booted again: those boots are the other case's alone."""
    run, verdict = run_of(counting(lengths(41, unsteady=True), exact_boots=1), tmp_path)
    effects = by_case(verdict)
    assert effects["pipe"].exact and effects["pipe"].blocks == 1
    assert not effects["fork"].exact and effects["fork"].blocks >= 8
    cases = [[sample.case for sample in boot.samples] for boot in boots_of(run)]
    assert cases[:2] == [["pipe", "fork"]] * 2
    assert cases[2:] == [["fork"]] * (len(cases) - 2)


@pytest.mark.slow
def test_a_case_that_is_as_precise_as_wanted_is_not_booted_again(tmp_path: Path) -> None:
    """Each at its own look, by its width alone; the one that varies more goes on without."""

    def unlike(variant: str, case: str, now_s: float) -> float:
        drawn = random.Random(f"{variant} {case} {now_s}")
        return (117759.0 * (1 + drawn.gauss(0, 0.01 if case == "pipe" else 0.08))) / 1e9

    run, verdict = run_of(counting(unlike, precision=0.02, max_boots=60), tmp_path)
    blocks = {effect.case: effect.blocks for effect in verdict.effects}
    assert blocks["pipe"] == 8 < blocks["fork"] < 60 and verdict.stopped == "precision reached"
    assert [sample.case for sample in boots_of(run)[-1].samples] == ["fork"]
    assert all(effect.ci is not None for effect in verdict.effects)
    # Over links, of which there are fewer than blocks.
    links = counting(unlike, precision=0.02, max_boots=16, min_boots=10, layouts=8)
    run, _ = run_of(links, tmp_path / "links")
    assert [len(boot.samples) for boot in boots_of(run)] == [2] * 20 + [1] * 12


def test_a_case_that_is_exact_for_one_variant_alone_is_booted_on(tmp_path: Path) -> None:
    def of_one(variant: str, case: str, now_s: float) -> float:
        wanders = case == "pipe" and variant == "other"
        return (1387.0 + (random.Random(now_s).uniform(0, 5) if wanders else 0.0)) / 1e9

    names = ("stock", "mine", "other")
    one = bench(of_one, names, CASES, metric="instructions", max_boots=4, min_boots=2)
    run, verdict = run_of(one, tmp_path)
    estimated = {(effect.variant, effect.case) for effect in verdict.effects if not effect.exact}
    assert estimated == {("other", "pipe")}
    cases = [[sample.case for sample in boot.samples] for boot in boots_of(run)]
    assert cases == [["pipe", "fork"]] * 9 + [["pipe"]] * 3


@pytest.mark.slow
def test_a_count_that_another_boot_does_not_confirm_is_not_exact(tmp_path: Path) -> None:
    """All parts of a boot agree, and boots do not: with one boot that was not seen."""

    def by_boot(variant: str, case: str, now_s: float) -> float:
        return (1387.0 + (int(now_s / 0.15) if case == "fork" else 0)) / 1e9

    _, verdict = run_of(counting(by_boot, max_boots=8), tmp_path)
    assert not by_case(verdict)["fork"].exact


def alike(tmp_path: Path, stock: list[float], mine: list[float], boots: int = 3) -> Verdict:
    """The verdict on boots that all have these parts of 10 operations; of ``mine`` one tick more in
    every second boot."""
    manifest = manifest_of(counting(lengths(0)), "boots")
    case = manifest.cases[0].model_copy(update={"operations": 90})
    samples = []
    for number in range(2 * boots):
        own, name = (mine, "mine") if number % 2 else (stock, "stock")
        own = [own[0] + (1500 if number % 4 == 1 else 0), *own[1:]]
        score = score_of(counted(PIPE), [(10, int(ns)) for ns in own])
        sample = Sample(suite="s", case="pipe", score=score, reps=tuple((10, ns) for ns in own))
        samples.append((number // 2, name, [sample]))
    return worded(judged(record(tmp_path, samples, **dict(manifest) | {"cases": (case,)})))


@pytest.mark.slow
def test_work_of_few_parts_is_not_left_out(tmp_path: Path) -> None:
    """The usual part is the same in every boot; a list is filled again in three of nine."""
    usual, ticks = [20_000_000.0] * 7, [20_001_500.0] * 2
    same = alike(tmp_path / "same", [*ticks, *usual], [*ticks, *usual])
    assert (same.effects[0].exact, same.effects[0].verdict) == (True, "equivalent")
    assert same.effects[0].parts_ratio == pytest.approx(1, abs=1e-5)
    rare = [*ticks, *usual[3:], *[21_000_000] * 3]
    filled = alike(tmp_path / "filled", [*ticks, *usual], rare, 8)
    (effect,) = filled.effects
    assert not effect.exact and effect.verdict == "slower" and effect.ci is not None
    assert effect.ratio == effect.parts_ratio == pytest.approx(1 + 3 / 9 * 0.05, rel=1e-4)
    (flag,) = texts_of(filled, "rare-work")
    assert flag == (
        "pipe: most parts of mine are the same in every boot, and what is done in the others "
        "differs from the baseline's: the effect is of all parts together, +1.67 %"
    )
    assert texts_of(same, "rare-work") == []


def crossed(
    runs: Path,
    blocks: int,
    usual: Callable[[int, bool], float],
    rare: Callable[[int, bool], float] = lambda *_: 0.0,
) -> tuple[Verdict, dict[tuple[str, str], FactorEffect]]:
    """Of two factors, by (block, whether smp is on): instructions an operation in most of 400
    parts, and what 40 of them have more."""
    levels = {f"{smp}+{hz}": {"smp": smp, "hz": hz} for smp in "nm" for hz in ("100", "250")}
    case = CaseInfo(suite="s", case="pipe", unit=UNIT, better="lower", operations=8000)
    boots = []
    for block, name in product(range(blocks), levels):
        own, more = (of(block, name.startswith("m")) for of in (usual, rare))
        reps = ((20.0, 20 * own),) * 360 + ((20.0, 20 * (own + more)),) * 40
        boots.append((block, name, [Sample(suite="s", case="pipe", score=own, reps=reps)]))
    baseline, *others = levels
    manifest = asking([case], baseline, others, levels, metric="instructions")
    verdict = judged(record(runs, boots, **dict(manifest)))
    assert verdict.factors is not None
    return verdict, {(row.kind, row.factor): row for row in verdict.factors.effects}


@pytest.mark.slow
def test_rows_of_factors_are_exact_where_all_their_counts_are(tmp_path: Path) -> None:
    for more, word in ((1e-4, "equivalent"), (100.0, "slower")):
        verdict, rows = crossed(tmp_path / word, 3, lambda _, smp, more=more: 1e3 + smp * more)
        assert [effect.exact for effect in verdict.effects] == [True] * 3
        main = rows["main", "smp"]
        assert main.verdict == word and main.ci == (main.ratio, main.ratio)
        assert rows["main", "hz"].verdict == rows["interaction", "smp"].verdict == "equivalent"
    _, rows = crossed(tmp_path, 3, lambda block, smp: 1e3 + smp * (100.0 + block))
    assert rows["main", "smp"].verdict == "inconclusive"


@pytest.mark.slow
def test_rows_of_factors_leave_rare_work_out_no_more_than_effects(tmp_path: Path) -> None:
    """Of 400 parts 40 are twice as long with smp, and some more from boot to boot."""
    verdict, rows = crossed(tmp_path, 8, lambda block, smp: 1000.0, lambda b, smp: smp * (1e3 + b))
    assert rows["main", "smp"].verdict == "slower"
    assert rows["main", "smp"].ratio == pytest.approx(verdict.effects[-1].ratio, rel=1e-3)
    assert rows["main", "hz"].verdict == rows["interaction", "smp"].verdict == "equivalent"


@pytest.mark.slow
def test_a_count_with_an_interval_leaves_nothing_out_either(tmp_path: Path) -> None:
    """A switch goes one of two ways, the longer more often in one kernel than in the other."""

    def two_ways(variant: str, case: str, now_s: float) -> float:
        long = random.Random(f"{variant} {now_s}").random() < (0.2 if variant == "mine" else 0.6)
        usual = 1120.0 if variant == "mine" else 1000.0 + random.Random(now_s).randrange(3)
        return (usual + (300.0 if long else 0.0)) / 1e9

    _, verdict = run_of(counting(two_ways, max_boots=12, precision=0.001), tmp_path)
    effect = by_case(verdict)["pipe"]
    assert not effect.exact and effect.ratio == pytest.approx(effect.parts_ratio or 0, rel=0.03)
    assert effect.ratio == pytest.approx((1120 + 60) / (1001 + 180), abs=0.06)
    (text, *_) = texts_of(verdict, "rare-work")
    assert text.startswith("pipe: the effect is of all parts together, ")
    assert "; the usual part of mine differs by " in text


def test_ticks_that_most_parts_have_are_named_with_their_cases(tmp_path: Path) -> None:
    """A part is 50,000 instructions, or one operation that is longer."""
    images = {}
    for hz in (100, 250, 1000):
        folder = tmp_path / str(hz)
        folder.mkdir()
        (folder / "config").write_text(f"CONFIG_HZ_{hz}=y\nCONFIG_HZ={hz}\n")
        images[f"hz-{hz}"] = Image("", folder, "x86_64", 64, "7.3", {})
    short, long = replace(bench(lengths(0), ("stock",)).jobs[0], operations=14_400), "shell"
    jobs = (short, replace(short, case=long, operations=10))
    (flag,) = ticks_of(images, jobs)
    assert flag.kind == "ticks" and flag.text.startswith("shell: one operation is so long that ")
    assert " a tick of hz-1000 (HZ = 1000), " in flag.text
    assert ticks_of(images, jobs[:1]) == ()
    assert ticks_of({"hz-100": images["hz-100"]}, jobs) == ()


@pytest.mark.parametrize(
    ("same", "others", "even"),
    [(5, 4, True), (4, 5, False), (3, 2, True), (2, 1, False), (9, 0, True)],
)
def test_what_is_even_is_more_than_half_of_the_parts_and_three_at_least(
    same: int, others: int, even: bool
) -> None:
    reps = ((10, 1000),) * same + tuple((10, 1001 + number) for number in range(others))
    sample = Sample(suite="s", case="pipe", score=100.0, reps=reps)
    job = BootJob(index=0, block=4, variant="stock")
    boot = BootRecord(job=job, host=BootHost(status="ok"), samples=(sample,))
    assert gather([boot]).even == ({("s", "pipe", "stock"): {4}} if even else {})


def test_what_a_count_does_not_decide_stands_beside_the_machines_caveats() -> None:
    stream = counted(replace(PIPE, name="stream", uncounted="it is memory's time"))
    one = replace(counting(lengths(41), insist=True), cases=(*CASES, stream))
    machine, insisted = one.caveats()
    assert machine.text == "made up" and insisted.kind == "not-decided"
    assert insisted.text.endswith(f"{stream.suite}/stream: it is memory's time")


def test_the_first_block_is_as_ever_and_all_others_are_perturbed(tmp_path: Path) -> None:
    one = counting(lengths(41), seed=7)
    run_of(one, tmp_path)
    draws = [draw_of(7, block) for block in range(50)]
    # A boot that calibrates, and two of each block.
    assert machine_of(one).draws == [0, 0, 0, draws[1], draws[1], draws[2], draws[2]]
    assert 0 not in draws and len({*draws}) == 50
    assert draws != [draw_of(8, block) for block in range(50)]


@pytest.mark.slow
def test_layout_alone_gives_no_verdict(tmp_path: Path) -> None:
    """What depends on the allocator's state differs by chance in each draw and build: of 30 such
    pairs of one kernel, about 1 in 20 may be called different, and none by as much as matters."""

    def by_chance(variant: str, case: str, now_s: float) -> float:
        drawn = random.Random(f"{variant} {case} {now_s}")
        return (117759.0 + (0 if case == "pipe" else drawn.gauss(0, 150))) / 1e9

    called = 0
    for seed in range(30):
        made_ = counting(by_chance, seed=seed, max_boots=12)
        _, verdict = run_of(made_, tmp_path / str(seed))
        effects = by_case(verdict)
        assert (effects["pipe"].exact, effects["pipe"].ratio) == (True, 1.0)
        assert not effects["fork"].exact
        assert abs((effects["fork"].ratio or 9) - 1) < 0.005
        called += effects["fork"].verdict in ("faster", "slower")
    assert called <= 5  # of 30 at 5 %, more are seen once in 300 times
