# SPDX-License-Identifier: MIT
"""One line per effect, for spreadsheets; per case, where nothing was compared."""

from __future__ import annotations

from kdyno.report.show import spreadsheet
from kdyno.report.show.grid import Value, of_rows
from kdyno.store.verdict import CaseValue, Effect, Kinds, Verdict

NAME = "csv"
HELP = "one line per effect (or figure), full precision, for spreadsheets"
SUFFIX = ".csv"

COLUMNS = (
    "experiment",
    "baseline",
    "variant",
    "suite",
    "case",
    "unit",
    "better",
    "control",
    "baseline_value",
    "value",
    "ratio",
    "ci_low",
    "ci_high",
    "ci_raw_low",
    "ci_raw_high",
    "mean_ratio",
    "mean_low",
    "mean_high",
    "noise_floor",
    "blocks",
    "verdict",
    "equivalent_too",
    "inside_noise_floor",
    "predicted_blocks",
    "reason",
    "value_low",
    "value_high",
    "remarks",
    "exact",
    "paired_value",
    "throughput_ratio",
    "throughput_low",
    "throughput_high",
)


def export(verdict: Verdict) -> str:
    """A variant without any effect has one line with the verdict ``failed`` and the reason.

    A figure of a run that compares nothing is a line without a verdict; its ``blocks`` are
    repetitions, its interval ``value_low``, ``value_high`` is in the case's unit.
    """
    items = [_effect(it) for it in verdict.effects]
    shown = {it.variant for it in verdict.effects}
    items += [
        {"variant": variant, "verdict": "failed", "reason": reason, "blocks": 0}
        for variant, reason in verdict.failed.items()
        if variant not in shown
    ]
    items += [_value(it, verdict.baseline) for it in verdict.values]
    common = {"experiment": verdict.experiment, "baseline": verdict.baseline}
    kinds = Kinds(verdict.flags)
    for item in items:
        about = (str(item.get(key) or "") for key in ("variant", "suite", "case"))
        item["remarks"] = " ".join(kinds.about(*about))
    rows = [[(item | common).get(column) for column in COLUMNS] for item in items]
    return spreadsheet.text(of_rows(COLUMNS, rows))


def _effect(it: Effect) -> dict[str, Value]:
    """Most columns are fields."""
    found = {column: getattr(it, column, None) for column in COLUMNS}
    for name, ends in (("ci", it.ci), ("ci_raw", it.ci_raw), ("mean", it.mean_ci)):
        found[f"{name}_low"], found[f"{name}_high"] = ends or (None, None)
    if (own := it.throughput) is not None:
        found["throughput_ratio"] = own.ratio
        found["throughput_low"], found["throughput_high"] = own.ci or (None, None)
    return found


def _value(it: CaseValue, baseline: str) -> dict[str, Value]:
    fields = ("suite", "case", "unit", "better", "value", "reason")
    low, high = it.ci or (None, None)
    ends = {"variant": baseline, "value_low": low, "value_high": high, "blocks": it.repetitions}
    return {field: getattr(it, field) for field in fields} | ends
