# SPDX-License-Identifier: MIT
"""The work of kdyno compare --attribute: two images, their parts built crosswise, one table."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from kdyno.bisect import attribution
from kdyno.cli.measuring import options_of
from kdyno.errors import UsageError
from kdyno.experiment.overrides import Overrides
from kdyno.kernels.installed import FORMS, parse
from kdyno.suites.catalogue import load as load_suites
from kdyno.verbs.options import Working
from kdyno.verbs.output import say, show, write_json
from kdyno.verbs.subject import find_run
from kdyno.verbs.watching import Building, executed, say_where


def attribute(
    what: Sequence[str],
    cases: Sequence[str],
    sources: Sequence[str],
    runs: Path | None,
    json: str | None,
) -> int:
    """Of two images, or of a run that was made here before: show what the difference is due to."""
    options = options_of(Working(runs=runs, json=json), Overrides())
    if len(what) == 1 and what[0].partition(":")[0] not in FORMS:
        if cases or sources:
            raise UsageError("--case and --source go with two images; a run has its own")
        run = find_run(what[0], runs)
        verdict = run.verdict()
        if verdict is None:
            raise UsageError(f"{run.name} has no verdict yet: `kdyno run --resume {run.name}`")
    else:
        if len(what) != 2 or len(sources) not in (0, 2):
            raise UsageError(
                "--attribute takes two images, such as debian:linux-image-amd64 and "
                "debian:linux-image-6.12-amd64, and --source of both or of none"
            )
        for name in what:
            parse(name)
        suites = load_suites()
        stamp = datetime.now(UTC).strftime("%Y-%m-%dT%H%M%S")
        folder = options.runs / f"{stamp}-attribution-parts"
        watch = Building()
        try:
            sides = [
                attribution.side(name, own, options.cache, watch.fetching)
                for name, own in zip(what, sources or (None, None), strict=True)
            ]
            folder.mkdir(parents=True, exist_ok=True)
            experiment, notes = attribution.experiment_of(
                sides,
                cases or attribution.CASES,
                *(folder, suites, options.cache, watch.fetching, watch.building),
            )
        finally:
            watch.end()
        for note in notes:
            say(note)
        run, verdict = executed(experiment, suites, options)
    question = verdict.question
    results = attribution.attributions(verdict)
    if json is not None:
        write_json(attribution.data(results, question, run.name), json)
    if json != "-":
        show(attribution.table(results, question))
    say_where(run)
    return 0
