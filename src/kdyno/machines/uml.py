# SPDX-License-Identifier: MIT
"""User Mode Linux: a kernel as a plain process, in a sandbox, pinned to its CPUs."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from kdyno.errors import UsageError
from kdyno.machines import guest
from kdyno.machines.events import Events
from kdyno.machines.guest import Boot, Ground, handed, link_shared, scatter_words, supervised
from kdyno.machines.listening import ENVIRONMENT, printable_words
from kdyno.machines.process import Command, Pipes, ProcessSession
from kdyno.machines.session import Listener, Outcome, run_to_end
from kdyno.sandbox import Sandbox, hand_over
from kdyno.views import GUEST, named

__all__ = ["Outcome", "UmlBoot", "boot", "kernel_command", "start", "supports_seccomp"]

# The same places in every boot of every variant: what a program's path and environment look
# like moves its stack, and with it its speed (Mytkowicz et al., ASPLOS 2009).
_KERNEL, _PROGRAM, _JOB = "/tmp/linux", "/tmp/kdyno-guest", "/tmp/kdyno.job"
_DISK = "/tmp/kdyno.disk"
_CPUINFO = Path("/proc/cpuinfo")
"""All that UML reads of the host's /proc: the CPU's flags."""


@dataclass(frozen=True, kw_only=True)
class UmlBoot(Boot):
    """One boot to be done. ``mode`` is "seccomp" or "ptrace" (how user code is run)."""

    kernel: Path
    memory_bytes: int = 1 << 30
    cmdline: str = ""
    mode: str = "seccomp"
    beside: tuple[str, ...] = ()
    """A profiler's command line that the whole boot is appended to, outside of the sandbox."""
    left: tuple[tuple[str, Path], ...] = ()
    """(file that the kernel's process leaves in its folder, where it is put on the host)."""


def supports_seccomp(kernel: Path) -> bool:
    """Whether the UML image knows the seccomp mode (its help text says so)."""
    return b"seccomp=<on/auto/off>" in kernel.read_bytes()


def boot(request: UmlBoot, listener: Listener = lambda _case: None) -> Outcome:
    """Boot once, let the guest work its job off, and give the record; whatever it does.

    Raises only for what is not the guest's fault (no bwrap, no descriptors, Ctrl-C).
    """
    with Events() as events:
        return run_to_end(start(request, events, listener), events)


def start(
    request: UmlBoot, events: Events, listener: Listener = lambda _case: None
) -> ProcessSession:
    """A guest that boots. ToolError and UsageError as ``boot``."""
    return guest.start(request, events, listener, partial(_command, request))


@dataclass(frozen=True)
class _Places:
    """Where the guest's files are, as seen by the guest."""

    kernel: str
    program: str
    job: str
    work: str


_INSIDE = _Places(_KERNEL, _PROGRAM, _JOB, "/tmp")


def _command(request: UmlBoot, job: bytes, ground: Ground, pipes: Pipes) -> Command:
    disk_file, folder = ground.disk, ground.folder
    if folder is not None:
        _require_seen(folder)
    outputs = [
        (name, os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600))
        for name, path in request.left
    ]
    places = _INSIDE
    if folder is not None:
        own = (request.kernel, request.program, folder / "kdyno.job", folder)
        places = _Places(*map(str, own))
        Path(places.job).write_bytes(job)
        link_shared(request, folder)
    argv = [
        *supervised(request, places.program, pipes),
        # UML wants them so, and would look for itself in /proc to start anew with them.
        *("--addresses", "fixed"),
        *(word for name, to in outputs for word in ("--output", f"{name}:{to}")),
        "--",
        *kernel_command(request, places, pipes, disk_file),
    ]
    descriptors = [to for _, to in outputs]
    if folder is None:
        job_in = handed(job)
        descriptors.append(job_in)
        if disk_file is not None:
            hand_over(disk_file, GUEST)
        argv = Sandbox(
            GUEST,
            read_only=(
                *named(*(case.args for case in request.job.cases)),
                (request.kernel, _KERNEL),
                (request.program, _PROGRAM),
                (_CPUINFO, str(_CPUINFO)),
                *((path, f"/tmp/shared/{name}") for path, name in request.shared),
            ),
            writable=((disk_file, _DISK),) if disk_file is not None else (),
            files=((job_in, _JOB),),
            # A little more than the guest's memory: UML rounds up.
            memory_bytes=request.memory_bytes + (64 << 20),
        ).argv(argv)
    elif request.left:
        argv = ["env", "-C", places.work, *argv]
    return Command(
        argv=(*request.beside, *argv),
        pass_fds=tuple(descriptors),
        environment={**ENVIRONMENT, "HOME": places.work, "TMPDIR": "/dev/shm"},
    )


def _require_seen(folder: Path) -> None:
    """UsageError for a folder of the host's that the guest's own file systems would cover."""
    for own in ("/dev", "/proc", "/run", "/sys"):
        if folder.resolve().is_relative_to(own):
            raise UsageError(
                f"TMPDIR: {folder.parent.parent}: a guest has a {own} of its own and would not "
                "find its job there. With --no-sandbox TMPDIR has to be elsewhere, such as /var/tmp"
            )


def kernel_command(
    request: UmlBoot, places: _Places, pipes: Pipes, disk_file: Path | None = None
) -> list[str]:
    """The kernel's own command line."""
    own = printable_words(request.cmdline)
    cpus = len(request.placement.guest)
    orders = f"fd:{pipes.orders}" if request.job.turns else "null"
    return [
        places.kernel,
        f"mem={request.memory_bytes >> 20}M",
        *([f"ncpus={cpus}"] if cpus > 1 else []),
        *("root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro", "quiet"),
        *("con=null", "con0=null,fd:1", f"con1={orders},fd:{pipes.results}"),
        *(f"uml_dir={places.work}/", "umid=kdyno"),
        *(["seccomp=on"] if request.mode == "seccomp" else []),
        *([f"ubd0={_DISK if request.sandboxed else disk_file}"] if disk_file is not None else []),
        f"init={places.program}",
        f"kdyno.job={places.job}",
        *scatter_words(request),
        *own,
    ]
