# SPDX-License-Identifier: MIT
"""User Mode Linux: kernels that are processes of the host, in a sandbox, pinned to their CPUs."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from kdyno import sandbox
from kdyno.errors import ToolError, UsageError
from kdyno.machines.cpus import first
from kdyno.machines.guest import GUEST_PLACES, Boot, Built, Ground, start
from kdyno.machines.machine import Can, Method, Plan, Setup, only_times, run_to_end
from kdyno.machines.process import ENVIRONMENT, Command, Listener, Pipes, Session, printable_words
from kdyno.sandbox import GUEST, named
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
    '[machine] kind = "qemu" does',
    counters="User Mode Linux has no perf events; kinds host, and qemu with KVM, count them",
)
_GUESTS_OWN = ("/dev", "/proc", "/run", "/sys")
_CPUINFO = Path("/proc/cpuinfo")
"""All that UML reads of the host's /proc: the CPU's flags."""


@dataclass(frozen=True, kw_only=True)
class UmlBoot(Boot):
    """One boot to be done. ``mode`` is "seccomp" or "ptrace" (how user code is run)."""

    kernel: Path
    memory_bytes: int = 1 << 30
    mode: str = "seccomp"

    def command(self, job: bytes, ground: Ground, pipes: Pipes) -> Command:
        # The same places in every boot of every variant: what a program's path and environment
        # look like moves its stack, and with it its speed (Mytkowicz et al., ASPLOS 2009).
        kernel, program, job_file = "/tmp/linux", "/tmp/kdyno-guest", "/tmp/kdyno.job"
        work, disk = "/tmp", "/tmp/kdyno.disk"
        if (folder := ground.folder) is not None:
            # File systems of the guest's own.
            if (own := Path(*folder.resolve().parts[:2])) in map(Path, _GUESTS_OWN):
                raise UsageError(
                    f"TMPDIR: {folder.parent.parent}: a guest has a {own} of its own and would not "
                    "find its job there. With --no-sandbox TMPDIR has to be elsewhere, such as "
                    "/var/tmp"
                )
            kernel, program, work = str(self.kernel), str(self.program), str(folder)
            job_file, disk = f"{work}/kdyno.job", str(ground.disk)
            Path(job_file).write_bytes(job)
            (folder / "shared").mkdir()
            for path, name in self.shared:
                (folder / "shared" / name).symlink_to(path)
        outputs = [
            (name, os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600))
            for name, path in self.left
        ]
        cpus = len(self.placement.guest)
        orders = f"fd:{pipes.orders}" if self.job.turns else "null"
        argv = [
            *self.supervised(program, pipes, self.memory_bytes),
            # UML wants them so, and would look for itself in /proc to start anew with them.
            *("--addresses", "fixed"),
            *(word for name, to in outputs for word in ("--output", f"{name}:{to}")),
            *("--", kernel, f"mem={self.memory_bytes >> 20}M"),
            *([f"ncpus={cpus}"] if cpus > 1 else []),
            *("root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro", "quiet"),
            *("con=null", "con0=null,fd:1", f"con1={orders},fd:{pipes.results}"),
            *(f"uml_dir={work}/", "umid=kdyno"),
            *(["seccomp=on"] if self.mode == "seccomp" else []),
            *([f"ubd0={disk}"] if ground.disk is not None else []),
            *(f"init={program}", f"kdyno.job={job_file}"),
            *([f"kdyno.scatter={self.scatter}"] if self.scatter else []),
            *printable_words(self.cmdline),
        ]
        descriptors = [to for _, to in outputs]
        if folder is None:
            argv, job_in = self.boxed(
                GUEST,
                argv,
                ground,
                read_only=(
                    *named(*(case.args for case in self.job.cases)),
                    (self.kernel, kernel),
                    (self.program, program),
                    (_CPUINFO, str(_CPUINFO)),
                ),
                file=(job, job_file),
                shared=f"{work}/shared",
                disk=disk,
                # A little more than the guest's memory: UML rounds up.
                memory_bytes=self.memory_bytes + (64 << 20),
            )
            descriptors.append(job_in)
        elif self.left:
            argv = ["env", "-C", work, *argv]
        environment = {**ENVIRONMENT, "HOME": work, "TMPDIR": "/dev/shm"}
        return Command((*self.beside, *argv), tuple(descriptors), environment)


def supports_seccomp(kernel: Path) -> bool:
    """Whether the UML image knows the seccomp mode (its help text says so)."""
    return b"seccomp=<on/auto/off>" in kernel.read_bytes()


def check(method: Method) -> None:
    only_times(NAME, CAN, method)


class Uml(Built):
    can = CAN
    overhead_bytes = 96 << 20
    """The stub processes, the sandbox's /tmp as far as cases fill it."""
    _mode = "seccomp"

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.places = GUEST_PLACES if sandbox.require() else None

    def caveats(self) -> tuple[Flag, ...]:
        """With a warning where variants do not run in the same mode."""
        images = self._setup.images
        old = [name for name, image in images.items() if not supports_seccomp(image.kernel)]
        if self._mode != "seccomp":
            text = "UML ran in ptrace mode: system calls cost more than in seccomp mode"
        elif not old:
            return (CAVEAT,)
        elif len(old) == len(images):
            text = "these kernels know only UML's ptrace mode"
        else:
            text = f"{', '.join(old)}: too old for UML's seccomp mode and ran in ptrace mode, the "
            text += "others in seccomp mode; what crosses the system call boundary is not "
            return CAVEAT, Flag(kind="mixed-modes", text=f"{text}comparable")
        return CAVEAT, Flag(kind="ptrace-mode", text=text)

    def probe(self, notice: Callable[[str], None]) -> None:
        """How it runs user code: "seccomp" where the host allows it, else "ptrace", for all. It
        also brings the images into the host's page cache, so that no variant's first measured boot
        pays for reading its file."""
        for name in self._setup.images:
            host = run_to_end(self.open(Plan(name, Job())), self.clock).host
            if host.status == "ok":
                continue
            if host.reason == "sandbox":
                raise ToolError(f"the sandbox does not start: {host.text}")
            if host.reason == "no-seccomp":
                notice("this host does not let UML use seccomp; all variants run in ptrace mode")
                self._mode = "ptrace"
                return
            notice(f"{name}: its first boot failed ({host.reason}: {host.text})")

    def open(self, plan: Plan, listener: Listener = lambda _case: None) -> Session:
        setup, image = self._setup, self._image(plan.variant)
        request = UmlBoot(
            **vars(plan)
            | {"cmdline": f"{setup.variants[plan.variant].cmdline} {plan.cmdline}".strip()},
            kernel=image.link(plan.layout).kernel,
            program=self._program(plan.variant),
            placement=first(setup.placement, self._cpus(plan.variant)),
            memory_bytes=setup.memory_bytes,
            mode=self._mode if supports_seccomp(image.kernel) else "ptrace",
            limit_s=setup.timeout_s,
        )
        return start(request, self.clock, listener)
