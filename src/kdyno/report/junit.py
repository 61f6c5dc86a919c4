# SPDX-License-Identifier: MIT
"""JUnit XML, which CI systems show as test results.

By the rules of ``--fail-on slower``: slower is a failure, unless it is too little to matter; what
failed is an error; what is undecided (inconclusive, or slower inside the noise floor) is skipped.
Controls and the baseline's own copy never fail: when they move, the machine is to blame. Levels
of factors are tests as in the gate: those of kernels, on average and at each level of another.
"""

from __future__ import annotations

from xml.etree import ElementTree as xml

from kdyno.report import effects, figures, plain
from kdyno.report.gate import counts
from kdyno.report.groups import groups
from kdyno.report.sentence import answer
from kdyno.store.verdict import CaseValue, Effect, FactorEffect, Verdict

_MOST_REMARKS = 100
_COUNTED = {"failure": "failures", "error": "errors", "skipped": "skipped"}


def export(verdict: Verdict) -> str:
    """One test suite per variant, one test per case; a variant that failed has the test "boot".

    The factors are one test suite more. A run that compares nothing passes with its figures.
    """
    root = xml.Element("testsuites", name=plain.name(verdict.experiment))
    totals: dict[str, int] = {}
    found = {group.variant: group.effects for group in groups(verdict)}
    remarks = _Remarks(verdict)
    for variant in dict.fromkeys([*found, *verdict.failed]):
        suite = xml.SubElement(root, "testsuite", name=plain.name(variant))
        remarks.write(suite, variant)
        for it in found.get(variant, ()):
            _test(suite, it, verdict)
        if variant in verdict.failed:
            test = _testcase(suite, variant, "boot")
            _outcome(test, "error", "failed", plain.sentence(verdict.failed[variant]))
        _counted(suite, totals)
    if verdict.factors is not None:
        suite = xml.SubElement(root, "testsuite", name="factors")
        for row in verdict.factors.effects:
            if counts(row, verdict.factors.of_cases):
                _factor(suite, row)
        _counted(suite, totals)
    if verdict.values:
        suite = xml.SubElement(root, "testsuite", name=plain.name(verdict.baseline))
        remarks.write(suite, verdict.baseline)
        for value in verdict.values:
            _value(suite, value, verdict.baseline)
        _counted(suite, totals)
    for key, number in totals.items():
        root.set(key, str(number))
    xml.indent(root, " ")
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + xml.tostring(root, "unicode") + "\n"


class _Remarks:
    """The question, the answer, and what to beware of: at the head of each test suite."""

    def __init__(self, verdict: Verdict) -> None:
        told = {"question": verdict.question, "answer": answer(verdict)}
        self._told = [(key, plain.sentence(text)) for key, text in told.items()]
        self._about: dict[str | None, list[tuple[int, str]]] = {}
        for place, flag in enumerate(verdict.flags):
            of = self._about.setdefault(flag.variant, [])
            if len(of) < _MOST_REMARKS:
                of.append((place, plain.sentence(f"{flag.kind}: {flag.text}")))

    def write(self, suite: xml.Element, variant: str) -> None:
        properties = xml.SubElement(suite, "properties")
        mine = sorted([*self._about.get(None, ()), *self._about.get(variant, ())])[:_MOST_REMARKS]
        for key, text in (*self._told, *(("remark", text) for _, text in mine)):
            xml.SubElement(properties, "property", name=key, value=text)


def _counted(suite: xml.Element, totals: dict[str, int]) -> None:
    """Writes how many tests of each outcome a suite has, and adds them up."""
    found = {"tests": len(suite.findall("testcase"))}
    for kind, plural in _COUNTED.items():
        found[plural] = len(suite.findall(f"testcase/{kind}"))
    for key, number in found.items():
        suite.set(key, str(number))
        totals[key] = totals.get(key, 0) + number


def _testcase(suite: xml.Element, variant: str, name: str) -> xml.Element:
    # Without a time some readers refuse the file; the time of measuring is not a test's duration.
    return xml.SubElement(suite, "testcase", classname=plain.name(variant), name=name, time="0")


def _outcome(test: xml.Element, kind: str, word: str, text: str) -> None:
    xml.SubElement(test, kind, message=text, type=word).text = text


def _test(suite: xml.Element, it: Effect, verdict: Verdict) -> None:
    test = _testcase(suite, it.variant, f"{plain.name(it.suite)}/{plain.name(it.case)}")
    told = _told(it)
    no_claim = it.control or it.variant == verdict.copy_of_baseline
    if it.verdict == "failed":
        _outcome(test, "error", "failed", plain.sentence(it.reason or "no figure"))
    elif it.verdict == "slower" and not it.equivalent_too and not no_claim:
        if it.inside_noise_floor:
            _outcome(test, "skipped", "inside-noise-floor", f"{told}, inside the noise floor")
        else:
            _outcome(test, "failure", "slower", told)
    elif it.verdict == "inconclusive" and not no_claim:
        needed = it.predicted_blocks
        more = f", about {needed} blocks would settle it" if needed else ""
        _outcome(test, "skipped", "inconclusive", told + more)
    else:
        xml.SubElement(test, "system-out").text = told


def _factor(suite: xml.Element, it: FactorEffect) -> None:
    level = f"{plain.name(it.factor)} {plain.name(it.level)}"
    place = f" at {plain.name(it.other)} {plain.name(it.at)}" if it.other and it.at else ""
    name = f"{level}{place} in {plain.name(it.suite)}/{plain.name(it.case)}"
    test = _testcase(suite, f"factors.{plain.name(it.factor)}", name)
    told = f"{effects.word(it)} {figures.effect(it.ratio)} {_interval(it)}".rstrip()
    if it.verdict == "slower" and not it.equivalent_too:
        _outcome(test, "failure", "slower", told)
    elif it.verdict in ("inconclusive", "failed"):  # a cell that is missing has an error of its own
        _outcome(test, "skipped", it.verdict, told)
    else:
        xml.SubElement(test, "system-out").text = told


def _value(suite: xml.Element, it: CaseValue, variant: str) -> None:
    test = _testcase(suite, variant, f"{plain.name(it.suite)}/{plain.name(it.case)}")
    if it.value is None:
        _outcome(test, "error", "failed", plain.sentence(it.reason or "no figure"))
    else:
        xml.SubElement(test, "system-out").text = figures.quantity(it.value, plain.name(it.unit))


def _interval(it: FactorEffect) -> str:
    return f"({figures.interval(it.ci)})" if it.ci is not None else ""


def _told(it: Effect) -> str:
    unit = plain.name(it.unit)
    parts: list[str] = [effects.word(it)]
    if it.ratio is not None:
        parts.append(figures.effect(it.ratio))
        if it.ci is not None:
            parts.append(f"({figures.interval(it.ci)})")
        parts.append(
            f"{figures.quantity(it.baseline_value, unit)} to "
            f"{figures.quantity(it.paired_value, unit)}"
        )
    return f"{' '.join(parts)}, {figures.count(it.blocks, 'block')}"
