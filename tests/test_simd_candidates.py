# SPDX-License-Identifier: MIT
"""The SIMD candidates: every form gives what the definition says, and the table shows them all."""

from __future__ import annotations

import struct
import subprocess
from pathlib import Path

import pytest

from benchmarks import simd_candidates as bench
from kdyno.kernels import cpu
from kdyno.labs.published.answers import Form

PRINTS = """\
#include "candidate.h"
#include <stdio.h>
#include <string.h>
int main(void)
{
	const struct candidate *all[] = {&checksum, &crc32c, &dirhash, &aes, &xor2};
	static _Alignas(64) uint8_t in[128], out[64];
	for (int n = 0; n < 128; n++)
		in[n] = (uint8_t)(n * 7 + 3);
	for (int n = 0; n < 5; n++) {
		memset(out, 0, 64);
		if (all[n]->prepare)
			all[n]->prepare();
		all[n]->forms[0].run(out, in, 64);
		for (int at = 0; at < 64; at++)
			printf("%02x", out[at]);
		printf("\\n");
	}
	return 0;
}
"""
INPUT = bytes((n * 7 + 3) & 255 for n in range(128))
# AES-128 of sixteen zeros under "kdyno's own key" and a zero byte, by an independent program.
BLOCK = bytes.fromhex("17e8e7fefb0be15f10b69b70a52078d0")
MASK = 0xFFFFFFFF


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bench.build(tmp_path_factory.mktemp("simd"))


@pytest.fixture(scope="module")
def first_forms(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    """What the scalar forms, with which all others are compared, make of INPUT."""
    folder = tmp_path_factory.mktemp("prints")
    (folder / "main.c").write_text(PRINTS)
    sources = [path for path in sorted(bench.FOLDER.glob("*.c")) if path.name != "lab.c"]
    line = ["gcc", f"-I{bench.FOLDER}", "-o", str(folder / "prints"), str(folder / "main.c")]
    subprocess.run([*line, *map(str, sources)], check=True)
    output = subprocess.run([folder / "prints"], check=True, stdout=subprocess.PIPE, text=True)
    return [bytes.fromhex(text) for text in output.stdout.split()]


def crc32c(data: bytes) -> int:
    crc = MASK
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc


def checksum(data: bytes) -> int:
    total = sum(each[0] for each in struct.iter_unpack("<H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total


def half_md4(name: bytes) -> int:
    """By the definition: three rounds of eight steps, the second word plus its start."""
    word = struct.unpack("<8I", name)
    a, b, c, d = 0x67452301, 0xEFCDAB89, 0x98BADCFE, 0x10325476
    rounds = (
        (lambda x, y, z: (x & y) | (~x & z), (0, 1, 2, 3, 4, 5, 6, 7), (3, 7, 11, 19), 0),
        (lambda x, y, z: (x & y) | (x & z) | (y & z), (1, 3, 5, 7, 0, 2, 4, 6), (3, 5, 9, 13),
         0x5A827999),
        (lambda x, y, z: x ^ y ^ z, (3, 7, 2, 6, 1, 5, 0, 4), (3, 9, 11, 15), 0x6ED9EBA1),
    )  # fmt: skip
    for function, order, turns, constant in rounds:
        for step, index in enumerate(order):
            total = (a + (function(b, c, d) & MASK) + word[index] + constant) & MASK
            by = turns[step % 4]
            a, b, c, d = d, (total << by | total >> (32 - by)) & MASK, b, c
    return (b + 0xEFCDAB89) & MASK


@pytest.mark.slow
def test_the_scalar_forms_are_right(first_forms: list[bytes]) -> None:
    data, other = INPUT[:64], INPUT[64:]
    sums, crcs, hashes, cipher, parity = first_forms
    assert struct.unpack("<H", sums[:2])[0] == checksum(data)
    assert struct.unpack("<I", crcs[:4])[0] == crc32c(data)
    assert struct.unpack("<II", hashes[:8]) == (half_md4(data[:32]), half_md4(data[32:]))
    assert cipher[:16] == bytes(x ^ y for x, y in zip(BLOCK, data, strict=False))
    assert len({cipher[at : at + 16] for at in range(0, 64, 16)}) == 4
    assert parity == bytes(x ^ y for x, y in zip(data, other, strict=True))


@pytest.mark.slow
def test_every_form_that_this_cpu_runs_is_timed(program: Path) -> None:
    timings = bench.measure(program, (64,))
    forms = {(timing.candidate, timing.form) for timing in timings}
    assert {name for name, _ in forms} == {
        "checksum", "crc32c", "directory hash", "aes-128-ctr", "raid xor",
    }  # fmt: skip
    assert all(timing.ns > 0 and timing.bytes == 64 for timing in timings)
    assert (("checksum", "avx2") in forms) == ("avx2" in cpu.flags())


@pytest.mark.slow
def test_a_size_that_is_none_is_refused(program: Path) -> None:
    for size in ("63", "0", "131072"):
        done = subprocess.run([program, "", size], capture_output=True, text=True)
        assert done.returncode == 2 and "multiple of 64" in done.stderr


def test_the_table_compares_with_the_quickest_scalar_form() -> None:
    timings = [
        Form(candidate="crc", form="scalar, slow", bytes=64, ns=400.0),
        Form(candidate="crc", form="scalar, tables", bytes=64, ns=100.0),
        Form(candidate="crc", form="instruction", bytes=64, ns=12.5),
    ]
    assert "| crc | instruction | 12.5 (8.0 ×) |" in bench.table(timings)
    assert "| crc | scalar, tables | 100 |" in bench.table(timings)
