# SPDX-License-Identifier: MIT
"""`kdyno judge`: stored runs of every kind, judged again; and where a block's ratios come from."""

from __future__ import annotations

import dataclasses
import json
import math
import os
from array import array
from pathlib import Path

import numpy as np
import pytest
from command_line import Kdyno, kdyno
from synthetic_run import Shape, case, make
from test_factorial_table import factor_table, planted

from kdyno import __version__
from kdyno.errors import UsageError
from kdyno.judge.judging import Otherwise, judge_again, raw_effects
from kdyno.judge.pairs import Pair
from kdyno.report.sentence import worded
from kdyno.stats.verdict import RULE
from kdyno.store.boot import BootHost, BootJob, BootRecord, Sample
from kdyno.store.manifest import CaseInfo, Criteria, MachineInfo, Manifest, State, VariantInfo
from kdyno.store.run import Run, create_run, write_run
from kdyno.store.samples import Key, Samples
from kdyno.store.verdict import Flag, Verdict

__all__ = ["kdyno"]
GOLDEN = Path(__file__).parent / "golden"
SMALL = Shape(cases=(case(0), case(1), case(2)), variants={"mine": 1.03, "same": 1.0}, blocks=10)


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    return tmp_path / "runs"


@pytest.fixture
def run(runs: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """With a verdict that does not say by what rule."""
    found = make(runs, SMALL, monkeypatch)
    path = found.path / "verdict.json"
    data = json.loads(path.read_text())
    del data["tool"], data["rule"]
    path.write_text(json.dumps(data))
    return found


def changed(run: Run, **keys: object) -> None:
    path = run.path / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | keys))


def host_run(runs: Path) -> Run:
    """A run of one kernel alone, seven repetitions."""
    manifest = Manifest(
        tool="9", created="2026-01-01", experiment="own", baseline="running", seed=1,
        host={"host_kernel": "7.3-own"},
        cases=(CaseInfo(suite="s", case="pipe", unit="loops/s", better="higher"),),
        machine=MachineInfo(kind="host", caveats=(Flag(kind="not-rebooted", text="one boot"),)),
        variants={"running": VariantInfo()}, asked=Criteria(), state="finished", stopped="enough",
    )  # fmt: skip
    with create_run(runs, "", manifest) as writer:
        for index in range(7):
            sample = Sample(suite="s", case="pipe", score=100.0 + index)
            about = BootJob(index=index, block=index, variant="running")
            boot = BootRecord(job=about, host=BootHost(status="ok"), samples=(sample,))
            writer.add_boot(boot, b"")
        return writer.run


def test_judged_again_a_run_says_the_same_and_by_what_rule(kdyno: Kdyno, run: Run) -> None:
    first = run.verdict()
    before = (run.path / "verdict.json").read_bytes()
    assert kdyno("judge", "last").status == 0
    now = run.verdict()
    assert first is not None and now is not None
    assert (now.tool, now.rule) == (__version__, RULE)
    assert now == first.model_copy(update={"tool": __version__, "rule": RULE})
    assert (run.path / "first-verdict.json").read_bytes() == before
    assert run.first_verdict() == first and (first.tool, first.rule) == ("", "")


def test_what_judge_shows(kdyno: Kdyno, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    said = [
        kdyno("judge", "last").out,
        kdyno("judge", "last", "--equivalent", "10%", "--confidence", "97%").out,
    ]
    found = "-----\n".join(said).replace(run.name, "RUN")
    path = GOLDEN / "judge.txt"
    if os.environ.get("KDYNO_GOLDEN") == "write":
        path.write_text(found, encoding="utf-8")
    assert found == path.read_text(encoding="utf-8")


def test_other_thresholds_are_for_the_new_verdict_alone(kdyno: Kdyno, run: Run) -> None:
    first = run.verdict()
    words = ("--equivalent", "0.1", "--confidence", "97%", "--precision", "2%")
    assert kdyno("judge", "last", *words).status == 0
    now = run.verdict()
    assert now and (now.equivalent, now.confidence, now.precision) == (0.1, 0.97, 0.02)
    assert {it.verdict for it in now.effects if it.variant == "same"} == {"equivalent"}
    assert run.first_verdict() == first
    assert kdyno("judge", "last").status == 0
    again = run.verdict()
    assert first and again and again.effects == first.effects and again.equivalent == 0.01
    assert run.first_verdict() == first


@pytest.mark.parametrize("state", ["running", "interrupted"])
def test_an_interrupted_run_is_judged_by_what_there_is(
    kdyno: Kdyno, run: Run, state: State
) -> None:
    (run.path / "verdict.json").unlink()
    changed(run, state=state, stopped="interrupted by Ctrl-C" if state == "interrupted" else "")
    said = kdyno("judge", "last")
    assert said.status == 0 and "not judged before" in said.out
    now = run.verdict()
    assert now and now.stopped.startswith("interrupted") and run.first_verdict() is None
    (flag,) = [flag for flag in now.flags if flag.kind == "interrupted"]
    assert flag.text.startswith("measuring did not come to its end; judged were the 30 boots")


def test_a_damaged_boot_and_a_damaged_verdict_are_told(kdyno: Kdyno, run: Run) -> None:
    name = sorted(path.name for path in (run.path / "boots").iterdir())[4]
    (run.path / "boots" / name / "samples.jsonl").write_text("{")
    (run.path / "verdict.json").write_text("{}")
    said = kdyno("judge", "last")
    assert said.status == 0 and "is not a verdict" in said.err
    now = run.verdict()
    assert now and [flag.text[:4] for flag in now.flags if flag.kind == "damaged"] == ["0004"]
    assert not (run.path / "first-verdict.json").exists()


def test_a_run_of_one_kernel_has_its_values_again(kdyno: Kdyno, runs: Path) -> None:
    found = host_run(runs)
    said = kdyno("judge", "last", "--json", "-")
    now = found.verdict()
    assert now and Verdict.from_json(said.out) == now
    assert now.answer.startswith("The running kernel 7.3-own: 1 case of 1 measured, 7 repetitions")
    assert [(it.value, it.repetitions) for it in now.values] == [(103.0, 7)]
    assert [flag.kind for flag in now.flags] == ["not-rebooted"]


def test_a_calibrated_run_keeps_its_noise_floor(
    kdyno: Kdyno, runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shape = dataclasses.replace(SMALL, copy="stock.copy")
    found = make(runs, shape, monkeypatch)
    first = found.verdict()
    assert kdyno("judge", "last").status == 0
    assert first and found.verdict() == first and first.copy_of_baseline == "stock.copy"
    assert all(it.noise_floor for it in first.effects if it.variant == "mine")
    for name in ("verdict.json", "first-verdict.json"):
        (found.path / name).unlink()
    changed(found, images={"stock": "", "mine": "", "same": "", "stock.copy": ""})
    assert kdyno("judge", "last").status == 0
    unseen = found.verdict()
    assert unseen and unseen.effects == first.effects


def crossed(runs: Path) -> Run:
    """smp × preempt × jobs as a run on disk."""
    data, question = planted(blocks=8)
    seen, names = data.scores, [question.baseline, *question.variants]
    manifest = Manifest(
        tool="0.1.0", created="2026-01-01", experiment="x", baseline=names[0], seed=1,
        images=dict.fromkeys(names, ""), cases=question.cases, state="finished",
        machine=MachineInfo(), asked=Criteria(),
        variants={name: VariantInfo(levels=dict(question.levels[name])) for name in names},
    )  # fmt: skip
    text = "[factor.smp]\noff = {}\non = {}\n[factor.preempt]\nnone = {}\nfull = {}\n"
    text += "[factor.jobs]\n1 = {}\n2 = {}\n8 = {}\n"
    with create_run(runs, text, manifest) as writer:
        for index in range(8 * len(names)):
            block, name = index // len(names), names[index % len(names)]
            samples = tuple(
                Sample(suite=it.suite, case=it.case, score=seen[it.suite, it.case, name][block])
                for it in question.cases
            )
            about = BootJob(index=index, block=block, variant=name)
            boot = BootRecord(job=about, host=BootHost(status="ok"), samples=samples)
            writer.add_boot(boot, b"")
    return writer.run


def test_the_factors_of_a_crossed_run_are_judged_again(
    kdyno: Kdyno, runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", lambda _descriptor: None)
    found = crossed(runs)
    assert kdyno("judge", "last").status == 0
    now = found.verdict()
    assert now and now.factors
    assert list(now.factors.factors) == ["smp", "preempt", "jobs"]
    assert now.factors.summary[0].startswith("build/whole: smp on: ")


def test_several_runs_and_one_of_them_damaged(kdyno: Kdyno, runs: Path, run: Run) -> None:
    other = host_run(runs)
    said = kdyno("judge", run.name, other.name, "--json", "-")
    assert said.status == 0
    data = json.loads(said.out)
    assert [it["run"] for it in data] == [run.name, other.name]
    assert [it["verdict"]["schema"] for it in data] == [1, 1]
    (run.path / "manifest.json").write_text("{")
    said = kdyno("judge", run.name, other.name)
    assert said.status == 1 and "manifest.json: damaged" in said.err
    assert f"run {other.name}" in said.out and run.name not in said.out


@pytest.mark.parametrize(
    ("words", "status", "told"),
    [
        (("--fail-on", "slower:case-0"), 0, ""),
        (("--fail-on", "slower"), 10, ""),
        (("--fail-on", "slower:case-9"), 2, "the run has no such case"),
        (("--confidence", "30%"), 2, 'allowed is "50%" to "99.99%"'),
        (("--confidence", "x"), 2, "--confidence 'x': give a share"),
        (("--equivalent", "0"), 2, "--equivalent '0': give a share"),
        (("--json", "no-such-folder/x.json"), 2, "not a file in a folder that exists"),
    ],
)
def test_a_judgement_as_an_exit_status(
    kdyno: Kdyno, run: Run, words: tuple[str, ...], status: int, told: str
) -> None:
    said = kdyno("judge", "last", *words)
    assert said.status == status and told in said.err
    assert (run.path / "first-verdict.json").exists() == (status != 2)


def test_slower_is_ten_whichever_run_it_is_in(
    kdyno: Kdyno, runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shape = dataclasses.replace(SMALL, cases=(case(0),), variants={"mine": 0.9})
    names = [make(runs, it, monkeypatch).name for it in (shape, SMALL)]
    assert kdyno("judge", *names, "--fail-on", "slower").status == 10
    assert kdyno("judge", *names[1:], "--fail-on", "slower:case-0").status == 0


def test_a_run_that_is_being_measured_is_left_alone(kdyno: Kdyno, run: Run) -> None:
    with write_run(run.path):
        said = kdyno("judge", "last")
    assert said.status == 2 and "is still being measured" in said.err


def test_without_any_boot_there_is_nothing_to_judge(kdyno: Kdyno, runs: Path) -> None:
    manifest = Manifest(tool="0", created="2026", experiment="x", baseline="stock", seed=1)
    with create_run(runs, "", manifest) as writer:
        pass
    with pytest.raises(UsageError, match="no boot that can be read"):
        judge_again(writer.run, Otherwise())
    assert kdyno("judge", "last").status == 2


def test_a_measurement_that_goes_on_forgets_what_was_judged_before(run: Run) -> None:
    verdict = worded(*judge_again(run, Otherwise()))
    with write_run(run.path) as writer:
        writer.save_later_verdict(verdict)
        assert run.first_verdict() is not None
        writer.save_verdict(verdict)
    assert run.first_verdict() is None and run.verdict() == verdict


def turned(data: Samples, key: Key, stock: Key, ratios: dict[int, float]) -> Samples:
    """With rounds of a group in these blocks; all of a group have the same log ratio of times."""
    rounds = {
        key: {block: array("d", [-ratio] * 5) for block, ratio in ratios.items()},
        stock: {block: array("d", [0.0] * 5) for block in ratios},
    }
    return dataclasses.replace(data, rounds=rounds)


def test_a_groups_ratio_goes_before_two_scores() -> None:
    data, question = planted(blocks=8)
    it, variant = question.cases[1], "on+none"
    key, stock = (it.suite, it.case, variant), (it.suite, it.case, "off+none")
    measured = {block: math.log(2.0) + 0.001 * block for block in range(7)}
    both = turned(data, key, stock, measured)
    last = math.log(data.scores[key][7] / data.scores[stock][7])
    expected = [*measured.values(), last]
    pair = Pair(both, question, it, variant)
    assert pair.log_ratios == pytest.approx(expected)
    assert raw_effects(both, question, ())[key].ratio == pytest.approx(2.006, abs=0.002)
    baseline = Pair(both, question, it, "off+none")
    assert np.log(pair.scores / baseline.scores) == pytest.approx(expected)
    table = factor_table(both, question)
    assert table is not None
    at = next(row for row in table.effects if row.kind == "conditional" and row.at == "2")
    assert at.ratio == pytest.approx(math.sqrt(2.0 * 0.53), rel=0.01)


def test_a_groups_ratio_needs_no_scores() -> None:
    _data, question = planted()
    it = question.cases[0]
    key, stock = (it.suite, it.case, "on+none"), (it.suite, it.case, "off+none")
    only = turned(Samples(blocks=6), key, stock, dict.fromkeys(range(6), 0.5))
    assert list(Pair(only, question, it, "on+none").differences()) == [0.5] * 6
    assert Pair(only, question, it, "on+full").differences().size == 0
