# SPDX-License-Identifier: MIT
"""Runs against each other: when there is a verdict, when only "differs", and what is refused."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path
from typing import Any

import pytest
from command_line import Kdyno, kdyno  # noqa: F401
from synthetic_run import Shape, case, make

from kdyno.errors import UsageError
from kdyno.judge.comparing import between_runs, compare, within_runs
from kdyno.store.boot import BootHost, BootJob, BootRecord, Sample
from kdyno.store.manifest import CaseInfo, Criteria, MachineInfo, Manifest, work_digest
from kdyno.store.run import Run, create_run, open_run
from kdyno.store.verdict import Flag, Verdict

HOST: dict[str, Any] = {
    "cpu_model": "A CPU", "host_arch": "x86_64", "memory_bytes": 8e9, "cpus": 4.0,
}  # fmt: skip


def made(
    runs: Path,
    kernel: str,
    speed: float,
    *,
    at: int,
    boots: int = 8,
    spread: float = 0.004,
    host: dict[str, Any] | None = None,
    kind: str = "host",
    emulator: str = "",
    cases: tuple[str, ...] = ("pipe",),
    arg: str = "512",
    seconds: float = 0.5,
) -> Run:
    """A run of one kernel; ``speed`` is the true score of every case."""
    noise = random.Random(f"{kernel}{at}")
    about = {"suite": "s", "unit": "loops/s", "better": "higher", "seconds": seconds}
    infos = tuple(
        CaseInfo(**about, case=it, work=work_digest(it, None, (arg,)))  # type: ignore[arg-type]
        for it in cases
    )
    caveats = (Flag(kind="machine", text="counted"), Flag(kind="ptrace-mode", text="x"))
    machine = MachineInfo(kind=kind, emulator=emulator, caveats=caveats if emulator else ())
    manifest = Manifest(
        tool="0", created=f"2026-11-{at:02d}T00:00:00.000000+00:00", experiment="host",
        baseline="running", seed=1, host={**HOST, **(host or {})}, images={"running": kernel * 8},
        cases=infos, blocks=tuple(("running",) for _ in range(boots)), state="finished",
        machine=machine, asked=Criteria(metric="instructions" if emulator else "time"),
    )  # fmt: skip
    with create_run(runs, f'name = "host"\n[machine]\nkind = "{kind}"\n', manifest) as writer:
        writer.save_image("running", {"release": f"7.{kernel}"})
        for block in range(boots):
            samples = tuple(
                Sample(suite="s", case=it, score=speed * math.exp(noise.gauss(0, spread)))
                for it in cases
            )
            job = BootJob(index=block, block=block, variant="running")
            writer.add_boot(BootRecord(job=job, host=BootHost(status="ok"), samples=samples), b"")
        return writer.run


def kinds(verdict: Verdict) -> dict[str, str]:
    return {flag.kind: flag.text for flag in verdict.flags}


def test_one_run_of_each_kernel_has_no_verdict_but_may_differ(tmp_path: Path) -> None:
    runs = [made(tmp_path, "1", 1000, at=1), made(tmp_path, "2", 1100, at=2)]
    verdict = compare(runs)
    (found,) = verdict.effects
    assert (found.verdict, found.differs, found.blocks) == ("inconclusive", True, 8)
    assert found.ratio == pytest.approx(1.1, rel=0.01)
    assert found.ci is not None and found.ci[0] > 1
    assert (verdict.baseline, found.variant) == ("7.1", "7.2")
    assert "measured one after the other" in kinds(verdict)["not-interleaved"]
    said = kinds(verdict)["no-verdict"]
    assert said.startswith("no verdict: 1 run of a kernel where 3 are needed")
    assert "differs by more than the runs' own spread: pipe +" in said


def test_no_difference_is_not_called_one(tmp_path: Path) -> None:
    runs = [made(tmp_path, "1", 1000, at=1), made(tmp_path, "2", 1000, at=2)]
    verdict = compare(runs)
    assert [(it.verdict, it.differs) for it in verdict.effects] == [("inconclusive", False)]
    assert "differs by" not in kinds(verdict)["no-verdict"]


def turns(folder: Path, order: str, other: float) -> list[Run]:
    """Runs of kernels 1 and 2 in this order of days, those of 1 first in the list."""
    jitter = random.Random(3)
    speeds = {"1": 1000.0, "2": other}
    made_runs = [
        (kernel, made(folder, kernel, speeds[kernel] * math.exp(jitter.gauss(0, 0.003)), at=day))
        for day, kernel in enumerate(order, start=1)
    ]
    return [run for _, run in sorted(made_runs, key=lambda pair: pair[0])]


def test_three_runs_in_turns_have_a_verdict(tmp_path: Path) -> None:
    verdict = compare(turns(tmp_path, "121212", 1100.0))
    (found,) = verdict.effects
    assert (found.verdict, found.differs, found.blocks) == ("faster", False, 3)
    assert found.ci is not None and found.ci[0] < 1.1 < found.ci[1]
    assert set(kinds(verdict)) == {"not-interleaved"}
    assert verdict.boots == {"7.1": 24, "7.2": 24}


def test_three_runs_one_after_the_other_have_none(tmp_path: Path) -> None:
    verdict = compare(turns(tmp_path, "111222", 1100.0))
    assert verdict.effects[0].verdict == "inconclusive" and verdict.effects[0].differs
    assert "slow drift looks like a difference" in kinds(verdict)["no-verdict"]


def test_the_spread_between_runs_decides_not_that_within(tmp_path: Path) -> None:
    # Within a run nothing moves; from run to run the same kernel differs by 10 %.
    speeds = {"1": [1000, 1100, 1050], "2": [1060, 1010, 1120]}
    runs = [
        made(tmp_path, kernel, speeds[kernel][turn], at=2 * turn + int(kernel), spread=1e-5)
        for kernel in "12"
        for turn in range(3)
    ]
    assert compare(runs).effects[0].verdict == "inconclusive"
    assert compare(runs[:1] + runs[3:4]).effects[0].differs


def test_one_kernel_against_itself(tmp_path: Path) -> None:
    runs = [made(tmp_path, "1", 1000, at=1), made(tmp_path, "1", 1001, at=2)]
    verdict = compare(runs)
    assert "one and the same kernel" in kinds(verdict)["same-kernel"]
    assert verdict.baseline == runs[0].name and verdict.effects[0].variant == runs[1].name


def test_kernels_of_one_release_get_different_names(tmp_path: Path) -> None:
    runs = [made(tmp_path, "1", 1000, at=1), made(tmp_path, "2", 1000, at=2)]
    manifest = runs[1].path / "images" / "running.json"
    manifest.write_text('{"release": "7.1"}')
    assert list(compare(runs).boots) == ["7.1 (111111)", "7.1 (222222)"]


@pytest.mark.parametrize(
    ("changed", "told"),
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
    tmp_path: Path, changed: dict[str, Any], told: str
) -> None:
    runs = [made(tmp_path, "1", 1000, at=1), made(tmp_path, "2", 1000, at=2, **changed)]
    with pytest.raises(UsageError, match=told):
        compare(runs)


@pytest.mark.parametrize("other", ["QEMU 10.0.3, qemu64, count", "QEMU 7.2.22, max, count"])
def test_counts_of_another_qemu_or_cpu_model_are_not_compared(tmp_path: Path, other: str) -> None:
    here = "QEMU 7.2.22, qemu64, count"
    first = made(tmp_path, "1", 1000, at=1, kind="qemu", emulator=here)
    assert compare([first, made(tmp_path, "2", 1000, at=2, kind="qemu", emulator=here)]).effects
    second = made(tmp_path, "3", 1000, at=3, kind="qemu", emulator=other)
    with pytest.raises(UsageError, match=f"emulator is {here} in the one and {other} in the other"):
        compare([first, second])
    kvm = made(tmp_path, "4", 1000, at=4, kind="qemu")
    with pytest.raises(UsageError, match="emulator is not known in the one and QEMU 7"):
        compare([kvm, first])


def test_a_little_less_memory_is_the_same_machine(tmp_path: Path) -> None:
    other = made(tmp_path, "2", 1000, at=2, host={"memory_bytes": 7.95e9})
    assert compare([made(tmp_path, "1", 1000, at=1), other]).effects


def test_common_cases_are_compared_and_the_rest_named(tmp_path: Path) -> None:
    first = made(tmp_path, "1", 1000, at=1, cases=("pipe", "spawn"))
    second = made(tmp_path, "2", 1000, at=2, cases=("pipe", "execl"), seconds=0.2)
    verdict = compare([first, second], common=True)
    assert [it.case for it in verdict.effects] == ["pipe"]
    assert kinds(verdict)["common-cases"].endswith("left out: s/spawn, s/execl")
    assert kinds(verdict)["settings"].endswith("s/pipe")
    third = made(tmp_path, "3", 1000, at=3, cases=("other",))
    with pytest.raises(UsageError, match="no case in common"):
        compare([first, third], common=True)


def test_one_run_or_the_same_twice_is_refused(tmp_path: Path) -> None:
    run = made(tmp_path, "1", 1000, at=1)
    for runs in ([run], [run, run]):
        with pytest.raises(UsageError, match="two different runs"):
            compare(runs)
    with pytest.raises(UsageError, match="no variant 'mine'; it has running"):
        compare([run, made(tmp_path, "2", 1000, at=2)], variant="mine")


def test_between_runs_is_welchs_interval_by_hand() -> None:
    effect = between_runs([math.e] * 2 + [math.e**2], [math.e**3] * 2 + [math.e**4])
    # Means 4/3 and 10/3, both variances 1/3, so 4 degrees of freedom.
    half = 2.7764451051977987 * math.sqrt(2 / 9)
    assert effect.ratio == pytest.approx(math.exp(2))
    assert (effect.lo, effect.hi) == pytest.approx((math.exp(2 - half), math.exp(2 + half)))
    assert between_runs([1, 2], [3, 4, 5]).lo is None
    assert between_runs([2, 2, 2], [3, 3, 3]).p_value is None
    assert between_runs([], [1]).ratio is None


def test_within_runs_is_the_rank_sums_interval() -> None:
    effect = within_runs([math.exp(x) for x in range(6)], [math.exp(x + 100) for x in range(6)])
    assert effect.ratio == pytest.approx(math.exp(100))
    # m = n = 6: U = 5 is the critical value of the tables, so five of the 36 shifts are cut at
    # each end; in order they are 95, 96 twice, 97 three times, and so on.
    assert (effect.lo, effect.hi) == pytest.approx((math.exp(97), math.exp(103)))
    assert within_runs([1.0] * 5, [2.0] * 9).lo is None


def test_on_the_command_line(tmp_path: Path, kdyno: Kdyno) -> None:  # noqa: F811
    runs = tmp_path / "runs"
    names = [made(runs, kernel, 1000, at=int(kernel)).name for kernel in "12"]
    said = kdyno("compare", *names, "--json", "-")
    assert said.status == 0
    assert {flag["kind"] for flag in json.loads(said.out)["flags"]} == {
        "not-interleaved",
        "no-verdict",
    }
    page = kdyno("compare", *names, "-f", "markdown")
    assert page.status == 0 and "7.2 ÷ 7.1" in page.out
    assert kdyno("compare", names[0]).status == 2
    article = kdyno("compare", "published:freebsd")
    assert article.status == 0 and "no spread was published: no verdict" in article.out
    assert kdyno("compare", "published:freebsd", "published:simd").status == 2
    beside = kdyno("compare", names[0], "published:freebsd")
    assert beside.status == 2 and "no verdict" in beside.err
    with pytest.raises(UsageError):
        open_run(tmp_path)


def test_two_variants_of_one_run_are_judged_in_pairs(
    tmp_path: Path,
    kdyno: Kdyno,  # noqa: F811
) -> None:
    """Neither is the baseline; what the machine did in a block cancels, as in the run itself."""
    shape = Shape(cases=(case(0), case(1)), variants={"one": 1.03, "two": 1.01}, blocks=12)
    run = make(tmp_path, shape)
    data = json.loads(
        kdyno("compare", run.path, "--variant", "one", "--against", "two", "--json", "-").out
    )
    assert (data["baseline"], {it["variant"] for it in data["effects"]}) == ("two", {"one"})
    assert data["boots"] == {"two": 12, "one": 12}
    for effect in data["effects"]:
        assert effect["ratio"] == pytest.approx(1.03 / 1.01, abs=0.004)
        assert effect["ci"][0] < effect["ratio"] < effect["ci"][1] and effect["blocks"] == 12
    everybody = json.loads(kdyno("compare", run.path, "--against", "two", "--json", "-").out)
    assert {it["variant"] for it in everybody["effects"]} == {"stock", "one"}
    refused = kdyno("compare", run.path, "--against", "tow")
    assert "no variant 'tow'" in refused.err and "two" in refused.err
    refused = kdyno("compare", run.path, "--against", "two", "--variant", "two")
    assert "against itself" in refused.err
    assert (
        "--against goes with one run"
        in kdyno("compare", run.path, run.path, "--against", "two").err
    )


def test_what_a_count_does_not_see_is_said_and_nothing_of_what_it_cannot_be_moved_by(
    tmp_path: Path,
) -> None:
    runs = [made(tmp_path, kernel, 1000, at=int(kernel), emulator="QEMU 7.2") for kernel in "12"]
    flags = compare(runs).flags
    assert [flag.text for flag in flags if flag.kind == "machine"] == ["counted"]
    assert {flag.kind for flag in flags} == {"machine", "no-verdict"}
