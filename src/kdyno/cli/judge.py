# SPDX-License-Identifier: MIT
"""kdyno judge."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from kdyno.verbs.completion import run_names
from kdyno.verbs.options import FailOn, Push, Runs, percent
from kdyno.verbs.output import (
    Json,
    check_writable,
    kept_status,
    say,
    show,
    write_json,
    write_json_text,
)

if TYPE_CHECKING:
    from kdyno.judge.judging import Otherwise
    from kdyno.report.gate import Rule
    from kdyno.store.database.shared import Shared
    from kdyno.store.manifest import Manifest
    from kdyno.store.run import Run
    from kdyno.store.verdict import Verdict

NAME = "judge"
EXAMPLES = (
    "Examples: kdyno judge last | kdyno judge 3f2a 81bc | "
    "kdyno judge last --equivalent 2% --confidence 99% | "
    "kdyno judge last --fail-on slower --json -"
)
LEAST_CONFIDENCE, MOST_CONFIDENCE = 0.5, 0.9999


def verb(
    what: Annotated[
        list[str],
        typer.Argument(metavar="RUN", help="Runs: path, name, or last.", autocompletion=run_names),
    ],
    precision: Annotated[
        str | None,
        typer.Option("--precision", metavar="SHARE", help='Half-width wanted, such as "0.5%".'),
    ] = None,
    equivalent: Annotated[
        str | None,
        typer.Option(
            "--equivalent", metavar="SHARE", help='A difference below this does not matter: "1%".'
        ),
    ] = None,
    confidence: Annotated[
        str | None,
        typer.Option("--confidence", metavar="SHARE", help='Of the intervals, such as "99%".'),
    ] = None,
    fail_on: FailOn = None,
    push: Push = False,
    runs: Runs = None,
    json: Json = None,
) -> int:
    """Judge stored runs again, by today's rule. The first verdict stays beside the new one.

    A run of the shared store stays there as it is, unless --push puts the new verdict there.
    """
    from kdyno.errors import KdynoError, UsageError
    from kdyno.judge.judging import Otherwise
    from kdyno.report import gate
    from kdyno.verbs.sharing import found as found_run
    from kdyno.verbs.sharing import store_needed

    check_writable(json)
    shared = store_needed() if push else None
    if shared is not None:
        shared.prepare()
    rules = gate.parse(fail_on or [])
    otherwise = Otherwise(
        confidence=percent(confidence, "--confidence"),
        equivalent=percent(equivalent, "--equivalent"),
        precision=percent(precision),
    )
    asked = otherwise.confidence
    if asked is not None and not LEAST_CONFIDENCE <= asked <= MOST_CONFIDENCE:
        raise UsageError(f'--confidence {confidence!r}: allowed is "50%" to "99.99%"')
    found = [found_run(word, runs) for word in what]
    judged: list[_Judged] = []
    statuses = {0}
    for run in found:
        try:
            judged.append(_judge(run, otherwise, rules, shared))
        except KdynoError as problem:
            if len(found) == 1:
                raise
            say(f"kdyno: {problem}")
            statuses.add(problem.exit_status)
            continue
        if fail_on:
            tested = gate.with_first(run, judged[-1].verdict)
            statuses.add(gate.exit_status(tested, fail_on))
    order = (gate.SLOWER, gate.FAILED, UsageError.exit_status, gate.INCONCLUSIVE, 0)
    status = next(each for each in order if each in statuses)
    with kept_status(status):
        if json is not None and len(found) == 1:
            write_json_text(judged[0].verdict.to_json(), json)
        elif json is not None:
            data = [{"run": it.run.name, "verdict": it.verdict.to_data()} for it in judged]
            write_json(data, json)
        for it in judged if json != "-" else []:
            _show(it)
    return status


@dataclass(frozen=True)
class _Judged:
    run: Run
    verdict: Verdict
    before: Verdict | None
    """The first verdict; None where there was none that can be read."""
    manifest: Manifest


def _judge(
    run: Run, otherwise: Otherwise, rules: tuple[Rule, ...], shared: Shared | None
) -> _Judged:
    """Judge one run and keep its verdict: in its folder, and in the store that is given."""
    from kdyno.errors import KdynoError, UsageError
    from kdyno.judge.judging import judge_again
    from kdyno.report import gate
    from kdyno.report.sentence import worded
    from kdyno.store.run import write_run
    from kdyno.verbs.sharing import is_fetched, pushed

    if run.is_being_written():
        raise UsageError(f"{run.name} is still being measured; its verdict comes at the end")
    verdict, manifest = judge_again(run, otherwise)
    verdict = worded(verdict, manifest)
    gate.check_verdict(rules, verdict)
    before = None
    try:
        before = run.first_verdict() or run.verdict()
    except KdynoError as problem:
        say(f"kdyno: {problem}")
    if is_fetched(run) and shared is None:
        say(f"{run.name}: the store has the verdict that it had; --push puts this one there")
        return _Judged(run, verdict, before, manifest)
    with write_run(run.path) as writer:
        writer.save_later_verdict(verdict)
    if shared is not None:
        try:
            pushed(shared, run)
        finally:
            if is_fetched(run):  # it is not what the store has under its name any more
                shared.forget(run)
    return _Judged(run, verdict, before, manifest)


def _show(it: _Judged) -> None:
    from kdyno.report.terminal import rejudged
    from kdyno.report.terminal import show as show_verdict

    show_verdict(it.verdict)
    lines = ["", f"run {it.run.name}", *rejudged(it.before, it.verdict, it.manifest), ""]
    show("\n".join(lines), end="")
