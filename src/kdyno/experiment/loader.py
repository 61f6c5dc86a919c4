# SPDX-License-Identifier: MIT
"""An experiment file in, a checked ``Experiment`` out, or every mistake in it at once.

TOML is read with tomllib and checked by hand: the messages name line, key, what was found,
what is allowed and the nearest right word, and all mistakes are told, not only the first.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from kdyno.errors import UsageError
from kdyno.experiment import matrix
from kdyno.experiment.cells import (
    CaseFactors,
    CaseLevel,
    expanded,
    is_case_factor,
    listed,
    read_case_level,
)
from kdyno.experiment.cross import VARIANT, running
from kdyno.experiment.cross import variants as crossed
from kdyno.experiment.keys import LEVEL_KEYS, TABLES, VARIANT_KEYS
from kdyno.experiment.layer import Layer, read_layer
from kdyno.experiment.model import Experiment, Machine, Variant
from kdyno.experiment.routines import with_best
from kdyno.experiment.schedulers import check_schedulers
from kdyno.experiment.sections import (
    read_layouts,
    read_machine,
    read_measure,
    read_suites,
)
from kdyno.experiment.table import Table
from kdyno.experiment.vocabulary import Vocabulary
from kdyno.reading.mistakes import Mistakes, nearest, quoted, refuse
from kdyno.reading.position import KeyPath, Positions

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


def load(path: Path, vocabulary: Vocabulary, ref: str | None = None) -> Experiment:
    """The experiment in the file ``path``; of one with [matrix] that for the commit ``ref``.
    UsageError lists every mistake."""
    text = read(path)
    found = matrix.read(text, str(path))
    if found is not None and ref is None:
        raise UsageError(
            f"{path} is for many commits: `kdyno run` measures them all, --ref REF one of them"
        )
    if ref is not None:
        if found is None:
            raise UsageError(f"--ref {ref}: {path} has no [matrix]")
        text = matrix.at(text, ref)
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


def parse(
    text: str,
    origin: str,
    folder: Path,
    vocabulary: Vocabulary,
    words: Callable[[KeyPath], str] | None = None,
) -> Experiment:
    """The experiment in ``text``. ``origin`` names it in messages, ``folder`` is where relative
    paths begin. UsageError lists every mistake. words: how messages call a key of a text that
    nobody wrote."""
    data = _toml(text, origin)
    mistakes = Mistakes(origin, Positions("" if words else text), words)
    top = Table(data, (), mistakes, TABLES[""])
    if "name" not in top:
        mistakes.add((), 'name is missing: name = "…", which also names the run\'s folder')
    name = top.name("name")
    question = _question(top)
    machine = read_machine(data.get("machine", {}), vocabulary, mistakes)
    measure = read_measure(data.get("measure", {}), mistakes)
    measure = replace(measure, layouts=read_layouts(data.get("layout"), mistakes))
    asked, of_cases = _variants(top, folder, vocabulary, machine.kind, mistakes)
    found = with_best(asked, vocabulary, mistakes)
    suites = read_suites(data.get("suite", []), vocabulary, mistakes)
    suites = expanded(suites, of_cases, vocabulary, mistakes)
    boots = vocabulary.machines.get(machine.kind, ())
    alone = measure.calibrate or bool(measure.layouts) or not boots
    # A factor that is told to lack a level lacks variants, too: that is one mistake.
    crossed_well = all(isinstance(it, dict) and len(it) > 1 for it in _factors(top).values())
    baseline = _baseline(top, found, alone, mistakes) if crossed_well else top.text("baseline")
    _check_archs(found, machine.kind, vocabulary, mistakes)
    check_schedulers(found, mistakes)
    skip = top.flag("skip-unsupported")
    mistakes.raise_any()
    return Experiment(
        name=name,
        question=question,
        baseline=baseline,
        variants=found,
        suites=suites,
        machine=machine,
        measure=measure,
        skip_unsupported=skip,
        text=text,
        mistakes=lambda: Mistakes(origin, Positions("" if words else text), words),
    )


def variant(
    name: str, keys: Mapping[str, object], origin: str, folder: Path, vocabulary: Vocabulary
) -> Variant:
    """One kernel of its own, from ``keys`` as [kernel] has them; otherwise as ``parse``."""
    mistakes = Mistakes(origin, Positions(""))
    machine = Machine().kind
    layer = read_layer(dict(keys), ("kernel",), folder, vocabulary, machine, mistakes)
    alone = {name: Layer(("variant", name))}
    crossing = crossed(layer, alone, {}, vocabulary.machines[machine][0], mistakes)
    (found,) = with_best(crossing, vocabulary, mistakes)
    mistakes.raise_any()
    return found


def _toml(text: str, origin: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        said = str(problem)
        line = 0
        if match := _SYNTAX_PLACE.search(said):
            line = int(match[1])
            said = f"{said[: match.start()]} (column {match[2]})"
        elif match := _SYNTAX_END.search(said):
            line = max(1, len(text.splitlines()))
            said = f"{said[: match.start()]} (at the end of the file)"
        if said.startswith('Expected "\'"'):  # looked for to the end of the file
            odd = (n for n, it in enumerate(text.splitlines(), 1) if it.count("'") % 2)
            line, said = next(odd, line), "a text in single quotes does not end"
            hint = _ONE_LINE
        else:
            hint = next((it for start, it in _HINTS.items() if said.startswith(start)), "")
        if said.startswith(("Cannot overwrite", "Cannot declare")) and (
            first := _first_of_twice(text, line)
        ):
            hint = f"{first[1]} stands in line {first[0]} already: it may be there once"
        refuse(origin, [(line, f"this is not TOML: {said}" + (f". {hint}" if hint else ""))])
    except (ValueError, RecursionError, OverflowError) as problem:
        # Numbers of thousands of digits, impossible dates, brackets in brackets in brackets.
        why = str(problem).partition(";")[0]
        raise UsageError(f"{origin}: a value in the file cannot be read: {why}") from problem


def _first_of_twice(text: str, line: int) -> tuple[int, str] | None:
    """(line, key or header) that is what ``line`` begins with, before it."""
    heads = [_STATEMENT.match(it) for it in text.splitlines()[:line]]
    words = [it[1].strip() if it else "" for it in heads]
    if not words or not words[-1]:
        return None
    bare = words[-1].strip("[]")
    same = [n for n, it in enumerate(words[:-1], 1) if it == words[-1] or it.strip("[]") == bare]
    return (same[-1], words[same[-1] - 1]) if same else None


def _question(top: Table) -> str:
    """The question; one written over several lines is one line on screen."""
    raw = top.raw("question")
    if isinstance(raw, str):
        return "".join(letter for letter in " ".join(raw.split()) if letter.isprintable())
    return top.text("question")


def _variants(
    top: Table, folder: Path, vocabulary: Vocabulary, machine: str, mistakes: Mistakes
) -> tuple[tuple[Variant, ...], CaseFactors]:
    """The cross of all factors of kernels, and the factors of cases."""
    shared = top.raw("kernel") if "kernel" in top else {}
    kernel = read_layer(shared, ("kernel",), folder, vocabulary, machine, mistakes)
    explicit = {
        name: read_layer(
            data, ("variant", name), folder, vocabulary, machine, mistakes, VARIANT_KEYS
        )
        for name, data in top.table("variant").items()
    }
    factors: dict[str, dict[str, Layer]] = {}
    of_cases: dict[str, dict[str, CaseLevel]] = {}
    top.table("factor")  # what is wrong with it as a whole
    given = _factors(top)
    factor_tables = Table(given, ("factor",), mistakes, given)
    for factor in given:
        path = ("factor", factor)
        levels = factor_tables.table(factor)
        if isinstance(given[factor], dict) and len(levels) < 2:
            mistakes.add(path, f"a factor needs two levels or more, this has {len(levels)}")
        if factor == VARIANT and len(explicit) > 1:
            mistakes.add(path, f"{quoted(VARIANT)} is what the [variant.NAME]s are: rename it")
        if is_case_factor(levels):
            of_cases[factor] = {
                level: read_case_level(data, (*path, level), mistakes)
                for level, data in levels.items()
            }
            continue
        factors[factor] = {
            level: read_layer(
                data, (*path, level), folder, vocabulary, machine, mistakes, LEVEL_KEYS
            )
            for level, data in levels.items()
        }
    boots = vocabulary.machines.get(machine)
    if boots == ():
        return running(machine, kernel, explicit, factors, mistakes), of_cases
    default_arch = (boots or vocabulary.archs)[0]
    return crossed(kernel, explicit, factors, default_arch, mistakes), of_cases


def _factors(top: Table) -> dict[str, Any]:
    factors = top.raw("factor")
    levels = factors.items() if isinstance(factors, dict) else ()
    return {name: listed(name, data) for name, data in levels}


def _baseline(top: Table, found: tuple[Variant, ...], alone: bool, mistakes: Mistakes) -> str:
    """The baseline's name, or of the only variant, if one may stand ``alone``."""
    names = [variant.name for variant in found]
    if not found:
        if not top.raw("variant") and not top.raw("factor"):
            mistakes.add(
                (), "no variant: at least [variant.NAME] twice, or a [factor.NAME] with levels"
            )
        return ""
    if len(found) == 1 and not alone and len(top.raw("variant") or ()) < 2:
        mistakes.add(
            ("variant",),
            f"one variant, {quoted(names[0])}, has nothing to be compared with. Add another, or "
            "set calibrate = true in [measure] to measure the noise floor",
        )
    if "baseline" not in top:
        if len(found) == 1:
            return names[0]
        mistakes.add(
            (), "baseline is missing: which variant are the others compared with?", allowed=names
        )
        return ""
    baseline = top.text("baseline")
    if isinstance(top.raw("baseline"), str) and baseline not in names:
        mistakes.add(
            top.at("baseline"), f"{quoted(baseline)} is not a variant", allowed=names, near=baseline
        )
    return baseline


def _check_archs(
    found: tuple[Variant, ...], machine: str, vocabulary: Vocabulary, mistakes: Mistakes
) -> None:
    boots = vocabulary.machines.get(machine)
    if not boots:
        return
    pairs = "; ".join(
        f"{' and '.join(archs)} with {kind}" for kind, archs in vocabulary.machines.items() if archs
    )
    for variant in found:
        if variant.arch not in boots:
            mistakes.add(
                ("machine", "kind"),
                f"a kernel of arch {quoted(variant.arch)} (variant {variant.name}) does not boot "
                f"on the machine {quoted(machine)}: {pairs}",
            )


def _siblings(path: Path) -> list[Path]:
    try:
        return list(path.absolute().parent.glob("*.toml"))
    except OSError:
        return []
