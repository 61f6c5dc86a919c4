# SPDX-License-Identifier: MIT
"""`kdyno judge`: stored runs of every kind, judged again; and where a block's ratios come from."""

from __future__ import annotations

import dataclasses
import json
import math
from array import array
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from command_line import Kdyno
from fake_run import asking
from held import held
from synthetic_run import Shape, case, make, record
from test_factorial_table import factor_table, planted

from kdyno import __version__
from kdyno.cli import judge as judge_verb
from kdyno.errors import Interrupted, UsageError
from kdyno.judge.flags import by_firmware
from kdyno.judge.judging import judge_again, look
from kdyno.judge.pairs import Pair
from kdyno.report.sentence import worded
from kdyno.stats.verdict import RULE
from kdyno.store.boot import BootRecord, Sample
from kdyno.store.manifest import State
from kdyno.store.run import FIRST_VERDICT, Run, write_run
from kdyno.store.samples import Samples, gather
from kdyno.store.verdict import Verdict

SMALL = Shape(cases=(case(0), case(1), case(2)), variants={"mine": 1.03, "same": 1.0}, blocks=10)


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    return tmp_path / "runs"


@pytest.fixture
def run(runs: Path) -> Run:
    """With a verdict that does not name its rule."""
    run = make(runs, SMALL)
    path = run.path / "verdict.json"
    data = json.loads(path.read_text())
    del data["tool"], data["rule"]
    path.write_text(json.dumps(data))
    return run


def changed(run: Run, **keys: object) -> None:
    path = run.path / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | keys))


def host_run(runs: Path) -> Run:
    """A run of one kernel alone, seven repetitions."""
    scores = [Sample(suite="s", case="pipe", score=100.0 + index) for index in range(7)]
    return record(
        runs,
        [(index, "running", [score]) for index, score in enumerate(scores)],
        baseline="running",
        host={"host_kernel": "7.3-own"},
        cases=({"suite": "s", "case": "pipe", "unit": "loops/s", "better": "higher"},),
        machine={"kind": "host", "caveats": ({"kind": "not-rebooted", "text": "one boot"},)},
        variants={"running": {}},
        stopped="enough",
    )


@pytest.mark.slow
def test_a_run_judged_again_names_the_rule_and_keeps_its_first_verdict(
    kdyno: Kdyno, run: Run
) -> None:
    first = run.verdict()
    before = (run.path / "verdict.json").read_bytes()
    words = ("--equivalent", "0.1", "--confidence", "97%", "--precision", "2%")
    assert kdyno("judge", "last", *words).status == 0
    now = run.verdict()
    assert now and (now.equivalent, now.confidence, now.precision) == (0.1, 0.97, 0.02)
    assert {row.verdict for row in now.effects if row.variant == "same"} == {"equivalent"}
    # Other thresholds are for that verdict alone.
    assert kdyno("judge", "last").status == 0
    assert first and run.verdict() == first.model_copy(update={"tool": __version__, "rule": RULE})
    assert (run.path / "first-verdict.json").read_bytes() == before
    assert run.verdict(FIRST_VERDICT) == first and (first.tool, first.rule) == ("", "")


@pytest.mark.slow
def test_what_judge_shows(kdyno: Kdyno, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    texts = [
        kdyno("judge", "last").out,
        kdyno("judge", "last", "--equivalent", "10%", "--confidence", "97%").out,
    ]
    text = "-----\n".join(texts).replace(run.name, "RUN")
    held(Path(__file__).parent / "golden" / "judge.txt", text)


@pytest.mark.slow
@pytest.mark.parametrize("state", ["running", "interrupted"])
def test_an_interrupted_run_is_judged_by_what_there_is(
    kdyno: Kdyno, run: Run, state: State
) -> None:
    (run.path / "verdict.json").unlink()
    changed(run, state=state, stopped="interrupted by Ctrl-C" if state == "interrupted" else "")
    result = kdyno("judge", "last")
    assert result.status == 0 and "not judged before" in result.out
    now = run.verdict()
    assert now and now.stopped.startswith("interrupted") and run.verdict(FIRST_VERDICT) is None
    (flag,) = [flag for flag in now.flags if flag.kind == "interrupted"]
    assert flag.text.startswith("measuring did not come to its end; judged were the 30 boots")


@pytest.mark.slow
def test_a_damaged_boot_and_a_damaged_verdict_are_reported(kdyno: Kdyno, run: Run) -> None:
    name = sorted(path.name for path in (run.path / "boots").iterdir())[4]
    (run.path / "boots" / name / "samples.jsonl").write_text("{")
    (run.path / "verdict.json").write_text("{}")
    result = kdyno("judge", "last")
    assert result.status == 0 and "is not a verdict" in result.err
    now = run.verdict()
    assert now and [flag.text[:4] for flag in now.flags if flag.kind == "damaged"] == ["0004"]
    assert not (run.path / "first-verdict.json").exists()


def test_a_run_of_one_kernel_has_its_values_again(kdyno: Kdyno, runs: Path) -> None:
    run = host_run(runs)
    result = kdyno("judge", "last", "--json", "-")
    now = run.verdict()
    assert now and Verdict.from_json(result.out) == now
    assert now.answer.startswith("The running kernel 7.3-own: 1 case of 1 measured, 7 repetitions")
    assert [(row.value, row.repetitions) for row in now.values] == [(103.0, 7)]
    assert [flag.kind for flag in now.flags] == ["not-rebooted"]


@pytest.mark.slow
def test_a_calibrated_run_keeps_its_noise_floor(kdyno: Kdyno, runs: Path) -> None:
    run = make(runs, dataclasses.replace(SMALL, copy="stock.copy"))
    first = run.verdict()
    assert kdyno("judge", "last").status == 0
    assert first and run.verdict() == first and first.copy_of_baseline == "stock.copy"
    assert all(row.noise_floor for row in first.effects if row.variant == "mine")
    for name in ("verdict.json", "first-verdict.json"):
        (run.path / name).unlink()
    changed(run, images={"stock": "", "mine": "", "same": "", "stock.copy": ""})
    assert kdyno("judge", "last").status == 0
    again = run.verdict()
    assert again and again.effects == first.effects


@pytest.mark.slow
def test_several_runs_and_one_of_them_damaged(kdyno: Kdyno, runs: Path, run: Run) -> None:
    other = host_run(runs)
    result = kdyno("judge", run.name, other.name, "--json", "-")
    assert result.status == 0
    data = json.loads(result.out)
    assert [each["run"] for each in data] == [run.name, other.name]
    assert [each["verdict"]["schema"] for each in data] == [1, 1]
    (run.path / "manifest.json").write_text("{")
    result = kdyno("judge", run.name, other.name)
    assert result.status == 1 and "manifest.json: damaged" in result.err
    assert f"run {other.name}" in result.out and run.name not in result.out


@pytest.mark.slow
def test_a_signal_ends_all_of_several_runs(
    kdyno: Kdyno, runs: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def terminated(*_: object, **__: object) -> None:
        raise Interrupted("terminated")

    monkeypatch.setattr(judge_verb, "judge_again", terminated)
    assert kdyno("judge", run.name, host_run(runs).name).status == 130


@pytest.mark.slow
@pytest.mark.parametrize(
    ("gate", "status"), [("slower:case-0", 0), ("slower", 10), ("slower:case-9", 2)]
)
def test_a_judgement_as_an_exit_status(kdyno: Kdyno, run: Run, gate: str, status: int) -> None:
    result = kdyno("judge", "last", "--fail-on", gate)
    assert result.status == status and ("no such case" in result.err) == (status == 2)
    assert (run.path / "first-verdict.json").exists() == (status != 2)


@pytest.mark.slow
def test_slower_is_ten_whichever_run_it_is_in(kdyno: Kdyno, runs: Path) -> None:
    shape = dataclasses.replace(SMALL, cases=(case(0),), variants={"mine": 0.9})
    names = [make(runs, each).name for each in (shape, SMALL)]
    assert kdyno("judge", *names, "--fail-on", "slower:case-0").status == 10


@pytest.mark.slow
def test_what_cannot_be_judged(kdyno: Kdyno, runs: Path, run: Run) -> None:
    with write_run(run.path):
        result = kdyno("judge", "last")
    assert result.status == 2 and "is still being measured" in result.err
    with pytest.raises(UsageError, match="no boot that can be read"):
        judge_again(record(runs, created="2027-01-01T00:00:00"))
    assert kdyno("judge", "last").status == 2


@pytest.mark.parametrize("lost", ["mine", "stock"])
def test_a_kernel_of_which_every_boot_failed_is_failed_and_has_no_boots(
    runs: Path, lost: str
) -> None:
    """Fewer than three in a row, so that it was not given up."""
    info = case(0)
    good = [Sample(suite=info.suite, case=info.case, score=9)]
    boots: list[tuple[int, str, list[Sample] | str]] = [
        (block, name, "panic" if name == lost else good)
        for block in range(2)
        for name in ("stock", "mine")
    ]
    verdict = worded(*judge_again(record(runs, boots, **dict(asking([info])))))
    (effect,) = verdict.effects
    assert (effect.verdict, effect.reason) == ("failed", f"{lost}: panic")
    assert verdict.boots[lost] == 0 and verdict.answer.endswith("; 0 to 2 boots of each.")


@pytest.mark.parametrize(
    ("stock", "mine", "quantiles", "apart"),
    [
        ({"p99_ms": 1e200}, {"p99_ms": 1e-200}, 0, 0),
        ({"p99_ms": 1e100}, {"p99_ms": 1e-100}, 1, 0),
        ({"p99_ms": True}, {"p99_ms": True}, 0, 0),
        *(({"counted-user": each},) * 2 + (0, 0) for each in (1e200, -1.0, math.inf)),
        *(({f"counted-{'x' * long}": 1.0},) * 2 + (0, kept) for long, kept in ((100, 1), (101, 0))),
        ({f"p{at}_ms": 1.0 for at in range(150)},) * 2 + (100, 0),
        ({f"counted-{at}": 1.0 for at in range(150)},) * 2 + (0, 100),
    ],
)
def test_what_a_program_printed_does_not_end_judging(
    runs: Path, stock: dict[str, float], mine: dict[str, float], quantiles: int, apart: int
) -> None:
    info = case(0)
    boots = [
        (block, name, [Sample(suite=info.suite, case=info.case, score=9 + block, extra=extra)])
        for block in range(2)
        for name, extra in (("stock", stock), ("mine", mine))
    ]
    manifest = dict(asking([info]))
    verdict, _ = judge_again(record(runs, boots, **manifest))
    (effect,) = verdict.effects
    assert (len(effect.quantiles), len(effect.apart)) == (quantiles, apart)
    alone = manifest | {"variants": {"stock": {}}, "created": "2026-01-02T00:00:00"}
    (value,) = judge_again(record(runs, boots[::2], **alone))[0].values
    assert len(value.counters) == apart


def test_a_measurement_that_goes_on_forgets_what_was_judged_before(run: Run) -> None:
    verdict = worded(*judge_again(run))
    with write_run(run.path) as writer:
        writer.save_later_verdict(verdict)
        assert run.verdict(FIRST_VERDICT) is not None
        writer.save_verdict(verdict)
    assert run.verdict(FIRST_VERDICT) is None and run.verdict() == verdict


def test_a_groups_ratio_goes_before_two_scores_and_needs_none() -> None:
    def turned(data: Samples, ratios: dict[int, float]) -> Samples:
        """With rounds in these blocks; all of a group have the same log ratio of times."""
        rounds = {
            key: {block: array("d", [-ratio] * 5) for block, ratio in ratios.items()},
            stock: {block: array("d", [0.0] * 5) for block in ratios},
        }
        return dataclasses.replace(data, rounds=rounds)

    data, manifest = planted(blocks=8)
    case = manifest.cases[1]
    key, stock = (case.suite, case.case, "on+none"), (case.suite, case.case, "off+none")
    measured = {block: math.log(2.0) + 0.001 * block for block in range(7)}
    both = turned(data, measured)
    expected = [*measured.values(), math.log(data.scores[key][7] / data.scores[stock][7])]
    pair = Pair(both, manifest, case, "on+none")
    assert pair.log_ratios == pytest.approx(expected)
    effects, _ = look(both, manifest, 8, 0.01, 8)
    assert effects[key].ratio == pytest.approx(2.006, abs=0.002)
    baseline = Pair(both, manifest, case, "off+none")
    assert np.log(pair.scores / baseline.scores) == pytest.approx(expected)
    table = factor_table(both, manifest)
    at = next(row for row in table.effects if row.kind == "conditional" and row.at == "2")
    assert at.ratio == pytest.approx(math.sqrt(2.0 * 0.53), rel=0.01)
    only = turned(Samples(blocks=6), dict.fromkeys(range(6), 0.5))
    assert list(Pair(only, manifest, case, "on+none").differences()) == [0.5] * 6
    assert Pair(only, manifest, case, "on+full").differences().size == 0


@pytest.mark.slow
def test_whether_a_box_differs_when_it_comes_from_its_firmware(runs: Path) -> None:
    run = make(runs, SMALL)
    boots = [boot for boot in run.boots() if isinstance(boot, BootRecord)]
    scores = {(boot.variant, boot.block): boot.samples[0].score or 0.0 for boot in boots}
    middle = {
        name: np.median([score for (own, _), score in scores.items() if own == name])
        for name in run.manifest().names
    }

    def text_of(firmware: Callable[[BootRecord], bool], machines: int = 1) -> str:
        marked = []
        for boot in boots:
            before = {"boot": "firmware" if firmware(boot) else "kexec"}
            host = boot.host.model_copy(update={"before": before})
            job = boot.job.model_copy(update={"machine": f"box {boot.block % machines}"})
            marked.append(boot.model_copy(update={"host": host, "job": job}))
        return "; ".join(flag.text for flag in by_firmware(gather(marked), run.manifest()))

    assert text_of(lambda boot: boot.job.index < 2) == ""
    even = text_of(lambda boot: boot.job.index % 3 == 0)
    assert even.startswith(
        "10 of 30 boots came through the firmware: none of 3 cases with enough boots differs"
    )
    chosen = text_of(lambda boot: scores[boot.variant, boot.block] > middle[boot.variant])
    assert "15 of 30 boots" in chosen and "into the next unixbench/case-0 +" in chosen, chosen
    # What is on one of two machines alone is that machine's.
    assert text_of(lambda boot: boot.block % 2 == 0, machines=2) == ""
