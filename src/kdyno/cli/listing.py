# SPDX-License-Identifier: MIT
"""kdyno list: what there is to measure, and what was measured."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kdyno.errors import UsageError
from kdyno.experiment.model import BEST, OWN_SCHEDULER
from kdyno.kernels import cpu as this_cpu
from kdyno.kernels.routines.routine import FUNCTIONS, best, list_routines
from kdyno.kernels.scheduler import list_schedulers
from kdyno.labs.published import article as articles
from kdyno.paths import data_root
from kdyno.report import plain
from kdyno.store.database.query import Wanted
from kdyno.store.index import entries
from kdyno.suites.catalogue import load
from kdyno.suites.job import open_settings
from kdyno.verbs.options import Json, Runs, argument, option, runs_folder
from kdyno.verbs.output import answer, check_writable
from kdyno.verbs.subject import store

Rows = list[dict[str, Any]]


def list_(
    what: str | None = argument(
        "WHAT",
        "experiments, cases, routines, schedulers, fragments, published (articles), runs; "
        "without it all but runs.",
        None,
    ),
    experiment: str | None = option(
        "--experiment NAME", "Runs of this experiment; patterns.", None
    ),
    case: str | None = option("--case CASE", "Runs with a figure of this case; patterns.", None),
    kernel: str | None = option(
        "--kernel VERSION", 'Runs of such a kernel: "v7.3-rc*", a git tag.', None
    ),
    cpu: str | None = option("--cpu MODEL", 'Runs on such a CPU: "*EPYC*".', None),
    limit: int | None = option(
        "--limit N", "The newest N runs [of a store 1000].", None, min=1, max=1_000_000
    ),
    runs: Runs = None,
    json: Json = None,
) -> int:
    """List what can be measured, and what was measured.

    Options are for `kdyno list runs` alone. Runs are those of the folder and of the store that
    KDYNO_STORE names.

    Examples:
      kdyno list
      kdyno list runs
      kdyno list cases --json -
    """
    wanted = Wanted(experiment=experiment, case=case, kernel=kernel, cpu=cpu, limit=limit)
    if what != "runs" and (odd := [f"--{name}" for name, value in vars(wanted).items() if value]):
        raise UsageError(f"{', '.join(odd)}: go with `kdyno list runs`")
    kinds: dict[str, Callable[[], Rows]] = {
        "experiments": _experiments,
        "cases": _cases,
        "routines": _routines,
        "schedulers": lambda: [
            {"scheduler": OWN_SCHEDULER, "help": "the kernel's own: no program is loaded"},
            *({"scheduler": name, "help": text} for name, text in list_schedulers().items()),
        ],
        "fragments": _fragments,
        "published": lambda: [
            {"article": f"{articles.PREFIX}{name}", "title": articles.load(name).title}
            for name in articles.names()
        ],
        "runs": lambda: _runs(runs, wanted),
    }
    if what is not None and what not in kinds:
        raise UsageError(f"list {what!r}: there are {', '.join(kinds)}")
    check_writable(json)
    chosen = [what] if what else [kind for kind in kinds if kind != "runs"]
    lists = {kind: kinds[kind]() for kind in chosen}
    lines = []
    for kind, rows in lists.items():
        if what is None:
            lines.append(f"{kind}:")
        for row in rows:
            words = [str(value) for value in row.values() if value not in ("", None)]
            name, *rest = map(plain.sentence, words)
            lines.append(f"  {name:28} {'  '.join(rest)}".rstrip())
        if not rows:
            lines.append("  none")
    answer(lists, lines, json)
    return 0


def _experiments() -> Rows:
    rows, here = [], Path.cwd()
    for path in sorted((data_root() / "experiments").glob("*.toml")):
        data = tomllib.loads(path.read_text(encoding="utf-8"))
        file = path.relative_to(here) if path.is_relative_to(here) else path
        rows.append({"file": str(file), "question": data.get("question", "")})
    return rows


def _cases() -> Rows:
    return [
        {
            "case": f"{suite.name}/{case.name}",
            "unit": case.unit,
            "better": case.better,
            "control": "control" if case.control else "",
            "help": case.help,
            "settings": " ".join(f"{{{name}}}" for name in open_settings(case)),
        }
        for suite in load().values()
        for case in suite.cases
    ]


def _routines() -> Rows:
    """First the word ``best``: what it means on this CPU."""
    try:
        choices = {function: best(function, "um") for function in FUNCTIONS}
        named = ", ".join(f"{function} {routine}" for function, (routine, _) in choices.items())
        why = choices["memcpy"][1].removeprefix(f"{BEST}: ")
        rows = [{"routine": BEST, "help": f"on this CPU {named} ({why})", "missing": ""}]
    except UsageError as problem:
        rows = [{"routine": BEST, "help": "", "missing": f"({problem})"}]
    for function in FUNCTIONS:
        for routine in list_routines(function=function):
            lacking = ", ".join(this_cpu.missing(routine.requires))
            missing = f"(this CPU lacks {lacking})" if lacking else ""
            rows.append({"routine": routine.path.stem, "help": routine.help, "missing": missing})
    return rows


def _fragments() -> Rows:
    files = {
        path.stem: path.read_text(encoding="utf-8")
        for path in sorted((data_root() / "kernel" / "config").glob("*.config"))
        if "." not in path.stem  # comes by itself with the one that it is named after
    }
    helps = {name: text.partition("# help: ")[2] for name, text in files.items()}
    return [{"fragment": name, "help": text.split("\n")[0]} for name, text in helps.items()]


def _runs(runs: Path | None, wanted: Wanted) -> Rows:
    """Oldest first. A run that lies in both places is one row, of the folder."""

    def row(name: str, state: str, answer: str, where: str = "") -> dict[str, Any]:
        return {"run": name, "state": state, "where": where, "answer": answer}

    here = entries(runs_folder(runs), wanted)
    rows = {(own.created, run.name): row(run.name, own.state, own.sentence) for run, own in here}
    shared = store() if runs is None else None
    for facts in shared.listed(wanted) if shared is not None else ():
        key = (facts.created, facts.name)
        if key in rows:
            rows[key]["where"] = "here and in the store"
        else:
            state = "interrupted" if facts.state == "running" else facts.state
            rows[key] = row(facts.name, state, facts.sentence, "in the store")
    ordered = [rows[key] for key in sorted(rows)] if shared is not None else [*rows.values()]
    return ordered[-wanted.limit :] if wanted.limit else ordered


VERBS = {"list": list_}
