# SPDX-License-Identifier: MIT
"""A function of two kernels beside each other: what is the same, what one has more, its counts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from kdyno.labs.profile import annotate
from kdyno.labs.profile.annotate import Annotated, Instruction, as_json, parts
from kdyno.report.show import terminal
from kdyno.report.show.terminal import Screen
from kdyno.store.counts import CaseCounts

BEFORE = CaseCounts("unixbench", "pipe", "stock", 10, {})
AFTER = CaseCounts("unixbench", "pipe", "mine", 10, {})


def code(*lines: str, each: float = 1.0, source: str = "") -> list[Instruction]:
    where = "fs/pipe.c:7" if source else ""
    return [Instruction(4 * at, text, each, where, source) for at, text in enumerate(lines)]


def beside(left: list[Instruction], right: list[Instruction]) -> Annotated:
    return Annotated("do_pipe", BEFORE, AFTER, tuple(annotate._beside(left, right)))


def test_what_is_the_same_stands_beside_each_other() -> None:
    listing = beside(code("push %rbx", "ret"), code("push %rbx", "nop", "ret"))
    texts = [(left and left.text, right and right.text) for left, right in listing.rows]
    assert texts == [("push %rbx", "push %rbx"), (None, "nop"), ("ret", "ret")]
    assert (listing.total(0), listing.total(1)) == (2.0, 3.0)


def test_where_code_lies_makes_no_difference() -> None:
    left = code("call ffffffff81000010 <mutex_lock>", "mov 0x123456(%rip),%rax # ffff <x>")
    right = code("call ffffffff81000550 <mutex_lock>", "mov 0x654321(%rip),%rax # fff0 <x>")
    assert all(None not in row for row in beside(left, right).rows)
    assert None in beside(left, code("call *%rax")).rows[0]


def shown(listing: Annotated) -> list[str]:
    return terminal.text(parts([listing]), Screen(120, False, True)).splitlines()


def test_the_table_has_counts_differences_and_the_line_of_source() -> None:
    left = code("push %rbx", "ret", source="x = 1;")
    right = [*code("push %rbx", source="x = 1;"), *code("nop", each=41.0), *code("ret")]
    lines = shown(beside(left, right))
    assert lines[0] == "do_pipe in unixbench/pipe: mine − stock, executions an operation"
    assert [line.split() for line in lines[2:6]] == [
        ["2.000", "43.000", "+41.000", "sum"],
        ["+0", "1.000", "1.000", "push", "%rbx", "fs/pipe.c:7", "x", "=", "1;"],
        ["+0", "41.000", "+41.000", "nop"],
        ["+0", "1.000", "1.000", "ret"],
    ]
    assert "--lines" not in lines[-1]
    bare = shown(beside(code("ret"), code("ret")))
    assert "source" not in bare[1] and "--lines FILE" in bare[-1]
    alone = shown(replace(beside(code("ret"), code("ret")), after=BEFORE))
    assert alone[0] == "do_pipe in unixbench/pipe: stock, executions an operation"
    assert alone[3].split() == ["+0", "1.000", "ret"]


def test_programs_get_all_of_it() -> None:
    (listing,) = as_json([beside(code("ret"), code("nop", "ret", source="y"))])["annotated"]
    assert listing["function"] == "do_pipe" and listing["baseline"] == "stock"
    nop = {"offset": 0, "instruction": "nop", "executions": 1.0}
    nop |= {"line": "fs/pipe.c:7", "source": "y"}
    assert listing["rows"][0] == {"baseline": None, "variant": nop}


def test_a_line_of_source_is_found_wherever_it_was_built(tmp_path: Path) -> None:
    (tmp_path / "fs").mkdir()
    (tmp_path / "fs" / "pipe.c").write_text("a\n")
    assert annotate._within("/build/somewhere/fs/pipe.c", tmp_path) == "fs/pipe.c"
    assert annotate._within("fs/pipe.c", tmp_path) == "fs/pipe.c"
    assert annotate._within("/nowhere/else.c", tmp_path) == "else.c"
    own = (("fs/pipe.c", "-O1"), ("mm/filemap.c", "-Os"))
    assert annotate._added(own, "fs/pipe.c") == (("fs/pipe.c", "-O1 -g"), ("mm/filemap.c", "-Os"))
    assert annotate._added((), "fs/pipe.c") == (("fs/pipe.c", "-g"),)
