# SPDX-License-Identifier: MIT
"""Runs on several machines: put together, judged by machine, and told."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from command_line import Kdyno, by_sums, effect, verdict
from fake_run import boots_of
from on_screen import text as on_screen
from site_runs import MACHINE, small

from kdyno.errors import UsageError
from kdyno.judge.judging import judge_again
from kdyno.report import exporters, tables
from kdyno.report.evidence import gather
from kdyno.report.page import page
from kdyno.report.sentence import worded
from kdyno.stats.groups import heterogeneity
from kdyno.store.comparable import join
from kdyno.store.database.tables import identity_of
from kdyno.store.run import Run
from kdyno.store.verdict import Strata, StratumEffect, Verdict

AMD, INTEL = "AMD EPYC", "Intel Xeon"


def on(runs: Path, effects: Mapping[str, float], **more: object) -> list[Run]:
    """A run on each machine: name → its effect; each is as fast as it likes."""
    results = []
    for day, (name, ratio) in enumerate(effects.items()):
        more["host"] = {**MACHINE, "cpu_model": (AMD, AMD, INTEL)[day], "machine_id": name}
        more["images"] = {"stock": "a", "mine": "b"}
        results.append(small(runs, day, 1.0 + 3.0 * day, ratio, blocks=8, **more))
    return results


def judged(runs: Sequence[Run], into: Path) -> tuple[Run, Verdict]:
    with join(runs, into) as writer:
        verdict, manifest = judge_again(writer.run)
        verdict = worded(verdict, manifest)
        writer.save_verdict(verdict)
        return writer.run, verdict


def blocks(strata: Sequence[StratumEffect]) -> dict[str, int]:
    return {each.stratum: each.blocks for each in strata}


@pytest.mark.slow
def test_machines_that_agree(tmp_path: Path) -> None:
    runs = on(tmp_path / "runs", {"aa": 1.02, "bb": 1.02, "cc": 1.02})
    run, verdict = judged(runs, tmp_path / "joined")
    pipe = verdict.effects[0]
    assert (pipe.verdict, pipe.blocks) == ("faster", 24)
    assert pipe.ratio == pytest.approx(1.02, abs=0.001)
    assert pipe.strata is not None and not pipe.strata.differs
    names = [f"{AMD} aa", f"{AMD} bb", f"{INTEL} cc"]
    assert blocks(pipe.strata.machines) == dict.fromkeys(names, 8)
    assert blocks(pipe.strata.cpu_models) == {AMD: 16, INTEL: 8}
    assert all(machine.ci is not None and machine.ci[0] > 1.01 for machine in pipe.strata.machines)
    assert [flag for flag in verdict.flags if flag.kind == "differs-by-machine"] == []
    assert "differs by machine" not in verdict.answer
    manifest = run.manifest()
    assert list(manifest.machines) == names and manifest.joined == tuple(run.name for run in runs)
    assert manifest.host["cpu_model"] == f"{AMD} + {INTEL}" and "machine_id" not in manifest.host
    assert manifest.state == "finished" and verdict.boots == {"stock": 24, "mine": 24}


@pytest.mark.slow
def test_runs_in_any_order_are_the_same_run(tmp_path: Path) -> None:
    one = small(tmp_path / "runs", 0, seed=11, overrides={"max_boots": 7, "seed": 11})
    why, cases = "no memory for two guests", {"unixbench/pipe": "no turns"}
    more = {"why_boots": why, "whole": cases, "overrides": {"max_boots": 7}}
    other = small(tmp_path / "runs", 3, seed=22, **more)
    identities = []
    for runs in ((one, other), (other, one)):
        run, verdict = judged(runs, tmp_path / "joined")
        manifest = run.manifest()
        identities.append(identity_of(manifest, run.experiment_text()))
        assert (manifest.why_boots, manifest.whole) == (why, cases)
        assert any(why in flag.text for flag in verdict.flags)
        html = page(gather(run, verdict))
        assert "--max-boots 7" in html and "--seed" not in html
        assert "same random order" not in html
    assert identities[0] == identities[1]
    assert "same random order" in page(gather(one, verdict))


@pytest.mark.slow
def test_machines_that_differ(tmp_path: Path) -> None:
    runs = on(tmp_path / "runs", {"aa": 1.04, "bb": 1.04, "cc": 0.98})
    run, verdict = judged(runs, tmp_path / "joined")
    pipe = verdict.effects[0]
    assert pipe.strata is not None and pipe.strata.differs
    assert pipe.strata.p_value is not None and pipe.strata.p_value < 1e-6
    assert pipe.strata.i_squared is not None and pipe.strata.i_squared > 0.9
    flag = next(flag for flag in verdict.flags if flag.kind == "differs-by-machine")
    assert (flag.suite, flag.case, flag.variant) == ("unixbench", "pipe", "mine")
    assert "% on Intel Xeon, +4.0" in flag.text and "% on AMD EPYC" in flag.text
    assert "differs by machine (−" in verdict.answer and "1 more effect" in verdict.answer
    content = on_screen(verdict, 120)
    rows = content[content.index("effects by machine") :].splitlines()
    assert rows[2].split()[:4] == ["mine", "pipe", "all", "together"]
    assert rows[3].split()[:2] == AMD.split() and "?" not in "".join(rows[2:14])
    assert f"{INTEL} cc" in content
    text = exporters.markdown(verdict)
    assert "Effects by machine" in text and "- differs-by-machine" in text
    assert "Effects by machine" in page(gather(run, verdict), home="../index.html")
    assert Verdict.from_json(verdict.to_json()) == verdict


def test_of_many_machines_a_text_has_those_at_both_ends() -> None:
    machines = tuple(
        StratumEffect(stratum=f"n{at}", ratio=1.0 + at / 1000, ci=None, blocks=8)
        for at in range(40)
    )
    judged = verdict(effect("pipe", "faster", 1.02, strata=Strata(machines=machines)))
    assert len(tables.strata(judged, 10_000).items) == 41  # type: ignore[union-attr]
    lines = on_screen(judged, 120).splitlines()
    begin = next(at for at, line in enumerate(lines) if "all together" in line) + 1
    names = [line.split()[0] for line in lines[begin : begin + 17]]
    assert names == [*(f"n{at}" for at in range(8)), "and", *(f"n{at}" for at in range(32, 40))]
    assert "and 24 machines between" in lines[begin + 8] and "192" in lines[begin + 8]


def strata(**ratios: float | None) -> tuple[StratumEffect, ...]:
    """Each with an interval, but for a name that ends in _."""
    return tuple(
        StratumEffect(
            stratum=name, ratio=ratio, ci=None if name[-1] == "_" else (0.9, 1.1), blocks=8
        )
        for name, ratio in ratios.items()
    )


@pytest.mark.parametrize(
    ("machines", "models", "ends"),
    [
        # The models explain it, or machines of one model do, whose mean says nothing.
        ({"a1": 1.05, "a2": 1.04, "b1": 0.97}, {"A": 1.045, "B": 0.97}, ["B", "A"]),
        ({"a1": 1.05, "a2": 0.97, "b1": 1.01}, {"A": 1.01, "B": 1.01}, ["a2", "b1", "a1"]),
        # One of too few groups was not in the test.
        ({"a1": 1.05, "a2": 0.97, "b1_": 1.15}, {}, ["a2", "a1"]),
        ({"a1_": 1.05, "b1_": None}, {}, ["b1_", "a1_"]),
    ],
)
def test_what_differs_is_what_was_tested(
    machines: dict[str, float], models: dict[str, float], ends: list[str]
) -> None:
    both = Strata(machines=strata(**machines), cpu_models=strata(**models))
    assert [each.stratum for each in both.ordered()] == ends


def test_effects_of_machines_are_those_of_typical_turns() -> None:
    machines = (StratumEffect(stratum="n0", ratio=1.0, ci=None, blocks=8),)
    for each, common in ((by_sums, "typical turns 0.00 %"), (effect, "together −4.00 %")):
        judged = verdict(each("pipe", "slower", 0.96, strata=Strata(machines=machines)))
        lines = (" ".join(line.split()) for line in on_screen(judged, 120).splitlines())
        row = next(line for line in lines if "all together" in line)
        assert common in row


@pytest.mark.slow
def test_two_runs_of_one_machine_are_one_stratum(tmp_path: Path) -> None:
    later = on(tmp_path / "more", {"aa": 1.02}, created="2026-03-01T00:00:00.000000+00:00")
    runs = [*on(tmp_path / "runs", {"aa": 1.02, "bb": 1.02}), *later]
    _, verdict = judged(runs, tmp_path / "joined")
    assert verdict.effects[0].strata is not None
    assert blocks(verdict.effects[0].strata.machines) == {f"{AMD} aa": 16, f"{AMD} bb": 8}
    assert verdict.effects[0].strata.cpu_models == ()
    verdict, _ = judge_again(runs[0])
    assert verdict.effects[0].strata is None
    assert "effects by machine" not in on_screen(verdict, 120)


@pytest.mark.slow
def test_boots_come_along_and_the_same_runs_make_the_same_run(tmp_path: Path) -> None:
    runs = on(tmp_path / "runs", {"aa": 1.02, "bb": 1.02})
    joined, _ = judged(runs, tmp_path / "joined")
    again, _ = judged(runs, tmp_path / "joined")
    boots = boots_of(joined)
    assert [boot.index for boot in boots] == list(range(32))
    assert [boot.block for boot in boots] == [at // 2 for at in range(32)]
    assert {boot.job.machine for boot in boots[:16]} == {f"{AMD} aa"}
    assert [boot.samples for boot in boots[16:]] == [each.samples for each in boots_of(runs[1])]
    mine, other = joined.manifest(), again.manifest()
    assert (mine.created, mine.seed) == (other.created, other.seed)
    assert mine.created == "2026-01-02T08:00:00.000001+00:00"  # newer than the newest of them


@pytest.mark.slow
def test_what_is_not_joined(tmp_path: Path) -> None:
    one, two = on(tmp_path / "runs", {"aa": 1.02, "bb": 1.02})
    into = tmp_path / "joined"
    other = small(tmp_path / "runs", 5, question="Another?")
    joined, _ = judged([one, two], into)
    copy = Path(shutil.copytree(one.path, tmp_path / "copies" / one.name))
    for runs, says in [
        ([one], "two runs or more"),
        ([one, one], "is the same run as"),
        ([one, Run(copy)], "is the same run as"),
        ([one, other], "differ in more than where they ran: the kernels of the one are not"),
        ([joined, one], "was put together itself"),
    ]:
        with pytest.raises(UsageError, match=says):
            join(runs, into)
    assert [path.name for path in into.iterdir() if not path.name.startswith(".")] == [joined.name]


@pytest.mark.slow
def test_the_verb(kdyno: Kdyno, tmp_path: Path) -> None:
    names = [run.name for run in on(tmp_path / "runs", {"aa": 1.04, "bb": 1.04, "cc": 0.98})]
    output = kdyno("compare", "--join", *names)
    assert output.status == 0 and "effects by machine" in output.out
    assert kdyno("compare", "--join", *names, "--fail-on", "slower").status in (0, 10)
    output = kdyno("run", "--resume", "last")
    assert output.status == 2 and "was put together from others" in output.err
    assert kdyno("compare", "--join", "last", "zzz").status == 2


def test_the_test_of_heterogeneity() -> None:
    """Against scipy's own example and by hand: two groups far apart, and none."""
    dice = np.random.default_rng(1)
    near = [dice.normal(0, spread, 10) for spread in (0.01, 0.04, 0.02)]
    difference = heterogeneity(near)
    assert difference is not None and difference.p_value > 0.05
    difference = heterogeneity([near[0], near[2] + 0.2, np.zeros(3), np.zeros(10)])
    assert difference is not None
    assert difference.p_value < 1e-6 and difference.i_squared > 0.9
    assert heterogeneity([near[0], np.zeros(10)]) is None
    assert heterogeneity([near[0], near[1][:5]]) is None


@pytest.mark.slow
def test_false_alarms_of_the_test() -> None:
    """1,000 experiments on 8 equal machines of unequal noise; benchmarks/strata.py does more."""
    dice = np.random.default_rng(7)
    alarms = 0
    for _ in range(1000):
        sizes, spreads = dice.integers(6, 21, 8), np.exp(dice.uniform(0, np.log(8), 8))
        difference = heterogeneity(
            [dice.normal(0, s, n) for s, n in zip(spreads, sizes, strict=True)]
        )
        assert difference is not None
        alarms += difference.p_value < 0.05
    assert alarms <= 65  # 50 expected, and two standard errors
