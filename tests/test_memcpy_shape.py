# SPDX-License-Identifier: MIT
"""Shapes and what the generator makes of them; the shipped files are made by it, byte for byte."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdyno.errors import UsageError
from kdyno.kernels.routines.routine import (
    FUNCTIONS,
    PAGES,
    parse_routine,
    routines_folder,
    start_of,
)
from kdyno.labs.memcpy.make.generator import describe, generate
from kdyno.labs.memcpy.make.shape import LARGE, STORES, TAILS, WIDTHS, Shape, parse_shape

_MADE = re.compile(r"generated: kdyno memcpy generate (\S+)(?: --name (\S+))? -o (\S+)$", re.M)
GENERATED = [
    (path, match)
    for path in sorted(routines_folder().glob("*.S"))
    if (match := _MADE.search(path.read_text("utf-8")))
]


SHORTEST = (("", 0), ("mask", 32), ("mask", 64), ("bytes", 16), ("bytes", 64))


def every_shape() -> list[Shape]:
    found = []
    for function, registers, tail, large, small in product(
        FUNCTIONS, WIDTHS, TAILS, LARGE, (0, 32)
    ):
        for turns in (1, 2, 4, 8, 16, 64):
            start = 0 if large == "plain" or function in PAGES else 8192
            for (short, upto), stores in product(SHORTEST, STORES):
                try:
                    loop = turns * WIDTHS[registers]
                    parts = (function, registers, loop, tail, large, start, small)
                    found.append(Shape(*parts, short, upto, stores))
                except UsageError:
                    continue
    return found


@pytest.mark.parametrize(("path", "made"), GENERATED, ids=lambda it: getattr(it, "stem", ""))
def test_a_shipped_file_is_what_the_generator_makes(path: Path, made: re.Match[str]) -> None:
    shape, name, file = made.groups()
    assert file == path.name
    assert path.read_text("utf-8") == generate(parse_shape(shape), name)


def test_most_routines_are_generated() -> None:
    assert len(GENERATED) >= 25
    assert {parse_shape(made[1]).function for _, made in GENERATED} == set(FUNCTIONS)


@pytest.mark.slow
def test_every_shape_is_written_and_read_as_one_word() -> None:
    shapes = every_shape()
    assert len(shapes) > 300
    assert {shape.tail for shape in shapes} == set(TAILS)
    assert all(parse_shape(shape.name) == shape for shape in shapes)
    assert len({shape.name for shape in shapes}) == len(shapes)


@pytest.mark.slow
def test_every_shape_becomes_a_file_that_describes_itself() -> None:
    for shape in every_shape():
        text = generate(shape)
        routine = parse_routine(Path(f"{shape.name}.S"), text)
        assert (routine.function, routine.requires) == (shape.function, shape.requires)
        assert routine.help == describe(shape)
        assert text.count(start_of(routine)) == 1
        labels = re.findall(r"^\.L(\w+):", text, re.M)
        assert len(labels) == len(set(labels))
        assert set(re.findall(r"\s\.L(\w+)", text)) <= set(labels)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("fast", "is not a shape"),
        ("avx2-128", "a tail or a number of bytes is missing"),
        ("mmx-128-overlap", "registers 'mmx' is not known"),
        ("avx2-100-overlap", "must be a power of two"),
        ("avx2-16-overlap", "at least a register's 32 bytes"),
        ("avx2-8192-overlap", "are more than 2048"),
        ("avx2-128-mask", "only avx512 has masks"),
        ("avx2-128-overlap-rep", "a number of bytes is missing"),
        ("avx2-128-overlap-rep-128", "begin at 256 bytes or more"),
        ("avx2-128-overlap-small32", "only avx512 with overlap or mask"),
        ("avx512-128-overlap-small16", "are of 32 bytes"),
        ("memset-avx512-128-mask-small32", "only memcpy has"),
        ("avx512-64-mask-small32", "128 bytes a turn or more"),
        ("avx2-128-overlap-mask32", "only avx512 and avx512vl have masks"),
        ("avx512-256-mask-mask64", "only with overlap"),
        ("avx512-256-overlap-mask16", "up to 32 or 64 bytes"),
        ("sse-64-overlap-bytes64", "up to 16 or 32 bytes"),
        ("memmove-avx2-128-overlap-bytes32", "go forward only"),
        ("avx2-128-overlap-aligned", "is not aligned anyway"),
        ("avx512-64-mask-aligned", "128 bytes or more"),
        ("memmove-avx2-128-overlap-unaligned", "only memcpy and memset"),
        ("memmove-sse-128-string", "memmove needs overlap"),
        ("memmove-sse-64-overlap-nt-4096", "do not overlap"),
        ("memmove-avx2-512-overlap", "128 at most"),
        ("copy_page-avx2-128-overlap", "a page has neither a tail"),
        ("copy_page-avx512-8192", "are more than 4096"),
    ],
)
def test_a_shape_that_cannot_be_is_refused_with_the_reason(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        parse_shape(text)


@given(st.text(max_size=40))
def test_no_text_is_taken_for_a_shape_by_chance(text: str) -> None:
    try:
        shape = parse_shape(text)
    except UsageError:
        return
    assert parse_shape(shape.name) == shape


def test_the_published_routine_moves_blocks_and_leaves_the_rest_to_strings() -> None:
    text = generate(parse_shape("sse-512-string"))
    assert "shrq\t$9, %r9" in text and text.count("movdqu") == 2 * 512 // 16
    assert text.index("rep movsq") < text.index("rep movsb")


def test_upper_halves_are_cleared_where_they_were_used() -> None:
    avx2 = generate(parse_shape("avx2-128-overlap"))
    assert avx2.count("vzeroupper") == 4  # 33-64, 65-128, 129-256, above
    assert "vzeroupper" not in generate(parse_shape("avx512-256-overlap"))


def test_the_shortest_blocks_go_their_own_way_and_the_others_by_branches() -> None:
    text = generate(parse_shape("avx512-256-overlap-mask64-rep-16384"))
    assert "$64, %rdx\n\tja\t.Lover_64\n\tmovq\t$-1, %rcx\n\tbzhiq" in text
    assert "movzbl" not in text and ".Lover_32" not in text
    assert re.search(r"\.Lover_512:\n\tcmpq\t\$16384, %rdx\n\tjae\t\.Llarge", text)
    assert "rep movsb" in generate(parse_shape("avx2-128-overlap-bytes32")).split("over_32:")[0]


def test_a_loop_begins_at_a_boundary_only_where_the_shape_says_so() -> None:
    assert "andq\t$-64, %rdi" in generate(parse_shape("avx512-256-overlap"))
    assert "andq\t$-64" not in generate(parse_shape("avx512-256-overlap-unaligned"))
    assert "andl\t$63, %r8d" in generate(parse_shape("avx512-256-mask-aligned"))
    # Stores past the caches fault elsewhere.
    assert "andq\t$-64" in generate(parse_shape("avx512-256-overlap-unaligned-nt-1048576"))


def test_half_registers_that_avx_cannot_name_need_no_vzeroupper() -> None:
    text = generate(parse_shape("avx512vl-128-overlap-mask64"))
    assert "vmovdqu64\t(%rsi), %ymm16" in text and "vmovdqu8\t(%rsi), %zmm16{%k1}{z}" in text
    assert "vzeroupper" not in text and "xmm0" not in text
    assert parse_shape("avx512vl-128-overlap-mask64").requires == (
        *("avx512f", "avx512vl", "avx512bw", "bmi2"),
    )
