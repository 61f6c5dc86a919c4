# SPDX-License-Identifier: MIT
"""A machine without a sandbox: no verb runs a stranger's code before it has refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import EXPERIMENT, Kdyno, kdyno
from fake_tree import make_repository, make_tree

from kdyno import sandbox
from kdyno.errors import ToolError
from kdyno.kernels.compiler import identify
from kdyno.sandbox import confined
from kdyno.store.counts import FOLDER, CaseCounts, Counted, to_json
from kdyno.store.manifest import CaseInfo, Manifest
from kdyno.store.run import Run, create_run, file_name

__all__ = ["kdyno"]


@pytest.fixture
def hostile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An experiment whose source, compiler and routine each leave a mark when they run."""
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\necho ran > {tmp_path}/mark\necho gcc 12\n")
    program.chmod(0o755)
    tree = make_tree(tmp_path / "linux")
    make_repository(tree)
    (tree / ".git" / "config").write_text(f"[core]\n\tfsmonitor = {program}\n")
    file = tmp_path / "x.toml"
    text = EXPERIMENT.replace("debian:linux-source-7.3", f"path:{tree}")
    file.write_text(text.replace('cflags = "-O3"', f'compiler = "{program}"'))
    routine = tmp_path / "mine.S"
    routine.write_text("/*\n * help: x\n * requires: sse2\n * source: x\n * arch: um\n */\n"
                       "ROUTINE_START(mine)\nret\n")  # fmt: skip
    programs = tmp_path / "programs"
    programs.mkdir()
    for folder in ("/usr/sbin", "/usr/bin"):
        for each in Path(folder).iterdir():
            if each.name != "bwrap" and not (programs / each.name).is_symlink():
                (programs / each.name).symlink_to(each)
    monkeypatch.setenv("PATH", str(programs))
    sandbox.unusable.cache_clear()
    identify.cache_clear()
    yield file
    sandbox.unusable.cache_clear()
    identify.cache_clear()


@pytest.mark.parametrize(
    "words",
    [
        ("build", "FILE"),
        ("run", "FILE"),
        ("run", "FILE", "--calibrate"),
        ("profile", "FILE"),
        ("try", "-k", "compiler=PROGRAM", "--", "true"),
        ("lab", "vectorize", "FILE"),
        ("lab", "vectorize", "FOLDER"),
        ("lab", "memcpy", "check", "ROUTINE"),
        ("lab", "memcpy", "bench", "ROUTINE", "--quick"),
        ("lab", "memcpy", "tune"),
        ("lab", "memcpy", "histogram", "FILE"),
        ("run", "MATRIX"),
        ("run", "MATRIX", "--ref", "HEAD"),
        ("run", "--resume", "RUN", "--yes"),
        ("profile", "--yes", "RUN"),
        ("profile", "--yes", "RUN", "--annotate", "main"),
    ],
)
@pytest.mark.slow
def test_a_verb_refuses_first(
    kdyno: Kdyno, hostile: Path, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(hostile.parent)
    matrix = hostile.with_name("matrix.toml")
    text = hostile.read_text().replace(
        f"path:{hostile.parent}/linux", f"git:{hostile.parent}/linux#{{ref}}"
    )
    matrix.write_text(text + '\n[matrix]\nrefs = "HEAD~1..HEAD"\n')
    places = {
        "FILE": hostile,
        "MATRIX": matrix,
        "RUN": sent(hostile).name,
        "compiler=PROGRAM": f"compiler={hostile.parent}/program",
        "FOLDER": hostile.parent,
        "ROUTINE": hostile.parent / "mine.S",
    }
    output = kdyno(*(places.get(word, word) for word in words))
    assert not (hostile.parent / "mark").exists(), output
    assert "no sandbox: bubblewrap (the program bwrap) is not installed" in output.err
    assert output.status == 1


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (("list",), 0),
        (("list", "runs"), 0),
        (("list", "cases"), 0),
        (("doctor",), 1),
        (("report", "RUN"), 2),  # it has no boot
        (("judge", "RUN"), 2),
        (("report", "--all", "-o", "SITE"), 0),
        (("push", "RUN"), 0),
        (("compare", "RUN", "OTHER", "--join"), 2),
    ],
    ids=str,
)
@pytest.mark.slow
def test_what_only_reads_runs_nothing(
    kdyno: Kdyno,
    hostile: Path,
    words: tuple[str, ...],
    status: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(hostile.parent)
    folder = hostile.parent
    if "push" in words:
        monkeypatch.setenv("KDYNO_STORE", f"sqlite:///{folder}/store.db")
    places = {"RUN": sent(hostile).name, "OTHER": sent(hostile).name, "SITE": folder / "site"}
    output = kdyno(*(places.get(word, word) for word in words))
    assert not (folder / "mark").exists(), output
    assert "Traceback" not in output.err and output.status == status, output


@pytest.mark.slow
def test_the_word_is_heard_and_holds_for_one_process(kdyno: Kdyno, hostile: Path) -> None:
    kdyno("build", hostile, "--no-sandbox")
    assert (hostile.parent / "mark").exists()


@pytest.mark.slow
def test_a_tool_is_run_by_the_persons_word_alone(hostile: Path) -> None:
    with pytest.raises(ToolError, match="no sandbox: bubblewrap"):
        confined(["true"])
    with pytest.raises(ToolError, match="no sandbox: bubblewrap"):
        sandbox.require()
    sandbox.waive()
    assert confined(["true"]) == ["true"] and not sandbox.require()


def sent(file: Path) -> Run:
    """A run of that experiment with counts of both kernels, as somebody would send it."""
    manifest = Manifest(
        tool="0.1.0", created="2026-01-01T00:00:00", experiment="tiny", baseline="stock", seed=1,
        cases=(CaseInfo(suite="unixbench", case="pipe", unit="loops/s", better="higher"),),
        state="interrupted", stopped="interrupted: terminated", origin=str(file),
    )  # fmt: skip
    with create_run(file.parent / "runs", file.read_text(), manifest) as writer:
        functions = {("kernel", "main"): 2.0}
        cases = tuple(
            CaseCounts("unixbench", "pipe", name, 10, functions, {}, {4096: 20})
            for name in ("stock", "mine")
        )
        for case in cases:
            counted = Counted(case.variant, "", "tcg", (case,))
            writer.save_file(file_name(case.variant), to_json(counted), FOLDER)
        return writer.run
