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
    LARGE,
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


def disassembly(name: str, folder: Path) -> list[str]:
    """The instructions that the shape ``name`` becomes, as objdump writes them, without padding."""
    made = assembled(generate(parse_shape(name)), folder)
    argv = ["objdump", "-d", "--no-show-raw-insn", str(made)]
    listing = subprocess.run(argv, check=True, capture_output=True, text=True).stdout
    code = re.findall(r"^ +[0-9a-f]+:\t([^#\n]*)", listing, re.M)
    return [" ".join(line.split()) for line in code if "nop" not in line]


def assembled(text: str, folder: Path) -> Path:
    source, made = folder / "routine.S", folder / "routine.o"
    source.write_text(text)
    argv = ["gcc", "-c", "-I", str(routines_folder()), str(source), "-o", str(made)]
    subprocess.run(argv, check=True)
    return made


def code_digest(text: str, folder: Path) -> str:
    """SHA-256 of the routine's instructions, as bytes."""
    made, code = assembled(text, folder), folder / "code"
    argv = ["objcopy", "-O", "binary", "-j", ".text.*", str(made), str(code)]
    subprocess.run(argv, check=True)
    return hashlib.sha256(code.read_bytes()).hexdigest()


@pytest.mark.slow
def test_the_code_of_routines_is_what_it_was(tmp_path: Path) -> None:
    """Byte for byte by GNU as 2.40: what is measured changes by a commit that says so."""
    codes = {
        path.stem: code_digest(path.read_text("utf-8"), tmp_path)
        for path in sorted(routines_folder().glob("*.S"))
    }
    for shape in every_shape()[::40]:
        codes[shape.name] = code_digest(generate(shape), tmp_path)
    held = GOLDEN / "routine-codes.json"
    if os.environ.get("KDYNO_GOLDEN") == "write":
        held.write_text(json.dumps(codes, indent=0, sort_keys=True) + "\n")
    assert codes == json.loads(held.read_text())


def test_the_published_routine_moves_blocks_and_leaves_the_rest_to_strings(tmp_path: Path) -> None:
    code = disassembly("sse-512-string", tmp_path)
    assert "shr $0x9,%r9" in code
    assert sum("movdqu" in line for line in code) == 2 * 512 // 16
    strings = [line.split()[1] for line in code if line.startswith("rep ")]
    assert strings == ["movsq", "movsb"]


def test_upper_halves_are_cleared_where_they_were_used(tmp_path: Path) -> None:
    # 33-64, 65-128, 129-256, above
    assert disassembly("avx2-128-overlap", tmp_path).count("vzeroupper") == 4
    assert "vzeroupper" not in disassembly("avx512-256-overlap", tmp_path)


def test_the_shortest_blocks_go_their_own_way_and_the_others_by_branches(tmp_path: Path) -> None:
    code = disassembly("avx512-256-overlap-mask64-rep-16384", tmp_path)
    assert code[1] == "cmp $0x40,%rdx" and code[2].startswith("ja ")
    assert code[3:5] == ["mov $0xffffffffffffffff,%rcx", "bzhi %rdx,%rcx,%rcx"]
    assert not any("movzbl" in line for line in code) and "cmp $0x20,%rdx" not in code
    large = code.index("cmp $0x4000,%rdx")
    assert code[large + 1].startswith("jae ") and large > code.index("cmp $0x200,%rdx")
    short = disassembly("avx2-128-overlap-bytes32", tmp_path)
    assert short.index("rep movsb %ds:(%rsi),%es:(%rdi)") < short.index("cmp $0x40,%rdx")


def test_a_loop_begins_at_a_boundary_only_where_the_shape_says_so(tmp_path: Path) -> None:
    def boundary(name: str, instruction: str) -> bool:
        return instruction in disassembly(name, tmp_path)

    assert boundary("avx512-256-overlap", "and $0xffffffffffffffc0,%rdi")
    assert not boundary("avx512-256-overlap-unaligned", "and $0xffffffffffffffc0,%rdi")
    assert boundary("avx512-256-mask-aligned", "and $0x3f,%r8d")
    # Stores past the caches fault elsewhere.
    assert boundary("avx512-256-overlap-unaligned-nt-1048576", "and $0xffffffffffffffc0,%rdi")


def test_half_registers_that_avx_cannot_name_need_no_vzeroupper(tmp_path: Path) -> None:
    code = disassembly("avx512vl-128-overlap-mask64", tmp_path)
    assert "vmovdqu64 (%rsi),%ymm16" in code and "vmovdqu8 (%rsi),%zmm16{%k1}{z}" in code
    assert "vzeroupper" not in code and not any("xmm0" in line for line in code)
    assert parse_shape("avx512vl-128-overlap-mask64").requires == (
        *("avx512f", "avx512vl", "avx512bw", "bmi2"),
    )


@pytest.mark.slow
@pytest.mark.needs("clang-19")
def test_clang_assembles_the_macros_too(tmp_path: Path) -> None:
    """Its code may differ in encodings; that it is right is tried by building such a kernel."""
    for shape in every_shape()[::100]:
        source = tmp_path / "routine.S"
        source.write_text(generate(shape))
        argv = ["clang-19", "-c", "-I", str(routines_folder()), str(source)]
        subprocess.run([*argv, "-o", str(tmp_path / "routine.o")], check=True)
