# SPDX-License-Identifier: MIT
from __future__ import annotations

import io
import threading
from dataclasses import replace

import pytest

from kdyno.experiment import loader
from kdyno.measure.loop import Status
from kdyno.measure.vocabulary import vocabulary
from kdyno.paths import data_root
from kdyno.report.progress import EffectProgress, Progress, ProgressState, duration, line
from kdyno.suites.catalogue import load
from kdyno.verbs.watching import _state

STATE = ProgressState(
    experiment="simd\x1b[31m",
    blocks_done=3,
    blocks_max=60,
    boots_done=12,
    elapsed_s=100.0,
    left_s=300.0,
    minutes_max=20.0,
    effects=(
        EffectProgress("pipe", "mine", 0.0102, settled=True),
        EffectProgress("[b]spawn", "mine", None),
    ),
    failures=("boot 7 (mine): panic:\x1b[2J No init",),
    now="booting mine",
)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_line() -> None:
    assert line(STATE) == (
        "simd: block 3 of at most 60, 12 boots (1 failed), 1 of 2 effects precise enough, "
        "1 min 40 s, about 5 min 00 s left (at most 20 min 00 s)"
    )


def test_plain_lines_come_now_and_then() -> None:
    lines: list[str] = []
    with Progress(lines.append, io.StringIO()) as progress:
        for second in range(0, 65, 5):
            progress.update(replace(STATE, elapsed_s=float(second)))
        progress.note("a note\x07")
    assert lines[0] == "boot 7 (mine): panic: No init"
    assert [each[:4] for each in lines[1:]] == ["simd", "simd", "simd", "a no"]
    assert "\x1b" not in "".join(lines)


def test_terminal_is_drawn_without_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "90")
    monkeypatch.delenv("NO_COLOR", raising=False)
    before = threading.active_count()
    out = Terminal()
    with Progress(pytest.fail, out) as progress:
        progress.update(STATE)
        assert threading.active_count() == before
        text = out.getvalue()
        many = tuple(replace(STATE.effects[0], case=f"c{n}") for n in range(40))
        progress.update(replace(STATE, effects=many))
        progress.note("stays")
    for part in ("±1.02 %", "[b]spawn", "booting mine", "panic: No init", "precise"):
        assert part in text
    assert "and 28 more" in out.getvalue() and "stays" in out.getvalue()
    assert "\x1b[2J" not in out.getvalue()


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0 s"), (59.6, "1 min 00 s"), (200, "3 min 20 s"), (7500, "2 h 05 min"),
     (float("inf"), "?"), (-3, "0 s")],
)  # fmt: skip
def test_duration(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_guests_that_take_turns_are_not_said_to_boot() -> None:
    loaded = loader.load(data_root() / "experiments" / "simd-memcpy.toml", vocabulary(load()))
    status = Status(1, 4, "", "pipe", {}, None, 1.0, None, ())
    assert _state(loaded, status).now == "pipe, in turns"
    assert _state(loaded, replace(status, variant="mine", case="")).now == "booting mine"
