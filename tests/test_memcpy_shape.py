# SPDX-License-Identifier: MIT
"""Shapes and what the generator makes of them; the shipped files are made by it, byte for byte."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
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
from kdyno.labs.memcpy.shape import (
    STORES,
    TAILS,
    WIDTHS,
    Shape,
    describe,
    generate,
    parse_shape,
)

GOLDEN = Path(__file__).parent / "golden"
_MADE = re.compile(r"generated: kdyno lab memcpy generate (\S+)(?: --name (\S+))? -o (\S+)$", re.M)
GENERATED = [
    (path, match)
    for path in sorted(routines_folder().glob("*.S"))
    if (match := _MADE.search(path.read_text("utf-8")))
]


SHORTEST = (("", 0), ("mask", 32), ("mask", 64), ("bytes", 16), ("bytes", 64))


def every_shape() -> list[Shape]:
    results = []
    for function, registers, tail, large, small in product(
        FUNCTIONS, WIDTHS, TAILS, ("", "rep", "nt"), (0, 32)
    ):
        for turns in (1, 2, 4, 8, 16, 64):
            start = 0 if not large or function in PAGES else 8192
            for (short, upto), stores in product(SHORTEST, STORES):
                try:
                    loop = turns * WIDTHS[registers]
                    parts = (function, registers, loop, tail, large, start, small)
                    results.append(Shape(*parts, short, upto, stores))
                except UsageError:
                    continue
    return results


@pytest.mark.parametrize(
    ("path", "result"), GENERATED, ids=lambda value: getattr(value, "stem", "")
)
def test_a_shipped_file_is_what_the_generator_makes(path: Path, result: re.Match[str]) -> None:
    shape, name, file = result.groups()
    assert file == path.name
    assert path.read_text("utf-8") == generate(parse_shape(shape), name)


def test_most_routines_are_generated() -> None:
    assert len(GENERATED) >= 25
    assert {parse_shape(each[1]).function for _, each in GENERATED} == set(FUNCTIONS)


@pytest.mark.slow
def test_every_shape_is_one_word_and_a_file_that_describes_itself() -> None:
    shapes = every_shape()
    assert len({shape.name for shape in shapes}) == len(shapes) > 300
    assert {shape.tail for shape in shapes} == set(TAILS)
    for shape in shapes:
        assert parse_shape(shape.name) == shape
        text = generate(shape)
        routine = parse_routine(Path(f"{shape.name}.S"), text)
        assert (routine.function, routine.requires) == (shape.function, shape.requires)
        assert routine.help == describe(shape)
        assert text.count(start_of(routine)) == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("fast", "is not a shape"),
        ("avx2-128", "a tail is missing"),
        ("mmx-128-overlap", "is not a shape"),
        ("avx2-100-overlap", "must be a power of two"),
        ("avx2-16-overlap", "at least a register's 32 bytes"),
        ("avx2-8192-overlap", "are more than 2048"),
        ("avx2-128-mask", "only avx512 has masks"),
        ("avx2-128-overlap-rep", "begin at 256 bytes or more"),
        ("avx2-128-overlap-rep-128", "begin at 256 bytes or more"),
        ("avx2-128-overlap-small32", "only avx512 with overlap or mask"),
        ("avx512-128-overlap-small16", "is not a shape"),
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
        ("copy_page-avx2-128-overlap", "a page has no tail"),
        ("copy_page-avx512-8192", "are more than 4096"),
    ],
)
def test_a_shape_that_cannot_be_is_refused_with_the_reason(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_shape(text)


@given(st.text(max_size=40))
def test_no_text_is_taken_for_a_shape_by_chance(text: str) -> None:
    try:
        shape = parse_shape(text)
    except UsageError:
        return
    assert parse_shape(shape.name) == shape


def code_digest(text: str, folder: Path) -> str:
    """SHA-256 of the routine's instructions, as bytes."""
    source, result, code = (folder / name for name in ("routine.S", "routine.o", "code"))
    source.write_text(text)
    argv = ["gcc", "-c", "-I", str(routines_folder()), str(source), "-o", str(result)]
    subprocess.run(argv, check=True)
    argv = ["objcopy", "-O", "binary", "-j", ".text.*", str(result), str(code)]
    subprocess.run(argv, check=True)
    return hashlib.sha256(code.read_bytes()).hexdigest()


SPECIAL = (
    *("avx512-256-overlap", "avx512-256-overlap-unaligned", "avx512-256-mask-aligned"),
    *("avx512-256-overlap-unaligned-nt-1048576", "avx2-128-overlap-bytes32"),
)
"""Shapes with a way of their own at the loop's boundary, or for the shortest blocks."""


@pytest.mark.slow
def test_the_code_of_routines_is_what_it_was(tmp_path: Path) -> None:
    """Byte for byte by GNU as 2.40: what is measured changes by a commit that says so."""
    codes = {
        path.stem: code_digest(path.read_text("utf-8"), tmp_path)
        for path in sorted(routines_folder().glob("*.S"))
    }
    for shape in (*every_shape()[::40], *map(parse_shape, SPECIAL)):
        codes[shape.name] = code_digest(generate(shape), tmp_path)
    golden = GOLDEN / "routine-codes.json"
    if os.environ.get("KDYNO_GOLDEN") == "write":
        golden.write_text(json.dumps(codes, indent=0, sort_keys=True) + "\n")
    assert codes == json.loads(golden.read_text())


@pytest.mark.slow
@pytest.mark.needs("clang-19")
def test_clang_assembles_the_macros_too(tmp_path: Path) -> None:
    """Its code may differ in encodings; that it is right is tried by building such a kernel."""
    for shape in every_shape()[::100]:
        source = tmp_path / "routine.S"
        source.write_text(generate(shape))
        argv = ["clang-19", "-c", "-I", str(routines_folder()), str(source)]
        subprocess.run([*argv, "-o", str(tmp_path / "routine.o")], check=True)
