# SPDX-License-Identifier: MIT
"""kdyno push."""

from __future__ import annotations

from typing import Annotated

import typer

from kdyno.verbs.completion import run_names
from kdyno.verbs.options import Runs, runs_folder
from kdyno.verbs.output import Json, check_writable, say, write_json

NAME = "push"
EXAMPLES = "Examples: kdyno push last | kdyno push 3f2a 81bc | kdyno push --upgrade"


def verb(
    what: Annotated[
        list[str] | None,
        typer.Argument(metavar="RUN", help="Runs: path, name, or last.", autocompletion=run_names),
    ] = None,
    upgrade: Annotated[
        bool,
        typer.Option("--upgrade", help="Change a store of an earlier kdyno to this one's tables."),
    ] = False,
    runs: Runs = None,
    json: Json = None,
) -> int:
    """Put runs into the store that KDYNO_STORE names.

    A run is put there whole or not at all, and once: pushed again, only what is new of it is.
    """
    from kdyno.errors import KdynoError, UsageError
    from kdyno.store.index import resolve
    from kdyno.store.run import open_run
    from kdyno.verbs.sharing import pushed, store_needed

    check_writable(json)
    if not what and not upgrade:
        raise UsageError("which run? Name one, or last; `kdyno list runs` shows them")
    shared = store_needed()
    found = [open_run(resolve(word, runs_folder(runs))) for word in what or []]
    before = shared.prepare(upgrade_it=upgrade)
    if upgrade:
        say(f"{shared.where}: tables {'changed' if before else 'are those of this kdyno'}")
    done, status = [], 0
    for run in found:
        try:
            it = pushed(shared, run)
        except KdynoError as problem:
            if len(found) == 1:
                raise
            say(f"kdyno: {problem}")
            status = max(status, problem.exit_status)
            continue
        row = {"run": it.name, "state": it.word, "boots": it.boots, "sent_bytes": it.size_bytes}
        done.append({**row, "left_out": list(it.left_out)})
    if json is not None:
        write_json(done, json)
    return status
