# SPDX-License-Identifier: MIT
"""User Mode Linux as a machine: images that were built, booted as processes of the host."""

from __future__ import annotations

from collections.abc import Mapping

from kdyno.errors import ToolError
from kdyno.machines.built import Built
from kdyno.machines.cpus import first
from kdyno.machines.machine import Asked, Can, Plan, Setup, Told, only_times
from kdyno.machines.process import ProcessSession
from kdyno.machines.program import GUEST_PLACES
from kdyno.machines.session import Listener, run_to_end
from kdyno.machines.uml import UmlBoot, start, supports_seccomp
from kdyno.store.verdict import Flag
from kdyno.suites.job import Job

NAME = "uml"
CAVEAT = Flag(
    kind="machine",
    text="measured under User Mode Linux: comparisons of kernel code carry over, absolute figures "
    "and the cost of entering the kernel do not",
)
CAN = Can(
    count="its code runs on the host's CPU, where nobody counts exactly; "
    '[machine] kind = "qemu" does'
)


def check(asked: Asked) -> None:
    only_times(NAME, CAN, asked)


class Uml(Built):
    """All boots of a run under User Mode Linux."""

    can = CAN
    emulator = ""
    overhead_bytes = 96 << 20
    """The stub processes, the sandbox's /tmp as far as cases fill it."""

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self._mode = "seccomp"

    @property
    def places(self) -> Mapping[str, str] | None:
        return GUEST_PLACES if self._setup.sandboxed else None

    def caveats(self) -> tuple[Flag, ...]:
        return (CAVEAT, *self._mode_flags())

    def probe(self, told: Told) -> None:
        """How it runs user code: "seccomp" where the host allows it, else "ptrace", for all.

        It also brings the images into the host's page cache, so that no variant's first measured
        boot pays for reading its file.
        """
        for name in self._setup.images:
            session = self.open(Plan(name, Job()))
            host = run_to_end(session, self.clock).host
            if host.status == "ok":
                continue
            if host.reason == "sandbox":
                raise ToolError(f"the sandbox does not start: {host.text}")
            if host.reason == "no-seccomp":
                told("this host does not let UML use seccomp; all variants run in ptrace mode")
                self._mode = "ptrace"
                return
            told(f"{name}: its first boot failed ({host.reason}: {host.text})")

    def open(self, plan: Plan, listener: Listener = lambda _case: None) -> ProcessSession:
        setup = self._setup
        variant, image = setup.variants[plan.variant], setup.images[plan.variant]
        mode = "seccomp" if supports_seccomp(image.kernel) else "ptrace"
        request = UmlBoot(
            kernel=image.link(plan.layout).kernel,
            program=self._program(plan.variant),
            job=plan.job,
            placement=first(setup.placement, self._cpus(plan.variant)),
            memory_bytes=setup.memory_bytes,
            cmdline=f"{variant.cmdline} {plan.cmdline}".strip(),
            mode=mode if self._mode == "seccomp" else self._mode,
            sandboxed=setup.sandboxed,
            limit_s=setup.timeout_s,
            shared=plan.shared,
            disk_bytes=plan.disk_bytes,
            disk_parent=plan.disk_parent,
            beside=plan.beside,
            left=plan.left,
            scatter=plan.draw,
        )
        return start(request, self.clock, listener)

    def _mode_flags(self) -> tuple[Flag, ...]:
        """A warning where variants do not run in the same mode."""
        if self._mode != "seccomp":
            text = "UML ran in ptrace mode: system calls cost more than in seccomp mode"
            return (Flag(kind="ptrace-mode", text=text),)
        images = self._setup.images
        old = [name for name, image in images.items() if not supports_seccomp(image.kernel)]
        if not old:
            return ()
        if len(old) == len(images):
            return (Flag(kind="ptrace-mode", text="these kernels know only UML's ptrace mode"),)
        text = (
            f"{', '.join(old)}: too old for UML's seccomp mode and ran in ptrace mode, the others "
            "in seccomp mode; what crosses the system call boundary is not comparable"
        )
        return (Flag(kind="mixed-modes", text=text),)
