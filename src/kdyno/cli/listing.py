# SPDX-License-Identifier: MIT
"""kdyno list."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from kdyno.cli.output import Json, check_writable, write_json
from kdyno.cli.session import Runs

NAME = "list"
EXAMPLES = "Examples: kdyno list | kdyno list runs | kdyno list cases --json -"


def verb(
    what: Annotated[
        str | None,
        typer.Argument(
            metavar="WHAT",
            help="cases, routines, fragments, experiments, runs; all but runs if none",
        ),
    ] = None,
    runs: Runs = None,
    json: Json = None,
) -> int:
    """List cases, memory routines, configuration fragments, experiments or runs."""
    from kdyno.cli.session import runs_folder
    from kdyno.errors import UsageError

    kinds: dict[str, Callable[[], list[dict[str, Any]]]] = {
        "experiments": _experiments,
        "cases": _cases,
        "routines": _routines,
        "fragments": _fragments,
        "runs": lambda: _runs(runs_folder(runs)),
    }
    if what is not None and what not in kinds:
        raise UsageError(f"list {what!r}: there are {', '.join(kinds)}")
    check_writable(json)
    chosen = [what] if what else [kind for kind in kinds if kind != "runs"]
    found = {kind: kinds[kind]() for kind in chosen}
    if json is not None:
        write_json(found, json)
    if json != "-":
        for kind, rows in found.items():
            if what is None:
                print(f"{kind}:")
            for row in rows:
                name, *rest = (str(value) for value in row.values() if value not in ("", None))
                print(f"  {name:28} {'  '.join(rest)}".rstrip())
            if not rows:
                print("  none")
    return 0


def _experiments() -> list[dict[str, Any]]:
    import tomllib

    from kdyno.paths import data_root

    rows = []
    for path in sorted((data_root() / "experiments").glob("*.toml")):
        data = tomllib.loads(path.read_text(encoding="utf-8"))
        rows.append({"file": f"experiments/{path.name}", "question": data.get("question", "")})
    return rows


def _cases() -> list[dict[str, Any]]:
    from kdyno.suites.catalogue import load

    return [
        {
            "case": f"{suite.name}/{case.name}",
            "unit": case.unit,
            "better": case.better,
            "control": "control" if case.control else "",
            "help": case.help,
        }
        for suite in load().values()
        for case in suite.cases
    ]


def _routines() -> list[dict[str, Any]]:
    from kdyno.kernels import cpu
    from kdyno.kernels.routine import list_routines

    return [
        {
            "routine": routine.name,
            "help": routine.help,
            "missing": f"(this CPU lacks {', '.join(lacking)})"
            if (lacking := cpu.missing(routine.requires))
            else "",
        }
        for routine in list_routines()
    ]


def _fragments() -> list[dict[str, Any]]:
    from kdyno.paths import data_root

    rows = []
    for path in sorted((data_root() / "kernel" / "config").glob("*.config")):
        comments = [
            line.lstrip("# ").removeprefix("help: ")
            for line in path.read_text(encoding="utf-8").splitlines()
            if line.startswith("# ") and "SPDX" not in line
        ]
        rows.append({"fragment": path.stem, "help": comments[0] if comments else ""})
    return rows


def _runs(folder: Path) -> list[dict[str, Any]]:
    from kdyno.store.index import entries

    return [
        {"run": entry.name, "state": entry.state, "answer": entry.answer}
        for entry in entries(folder)
    ]
