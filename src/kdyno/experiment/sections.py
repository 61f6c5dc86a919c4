# SPDX-License-Identifier: MIT
"""The sections [machine], [[suite]] and [measure]."""

from __future__ import annotations

import re
import shlex
from fnmatch import fnmatchcase
from pathlib import PurePosixPath

from kdyno.experiment.keys import TABLES
from kdyno.experiment.model import (
    ACCELS,
    FEWEST_LINKS,
    INTERLEAVES,
    METRICS,
    MOST_LINKS,
    Machine,
    Measure,
    SuiteUse,
)
from kdyno.experiment.table import NAME, NAME_RULE, Table
from kdyno.experiment.vocabulary import RUN_SUITE, Vocabulary
from kdyno.reading.mistakes import Mistakes, quoted, spelled
from kdyno.reading.position import KeyPath

_SMALLEST_MEMORY_BYTES = 32 << 20
_MOST_BOOTS = 100_000
_USUAL_LINKS = 8
_PROFILES = ("none", "perf", "gprof", "count")


def read_machine(data: object, vocabulary: Vocabulary, mistakes: Mistakes) -> Machine:
    table = Table(data, ("machine",), mistakes, TABLES["machine"])
    return Machine(
        kind=table.word("kind", tuple(vocabulary.machines), Machine.kind),
        cpus=table.integer("cpus", Machine.cpus, 1, 1024),
        memory_bytes=table.memory("memory", Machine.memory_bytes, _SMALLEST_MEMORY_BYTES),
        timeout_s=table.number("timeout", 0.0, 7 * 86_400, "seconds") or None,
        accel=table.word("accel", ACCELS, Machine.accel),
    )


def read_measure(data: object, mistakes: Mistakes) -> Measure:
    table = Table(data, ("measure",), mistakes, TABLES["measure"])
    max_boots = table.integer("max_boots", Measure.max_boots, 2, _MOST_BOOTS)
    default_min = min(Measure.min_boots, max_boots)
    min_boots = table.integer("min_boots", default_min, 2, _MOST_BOOTS)
    if min_boots > max_boots:
        mistakes.add(
            table.at("min_boots"),
            f"min_boots is {min_boots}, more than max_boots, which is {max_boots}",
        )
    seed = table.integer("seed", -1, 0, (1 << 63) - 1)
    return Measure(
        precision=table.fraction("precision", Measure.precision),
        max_boots=max_boots,
        min_boots=min_boots,
        max_minutes=table.number("max_minutes", 0.0, 60 * 24 * 365, "minutes") or None,
        equivalent=table.fraction("equivalent", Measure.equivalent),
        confidence=table.fraction("confidence", Measure.confidence, 0.5, 0.9999),
        profile=table.word("profile", _PROFILES, Measure.profile),
        seed=None if seed < 0 else seed,
        calibrate=table.flag("calibrate"),
        interleave=table.word("interleave", INTERLEAVES, Measure.interleave),
        metric=table.word("metric", METRICS, Measure.metric),
        exact_boots=table.integer("exact_boots", Measure.exact_boots, 1, 100),
        insist=table.flag("insist"),
        apart=table.flag("apart"),
    )


def read_layouts(data: object, mistakes: Mistakes) -> int:
    """[layout]: the number of links, 0 without it."""
    if data is None:
        return 0
    table = Table(data, ("layout",), mistakes, TABLES["layout"])
    return table.integer("draws", _USUAL_LINKS, FEWEST_LINKS, MOST_LINKS)


def read_suites(data: object, vocabulary: Vocabulary, mistakes: Mistakes) -> tuple[SuiteUse, ...]:
    """All [[suite]] entries; the same case of a suite in two of them is a mistake."""
    if not isinstance(data, list):
        mistakes.add(("suite",), "suites are written [[suite]], in double brackets")
        return ()
    if not data:
        mistakes.add(
            ("suite",), "no [[suite]]: nothing would be measured", allowed=sorted(vocabulary.suites)
        )
        return ()
    uses = []
    taken: dict[tuple[str, str], KeyPath] = {}
    for index, entry in enumerate(data):
        path: KeyPath = ("suite", index)
        use = _read_suite(Table(entry, path, mistakes, TABLES["suite"]), vocabulary)
        if use is None:
            continue
        for case in use.cases:
            other = taken.setdefault((use.name, case), path)
            if other != path:
                mistakes.add(
                    (*path, "cases"),
                    f"the case {case} of {use.name} is in {spelled(other)} already",
                )
        uses.append(use)
    return tuple(uses)


def _read_suite(table: Table, vocabulary: Vocabulary) -> SuiteUse | None:
    known = tuple(dict.fromkeys((*vocabulary.suites, RUN_SUITE)))
    if "name" not in table:
        table.mistakes.add(table.path, "name is missing: which suite?", allowed=known)
        return None
    name = table.word("name", known, "")
    command = _command(table)
    seconds = table.number("seconds", SuiteUse.seconds, 3600, "seconds")
    operations = table.integer("operations", 0, 1, 1 << 62) or None
    if "seconds" in table and "operations" in table:
        table.mistakes.add(
            table.at("operations"), "operations and seconds exclude each other: leave one out"
        )
    if not name:
        return None
    if name != RUN_SUITE:
        for key in ("figure", "unit", "better"):
            if key in table:
                table.mistakes.add(table.at(key), f'{key} belongs to the suite "{RUN_SUITE}"')
        if "command" in table:
            table.mistakes.add(
                table.at("command"),
                f'command belongs to the suite "{RUN_SUITE}"; the suite {quoted(name)} has cases',
            )
        cases = _cases(table, name, vocabulary.suites[name])
        return SuiteUse(name, cases, seconds, operations)
    if "command" not in table:
        table.mistakes.add(
            table.path, 'the suite "run" needs command, for example command = "sort words.txt"'
        )
        return None
    figure, unit, better = _figure(table)
    case = _run_case(table, command)
    return SuiteUse(name, case, seconds, operations, command, figure, unit, better)


def _figure(table: Table) -> tuple[str | None, str, str]:
    """How the figure is read from what the command prints; None: the command's time is it."""
    if "figure" not in table:
        for key in ("unit", "better"):
            if key in table:
                table.mistakes.add(table.at(key), f"{key} goes with figure; a time is in s, lower")
        return None, "", ""
    figure = table.text("figure")
    try:
        groups = re.compile(figure).groups
    except re.error as problem:
        table.mistakes.add(
            table.at("figure"), f"{quoted(figure)} is not a regular expression: {problem}"
        )
        groups = 1
    if groups != 1:
        table.mistakes.add(
            table.at("figure"),
            f"{quoted(figure)} has {groups} groups: the figure is what one group (…) matches",
        )
    for key in ("unit", "better"):
        if key not in table:
            table.mistakes.add(table.path, f"figure needs {key} beside it")
    return figure, table.text("unit"), table.word("better", ("higher", "lower"), "lower")


def _cases(table: Table, suite: str, known: tuple[str, ...]) -> tuple[str, ...]:
    """The cases meant, in the order given; what a pattern matches in the suite's order."""
    if "cases" not in table:
        return known
    asked = table.texts("cases")
    if isinstance(table.raw("cases"), list) and not table.raw("cases"):
        table.mistakes.add(
            table.at("cases"), "no case: leave the key out for all of them", allowed=known
        )
    found: dict[str, bool] = {}
    for path, text in asked:
        is_pattern = any(letter in text for letter in "*?[")
        matched = [case for case in known if fnmatchcase(case, text)] if is_pattern else [text]
        if not matched or not set(matched) <= set(known):
            what = "matches no case" if is_pattern else "is not a case"
            table.mistakes.add(
                path, f"{quoted(text)} {what} of {suite}", allowed=known, near=text, found=text
            )
        elif not is_pattern and found.get(text):
            table.mistakes.add(path, f"{quoted(text)} is listed twice", found=text)
        else:
            found.update({case: found.get(case, False) or not is_pattern for case in matched})
    return tuple(found)


def _command(table: Table) -> tuple[str, ...]:
    raw = table.raw("command")
    if isinstance(raw, list):
        words = tuple(text for _path, text in table.texts("command"))
    else:
        try:
            words = tuple(shlex.split(table.text("command")))
        except ValueError as problem:
            table.mistakes.add(table.at("command"), f"{quoted(raw)}: {problem}")
            return ()
    if "command" in table and not words and isinstance(raw, str | list):
        table.mistakes.add(table.at("command"), "the command is empty")
    return words


def _run_case(table: Table, command: tuple[str, ...]) -> tuple[str, ...]:
    """The one name under which the command's figures appear."""
    if "cases" not in table:
        program = PurePosixPath(command[0]).name if command else ""
        return (program if NAME.fullmatch(program) else "command",)
    asked = table.texts("cases")
    if isinstance(table.raw("cases"), list) and len(asked) != 1:
        table.mistakes.add(
            table.at("cases"), 'the suite "run" times one command: cases holds one name for it'
        )
    for path, text in asked:
        if not NAME.fullmatch(text):
            table.mistakes.add(path, f"{quoted(text)} is not a name: {NAME_RULE}", found=text)
    return tuple(text for _path, text in asked[:1])
