# SPDX-License-Identifier: MIT
"""A real 32-bit userland, made from the machine's mirror, under a real 64-bit kernel."""

from __future__ import annotations

import pytest
from booting import booted, command
from descendants import adopt
from real_kernels import built_kernels
from test_native import EXPERIMENT

from kdyno.errors import ToolError
from kdyno.kernels.sources import debian
from kdyno.machines import userland
from kdyno.paths import cache_root
from kdyno.suites.protocol import Sample

pytestmark = [
    *(pytest.mark.qemu, pytest.mark.uml, pytest.mark.slow),
    pytest.mark.needs("qemu-system-x86_64", "mmdebstrap", "gcc"),
]


def test_its_programs_run_and_this_machines_do_not() -> None:
    adopt()
    try:
        debian.release("bookworm")
    except ToolError as problem:
        pytest.skip(f"no mirror: {problem}")
    stock = built_kernels(EXPERIMENT).images["stock"]
    own = userland.userland("debian:bookworm/i386", [], cache_root(), lambda _step, _part: None)
    first = (own.root / "usr/bin/dash").read_bytes()[:5]
    assert first == b"\x7fELF\x01", "32-bit"
    outcome = booted(
        stock,
        command(
            "sh",
            "-c",
            "od -An -tx1 -N5 /bin/sh; cat /etc/debian_version; dpkg --print-architecture",
        ),
        memory=256 << 20,
        word_bits=32,
        root=own.root,
    )
    sample = outcome.transcript.result(0)
    assert isinstance(sample, Sample), (sample, outcome.host)
    elf, release, arch = sample.extra["stdout"].splitlines()
    assert elf.split() == ["7f", "45", "4c", "46", "01"]
    assert release.startswith("12") and arch == "i386"
