# SPDX-License-Identifier: MIT
"""An experiment file in, a checked ``Experiment`` out, or every mistake in it at once: the messages
name line, key, what was found, what is allowed and the nearest right word.

A file with [matrix] is one experiment over many commits, a pattern of experiments: wherever it says
``{ref}`` the one for a commit has that commit; apart from that, and from [matrix] itself, it is the
same file, line by line.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, NoReturn

from pydantic import BeforeValidator, Field, PlainValidator

from kdyno.errors import UsageError
from kdyno.experiment import cross
from kdyno.experiment.cross import VARIANT, CaseLevel, with_best
from kdyno.experiment.layer import (
    NO_SCHEDULER,
    RUN_SUITE,
    Layer,
    Level,
    Place,
    VariantLayer,
    Vocabulary,
    called,
    placed,
)
from kdyno.experiment.model import (
    NAME,
    NAME_RULE,
    Experiment,
    Flag,
    Layout,
    Machine,
    Measure,
    Name,
    Question,
    SuiteUse,
    Text,
    Variant,
)
from kdyno.reading.checked import Closed, keys_of
from kdyno.reading.checked import read as read_as
from kdyno.reading.mistakes import (
    KeyPath,
    Mistakes,
    Positions,
    nearest,
    quoted,
    refuse,
    spelled,
)

_LARGEST_BYTES = 1 << 20
_SYNTAX_PLACE = re.compile(r"\s*\(at line (\d+), column (\d+)\)$")
_SYNTAX_END = re.compile(r"\s*\(at end of document\)$")
_STATEMENT = re.compile(r"\s*(\[+[^\]]*\]+|[^=#]+?(?=\s*=))")
_ONE_LINE = "A text ends on its own line, with the quote that it begins with"
# What tomllib says first → what to do about it.
_HINTS = {
    "Invalid value": 'Text is written in quotes, "…"',
    "Illegal character '\\n'": _ONE_LINE,
    "Unterminated string": _ONE_LINE,
    'Expected "\'"': _ONE_LINE,
    "Unescaped": "A backslash is written twice, or the text in single quotes",
    "Unclosed array": "An array ends with ]",
    "Unclosed inline table": "A table { … } ends with }, on the same line",
    "Expected '='": "A line is KEY = VALUE, where KEY is letters, digits, _ and -",
    "Expected newline": "A line has one KEY = VALUE, and a text is in quotes",
    "Invalid statement": "A line is KEY = VALUE or [TABLE]",
}
REF = "{ref}"
_COMMITS = 'is "FROM..TO" or a list of commits'
_COMMIT = re.compile(r"[\w./~^@+-]{1,200}", re.ASCII)
_HEADER = re.compile(r"\s*\[")
_MATRIX = re.compile(r"\s*\[\s*matrix\s*\]\s*(#.*)?")


def _levels(value: object) -> object:
    """``jobs = [1, 4]`` as the levels that it is short for; anything else as it is.

    The values of a factor called ``cpus`` are CPUs of the machine, of any other a setting.
    """
    if not isinstance(value, dict):
        return value
    return {
        factor: {
            str(it): {"cpus": it} if factor == "cpus" else {"set": {factor: it}} for it in levels
        }
        if isinstance(levels, list)
        else levels
        for factor, levels in value.items()
    }


def _listed(value: object) -> object:
    if not isinstance(value, list):
        raise ValueError("suites are written [[suite]], in double brackets")
    return value


@dataclass(frozen=True)
class File(Closed):
    """The whole file. Factors are read one by one: they are of kernels or of cases."""

    name: Name = ""
    question: Question = ""
    baseline: Text = ""
    skip_unsupported: Annotated[Flag, Field(alias="skip-unsupported")] = False
    kernel: Layer = field(default_factory=Layer)
    variant: dict[Name, VariantLayer] = field(default_factory=dict)
    factor: Annotated[dict[Name, Any], BeforeValidator(_levels)] = field(default_factory=dict)
    machine: Machine = field(default_factory=Machine)
    suite: Annotated[tuple[SuiteUse, ...], BeforeValidator(_listed)] = ()
    measure: Measure = field(default_factory=Measure)
    layout: Layout | None = None
    matrix: Any = None


def _commits(value: object) -> tuple[str, ...] | str:
    refs = value.split("..", 1) if isinstance(value, str) and ".." in value else value
    if not isinstance(refs, list) or not refs or not all(isinstance(ref, str) for ref in refs):
        raise ValueError(_COMMITS)
    for ref in refs:
        if not _COMMIT.fullmatch(ref) or ".." in ref:
            raise ValueError(f"{ref!r} names no commit")
    if len(set(refs)) < len(refs):
        raise ValueError("a commit stands there twice")
    return value if isinstance(value, str) else tuple(refs)


@dataclass(frozen=True)
class Matrix(Closed):
    """Which commits: as listed, or "FROM..TO", those after the one up to the other."""

    refs: Annotated[tuple[str, ...] | str, PlainValidator(_commits)] = ()

    @property
    def span(self) -> tuple[str, str] | None:
        if not isinstance(self.refs, str):
            return None
        first, _dots, last = self.refs.partition("..")
        return first, last


TABLES: Mapping[str, tuple[str, ...]] = {
    name: keys_of(table)
    for name, table in {
        "": File,
        "layout": Layout,
        "matrix": Matrix,
        "kernel": Layer,
        "machine": Machine,
        "variant": VariantLayer,
        "factor": Level,
        "suite": SuiteUse,
        "measure": Measure,
    }.items()
}
"""Table → keys. ``variant`` stands for each [variant.NAME], ``factor`` for each level."""


def home_of(key: str) -> str:
    """The table that has ``key``, as it is written in the file; empty when none has."""
    names = {"": "the top of the file", "suite": "[[suite]]"}
    return next((names.get(it, f"[{it}]") for it, keys in TABLES.items() if key in keys), "")


def load(path: Path, vocabulary: Vocabulary, ref: str | None = None) -> Experiment:
    """The experiment in the file ``path``; of one with [matrix] that for the commit ``ref``.
    UsageError lists every mistake."""
    text = read(path)
    matrix = read_matrix(text, str(path))
    if matrix is not None and ref is None:
        raise UsageError(
            f"{path} is for many commits: `kdyno run` measures them all, --ref REF one of them"
        )
    if ref is not None:
        if matrix is None:
            raise UsageError(f"--ref {ref}: {path} has no [matrix]")
        text = at_ref(text, ref)
    experiment = parse(text, str(path), path.absolute().parent, vocabulary)
    return replace(experiment, path=path.absolute())


def read(path: Path) -> str:
    """The file's text. UsageError where there is none."""
    try:
        with path.open("rb") as file:
            raw = file.read(_LARGEST_BYTES + 1)
    except IsADirectoryError as problem:
        inside = sorted(entry.name for entry in path.glob("*.toml"))[:8]
        hint = f" It holds {', '.join(inside)}" if inside else ""
        raise UsageError(f"{path} is a folder, not an experiment file.{hint}") from problem
    except FileNotFoundError as problem:
        there = [entry.name for entry in _siblings(path)]
        near = nearest(path.name, there)
        meant = f" Did you mean {path.with_name(near)}?" if near else ""
        if not near and not path.suffix:
            meant = (
                f" An experiment is a .toml file. Is it a run? `kdyno run --resume {path}` goes on "
                f"with one, `kdyno report {path}` shows it"
            )
        raise UsageError(f"{path} does not exist.{meant}") from problem
    except (OSError, ValueError) as problem:
        raise UsageError(f"{path} cannot be read: {problem}") from problem
    if len(raw) > _LARGEST_BYTES:
        raise UsageError(
            f"{path} is larger than 1 MB: that is not an experiment file. Is it the right file?"
        )
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        line = raw[: problem.start].count(b"\n") + 1
        raise UsageError(
            f"{path}:{line}: byte 0x{raw[problem.start]:02x} is not UTF-8. "
            "Save the file as UTF-8 text"
        ) from problem


def _siblings(path: Path) -> list[Path]:
    try:
        return list(path.absolute().parent.glob("*.toml"))
    except OSError:
        return []


def parse(
    text: str,
    origin: str,
    folder: Path,
    vocabulary: Vocabulary,
    words: Callable[[KeyPath], str] | None = None,
) -> Experiment:
    """The experiment in ``text``. ``origin`` names it in messages, ``folder`` is where relative
    paths begin. UsageError lists every mistake. words: what messages call a key of a text that
    nobody wrote as a file."""

    def none_yet() -> Mistakes:
        return Mistakes(origin, Positions("" if words else text), words)

    data = _toml(text, origin)
    mistakes = none_yet()
    file = read_as(File, data, mistakes, (), Place(folder, vocabulary, ""), home_of)
    if "name" not in data:
        mistakes.add((), 'name is missing: name = "…", which also names the run\'s folder')
    measure = _measure(file, data, mistakes)
    place = Place(folder, vocabulary, file.machine.kind)
    crossed, of_cases = _variants(file, place, mistakes)
    variants = tuple(with_best(variant, vocabulary, mistakes) for variant in crossed)
    suites = cross.cells(_suites(file, data, vocabulary, mistakes), of_cases, vocabulary, mistakes)
    boots = vocabulary.machines.get(file.machine.kind, ())
    baseline = file.baseline
    # A factor that lacks a level lacks variants, too: that is one mistake.
    if all(isinstance(levels, dict) and len(levels) > 1 for levels in file.factor.values()):
        alone = measure.calibrate or bool(measure.layouts) or not boots
        baseline = _baseline(file, data, variants, alone, mistakes)
    _check_archs(variants, file.machine.kind, vocabulary, mistakes)
    mistakes.raise_any()
    return Experiment(
        name=file.name,
        question=file.question,
        baseline=baseline,
        variants=variants,
        suites=suites,
        machine=file.machine,
        measure=measure,
        skip_unsupported=file.skip_unsupported,
        text=text,
        mistakes=none_yet,
    )


def variant(
    name: str, keys: Mapping[str, object], origin: str, folder: Path, vocabulary: Vocabulary
) -> Variant:
    """One kernel of its own, from ``keys`` as [kernel] has them; otherwise as ``parse``."""
    mistakes = Mistakes(origin, Positions(""))
    place = Place(folder, vocabulary, Machine.kind)
    layer = read_as(Layer, dict(keys), mistakes, ("kernel",), place, home_of)
    kernel = placed(layer, ("kernel",), place, mistakes)
    alone = {name: Layer(path=("variant", name))}
    arch = vocabulary.machines[place.machine][0]
    (only,) = cross.variants(kernel, alone, {}, arch, mistakes)
    only = with_best(only, vocabulary, mistakes)
    mistakes.raise_any()
    return only


def _toml(text: str, origin: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        _refuse_syntax(text, origin, str(error))
    except (ValueError, RecursionError, OverflowError) as problem:
        # Numbers of thousands of digits, impossible dates, brackets in brackets in brackets.
        why = str(problem).partition(";")[0]
        raise UsageError(f"{origin}: a value in the file cannot be read: {why}") from problem


def _refuse_syntax(text: str, origin: str, problem: str) -> NoReturn:
    lines = text.splitlines()
    line = 0
    if match := _SYNTAX_PLACE.search(problem):
        line = int(match[1])
        problem = f"{problem[: match.start()]} (column {match[2]})"
    elif match := _SYNTAX_END.search(problem):
        line = max(1, len(lines))
        problem = f"{problem[: match.start()]} (at the end of the file)"
    hint = next((hint for start, hint in _HINTS.items() if problem.startswith(start)), "")
    if problem.startswith('Expected "\'"'):  # looked for to the end of the file
        odd = (number for number, it in enumerate(lines, 1) if it.count("'") % 2)
        line, problem = next(odd, line), "a text in single quotes does not end"
    if problem.startswith(("Cannot overwrite", "Cannot declare")):
        # The key or header that the line begins with stands before it.
        heads = [_STATEMENT.match(it) for it in lines[:line]]
        *before, second = [it[1].strip() if it else "" for it in heads]
        for number, first in enumerate(before, 1):
            if second and first.strip("[]") == second.strip("[]"):
                hint = f"{first} stands in line {number} already: it may be there once"
    refuse(origin, [(line, f"this is not TOML: {problem}" + (f". {hint}" if hint else ""))])


def _measure(file: File, data: Mapping[str, Any], mistakes: Mistakes) -> Measure:
    measure = replace(file.measure, layouts=file.layout.draws if file.layout else 0)
    most = measure.max_boots
    given = data.get("measure")
    if not isinstance(given, dict) or "min_boots" not in given:
        return replace(measure, min_boots=min(measure.min_boots, most))
    if measure.min_boots > most:
        what = f"min_boots is {measure.min_boots}, more than max_boots, which is {most}"
        mistakes.add(("measure", "min_boots"), what)
    return measure


def _variants(
    file: File, place: Place, mistakes: Mistakes
) -> tuple[tuple[Variant, ...], cross.CaseFactors]:
    """The cross of all factors of kernels, and the factors of cases."""
    kernel = placed(file.kernel, ("kernel",), place, mistakes)
    explicit = {
        name: placed(layer, ("variant", name), place, mistakes)
        for name, layer in file.variant.items()
    }
    factors: dict[str, dict[str, Level]] = {}
    of_cases: dict[str, dict[str, CaseLevel]] = {}
    for factor, levels in file.factor.items():
        path = ("factor", factor)
        tables = levels if isinstance(levels, dict) else {}
        if len(tables) < 2 and tables is levels:
            mistakes.add(path, f"a factor needs two levels or more, this has {len(tables)}")
        if factor == VARIANT and len(explicit) > 1:
            mistakes.add(path, f"{quoted(VARIANT)} is what the [variant.NAME]s are: rename it")
        if any(isinstance(it, dict) and {"set", "case"} & set(it) for it in tables.values()):
            for level, table in tables.items():
                if isinstance(table, dict) and ("set" in table) == ("case" in table):
                    what = "a level of this factor needs one of set = { NAME = VALUE } and case = "
                    what += "NAME, as the factor's other levels have; kernels and cases cannot be "
                    mistakes.add((*path, level), f"{what}mixed in one factor")
            cases = read_as(dict[Name, CaseLevel], tables, mistakes, path, place, home_of)
            of_cases[factor] = cases
        else:
            layers = read_as(dict[Name, Level], levels, mistakes, path, place, home_of)
            factors[factor] = {
                level: placed(layer, (*path, level), place, mistakes)
                for level, layer in layers.items()
            }
    boots = place.vocabulary.machines.get(place.machine)
    if boots == ():
        return cross.running(place.machine, kernel, explicit, factors, mistakes), of_cases
    arch = (boots or place.vocabulary.archs)[0]
    return cross.variants(kernel, explicit, factors, arch, mistakes), of_cases


def _baseline(
    file: File,
    data: Mapping[str, Any],
    variants: tuple[Variant, ...],
    alone: bool,
    mistakes: Mistakes,
) -> str:
    """The baseline's name, or of the only variant, if one may stand ``alone``."""
    names = [variant.name for variant in variants]
    if not names:
        if not data.get("variant") and not data.get("factor"):
            what = "no variant: at least [variant.NAME] twice, or a [factor.NAME] with levels"
            mistakes.add((), what)
    elif len(names) == 1 and not alone and len(data.get("variant") or ()) < 2:
        mistakes.add(
            ("variant",),
            f"one variant, {quoted(names[0])}, has nothing to be compared with. Add another, or "
            "set calibrate = true in [measure] to measure the noise floor",
        )
    if not names or mistakes.has(("baseline",)):
        return ""
    if "baseline" not in data:
        if len(names) > 1:
            what = "baseline is missing: which variant are the others compared with?"
            mistakes.add((), what, allowed=names)
        return names[0]
    if file.baseline not in names:
        what = f"{quoted(file.baseline)} is not a variant"
        mistakes.add(("baseline",), what, allowed=names, near=file.baseline)
    return file.baseline


def _check_archs(
    variants: tuple[Variant, ...], machine: str, vocabulary: Vocabulary, mistakes: Mistakes
) -> None:
    boots = vocabulary.machines.get(machine)
    pairs = "; ".join(
        f"{' and '.join(archs)} with {kind}" for kind, archs in vocabulary.machines.items() if archs
    )
    for variant in variants:
        if boots and variant.arch not in boots:
            mistakes.add(
                ("machine", "kind"),
                f"a kernel of arch {quoted(variant.arch)} (variant {variant.name}) does not boot "
                f"on the machine {quoted(machine)}: {pairs}",
            )
        if variant.scheduler and variant.arch in NO_SCHEDULER:
            mistakes.add(
                ("variant", variant.name),
                f"scheduler = {quoted(called(variant.scheduler))} and arch = "
                f"{quoted(variant.arch)}: {NO_SCHEDULER[variant.arch]}. "
                'Allowed: arch = "x86_64" on [machine] kind = "qemu"',
            )


def _suites(
    file: File, data: Mapping[str, Any], vocabulary: Vocabulary, mistakes: Mistakes
) -> tuple[SuiteUse, ...]:
    """All [[suite]] entries with their cases; one case of a suite in two of them is a mistake."""
    known = tuple(dict.fromkeys((*vocabulary.suites, RUN_SUITE)))
    if data.get("suite", []) == []:
        what = "no [[suite]]: nothing would be measured"
        mistakes.add(("suite",), what, allowed=sorted(vocabulary.suites))
    uses = []
    taken: dict[tuple[str, str], KeyPath] = {}
    for index, use in enumerate(file.suite):
        path: KeyPath = ("suite", index)
        table = data["suite"][index]
        if not isinstance(table, dict):
            continue
        if "seconds" in table and "operations" in table:
            what = "operations and seconds exclude each other: leave one out"
            mistakes.add((*path, "operations"), what)
        if "name" not in table:
            mistakes.add(path, "name is missing: which suite?", allowed=known)
        elif use.name in known:
            if use.name == RUN_SUITE:
                cases = _run_cases(use, table, path, mistakes)
            else:
                cases = _suite_cases(use, table, path, vocabulary.suites[use.name], mistakes)
            for case in cases:
                other = taken.setdefault((use.name, case), path)
                if other != path:
                    what = f"the case {case} of {use.name} is in {spelled(other)} already"
                    mistakes.add((*path, "cases"), what)
            uses.append(replace(use, cases=cases))
        elif not mistakes.has((*path, "name")):
            what = f"{quoted(use.name)} is not known"
            mistakes.add((*path, "name"), what, allowed=known, near=use.name)
    return tuple(uses)


def _suite_cases(
    use: SuiteUse,
    table: Mapping[str, Any],
    path: KeyPath,
    known: tuple[str, ...],
    mistakes: Mistakes,
) -> tuple[str, ...]:
    """The cases meant, in the order given; what a pattern matches in the suite's order."""
    for key in ("figure", "unit", "better", "command"):
        if key in table:
            has = f"; the suite {quoted(use.name)} has cases" if key == "command" else ""
            mistakes.add((*path, key), f'{key} belongs to the suite "{RUN_SUITE}"{has}')
    at = (*path, "cases")
    if "cases" not in table:
        return known
    if table["cases"] == []:
        mistakes.add(at, "no case: leave the key out for all of them", allowed=known)
    chosen: dict[str, bool] = {}
    for index, text in enumerate(use.cases):
        is_pattern = any(letter in text for letter in "*?[")
        matched = [case for case in known if fnmatchcase(case, text)] if is_pattern else [text]
        if text and (not matched or not set(matched) <= set(known)):
            what = "matches no case" if is_pattern else "is not a case"
            what = f"{quoted(text)} {what} of {use.name}"
            mistakes.add((*at, index), what, allowed=known, near=text, found=text)
        elif not is_pattern and chosen.get(text):
            mistakes.add((*at, index), f"{quoted(text)} is listed twice", found=text)
        elif text:
            chosen.update({case: chosen.get(case, False) or not is_pattern for case in matched})
    return tuple(chosen)


def _run_cases(
    use: SuiteUse, table: Mapping[str, Any], path: KeyPath, mistakes: Mistakes
) -> tuple[str, ...]:
    """The one name under which the figures of the user's command appear."""
    if "command" not in table:
        what = f'the suite "{RUN_SUITE}" needs command, for example command = "sort words.txt"'
        mistakes.add(path, what)
        return ()
    for key in ("unit", "better"):
        if "figure" in table and key not in table:
            mistakes.add(path, f"figure needs {key} beside it")
        if key in table and "figure" not in table:
            mistakes.add((*path, key), f"{key} goes with figure; a time is in s, lower")
    if "cases" not in table:
        program = PurePosixPath(use.command[0]).name if use.command else ""
        return (program if NAME.fullmatch(program) else "command",)
    names = [(index, name) for index, name in enumerate(use.cases) if name]
    if isinstance(table["cases"], list) and len(names) != 1:
        what = f'the suite "{RUN_SUITE}" times one command: cases holds one name for it'
        mistakes.add((*path, "cases"), what)
    for index, name in names:
        if not NAME.fullmatch(name):
            what = f"{quoted(name)} is not a name: {NAME_RULE}"
            mistakes.add((*path, "cases", index), what, found=name)
    return tuple(name for _index, name in names[:1])


def read_matrix(text: str, origin: str) -> Matrix | None:
    """None for an experiment without [matrix], and for what is no TOML: ``parse`` says what is
    wrong with that. UsageError lists every mistake."""
    try:
        data = tomllib.loads(text)
    except (ValueError, RecursionError, OverflowError):
        return None
    if "matrix" not in data:
        return None
    mistakes = Mistakes(origin, Positions(text))
    matrix = read_as(Matrix, data["matrix"], mistakes, ("matrix",), None, home_of)
    if not matrix.refs and not mistakes.has(("matrix", "refs")):
        mistakes.add(("matrix", "refs"), _COMMITS)
    kernel = data.get("kernel")
    if not isinstance(kernel, dict) or REF not in str(kernel.get("source")):
        what = f'[matrix] needs a source with {REF}, such as "git:DIR#{REF}"'
        mistakes.add(("kernel", "source"), what)
    mistakes.raise_any()
    return matrix


def at_ref(text: str, ref: str) -> str:
    """The experiment for one commit of a [matrix]."""
    lines, inside = [], False
    for line in text.splitlines(keepends=True):
        if _HEADER.match(line):
            inside = _MATRIX.fullmatch(line.rstrip("\r\n")) is not None
        lines.append("\n" if inside else line.replace(REF, ref))
    return "".join(lines)
