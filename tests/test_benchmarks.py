# SPDX-License-Identifier: MIT
"""That benchmarks run which no release waits for, on small numbers; no test asserts a time."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import needed
import pytest

from benchmarks import invented
from benchmarks.figure import Figure

ROOT = Path(invented.__file__).parent.parent


@pytest.mark.parametrize(
    ("targets", "words"),
    [({"most": 2.0}, "≤ 2 met"), ({"least": 2.0}, "≥ 2 MISSED"), ({}, "")],
    ids=("most", "least", "none"),
)
def test_a_figure_has_one_target_or_none(targets: dict[str, float], words: str) -> None:
    figure = Figure("x", 1.5, "s", **targets)
    assert figure.line().split() == ["x", "1.500", "s", *words.split()]
    assert figure.met is ("MISSED" not in words)


@pytest.mark.slow
def test_invented_runs_are_read_and_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(needed, "path_of", lambda _name: None)
    request = SimpleNamespace(folder=tmp_path, boots=40, cases=3, runs=4)
    names = [figure.name for part in (invented.memory, invented.site) for figure in part(request)]
    assert names == [
        *("memory: judge", "memory: report -f html", "report, written", "a site of 4 runs"),
        *("the same again, nothing new", "the same with one more run", "largest page of it"),
    ]
    assert "no Chromium" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.needs("chromium")
def test_a_page_is_opened(tmp_path: Path) -> None:
    program, page = needed.path_of("chromium"), tmp_path / "x.html"
    page.write_text("<p>x")
    # In a process of its own: the browser tests have theirs open in this one.
    command = [sys.executable, "-c", _OPENED, str(page), str(program)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0 and float(done.stdout) > 0, done.stderr


_OPENED = """
import sys
from pathlib import Path
from benchmarks.invented import opening_s
print(opening_s(Path(sys.argv[1]), sys.argv[2]))
"""

_KILLED = """
import os, signal
from benchmarks.turns import loaded
with loaded(True):
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.slow
def test_a_load_ends_with_who_made_it() -> None:
    # Its processes hold the pipe open: without their end there is none.
    command = [sys.executable, "-c", _KILLED]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, timeout=60)
    assert done.returncode == -signal.SIGKILL
