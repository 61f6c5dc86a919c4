# SPDX-License-Identifier: MIT
"""Costs that robust figures do not see: time asleep, cases that fail, boots far from the others,
rare turns of short runs, the accident of one boot that several runs have in common."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from synthetic_run import case, record

from kdyno.judge.comparing import compare
from kdyno.judge.judging import verdict_of
from kdyno.report import gate
from kdyno.stats.verdict import Claim, judge, judge_sums
from kdyno.store.boot import Sample
from kdyno.store.manifest import Criteria, MachineInfo, VariantInfo
from kdyno.store.run import Run
from kdyno.store.verdict import Effect, Verdict

pytestmark = pytest.mark.slow
GATE = ("slower", "inconclusive")
Boots = list[tuple[int, str, list[Sample] | str]]


def judged(folder: Path, boots: Boots, cases: int = 1, **more: object) -> Verdict:
    run = record(
        *(folder, boots),
        cases=tuple(map(case, range(cases))),
        images={"stock": "0" * 32, "mine": "1" * 32},
        variants={"stock": VariantInfo(), "mine": VariantInfo()},
        asked=Criteria(),
        **more,  # type: ignore[arg-type]
    )
    return verdict_of(run, run.manifest(), "max_boots")


def sample(number: int, score: float | None, **more: object) -> Sample:
    own = case(number)
    more = more if score is not None else {"status": "error", "text": "timed out after 60 s"}
    reps = ((1000.0, 1e8), (1000.0, 1e8)) if score is not None else ()
    given = {"score": score, "reps": reps, **more}
    return Sample(suite=own.suite, case=own.case, **given)  # type: ignore[arg-type]


def of_turns(share: Callable[[str], float]) -> Boots:
    """16 groups of 60 turns of 4 ms, of which a share is 4 ms longer in which the guest sleeps."""
    rng, boots = np.random.default_rng(1), Boots()
    for block in range(16):
        for name in ("stock", "mine"):
            work = 4e6 * np.exp(rng.normal(0, 0.01, 60) + rng.normal(0, 0.002))
            ns = work + 4e6 * (rng.random(60) < share(name))
            reps = tuple((1000.0, float(each)) for each in ns.round())
            cpu = tuple(map(int, work + 1.5e4))
            score = float(np.median(1e12 / ns))
            own = sample(0, score, reps=reps, interleave="turns", cpu_ns=cpu)
            boots.append((block, name, [own]))
    return boots


@pytest.mark.parametrize("share", [0.05, 0.3, 0.8])
def test_time_that_one_kernel_makes_its_guest_sleep_is_its_own(
    tmp_path: Path, share: float
) -> None:
    boots = of_turns(lambda name: share if name == "mine" else 0.0)
    verdict = judged(tmp_path, boots, interleave="turns")
    (effect,) = verdict.effects
    assert effect.verdict == "slower" and gate.exit_status(verdict, GATE) == gate.SLOWER
    assert effect.throughput is not None and effect.throughput.ratio is not None
    assert effect.throughput.ratio == pytest.approx(1 / (1 + share), rel=0.01)


def test_time_that_both_wait_for_the_cpu_is_the_machines(tmp_path: Path) -> None:
    verdict = judged(tmp_path, of_turns(lambda _name: 0.2), interleave="turns")
    (effect,) = verdict.effects
    assert effect.verdict == "equivalent" and gate.exit_status(verdict, GATE) == 0


def of_boots(
    blocks: int,
    timeouts: Collection[int] = (),
    panics: Collection[int] = (),
    slow: Collection[int] = (),
    speed: float = 1.0,
) -> Boots:
    """Two cases; the variant's second one times out, its kernel panics, or a boot is 30 % slower in
    these blocks. speed: the variant's, against 1."""
    rng, boots = np.random.default_rng(1), Boots()
    for block in range(blocks):
        scores = 1000 * np.exp(rng.normal(0, 0.003, (2, 2)))
        scores[1] *= speed
        boots.append((block, "stock", [sample(n, float(scores[0, n])) for n in range(2)]))
        if block in panics:
            boots.append((block, "mine", "panic"))
            continue
        second = float(scores[1, 1]) * (0.7 if block in slow else 1.0)
        samples = [sample(0, float(scores[1, 0])), sample(1, None if block in timeouts else second)]
        boots.append((block, "mine", samples))
    return boots


def kinds(verdict: Verdict) -> set[str]:
    return {flag.kind for flag in verdict.flags}


def test_a_case_that_fails_in_many_boots_of_one_kernel_has_no_verdict(tmp_path: Path) -> None:
    verdict = judged(tmp_path / "9", of_boots(20, timeouts=range(0, 18, 2)), 2)
    assert [effect.verdict for effect in verdict.effects] == ["equivalent", "failed"]
    assert "no score in 9 boots: error: timed out" in (verdict.effects[1].reason or "")
    assert "failed-cases" in kinds(verdict) and gate.exit_status(verdict, GATE) == gate.FAILED
    # Two may be anything, and are told.
    verdict = judged(tmp_path / "2", of_boots(20, timeouts=(3, 9)), 2)
    assert [effect.verdict for effect in verdict.effects] == ["equivalent"] * 2
    assert "failed-cases" in kinds(verdict)


def test_a_kernel_that_panics_in_many_boots_has_no_verdict(tmp_path: Path) -> None:
    panics = [block for block in range(60) if block % 5 in (0, 1, 3)]
    verdict = judged(tmp_path, of_boots(60, panics=panics, speed=1.005), 2)
    words = {(effect.verdict, effect.equivalent_too) for effect in verdict.effects}
    assert words == {("failed", False)}  # nor is it too little to matter
    assert gate.exit_status(verdict, GATE) == gate.FAILED


def test_boots_far_from_the_others_are_not_equivalent(tmp_path: Path) -> None:
    verdict = judged(tmp_path, of_boots(60, slow=(3, 14, 22, 31, 47, 55)), 2)
    first, second = verdict.effects
    assert (first.verdict, second.verdict) == ("equivalent", "inconclusive")
    assert second.mean_ratio is not None and second.mean_ratio < 0.98
    (flag,) = [flag for flag in verdict.flags if flag.kind == "uneven-boots"]
    assert flag.case == second.case and "in the mean of its boots −3." in flag.text.replace(
        "-", "−"
    )


def test_neither_is_a_group_of_such_cases_or_a_row_of_factors(tmp_path: Path) -> None:
    rng, members = np.random.default_rng(1), ("thread.computation", "thread.lock_contention")
    levels = {
        "".join(own): dict(zip("ab", own, strict=True)) for own in product(("0", "1"), repeat=2)
    }
    boots = Boots()
    for block, (name, own) in product(range(48), levels.items()):
        slow = 0.85 if own["b"] == "1" and block % 8 == 3 + 2 * int(own["a"]) else 1.0
        scores = slow * 100 * np.exp(rng.normal(0, 0.002, 2))
        samples = [
            Sample(suite="xbench", case=member, score=float(score))
            for member, score in zip(members, scores, strict=True)
        ]
        boots.append((block, name, samples))
    about = {"suite": "xbench", "unit": "x/s", "better": "higher"}
    run = record(
        *(tmp_path, boots),
        cases=tuple({**about, "case": member} for member in members),
        baseline="00",
        images=dict.fromkeys(levels, "0" * 32),
        variants={name: VariantInfo(levels=own) for name, own in levels.items()},
        asked=Criteria(),
    )
    verdict = verdict_of(run, run.manifest(), "max_boots")
    words = {effect.variant: effect.verdict for effect in verdict.effects}
    assert words == {"01": "inconclusive", "10": "equivalent", "11": "inconclusive"}
    (group,) = [each for each in verdict.groups if each.variant == "01"]
    assert (group.group, group.verdict) == ("thread", "inconclusive")
    assert verdict.factors is not None
    rows = {(row.factor, row.kind): row.verdict for row in verdict.factors.effects}
    assert rows["b", "conditional"] == "inconclusive" and rows["a", "main"] != "slower"


@pytest.mark.parametrize("blocks", [6, 7, 8, 10])
def test_rare_turns_of_a_short_run_are_not_called_faster(blocks: int) -> None:
    rng = np.random.default_rng(0)
    typical = rng.normal(0.03, 0.002, blocks)
    sums = typical + rng.normal(-0.15, 0.01, blocks)
    claims = [Claim(typical, "higher")]
    first = judge(claims)
    ((word, _summed),) = judge_sums(claims, first, [sums])[0]
    assert (first[0].word, word.word) == ("faster", "slower" if blocks == 10 else "inconclusive")
    # A sum that says the same takes nothing away.
    ((word, _summed),) = judge_sums(claims, first, [typical + rng.normal(0, 0.01, blocks)])[0]
    assert word.word == "faster"


def compared(
    folder: Path, order: Sequence[str], seed: int, kind: str = "host", given: bool = False
) -> Effect:
    """Runs of equal kernels whose boots differ by 1.5 %, in this order. A new boot has another
    kernel than the one before, or what stands in capitals."""
    rng, boot, runs, before = np.random.default_rng(seed), 0.0, list[Run](), ""
    for number, letter in enumerate(order):
        kernel = letter.lower()
        boot = boot if letter == before else rng.normal(0, 0.015)
        before = kernel
        scores = 1000 * np.exp(boot + rng.normal(0, 0.003, 6))
        run = record(
            folder,
            [(block, "k", [sample(0, float(score))]) for block, score in enumerate(scores)],
            cases=(case(0),),
            baseline="k",
            experiment="e",
            images={"k": kernel * 32},
            variants={"k": VariantInfo()},
            asked=Criteria(),
            created=f"2026-01-01T0{number}:00:00",
            machine=MachineInfo(kind=kind),
            host={
                **{"host_kernel": f"6.1-{kernel}", "cpu_model": "x", "cpus": 2.0},
                **({"boot_id": f"{boot}"} if given else {}),
            },
        )
        runs.append(run)
    (effect,) = compare(runs).effects
    return effect


def test_runs_in_one_boot_of_the_host_count_once(tmp_path: Path) -> None:
    words = {compared(tmp_path / f"{seed}", "aaabbba", seed).verdict for seed in range(10)}
    assert words == {"inconclusive"}
    effect = compared(tmp_path / "turns", "abababab", 1)
    assert effect.ci is not None and math.isfinite(effect.ci[1]) and effect.blocks == 4
    # The machine was booted again with the same kernel, and says so.
    assert compared(tmp_path / "said", "aAbBabA", 1, given=True).blocks == 3
    # A guest's boots are not the host's.
    assert compared(tmp_path / "uml", "aaabbba", 1, "uml", given=True).blocks == 3
