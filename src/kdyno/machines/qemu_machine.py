# SPDX-License-Identifier: MIT
"""QEMU as a machine: native kernels, counted exactly by emulation, or timed under KVM."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from kdyno.errors import ToolError, UsageError
from kdyno.experiment.model import NATIVE_COPIES, Variant
from kdyno.machines import emulator
from kdyno.machines.built import Built
from kdyno.machines.cpus import apart, first
from kdyno.machines.emulator import Way
from kdyno.machines.machine import Asked, Can, Plan, Setup, Told
from kdyno.machines.plugin import COUNTS, FUNCTIONS, TALLY, Plugin, library
from kdyno.machines.process import ProcessSession
from kdyno.machines.program import GUEST_PLACES, guest_program
from kdyno.machines.qemu import QemuBoot, Tallying, start
from kdyno.machines.session import Listener, Outcome, run_to_end
from kdyno.store.verdict import Flag
from kdyno.suites.job import Job

NAME = "qemu"
CAN = Can(
    profile="a profile by samples shows where time goes, and under emulation that is QEMU's own",
    change="kernels with gprof, KUnit or counted copies are built for User Mode Linux",
    count="",
)
_PROBE_S = 20.0
"""A kernel under KVM is there after a second; a KVM that does not work may hang."""
_KERNEL_FROM = {"x86_64": 1 << 63, "i386": 0xC0000000}
"""Where a kernel's half of the addresses begins."""
_SAME = "a count is the same whatever else the machine does"
_CAVEATS: Mapping[Way, tuple[str, str]] = {
    "count": (
        "machine",
        "instructions of an emulated CPU ({described}), kernel and program together: the length of "
        "the path, not time; a string instruction counts once for each piece it moves, and caches, "
        "branch prediction, vectors and contention are not seen",
    ),
    "icount": (
        "emulated-time",
        "seconds of an emulated CPU ({described}), each instruction the same time: they say what a "
        "scheduler decides and how long paths are, alike in every boot, and not what a processor "
        "takes; several CPUs run one after the other by one clock",
    ),
    "kvm": ("machine", "measured in a virtual machine under KVM ({described})"),
    "tcg": (
        "emulated-time",
        "seconds of an emulated CPU ({described}), as was asked for: they say what QEMU takes, "
        'not what a kernel does; metric = "instructions" counts exactly',
    ),
}


class Qemu(Built):
    """All boots of a run in QEMU."""

    overhead_bytes = 192 << 20
    """QEMU's own memory: translated code most of it."""

    def __init__(self, setup: Setup) -> None:
        self._emulator = emulator.find()
        self._way: Way = way_of(setup.asked)
        self._copies: dict[str, str] = {}
        self._opened = 0
        super().__init__(setup)

    @property
    def can(self) -> Can:
        if self._way in emulator.SHIFTS:
            return replace(CAN, turns=_SAME)
        return CAN

    @property
    def places(self) -> Mapping[str, str] | None:
        return GUEST_PLACES

    def caveats(self) -> tuple[Flag, ...]:
        kind, text = _CAVEATS[self._way]
        return (Flag(kind=kind, text=text.format(described=self.emulator) + self._told_copies()),)

    def _told_copies(self) -> str:
        """What the booted kernels' alternatives made of memcpy; nothing before ``probe``."""
        seen = self._copies
        if len(set(seen.values())) <= 1:
            return "".join(f"; memcpy here: {how}" for how in set(seen.values()))
        return f"; memcpy here: {', '.join(f'{name} {how}' for name, how in seen.items())}"

    @property
    def emulator(self) -> str:
        return self._emulator.described(self._way)

    def described(self, variant: str) -> dict[str, Any]:
        return {**super().described(variant), "emulator": self.emulator}

    def probe(self, told: Told) -> None:
        """Every image once with nothing to do; KVM is believed after the first of them."""
        for name in self._setup.images:
            outcome = self._probed(name)
            host = outcome.host
            if self._way == "kvm" and host.status != "ok":
                self._without_kvm(f"{name} did not boot under it: {host.reason}: {host.text}")
            if host.status == "ok":
                self._copies |= self._copies_of(name, outcome)
                continue
            if host.reason in ("sandbox", "emulator"):
                raise ToolError(f"QEMU does not start: {host.text}")
            told(f"{name}: its first boot failed ({host.reason}: {host.text})")

    def _probed(self, name: str) -> Outcome:
        session = self.open(Plan(name, Job()), limit_s=_PROBE_S if self._way == "kvm" else None)
        return run_to_end(session, self.clock)

    def _copies_of(self, name: str, outcome: Outcome) -> dict[str, str]:
        """How the kernel copies: a routine that was built in, else as it told of itself."""
        hello, routine = outcome.transcript.hello, self._setup.variants[name].memcpy
        if routine and routine not in NATIVE_COPIES:
            return {name: Path(routine).stem}
        return {name: hello.copies} if hello is not None and hello.copies else {}

    def _without_kvm(self, why: str) -> None:
        raise ToolError(_no_kvm(why))

    def open(
        self,
        plan: Plan,
        listener: Listener = lambda _case: None,
        *,
        limit_s: float | None = None,
    ) -> ProcessSession:
        setup = self._setup
        variant, image = setup.variants[plan.variant], setup.images[plan.variant]
        cpus = self._cpus(plan.variant)
        placement = first(setup.placement, cpus)
        if self._way in emulator.SHIFTS:
            placement = apart(placement, self._opened)
            self._opened += 1
        request = QemuBoot(
            emulator=self._emulator,
            way=self._way,
            kernel=image.link(plan.layout).kernel,
            program=self._program(plan.variant),
            job=plan.job,
            placement=placement,
            cpus=cpus,
            memory_bytes=setup.memory_bytes,
            cmdline=" ".join((*_cleared(variant), variant.cmdline, plan.cmdline)).strip(),
            sandboxed=setup.sandboxed,
            limit_s=limit_s or setup.timeout_s,
            shared=plan.shared,
            disk_bytes=plan.disk_bytes,
            disk_parent=plan.disk_parent,
            beside=plan.beside,
            plugin=self._plugin(plan),
            tally=self._tallying(plan),
            scheduler=image.scheduler,
            ticks_khz=self._ticks_khz,
            # What is counted is perturbed by other means; the pages' places cost no instructions.
            draw=plan.draw if self._way in emulator.SHIFTS else 0,
            scatter=0 if self._way in emulator.SHIFTS else plan.draw,
        )
        return start(request, self.clock, listener)

    @cached_property
    def _ticks_khz(self) -> int:
        if self._way != "tcg":
            return 0
        return emulator.ticks_khz(guest_program(self._setup.cache, 64))

    def _plugin(self, plan: Plan) -> Plugin | None:
        if (counts := dict(plan.left).get(COUNTS)) is None:
            return None
        made = library(COUNTS, self._setup.cache, self._emulator)
        return Plugin(made, counts, dict(plan.given).get(FUNCTIONS, b""))

    def _tallying(self, plan: Plan) -> Tallying | None:
        if not self._setup.asked.apart or dict(plan.left):
            return None
        made = library(TALLY, self._setup.cache, self._emulator)
        begins = _KERNEL_FROM[self._setup.images[plan.variant].arch]
        return Tallying(made, begins)


def _cleared(variant: Variant) -> tuple[str, ...]:
    features = NATIVE_COPIES.get(variant.memcpy or "", ())
    return (f"clearcpuid={','.join(features)}",) if features else ()


def check(asked: Asked) -> None:
    """UsageError and ToolError as the kind's row says."""
    emulator.find()
    way_of(asked)


def way_of(asked: Asked) -> Way:
    """How guests run. ToolError for a time that nobody asked to be emulated."""
    if asked.metric != "time":
        if asked.accel in ("kvm", "icount"):
            raise UsageError(
                f'[machine] accel = "{asked.accel}" and [measure] metric = "{asked.metric}": QEMU '
                "counts what it emulates; leave accel out"
            )
        return "count"
    if asked.apart:
        raise UsageError('[measure] apart = true goes with metric = "instructions"')
    if asked.accel == "tcg":
        return "tcg"
    if asked.accel == "icount":
        return "icount"
    if why := emulator.why_no_kvm():
        raise ToolError(_no_kvm(why))
    return "kvm"


def _no_kvm(why: str) -> str:
    return (
        f'[measure] metric = "time" needs KVM: {why}. Emulated seconds say nothing of a kernel. '
        'metric = "instructions" (--metric instructions) counts exactly, on any machine; '
        '[machine] accel = "tcg" takes the seconds all the same'
    )
