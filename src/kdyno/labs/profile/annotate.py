# SPDX-License-Identifier: MIT
"""One function, instruction by instruction, in two kernels beside each other, with its counts."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from pathlib import Path
from typing import Any

from kdyno.command import capture, require
from kdyno.errors import ToolError, UsageError
from kdyno.experiment.model import Experiment
from kdyno.kernels.image import Image
from kdyno.kernels.installed import symbols as symbols_file
from kdyno.labs.profile.counts import compared, pairs
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
_JUMP = re.compile(r"\b[0-9a-f]{8,16} <[^>]*>|0x[0-9a-f]{6,}|# .*$")
_PADDING = ("nop", "nopl", "nopw", "int3", "cs", "data16")
"""What fills the space up to the next function."""
_LONGEST = 1 << 16


@dataclass(frozen=True)
class Instruction:
    offset: int
    instruction: str
    executions: float = 0.0
    """Per operation."""
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
        return sum(code.executions for row in self.rows if (code := row[of]) is not None)


def annotated(
    counts: Sequence[Counted], function: str, experiment: Experiment, options: Options
) -> list[Annotated]:
    """Of each case in which the function was executed, and each variant.

    UsageError where no kernel has such a function; ToolError where one is not what was counted."""
    checked = check(experiment, options.cache, options.listener.fetching)
    for counted in counts:
        digest = checked.digests.get(counted.variant)
        if digest is not None and counted.image and digest != counted.image:
            raise ToolError(
                f"{counted.variant}: the kernel that was counted is not the one that the "
                "experiment builds today; count again: kdyno profile RUN --method count"
            )
    kernels = built_of(experiment, checked, options).images
    # Variants that --variant leaves out were not built here, and have no text to show.
    counts = [counted for counted in counts if counted.variant in kernels]
    texts = {each.variant: _disassembled(kernels[each.variant], function) for each in counts}
    if not any(texts.values()):
        names = [name for case in counts[0].cases for _where, name in case.functions]
        hint = meant(function, names, " Did you mean {}?")
        raise UsageError(f"--annotate {function}: no kernel has a function of that name.{hint}")
    functions = []
    for before, after in pairs(counts):
        left, right = (
            [
                replace(code, executions=case.addresses.get(code.address, 0) / case.operations)
                for code in texts[case.variant]
            ]
            for case in (before, after)
        )
        if any(code.executions for code in (*left, *right)):
            functions.append(Annotated(function, before, after, tuple(_beside(left, right))))
    if not functions:
        raise UsageError(f"--annotate {function}: no case executes it")
    return functions


def _disassembled(image: Image, function: str) -> list[Instruction]:
    """Every stretch of the function. Empty: this kernel has none."""
    symbols = symbols_of(symbols_file(image) if image.installed else image.kernel)
    ends = (*symbols.starts[1:], symbols.end)
    code: list[Instruction] = []
    offset = 0
    for start, end, name in zip(symbols.starts, ends, symbols.names, strict=True):
        if name == function:
            stop = min(end, start + _LONGEST)
            code += [
                Instruction(offset + address - start, text, address=address)
                for address, text in _objdump(image.kernel, start, stop)
            ]
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


def _beside(
    left: Sequence[Instruction], right: Sequence[Instruction]
) -> Iterator[tuple[Instruction | None, Instruction | None]]:
    """Pairs of the same instruction; addresses and what jumps go to may differ."""
    plainly = [[_JUMP.sub("", code.instruction).strip() for code in side] for side in (left, right)]
    matcher = difflib.SequenceMatcher(None, plainly[0], plainly[1], autojunk=False)
    for word, low, high, other_low, other_high in matcher.get_opcodes():
        if word == "equal":
            yield from zip(left[low:high], right[other_low:other_high], strict=True)
            continue
        yield from ((code, None) for code in left[low:high])
        yield from ((None, code) for code in right[other_low:other_high])


def parts(functions: Sequence[Annotated]) -> Iterator[Part]:
    for listing in functions:
        before, after = listing.before, listing.after
        where = compared(before, after)
        yield f"{plain.name(listing.function)} in {where}, executions an operation"
        rows: list[_Row] = [("", listing.total(0), listing.total(1), "sum")]
        for left, right in listing.rows:
            before_each = None if left is None else left.executions
            after_each = None if right is None else right.executions
            if (code := right or left) is not None:
                rows.append((f"+{code.offset:x}", before_each, after_each, code.instruction))
        yield from (Grid(_ALONE if before is after else _COLUMNS, rows), "")
    yield "note: one count is one execution of the instruction"


_Row = tuple[str, float | None, float | None, str]
"""(place, executions before and after, instruction)."""


def _more(row: _Row) -> float | None:
    more = (row[2] or 0.0) - (row[1] or 0.0)
    return more if abs(more) >= 5e-4 else None


_COLUMNS = (
    Column("at", itemgetter(0)),
    Column("baseline", itemgetter(1), "number", "{:,.3f}".format),
    Column("variant", itemgetter(2), "number", "{:,.3f}".format),
    Column("difference", _more, "number", figures.signed),
    Column("instruction", itemgetter(3), "name"),
)
_ALONE = (_COLUMNS[0], replace(_COLUMNS[1], head="times"), _COLUMNS[4])


def as_json(functions: Sequence[Annotated]) -> dict[str, Any]:
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
                    {"baseline": left and vars(left), "variant": right and vars(right)}
                    for left, right in listing.rows
                ],
            }
            for listing in functions
        ],
    }
