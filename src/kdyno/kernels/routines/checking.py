# SPDX-License-Identifier: MIT
"""Correctness before speed: a routine is checked in a program before it is timed or built in.

The checker calls it with every size 0 … 1024 at every pair of offsets 0 … 63, larger sizes
sampled, between guard pages, and compares the bytes, what is around them, the result, the
registers that a callee must keep, the direction flag and whether upper halves were left in use.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from kdyno import whole
from kdyno.command import capture, require
from kdyno.confined import confined, plain_status
from kdyno.errors import ToolError, UsageError
from kdyno.kernels import cpu
from kdyno.kernels.routines.rack import NATIVE, assembled
from kdyno.kernels.routines.routine import Routine, flatten
from kdyno.reading.checked import values_in

SCHEMA = 1
PROGRAM = NATIVE / "check" / "check.c"
TIMEOUT_S = 600.0
_MOST_OUTPUT = 20_000


@dataclass(frozen=True)
class Checked:
    """What the checker said of one routine."""

    routine: str
    function: str
    mode: str
    passed: bool
    violations: tuple[str, ...]
    """``KIND: where it was seen first``, one a kind; kinds: see check.c."""
    cases: int
    upper_readable: bool
    """Whether this CPU tells which register halves are in use."""
    seconds: float
    cached: bool = False


def check(routine: Routine, cache_root: Path, *, mode: str = "full") -> Checked:
    """Check ``routine``, or take what was found for the same code on the same CPU before.

    UsageError when the file is not assembly or this CPU lacks what it requires.
    """
    if lacking := cpu.missing(routine.requires):
        raise UsageError(
            f"{routine.function} routine {routine.name!r} needs {', '.join(lacking)}, "
            "which this CPU lacks: it cannot be checked here"
        )
    text = flatten(routine.path)
    record = _record(cache_root, text, routine, mode)
    if found := _read(record, routine):
        return found
    made = assembled(text, str(routine.path), cache_root, routine=True)
    with whole.scratch("check") as folder:
        program = _linked(routine, made, folder)
        began_s = time.monotonic()
        status, output = _run(program, routine.function, mode)
        checked = judge(routine, mode, status, output, time.monotonic() - began_s)
    record.parent.mkdir(parents=True, exist_ok=True)
    whole.write(record, json.dumps({"schema": SCHEMA, **asdict(checked)}).encode())
    return checked


def require_correct(routines: Iterable[Routine], cache_root: Path) -> None:
    """UsageError that says what went wrong when one of ``routines`` fails its check."""
    for routine in routines:
        checked = check(routine, cache_root)
        if not checked.passed:
            wrong = "; ".join(checked.violations)
            raise UsageError(
                f"{routine.function} routine {routine.name!r} is refused, it fails its check: "
                f"{wrong}. See: kdyno memcpy check {routine.path}"
            )


def judge(routine: Routine, mode: str, status: int, output: str, seconds: float) -> Checked:
    """What the checker's exit status (negative: a signal) and its output mean."""
    lines = output[:_MOST_OUTPUT].splitlines()
    violations = [line for line in lines[:-1] if ": " in line]
    summary = lines[-1] if lines else ""
    words = summary.split()
    whole = len(words) > 1 and words[0].isascii() and words[0].isdigit() and words[1] == "cases,"
    cases = int(words[0]) if whole else 0
    if status not in (0, 1) or not whole:
        violations = [line for line in lines if ": " in line and line is not summary]
        why = f"signal {-status}" if status < 0 else f"exit status {status}"
        if status == _TIMED_OUT:
            why = f"did not end within {TIMEOUT_S:.0f} s"
        violations.append(f"died: the program that checks it ended with {why}")
    elif bool(violations) != bool(status):
        violations.append("died: the program that checks it contradicts itself")
    return Checked(
        routine=routine.name,
        function=routine.function,
        mode=mode,
        passed=not violations,
        violations=tuple(violations),
        cases=cases,
        upper_readable="not readable" not in summary,
        seconds=round(seconds, 3),
    )


_TIMED_OUT = 1000


def _run(program: Path, function: str, mode: str) -> tuple[int, str]:
    inside = confined([str(program), function, mode], reads=[program])
    done = capture(inside, apart=True, limit_s=TIMEOUT_S)
    return _TIMED_OUT if done.late else plain_status(done.status), done.output


def _linked(routine: Routine, made: Path, folder: Path) -> Path:
    program = folder / "check"
    argv = [
        require("gcc", "to check memory routines"),
        *("-std=gnu11", "-O2", str(PROGRAM), str(made)),
        *(f"-Wl,--defsym=routine_under_test={routine.symbol}", "-o", str(program)),
    ]
    done = capture(confined(argv, reads=[PROGRAM, made], writes=[folder]))
    if done.status != 0:
        said = done.output.strip()[-800:]
        if routine.symbol in said:
            raise UsageError(f"{routine.path}: has no function {routine.symbol}, see routine.h")
        raise ToolError(f"gcc: {said}")
    return program


def _record(cache_root: Path, text: str, routine: Routine, mode: str) -> Path:
    """Where the answer lies; its name holds all that it depends on."""
    here = cpu.this_cpu()
    total = hashlib.sha256()
    parts = (text, PROGRAM.read_text("utf-8"), routine.symbol, mode, here.model, here.microcode)
    for part in (*parts, *sorted(here.flags)):
        total.update(b"\0" + part.encode())
    return cache_root / "memcpy" / "checked" / f"{total.hexdigest()[:32]}.json"


def _read(record: Path, routine: Routine) -> Checked | None:
    try:
        said: dict[str, Any] = values_in(record)
        if said.pop("schema") != SCHEMA:
            return None
        said["violations"] = tuple(str(line) for line in said["violations"])
        said |= {"routine": routine.name, "cached": True}
        return Checked(**said)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
