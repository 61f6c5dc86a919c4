# SPDX-License-Identifier: MIT
"""`kdyno report` and `kdyno list runs`, on runs of every state."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from command_line import FASTER, SLOWER, Kdyno, stored, verdict

from kdyno.store.run import write_run
from kdyno.store.verdict import Verdict


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


def test_no_run_an_absent_one_and_one_that_is_ambiguous(kdyno: Kdyno, runs: Path) -> None:
    output = kdyno("report", "last")
    message = f"kdyno: last: there is no run in {runs}; `kdyno run EXPERIMENT` makes one\n"
    assert (output.status, output.err) == (2, message)
    assert kdyno("list", "runs").out == "  none\n"
    names = [stored(runs, verdict(FASTER)).name for _ in range(2)]
    output = kdyno("report", "tinny")
    assert (
        output.status == 2
        and "tinny: no such run" in output.err
        and "kdyno list runs" in output.err
    )
    output = kdyno("report", "tiny")
    assert (
        output.status == 2 and "2 runs match" in output.err and all(n in output.err for n in names)
    )


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
    ("name", "content", "status", "message"),
    [
        ("verdict.json", b'{"schema": 1', 2, "verdict.json: is not a verdict: "),
        ("verdict.json", b'{"schema": 9, "experiment": "x", "baseline": "s", "boots": {}}', 2,
         "schema 9 is of a later kdyno"),
        ("verdict.json", b'{"schema": 1, "experiment": 7}', 2, "is not a verdict: experiment: "),
        ("manifest.json", None, 2, "is not a run (there is no manifest.json in it)"),
    ],
)  # fmt: skip
def test_a_damaged_run_is_named_with_its_file(
    kdyno: Kdyno, runs: Path, name: str, content: bytes | None, status: int, message: str
) -> None:
    path = stored(runs, verdict(FASTER))
    (path / name).unlink()
    if content is not None:
        (path / name).write_bytes(content)
    output = kdyno("report", path, "--fail-on", "slower")  # neither slower nor a tool's error
    assert output.status == status and output.out == ""
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
    import pty
    import subprocess
    import sys

    stored(runs, verdict(FASTER))
    seen = {}
    for no_color in ("", "1"):
        leader, follower = pty.openpty()
        monkeypatch.setenv("NO_COLOR", no_color)
        monkeypatch.setenv("TERM", "xterm")
        with subprocess.Popen(
            [sys.executable, "-m", "kdyno", "report", "last"], stdout=follower, stderr=follower
        ) as child:
            child.wait(timeout=30)
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
