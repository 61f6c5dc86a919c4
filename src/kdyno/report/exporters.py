# SPDX-License-Identifier: MIT
"""What a run can be exported in: one row of EXPORTERS each, and those that the caller adds."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any, NamedTuple
from xml.etree import ElementTree as xml

from kdyno import deferred
from kdyno.errors import ToolError, UsageError
from kdyno.report import effects, figures, gate, plain, tables
from kdyno.report.evidence import Evidence
from kdyno.report.groups import Group, displayed, groups
from kdyno.report.sentence import answer
from kdyno.report.show import grid as grids
from kdyno.report.show.grid import Column, Grid, Value, escaped, of_rows
from kdyno.report.show.html import ENVIRONMENT
from kdyno.store.verdict import CaseValue, Effect, FactorEffect, Kinds, Verdict, deciding


@dataclass(frozen=True)
class Exporter:
    name: str
    suffix: str
    """With the dot; may have two (``.speedscope.json``)."""
    export: Callable[[Evidence], str | bytes]
    """Bytes for formats that are no text. It copes with evidence that is a verdict alone."""
    needs_run: bool = False
    """It shows boots."""
    only_boots: bool = False
    """And nothing else: a verdict alone has nothing to show."""
    is_text: bool = True


def exporters(more: Iterable[ModuleType] = ()) -> dict[str, Exporter]:
    """Name → exporter, by name. more: modules with NAME, SUFFIX, ``export_run(evidence)``."""
    added = [Exporter(of.NAME, of.SUFFIX, of.export_run, needs_run=True) for of in more]
    return {each.name: each for each in sorted((*EXPORTERS, *added), key=lambda each: each.name)}


def exporter(name: str, more: Iterable[ModuleType] = ()) -> Exporter:
    """The exporter of that name, or of a file's suffix (``.md``)."""
    formats = exporters(more)
    for each in formats.values():
        if name in (each.name, each.suffix):
            return each
    raise UsageError(f"{name}: no such format; there are {', '.join(formats)}")


def exporter_for(file: str, more: Iterable[ModuleType] = ()) -> Exporter:
    """The exporter that a file's name asks for: the one with the longest suffix that fits."""
    formats = exporters(more)
    fitting = [each for each in formats.values() if file.lower().endswith(each.suffix)]
    if fitting:
        return max(fitting, key=lambda each: len(each.suffix))
    names = ", ".join(f"{each.suffix} {name}" for name, each in formats.items())
    raise UsageError(f"-o {file}: which format? Add -f FORMAT, or end the name in one of: {names}")


CSV_COLUMNS = (
    *("experiment", "baseline", "variant", "suite", "case", "unit", "better", "control"),
    *("baseline_value", "value", "ratio", "ci_low", "ci_high", "ci_raw_low", "ci_raw_high"),
    *("mean_ratio", "mean_low", "mean_high", "noise_floor", "blocks", "verdict", "equivalent_too"),
    *("inside_noise_floor", "predicted_blocks", "reason", "value_low", "value_high", "remarks"),
    *("exact", "paired_value", "throughput_ratio", "throughput_low", "throughput_high"),
    "throughput_decides",
)


def csv(evidence: Evidence) -> str:
    """One line per effect; per case, where nothing was compared.

    A variant without any effect has one line with the verdict ``failed`` and the reason. A figure
    of a run that compares nothing is a line without a verdict; its ``blocks`` are repetitions, its
    interval ``value_low``, ``value_high`` is in the case's unit."""
    verdict = evidence.verdict
    items: list[dict[str, Value]] = []
    for effect in verdict.effects:
        item = {column: getattr(effect, column, None) for column in CSV_COLUMNS}
        summed = effect.throughput
        item["throughput_ratio"] = summed.ratio if summed else None
        item["throughput_decides"] = summed.decides if summed else None
        intervals = {"ci": effect.ci, "ci_raw": effect.ci_raw, "mean": effect.mean_ci}
        for name, ends in (intervals | {"throughput": summed.ci if summed else None}).items():
            item[f"{name}_low"], item[f"{name}_high"] = ends or (None, None)
        items.append(item)
    measured = {effect.variant for effect in verdict.effects}
    for variant, reason in verdict.failed.items():
        if variant not in measured:
            items.append({"variant": variant, "verdict": "failed", "reason": reason, "blocks": 0})
    for value in verdict.values:
        item = value.model_dump(include={"suite", "case", "unit", "better", "value", "reason"})
        item["value_low"], item["value_high"] = value.ci or (None, None)
        items.append({**item, "blocks": value.repetitions, "variant": verdict.baseline})
    common = {"experiment": verdict.experiment, "baseline": verdict.baseline}
    kinds = Kinds(verdict.flags)
    for item in items:
        about = (str(item.get(key) or "") for key in ("variant", "suite", "case"))
        item["remarks"] = " ".join(kinds.about(*about))
    rows = [[(item | common).get(column) for column in CSV_COLUMNS] for item in items]
    return grids.csv(of_rows(CSV_COLUMNS, rows))


# A last "-8" is taken for the number of CPUs and cut off, so fscopy-256 and fscopy-1024 would be
# one benchmark; "/size=8" is how Go writes a parameter.
_LAST_NUMBER = re.compile(r"-(?=\d+$)")


def benchstat(evidence: Evidence) -> str:
    """One line per boot and case in time order, so that benchstat meets the baseline first and
    divides by it. Go proposal 14313, with the unit lines of golang.org/x/perf/benchfmt."""

    def word(text: str) -> str:
        return _LAST_NUMBER.sub("=", re.sub(r"[\s/]+", "_", plain.name(text)))

    def unit_of(text: str) -> str:
        return re.sub(r"\s+", "_", plain.name(text))

    verdict = evidence.verdict
    lines = [f"experiment: {plain.name(verdict.experiment)}"]
    # A key of its own keeps benchstat from putting such a run beside another without a word.
    lines += ["sandbox: none"] if verdict.outside else []
    units: dict[str, str] = {}
    for case in evidence.cases:
        units.setdefault(unit_of(case.unit), case.better)
    lines += [f"Unit {unit} better={better}" for unit, better in units.items()]
    of: dict[str, list[str]] = {variant: [] for variant in evidence.variants}
    for case, variant, points in evidence.cells:
        suite = word(case.suite)
        name = f"Benchmark{suite[:1].upper()}{suite[1:]}/{word(case.case)}"
        for point in points:
            count = max(1, round(point.operations))
            of[variant].append(f"{name} {count} {point.score:.17g} {unit_of(case.unit)}")
    for variant, measured in of.items():
        lines += ["", f"variant: {plain.name(variant)}", *measured]
    return "\n".join(lines) + "\n"


def parquet(evidence: Evidence) -> bytes:
    """Parquet, zstd; names are given as they are, for a column is not a terminal. ToolError says
    how to install pyarrow when it is missing."""
    try:
        import pyarrow  # type: ignore[import-untyped,unused-ignore]
        from pyarrow.parquet import write_table  # type: ignore[import-untyped,unused-ignore]
    except ImportError:
        raise ToolError(
            "Parquet needs pyarrow, which is not installed: `pip install kdyno[parquet]`, "
            "or use -f csv"
        ) from None

    def utf8(text: str) -> str:
        return text.encode("utf-8", "replace").decode()

    string, kinds = pyarrow.string(), Kinds(evidence.verdict.flags)
    names = ("experiment", "suite", "case", "variant", "unit", "better")
    schema = pyarrow.schema(
        [(name, pyarrow.dictionary(pyarrow.int32(), string)) for name in names]
        + [
            ("control", pyarrow.bool_()),
            ("boot", pyarrow.int32()),
            ("block", pyarrow.int32()),
            ("started_at", string),
            ("disturbed", pyarrow.list_(string)),
            ("operations", pyarrow.float64()),
            ("score", pyarrow.float64()),
            ("remarks", pyarrow.list_(string)),
        ],
        metadata={"baseline": utf8(evidence.verdict.baseline), "run": utf8(evidence.name)},
    )
    rows = []
    for case, variant, points in evidence.cells:
        about = (evidence.verdict.experiment, case.suite, case.case, variant, case.unit)
        cell: dict[str, Any] = dict(zip(names, (*map(utf8, about), case.better), strict=True))
        remarks = [utf8(kind) for kind in kinds.about(variant, case.suite, case.case)]
        cell |= {"control": case.control, "remarks": remarks}
        for point in points:
            boot = point.boot
            place = {"boot": boot.index, "block": boot.block, "started_at": boot.started_at}
            measured = {"operations": point.operations, "score": point.score}
            rows.append({**cell, **place, "disturbed": list(boot.disturbed), **measured})
    out = io.BytesIO()
    write_table(pyarrow.Table.from_pylist(rows, schema), out, compression="zstd")
    return out.getvalue()


_MOST_REMARKS = 100
_COUNTED = {"failure": "failures", "error": "errors", "skipped": "skipped"}


class Test(NamedTuple):
    """A test case of JUnit. outcome: one of _COUNTED with its type; none: it passed."""

    name: str
    text: str
    outcome: tuple[str, str] | None = None
    group: str = ""
    """Its class; empty: that of its suite."""
    more: str = ""
    """What stands below the message, in place of the text."""


class TestSuite(NamedTuple):
    name: str
    tests: Sequence[Test]
    properties: Sequence[tuple[str, str]] = ()


def junit(verdict: Verdict) -> str:
    """JUnit XML: a suite per variant, a test per case; a variant that failed has the test "boot".

    By the rules of ``--fail-on slower``: slower is a failure, unless it is too little to matter;
    what failed is an error; what is undecided (inconclusive, or slower inside the noise floor) is
    skipped. Controls and the baseline's own copy never fail: when they move, the machine is to
    blame. Levels of factors are tests as in the gate: those of kernels, on average and at each
    level of another. A run that compares nothing passes with its figures."""
    of_variant = {group.variant: group.effects for group in groups(verdict)}
    about = [("question", verdict.question), ("answer", answer(verdict))]
    remarks: dict[str | None, list[tuple[int, str]]] = {}
    for place, flag in enumerate(verdict.flags):
        of = remarks.setdefault(flag.variant, [])
        if len(of) < _MOST_REMARKS:
            of.append((place, f"{flag.kind}: {effects.about(flag)}{flag.text}"))

    def suite(variant: str, tests: list[Test]) -> TestSuite:
        """At its head the question, the answer, and what to beware of."""
        own = sorted([*remarks.get(None, ()), *remarks.get(variant, ())])[:_MOST_REMARKS]
        return TestSuite(variant, tests, [*about, *(("remark", text) for _, text in own)])

    suites = []
    for variant in dict.fromkeys([*of_variant, *verdict.failed]):
        tests = [_effect_test(effect, verdict) for effect in of_variant.get(variant, ())]
        if variant in verdict.failed:
            reason = plain.sentence(verdict.failed[variant])
            tests.append(Test("boot", reason, ("error", "failed")))
        suites.append(suite(variant, tests))
    if (table := verdict.factors) is not None:
        rows = [deciding(row) for row in table.effects if gate.counts(row, table.of_cases)]
        suites.append(TestSuite("factors", list(map(_factor_test, rows))))
    if verdict.values:
        suites.append(suite(verdict.baseline, list(map(_value_test, verdict.values))))
    return junit_xml(verdict.experiment, suites)


def junit_xml(name: str, suites: Sequence[TestSuite]) -> str:
    root = xml.Element("testsuites", name=plain.name(name))
    totals = dict.fromkeys(("tests", *_COUNTED.values()), 0) if suites else {}
    for suite in suites:
        element = xml.SubElement(root, "testsuite", name=plain.name(suite.name))
        if suite.properties:
            properties = xml.SubElement(element, "properties")
            for key, text in suite.properties:
                xml.SubElement(properties, "property", name=key, value=plain.sentence(text))
        counts = dict.fromkeys(totals, 0)
        for test in suite.tests:
            # Without a time some readers refuse the file; that of measuring is not a test's.
            names = {"classname": plain.name(test.group or suite.name), "name": test.name}
            case = xml.SubElement(element, "testcase", names, time="0")
            counts["tests"] += 1
            if test.outcome is not None:
                kind, word = test.outcome
                about = xml.SubElement(case, kind, message=test.text, type=word)
                about.text = test.more or test.text
                counts[_COUNTED[kind]] += 1
            elif test.text:
                xml.SubElement(case, "system-out").text = test.text
        for key, number in counts.items():
            element.set(key, str(number))
            totals[key] += number
    for key, number in totals.items():
        root.set(key, str(number))
    xml.indent(root, " ")
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + xml.tostring(root, "unicode") + "\n"


def _effect_test(effect: Effect, verdict: Verdict) -> Test:
    name, unit = f"{plain.name(effect.suite)}/{plain.name(effect.case)}", plain.name(effect.unit)
    counted = not effect.control and effect.variant != verdict.copy_of_baseline
    if effect.verdict == "failed":
        outcome = ("error", "failed") if counted else None
        return Test(name, plain.sentence(effect.reason or "no figure"), outcome)
    text = effects.word(effect)
    if effect.ratio is not None:
        values = (effect.baseline_value, effect.paired_value)
        text += f" {effects.in_figures(effect)}"
        text += f" {' to '.join(figures.quantity(value, unit) for value in values)}"
    text += f", {figures.count(effect.blocks, 'link' if effect.links else 'block')}"
    outcome = None
    if not counted:
        return Test(name, text)
    if effect.verdict == "slower" and not effect.equivalent_too:
        outcome = ("failure", "slower")
        if effect.inside_noise_floor:
            text, outcome = f"{text}, inside the noise floor", ("skipped", "inside-noise-floor")
    elif effect.verdict == "inconclusive":
        needed, outcome = effect.predicted_blocks, ("skipped", "inconclusive")
        text += f", about {needed} blocks would settle it" if needed else ""
    return Test(name, text, outcome)


def _factor_test(effect: FactorEffect) -> Test:
    place = f" at {plain.name(effect.other or '')} {plain.name(effect.at or '')}"
    at = place if effect.other and effect.at else ""
    case = f"{plain.name(effect.suite)}/{plain.name(effect.case)}"
    name = f"{plain.name(effect.factor)} {plain.name(effect.level)}{at} in {case}"
    outcome = None
    if effect.verdict == "slower" and not effect.equivalent_too:
        outcome = ("failure", "slower")
    elif effect.verdict in ("inconclusive", "failed"):  # a missing cell has an error of its own
        outcome = ("skipped", effect.verdict)
    text = f"{effects.word(effect)} {effects.in_figures(effect)}"
    return Test(name, text, outcome, f"factors.{plain.name(effect.factor)}")


def _value_test(value: CaseValue) -> Test:
    name = f"{plain.name(value.suite)}/{plain.name(value.case)}"
    if value.value is None:
        return Test(name, plain.sentence(value.reason or "no figure"), ("error", "failed"))
    return Test(name, figures.quantity(value.value, plain.name(value.unit)))


_MOST_UNFOLDED = 8
"""Effects up to which all of them stand in the open."""


def markdown(whole: Verdict) -> str:
    """A summary to post to a pull request, or to paste into an issue or a page: the answer and what
    changed; all the rest is there too, folded where it is long."""
    verdict = displayed(whole)
    tested = [effect for of in groups(whole) if not of.is_copy for effect in of.tested]
    together: list[Any] = [*whole.groups, *(whole.factors.effects if whole.factors else ())]
    moved = [row.verdict in ("faster", "slower") and not row.equivalent_too for row in together]
    text = _TEXTS.get_template("summary.md").render(
        whole=whole,
        verdict=verdict,
        answer=answer(whole),
        variants=[_variant_grid(verdict, group) for group in groups(verdict)],
        folded=len(verdict.effects) > _MOST_UNFOLDED,
        tested=tested,
        changed=_changed(verdict, tested),
        moved_together=any(moved),
        tables=tables,
        effects=effects,
        uncorrected=any(map(effects.uncorrected, verdict.effects)),
    )
    return re.sub(r"\n{3,}", "\n\n", text).strip("\n") + "\n"


_TEXTS = ENVIRONMENT.overlay(autoescape=False)  # each text is escaped by name, as Markdown
_TEXTS.filters = {
    **ENVIRONMENT.filters,
    "name": lambda text: escaped(plain.name(text)),
    "sentence": lambda text: escaped(plain.sentence(text)),
    "escaped": escaped,
    "table": grids.markdown,
    "titled_table": lambda grid: grids.markdown(
        replace(grid, columns=[replace(grid.columns[0], head=grid.title), *grid.columns[1:]])
    ),
}
_LOUD = ("differs-by-machine", "tail", "quantile")
_TEXTS.tests = {**_TEXTS.tests, "loud": lambda kind: "moved" in kind or kind in _LOUD}


def _changed(verdict: Verdict, tested: Sequence[Effect]) -> Grid | None:
    """What is faster, slower or failed in any variant, slower first."""
    order = ("slower", "failed", "faster")
    rows = [effect for effect in tested if effect.verdict in order and not effect.equivalent_too]
    rows = sorted(rows, key=lambda effect: order.index(effect.verdict))[: len(verdict.effects)]
    columns = [
        Column("what changed", lambda effect: effects.case(effect, "before"), "name"),
        Column("variant", lambda effect: plain.name(effect.variant)),
        *effects.columns(verdict, rows, "effect instructions interval verdict"),
    ]
    return Grid(columns, rows) if rows else None


def _variant_grid(verdict: Verdict, group: Group) -> Grid:
    title = f"{plain.name(group.variant)} ÷ {plain.name(verdict.baseline)}"
    title += " (the same kernel: A/A)" if group.is_copy else ""
    names = "baseline value effect instructions interval verdict floor blocks"
    columns = [
        Column(title, lambda effect: effects.case(effect, "before"), "name"),
        *effects.columns(verdict, group.effects, names),
    ]
    return Grid(columns, group.effects)


_picture = deferred("kdyno.report.charts.panels:picture")
EXPORTERS = (
    Exporter("benchstat", ".bench", benchstat, needs_run=True, only_boots=True),
    Exporter("csv", ".csv", csv),
    Exporter("html", ".html", deferred("kdyno.report.page:page"), needs_run=True),
    Exporter("json", ".json", lambda evidence: evidence.verdict.to_json() + "\n"),
    Exporter("junit", ".xml", lambda evidence: junit(evidence.verdict)),
    Exporter("markdown", ".md", lambda evidence: markdown(evidence.verdict)),
    Exporter("parquet", ".parquet", parquet, needs_run=True, only_boots=True, is_text=False),
    Exporter("png", ".png", lambda evidence: _picture(evidence.verdict, "png"), is_text=False),
    Exporter("svg", ".svg", lambda evidence: _picture(evidence.verdict, "svg")),
)
