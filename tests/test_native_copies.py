# SPDX-License-Identifier: MIT
"""Which memcpy a native kernel has: chosen by the features that it sees, and reported by itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from kdyno.errors import UsageError
from kdyno.experiment.loader import parse
from kdyno.experiment.model import Variant
from kdyno.kernels.image import Image
from kdyno.kernels.recipe import recipe_of
from kdyno.kernels.routines.routine import find_routine, kernel_source, of_variant
from kdyno.kernels.source import Tree
from kdyno.machines import guest, qemu
from kdyno.machines.cpus import Placement
from kdyno.machines.emulator import Emulator
from kdyno.machines.machine import Method, Outcome, Plan, Setup
from kdyno.machines.qemu import Qemu, QemuBoot
from kdyno.measure.vocabulary import vocabulary
from kdyno.store.boot import BootHost
from kdyno.suites.catalogue import load
from kdyno.suites.job import Job
from kdyno.suites.protocol import Hello, Nonsense, Transcript, read

TEXT = """
name = "copies"
question = "?"
baseline = "stock"
[kernel]
source = "debian:linux-source-7.3"
config = ["bench"]
[variant.stock]
[variant.erms]
memcpy = "erms"
[variant.plain]
memcpy = ["plain", "avx2"]
[machine]
kind = "qemu"
[[suite]]
name = "unixbench"
cases = ["pipe"]
"""


VARIANTS = parse(TEXT, "copies.toml", Path.cwd(), vocabulary(load())).variants


def machine(monkeypatch: pytest.MonkeyPatch, folder: Path, *variants: Variant) -> Qemu:
    emulator = Emulator("/usr/bin/qemu-system-x86_64", "7.2.22")
    monkeypatch.setattr(qemu.emulator, "find", lambda: emulator)
    monkeypatch.setattr(guest, "guest_program", lambda _cache, _bits: folder / "guest")
    (folder / "config").touch()
    named = {variant.name: variant for variant in variants}
    images = dict.fromkeys(named, Image("d", folder, "x86_64", 64, "7.3", {}))
    placement = Placement(frozenset((0,)), frozenset((0,)))
    method = Method("instructions")
    return Qemu(Setup(named, images, placement, 1 << 28, None, 1, folder, method))


def test_features_are_cleared_on_the_command_line_of_the_same_image(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert [variant.memcpy for variant in VARIANTS] == [None, "erms", "plain"]
    assert [of_variant(variant.memcpy, variant.routines) for variant in VARIANTS] == [()] * 3
    boots: list[QemuBoot] = []
    opener = machine(monkeypatch, tmp_path, *VARIANTS)
    monkeypatch.setattr(qemu, "start", lambda request, *_: boots.append(request))
    for variant in VARIANTS:
        opener.open(Plan(variant.name, Job(), cmdline="quiet"))
    assert [boot.cmdline.split() for boot in boots] == [
        ["quiet"], ["clearcpuid=fsrm", "quiet"], ["clearcpuid=fsrm,erms", "quiet"],
    ]  # fmt: skip


@pytest.mark.parametrize("arch", ["um", "i386"])
def test_a_kernel_that_does_not_choose_cannot_be_told_to(arch: str, tmp_path: Path) -> None:
    variant = Variant("mine", "", arch=arch, memcpy="plain")
    with pytest.raises(UsageError, match=f"for arch 'x86_64', whose kernels .*arch '{arch}' does"):
        recipe_of(variant, Tree(tmp_path, "d", "linux", "7.3"))


def test_a_simd_routine_in_a_native_kernel_is_refused_with_the_reason() -> None:
    with pytest.raises(UsageError, match=r"only into um\. A native .*kernel_fpu_begin\(\)"):
        kernel_source(find_routine("avx2"), "x86_64")
    assert kernel_source(find_routine("fsrm"), "x86_64")


def hello(**more: object) -> Hello:
    about = {"release": "7.3", "machine": "x86_64", "word_bits": 64, "cpus": 1, "mem_kb": 1}
    record = read({"t": "hello", "protocol": 1, "mono_ns": 1, **about, **more})
    assert isinstance(record, Hello)
    return record


def test_what_the_booted_kernels_chose_stands_beside_the_verdict(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for odd in (1, "x" * 4000):
        with pytest.raises(Nonsense, match="copies: Input should be 'fsrm', 'erms', 'plain'"):
            hello(copies=odd)
    copies = {"stock": "fsrm", "erms": "erms", "plain": "plain", "built": "fsrm"}
    built = Variant("built", "", arch="x86_64", memcpy="overlap-general")
    prober = machine(monkeypatch, tmp_path, *VARIANTS, built)

    def probed(plan: Plan, _clock: object) -> Outcome:
        transcript = Transcript(cases=0, hello=hello(copies=copies[plan.variant]))
        return Outcome(BootHost(status="ok"), transcript, b"", ())

    monkeypatch.setattr(Qemu, "open", lambda _self, plan, limit_s: plan)
    monkeypatch.setattr(qemu, "run_to_end", probed)
    assert "memcpy here" not in prober.caveats()[0].text
    prober.probe(lambda _text: None)
    caveat = "; memcpy here: stock fsrm, erms erms, plain plain, built overlap-general"
    assert prober.caveats()[0].text.endswith(caveat)
    copies |= dict.fromkeys(copies, "plain")
    alone = machine(monkeypatch, tmp_path, Variant("stock", "", arch="x86_64"))
    alone.probe(lambda _text: None)
    assert alone.caveats()[0].text.endswith("; memcpy here: plain")
