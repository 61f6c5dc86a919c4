# SPDX-License-Identifier: MIT
"""kdyno lab memcpy check: routines held against what memcpy must do, in a program and a kernel."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from kdyno.verbs.options import NoSandbox
from kdyno.verbs.output import Json, check_writable, say, show, write_json
from kdyno.verbs.verb import Verb


def check_verb(
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
    from kdyno.kernels.routines.routine import FUNCTIONS, find_by_stem, list_routines
    from kdyno.labs.memcpy.kunit import kernel_tests
    from kdyno.paths import cache_root
    from kdyno.verbs.watching import Building

    check_writable(json)
    sandbox.require()
    routines = [find_by_stem(name) for name in routine or ()]
    if not routines:
        routines = [each for function in FUNCTIONS for each in list_routines(function=function)]
    rows: list[dict[str, Any]] = []
    for number, each in enumerate(routines, 1):
        row: dict[str, Any] = {"routine": each.name, "function": each.function, "kernel": None}
        rows.append(row)
        if lacking := cpu.missing(each.requires):
            row |= {"state": "skipped", "why": [f"this CPU lacks {', '.join(lacking)}"]}
        else:
            say(f"{number} of {len(routines)}: {each.function} {each.name}")
            result = check(each, cache_root(), mode="thin" if quick else "full")
            state = "passed" if result.passed else "failed"
            row |= {"state": state, "why": list(result.violations), "cases": result.cases}
        if json != "-":
            cases = f"{row['cases']:,} cases" if row.get("cases") else ""
            show(f"{each.function:10} {each.name:28} {row['state']:8} {cases}".rstrip())
            for line in row["why"]:
                show(f"{'':12}{line}")
    watch = Building()
    for each, row in zip(routines, rows, strict=True):
        if not kernel or row["state"] != "passed":
            continue
        try:
            report = kernel_tests(
                each,
                source,
                cache_root(),
                watch.fetching,
                watch.building,
            )
        finally:
            watch.end()
        row["kernel"] = report.as_json()
        if not report.passed:
            row["state"] = "failed"
            row["why"] += [f"in the kernel: {line}" for line in report.problems]
        if json != "-":
            show(f"{each.function:10} {each.name:28} kernel: {report.summary}")
    if json is not None:
        write_json({"schema": 1, "routines": rows}, json)
    return 1 if any(row["state"] == "failed" for row in rows) else 0


VERBS = (
    Verb(
        "check",
        check_verb,
        (
            "kdyno lab memcpy check",
            "kdyno lab memcpy check avx2 memset-avx512 ./mine.S",
            "kdyno lab memcpy check avx2 --kernel",
        ),
    ),
)
