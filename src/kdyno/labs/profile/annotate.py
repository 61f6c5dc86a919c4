# SPDX-License-Identifier: MIT
"""One function, instruction by instruction, in two kernels beside each other, with its counts."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from pathlib import Path
from typing import Any

from kdyno.command import capture, require
from kdyno.errors import ToolError, UsageError
from kdyno.experiment.model import Experiment
from kdyno.kernels.image import Image
from kdyno.kernels.installed import symbols as symbols_file
from kdyno.kernels.recipe import Recipe
from kdyno.labs.profile.counts import pairs
from kdyno.labs.profile.symbols import symbols_of
from kdyno.measure.builder import check
from kdyno.measure.execution import Options, built_of
from kdyno.reading.mistakes import meant
from kdyno.report import figures, plain
from kdyno.report.show.grid import Column, Grid
from kdyno.report.show.terminal import Part
from kdyno.sandbox import confined
from kdyno.store.counts import CaseCounts, Counted

_LINE = re.compile(r"^\s*([0-9a-f]+):\t(.*)$")
_PLACE = re.compile(r"(?:.*/)?([^/\s]+/[^/\s]+\.[chS]):(\d+)")
_JUMP = re.compile(r"\b[0-9a-f]{8,16} <[^>]*>|0x[0-9a-f]{6,}|# .*$")
_PADDING = ("nop", "nopl", "nopw", "int3", "cs", "data16")
"""What fills the space up to the next function."""
_LONGEST = 1 << 16
_DEBUG = "-g"
"""Writes line numbers beside the code and changes nothing in it."""


@dataclass(frozen=True)
class Instruction:
    """One of a function. ``each``: executions per operation."""

    offset: int
    text: str
    each: float
    line: str = ""
    """``fs/pipe.c:534``; empty where the kernel has no line numbers."""
    source: str = ""
    address: int = 0


@dataclass(frozen=True)
class Annotated:
    """A function in two kernels, for one case."""

    function: str
    before: CaseCounts
    after: CaseCounts
    rows: tuple[tuple[Instruction | None, Instruction | None], ...]
    """The same instruction in both, or one that the other has not."""

    def total(self, of: int) -> float:
        return sum(code.each for row in self.rows if (code := row[of]) is not None)


def annotated(
    counts: Sequence[Counted],
    function: str,
    experiment: Experiment,
    options: Options,
    source: str | None,
) -> list[Annotated]:
    """Of each case in which the function was executed, and each variant.

    source: a file of the kernel that is compiled once more, with line numbers. UsageError where no
    kernel has such a function; ToolError where a kernel is not what was counted."""
    checked = check(experiment, options.cache, options.listener.fetching)
    for counted in counts:
        digest = checked.digests.get(counted.variant)
        if digest is not None and counted.image and digest != counted.image:
            raise ToolError(
                f"{counted.variant}: the kernel that was counted is not the one that the "
                "experiment builds today; count again: kdyno profile RUN --method count"
            )
    kernels: Mapping[str, Image] = built_of(experiment, checked, options).images
    lined: Mapping[str, Image] = {}
    if source:
        # The same kernels with line numbers for one file; an incremental build of that file.
        variants = tuple(
            replace(variant, file_cflags=_added(variant.file_cflags, source))
            for variant in experiment.variants
            if variant.name in kernels and not variant.image
        )
        if not variants:
            raise UsageError(
                f"{source}: its lines are known by compiling it once more, and these kernels are "
                "images, which are not compiled here"
            )
        again = replace(experiment, variants=variants)
        recipes = check(again, options.cache, options.listener.fetching)
        lined = built_of(again, recipes, options).images
    texts = {
        kernel.variant: _disassembled(
            kernels[kernel.variant],
            function,
            lined.get(kernel.variant),
            checked.of.get(kernel.variant),
        )
        for kernel in counts
        if kernel.variant in kernels
    }
    if not any(texts.values()):
        names = [name for case in counts[0].cases for _where, name in case.functions]
        hint = meant(function, names, " Did you mean {}?")
        raise UsageError(f"--annotate {function}: no kernel has a function of that name.{hint}")
    functions = []
    for before, after in pairs(counts):
        left, right = (
            [
                replace(code, each=case.addresses.get(code.address, 0) / case.operations)
                for code in texts.get(case.variant, ())
            ]
            for case in (before, after)
        )
        if any(code.each for code in (*left, *right)):
            functions.append(Annotated(function, before, after, tuple(_beside(left, right))))
    if not functions:
        raise UsageError(f"--annotate {function}: no case executes it")
    return functions


def _added(flags: tuple[tuple[str, str], ...], source: str) -> tuple[tuple[str, str], ...]:
    own = dict(flags)
    own[source] = f"{own.get(source, '')} {_DEBUG}".strip()
    return tuple(sorted(own.items()))


def _disassembled(
    image: Image, function: str, lined: Image | None, recipe: Recipe | None
) -> list[Instruction]:
    """Every stretch of the function. Empty: this kernel has none."""
    symbols = symbols_of(symbols_file(image) if image.installed else image.kernel)
    ends = (*symbols.starts[1:], symbols.end)
    code: list[Instruction] = []
    offset = 0
    for start, end, name in zip(symbols.starts, ends, symbols.names, strict=True):
        if name != function:
            continue
        stop = min(end, start + _LONGEST)
        texts = _objdump(image.kernel, start, stop)
        lines: dict[int, tuple[str, str]] = {}
        if lined is not None and recipe is not None:
            with_lines = [text for _, text in _objdump(lined.kernel, start, stop)]
            if with_lines != [text for _, text in texts]:
                raise ToolError(
                    f"{function}: with line numbers its code is another, so they do not fit"
                )
            lines = _lines(lined.kernel, [address for address, _ in texts], recipe)
        for address, text in texts:
            line, source = lines.get(address, ("", ""))
            at = offset + address - start
            code.append(Instruction(at, text, 0.0, line, source, address))
        offset += stop - start
    return code


def _objdump(kernel: Path, start: int, stop: int) -> list[tuple[int, str]]:
    """(address, instruction)."""
    tool = require("objdump", "to show a function's code (apt-get install binutils)")
    argv = [tool, "-d", "--no-show-raw-insn", "-w", f"--start-address={start:#x}"]
    argv += [f"--stop-address={stop:#x}", "--", str(kernel)]
    result = capture(confined(argv, reads=[kernel]))
    if result.status != 0:
        raise ToolError(f"objdump: {result.output.strip()[-300:]}")
    instructions = [
        (int(match[1], 16), " ".join(match[2].split()))
        for line in result.output.splitlines()
        if (match := _LINE.match(line))
    ]
    while instructions and instructions[-1][1].split(" ")[0] in _PADDING:
        instructions.pop()
    return instructions


def _lines(kernel: Path, addresses: Sequence[int], recipe: Recipe) -> dict[int, tuple[str, str]]:
    """Address → (file:line, the line's text)."""
    tool = require("addr2line", "to name lines of source (apt-get install binutils)")
    result = capture(
        confined([tool, "-e", str(kernel), *(f"{each:#x}" for each in addresses)], reads=[kernel])
    )
    if result.status != 0:
        raise ToolError(f"addr2line: {result.output.strip()[-300:]}")
    texts: dict[str, list[str]] = {}
    places = {}
    for address, line in zip(addresses, result.output.splitlines(), strict=False):
        name, _, number = line.partition(" ")[0].rpartition(":")
        if not number.isdigit() or name == "??":
            continue
        file = _within(name, recipe.tree.path)
        if file not in texts:
            texts[file] = _text(recipe, file)
        at = int(number)
        source = texts[file][at - 1].strip() if 0 < at <= len(texts[file]) else ""
        places[address] = f"{file}:{number}", source
    return places


def _within(name: str, tree: Path) -> str:
    """The file's path in the tree: a build names it by wherever it was built."""
    parts = Path(name).parts
    for at in range(len(parts)):
        file = tree / Path(*parts[at:])
        # A source may claim by #line to be any file of the host's.
        if parts[at] != "/" and file.is_file() and file.resolve().is_relative_to(tree.resolve()):
            return str(Path(*parts[at:]))
    return Path(name).name


def _text(recipe: Recipe, file: str) -> list[str]:
    """As this kernel has it: a patch may have changed it."""
    changed = recipe.changes.files.get(file)
    if changed is not None:
        return changed.decode("utf-8", "replace").splitlines()
    try:
        return (recipe.tree.path / file).read_text("utf-8", "replace").splitlines()
    except OSError:
        return []


def _beside(
    left: Sequence[Instruction], right: Sequence[Instruction]
) -> Iterator[tuple[Instruction | None, Instruction | None]]:
    """Pairs of the same instruction; addresses and what jumps go to may differ."""
    plainly = [[_JUMP.sub("", code.text).strip() for code in side] for side in (left, right)]
    matcher = difflib.SequenceMatcher(None, plainly[0], plainly[1], autojunk=False)
    for word, low, high, other_low, other_high in matcher.get_opcodes():
        if word == "equal":
            yield from zip(left[low:high], right[other_low:other_high], strict=True)
            continue
        yield from ((code, None) for code in left[low:high])
        yield from ((None, code) for code in right[other_low:other_high])


def parts(functions: Sequence[Annotated]) -> Iterator[Part]:
    """A table for each case and variant: counts, differences, code; lines of source where known."""
    any_lined = False
    for listing in functions:
        before, after = listing.before, listing.after
        against = "" if before is after else f" − {plain.short(before.variant)}"
        yield (
            f"{plain.name(listing.function)} in {plain.name(before.suite)}/"
            f"{plain.name(before.case)}: {plain.short(after.variant)}{against}, "
            "executions an operation"
        )
        rows = [("", listing.total(0), listing.total(1), "sum", ""), *_rows(listing)]
        lined = any(row[-1] for row in rows)
        any_lined = any_lined or lined
        columns = _ALONE if before is after else _COLUMNS
        yield from (Grid(columns if lined else columns[:-1], rows), "")
    more = "" if any_lined else "; --lines FILE, such as fs/pipe.c, shows the lines of source"
    yield f"note: one count is one execution of the instruction{more}"


def _rows(listing: Annotated) -> Iterator[tuple[str, float | None, float | None, str, str]]:
    """(place, executions before and after, instruction, line of source where it is another)."""
    last = ""
    for left, right in listing.rows:
        either = right or left
        assert either is not None
        line = f"{either.line}  {either.source}".strip()
        before = None if left is None else left.each
        after = None if right is None else right.each
        yield f"+{either.offset:x}", before, after, either.text, "" if line == last else line
        last = line


def _more(row: tuple[str, float | None, float | None, str, str]) -> float | None:
    more = (row[2] or 0.0) - (row[1] or 0.0)
    return more if abs(more) >= 5e-4 else None


_COLUMNS = (
    Column("at", itemgetter(0)),
    Column("baseline", itemgetter(1), "number", "{:,.3f}".format),
    Column("variant", itemgetter(2), "number", "{:,.3f}".format),
    Column("difference", _more, "number", figures.signed),
    Column("instruction", itemgetter(3), "name"),
    Column("source", itemgetter(4)),
)
_ALONE = (_COLUMNS[0], replace(_COLUMNS[1], head="times"), *_COLUMNS[4:])


def as_json(functions: Sequence[Annotated]) -> dict[str, Any]:
    """For programs: every instruction of the function in both kernels."""
    return {
        "schema": 1,
        "annotated": [
            {
                "function": listing.function,
                "suite": listing.before.suite,
                "case": listing.before.case,
                "baseline": listing.before.variant,
                "variant": listing.after.variant,
                "rows": [
                    {"baseline": _json(left), "variant": _json(right)}
                    for left, right in listing.rows
                ],
            }
            for listing in functions
        ],
    }


def _json(code: Instruction | None) -> dict[str, Any] | None:
    if code is None:
        return None
    fields = {"offset": code.offset, "instruction": code.text, "executions": code.each}
    return {**fields, "line": code.line, "source": code.source} if code.line else fields
