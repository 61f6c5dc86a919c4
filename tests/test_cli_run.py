# SPDX-License-Identifier: MIT
"""`kdyno run` and `build` without kernels: what is refused, and the exit status. A tool's error is
not a regression, and a regression no tool's error."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from command_line import (
    EXPERIMENT,
    FASTER,
    SLOWER,
    UNDECIDED,
    Kdyno,
    effect,
    experiment_file,
    stored,
    verdict,
)

from kdyno import sandbox
from kdyno.errors import Interrupted, ToolError, interruption
from kdyno.experiment import loader
from kdyno.experiment.loader import Overrides
from kdyno.measure import builder, execution
from kdyno.measure.execution import Options
from kdyno.measure.vocabulary import vocabulary
from kdyno.store.manifest import Manifest
from kdyno.store.reading import parse
from kdyno.store.run import open_run
from kdyno.store.verdict import CaseValue, Effect, Verdict
from kdyno.suites.catalogue import load
from kdyno.verbs import output as streams


@pytest.fixture
def executed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[tuple[Any, Options]]:
    """Stands in for building and booting; its verdict is FASTER and SLOWER."""
    return fake_execution(monkeypatch, tmp_path, verdict(FASTER, SLOWER))


def fake_execution(
    monkeypatch: pytest.MonkeyPatch, folder: Path, judged: Verdict
) -> list[tuple[Any, Options]]:
    calls: list[tuple[Any, Options]] = []

    def execute(experiment: Any, suites: Any, options: Options) -> Any:
        calls.append((experiment, options))
        path = stored(options.runs, judged)
        options.listener.started(path)
        return open_run(path), judged

    monkeypatch.setattr(execution, "execute", execute)
    return calls


@pytest.fixture
def unreached(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing may be fetched, built or booted in this test."""

    def execute(*_: Any, **__: Any) -> Any:
        raise AssertionError("got as far as executing")

    for room, name in ((execution, "execute"), (execution, "resume"), (builder, "check")):
        monkeypatch.setattr(room, name, execute)


def test_options_reach_the_experiment(
    kdyno: Kdyno, executed: list[tuple[Any, Options]], tmp_path: Path
) -> None:
    output = kdyno(
        *("run", experiment_file(tmp_path), "--precision", "2%", "--max-boots", 9, "--seed", 7),
        *("--case", "sys*", "--variant", "mine", "--seconds", 0.25, "-j", 3, "--no-wait"),
        *("--runs", tmp_path / "r"),
    )
    assert output.status == 0
    [(experiment, options)] = executed
    assert experiment.measure.precision == 0.02
    assert (experiment.measure.max_boots, experiment.measure.seed) == (9, 7)
    assert [(use.cases, use.seconds) for use in experiment.suites] == [(("syscall",), 0.25)]
    assert (options.jobs, options.wait) == (3, False)
    assert options.runs == tmp_path / "r"
    file = tmp_path / "tiny.toml"
    assert kdyno("run", file, "--calibrate", "--variant", "stock", "--quick").status == 0
    experiment, options = executed[1]
    assert [variant.name for variant in experiment.variants] == ["stock"]
    assert experiment.measure.calibrate and experiment.measure.max_boots == 12
    overrides = {"quick": True, "calibrate": True, "variants": ("stock",)}
    assert options.overrides.to_json() == overrides


def test_what_is_said_after_a_run(
    kdyno: Kdyno, executed: list[tuple[Any, Options]], tmp_path: Path
) -> None:
    output = kdyno("run", experiment_file(tmp_path))
    assert output.out.startswith("tiny: Is mine faster?\n") and "−5.00 %" in output.out
    [run] = (tmp_path / "runs").glob("2*")
    assert f"run folder: {run}\n" in output.err
    assert f"kdyno report {run.name} -f markdown" in output.err
    output = kdyno("run", tmp_path / "tiny.toml", "--json", "-")
    assert json.loads(output.out)["schema"] == 1 and "run folder" in output.err


@pytest.mark.parametrize(
    ("again", "status", "runs"),
    [((FASTER, SLOWER), 10, 2), ((FASTER, UNDECIDED), 0, 2), (None, 0, 1)],
)
def test_what_is_slower_is_measured_once_more(
    kdyno: Kdyno,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    again: tuple[Effect, ...] | None,
    status: int,
    runs: int,
) -> None:
    calls: list[Options] = []

    def execute(_experiment: Any, _suites: Any, options: Options) -> Any:
        effects = again if calls and again else (FASTER, SLOWER) if again else (FASTER,)
        calls.append(options)
        judged = verdict(*effects)
        path = stored(options.runs, judged, created=f"2026-01-0{len(calls)}T00:00:00")
        manifest = json.loads((path / "manifest.json").read_text())
        manifest["overrides"] = options.overrides.to_json()
        (path / "manifest.json").write_text(json.dumps(manifest))
        options.listener.started(path)
        return open_run(path), judged

    monkeypatch.setattr(execution, "execute", execute)
    done = kdyno("run", experiment_file(tmp_path), "--fail-on", "slower", "--confirm")
    assert (done.status, len(calls)) == (status, runs)
    assert ("measured once more" in done.err) == (runs == 2)
    if runs == 2:
        (first,) = [
            path for path in calls[0].runs.iterdir() if path.name == calls[1].overrides.confirms
        ]
        assert kdyno("report", "last", "--fail-on", "slower").status == status
        shutil.rmtree(first)
        alone = kdyno("report", "last", "--fail-on", "slower")
        assert alone.status == 2 and "put that run beside it" in alone.err


@pytest.mark.usefixtures("unreached")
@pytest.mark.parametrize("verb", ["run", "build", "check"])
def test_every_mistake_of_a_file_is_told_at_once(kdyno: Kdyno, tmp_path: Path, verb: str) -> None:
    text = EXPERIMENT.replace('"stock"', '"stok"').replace("cflags", "cflag").replace('"pipe"', "1")
    file = experiment_file(tmp_path, text)
    output = kdyno(verb, file)
    assert output.status == 2 and output.out == ""
    first, *rest = output.err.splitlines()
    assert first == f"kdyno: {file}: {len(rest)} mistakes" and len(rest) >= 3
    assert all(line.startswith(f"  {file}:") for line in rest)
    assert 'Did you mean "stock"?' in output.err and 'Did you mean "cflags"?' in output.err


def test_an_unwritten_result_leaves_no_empty_file(
    kdyno: Kdyno, executed: list[tuple[Any, Options]], tmp_path: Path
) -> None:
    file = experiment_file(tmp_path, "name = 1")
    assert kdyno("run", file, "--json", tmp_path / "v.json").status == 2
    assert not (tmp_path / "v.json").exists()


def test_without_a_sandbox_the_way_out_is_said(
    kdyno: Kdyno, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sandbox, "unusable", lambda: "bwrap is not installed")
    output = kdyno("run", experiment_file(tmp_path))
    assert output.status == 1 and "--no-sandbox" in output.err


@pytest.mark.usefixtures("unreached")
def test_a_finished_run_is_not_resumed(kdyno: Kdyno, tmp_path: Path) -> None:
    name = stored(tmp_path / "runs", verdict(FASTER)).name
    output = kdyno("run", "--resume", "last")
    message = f"{name} is finished (precision reached); `kdyno report {name}` shows it"
    assert (output.status, output.err) == (2, f"kdyno: {message}\n")


@pytest.mark.parametrize("damage", ["", "{"])
def test_a_run_without_its_verdict_is_judged_again(
    kdyno: Kdyno, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, damage: str
) -> None:
    path = stored(tmp_path / "runs", None, "finished")
    if damage:
        (path / "verdict.json").write_text(damage)
    resumed = []

    def resume(path: Path, experiment: Any, *_: Any) -> Any:
        resumed.append((path, experiment.name))
        return open_run(path), verdict(FASTER)

    monkeypatch.setattr(execution, "resume", resume)
    assert kdyno("run", "--resume", "last", "--yes").status == 0
    assert resumed == [(path, "tiny")]
    # Whoever has agreed once is not asked again.
    assert kdyno("run", "--resume", "last").status == 0


GATE = ("--fail-on", "slower", "--fail-on", "inconclusive")
DEAD = SLOWER.model_copy(
    update={"verdict": "failed", "ratio": None, "ci": None, "value": None, "reason": "it crashed"}
)


@pytest.mark.parametrize(
    ("judged", "status"),
    [
        (verdict(FASTER), 0),
        (verdict(FASTER, SLOWER), 10),
        (verdict(FASTER, UNDECIDED), 11),
        (verdict(FASTER, DEAD), 1),
        (verdict(UNDECIDED, failed={"mine": "did not build"}), 1),
    ],
)
def test_run_and_report_end_with_the_gates_status(
    kdyno: Kdyno, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, judged: Verdict, status: int
) -> None:
    fake_execution(monkeypatch, tmp_path, judged)
    assert kdyno("run", experiment_file(tmp_path), *GATE).status == status
    assert kdyno("report", "last", *GATE).status == status
    assert kdyno("report", "last").status == 0, "without a rule there is nothing to fail"
    output = kdyno("report", "last", *GATE, "-o", tmp_path / "x.md")
    assert output.status == status and (tmp_path / "x.md").is_file()


@pytest.mark.parametrize(
    ("problem", "status", "end"),
    [
        (ToolError("/x: no space left; free some"), 1, "kdyno: /x: no space left; free some\n"),
        (OSError(28, "No space left on device"), 1, "kdyno: No space left on device\n"),
        (Interrupted("terminated"), 130, "kdyno: interrupted\n"),
        (KeyboardInterrupt(), 130, "kdyno: interrupted\n"),
    ],
)
def test_no_error_looks_like_a_regression(
    kdyno: Kdyno,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    problem: BaseException,
    status: int,
    end: str,
) -> None:
    def execute(*_: object, **__: object) -> None:
        raise problem

    monkeypatch.setattr(execution, "execute", execute)
    output = kdyno("run", experiment_file(tmp_path), *GATE)
    assert output.status == status and output.err.endswith(end) and "--resume" not in output.err


def test_a_run_of_one_kernel_passes_no_gate(kdyno: Kdyno, tmp_path: Path) -> None:
    value = CaseValue(suite="s", case="c", unit="s", better="lower", value=1.0, repetitions=3)
    stored(tmp_path / "runs", verdict(values=(value,)))
    output = kdyno("report", "last", "--fail-on", "slower")
    assert output.status == 2 and "compares nothing" in output.err
    text = (
        'name = "host"\n[machine]\nkind = "host"\n[[suite]]\nname = "unixbench"\ncases = ["pipe"]\n'
    )
    output = kdyno("run", experiment_file(tmp_path, text), "--fail-on", "slower")
    assert output.status == 2 and "compares nothing" in output.err, output.err


@pytest.mark.slow
def test_a_reader_that_leaves_does_not_hide_a_regression(tmp_path: Path) -> None:
    many = [effect(f"case-{number:04}", "slower", 0.9) for number in range(3000)]
    stored(tmp_path / "runs", verdict(*many))
    words = [sys.executable, "-m", "kdyno", "report", "last", "--fail-on", "slower"]
    # The verdict's JSON is larger than a pipe holds: the writer finds nobody at its end.
    with subprocess.Popen(
        [*words, "--json", "-"],
        env={**os.environ, "KDYNO_RUNS": str(tmp_path / "runs")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as child:
        assert child.stdout is not None and child.stderr is not None
        child.stdout.read(10)
        child.stdout.close()
        assert (child.wait(timeout=60), child.stderr.read()) == (10, b"")


def test_a_reader_that_leaves_does_not_keep_a_run_from_the_store(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lost: list[int] = []
    monkeypatch.setattr(streams, "lose_output", lambda: lost.append(1))
    with streams.kept_status():
        raise BrokenPipeError
    assert lost == [1]


def test_any_seed_of_a_file_can_be_kept(tmp_path: Path) -> None:
    text = EXPERIMENT + f"[measure]\nseed = {(1 << 63) - 1}\n"
    experiment = loader.load(experiment_file(tmp_path, text), vocabulary(load()))
    more: dict[str, Any] = {"images": {}, "failed": {}, "cases": ()}
    manifest = execution.manifest_of(experiment, Overrides(), **more)
    data = manifest.model_dump_json(by_alias=True).encode()
    assert parse(Manifest, data, tmp_path).seed == (1 << 63) - 1


def test_an_interruption_is_stored_as_a_sentence() -> None:
    assert interruption(KeyboardInterrupt()) == "interrupted by Ctrl-C"
    assert interruption(Interrupted("terminated")) == "interrupted: terminated"
    assert interruption(MemoryError()) == "interrupted: MemoryError"


PROGRAM = """
import signal, sys
from pathlib import Path
from kdyno.cli.main import main
from kdyno.measure import execution
def execute(experiment, suites, options):
    options.listener.started(options.runs / "2026-01-01T0000-tiny-abcd")
    signal.pause()
execution.execute = execute
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.exit(main())
"""


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_run_with_130_and_the_way_on(
    number: signal.Signals, tmp_path: Path
) -> None:
    command = [sys.executable, "-c", PROGRAM, "run", str(experiment_file(tmp_path))]
    with subprocess.Popen(
        [*command, "--runs", str(tmp_path)], stdout=-1, stderr=-1, text=True
    ) as child:
        assert child.stderr is not None and child.stdout is not None
        assert child.stderr.readline() == f"run: {tmp_path}/2026-01-01T0000-tiny-abcd\n"
        child.send_signal(number)
        message = child.stderr.read()
        assert child.wait(timeout=30) == 130 and child.stdout.read() == ""
    again = f"kdyno run --resume 2026-01-01T0000-tiny-abcd --runs {tmp_path}"
    assert message.splitlines()[-2:] == [f"`{again}` goes on with this run", "kdyno: interrupted"]
