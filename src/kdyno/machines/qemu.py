# SPDX-License-Identifier: MIT
"""A native kernel in QEMU: one process, in a sandbox, pinned to its CPUs."""

from __future__ import annotations

import os
import random
import socket
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import BinaryIO

from kdyno.errors import UsageError
from kdyno.kernels.scheduler import Scheduler
from kdyno.machines import diagnosis, emulator, guest, initramfs, tally
from kdyno.machines.diagnosis import Diagnosis
from kdyno.machines.emulator import Emulator, Way
from kdyno.machines.events import Events
from kdyno.machines.guest import Boot, Ground, Kind, handed, scatter_words, supervised
from kdyno.machines.initramfs import Entry
from kdyno.machines.listening import ENVIRONMENT, printable_words
from kdyno.machines.pipes import Ended
from kdyno.machines.plugin import Plugin
from kdyno.machines.process import Command, Pipes, ProcessSession
from kdyno.machines.qmp import Monitor
from kdyno.machines.session import Listener
from kdyno.sandbox import Sandbox, hand_over
from kdyno.suites.job import OF_THE_HOST, Job
from kdyno.suites.protocol import Transcript
from kdyno.views import EMPTY, QEMU, Binds, around, named, system

_KERNEL, _PROGRAM, _INITRD = "/tmp/vmlinux", "/tmp/kdyno-guest", "/tmp/initrd"
_SHARED, _DISK, _PLUGIN = "/tmp/shared", "/tmp/kdyno.disk", "/tmp/plugin.so"
_JOB = "kdyno.job"
_CONSOLE_SET = 1
FIRST_WORD_S = 120.0
"""An emulated kernel needs half a second of CPU, which a machine that is busy gives it late."""
_REFUSED = "qemu-system-x86_64: "


@dataclass(frozen=True)
class Tallying:
    """How a plugin counts the instructions of programs and of the kernel apart."""

    library: Path
    kernel_from: int
    """Where the kernel's half of the addresses begins."""


@dataclass(frozen=True, kw_only=True)
class QemuBoot(Boot):
    """One boot to be done."""

    emulator: Emulator
    way: Way
    kernel: Path
    cpus: int = 1
    """Of the guest. Counting they run one after the other, on one of the host's."""
    memory_bytes: int = 256 << 20
    cmdline: str = ""
    beside: tuple[str, ...] = ()
    """A profiler's command line that the whole boot is appended to, outside of the sandbox."""
    plugin: Plugin | None = None
    tally: Tallying | None = None
    """A guest has this or another plugin."""
    scheduler: Scheduler | None = None
    """What the guest loads before its first case, and holds to be in charge at each."""
    ticks_khz: int = 0
    """How fast the host's time-stamp counter goes, where the guest's clock is that; 0: it finds out
    itself."""
    draw: int = 0
    """Perturbs what should not matter, see ``Chance``; 0: nothing is perturbed."""


@dataclass(frozen=True)
class Chance:
    """What differs from draw to draw: QEMU's random numbers, and where a kernel's memory lies.

    A kernel's allocators and scheduler are in another state each time, as from boot to boot on
    other machines; the code is the same.
    """

    seed: int
    memory_less_bytes: int
    padding_bytes: int
    """Of a file in the initramfs."""
    words: str

    @classmethod
    def of(cls, draw: int) -> Chance:
        if draw == 0:
            return cls(1, 0, 0, "")
        drawn = random.Random(f"kdyno {draw}")
        return cls(
            seed=drawn.randrange(2, 1 << 31),
            memory_less_bytes=drawn.randrange(1, 512) << 14,
            padding_bytes=drawn.randrange(1, 64) << 12,
            words="kdyno.padding=" + "x" * drawn.randrange(1, 256),
        )


def start(
    request: QemuBoot, events: Events, listener: Listener = lambda _case: None
) -> ProcessSession:
    """A guest that boots. ToolError and UsageError for what is not the guest's fault."""
    # A count's clock counts instructions, and is not to be held against the host's.
    kind = Kind(
        first_word_s=FIRST_WORD_S, failure=_failure, clock=request.way not in emulator.SHIFTS
    )
    parts = None
    if request.tally is not None:
        parts = os.fdopen(os.memfd_create("tally"), "w+b")
        kind = replace(kind, said=partial(_tallied, parts))
    return guest.start(request, events, listener, partial(_command, request, parts=parts), kind)


def _tallied(parts: BinaryIO, said: Transcript) -> Transcript:
    with parts:
        parts.seek(0)
        return tally.with_tallies(said, tally.read(parts))


def first_files(
    program: bytes,
    job: bytes,
    chance: Chance,
    host: bool = False,
    scheduler: Scheduler | None = None,
) -> bytes:
    """The initramfs: the same bytes for the same arguments. host: it is to look like this machine's
    root, whose folders are mounted into it."""
    folders = sorted({"dev", "proc", "run", "sys", "tmp", *(EMPTY if host else ())})
    loaded = () if scheduler is None else _scheduler_files(scheduler)
    links = [it for it in system() if host and it[0] == "--symlink"]
    return initramfs.archive(
        (
            *map(initramfs.folder, folders),
            *(initramfs.link(inside.lstrip("/"), target) for _, target, inside in links),
            initramfs.device("dev/console", 5, 1),
            initramfs.file("init", program, 0o755),
            *loaded,
            initramfs.file("padding", b"\0" * chance.padding_bytes, 0o600),
            initramfs.file(_JOB, job, 0o600),
        )
    )


def _scheduler_files(scheduler: Scheduler) -> tuple[Entry, ...]:
    """As the guest's scheduler.c looks for them."""
    return (
        initramfs.folder("scheduler"),
        initramfs.file("scheduler/loader", scheduler.loader.read_bytes(), 0o700),
        initramfs.file("scheduler/program", scheduler.program.read_bytes(), 0o600),
    )


@dataclass(frozen=True)
class _Places:
    """Where the files are, as QEMU sees them."""

    kernel: str
    program: str
    initrd: str
    shared: str
    disk: str
    plugin: str


def _command(
    request: QemuBoot, job: bytes, ground: Ground, pipes: Pipes, parts: BinaryIO | None = None
) -> Command:
    disk_file, folder = ground.disk, ground.folder
    loaded = request.plugin or request.tally
    library = loaded.library if loaded else None
    chance = Chance.of(request.draw)
    host = _host_folders(request.job)
    program = request.program.read_bytes()
    files = first_files(program, job, chance, bool(host), request.scheduler)
    places = _Places(_KERNEL, _PROGRAM, _INITRD, _SHARED, _DISK, _PLUGIN)
    if folder is not None:
        if _asks_for_folders(request.job):
            raise UsageError(
                "--no-sandbox: it is the sandbox that puts this machine's programs together for a "
                "kernel in QEMU. Leave out --no-sandbox, or the cases that start programs"
            )
        (folder / "initrd").write_bytes(files)
        made = (str(folder / "initrd"), "")
        own = (request.kernel, request.program, *made, disk_file, library)
        places = _Places(*map(str, own))
    plugin = _descriptors(request, parts)
    passed = plugin
    pauser = monitor = None
    if request.job.turns:
        near, far = socket.socketpair()
        pauser, monitor = Monitor(near), far.detach()
        passed = (*passed, monitor)
    argv = [
        *supervised(request, places.program, pipes),
        *("--stdin", str(pipes.orders), "--stdout", str(pipes.results), "--"),
        *qemu_command(request, chance, places, pipes.console, plugin, monitor),
    ]
    if folder is not None:
        return Command((*request.beside, *argv), passed, dict(ENVIRONMENT), pauser)
    initrd = handed(files)
    if disk_file is not None:
        hand_over(disk_file, QEMU)
    argv = Sandbox(
        QEMU,
        read_only=(
            *around(Path(request.emulator.program)),
            (request.kernel, _KERNEL),
            (request.program, _PROGRAM),
            *(((library, _PLUGIN),) if library is not None else ()),
            *((path, f"{_SHARED}/{name}") for path, name in request.shared),
            *((path, f"{_SHARED}/host{inside}") for path, inside in host),
        ),
        writable=((disk_file, _DISK),) if disk_file is not None else (),
        files=((initrd, _INITRD),),
        devices=(emulator.KVM,) if request.way == "kvm" else (),
        tmp_bytes=QEMU_TMP_BYTES + len(files),
    ).argv(argv)
    return Command((*request.beside, *argv), (initrd, *passed), dict(ENVIRONMENT), pauser)


QEMU_TMP_BYTES = 16 << 20


def _descriptors(request: QemuBoot, parts: BinaryIO | None) -> tuple[int, ...]:
    """Where a plugin writes, and what it reads."""
    if request.plugin is not None:
        wanted = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        return os.open(request.plugin.writes, wanted, 0o600), handed(request.plugin.reads)
    if request.tally is not None and parts is not None:
        reads = tally.asked(request.tally.kernel_from)
        return os.dup(parts.fileno()), handed(reads)
    return ()


def qemu_command(
    request: QemuBoot,
    chance: Chance,
    places: _Places,
    console: int,
    plugin: tuple[int, ...] = (),
    monitor: int | None = None,
) -> list[str]:
    """QEMU's own command line: a machine with as little in it as there can be.

    console, counts, monitor: descriptors.

    Without a bus to search and tables to read a kernel is at its first program after 20 million
    instructions.
    """
    words = [
        *(request.emulator.program, "-nodefaults", "-no-user-config", "-display", "none"),
        *(
            "-no-reboot",
            "-sandbox",
            "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny",
        ),
        *("-machine", "microvm,acpi=off,pit=on,pic=on,rtc=on,isa-serial=on"),
        *emulator.accelerator(request.way, chance.seed, _waits(request)),
        *("-smp", str(request.cpus)),
        *("-m", f"{(request.memory_bytes - chance.memory_less_bytes) >> 10}k"),
        *("-add-fd", f"fd={console},set={_CONSOLE_SET}"),
        # A pipe cannot be truncated.
        *("-chardev", f"file,id=console,append=on,path=/dev/fdset/{_CONSOLE_SET}"),
        *("-serial", "chardev:console"),
        *("-chardev", "stdio,id=channel,signal=off"),
        *("-device", "virtio-serial-device,max_ports=1"),
        *("-device", "virtconsole,chardev=channel"),
    ]
    if _asks_for_folders(request.job):
        options = "security_model=none,readonly=on,multidevs=remap"
        words += ["-fsdev", f"local,id=shared,path={places.shared},{options}"]
        words += ["-device", "virtio-9p-device,fsdev=shared,mount_tag=shared"]
    if request.disk_bytes:
        words += ["-drive", f"if=none,id=disk,format=raw,cache=unsafe,file={places.disk}"]
        words += ["-device", "virtio-blk-device,drive=disk"]
    if monitor is not None:
        words += ["-chardev", f"socket,id=monitor,fd={monitor}"]
        words += ["-mon", "chardev=monitor,mode=control"]
    if plugin:
        words += ["-plugin", "file={},out={},in={}".format(places.plugin, *plugin)]
    words += ["-kernel", places.kernel, "-initrd", places.initrd]
    return [*words, "-append", kernel_words(request, chance)]


def _asks_for_folders(job: Job) -> bool:
    """Whether a case names or starts what is the host's: whoever does not is spared the device."""
    by_name = any("/run/kdyno/" in word for case in job.cases for word in case.args)
    return by_name or bool(_host_folders(job))


def _waits(request: QemuBoot) -> bool:
    return bool(request.disk_bytes) or _asks_for_folders(request.job)


def _host_folders(job: Job) -> Binds:
    """What a guest sees of this machine, each in its own place: the programs with all that they
    need, and what command lines name. Nothing where no case starts any."""
    if not any(case.bench in OF_THE_HOST for case in job.cases):
        return ()
    folders = [(Path(path), inside) for how, path, inside in system() if how != "--symlink"]
    return (*folders, *named(*(case.args for case in job.cases)))


def kernel_words(request: QemuBoot, chance: Chance) -> str:
    """The kernel's command line; QEMU adds where its devices are."""
    own = printable_words(request.cmdline)
    return " ".join(
        (
            *("console=ttyS0", "quiet", "loglevel=3", "reboot=t", "panic=-1"),
            *emulator.clock_words(request.way, request.cpus, request.ticks_khz),
            *("kdyno.machine=qemu", f"kdyno.job=/{_JOB}"),
            *(["kdyno.counts=yes"] if request.way == "count" else []),
            *scatter_words(request),
            *([f"kdyno.scheduler={request.scheduler.name}"] if request.scheduler else []),
            *own,
            *chance.words.split(),
        )
    )


def _failure(text: str, ended: Ended, said: Transcript, sandboxed: bool) -> Diagnosis | None:
    found = diagnosis.of_boot(text, ended, said, sandboxed)
    if found is not None and found.reason == "no-result" and said.hello is None:
        refused = [it for it in diagnosis.tail(text).splitlines() if it.startswith(_REFUSED)]
        if refused:
            return Diagnosis("emulator", refused[-1])
    return found
