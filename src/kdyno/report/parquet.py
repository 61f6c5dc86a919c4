# SPDX-License-Identifier: MIT
"""Every score of every boot as a Parquet table, for notebooks and databases."""

from __future__ import annotations

import io
from typing import Any

from kdyno.errors import ToolError
from kdyno.report.evidence import Evidence
from kdyno.store.verdict import Kinds

NAME = "parquet"
HELP = "one row per boot and case with its score, for pandas, polars, DuckDB, R"
SUFFIX = ".parquet"
IS_TEXT = False

_TEXT = ("experiment", "suite", "case", "variant", "unit", "better")


def export_run(evidence: Evidence) -> bytes:
    """Parquet, zstd. ToolError says how to install pyarrow when it is missing."""
    try:
        import pyarrow  # type: ignore[import-untyped,unused-ignore]
        from pyarrow import parquet  # type: ignore[import-untyped,unused-ignore]
    except ImportError:
        raise ToolError(
            "Parquet needs pyarrow, which is not installed: `pip install kdyno[parquet]`, "
            "or use -f csv"
        ) from None
    names = pyarrow.dictionary(pyarrow.int32(), pyarrow.string())
    schema = pyarrow.schema(
        [(name, names) for name in _TEXT]
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
    for row in _rows(evidence):
        for name, value in zip(schema.names, row, strict=True):
            columns[name].append(value)
    out = io.BytesIO()
    parquet.write_table(pyarrow.table(columns, schema), out, compression="zstd")
    return out.getvalue()


def _rows(evidence: Evidence) -> list[tuple[Any, ...]]:
    """In the order of the schema. Names are given as they are: a column is not a terminal."""
    experiment = _utf8(evidence.verdict.experiment)
    rows = []
    kinds = Kinds(evidence.verdict.flags)
    for case, variant, points in evidence.cells:
        suite, name, unit = map(_utf8, (case.suite, case.case, case.unit))
        remarks = [_utf8(kind) for kind in kinds.about(variant, case.suite, case.case)]
        for point in points:
            boot = point.boot
            asked = (experiment, suite, name, _utf8(variant), unit, case.better, case.control)
            place = (boot.index, boot.block, boot.started_at, list(boot.disturbed))
            rows.append((*asked, *place, point.operations, point.score, remarks))
    return rows


def _utf8(text: str) -> str:
    return text.encode("utf-8", "replace").decode()
