# SPDX-License-Identifier: MIT
"""`kdyno run`, `build`, `check`, `report` and `list runs` without kernels: what is refused, and the
exit status. A tool's error is not a regression, and a regression no tool's error."""

from __future__ import annotations

import errno
import json
import os
import pty
import shutil
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
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
from site_runs import small
from synthetic_run import record
from toy_kernel import make_source

from kdyno import sandbox
from kdyno.errors import Interrupted, ToolError, interruption
from kdyno.experiment import loader
from kdyno.experiment.loader import Overrides
from kdyno.kernels.changes import Changes
from kdyno.kernels.config import arch, options
from kdyno.measure import builder, execution
from kdyno.measure.execution import Options
from kdyno.measure.vocabulary import vocabulary
from kdyno.store.index import resolve
from kdyno.store.manifest import Manifest
from kdyno.store.reading import parse
from kdyno.store.run import open_run, write_run
from kdyno.store.verdict import CaseValue, Verdict
from kdyno.suites.catalogue import load
from kdyno.verbs import output as streams


@pytest.fixture
def executed(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, Options]]:
    """Stands in for building and booting; its verdict is FASTER and SLOWER."""
    return fake_execution(monkeypatch, verdict(FASTER, SLOWER))


def fake_execution(
    monkeypatch: pytest.MonkeyPatch, *verdicts: Verdict
) -> list[tuple[Any, Options]]:
    """Its calls; each has the next of these verdicts, and the first again after the last."""
    calls: list[tuple[Any, Options]] = []

    def execute(experiment: Any, suites: Any, options: Options) -> Any:
        judged = verdicts[len(calls) % len(verdicts)]
        calls.append((experiment, options))
        created = f"2026-01-0{len(calls)}T00:00:00"
        overrides = options.overrides.to_json()
        path = stored(options.runs, judged, created=created, overrides=overrides)
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
    assert options.overrides.to_json() == {"quick": True, "calibrate": True, "variants": ["stock"]}


@pytest.mark.usefixtures("executed")
def test_what_is_said_after_a_run(kdyno: Kdyno, tmp_path: Path) -> None:
    output = kdyno("run", experiment_file(tmp_path))
    assert output.out.startswith("tiny: Is mine faster?\n") and "−5.00 %" in output.out
    [run] = (tmp_path / "runs").glob("2*")
    assert f"run folder: {run}\n" in output.err
    assert f"kdyno report {run.name} -f markdown" in output.err
    output = kdyno("run", tmp_path / "tiny.toml", "--json", "-")
    assert json.loads(output.out)["schema"] == 1 and "run folder" in output.err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("verdicts", "status"),
    [
        ([verdict(FASTER, SLOWER), verdict(FASTER, SLOWER)], 10),
        ([verdict(FASTER, SLOWER), verdict(FASTER, UNDECIDED)], 0),
        ([verdict(FASTER, SLOWER), verdict(effect("pipe", "slower", 0.95), UNDECIDED)], 0),
        ([verdict(FASTER)], 0),
    ],
)
def test_what_is_slower_is_measured_once_more(
    kdyno: Kdyno,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    verdicts: list[Verdict],
    status: int,
) -> None:
    calls = fake_execution(monkeypatch, *verdicts)
    done = kdyno("run", experiment_file(tmp_path), "--fail-on", "slower", "--confirm")
    assert (done.status, len(calls)) == (status, len(verdicts))
    assert ("measured once more" in done.err) == (len(calls) == 2)
    if len(calls) == 2:
        assert kdyno("report", "last", "--fail-on", "slower").status == status
        last = open_run(resolve("last", calls[0][1].runs))
        monkeypatch.setattr(execution, "resume", lambda *_args: (last, verdicts[1]))
        with write_run(last.path) as writer:
            changed = {"state": "interrupted", "stopped": "x"}
            writer.save_manifest(last.manifest().model_copy(update=changed))
        again = kdyno("run", "--yes", "--resume", "last", "--fail-on", "slower")
        assert again.status == status
        shutil.rmtree(calls[0][1].runs / calls[1][1].overrides.confirms)
        alone = kdyno("report", "last", "--fail-on", "slower")
        assert alone.status == 2 and "put that run beside it" in alone.err


@pytest.mark.slow
def test_what_one_run_alone_calls_slower_is_no_failure_in_junit(
    kdyno: Kdyno, tmp_path: Path
) -> None:
    first = small(tmp_path / "runs", 0, 1.0, 1.0)
    small(tmp_path / "runs", 9, 1.0, 0.95, overrides={"confirms": first.name, "seed": 2})
    for gate in ((), ("--fail-on", "slower")):  # a CI job asks without one
        done = kdyno("report", "last", "-f", "junit", *gate)
        assert done.status == 0 and "<skipped" in done.out and "<failure" not in done.out
    shutil.rmtree(first.path)
    assert "<failure" in kdyno("report", "last", "-f", "junit").out


@pytest.mark.slow
def test_what_no_level_is_left_for_is_no_failure_in_junit(kdyno: Kdyno, tmp_path: Path) -> None:
    small(tmp_path / "runs", 0, 1.0, 0.95)
    line = '{"run": "run-%d", "level": 0.01, "slower": false}\n'
    (tmp_path / "history").write_text("".join(line % number for number in range(9000)))
    gate = ("report", "last", "-f", "junit", "--fail-on", "slower")
    assert (alone := kdyno(*gate)).status == 10 and "<failure" in alone.out
    done = kdyno(*gate, "--history", tmp_path / "history")
    assert done.status == 0 and "<skipped" in done.out and "<failure" not in done.out


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


@pytest.mark.usefixtures("unreached")
def test_an_unwritten_result_leaves_no_empty_file(kdyno: Kdyno, tmp_path: Path) -> None:
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


@pytest.mark.usefixtures("unreached")
def test_a_run_whose_options_are_none_is_not_resumed(kdyno: Kdyno, tmp_path: Path) -> None:
    run = record(tmp_path / "runs", text=EXPERIMENT, state="interrupted", overrides={"seed": "x"})
    output = kdyno("run", "--resume", "last", "--yes")
    assert output.status == 2
    assert output.err.startswith(f'kdyno: {run.path}/manifest.json: overrides: seed: "x" ')


@pytest.mark.slow
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
    fake_execution(monkeypatch, judged)
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
    output = kdyno("run", experiment_file(tmp_path, ON_HOST), "--fail-on", "slower")
    assert output.status == 2 and "compares nothing" in output.err, output.err


@pytest.mark.slow
def test_a_reader_that_leaves_does_not_hide_a_regression(tmp_path: Path) -> None:
    many = [effect(f"case-{number:04}", "slower", 0.9) for number in range(3000)]
    stored(tmp_path / "runs", verdict(*many))
    words = ["report", "last", "--fail-on", "slower", "--json", "-"]
    command = [sys.executable, "-m", "kdyno", *words]
    environment = {**os.environ, "KDYNO_RUNS": str(tmp_path / "runs")}
    # The verdict's JSON is larger than a pipe holds: the writer finds nobody at its end.
    with subprocess.Popen(command, env=environment, stdout=-1, stderr=-1) as child:
        assert child.stdout is not None and child.stderr is not None
        child.stdout.read(10)
        child.stdout.close()
        assert (child.wait(timeout=60), child.stderr.read()) == (10, b"")


@pytest.mark.parametrize("gone", [BrokenPipeError(), OSError(errno.EIO, "a terminal")])
def test_a_reader_that_leaves_does_not_keep_a_run_from_the_store(
    monkeypatch: pytest.MonkeyPatch, gone: OSError
) -> None:
    lost: list[int] = []
    monkeypatch.setattr(streams, "lose_output", lambda: lost.append(1))
    with streams.kept_status():
        raise gone
    assert lost == [1]
    with pytest.raises(OSError, match="full"), streams.kept_status():
        raise OSError(errno.ENOSPC, "full")


def test_any_seed_of_a_file_can_be_kept(tmp_path: Path) -> None:
    text = EXPERIMENT + f"[measure]\nseed = {(1 << 63) - 1}\n"
    experiment = loader.load(experiment_file(tmp_path, text), vocabulary(load()))
    manifest = execution.manifest_of(experiment, Overrides(), images={}, failed={}, cases=())
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
    command += ["--runs", str(tmp_path)]
    with subprocess.Popen(command, stdout=-1, stderr=-1, text=True) as child, ExitStack() as end:
        end.callback(child.kill)
        assert child.stderr is not None and child.stdout is not None
        assert child.stderr.readline() == f"run: {tmp_path}/2026-01-01T0000-tiny-abcd\n"
        child.send_signal(number)
        message = child.stderr.read()
        assert child.wait() == 130 and child.stdout.read() == ""
    again = f"kdyno run --resume 2026-01-01T0000-tiny-abcd --runs {tmp_path}"
    assert message.splitlines()[-2:] == [f"`{again}` goes on with this run", "kdyno: interrupted"]


# kdyno check of what is right: the cost, what is cached, what would be fetched, notes.


SUITE = '[[suite]]\nname = "unixbench"\ncases = ["pipe"]\nseconds = 0.5\n'
TOY = (
    'name = "x"\nbaseline = "stock"\n[kernel]\nsource = "path:toy"\n[variant.stock]\n'
    "[variant.mine]\n{}\n[measure]\nmax_boots = 30\n" + SUITE
)
ON_HOST = f'name = "h"\n[machine]\nkind = "host"\n{SUITE}'


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, guest_build: Path) -> Path:
    monkeypatch.chdir(tmp_path)
    make_source(tmp_path / "toy")
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "guest").symlink_to(guest_build.parent)
    return tmp_path


@pytest.mark.slow
@pytest.mark.needs("gcc")
def test_what_a_run_will_cost_and_what_is_cached(kdyno: Kdyno, folder: Path) -> None:
    (folder / "x.toml").write_text(TOY.format('config = ["CONFIG_HZ=250"]'), encoding="utf-8")
    first = json.loads(kdyno("check", "x.toml", "--json", "-").out)
    assert first["ok"] and first["mistakes"] == first["notes"] == [] and first["fetch"] == []
    assert (first["kernels"], first["cached"], first["builds"]) == (2, 0, 0)
    # Nothing was built here: a guess, the second kernel from the first one's objects.
    assert first["build_s"] == pytest.approx(240 + 240 / 20 + 240 * 20 / 900)
    assert first["disk_bytes"] > 700e6
    assert first["measure_minutes"] == pytest.approx(2 * 30 * (0.3 + 1.4 * 0.5) / 60)
    assert set(first["variants"]) == {"stock", "mine"} and not (folder / "cache/images").exists()
    assert kdyno("build", "x.toml", "--variant", "stock").status == 0
    result = kdyno("check", "x.toml")
    assert result.status == 0
    assert "x: no mistake found\nkernels    2, 1 in the cache, 1 to build: about " in result.out
    assert " (by 1 of before)\nmeasuring  at most about 1 min " in result.out
    dry = kdyno("run", "x.toml", "--dry-run")
    assert (dry.status, dry.out.partition("disk")[0]) == (0, result.out.partition("disk")[0])
    assert not (folder / "runs").exists()


@pytest.mark.slow
@pytest.mark.needs("gcc")
def test_what_is_no_mistake_is_a_note(
    kdyno: Kdyno, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "x.toml").write_text(TOY.format('config = ["CONFIG_HZ=100"]'), encoding="utf-8")
    monkeypatch.setattr(
        "kdyno.measure.execution.shutil.disk_usage",
        lambda _folder: SimpleNamespace(free=800_000_000),
    )
    result = kdyno("check", "x.toml", "--json", "facts.json")
    assert result.status == 0
    assert "note       mine is the same kernel as stock: its options change nothing\n" in result.out
    notes = json.loads((folder / "facts.json").read_text())["notes"]
    assert [f"note       {note}\n" in result.out for note in notes] == [True, True]
    assert notes[-1].startswith("the disk is too small: ")


@pytest.mark.slow
@pytest.mark.needs("gcc")
def test_cpus_that_a_kernel_cannot_have_are_told(kdyno: Kdyno, folder: Path) -> None:
    text = TOY.format("cpus = 4") + "[machine]\ncpus = 2\n"
    (folder / "x.toml").write_text(text, encoding="utf-8")
    result = kdyno("check", "x.toml")
    assert result.status == 2 and "variant.mine.cpus: 4 CPUs: its kernel is for 1 (" in result.err
    (folder / "x.toml").write_text(text.replace("cpus = 4", "cpus = 1"), encoding="utf-8")
    result = kdyno("check", "x.toml")
    assert result.status == 0
    assert (
        "note       stock does not have the machine's 2 CPUs: its kernel is for 1 (" in result.out
    )


@pytest.mark.slow
def test_nothing_is_fetched_unless_requested(
    kdyno: Kdyno, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def network(*_: object, **__: object) -> None:
        raise AssertionError("fetched")

    monkeypatch.setattr(builder, "fetch", network)
    (folder / "x.toml").write_text(EXPERIMENT, encoding="utf-8")
    result = kdyno("check", "x.toml")
    assert result.status == 0
    assert "to fetch   debian:linux-source-7.3: about 0.2 GB, 2 GB unpacked\n" in result.out
    assert "(--fetch): patches, options, sysctls of debian:linux-source-7.3\n" in result.out
    with pytest.raises(AssertionError, match="fetched"):
        kdyno("check", "x.toml", "--fetch")


def test_mistakes_as_json_one_by_one(kdyno: Kdyno, folder: Path) -> None:
    (folder / "x.toml").write_text('name = 5\n[measure]\nseed = "x"\n', encoding="utf-8")
    result = kdyno("check", "x.toml", "--json", "-")
    value = json.loads(result.out)
    assert result.status == 2 and not value["ok"]
    assert [line.partition(": ")[0] for line in value["mistakes"]][-2:] == ["x.toml:1", "x.toml:3"]


@pytest.mark.slow
def test_what_runs_on_the_host_builds_nothing_and_needs_its_program(
    kdyno: Kdyno, folder: Path
) -> None:
    (folder / "h.toml").write_text(ON_HOST, encoding="utf-8")
    result = kdyno("build", "h.toml", "--dry-run", "--json", "-")
    assert result.status == 0 and json.loads(result.out) == {"images": {}, "failed": {}}
    assert "nothing to build: the machine 'host' runs the kernel as it is" in result.err
    result = kdyno("check", "h.toml")
    assert result.status == 0 and "kernels" not in result.out
    text = ON_HOST.replace(SUITE, '[[suite]]\nname = "run"\ncommand = "nosuchprogram x"\n')
    (folder / "h.toml").write_text(text, encoding="utf-8")
    result = kdyno("check", "h.toml")
    assert result.status == 2
    assert "h.toml:6: suite[1].command: no program 'nosuchprogram' in /usr" in result.err


def test_options_are_those_of_the_architecture(tmp_path: Path) -> None:
    (tmp_path / "arch/um").mkdir(parents=True)
    (tmp_path / "arch/x86/um").mkdir(parents=True)
    (tmp_path / "Kconfig").write_text('source "arch/$(SRCARCH)/Kconfig"\n')
    (tmp_path / "arch/um/Kconfig").write_text(
        'menu "Of UML"\n\tdepends on UML\nconfig A\n\tint "A"\n\trange 1 5\n\thelp\n'
        "\t  A bool of help, and\n\t  config HELP\nendmenu\nif B\nconfig C\n"
        '\ttristate\n\tprompt "C"\ncomment "No C"\n\tdepends on !C\nendif\nconfig D\n\tdef_bool y\n'
        'source "arch/$(HEADER_ARCH)/um/Kconfig"\n'
    )
    # As kernel/Kconfig.hz is written: entries of a choice are indented, and so is a help text that
    # reads like one.
    (tmp_path / "arch/x86/Kconfig").write_text(
        'choice\n\tprompt "Timer"\n\thelp\n\t config NOT_ONE\n\n\tconfig ONLY_X86\n\t\tbool "x"\n'
        "\thelp\n\t  text\n\nendchoice\nconfig ALONE\n\tint\n"
    )
    (tmp_path / "arch/x86/um/Kconfig").write_text('config B\n\tbool "B"\nsource "loop"\n')
    (tmp_path / "loop").symlink_to("loop")
    um = options(tmp_path, Changes(), arch("um"))
    assert {name: (value.kind, value.prompt) for name, value in um.items()} == {
        "CONFIG_A": ("int", True),
        "CONFIG_C": ("tristate", True),
        "CONFIG_D": ("bool", False),
        "CONFIG_B": ("bool", True),
    }
    assert (um["CONFIG_A"].ranges, um["CONFIG_A"].depends) == (["1 5"], ["UML"])
    assert um["CONFIG_C"].depends == ["B"] and um["CONFIG_D"].depends == []
    x86 = options(tmp_path, Changes(), arch("x86_64"))
    choices = {"CONFIG_ONLY_X86": "arch/x86/Kconfig:1", "CONFIG_ALONE": ""}
    assert {name: option.choice for name, option in x86.items()} == choices


# kdyno report and list runs, on runs of every state.


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    return tmp_path / "runs"


def test_last_is_the_newest_and_a_run_goes_by_part_of_its_name(kdyno: Kdyno, runs: Path) -> None:
    old = stored(runs, verdict(SLOWER, experiment="old"), created="2026-01-01T00:00:00")
    stored(runs, verdict(FASTER, experiment="new"), created="2026-01-02T00:00:00")
    assert kdyno("report", "last").out.startswith("new: Is mine faster?\n")
    assert kdyno("report", old.name[-4:]).out.startswith("old: ")
    assert kdyno("report", old).out.startswith("old: ")
    listed = kdyno("list", "runs").out.splitlines()
    assert len(listed) == 2 and listed[0].split()[:2] == [old.name, "finished"]


def test_where_a_report_goes(kdyno: Kdyno, runs: Path, tmp_path: Path) -> None:
    judged = verdict(FASTER, SLOWER)
    stored(runs, judged)
    output = kdyno("report", "last", "--json", "-")
    assert (output.status, output.err) == (0, "") and Verdict.from_json(output.out) == judged
    output = kdyno("report", "last", "--json", tmp_path / "v.json")
    assert "faster" in output.out
    assert json.loads((tmp_path / "v.json").read_text())["schema"] == 1
    output = kdyno("report", "last", "-o", tmp_path / "x.md")
    assert (output.status, output.out, output.err) == (0, "", f"written: {tmp_path / 'x.md'}\n")
    assert (tmp_path / "x.md").read_text().startswith("## tiny")


def test_no_run_and_one_that_is_ambiguous(kdyno: Kdyno, runs: Path) -> None:
    output = kdyno("report", "last")
    message = f"kdyno: last: there is no run in {runs}; `kdyno run EXPERIMENT` makes one\n"
    assert (output.status, output.err) == (2, message)
    assert kdyno("list", "runs").out == "  none\n"
    names = [stored(runs, verdict(FASTER)).name for _ in range(2)]
    output = kdyno("report", "tiny")
    assert output.status == 2 and "2 runs match" in output.err
    assert all(name in output.err for name in names)


def test_an_interrupted_run_names_the_way_on(kdyno: Kdyno, runs: Path, tmp_path: Path) -> None:
    name = stored(runs, None, "interrupted").name
    output = kdyno("report", "last")
    assert output.status == 2 and f"`kdyno run --resume {name}` goes on with it" in output.err
    elsewhere = tmp_path / "else where"
    name = stored(elsewhere, None, "interrupted").name
    output = kdyno("report", "last", "--runs", elsewhere)
    assert f"`kdyno run --resume {name} --runs '{elsewhere}'` goes on" in output.err
    assert "interrupted" in kdyno("list", "runs", "--runs", elsewhere).out
    name = stored(runs, None, created="2026-01-02T00:00:00").name
    message = f"kdyno: {name} has no verdict: it was lost. `kdyno judge {name}` makes it again\n"
    assert kdyno("report", "last").err == message


def test_a_run_that_is_being_measured(kdyno: Kdyno, runs: Path) -> None:
    path = stored(runs, None, "running")
    with write_run(path):
        assert "is still being measured" in kdyno("report", "last").err
        assert kdyno("list", "runs").out.split()[:2] == [path.name, "running"]
    assert kdyno("list", "runs").out.split()[:2] == [path.name, "interrupted"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("verdict.json", b'{"schema": 1', "verdict.json: is not a verdict: "),
        ("verdict.json", b'{"schema": 9, "experiment": "x", "baseline": "s", "boots": {}}',
         "schema 9 is of a later kdyno"),
        ("verdict.json", b'{"schema": 1, "experiment": 7}', "is not a verdict: experiment: "),
        ("manifest.json", None, "is not a run (there is no manifest.json in it)"),
    ],
)  # fmt: skip
def test_a_damaged_run_is_named_with_its_file(
    kdyno: Kdyno, runs: Path, name: str, content: bytes | None, message: str
) -> None:
    path = stored(runs, verdict(FASTER))
    (path / name).unlink()
    if content is not None:
        (path / name).write_bytes(content)
    output = kdyno("report", path, "--fail-on", "slower")  # neither slower nor a tool's error
    assert output.status == 2 and output.out == ""
    assert str(path) in output.err and message in output.err
    assert "Traceback" not in output.err


def test_a_damaged_run_is_listed_among_the_others(kdyno: Kdyno, runs: Path) -> None:
    (stored(runs, verdict(FASTER)) / "manifest.json").write_text("{")
    good = stored(runs, verdict(FASTER)).name
    output = kdyno("list", "runs", "--json", "-")
    states = {row["run"]: row["state"] for row in json.loads(output.out)["runs"]}
    assert states.pop(good) == "finished" and list(states.values()) == ["damaged"]


@pytest.mark.parametrize("option", ["--runs", "KDYNO_RUNS", "XDG_DATA_HOME", "HOME"])
def test_where_runs_are_looked_for(
    kdyno: Kdyno, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: str
) -> None:
    base = tmp_path / "base"
    below = {"XDG_DATA_HOME": "kdyno/runs", "HOME": ".local/share/kdyno/runs"}
    path = stored(base / below.get(option, ""), verdict(FASTER))
    words = ["--runs", base] if option == "--runs" else []
    if option in below:
        monkeypatch.delenv("KDYNO_RUNS")
        monkeypatch.setenv("XDG_DATA_HOME", "relative/is/ignored")
    if option.isupper():
        monkeypatch.setenv(option, str(base))
    assert path.name in kdyno("list", "runs", *words).out


@pytest.mark.slow
def test_no_colour_where_none_is_wanted(
    runs: Path, kdyno: Kdyno, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored(runs, verdict(FASTER))
    monkeypatch.setenv("TERM", "xterm")
    seen = {}
    for no_color in ("", "1"):
        leader, follower = pty.openpty()
        monkeypatch.setenv("NO_COLOR", no_color)
        command = [sys.executable, "-m", "kdyno", "report", "last"]
        subprocess.run(command, stdout=follower, stderr=follower, timeout=30, check=True)
        os.close(follower)
        seen[no_color] = os.read(leader, 1 << 16)
        os.close(leader)
    assert b"\x1b[1;32m" in seen[""] and b"\x1b" not in seen["1"]
    assert "\x1b" not in kdyno("report", "last").out


def test_a_slower_kernel_that_a_history_lets_pass_is_named(kdyno: Kdyno, runs: Path) -> None:
    history = runs.parent / "gate.jsonl"
    path = stored(runs, verdict(SLOWER.model_copy(update={"p_value": 0.01})))
    output = kdyno("report", path, "--fail-on", "slower", "--history", history)
    assert output.status == 0 and f"tests in {history} leave: not stopped" in output.err
