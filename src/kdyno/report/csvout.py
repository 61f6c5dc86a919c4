# SPDX-License-Identifier: MIT
"""One line per effect, for spreadsheets; per case, where nothing was compared."""

from __future__ import annotations

import csv
import io

from kdyno.report.plain import name, sentence
from kdyno.store.verdict import Verdict

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
)


def export(verdict: Verdict) -> str:
    """A variant without any effect has one line with the verdict ``failed`` and the reason.

    A figure of a run that compares nothing is a line without a verdict; its ``blocks`` are
    repetitions, its interval ``value_low``, ``value_high`` is in the case's unit.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    common = [_cell(verdict.experiment), _cell(verdict.baseline)]
    for it in verdict.effects:
        ends = [*(it.ci or (None, None)), *(it.ci_raw or (None, None))]
        mean = [it.mean_ratio, *(it.mean_ci or (None, None))]
        figures = [it.baseline_value, it.value, it.ratio, *ends, *mean, it.noise_floor]
        writer.writerow(
            [
                *common,
                *map(_cell, (it.variant, it.suite, it.case, it.unit)),
                it.better,
                _yes(it.control),
                *map(_number, figures),
                it.blocks,
                it.verdict,
                _yes(it.equivalent_too),
                _yes(it.inside_noise_floor),
                _number(it.predicted_blocks),
                _cell(it.reason or "") if it.reason else "",
                "",
                "",
            ]
        )
    shown = {it.variant for it in verdict.effects}
    for variant, reason in verdict.failed.items():
        if variant not in shown:
            row = dict.fromkeys(COLUMNS, "")
            row.update(experiment=common[0], baseline=common[1], variant=_cell(variant))
            row.update(verdict="failed", reason=_cell(reason), blocks="0")
            writer.writerow(row.values())
    for each in verdict.values:
        row = dict.fromkeys(COLUMNS, "")
        row.update(experiment=common[0], baseline=common[1], variant=common[1])
        row.update(suite=_cell(each.suite), case=_cell(each.case), unit=_cell(each.unit))
        row.update(better=each.better, value=_number(each.value), blocks=str(each.repetitions))
        row.update(reason=_cell(each.reason or "") if each.reason else "")
        low, high = each.ci or (None, None)
        row.update(value_low=_number(low), value_high=_number(high))
        writer.writerow(row.values())
    return out.getvalue()


def _cell(text: str) -> str:
    """Spreadsheets run what begins like a formula; an apostrophe makes it text."""
    shown = sentence(text) if len(text) > 200 else name(text)
    return "'" + shown if shown[:1] in ("=", "+", "-", "@", "\t", "\r") else shown


def _number(value: float | None) -> str:
    return "" if value is None else repr(value)


def _yes(value: bool) -> str:
    return "yes" if value else "no"
