# SPDX-License-Identifier: MIT
"""kdyno memcpy check."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from kdyno.verbs.options import NoSandbox
from kdyno.verbs.output import Json, check_writable, show, write_json

NAME = "check"
EXAMPLES = (
    "Examples: kdyno memcpy check | kdyno memcpy check avx2 memset-avx512 ./mine.S | "
    "kdyno memcpy check avx2 --kernel"
)


def verb(
    routine: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="ROUTINE",
            help="Names, with FUNCTION- in front for other functions than memcpy, or FILE.S; "
            "default: all.",
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="About every third size and offset.")
    ] = False,
    kernel: Annotated[
        bool,
        typer.Option(
            "--kernel",
            help="Also boot a kernel with each routine and run its own KUnit tests there.",
        ),
    ] = False,
    source: Annotated[
        str, typer.Option("--source", metavar="SOURCE", help="With --kernel: which kernel.")
    ] = "debian:linux-source-7.3",
    no_sandbox: NoSandbox = False,
    json: Json = None,
) -> int:
    """Check that memory routines copy correctly. What lies beside the copy must stay, and
    the CPU must be left as it was."""
    from kdyno import sandbox
    from kdyno.kernels import cpu
    from kdyno.kernels.routines.checking import check
    from kdyno.kernels.routines.routine import FUNCTIONS, Routine, find_by_stem, list_routines
    from kdyno.paths import cache_root
    from kdyno.verbs.output import say

    check_writable(json)
    sandbox.require(not no_sandbox)
    chosen: list[Routine] = [find_by_stem(name) for name in routine or ()]
    if not chosen:
        chosen = [it for function in FUNCTIONS for it in list_routines(function=function)]
    rows: list[dict[str, Any]] = []
    sound: list[Routine] = []
    for number, one in enumerate(chosen, 1):
        row: dict[str, Any] = {"routine": one.name, "function": one.function, "kernel": None}
        rows.append(row)
        if lacking := cpu.missing(one.requires):
            row |= {"state": "skipped", "why": [f"this CPU lacks {', '.join(lacking)}"]}
        else:
            say(f"{number} of {len(chosen)}: {one.function} {one.name}")
            found = check(one, cache_root(), mode="thin" if quick else "full")
            state = "passed" if found.passed else "failed"
            row |= {"state": state, "why": list(found.violations), "cases": found.cases}
            if found.passed:
                sound.append(one)
        if json != "-":
            _print(row)
    if kernel:
        _in_kernels(sound, rows, source, json, not no_sandbox)
    if json is not None:
        write_json({"schema": 1, "routines": rows}, json)
    failed = [row for row in rows if row["state"] == "failed"]
    return 1 if failed else 0


def _in_kernels(
    sound: list[Any],
    rows: list[dict[str, Any]],
    source: str,
    json: str | None,
    sandboxed: bool,
) -> None:
    from kdyno.labs.memcpy.check.kernel_tests import kernel_tests
    from kdyno.paths import cache_root
    from kdyno.verbs.watching import Building

    watch = Building()
    try:
        for one in sound:
            said = kernel_tests(
                one, source, cache_root(), watch.fetching, watch.building, sandboxed=sandboxed
            )
            row = next(
                it for it in rows if (it["routine"], it["function"]) == (one.name, one.function)
            )
            row["kernel"] = said.as_json()
            if not said.passed:
                row["state"] = "failed"
                row["why"] += [f"in the kernel: {line}" for line in said.problems]
            if json != "-":
                watch.end()
                show(f"{one.function:10} {one.name:28} kernel: {said.summary}")
    finally:
        watch.end()


def _print(row: dict[str, Any]) -> None:
    cases = f"{row['cases']:,} cases" if row.get("cases") else ""
    show(f"{row['function']:10} {row['routine']:28} {row['state']:8} {cases}".rstrip())
    for line in row["why"]:
        show(f"{'':12}{line}")
