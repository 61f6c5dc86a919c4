# SPDX-License-Identifier: MIT
"""Real kernels with routines of ours, with the fused user copy, and linked several times."""

from __future__ import annotations

import os
import re
import subprocess
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
from real_guests import Image, booted, case, sample_of
from real_kernels import EVERYTHING

from kdyno.kernels.leavings import FLAG
from kdyno.measure.builder import build_all, check
from kdyno.paths import cache_root
from kdyno.verbs.subject import load

pytestmark = pytest.mark.uml


@pytest.fixture(scope="module")
def image() -> Image:
    experiment, _ = load(EVERYTHING)
    recipes = check(experiment, cache_root(), lambda _text, _part: None)
    assert FLAG in recipes.of["all"].cflags
    assert set(recipes.of["all"].changes.files) == {
        "arch/um/kernel/skas/uaccess.c",
        "arch/um/include/asm/mmu_context.h",
        "arch/um/include/asm/ptrace-generic.h",
        "arch/um/include/shared/skas/mm_id.h",
        "arch/um/kernel/exec.c",
        "arch/um/kernel/process.c",
        "arch/um/os-Linux/skas/process.c",
        "arch/um/os-Linux/start_up.c",
        "arch/x86/um/os-Linux/mcontext.c",
        "arch/x86/um/ptrace.c",
        "arch/x86/um/shared/sysdep/ptrace.h",
        "arch/x86/um/signal.c",
        *(f"arch/x86/lib/{name}_64.S" for name in ("memcpy", "memmove", "memset")),
    }
    return build_all(experiment, recipes, cache_root()).images["all"]


def test_a_kernel_with_all_of_it_does_its_work(image: Image) -> None:
    # Copies of every size at odd places, through files and a pipe, compared by programs.
    script = (
        "cd /tmp; cat /bin/sh /bin/ls > a; for n in 1 7 63 64 65 100 511 513 4095 4097 9999; do "
        "dd if=a of=b bs=$n skip=1 2>/dev/null; tail -c +$((n + 1)) a | cmp - b || exit 1; done"
    )
    words = (("pipe",), ("execl",), ("spawn",), ("run", "/bin/sh", "-c", script))
    # The script starts hundreds of programs, and others may be busy here meanwhile.
    cases = (case(*word, timeout_s=120) for word in words)
    outcome = booted(image, *cases, memory_bytes=1 << 30)
    assert outcome.host.status == "ok", outcome.host
    for number in range(len(words)):
        sample_of(outcome, number)


def test_vector_registers_stay_what_a_process_made_them(image: Image, tmp_path: Path) -> None:
    source = Path(__file__).parent / "registers.c"
    program = tmp_path / "registers"
    compiling = ["gcc", "-O2", "-Wall", "-Werror", "-static", "-pthread", "-o", program, source]
    subprocess.run(compiling, check=True)
    # The host's kernel keeps them. Where cores go is not changed there.
    at_home = {**os.environ, "NO_CORE": "1"}
    subprocess.run([program], env=at_home, check=True, stdout=subprocess.DEVNULL)
    registers = case("run", "/run/kdyno/programs/registers")
    shared = ((tmp_path, "programs"),)
    outcome = booted(image, registers, shared=shared, memory_bytes=1 << 30)
    assert outcome.host.status == "ok", outcome.host
    sample_of(outcome)


def test_the_kernels_own_tests_pass(image: Image) -> None:
    # Results of tests are logged as information, which "quiet" hides.
    outcome = booted(image, cmdline="loglevel=7")
    console = outcome.console.decode("utf-8", "replace")
    assert outcome.host.status == "ok" and not re.search(r"\bnot ok \d+ ", console), console
    for suite in ("memcpy", "string", "usercopy"):
        assert re.search(rf"(?:^|\] )ok \d+ {suite}\r?$", console, re.MULTILINE), console


def functions(image: Image) -> list[tuple[int, str, int]]:
    """(address, name, bytes) of the kernel's own, by address."""
    output = subprocess.run(["nm", "-S", image.kernel], capture_output=True, text=True, check=True)
    lines = [line.split() for line in output.stdout.splitlines()]
    return sorted(
        (int(line[0], 16), line[3], int(line[1], 16))
        for line in lines
        if len(line) == 4 and line[2] in "tT"
    )


def test_every_link_boots_and_has_the_same_code_at_other_places(image: Image) -> None:
    images = (image, *image.links)
    assert len({each.digest for each in images}) == 7
    results = [functions(own) for own in images]
    assert len(results[0]) > 8_000
    for link in results[1:]:
        assert Counter(each[1:] for each in link) == Counter(each[1:] for each in results[0])
        here, there = ({name: at for at, name, _ in each} for each in (link, results[0]))
        moved = [name for name, at in here.items() if at != there[name]]
        assert len(moved) > 0.8 * len(here)  # all but what runs at boot only
        assert {"anon_pipe_write", "vfs_write", "schedule"} <= set(moved)
        after = {one[1]: other[1] for one, other in pairwise(link)}
        before = {one[1]: other[1] for one, other in pairwise(results[0])}
        assert sum(after[name] == before.get(name) for name in after) < 0.5 * len(after)
    for each in images:
        sample_of(booted(each, case("pipe")))
