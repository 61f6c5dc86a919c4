# SPDX-License-Identifier: MIT
"""What a run can be exported in: one row of EXPORTERS each, and those that the caller adds."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from kdyno.errors import ToolError, UsageError
from kdyno.report import plain
from kdyno.report.evidence import Evidence
from kdyno.report.junit import export as junit
from kdyno.report.markdown import export as markdown
from kdyno.report.show import spreadsheet
from kdyno.report.show.grid import Value, of_rows
from kdyno.store.verdict import CaseValue, Effect, Kinds, Verdict

Exported = str | bytes


@dataclass(frozen=True)
class Exporter:
    name: str
    help: str
    suffix: str
    """With the dot; may have two (``.speedscope.json``)."""
    make: Callable[[Evidence], Exported]
    """It must cope with evidence that is a verdict and nothing else."""
    needs_run: bool = False
    """It shows boots."""
    is_text: bool = True

    def export(self, subject: Verdict | Evidence) -> Exported:
        """Text, or bytes for formats that are no text."""
        return self.make(subject if isinstance(subject, Evidence) else Evidence(subject))


def exporters(more: Iterable[ModuleType] = ()) -> dict[str, Exporter]:
    """Name → exporter, by name. more: modules with NAME, HELP, SUFFIX, ``export_run(evidence)``."""
    given = [
        Exporter(module.NAME, module.HELP, module.SUFFIX, module.export_run, needs_run=True)
        for module in more
    ]
    return {each.name: each for each in sorted((*EXPORTERS, *given), key=lambda it: it.name)}


def exporter(name: str, more: Iterable[ModuleType] = ()) -> Exporter:
    """The exporter of that name, or of a file's suffix (``.md``)."""
    known = exporters(more)
    for each in known.values():
        if name in (each.name, each.suffix):
            return each
    raise UsageError(f"{name}: no such format; there are {', '.join(known)}")


def exporter_for(file: str, more: Iterable[ModuleType] = ()) -> Exporter:
    """The exporter that a file's name asks for: the one with the longest suffix that fits."""
    known = exporters(more)
    fitting = [each for each in known.values() if file.lower().endswith(each.suffix)]
    if fitting:
        return max(fitting, key=lambda each: len(each.suffix))
    names = ", ".join(f"{each.suffix} {name}" for name, each in known.items())
    raise UsageError(f"-o {file}: which format? Add -f FORMAT, or end the name in one of: {names}")


CSV_COLUMNS = (
    *("experiment", "baseline", "variant", "suite", "case", "unit", "better", "control"),
    *("baseline_value", "value", "ratio", "ci_low", "ci_high", "ci_raw_low", "ci_raw_high"),
    *("mean_ratio", "mean_low", "mean_high", "noise_floor", "blocks", "verdict", "equivalent_too"),
    *("inside_noise_floor", "predicted_blocks", "reason", "value_low", "value_high", "remarks"),
    *("exact", "paired_value", "throughput_ratio", "throughput_low", "throughput_high"),
)


def csv(evidence: Evidence) -> str:
    """One line per effect; per case, where nothing was compared.

    A variant without any effect has one line with the verdict ``failed`` and the reason. A figure
    of a run that compares nothing is a line without a verdict; its ``blocks`` are repetitions, its
    interval ``value_low``, ``value_high`` is in the case's unit.
    """
    verdict = evidence.verdict
    items = [_effect(effect) for effect in verdict.effects]
    measured = {effect.variant for effect in verdict.effects}
    items += [
        {"variant": variant, "verdict": "failed", "reason": reason, "blocks": 0}
        for variant, reason in verdict.failed.items()
        if variant not in measured
    ]
    items += [_value(value, verdict.baseline) for value in verdict.values]
    common = {"experiment": verdict.experiment, "baseline": verdict.baseline}
    kinds = Kinds(verdict.flags)
    for item in items:
        about = (str(item.get(key) or "") for key in ("variant", "suite", "case"))
        item["remarks"] = " ".join(kinds.about(*about))
    rows = [[(item | common).get(column) for column in CSV_COLUMNS] for item in items]
    return spreadsheet.text(of_rows(CSV_COLUMNS, rows))


def _effect(effect: Effect) -> dict[str, Value]:
    """Most columns are fields."""
    item = {column: getattr(effect, column, None) for column in CSV_COLUMNS}
    for name, ends in (("ci", effect.ci), ("ci_raw", effect.ci_raw), ("mean", effect.mean_ci)):
        item[f"{name}_low"], item[f"{name}_high"] = ends or (None, None)
    if (own := effect.throughput) is not None:
        item["throughput_ratio"] = own.ratio
        item["throughput_low"], item["throughput_high"] = own.ci or (None, None)
    return item


def _value(value: CaseValue, baseline: str) -> dict[str, Value]:
    fields = ("suite", "case", "unit", "better", "value", "reason")
    low, high = value.ci or (None, None)
    ends = {"variant": baseline, "value_low": low, "value_high": high, "blocks": value.repetitions}
    return {field: getattr(value, field) for field in fields} | ends


# A last "-8" is taken for the number of CPUs and cut off, so fscopy-256 and fscopy-1024 would be
# one benchmark; "/size=8" is how Go writes a parameter.
_LAST_NUMBER = re.compile(r"-(?=\d+$)")
_GAPS = re.compile(r"[\s/]+")


def benchstat(evidence: Evidence) -> str:
    """One line per boot and case in time order, so that benchstat meets the baseline first and
    divides by it. Go proposal 14313, with the unit lines of golang.org/x/perf/benchfmt.
    """
    verdict = evidence.verdict
    lines = [f"experiment: {plain.name(verdict.experiment)}"]
    # A key of its own keeps benchstat from putting such a run beside another without a word.
    lines += ["sandbox: none"] if verdict.outside else []
    units: dict[str, str] = {}
    for case in evidence.cases:
        units.setdefault(_unit(case.unit), case.better)
    lines += [f"Unit {unit} better={better}" for unit, better in units.items()]
    of: dict[str, list[str]] = {variant: [] for variant in evidence.variants}
    for case, variant, points in evidence.cells:
        suite = _word(case.suite)
        name = f"Benchmark{suite[:1].upper()}{suite[1:]}/{_word(case.case)}"
        for point in points:
            count = max(1, round(point.operations))
            of[variant].append(f"{name} {count} {point.score:.17g} {_unit(case.unit)}")
    for variant, measured in of.items():
        lines += ["", f"variant: {plain.name(variant)}", *measured]
    return "\n".join(lines) + "\n"


def _word(text: str) -> str:
    return _LAST_NUMBER.sub("=", _GAPS.sub("_", plain.name(text)))


def _unit(text: str) -> str:
    return re.sub(r"\s+", "_", plain.name(text))


_PARQUET_TEXT = ("experiment", "suite", "case", "variant", "unit", "better")


def parquet(evidence: Evidence) -> bytes:
    """Parquet, zstd. ToolError says how to install pyarrow when it is missing."""
    try:
        import pyarrow  # type: ignore[import-untyped,unused-ignore]
        from pyarrow.parquet import write_table  # type: ignore[import-untyped,unused-ignore]
    except ImportError:
        raise ToolError(
            "Parquet needs pyarrow, which is not installed: `pip install kdyno[parquet]`, "
            "or use -f csv"
        ) from None
    names = pyarrow.dictionary(pyarrow.int32(), pyarrow.string())
    schema = pyarrow.schema(
        [(name, names) for name in _PARQUET_TEXT]
        + [
            ("control", pyarrow.bool_()),
            ("boot", pyarrow.int32()),
            ("block", pyarrow.int32()),
            ("started_at", pyarrow.string()),
            ("disturbed", pyarrow.list_(pyarrow.string())),
            ("operations", pyarrow.float64()),
            ("score", pyarrow.float64()),
            ("remarks", pyarrow.list_(pyarrow.string())),
        ],
        metadata={"baseline": _utf8(evidence.verdict.baseline), "run": _utf8(evidence.name)},
    )
    columns: dict[str, list[Any]] = {name: [] for name in schema.names}
    for row in _scores(evidence):
        for name, value in zip(schema.names, row, strict=True):
            columns[name].append(value)
    out = io.BytesIO()
    write_table(pyarrow.table(columns, schema), out, compression="zstd")
    return out.getvalue()


def _scores(evidence: Evidence) -> list[tuple[Any, ...]]:
    """In the order of the schema. Names are given as they are: a column is not a terminal."""
    experiment = _utf8(evidence.verdict.experiment)
    rows = []
    kinds = Kinds(evidence.verdict.flags)
    for case, variant, points in evidence.cells:
        suite, name, unit = map(_utf8, (case.suite, case.case, case.unit))
        remarks = [_utf8(kind) for kind in kinds.about(variant, case.suite, case.case)]
        for point in points:
            boot = point.boot
            about = (experiment, suite, name, _utf8(variant), unit, case.better, case.control)
            place = (boot.index, boot.block, boot.started_at, list(boot.disturbed))
            rows.append((*about, *place, point.operations, point.score, remarks))
    return rows


def _utf8(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def _page(evidence: Evidence) -> str:
    from kdyno.report.page import page

    return page(evidence)


def _effects(evidence: Evidence, format: str) -> Exported:
    from kdyno.report.drawings import picture

    return picture("effects", Evidence(evidence.verdict), format)


EXPORTERS = (
    Exporter(
        "benchstat",
        "Go's benchmark format, for `benchstat -col variant FILE`",
        ".bench",
        benchstat,
        needs_run=True,
    ),
    Exporter(
        "csv", "one line per effect (or figure), full precision, for spreadsheets", ".csv", csv
    ),
    Exporter(
        "html",
        "the whole report as one file: charts, tables, every boot, how to do it again",
        ".html",
        _page,
        needs_run=True,
    ),
    Exporter(
        "json",
        "the whole verdict for programs; fields are added over time, never changed",
        ".json",
        lambda evidence: evidence.verdict.to_json() + "\n",
    ),
    Exporter(
        "junit",
        "JUnit XML for CI: slower is a failure, failed an error, inconclusive skipped",
        ".xml",
        lambda evidence: junit(evidence.verdict),
    ),
    Exporter(
        "markdown",
        "a summary for a pull request or a page: the answer, what changed, the rest folded",
        ".md",
        lambda evidence: markdown(evidence.verdict),
    ),
    Exporter(
        "parquet",
        "one row per boot and case with its score, for pandas, polars, DuckDB, R",
        ".parquet",
        parquet,
        needs_run=True,
        is_text=False,
    ),
    Exporter(
        "png",
        "the same drawing as a picture, two pixels for one",
        ".png",
        lambda evidence: _effects(evidence, "png"),
        is_text=False,
    ),
    Exporter(
        "svg",
        "the dot chart of effects with intervals, as a drawing",
        ".svg",
        lambda evidence: _effects(evidence, "svg"),
    ),
)
