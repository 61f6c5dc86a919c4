# SPDX-License-Identifier: MIT
"""The machine itself, under the kernel that runs on it: the same job, no boot, no root."""

from __future__ import annotations

import gzip
import hashlib
import os
import zlib
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kdyno import sandbox
from kdyno.errors import UsageError
from kdyno.machines import facts
from kdyno.machines.guest import Boot, Diagnosis, Ground, disk_folder, guest_program, start, tail
from kdyno.machines.machine import Can, Machine, Method, Plan, Setup, only_times, run_to_end
from kdyno.machines.process import ENVIRONMENT, Command, Ended, Events, Listener, Pipes, Session
from kdyno.sandbox import HOST, named
from kdyno.store.verdict import IN_ONE_BOOT, Flag
from kdyno.suites.job import Job
from kdyno.suites.protocol import Transcript

NAME = "host"
CAVEAT = Flag(
    kind=IN_ONE_BOOT,
    text="every repetition ran on one and the same boot of the host's kernel: the spread between "
    "boots is not in these intervals",
)
CAN = Can(
    turns="the host runs one kernel, and it is never rebooted",
    profile="a profile separates the kernel under test from the host's, and here they are the "
    "same; `perf record -a` on that machine shows its kernel",
    scatter="its memory is the host's, and other programs' too",
    count="it runs on the host's CPU, where nobody counts exactly; "
    '[machine] kind = "qemu" does, with kernels that are built for it',
    change="its machine is the host, whose kernel kdyno does not change",
)
_SHARED = "/tmp/shared"
HOST_PLACES = {
    "dir": "/tmp",
    **{name: f"{_SHARED}/{name}" for name in ("disk", "tree", "programs", "prepared")},
}
"""Where the sandbox puts what a case's command line asks for."""


@dataclass(frozen=True, kw_only=True)
class HostJob(Boot):
    """One repetition of the job on the running kernel; {disk} is on the host's file system."""

    tmp_bytes: int = 1 << 30
    """Size of the folder in memory that cases work in."""

    def __post_init__(self) -> None:
        """UsageError for what kdyno does not do to the machine it runs on."""
        if self.job.sysctl:
            raise UsageError(
                "sysctl: kdyno does not change the settings of the machine it runs on; set them "
                "yourself and leave the key out"
            )

    def places(self, ground: Ground) -> Mapping[str, str]:
        if ground.folder is None:
            return HOST_PLACES
        shared = {name: str(path) for path, name in self.shared}
        own = {"dir": str(ground.folder), "disk": str(ground.disk or ground.folder)}
        return {**HOST_PLACES, **own, **shared}

    def disk(self) -> AbstractContextManager[Path]:
        return disk_folder(self.disk_parent, self.disk_bytes)

    def warnings(self, console: str) -> list[str]:
        return []

    def command(self, job: bytes, ground: Ground, pipes: Pipes) -> Command:
        root = ground.folder
        program, file = "/tmp/kdyno-guest", "/tmp/kdyno.job"
        environment = {**ENVIRONMENT, "LC_ALL": "C.UTF-8", "TERM": "dumb"}
        if root is not None:
            program, file = str(self.program), f"{root}/job"
            Path(file).write_bytes(job)
            environment |= dict.fromkeys(("HOME", "TMPDIR", "KDYNO_DIR"), str(root))
        argv = [
            *self.supervised(program, pipes),
            *("--", program, "job", file, "--fd", str(pipes.results)),
        ]
        if root is not None:
            return Command(tuple(argv), (), environment)
        boxed, job_in = self.boxed(
            HOST,
            argv,
            ground,
            read_only=(*named(*(case.args for case in self.job.cases)), (self.program, program)),
            file=(job, file),
            shared=_SHARED,
            disk=f"{_SHARED}/disk",
            tmp_bytes=max(self.tmp_bytes, HOST.tmp_bytes or 0),
        )
        return Command(tuple(boxed), (job_in,), environment)

    def failure(self, console: str, ended: Ended, transcript: Transcript) -> Diagnosis | None:
        return diagnosis_of_job(console, ended, transcript, self.sandboxed)


def diagnosis_of_job(
    console: str, ended: Ended, transcript: Transcript, sandboxed: bool
) -> Diagnosis | None:
    """Nothing here is the kernel's fault, for it still runs."""
    if transcript.bye is not None:
        return None
    stopped, last = ended.stopped, tail(console, 1)
    if stopped:
        texts = {
            "timeout": f"did not end within {ended.wall_s:.0f} s; killed",
            "flood": "the job printed more than is read from one",
        }
        return Diagnosis(stopped, texts.get(stopped, f"stopped by kdyno: {stopped}"))
    if transcript.fatal:
        return Diagnosis("job-refused", f"the guest program refused the job: {transcript.fatal}")
    if transcript.hello is None and sandboxed and "bwrap: " in console:
        return Diagnosis("sandbox", last)
    text = f"the job ended with status {ended.status}{': ' + last if last else ''}"
    return Diagnosis("no-result", text)


def running(root: Path = Path("/")) -> dict[str, str]:
    """The running kernel as far as it can be read, for the run's folder: with a name for this very
    kernel and how it was booted, 32 hex digits. ``root``: where /proc and /boot are."""
    name = os.uname()
    config, origin = "", "not readable: no /proc/config.gz and no /boot/config-RELEASE"
    for path in (root / "proc/config.gz", root / "boot" / f"config-{name.release}"):
        with suppress(OSError, EOFError, zlib.error):
            raw = path.read_bytes()
            raw = gzip.decompress(raw) if path.suffix == ".gz" else raw
            config, origin = raw.decode("utf-8", "replace"), str(path)
            break
    cmdline = "not readable"
    with suppress(OSError):
        cmdline = (root / "proc/cmdline").read_text("utf-8", "replace").strip()
    text = "\\0".join((name.release, name.version, cmdline, config))
    return {
        "kind": NAME,
        "digest": hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:32],
        "release": name.release,
        "version": name.version,
        "cmdline": cmdline,
        "config_from": origin,
        "config": config,
    }


def check(method: Method) -> None:
    only_times(NAME, CAN, method)
    facts.check_counters(method.counted, here=True, sandboxed=sandbox.require())


class Host(Machine):
    can = CAN

    def __init__(self, setup: Setup) -> None:
        self._setup, self._running = setup, running()
        self.clock = Events()
        self.places = HOST_PLACES if sandbox.require() else None

    def caveats(self) -> tuple[Flag, ...]:
        return (CAVEAT,)

    def identity(self, variant: str) -> str:
        return self._running["digest"]

    def described(self, variant: str) -> dict[str, Any]:
        return dict(self._running)

    def probe(self, notice: Callable[[str], None]) -> None:
        """The kernel runs; whether it counts what is asked for is seen by an empty job."""
        method = self._setup.method
        if method.counted:
            job = Job(counters=method.counters, metric=method.counter)
            outcome = run_to_end(self.open(Plan("", job)), self.clock)
            facts.refuse_counters(method.counted, outcome.transcript.fatal or "")

    def open(self, plan: Plan, listener: Listener = lambda _case: None) -> Session:
        setup = self._setup
        request = HostJob(
            **vars(plan),
            program=guest_program(setup.cache, 64),
            placement=setup.placement,
            tmp_bytes=setup.memory_bytes,
            limit_s=setup.timeout_s,
        )
        return start(request, self.clock, listener)
