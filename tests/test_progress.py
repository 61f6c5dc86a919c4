# SPDX-License-Identifier: MIT
from __future__ import annotations

import errno
import io
import math
import sys
import threading
from collections.abc import Callable
from dataclasses import replace

import pytest

from kdyno.experiment import loader
from kdyno.measure.loop import Status
from kdyno.measure.vocabulary import vocabulary
from kdyno.paths import data_root
from kdyno.stats.effect import PairedEffect
from kdyno.suites.catalogue import load
from kdyno.verbs import watching
from kdyno.verbs.watching import Progress, duration, progress_line

LOADED = loader.load(data_root() / "experiments" / "simd-memcpy.toml", vocabulary(load()))
EXPERIMENT = replace(
    LOADED,
    name="simd\x1b[31m",
    measure=replace(LOADED.measure, max_boots=60, max_minutes=20.0, precision=0.0102),
)
PRECISE = PairedEffect(12, 1.0, (math.exp(-math.log1p(0.01015)), 1.01015))
STATUS = Status(
    block=3,
    boots=12,
    variant="mine",
    case="",
    effects={("u", "pipe", "mine"): PRECISE, ("u", "[b]spawn", "mine"): PairedEffect(3)},
    elapsed_s=100.0,
    left_s=300.0,
    failures=("boot 7 (mine): panic:\x1b[2J No init",),
)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_line() -> None:
    assert progress_line(EXPERIMENT, STATUS) == (
        "simd: block 3 of at most 60, 12 boots (1 failed), 1 of 2 effects precise enough, "
        "1 min 40 s, about 5 min 00 s left (at most 20 min 00 s)"
    )


def test_plain_lines_come_now_and_then(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress(EXPERIMENT) as progress:
        for second in range(0, 65, 5):
            progress.update(replace(STATUS, elapsed_s=float(second)))
        progress.note("a note\x07")
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "boot 7 (mine): panic: No init"
    assert [each[:4] for each in lines[1:]] == ["simd", "simd", "simd", "a no"]
    assert "\x1b" not in "".join(lines)


def test_terminal_is_drawn_without_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "90")
    monkeypatch.delenv("NO_COLOR", raising=False)
    before = threading.active_count()
    out = Terminal()
    monkeypatch.setattr(sys, "stderr", out)
    with Progress(EXPERIMENT) as progress:
        progress.update(STATUS)
        assert threading.active_count() == before
        text = out.getvalue()
        many = {("u", f"c{n}", "mine"): PRECISE for n in range(40)}
        progress.update(replace(STATUS, effects=many))
        progress.update(replace(STATUS, variant="", case="pipe"))
        progress.note("stays")
    for part in ("±1.02 %", "[b]spawn", "booting mine", "panic: No init", "precise"):
        assert part in text
    assert "pipe, in turns" in out.getvalue()  # and not booting
    assert "and 28 more" in out.getvalue() and "stays" in out.getvalue()
    assert "\x1b[2J" not in out.getvalue()


class GoneTerminal(Terminal):
    def write(self, _text: str) -> int:
        raise OSError(errno.EIO, "Input/output error")


@pytest.mark.parametrize(
    "draw",
    [
        lambda _progress: None,
        lambda progress: progress.note("a boot"),
        lambda progress: progress.update(STATUS),
    ],
)
def test_a_terminal_that_goes_away_ends_no_run(
    monkeypatch: pytest.MonkeyPatch, draw: Callable[[Progress], None]
) -> None:
    lost: list[int] = []
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(watching, "lose_output", lost.append)
    monkeypatch.setattr(sys, "stderr", Terminal())
    with Progress(EXPERIMENT) as progress:
        progress._console.file = GoneTerminal()
        draw(progress)
    assert lost == [2]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0 s"), (59.6, "1 min 00 s"), (200, "3 min 20 s"), (7500, "2 h 05 min"),
     (float("inf"), "?"), (-3, "0 s")],
)  # fmt: skip
def test_duration(seconds: float, text: str) -> None:
    assert duration(seconds) == text
