# SPDX-License-Identifier: MIT
"""A function of two kernels beside each other: what is the same, what one has more, its counts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from kdyno.experiment.model import Experiment
from kdyno.labs.profile import annotate
from kdyno.labs.profile.annotate import Annotated, Instruction, as_json, parts
from kdyno.measure.execution import Options
from kdyno.report.show import terminal
from kdyno.report.show.terminal import Screen
from kdyno.store.counts import CaseCounts, Counted

BEFORE = CaseCounts("unixbench", "pipe", "stock", 10, {})
AFTER = CaseCounts("unixbench", "pipe", "mine", 10, {})


def code(*lines: str, each: float = 1.0) -> list[Instruction]:
    return [Instruction(4 * at, text, each) for at, text in enumerate(lines)]


def beside(left: list[Instruction], right: list[Instruction]) -> Annotated:
    return Annotated("do_pipe", BEFORE, AFTER, tuple(annotate._beside(left, right)))


def test_what_is_the_same_stands_beside_each_other() -> None:
    listing = beside(code("push %rbx", "ret"), code("push %rbx", "nop", "ret"))
    texts = [
        (left and left.instruction, right and right.instruction) for left, right in listing.rows
    ]
    assert texts == [("push %rbx", "push %rbx"), (None, "nop"), ("ret", "ret")]
    assert (listing.total(0), listing.total(1)) == (2.0, 3.0)

    # Where code lies makes no difference.
    left = code("call ffffffff81000010 <mutex_lock>", "mov 0x123456(%rip),%rax # ffff <x>")
    right = code("call ffffffff81000550 <mutex_lock>", "mov 0x654321(%rip),%rax # fff0 <x>")
    assert all(None not in row for row in beside(left, right).rows)
    assert None in beside(left, code("call *%rax")).rows[0]


def test_a_variant_that_is_left_out_has_no_table(monkeypatch: pytest.MonkeyPatch) -> None:
    images = {"stock": "stock", "mine": "mine"}
    monkeypatch.setattr(annotate, "check", lambda *_: SimpleNamespace(digests={}))
    monkeypatch.setattr(annotate, "built_of", lambda *_: SimpleNamespace(images=images))
    monkeypatch.setattr(annotate, "_disassembled", lambda *_: code("ret"))
    counts = [
        Counted(name, "", "", (CaseCounts("unixbench", "pipe", name, 10, {}, addresses={0: 10}),))
        for name in ("stock", "mine", "other")
    ]
    experiment, options = cast(Experiment, None), Options(Path(), Path())
    (listing,) = annotate.annotated(counts, "do_pipe", experiment, options)
    assert (listing.before.variant, listing.after.variant) == ("stock", "mine")


def test_the_table_has_counts_and_differences() -> None:
    def lines_of(listing: Annotated) -> list[str]:
        return terminal.text(parts([listing]), Screen(120, False, True)).splitlines()

    left = code("push %rbx", "ret")
    right = [*code("push %rbx"), *code("nop", each=41.0), *code("ret")]
    lines = lines_of(beside(left, right))
    assert lines[0] == "do_pipe in unixbench/pipe: mine − stock, executions an operation"
    assert [line.split() for line in lines[2:6]] == [
        ["2.000", "43.000", "+41.000", "sum"],
        ["+0", "1.000", "1.000", "push", "%rbx"],
        ["+0", "41.000", "+41.000", "nop"],
        ["+0", "1.000", "1.000", "ret"],
    ]
    alone = lines_of(replace(beside(code("ret"), code("ret")), after=BEFORE))
    assert alone[0] == "do_pipe in unixbench/pipe: stock, executions an operation"
    assert alone[3].split() == ["+0", "1.000", "ret"]


def test_programs_get_all_of_it() -> None:
    (listing,) = as_json([beside(code("ret"), code("nop", "ret"))])["annotated"]
    assert listing["function"] == "do_pipe" and listing["baseline"] == "stock"
    nop = {"offset": 0, "instruction": "nop", "executions": 1.0, "address": 0}
    assert listing["rows"][0] == {"baseline": None, "variant": nop}
