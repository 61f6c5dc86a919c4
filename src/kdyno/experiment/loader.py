# SPDX-License-Identifier: MIT
"""An experiment file in, a checked ``Experiment`` out, or every mistake in it at once; and what the
command line changes of it. A file with [matrix] is a pattern of experiments: that for a commit has
the commit in place of ``{ref}`` and no [matrix], and the same line numbers."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any

from pydantic import PlainValidator

from kdyno.errors import UsageError
from kdyno.experiment import cross, model
from kdyno.experiment.limits import FEWEST_LINKS, MOST_LINKS, MOST_MINUTES_OF_A_STEP
from kdyno.reading.checked import Closed, read as read_as
from kdyno.reading.mistakes import KeyPath, Mistakes, meant, quoted, refuse

NO_SCHEDULER: Mapping[str, str] = {
    "um": "a kernel for User Mode Linux has no compiler for such programs",
    "um32": "a kernel for User Mode Linux has no compiler for such programs",
    "i386": "a 32-bit kernel does not call such programs",
}
"""Architecture → why its kernels take no scheduler that is a program."""
_LARGEST_BYTES = 1 << 20
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
_COMMIT = re.compile(r"(?!.*\.\.)[\w./~^@+-]{1,200}", re.ASCII)


def _ref(value: object) -> str:
    if not isinstance(value, str) or not _COMMIT.fullmatch(value):
        raise ValueError("names no commit, tag or branch")
    return value


def _refs(value: object) -> tuple[str, ...] | str:
    refs = value.split("..", 1) if isinstance(value, str) and ".." in value else value
    if not isinstance(refs, list) or not refs:
        raise ValueError('is "FROM..TO" or a list of commits')
    if wrong := [ref for ref in refs if not isinstance(ref, str) or not _COMMIT.fullmatch(ref)]:
        raise ValueError(f"{wrong[0]!r} names no commit")
    if len(set(refs)) < len(refs):
        raise ValueError("a commit stands there twice")
    return value if isinstance(value, str) else tuple(refs)


@dataclass(frozen=True)
class Matrix(Closed):
    """Which commits: as listed, or "FROM..TO", those after the one up to the other."""

    refs: Annotated[tuple[str, ...] | str, PlainValidator(_refs)]


Ref = Annotated[str, PlainValidator(_ref)]


@dataclass(frozen=True)
class Watching(Closed):
    """What `kdyno watch` does beyond measuring."""

    base: Ref | None = None
    """With what the branch is compared at first and after a rebase: the newest common commit."""
    command: model.Words = ()
    """Gets each difference as JSON on its stdin."""


@dataclass(frozen=True)
class Searching(Closed):
    """What `kdyno bisect` searches."""

    good: Ref | None = None
    bad: Ref | None = None
    case: model.Text | None = None
    """SUITE/CASE, where the file has several."""
    min_effect: model.Share | None = None
    max_minutes: Annotated[float, model.up_to(MOST_MINUTES_OF_A_STEP, "minutes")] | None = None
    layouts: Annotated[int, model.whole(FEWEST_LINKS, MOST_LINKS)] | None = None


@dataclass(frozen=True)
class OfCommits:
    """An experiment whose variants are commits, for a watch or a search."""

    tables: dict[str, Any]
    """That all variants have in common."""
    experiment: model.Experiment
    """With the variants of ``ENDS``, both of the source as the file has it."""
    watch: Watching
    bisect: Searching


ENDS = ("reference", "tip")


def load(path: Path, vocabulary: model.Vocabulary, ref: str | None = None) -> model.Experiment:
    """The experiment in a file; with [matrix] that for ``ref``. UsageError lists every mistake."""
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
    except FileNotFoundError as problem:
        files = model.names_in(path.absolute().parent, "*.toml")
        hint = meant(path.name, files, " Did you mean {}?")
        if not hint and not path.suffix:
            hint = (
                f" An experiment is a .toml file. Is it a run? `kdyno run --resume {path}` goes on "
                f"with one, `kdyno report {path}` shows it"
            )
        raise UsageError(f"{path} does not exist.{hint}") from problem
    except IsADirectoryError as problem:
        inside = ", ".join(sorted(model.names_in(path, "*.toml"))[:8])
        hint = f" It holds {inside}" if inside else ""
        raise UsageError(f"{path} is a folder, not an experiment file.{hint}") from problem
    except (OSError, ValueError) as problem:
        why = getattr(problem, "strerror", None) or problem
        raise UsageError(f"{path} cannot be read: {why}") from problem
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
    vocabulary: model.Vocabulary,
    words: Callable[[KeyPath], str] | None = None,
    tables: Mapping[str, Any] | None = None,
) -> model.Experiment:
    """The experiment in ``text``. ``origin`` names it in messages, ``folder`` is where relative
    paths begin. UsageError lists every mistake. words: what messages call a key of a text that
    nobody wrote as a file. tables: instead of those in the text, which then only has the lines."""

    def no_mistakes() -> Mistakes:
        return Mistakes(origin, "" if words else text, words)

    mistakes = no_mistakes()
    place = model.Place(folder, vocabulary)
    data = _toml(text, origin) if tables is None else tables
    file = read_as(model.File, data, mistakes, (), place, model.home_of)
    for key, table in (("watch", Watching), ("bisect", Searching)):
        if key in data:
            read_as(table, data[key], mistakes, (key,), place, model.home_of)
    if not file.name and not mistakes.has(("name",)):
        mistakes.add((), 'name is missing: name = "…", which also names the run\'s folder')
    variants, of_cases = _variants(file, place, mistakes)
    if file.machine.userland:
        *_, bits = model.userland_of(file.machine.userland)
        variants = tuple(
            replace(variant, program_bits=variant.program_bits or bits) for variant in variants
        )
    if not file.suite and not mistakes.has(("suite",)):
        what = "no [[suite]]: nothing would be measured"
        mistakes.add(("suite",), what, allowed=sorted(vocabulary.suites))
    taken: dict[tuple[str, str], int] = {}
    for index, use in enumerate(file.suite):
        for case in use.cases:
            if (other := taken.setdefault((use.name, case), index)) != index:
                what = f"the case {case} of {use.name} is in suite[{other + 1}] already"
                mistakes.add(("suite", index, "cases"), what)
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
                f"scheduler = {quoted(model.called(variant.scheduler))} and arch = "
                f"{quoted(variant.arch)}: {NO_SCHEDULER[variant.arch]}. "
                'Allowed: arch = "x86_64" on [machine] kind = "qemu"',
            )
    suites = cross.cells(file.suite, of_cases, vocabulary, mistakes)
    mistakes.raise_any()
    return model.Experiment(
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


def of_commits(path: Path, vocabulary: model.Vocabulary) -> OfCommits:
    """The experiment of ``path``, whose variants are commits. UsageError lists every mistake."""
    text = read(path)
    tables = _toml(text, str(path))
    mistakes = Mistakes(str(path), text)
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
    name: str, keys: Mapping[str, object], origin: str, folder: Path, vocabulary: model.Vocabulary
) -> model.Variant:
    """One kernel of its own, from ``keys`` as [kernel] has them; otherwise as ``parse``."""
    mistakes = Mistakes(origin)
    place = model.Place(folder, vocabulary)
    data = {"name": "one", "kernel": dict(keys), "variant": {name: {}}}
    file = read_as(model.File, data, mistakes, (), place, model.home_of)
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
    lines = text.removesuffix("\n").split("\n")
    line = len(lines)
    if match := re.search(r"\s*\(at line (\d+), column (\d+)\)$", problem):
        line = int(match[1])
        problem = f"{problem[: match.start()]} (column {match[2]})"
    problem = problem.replace(" (at end of document)", " (at the end of the file)")
    hint = next((hint for start, hint in _HINTS.items() if problem.startswith(start)), "")
    if problem.startswith('Expected "\'"'):  # looked for to the end of the file
        odd = (number for number, row in enumerate(lines, 1) if row.count("'") % 2)
        line, problem = next(odd, line), "a text in single quotes does not end"
    if problem.startswith(("Cannot overwrite", "Cannot declare")):
        # The key or header that the line begins with stands before it.
        heads = [re.match(r"\s*(\[+[^\]]*\]+|[^=#]+?(?=\s*=))", row) for row in lines[:line]]
        *before, second = [head[1].strip() if head else "" for head in heads]
        for number, first in enumerate(before, 1):
            if second and first.strip("[]") == second.strip("[]"):
                hint = f"{first} stands in line {number} already: it may be there once"
    refuse(origin, [(line, f"this is not TOML: {problem}" + (f". {hint}" if hint else ""))])


def _variants(
    file: model.File, place: model.Place, mistakes: Mistakes
) -> tuple[tuple[model.Variant, ...], cross.CaseFactors]:
    """The cross of all factors of kernels, and the factors of cases."""
    machine = file.machine.kind
    kernel = cross.placed(file.kernel, ("kernel",), place, machine, mistakes)
    explicit = {
        name: cross.placed(layer, ("variant", name), place, machine, mistakes)
        for name, layer in file.variant.items()
    }
    factors: dict[str, dict[str, model.Level]] = {}
    of_cases: dict[str, dict[str, model.Level]] = {}
    for factor, levels in file.factor.items():
        path = ("factor", factor)
        if len(levels) < 2:
            mistakes.add(path, f"a factor needs two levels or more, this has {len(levels)}")
        if factor == cross.VARIANT and len(explicit) > 1:
            mistakes.add(
                path, f"{quoted(cross.VARIANT)} is what the [variant.NAME]s are: rename it"
            )
        if any(layer.set or layer.case for layer in levels.values()):
            of_cases[factor] = levels
            for level, layer in levels.items():
                kernels = replace(layer, set={}, case="") != model.Level()
                if kernels or bool(layer.set) == bool(layer.case):
                    what = "a level of this factor needs one of set = { NAME = VALUE } and case = "
                    what += "NAME, as the factor's other levels have; kernels and cases cannot be "
                    mistakes.add((*path, level), f"{what}mixed in one factor")
        else:
            factors[factor] = {
                level: cross.placed(layer, (*path, level), place, machine, mistakes)
                for level, layer in levels.items()
            }
    boots = place.vocabulary.machines[machine]
    if boots:
        crossed = cross.variants(kernel, explicit, factors, boots[0], mistakes)
    else:
        crossed = cross.running(machine, kernel, explicit, factors, mistakes)
    chosen = (cross.with_best(variant, place.vocabulary, mistakes) for variant in crossed)
    return tuple(chosen), of_cases


def _baseline(file: model.File, names: list[str], alone: bool, mistakes: Mistakes) -> str:
    """The baseline's name, or of the only variant, if one may stand ``alone``."""
    if not names and not file.variant and not file.factor:
        what = "no variant: at least [variant.NAME] twice, or a [factor.NAME] with levels"
        mistakes.add((), what)
    if not names:
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


def read_matrix(text: str, origin: str) -> Matrix | None:
    """None for an experiment without [matrix], and for what is no TOML: ``parse`` says what is
    wrong with that. UsageError lists every mistake."""
    try:
        data = tomllib.loads(text)
    except (ValueError, RecursionError, OverflowError):
        return None
    if "matrix" not in data:
        return None
    mistakes = Mistakes(origin, text)
    kernel = data.get("kernel")
    if not isinstance(kernel, dict) or REF not in str(kernel.get("source")):
        what = f'[matrix] needs a source with {REF}, such as "git:DIR#{REF}"'
        mistakes.add(("kernel", "source"), what)
    matrix = read_as(Matrix, data["matrix"], mistakes, ("matrix",), home=model.home_of)
    mistakes.raise_any()
    return matrix


def at_ref(text: str, ref: str) -> str:
    """The experiment for one commit of a [matrix]."""
    lines, inside = [], False
    for line in text.splitlines(keepends=True):
        if line.lstrip().startswith("["):
            inside = bool(re.fullmatch(r"\s*\[\s*matrix\s*\]\s*(#.*)?", line.rstrip("\r\n")))
        lines.append("\n" if inside else line.replace(REF, ref))
    return "".join(lines)


# What the command line changes against the experiment file; kept with the run for --resume.
QUICK_SECONDS = 0.2
QUICK_BOOTS = 12
QUICK_MINUTES = 2.0
QUICK_PRECISION = 0.02


@dataclass(frozen=True)
class Overrides:
    """None leaves what the file says."""

    quick: bool = False
    """A first impression: short cases, few boots, at most two minutes of measuring."""
    seconds: float | None = None
    max_boots: int | None = None
    max_minutes: float | None = None
    precision: float | None = None
    seed: int | None = None
    calibrate: bool = False
    interleave: str | None = None
    metric: str | None = None
    exact_boots: int | None = None
    layouts: int | None = None
    confirms: str = ""
    """The run of the same experiment that this one is to confirm."""
    variants: tuple[str, ...] = ()
    """Only these (the baseline always stays)."""
    cases: tuple[str, ...] = ()
    """Only these; ``suite/case`` or ``case``, with shell patterns."""

    def to_json(self) -> dict[str, Any]:
        """The values that differ from the defaults, as a manifest has them."""
        return {
            name: [*value] if isinstance(value, tuple) else value
            for name, value in vars(self).items()
            if value != getattr(Overrides, name)
        }


def options(overrides: Mapping[str, Any]) -> list[str]:
    """The words of a command line that say what ``to_json`` gave; of other keys nothing."""
    names = {"variants": "variant", "cases": "case"}
    words = []
    for key, value in overrides.items():
        if key not in vars(Overrides()) or key == "confirms":
            continue
        option = f"--{names.get(key, key).replace('_', '-')}"
        for each in value if isinstance(value, list | tuple) else [value]:
            text = f"{each:.12g}" if isinstance(each, float) else str(each)
            words += [option] if each is True else [option, text]
    return words


def apply(overrides: Overrides, experiment: model.Experiment) -> model.Experiment:
    """The experiment as it is to be run. UsageError for names that it does not have."""
    measure = _measure(overrides, experiment.measure)
    quick, seconds = overrides.quick, overrides.seconds
    suites = tuple(
        replace(
            use,
            seconds=seconds or (min(use.seconds, QUICK_SECONDS) if quick else use.seconds),
            quick=use.quick or quick,
        )
        for use in experiment.suites
    )
    if overrides.cases:
        suites = _chosen_cases(overrides.cases, suites)
    names = [variant.name for variant in experiment.variants]
    for name in overrides.variants:
        _require("--variant", name, names, name in names)
    kept = {*overrides.variants, experiment.baseline} if overrides.variants else {*names}
    variants = tuple(variant for variant in experiment.variants if variant.name in kept)
    if measure.layouts and len(variants) == 1:
        # Links of one kernel are compared with other links of it.
        measure = replace(measure, calibrate=True)
    return replace(experiment, measure=measure, suites=suites, variants=variants)


def _measure(overrides: Overrides, measure: model.Measure) -> model.Measure:
    changed: dict[str, Any] = {}
    if overrides.quick:
        changed |= {
            "max_boots": min(measure.max_boots, QUICK_BOOTS),
            "min_boots": min(measure.min_boots, QUICK_BOOTS),
            "max_minutes": min(measure.max_minutes or QUICK_MINUTES, QUICK_MINUTES),
            "precision": max(measure.precision, QUICK_PRECISION),
        }
    for option, words in (("interleave", model.INTERLEAVES), ("metric", model.METRICS)):
        if (word := getattr(overrides, option)) not in (None, *words):
            raise UsageError(f"--{option} {word!r}: there are {', '.join(words)}")
    given = {name: value for name, value in vars(overrides).items() if name in vars(measure)}
    changed |= {key: new for key, new in given.items() if new is not None and new is not False}
    measure = replace(measure, **changed)
    return replace(measure, min_boots=min(measure.min_boots, measure.max_boots))


def _chosen_cases(
    patterns: tuple[str, ...], suites: tuple[model.SuiteUse, ...]
) -> tuple[model.SuiteUse, ...]:
    """A cell of a cross goes by its case's name, which means all cells, and by its own."""
    matched: set[str] = set()

    def is_chosen(use: model.SuiteUse, case: str) -> bool:
        names = {case, use.name_in_run(case)}
        names |= {f"{use.name}/{name}" for name in names}
        fitting = {text for text in patterns if any(fnmatchcase(name, text) for name in names)}
        matched.update(fitting)
        return bool(fitting)

    chosen = [
        replace(use, cases=tuple(case for case in use.cases if is_chosen(use, case)))
        for use in suites
    ]
    names = [use.name_in_run(case) for use in suites for case in use.cases]
    for pattern in patterns:
        _require("--case", pattern, names, pattern in matched)
    return tuple(use for use in chosen if use.cases)


def _require(flag: str, name: str, names: list[str], present: bool) -> None:
    if not present:
        hint = meant(name, names, " Did you mean {!r}?")
        has = ", ".join(names)
        raise UsageError(f"{flag} {name!r} is not in this experiment.{hint} It has: {has}")
