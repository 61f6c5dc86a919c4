# SPDX-License-Identifier: MIT
"""The machine itself, under the kernel that runs on it: the same job, no boot, no root."""

from __future__ import annotations

import gzip
import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from kdyno.errors import UsageError
from kdyno.machines import diagnosis, disk, guest
from kdyno.machines.diagnosis import Diagnosis
from kdyno.machines.events import Events
from kdyno.machines.guest import Boot, Ground, Kind, handed, supervised
from kdyno.machines.listening import ENVIRONMENT
from kdyno.machines.pipes import Ended
from kdyno.machines.process import Command, Pipes, ProcessSession
from kdyno.machines.session import Listener, Outcome, run_to_end
from kdyno.sandbox import Sandbox, hand_over
from kdyno.suites.protocol import Transcript
from kdyno.views import HOST, named

_PROGRAM, _JOB, _SHARED = "/tmp/kdyno-guest", "/tmp/kdyno.job", "/tmp/shared"
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


@dataclass(frozen=True)
class Running:
    """The kernel that runs now, as far as it can be read."""

    release: str
    version: str
    cmdline: str
    config: str
    """Its configuration; empty where it cannot be read."""
    config_from: str
    """Where that was read, or why it was not."""

    @property
    def digest(self) -> str:
        """A name for this very kernel and how it was booted: 32 hex digits."""
        text = "\\0".join((self.release, self.version, self.cmdline, self.config))
        return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:32]

    def to_json(self) -> dict[str, str]:
        """For the run's folder."""
        return {
            "kind": "host",
            "digest": self.digest,
            "release": self.release,
            "version": self.version,
            "cmdline": self.cmdline,
            "config_from": self.config_from,
            "config": self.config,
        }


def running(root: Path = Path("/")) -> Running:
    """Read the running kernel. ``root`` is where /proc and /boot are looked for."""
    name = os.uname()
    config, origin = "", "not readable: no /proc/config.gz and no /boot/config-RELEASE"
    for path in (root / "proc/config.gz", root / "boot" / f"config-{name.release}"):
        try:
            raw = path.read_bytes()
            raw = gzip.decompress(raw) if path.suffix == ".gz" else raw
        except (OSError, EOFError, gzip.BadGzipFile):
            continue
        config, origin = raw.decode("utf-8", "replace"), str(path)
        break
    try:
        cmdline = (root / "proc/cmdline").read_text("utf-8", "replace").strip()
    except OSError:
        cmdline = "not readable"
    return Running(name.release, name.version, cmdline, config, origin)


def work_off(request: HostJob, listener: Listener = lambda _case: None) -> Outcome:
    """Run the job once and give the record; whatever its cases do, this returns."""
    with Events() as events:
        return run_to_end(start(request, events, listener), events)


def start(
    request: HostJob, events: Events, listener: Listener = lambda _case: None
) -> ProcessSession:
    """A job that begins. UsageError for what kdyno does not do to the machine it runs on."""
    if request.job.sysctl:
        raise UsageError(
            "sysctl: kdyno does not change the settings of the machine it runs on; set them "
            "yourself and leave the key out"
        )
    kind = Kind(
        places=partial(_places, request),
        disk=disk.folder,
        failure=_failure,
        warnings=lambda _console: [],
    )
    return guest.start(request, events, listener, partial(_command, request), kind)


def _places(request: HostJob, ground: Ground) -> Mapping[str, str]:
    """What {dir}, {disk}, {tree} and {programs} are."""
    if ground.folder is None:
        return HOST_PLACES
    names = {name: str(path) for path, name in request.shared}
    return {
        **HOST_PLACES,
        "dir": str(ground.folder),
        "disk": str(ground.disk or ground.folder),
        **names,
    }


def _command(request: HostJob, job: bytes, ground: Ground, pipes: Pipes) -> Command:
    root = ground.folder
    program, file = (_PROGRAM, _JOB) if root is None else (str(request.program), f"{root}/job")
    argv = [
        *supervised(request, program, pipes),
        *("--", program, "job", file, "--fd", str(pipes.results)),
    ]
    environment = {**ENVIRONMENT, "LC_ALL": "C.UTF-8", "TERM": "dumb"}
    if root is not None:
        Path(file).write_bytes(job)
        environment |= dict.fromkeys(("HOME", "TMPDIR", "KDYNO_DIR"), str(root))
        return Command(tuple(argv), (), environment)
    job_in = handed(job)
    if ground.disk is not None:
        hand_over(ground.disk, HOST)
    argv = Sandbox(
        HOST,
        read_only=(
            *named(*(case.args for case in request.job.cases)),
            (request.program, _PROGRAM),
            *((path, f"{_SHARED}/{name}") for path, name in request.shared),
        ),
        writable=((ground.disk, f"{_SHARED}/disk"),) if ground.disk is not None else (),
        files=((job_in, _JOB),),
        tmp_bytes=max(request.tmp_bytes, HOST.tmp_bytes or 0),
    ).argv(argv)
    return Command(tuple(argv), (job_in,), environment)


def _failure(text: str, ended: Ended, said: Transcript, sandboxed: bool) -> Diagnosis | None:
    """Why the job was not worked off; nothing here is the kernel's fault, for it still runs."""
    if said.bye is not None:
        return None
    if ended.stopped == "timeout":
        return Diagnosis("timeout", f"did not end within {ended.wall_s:.0f} s; killed")
    if ended.stopped == "flood":
        return Diagnosis("flood", "the job printed more than is read from one")
    if ended.stopped:
        return Diagnosis(ended.stopped, f"stopped by kdyno: {ended.stopped}")
    if said.fatal:
        return Diagnosis("job-refused", f"the guest program refused the job: {said.fatal}")
    if said.hello is None and sandboxed and "bwrap: " in text:
        return Diagnosis("sandbox", diagnosis.tail(text, 1))
    last = diagnosis.tail(text, 1)
    return Diagnosis(
        "no-result", f"the job ended with status {ended.status}{': ' + last if last else ''}"
    )
