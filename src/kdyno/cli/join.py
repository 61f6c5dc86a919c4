# SPDX-License-Identifier: MIT
"""kdyno join."""

from __future__ import annotations

from typing import Annotated

import typer

from kdyno.verbs.completion import run_names
from kdyno.verbs.options import FailOn, Push, Runs, runs_folder
from kdyno.verbs.output import Json, check_writable, kept_status, write_json_text

NAME = "join"
EXAMPLES = "Examples: kdyno join 3f2a 81bc 90d1 | kdyno join 3f2a 81bc --push"


def verb(
    what: Annotated[
        list[str],
        typer.Argument(metavar="RUN", help="Runs: path, name, or last.", autocompletion=run_names),
    ],
    fail_on: FailOn = None,
    push: Push = False,
    runs: Runs = None,
    json: Json = None,
) -> int:
    """Make one run of runs on several machines, and judge it.

    They are runs of the same kernels. The verdict says what the effect is on each machine and
    each model of CPU, and whether they agree. The runs themselves stay as they are.
    """
    from kdyno.judge.judging import Otherwise, judge_again
    from kdyno.report import gate
    from kdyno.report.sentence import worded
    from kdyno.report.terminal import show as show_verdict
    from kdyno.store.join import join
    from kdyno.verbs.sharing import found, pushed, store_needed
    from kdyno.verbs.watching import say_where

    check_writable(json)
    rules = gate.parse(fail_on or [])
    shared = store_needed() if push else None
    if shared is not None:
        shared.prepare()
    with join([found(word, runs) for word in what], runs_folder(runs)) as writer:
        run = writer.run
        verdict, manifest = judge_again(run, Otherwise())
        verdict = worded(verdict, manifest)
        writer.save_verdict(verdict)
    gate.check_verdict(rules, verdict)
    status = gate.exit_status(verdict, fail_on) if fail_on else 0
    with kept_status(status):
        if json is not None:
            write_json_text(verdict.to_json(), json)
        if json != "-":
            show_verdict(verdict)
    say_where(run)
    if shared is not None:
        pushed(shared, run)
    return status
