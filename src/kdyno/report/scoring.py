# SPDX-License-Identifier: MIT
"""Index and group scores straight from the boots of a run, by either way of summing up passes.

A verdict never uses them: they are for people who compare with published indices.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from typing import Any

from kdyno.errors import UsageError
from kdyno.reading.mistakes import among
from kdyno.report import scores
from kdyno.store.boot import Sample
from kdyno.store.run import Damaged, Run
from kdyno.suites.catalogue import Catalogue
from kdyno.suites.score import SCORINGS, unixbench_mean

EXPLAINED: Mapping[str, str] = {
    "kdyno": "the median of the boots, each the median of its repetitions",
    "unixbench": "UnixBench's own: of all repetitions of all boots the worst third is dropped, "
    "and the rest is the geometric mean",
}


def check_word(scoring: str) -> None:
    """UsageError with the nearest right word for one that is none."""
    if scoring not in SCORINGS:
        raise UsageError(f"--scoring {scoring!r}{among(scoring, SCORINGS)}")


def check(scoring: str | None, suites: Iterable[str], catalogue: Catalogue) -> None:
    """UsageError for a word that is none, or where no suite has an index or groups."""
    if scoring is None:
        return
    check_word(scoring)
    having = [suite.name for suite in catalogue.values() if suite.index is not None]
    if not set(having) & set(suites):
        raise UsageError(
            f"--scoring {scoring}: none of this run's suites has an index; {', '.join(having)} have"
        )


def passes(sample: Sample, higher_is_better: bool) -> list[float]:
    """The score of every repetition of one boot, in the case's unit.

    Taken relative to the stored score, which is their median, so that scales and figures that a
    program printed itself need no second reading. Empty where there is no score.
    """
    if sample.score is None:
        return []
    speeds = [
        (operations / ns if higher_is_better else ns / operations)
        for operations, ns in sample.reps
        if operations > 0 and ns > 0
    ]
    if not speeds:
        return [sample.score]
    middle = statistics.median(speeds)
    return [sample.score * speed / middle for speed in speeds]


def values(run: Run, scoring: str) -> scores.Values:
    """Variant → (suite, case) → score; the baseline first. Boots that failed do not count."""
    manifest = run.manifest()
    better = {(it.suite, it.case): it.better == "higher" for it in manifest.cases}
    seen: dict[str, dict[tuple[str, str], list[float]]] = {manifest.baseline: {}}
    for boot in run.boots():
        if isinstance(boot, Damaged) or not boot.ok:
            continue
        for sample in boot.samples:
            key = (sample.suite, sample.case)
            if sample.score is None or key not in better:
                continue
            found = passes(sample, better[key]) if scoring == "unixbench" else [sample.score]
            seen.setdefault(boot.variant, {}).setdefault(key, []).extend(found)
    return {
        variant: {
            key: unixbench_mean(found, better[key])
            if scoring == "unixbench"
            else statistics.median(found)
            for key, found in of_variant.items()
        }
        for variant, of_variant in seen.items()
    }


def tables(run: Run, scoring: str, catalogue: Catalogue) -> tuple[scores.ScoreTable, ...]:
    """As scores.tables, for a run. UsageError as of check."""
    manifest = run.manifest()
    check(scoring, {case.suite for case in manifest.cases}, catalogue)
    return scores.tables(values(run, scoring), catalogue, manifest.baseline)


def text(found: Iterable[scores.ScoreTable], scoring: str) -> str:
    """For a terminal, with a line that says how it was summed up."""
    return f"\nScores ({EXPLAINED[scoring]})\n\n{scores.text(found)}\n"


def markdown(found: Iterable[scores.ScoreTable], scoring: str) -> str:
    """The same for a document."""
    return f"\nScores ({EXPLAINED[scoring]}):\n\n{scores.markdown(found)}\n"


def as_json(found: Iterable[scores.ScoreTable], scoring: str) -> dict[str, Any]:
    """{"scoring", "tables": [{"suite", "variant", "baseline", "rows": […]}]}."""
    return {
        "scoring": scoring,
        "tables": [
            {
                "suite": table.suite,
                "variant": table.variant,
                "baseline": table.baseline,
                "rows": [
                    {
                        "name": row.name,
                        "kind": row.kind,
                        "score": row.reference.value,
                        "of_baseline": row.own.value,
                        "missing": list(dict.fromkeys((*row.own.missing, *row.reference.missing))),
                    }
                    for row in table.rows
                ],
            }
            for table in found
        ],
    }
