# SPDX-License-Identifier: MIT
"""A kernel with code in vector registers boots and works. Two files only: no whole build."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from conftest import kdyno

from kdyno.kernels import cpu
from kdyno.labs.vectorize.loops import parse_code, stem
from kdyno.labs.vectorize.survey import KNOWN
from kdyno.measure.builder import Built
from kdyno.store.verdict import Verdict

pytestmark = pytest.mark.uml

EXPERIMENT = """\
name     = "vector-files"
question = "Does a kernel with vectors in two files work?"
baseline = "stock"
[kernel]
source = "debian:linux-source-7.3"
config = ["bench"]
[variant.stock]
[variant.vectors]
cflags = {{ "lib/sort.c" = "{flags}", "fs/ext4/hash.c" = "{flags}" }}
[[suite]]
name    = "unixbench"
cases   = ["syscall", "fscopy-1024"]
seconds = 0.05
[measure]
max_boots = 2
min_boots = 2
"""


@pytest.mark.skipif(bool(cpu.missing(("avx2",))), reason="no AVX2; no emulator runs UML")
def test_a_kernel_with_vectors_boots_and_works(built: Built, tmp_path: Path) -> None:
    file = tmp_path / "vector-files.toml"
    file.write_text(EXPERIMENT.format(flags=KNOWN["avx2"]))
    kdyno("run", file, "--json", tmp_path / "verdict.json", runs=tmp_path)
    verdict = Verdict.from_json((tmp_path / "verdict.json").read_bytes())
    assert dict(verdict.boots) == {"stock": 2, "vectors": 2} and not verdict.failed
    output = kdyno("build", file, "--variant", "vectors", "--json", "-", runs=tmp_path).stdout
    kernel = json.loads(output)["images"]["vectors"]["kernel"]
    # `sort` itself moves to other names with the compiler: any function of the file will do.
    code = subprocess.run(
        ["objdump", "-d", "--no-show-raw-insn", kernel], check=True, stdout=subprocess.PIPE
    )
    result = parse_code(code.stdout.decode("utf-8", "replace"))
    wide = {stem(name) for name, value in result.items() if 32 in value.in_loops}
    assert wide & {"__sort_r", "do_swap", "swap_words_64", "swap_words_32", "swap_bytes"}
