# SPDX-License-Identifier: MIT
"""Runs against each other: when there is a verdict, when only "differs", and what is refused."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path
from typing import Any

import pytest
from command_line import Kdyno
from synthetic_run import Shape, case, make, record

from kdyno.errors import UsageError
from kdyno.judge.comparing import between_runs, compare, within_runs
from kdyno.report.evidence import Evidence
from kdyno.report.exporters import exporter
from kdyno.report.sentence import answer, worded
from kdyno.store.boot import Sample
from kdyno.store.manifest import work_digest
from kdyno.store.run import Run
from kdyno.store.verdict import Verdict

HOST = {"cpu_model": "A CPU", "host_arch": "x86_64", "memory_bytes": 8e9, "cpus": 4.0}


def run_of(
    runs: Path,
    kernel: str,
    speed: float,
    *,
    at: int,
    spread: float = 0.004,
    host: dict[str, Any] | None = None,
    kind: str = "host",
    emulator: str = "",
    cases: tuple[str, ...] = ("pipe",),
    arg: str = "512",
    seconds: float = 0.5,
    boots: int = 8,
    interleave: str = "boots",
) -> Run:
    """A run of one kernel; ``speed`` is the true score of every case."""
    noise = random.Random(f"{kernel}{at}")
    about = {"suite": "s", "unit": "loops/s", "better": "higher", "seconds": seconds}
    caveats = ({"kind": "machine", "text": "counted"}, {"kind": "ptrace-mode", "text": "x"})

    def samples() -> list[Sample]:
        scores = {name: speed * math.exp(noise.gauss(0, spread)) for name in cases}
        return [Sample(suite="s", case=name, score=score) for name, score in scores.items()]

    return record(
        runs,
        [(block, "running", samples()) for block in range(boots)],
        text=f'name = "host"\n[machine]\nkind = "{kind}"\n',
        built={"running": {"release": f"7.{kernel}"}},
        created=f"2026-11-{at:02d}T00:00:00.000000+00:00",
        experiment="host",
        baseline="running",
        interleave=interleave,
        host=HOST | (host or {}),
        images={"running": kernel * 8},
        cases=tuple(
            {**about, "case": each, "work": work_digest(each, None, (arg,))} for each in cases
        ),
        machine={"kind": kind, "emulator": emulator, "caveats": caveats if emulator else ()},
        asked={"metric": "instructions" if emulator else "time"},
    )


def kinds(verdict: Verdict) -> dict[str, str]:
    return {flag.kind: flag.text for flag in verdict.flags}


def one_each(folder: Path, other: float = 1000, **changed: Any) -> list[Run]:
    """A run of either kernel, the second with these changes."""
    return [run_of(folder, "1", 1000, at=1), run_of(folder, "2", other, at=2, **changed)]


def test_one_run_of_each_kernel_has_no_verdict_but_may_differ(tmp_path: Path) -> None:
    verdict = compare(one_each(tmp_path, 1100))
    (effect,) = verdict.effects
    assert (effect.verdict, effect.differs, effect.blocks) == ("inconclusive", True, 8)
    assert effect.ratio == pytest.approx(1.1, rel=0.01)
    assert effect.ci is not None and effect.ci[0] > 1
    assert (verdict.baseline, effect.variant) == ("7.1", "7.2")
    assert "measured one after the other" in kinds(verdict)["not-interleaved"]
    text = kinds(verdict)["no-verdict"]
    assert text.startswith("no verdict: 1 run of a kernel where 3 are needed")
    assert "differs by more than the runs' own spread: pipe +" in text
    verdict = compare(one_each(tmp_path / "alike"))
    (effect,) = verdict.effects
    assert (effect.verdict, effect.differs) == ("inconclusive", False)
    assert "differs by" not in kinds(verdict)["no-verdict"]


def turns(folder: Path, order: str, other: float) -> list[Run]:
    """Runs of kernels 1 and 2 in this order of days, those of 1 first in the list."""
    jitter = random.Random(3)
    speeds = {"1": 1000.0, "2": other}
    runs = [
        (kernel, run_of(folder, kernel, speeds[kernel] * math.exp(jitter.gauss(0, 0.003)), at=day))
        for day, kernel in enumerate(order, start=1)
    ]
    return [run for _, run in sorted(runs, key=lambda pair: pair[0])]


@pytest.mark.slow
def test_three_runs_have_a_verdict_where_they_took_turns(tmp_path: Path) -> None:
    verdict = compare(turns(tmp_path, "121212", 1100.0))
    (effect,) = verdict.effects
    assert (effect.verdict, effect.differs, effect.blocks) == ("faster", False, 3)
    assert effect.ci is not None and effect.ci[0] < 1.1 < effect.ci[1]
    assert set(kinds(verdict)) == {"not-interleaved"}
    assert verdict.boots == {"7.1": 24, "7.2": 24}
    verdict = compare(turns(tmp_path / "others", "111222", 1100.0))
    assert verdict.effects[0].verdict == "inconclusive" and verdict.effects[0].differs
    assert "slow drift looks like a difference" in kinds(verdict)["no-verdict"]
    # Of one boot each: too few for an interval, and not without spread.
    short = [
        run_of(tmp_path / "short", kernel, 1000.0, at=at + 1, boots=1)
        for at, kernel in enumerate("111222")
    ]
    (effect,) = compare(short).effects
    assert effect.ci is None and effect.verdict == "inconclusive" and effect.reason is None


@pytest.mark.slow
def test_runs_that_agree_to_the_last_digit_have_a_reason(tmp_path: Path) -> None:
    runs = [
        run_of(tmp_path, kernel, float(kernel), at=2 * turn + int(kernel), spread=0)
        for kernel in "12"
        for turn in range(3)
    ]
    (effect,) = compare(runs).effects
    assert effect.verdict == "inconclusive" and "no spread to judge by" in (effect.reason or "")


@pytest.mark.slow
def test_the_spread_between_runs_decides_not_that_within(tmp_path: Path) -> None:
    # Within a run nothing moves; from run to run the same kernel differs by 10 %.
    speeds = {"1": [1000, 1100, 1050], "2": [1060, 1010, 1120]}
    runs = [
        run_of(tmp_path, kernel, speeds[kernel][turn], at=2 * turn + int(kernel), spread=1e-5)
        for kernel in "12"
        for turn in range(3)
    ]
    assert compare(runs).effects[0].verdict == "inconclusive"
    assert compare(runs[:1] + runs[3:4]).effects[0].differs


def test_names_of_kernels(tmp_path: Path) -> None:
    runs = [run_of(tmp_path, "1", 1000, at=1), run_of(tmp_path, "1", 1001, at=2)]
    verdict = compare(runs)
    assert "all runs are of one image" in kinds(verdict)["same-kernel"]
    assert verdict.baseline == runs[0].name and verdict.effects[0].variant == runs[1].name
    other = run_of(tmp_path, "2", 1000, at=3)
    (other.path / "images" / "running.json").write_text('{"release": "7.1"}')
    assert list(compare([runs[0], other]).boots) == ["7.1 (111111)", "7.1 (222222)"]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"host": {"cpu_model": "Another"}}, "different machines: CPU is A CPU .* and Another"),
        ({"host": {"memory_bytes": 4e9}}, "different machines: memory is 7629 MiB"),
        ({"host": {"cpus": 8.0}}, "different machines: host's CPUs"),
        ({"kind": "uml"}, "kind 'host', .* on 'uml'"),
        ({"cases": ("pipe", "spawn")}, "spawn: not in all.*--common"),
        ({"arg": "1024"}, "pipe: not the same work.*--common"),
    ],
)
def test_what_cannot_be_compared_is_refused(
    tmp_path: Path, changed: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        compare(one_each(tmp_path, **changed))


def test_a_little_less_memory_is_the_same_machine(tmp_path: Path) -> None:
    assert compare(one_each(tmp_path, host={"memory_bytes": 7.95e9})).effects


@pytest.mark.slow
@pytest.mark.parametrize("other", ["QEMU 10.0.3, qemu64, count", "QEMU 7.2.22, max, count"])
def test_counts_of_another_qemu_or_cpu_model_are_not_compared(tmp_path: Path, other: str) -> None:
    here = "QEMU 7.2.22, qemu64, count"
    first, second, third, kvm = (
        run_of(tmp_path, str(at), 1000, at=at, kind="qemu", emulator=emulator)
        for at, emulator in enumerate((here, here, other, ""), start=1)
    )
    assert compare([first, second]).effects
    with pytest.raises(UsageError, match=f"emulator is {here} in the one and {other} in the other"):
        compare([first, third])
    with pytest.raises(UsageError, match="emulator is not known in the one and QEMU 7"):
        compare([kvm, first])


def test_common_cases_are_compared_and_the_rest_named(tmp_path: Path) -> None:
    first = run_of(tmp_path, "1", 1000, at=1, cases=("pipe", "spawn"))
    second = run_of(tmp_path, "2", 1000, at=2, cases=("pipe", "execl"), seconds=0.2)
    verdict = compare([first, second], common=True)
    assert [effect.case for effect in verdict.effects] == ["pipe"]
    assert kinds(verdict)["common-cases"].endswith("left out: s/spawn, s/execl")
    assert kinds(verdict)["settings"].endswith("s/pipe")
    third = run_of(tmp_path, "3", 1000, at=3, cases=("other",))
    with pytest.raises(UsageError, match="no case in common"):
        compare([first, third], common=True)


@pytest.mark.slow
def test_turns_against_whole_boots_are_flagged(tmp_path: Path) -> None:
    mixed = compare(one_each(tmp_path / "a", interleave="turns"))
    assert "by whole boots" in kinds(mixed)["settings"]
    for way in ("turns", "boots", "mixed"):
        both = [run_of(tmp_path / way, str(at), 1000, at=at, interleave=way) for at in (1, 2)]
        assert ("settings" in kinds(compare(both))) == (way == "mixed")


def test_one_run_or_the_same_twice_is_refused(tmp_path: Path) -> None:
    run, other = one_each(tmp_path)
    for runs in ([run], [run, run]):
        with pytest.raises(UsageError, match="two different runs"):
            compare(runs)
    with pytest.raises(UsageError, match="no variant 'mine'; it has running"):
        compare([run, other], variant="mine")


def test_between_runs_is_welchs_interval_by_hand() -> None:
    effect = between_runs([math.e] * 2 + [math.e**2], [math.e**3] * 2 + [math.e**4])
    # Means 4/3 and 10/3, both variances 1/3, so 4 degrees of freedom.
    half = 2.7764451051977987 * math.sqrt(2 / 9)
    assert effect.ratio == pytest.approx(math.exp(2))
    assert effect.ci == pytest.approx((math.exp(2 - half), math.exp(2 + half)))
    assert between_runs([1, 2], [3, 4, 5]).ci is None
    assert between_runs([2, 2, 2], [3, 3, 3]).p_value is None
    assert between_runs([], [1]).ratio is None


def test_within_runs_is_the_rank_sums_interval() -> None:
    effect = within_runs([math.exp(x) for x in range(6)], [math.exp(x + 100) for x in range(6)])
    assert effect.ratio == pytest.approx(math.exp(100))
    # m = n = 6: U = 5 is the critical value of the tables, so five of the 36 shifts are cut at
    # each end; in order they are 95, 96 twice, 97 three times, and so on.
    assert effect.ci == pytest.approx((math.exp(97), math.exp(103)))
    assert within_runs([1.0] * 5, [2.0] * 9).ci is None


def test_on_the_command_line(tmp_path: Path, kdyno: Kdyno) -> None:
    names = [run.name for run in one_each(tmp_path / "runs")]
    flags = json.loads(kdyno("compare", *names, "--json", "-").out)["flags"]
    assert {flag["kind"] for flag in flags} == {"not-interleaved", "no-verdict"}
    for words, text in (
        ((*names, "-f", "markdown"), "7.2 ÷ 7.1"),
        (("published:freebsd",), "no spread was published: no verdict"),
    ):
        done = kdyno("compare", *words)
        assert done.status == 0 and text in done.out, words
    done = kdyno("compare", names[0], "published:freebsd")
    assert done.status == 2 and "no verdict" in done.err
    for file in ("x.bench", "x.parquet"):  # of boots, of which a verdict alone has none
        done = kdyno("compare", *names, "-o", tmp_path / file)
        assert done.status == 2 and not (tmp_path / file).exists(), file


@pytest.mark.slow
def test_nothing_is_said_of_blocks_where_there_are_none(tmp_path: Path) -> None:
    verdict = worded(compare(one_each(tmp_path, 1100)))
    for form in ("markdown", "html"):
        content = str(exporter(form).export(Evidence(verdict)))
        assert "paired within blocks" not in content
        assert "of runs that were measured one after the other" in content
        assert "else of the spread inside the runs alone" in content
    (few,) = (each.model_copy(update={"ci": None, "blocks": 3}) for each in verdict.effects)
    verdict = verdict.model_copy(update={"effects": (few,)})
    assert answer(verdict).startswith("7.2 is undecided against 7.1 in pipe")


@pytest.mark.slow
def test_two_variants_of_one_run_are_judged_in_pairs(tmp_path: Path, kdyno: Kdyno) -> None:
    """Neither is the baseline; what the machine did in a block cancels, as in the run itself."""
    shape = Shape(cases=(case(0), case(1)), variants={"one": 1.03, "two": 1.01}, blocks=12)
    run = make(tmp_path, shape)
    manifest = json.loads((run.path / "manifest.json").read_text())
    (run.path / "manifest.json").write_text(json.dumps(manifest | {"failed": {"stock": "panic"}}))
    against_two = ("compare", run.path, "--against", "two")
    data = json.loads(kdyno(*against_two, "--variant", "one", "--json", "-").out)
    assert (data["baseline"], {each["variant"] for each in data["effects"]}) == ("two", {"one"})
    assert (data["boots"], data["failed"]) == ({"two": 12, "one": 12}, {})
    for effect in data["effects"]:
        assert effect["ratio"] == pytest.approx(1.03 / 1.01, abs=0.004)
        assert effect["ci"][0] < effect["ratio"] < effect["ci"][1] and effect["blocks"] == 12
    everybody = json.loads(kdyno(*against_two, "--json", "-").out)
    assert {each["variant"] for each in everybody["effects"]} == {"stock", "one"}
    assert everybody["failed"] == {"stock": "panic"}
    refused = kdyno(*against_two[:-1], "tow")
    assert "no variant 'tow'" in refused.err and "two" in refused.err
    assert "against itself" in kdyno(*against_two, "--variant", "two").err
    twice = kdyno("compare", against_two[1], *against_two[1:])
    assert "--against goes with one run" in twice.err
    alone = make(tmp_path, Shape(cases=(case(0),), variants={}, blocks=2))
    refused = kdyno("compare", alone.path, "--against", "stock")
    assert refused.status == 2 and "measured stock alone: nothing can be" in refused.err


def test_what_a_count_does_not_see_is_said_and_nothing_else(tmp_path: Path) -> None:
    runs = [run_of(tmp_path, kernel, 1000, at=int(kernel), emulator="QEMU 7.2") for kernel in "12"]
    flags = compare(runs).flags
    assert [flag.text for flag in flags if flag.kind == "machine"] == ["counted"]
    assert {flag.kind for flag in flags} == {"machine", "no-verdict"}
