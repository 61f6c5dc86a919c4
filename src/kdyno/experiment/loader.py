# SPDX-License-Identifier: MIT
"""An experiment file in, a checked ``Experiment`` out, or every mistake in it at once: the messages
name line, key, what was found, what is allowed and the nearest right word.

A file with [matrix] is one experiment over many commits, a pattern of experiments: the one for a
commit has that commit in place of ``{ref}`` and no [matrix], and the same line numbers.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

from kdyno.errors import UsageError
from kdyno.experiment import cross
from kdyno.experiment.commits import ENDS, Matrix, OfCommits, Searching, Watching
from kdyno.experiment.cross import VARIANT, placed, with_best
from kdyno.experiment.model import (
    Experiment,
    File,
    Level,
    Place,
    SuiteUse,
    Variant,
    Vocabulary,
    called,
    home_of,
    names_in,
    userland_of,
)
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

NO_SCHEDULER: Mapping[str, str] = {
    "um": "a kernel for User Mode Linux has no compiler for such programs",
    "um32": "a kernel for User Mode Linux has no compiler for such programs",
    "i386": "a 32-bit kernel does not call such programs",
}
"""Architecture → why its kernels take no scheduler that is a program."""
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
_HEADER = re.compile(r"\s*\[")
_MATRIX = re.compile(r"\s*\[\s*matrix\s*\]\s*(#.*)?")


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
        inside = sorted(names_in(path, "*.toml"))[:8]
        hint = f" It holds {', '.join(inside)}" if inside else ""
        raise UsageError(f"{path} is a folder, not an experiment file.{hint}") from problem
    except FileNotFoundError as problem:
        near = nearest(path.name, names_in(path.absolute().parent, "*.toml"))
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


def parse(
    text: str,
    origin: str,
    folder: Path,
    vocabulary: Vocabulary,
    words: Callable[[KeyPath], str] | None = None,
    tables: Mapping[str, Any] | None = None,
) -> Experiment:
    """The experiment in ``text``. ``origin`` names it in messages, ``folder`` is where relative
    paths begin. UsageError lists every mistake. words: what messages call a key of a text that
    nobody wrote as a file. tables: instead of those in the text, which then only has the lines."""

    def no_mistakes() -> Mistakes:
        return Mistakes(origin, Positions("" if words else text), words)

    mistakes = no_mistakes()
    place = Place(folder, vocabulary)
    data = _toml(text, origin) if tables is None else tables
    file = read_as(File, data, mistakes, (), place, home_of)
    for key, model in (("watch", Watching), ("bisect", Searching)):
        if key in data:
            read_as(model, data[key], mistakes, (key,), place, home_of)
    if not file.name and not mistakes.has(("name",)):
        mistakes.add((), 'name is missing: name = "…", which also names the run\'s folder')
    variants, of_cases = _variants(file, place, mistakes)
    if file.machine.userland:
        *_, bits = userland_of(file.machine.userland)
        variants = tuple(
            replace(variant, program_bits=variant.program_bits or bits) for variant in variants
        )
    _check_suites(file.suite, vocabulary, mistakes)
    boots = vocabulary.machines.get(file.machine.kind, ())
    measure = replace(file.measure, layouts=file.layout.draws if file.layout else 0)
    # A factor that lacks a level lacks variants, too: that is one mistake.
    lacking = any(
        path[:1] == ("factor",) or (path[:1] == ("variant",) and len(path) < 3)
        for path in mistakes.paths
    )
    baseline = ""
    if not lacking and all(len(levels) > 1 for levels in file.factor.values()):
        alone = measure.calibrate or bool(measure.layouts) or not boots
        baseline = _baseline(file, [variant.name for variant in variants], alone, mistakes)
    pairs = [f"{' and '.join(its)} with {kind}" for kind, its in vocabulary.machines.items() if its]
    for variant in variants:
        if boots and variant.arch not in boots:
            mistakes.add(
                ("machine", "kind"),
                f"a kernel of arch {quoted(variant.arch)} (variant {variant.name}) does not boot "
                f"on the machine {quoted(file.machine.kind)}: {'; '.join(pairs)}",
            )
        if variant.scheduler and variant.arch in NO_SCHEDULER:
            mistakes.add(
                ("variant", variant.name),
                f"scheduler = {quoted(called(variant.scheduler))} and arch = "
                f"{quoted(variant.arch)}: {NO_SCHEDULER[variant.arch]}. "
                'Allowed: arch = "x86_64" on [machine] kind = "qemu"',
            )
    suites = cross.cells(file.suite, of_cases, vocabulary, mistakes)
    mistakes.raise_any()
    return Experiment(
        name=file.name,
        question=file.question,
        baseline=baseline,
        variants=variants,
        suites=suites,
        machine=file.machine,
        box=file.box,
        measure=measure,
        skip_unsupported=file.skip_unsupported,
        text=text,
        mistakes=no_mistakes,
    )


def of_commits(path: Path, vocabulary: Vocabulary) -> OfCommits:
    """The experiment of the file ``path``, whose variants are commits. UsageError lists every
    mistake."""
    text = read(path)
    tables = _toml(text, str(path))
    mistakes = Mistakes(str(path), Positions(text))
    for key in ("baseline", "variant", "factor", "layout", "matrix"):
        if key in tables:
            mistakes.add((key,), "the variants are commits here: the file has none of its own")
    mistakes.raise_any()
    data = {**deepcopy(tables), "baseline": ENDS[0], "variant": {name: {} for name in ENDS}}
    experiment = parse(text, str(path), path.absolute().parent, vocabulary, tables=data)
    for use, own in zip(experiment.suites, tables["suite"], strict=True):
        if not use.command:
            own["cases"] = list(use.cases)
    watch = read_as(Watching, tables.pop("watch", {}), mistakes)
    bisect = read_as(Searching, tables.pop("bisect", {}), mistakes)
    shared = {key: own for key, own in tables.items() if key not in ("name", "question")}
    return OfCommits(shared, replace(experiment, path=path.absolute()), watch, bisect)


def variant(
    name: str, keys: Mapping[str, object], origin: str, folder: Path, vocabulary: Vocabulary
) -> Variant:
    """One kernel of its own, from ``keys`` as [kernel] has them; otherwise as ``parse``."""
    mistakes = Mistakes(origin, Positions(""))
    place = Place(folder, vocabulary)
    data = {"name": "one", "kernel": dict(keys), "variant": {name: {}}}
    file = read_as(File, data, mistakes, (), place, home_of)
    ((only,), _) = _variants(file, place, mistakes)
    mistakes.raise_any()
    return only


def _toml(text: str, origin: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        problem = str(error)
    except (ValueError, RecursionError, OverflowError) as error:
        # Numbers of thousands of digits, impossible dates, brackets in brackets in brackets.
        why = str(error).partition(";")[0]
        raise UsageError(f"{origin}: a value in the file cannot be read: {why}") from error
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
        odd = (number for number, row in enumerate(lines, 1) if row.count("'") % 2)
        line, problem = next(odd, line), "a text in single quotes does not end"
    if problem.startswith(("Cannot overwrite", "Cannot declare")):
        # The key or header that the line begins with stands before it.
        heads = [_STATEMENT.match(row) for row in lines[:line]]
        *before, second = [head[1].strip() if head else "" for head in heads]
        for number, first in enumerate(before, 1):
            if second and first.strip("[]") == second.strip("[]"):
                hint = f"{first} stands in line {number} already: it may be there once"
    refuse(origin, [(line, f"this is not TOML: {problem}" + (f". {hint}" if hint else ""))])


def _variants(
    file: File, place: Place, mistakes: Mistakes
) -> tuple[tuple[Variant, ...], cross.CaseFactors]:
    """The cross of all factors of kernels, and the factors of cases."""
    machine = file.machine.kind
    kernel = placed(file.kernel, ("kernel",), place, machine, mistakes)
    explicit = {
        name: placed(layer, ("variant", name), place, machine, mistakes)
        for name, layer in file.variant.items()
    }
    factors: dict[str, dict[str, Level]] = {}
    of_cases: dict[str, dict[str, Level]] = {}
    for factor, levels in file.factor.items():
        path = ("factor", factor)
        if len(levels) < 2:
            mistakes.add(path, f"a factor needs two levels or more, this has {len(levels)}")
        if factor == VARIANT and len(explicit) > 1:
            mistakes.add(path, f"{quoted(VARIANT)} is what the [variant.NAME]s are: rename it")
        if any(layer.set or layer.case for layer in levels.values()):
            of_cases[factor] = levels
            for level, layer in levels.items():
                kernels = replace(layer, set={}, case="") != Level()
                if kernels or bool(layer.set) == bool(layer.case):
                    what = "a level of this factor needs one of set = { NAME = VALUE } and case = "
                    what += "NAME, as the factor's other levels have; kernels and cases cannot be "
                    mistakes.add((*path, level), f"{what}mixed in one factor")
        else:
            factors[factor] = {
                level: placed(layer, (*path, level), place, machine, mistakes)
                for level, layer in levels.items()
            }
    boots = place.vocabulary.machines[machine]
    if boots:
        crossed = cross.variants(kernel, explicit, factors, boots[0], mistakes)
    else:
        crossed = cross.running(machine, kernel, explicit, factors, mistakes)
    return tuple(with_best(variant, place.vocabulary, mistakes) for variant in crossed), of_cases


def _baseline(file: File, names: list[str], alone: bool, mistakes: Mistakes) -> str:
    """The baseline's name, or of the only variant, if one may stand ``alone``."""
    if not names:
        if not file.variant and not file.factor:
            what = "no variant: at least [variant.NAME] twice, or a [factor.NAME] with levels"
            mistakes.add((), what)
        return ""
    if len(names) == 1 and not alone and len(file.variant) < 2:
        mistakes.add(
            ("variant",),
            f"one variant, {quoted(names[0])}, has nothing to be compared with. Add another, or "
            "set calibrate = true in [measure] to measure the noise floor",
        )
    if file.baseline is None:
        if len(names) > 1 and not mistakes.has(("baseline",)):
            what = "baseline is missing: which variant are the others compared with?"
            mistakes.add((), what, allowed=names)
        return names[0]
    if file.baseline not in names:
        what = f"{quoted(file.baseline)} is not a variant"
        mistakes.add(("baseline",), what, allowed=names, near=file.baseline)
    return file.baseline


def _check_suites(uses: tuple[SuiteUse, ...], vocabulary: Vocabulary, mistakes: Mistakes) -> None:
    """One case of a suite in two [[suite]] entries is a mistake."""
    if not uses and not mistakes.has(("suite",)):
        what = "no [[suite]]: nothing would be measured"
        mistakes.add(("suite",), what, allowed=sorted(vocabulary.suites))
    taken: dict[tuple[str, str], KeyPath] = {}
    for index, use in enumerate(uses):
        for case in use.cases:
            other = taken.setdefault((use.name, case), ("suite", index))
            if other != ("suite", index):
                what = f"the case {case} of {use.name} is in {spelled(other)} already"
                mistakes.add(("suite", index, "cases"), what)


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
    kernel = data.get("kernel")
    if not isinstance(kernel, dict) or REF not in str(kernel.get("source")):
        what = f'[matrix] needs a source with {REF}, such as "git:DIR#{REF}"'
        mistakes.add(("kernel", "source"), what)
    matrix = read_as(Matrix, data["matrix"], mistakes, ("matrix",), home=home_of)
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
