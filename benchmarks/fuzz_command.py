# SPDX-License-Identifier: MIT
"""A verb in this process, with what it says and a limit to how long it works."""

from __future__ import annotations

import contextlib
import io
import signal
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from unittest import mock

import kdyno.cli.main
from benchmarks.fuzz_oracles import Finding

LONGEST_S = 60
"""Of CPU time."""
_LOOK_S, _LOOKS = 3, 5
_IDLE_S = 0.05


def said_by(words: Sequence[str]) -> tuple[int, str, str]:
    """(status, stdout, stderr) of a verb; a Finding for a crash."""
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8") for _ in range(2))
    try:
        with (
            mock.patch.object(sys, "argv", ["kdyno", *words]),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
            _signals_kept(),
        ):
            status = kdyno.cli.main.main()
    except (Exception, SystemExit) as problem:
        raise Finding(f"{words}\n{''.join(traceback.format_exception(problem))}") from problem
    said = []
    for stream in (out, err):
        stream.flush()
        said.append(stream.buffer.getvalue().decode("utf-8", "replace"))  # type: ignore[attr-defined]
    return status, said[0], said[1]


@contextlib.contextmanager
def _signals_kept() -> Iterator[None]:
    """And at most so long: an input on which kdyno works, or waits, for ever is a finding.

    It waits if it did nothing at several looks in a row: on a machine that stands still there is
    one look.
    """
    begin = last = time.process_time()
    idle = 0

    def late(_signal: int, _frame: object) -> None:
        nonlocal idle, last
        now = time.process_time()
        idle = idle + 1 if now - last < _IDLE_S else 0
        last = now
        if idle >= _LOOKS or now - begin > LONGEST_S:
            raise Finding(f"not done after {now - begin:.1f} s of CPU time")

    before = {it: signal.getsignal(it) for it in (signal.SIGTERM, signal.SIGALRM)}
    signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, _LOOK_S, _LOOK_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for it, handler in before.items():
            signal.signal(it, handler)
