# SPDX-License-Identifier: MIT
"""User Mode Linux: a kernel as a plain process, in a sandbox, pinned to its CPUs."""

from __future__ import annotations

import json
import os
import re
import secrets
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from kdyno.errors import UsageError
from kdyno.machines import diagnosis, facts
from kdyno.machines.cpus import Placement
from kdyno.machines.pump import Ended, Gathered, Stream, Watch, run
from kdyno.sandbox import Sandbox
from kdyno.store.boot import BootFlag, BootHost
from kdyno.suites.job import Job, render
from kdyno.suites.protocol import Reader, Transcript
from kdyno.suites.record import Begin

CONSOLE_MOST_BYTES = 16 << 20
RESULTS_MOST_BYTES = 16 << 20
WORK_BYTES = 256 << 20
"""Size of the one folder that a guest can write to on the host's side; it is in memory."""
FIRST_WORD_S = 20.0
"""A kernel that has not reached the guest program by then hangs (0.1 s is usual)."""
_JOB_MOST_BYTES = 1 << 16  # what a pipe holds without a reader
GRACE_S = 15.0
"""Beyond a case's own limit, which the guest program enforces itself."""

# The same places in every boot of every variant: what a program's path and environment look
# like moves its stack, and with it its speed (Mytkowicz et al., ASPLOS 2009).
_KERNEL, _PROGRAM, _JOB = "/tmp/linux", "/tmp/kdyno-guest", "/tmp/kdyno.job"
_ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
_CMDLINE_WORD = re.compile(r"^[\x21-\x7e]+$")


@dataclass(frozen=True)
class UmlBoot:
    """One boot to be done. ``mode`` is "seccomp" or "ptrace" (how user code is run)."""

    kernel: Path
    program: Path
    job: Job
    placement: Placement
    memory_bytes: int = 1 << 30
    cmdline: str = ""
    mode: str = "seccomp"
    sandboxed: bool = True
    limit_s: float | None = None


@dataclass(frozen=True)
class Outcome:
    """What came of a boot: the host's record, what the guest said, its console, the command."""

    host: BootHost
    transcript: Transcript
    console: bytes
    command: tuple[str, ...]


@dataclass
class _Guest:
    """What the guest said so far, and what follows for how long it may go on."""

    boot: UmlBoot
    reader: Reader
    watch: Watch
    listener: Callable[[str], None]
    console: Gathered = field(default_factory=Gathered)
    report: bytearray = field(default_factory=bytearray)
    first_s: float | None = None
    last_s: float | None = None

    def results(self, data: bytes) -> None:
        for record in self.reader.feed(data):
            now = time.monotonic()
            self.first_s = self.first_s if self.first_s is not None else now
            self.last_s = now
            if isinstance(record, Begin):
                case = self.boot.job.cases[record.case]
                self.watch.allow(case.timeout_s + GRACE_S)
                self.listener(case.case)
            else:
                self.watch.allow(GRACE_S)


def supports_seccomp(kernel: Path) -> bool:
    """Whether the UML image knows the seccomp mode (its help text says so)."""
    return b"seccomp=<on/auto/off>" in kernel.read_bytes()


def boot(request: UmlBoot, listener: Callable[[str], None] = lambda _case: None) -> Outcome:
    """Boot once and give the record; whatever the guest does, this returns.

    Raises only for what is not the guest's fault (no bwrap, no descriptors, Ctrl-C).
    """
    limit_s = request.limit_s or (
        FIRST_WORD_S + 2 * GRACE_S + sum(case.timeout_s for case in request.job.cases)
    )
    watch = Watch(limit_s)
    watch.allow(FIRST_WORD_S)
    nonce = secrets.token_hex(16)
    guest = _Guest(request, Reader(nonce, len(request.job.cases)), watch, listener)
    before = facts.look(request.placement.guest)
    argv, ended = _run(request, render(request.job, nonce).encode(), guest)
    after = facts.look(request.placement.guest)
    console = guest.console.content()
    said = guest.reader.finish()
    host = _record(request, guest, said, ended, before, after, console)
    return Outcome(host, said, console, argv)


@dataclass(frozen=True)
class _Places:
    """Where the guest's files are, as seen by the guest."""

    kernel: str
    program: str
    job: str
    work: str


_INSIDE = _Places(_KERNEL, _PROGRAM, _JOB, "/tmp")


def _run(request: UmlBoot, job: bytes, guest: _Guest) -> tuple[tuple[str, ...], Ended]:
    if len(job) > _JOB_MOST_BYTES:
        raise UsageError("the job is too long: fewer cases or shorter arguments in one suite")
    with ExitStack() as closing:
        console_in, console_out = os.pipe()
        results_in, results_out = os.pipe()
        report_in, report_out = os.pipe()
        job_in, job_out = os.pipe()
        os.write(job_out, job)
        os.close(job_out)
        if request.sandboxed:
            places = _INSIDE
        else:
            folder = closing.enter_context(tempfile.TemporaryDirectory(prefix="kdyno-boot-"))
            places = _Places(
                str(request.kernel), str(request.program), f"{folder}/kdyno.job", folder
            )
            Path(places.job).write_bytes(job)
        argv = [
            *(places.program, "supervise", "--report-fd", str(report_out), "--"),
            *kernel_command(request, places, results_out),
        ]
        if request.sandboxed:
            argv = Sandbox(
                read_only=((request.kernel, _KERNEL), (request.program, _PROGRAM)),
                files=((job_in, _JOB),),
                tmp_bytes=WORK_BYTES,
                # A little more than the guest's memory: UML rounds up.
                memory_bytes=request.memory_bytes + (64 << 20),
                as_pid_1=True,
                hidden=(Path("/run"),),
            ).argv(argv)
        ended = run(
            argv,
            streams={
                console_in: Stream(guest.console.add, CONSOLE_MOST_BYTES, "flood"),
                results_in: Stream(guest.results, RESULTS_MOST_BYTES, "flood"),
                report_in: Stream(guest.report.extend, 1 << 16, "flood"),
            },
            pass_fds=(console_out, results_out, report_out, job_in),
            watch=guest.watch,
            cpus=request.placement.guest,
            output=console_out,
            environment={**_ENVIRONMENT, "HOME": places.work, "TMPDIR": "/dev/shm"},
        )
    return tuple(argv), ended


def kernel_command(request: UmlBoot, places: _Places, results_fd: int) -> list[str]:
    """The kernel's own command line."""
    own = request.cmdline.split()
    for word in own:
        if not _CMDLINE_WORD.match(word):
            raise UsageError(f"cmdline: {word!r} is not a printable word")
    cpus = len(request.placement.guest)
    return [
        places.kernel,
        f"mem={request.memory_bytes >> 20}M",
        *([f"ncpus={cpus}"] if cpus > 1 else []),
        *("root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro", "quiet"),
        *("con=null", "con0=null,fd:1", f"con1=null,fd:{results_fd}"),
        *(f"uml_dir={places.work}/", "umid=kdyno"),
        *(["seccomp=on"] if request.mode == "seccomp" else []),
        f"init={places.program}",
        f"kdyno.job={places.job}",
        *own,
    ]


def _record(
    request: UmlBoot,
    guest: _Guest,
    said: Transcript,
    ended: Ended,
    before: facts.Moment,
    after: facts.Moment,
    console: bytes,
) -> BootHost:
    text = diagnosis.readable(console)
    found = diagnosis.of_boot(
        text,
        ended,
        said_hello=said.hello is not None,
        said_bye=said.bye is not None,
        fatal=said.fatal or "",
        sandboxed=request.sandboxed,
    )
    report = _supervisor(bytes(guest.report))
    cpu_s = (report.get("user_us", 0.0) + report.get("sys_us", 0.0)) / 1e6
    flags = [BootFlag(kind="kernel-warning", text=line) for line in diagnosis.warnings(text)]
    flags += [BootFlag(kind="guest-channel", text=line) for line in said.anomaly_texts]
    inside_s = said.bye.inside_ns / 1e9 if said.bye is not None else None
    host_clock_s = guest_clock_s = None
    if guest.first_s is not None and guest.last_s is not None:
        host_clock_s = guest.last_s - guest.first_s
    if said.hello is not None and said.bye is not None:
        guest_clock_s = max(0, said.bye.mono_ns - said.hello.mono_ns) / 1e9
    return BootHost(
        status="ok" if found is None else "failed",
        reason=found.reason if found else "",
        text=found.text if found else "",
        console_tail=diagnosis.tail(text) if found else "",
        wall_s=ended.wall_s,
        boot_overhead_s=max(0.0, ended.wall_s - inside_s) if inside_s is not None else None,
        inside_s=inside_s,
        guest_clock_s=guest_clock_s,
        host_clock_s=host_clock_s,
        user_s=report["user_us"] / 1e6 if "user_us" in report else None,
        sys_s=report["sys_us"] / 1e6 if "sys_us" in report else None,
        peak_rss_bytes=int(report["maxrss_kb"] * 1024) if "maxrss_kb" in report else None,
        before={**before.facts},
        after={**after.facts, **facts.between(before, after, request.placement.guest, cpu_s)},
        flags=tuple(flags[:100]),
    )


def _supervisor(raw: bytes) -> dict[str, float]:
    """The supervisor's JSON line, as far as it can be believed."""
    try:
        data = json.loads(raw.split(b"\n", 1)[0] or b"{}")
    except ValueError:
        return {}
    if not isinstance(data, dict):
        return {}
    return {
        str(key): float(value)
        for key, value in data.items()
        if isinstance(value, int | float) and 0 <= value < 1e15
    }
