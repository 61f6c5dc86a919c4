# SPDX-License-Identifier: MIT
"""Native kernels in QEMU: counted exactly by emulation, or timed under KVM."""

from __future__ import annotations

import json
import os
import random
import socket
import stat
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar

from kdyno import deferred
from kdyno.errors import ToolError, UsageError
from kdyno.experiment.model import NATIVE_COPIES
from kdyno.kernels.image import Image
from kdyno.kernels.scheduler import Scheduler
from kdyno.machines import emulator, facts
from kdyno.machines.cpus import apart, first
from kdyno.machines.emulator import COUNTS, FUNCTIONS, TALLY, Emulator, Plugin, Way, library
from kdyno.machines.guest import (
    GUEST_PLACES,
    Boot,
    Built,
    Diagnosis,
    Ground,
    guest_program,
    handed,
    start,
    tail,
)
from kdyno.machines.machine import Can, Method, Plan, Setup, run_to_end
from kdyno.machines.process import (
    ENVIRONMENT,
    Command,
    Ended,
    Listener,
    Monitor,
    Pipes,
    Session,
    printable_words,
)
from kdyno.sandbox import EMPTY, QEMU, Binds, around, named, system
from kdyno.store.verdict import Flag
from kdyno.suites.job import OF_THE_HOST, Job
from kdyno.suites.protocol import Transcript

_modules_of: Callable[..., Modules] = deferred("kdyno.kernels.installed:needed")

CAN = Can(
    profile="a profile by samples shows where time goes, and under emulation that is QEMU's own",
    change="kernels with gprof, KUnit or counted copies are built for User Mode Linux",
)
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
_PROBE_S = 20.0
"""A kernel under KVM is there after a second; a KVM that does not work may hang."""
_KERNEL_FROM = {"x86_64": 1 << 63, "i386": 0xC0000000}
"""Where a kernel's half of the addresses begins."""
_JOB = "kdyno.job"
_CONSOLE_SET = 1
_REFUSED = "qemu-system-x86_64: "
_TMP_BYTES = 16 << 20
_FOLDER, _FILE = stat.S_IFDIR | 0o755, stat.S_IFREG
Modules = tuple[tuple[str, bytes], ...]
"""(name, content), in the order in which they are loaded."""
_INSTALLED = ("kdyno.installed=yes", "cryptomgr.notests=1")
"""For an installed kernel: measuring waits for its own start-up work, of which 6.12's tests of RSA
and Diffie-Hellman would take seconds beside the first cases."""
_BUS = ("virtio_pci", "virtio_console")
_FOLDERS = ("9pnet_virtio", "9p")
_DISK = ("virtio_blk", "ext4")
_AS_OURS = ("VIRTIO_MMIO_CMDLINE_DEVICES", "VIRTIO_CONSOLE", "VIRTIO_BLK", "NET_9P_VIRTIO", "9P_FS")
"""An installed kernel with all this built in boots on the machine of those that kdyno builds."""


def archive(files: Sequence[tuple[str, int, bytes]]) -> bytes:
    """A guest's first files, as the kernel unpacks them: the same bytes for the same content. Each
    is (name relative to the root, mode as stat(2) has it, content); a device is the console. Root's
    files, of the year 1970, numbered in their order. The format is cpio "newc"
    (Documentation/driver-api/early-userspace/buffer-format.rst in Linux)."""
    packed = bytearray()
    for number, (name, mode, content) in (*enumerate(files, 1), (0, ("TRAILER!!!", 0, b""))):
        text = name.encode() + b"\0"
        links, device = 2 if stat.S_ISDIR(mode) else 1, (5, 1) if stat.S_ISCHR(mode) else (0, 0)
        fields = (number, mode, 0, 0, links, 0, len(content), 0, 0, *device, len(text), 0)
        head = b"070701" + b"".join(b"%08X" % value for value in fields) + text
        for part in (head, content):
            packed += part + b"\0" * (-len(part) % 4)
    return bytes(packed)


@dataclass(frozen=True)
class Chance:
    """What differs from draw to draw: QEMU's random numbers, where a kernel's memory lies, and how
    long an instruction takes, so that ticks fall elsewhere. A kernel's allocators and scheduler are
    in another state each time, as from boot to boot on other machines; the code is the same. So is
    its place: the first program of a bzImage would draw that (KASLR), and a kernel that is entered
    without it never does."""

    seed: int
    memory_less_bytes: int
    padding_bytes: int
    """Of a file in the initramfs."""
    words: str
    shift: int = 0
    """Beyond the way's own: an instruction takes twice as long for each."""

    @classmethod
    def of(cls, draw: int) -> Chance:
        if draw == 0:
            return cls(1, 0, 0, "")
        dice = random.Random(f"kdyno {draw}")
        return cls(
            seed=dice.randrange(2, 1 << 31),
            memory_less_bytes=dice.randrange(1, 512) << 14,
            padding_bytes=dice.randrange(1, 64) << 12,
            words="kdyno.padding=" + "x" * dice.randrange(1, 256),
            shift=dice.choice((0, 0, 1)),
        )


def first_files(
    program: bytes,
    job: bytes,
    chance: Chance,
    host: bool = False,
    scheduler: Scheduler | None = None,
    root: Path = Path("/"),
    modules: Modules = (),
) -> bytes:
    """The initramfs: the same bytes for the same arguments. host: it is to look like ``root``,
    this machine's or a userland's, whose folders are mounted into it."""
    places = sorted({"dev", "proc", "run", "sys", "tmp", *(EMPTY if host else ())})
    files = [(name, _FOLDER, b"") for name in places]
    for option, target, inside in system(root):
        if host and option == "--symlink":
            files.append((inside.lstrip("/"), stat.S_IFLNK | 0o777, target.encode()))
    files.append(("dev/console", stat.S_IFCHR | 0o600, b""))
    files.append(("init", _FILE | 0o755, program))
    if scheduler is not None:  # as the guest's scheduler.c looks for it
        files.append(("scheduler", _FOLDER, b""))
        files.append(("scheduler/loader", _FILE | 0o700, scheduler.loader.read_bytes()))
        files.append(("scheduler/program", _FILE | 0o600, scheduler.program.read_bytes()))
    if modules:  # init loads them by their numbers
        files.append(("modules", _FOLDER, b""))
    for number, (_name, content) in enumerate(modules):
        files.append((f"modules/{number:02d}.ko", _FILE | 0o600, content))
    files.append(("padding", _FILE | 0o600, b"\0" * chance.padding_bytes))
    return archive([*files, (_JOB, _FILE | 0o600, job)])


def host_folders(job: Job, root: Path = Path("/")) -> Binds:
    """What a guest sees of this machine, each in its own place: the programs with all that they
    need, ``root``'s, and what command lines name. Nothing where no case starts any."""
    if not any(case.bench in OF_THE_HOST for case in job.cases):
        return ()
    folders = [(Path(path), inside) for how, path, inside in system(root) if how != "--symlink"]
    return (*folders, *named(*(case.args for case in job.cases)))


@dataclass(frozen=True)
class Places:
    """Where the files are, as QEMU sees them."""

    kernel: str = "/tmp/vmlinux"
    initrd: str = "/tmp/initrd"
    shared: str = "/tmp/shared"
    disk: str = "/tmp/kdyno.disk"
    plugin: str = "/tmp/plugin.so"


@dataclass(frozen=True, kw_only=True)
class QemuBoot(Boot):
    first_word_s: ClassVar[float] = 120.0
    """An emulated kernel needs half a second of CPU, which a machine that is busy gives it late."""
    emulator: Emulator
    way: Way
    kernel: Path
    cpus: int = 1
    """Of the guest. Counting they run one after the other, on one of the host's."""
    memory_bytes: int = 256 << 20
    plugin: Plugin | None = None
    tally: bool = False
    """The plugin counts what each operation is made of."""
    scheduler: Scheduler | None = None
    """What the guest loads before its first case, and holds to be in charge at each."""
    modules: Callable[[tuple[str, ...]], Modules] | None = None
    """Of an installed kernel: what of the modules with these names, and of those that they need,
    is not built in. None: all that a guest needs is."""
    ticks_khz: int = 0
    """How fast the host's time-stamp counter goes, where the guest's clock is that; 0: it finds out
    itself."""
    root: Path = Path("/")
    """Whose programs the guest sees."""
    apic: bool = True
    """The kernel drives a local APIC. One that does not leaves it as it is, and it stands between
    the CPU and its other interrupts: the second of two devices never gets through."""

    @property
    def keeps_time(self) -> bool:
        """A count's clock counts instructions, and is not to be held against the host's."""
        return self.way not in emulator.SHIFTS

    @property
    def chance(self) -> Chance:
        """What is counted is perturbed so; the pages' places cost no instructions."""
        chance = Chance.of(0 if self.keeps_time else self.draw)
        return chance if self.way == "count" else replace(chance, shift=0)

    @property
    def scatter(self) -> int:
        return self.draw if self.keeps_time else 0

    def observed(self, transcript: Transcript) -> Transcript:
        if self.plugin is None:
            return transcript
        with self.plugin.output as output:
            if not self.tally:
                return transcript
            output.seek(0)
            return emulator.with_tallies(transcript, emulator.read_tallies(output))

    def failure(self, console: str, ended: Ended, transcript: Transcript) -> Diagnosis | None:
        cause = super().failure(console, ended, transcript)
        if cause is not None and cause.reason == "no-result" and transcript.hello is None:
            lines = [line for line in tail(console).splitlines() if line.startswith(_REFUSED)]
            if lines:
                return Diagnosis("emulator", lines[-1])
        return cause

    @property
    def shows_folders(self) -> bool:
        """Whether a case names or starts what is the host's: others are spared the device."""
        by_name = any("/run/kdyno/" in word for case in self.job.cases for word in case.args)
        return by_name or bool(host_folders(self.job))

    def command(self, job: bytes, ground: Ground, pipes: Pipes) -> Command:
        folder = ground.folder
        if folder is not None and self.shows_folders:
            raise UsageError(
                "--no-sandbox: it is the sandbox that puts this machine's programs together for a "
                "kernel in QEMU. Leave out --no-sandbox, or the cases that start programs"
            )
        host = host_folders(self.job, self.root)
        modules: Modules = ()
        if self.modules is not None:
            folders = _FOLDERS if self.shows_folders else ()
            modules = self.modules((*_BUS, *folders, *(_DISK if self.disk_bytes else ())))
        program = self.program.read_bytes()
        files = first_files(
            program, job, self.chance, bool(host), self.scheduler, self.root, modules
        )
        inside, places = "/tmp/kdyno-guest", Places()
        if folder is not None:
            (folder / "initrd").write_bytes(files)
            library = str(self.plugin.library if self.plugin else None)
            inside = str(self.program)
            places = Places(str(self.kernel), f"{folder}/initrd", "", str(ground.disk), library)
        plugin: tuple[int, ...] = ()  # where it writes, and what it reads
        if self.plugin is not None:
            plugin = os.dup(self.plugin.output.fileno()), handed(self.plugin.input)
        own: Monitor | None = None
        monitor: int | None = None
        passed = plugin
        if self.job.turns:
            near, far = socket.socketpair()
            own, monitor = Monitor(near), far.detach()
            passed = (*plugin, monitor)
        argv = [
            *self.supervised(inside, pipes, self.memory_bytes),
            *("--stdin", str(pipes.orders), "--stdout", str(pipes.results), "--"),
            *self.qemu_words(places, pipes.console, plugin, monitor),
        ]
        if folder is not None:
            return Command((*self.beside, *argv), passed, ENVIRONMENT, own)
        boxed, initrd = self.boxed(
            QEMU,
            argv,
            ground,
            read_only=(
                *around(Path(self.emulator.program)),
                (self.kernel, places.kernel),
                (self.program, inside),
                *(((self.plugin.library, places.plugin),) if self.plugin else ()),
                *((path, f"{places.shared}/host{place}") for path, place in host),
            ),
            file=(files, places.initrd),
            shared=places.shared,
            disk=places.disk,
            devices=(emulator.KVM,) if self.way == "kvm" else (),
            tmp_bytes=_TMP_BYTES + len(files),
        )
        return Command((*self.beside, *boxed), (initrd, *passed), ENVIRONMENT, own)

    def qemu_words(
        self, places: Places, console: int, plugin: tuple[int, ...] = (), monitor: int | None = None
    ) -> list[str]:
        """QEMU's own command line: a machine with as little in it as there can be. console, plugin,
        monitor: descriptors. Without a bus to search and tables to read a kernel is at its first
        program after 20 million instructions. Kernels of distributions find virtio by PCI or by
        ACPI alone; and by ACPI, on a machine as small as microvm, they take no tick from its timer,
        which leaves the local APIC's, that is dear to calibrate."""
        bus, same = "device", ""
        machine = "microvm,acpi=off,pit=on,pic=on,rtc=on,isa-serial=on"
        if self.modules is not None:
            # Else another thread of QEMU's answers, and when that is differs from boot to boot.
            bus, same = "pci", ",ioeventfd=off"
            machine = "pc,acpi=off,hpet=off,smm=off,usb=off,vmport=off"
        chance = self.chance
        shut = "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"
        words = [
            *(self.emulator.program, "-nodefaults", "-no-user-config", "-display", "none"),
            *("-no-reboot", "-sandbox", shut),
            *("-machine", machine),
            *emulator.accelerator(
                self.way,
                chance.seed,
                waits=bool(self.disk_bytes) or self.shows_folders,
                shift=chance.shift,
            ),
            *(() if self.apic else ("-cpu", f"{emulator.CPU},-apic")),  # in place of the other
            *("-smp", str(self.cpus)),
            *("-m", f"{(self.memory_bytes - chance.memory_less_bytes) >> 10}k"),
            *("-add-fd", f"fd={console},set={_CONSOLE_SET}"),
            # A pipe cannot be truncated.
            *("-chardev", f"file,id=console,append=on,path=/dev/fdset/{_CONSOLE_SET}"),
            *("-serial", "chardev:console"),
            *("-chardev", "stdio,id=channel,signal=off"),
            *("-device", f"virtio-serial-{bus},max_ports=1{same}"),
            *("-device", "virtconsole,chardev=channel"),
        ]
        if self.shows_folders:
            options = "security_model=none,readonly=on,multidevs=remap"
            words += ["-fsdev", f"local,id=shared,path={places.shared},{options}"]
            words += ["-device", f"virtio-9p-{bus},fsdev=shared,mount_tag=shared{same}"]
        if self.disk_bytes:
            words += ["-drive", f"if=none,id=disk,format=raw,cache=unsafe,file={places.disk}"]
            words += ["-device", f"virtio-blk-{bus},drive=disk{same}"]
        if monitor is not None:
            words += ["-chardev", f"socket,id=monitor,fd={monitor}"]
            words += ["-mon", "chardev=monitor,mode=control"]
        if plugin:
            words += ["-plugin", "file={},out={},in={}".format(places.plugin, *plugin)]
        kernel_words = [  # QEMU adds where its devices are
            *("console=ttyS0", "quiet", "loglevel=3", "reboot=t", "panic=-1"),
            *emulator.clock_words(self.way, self.cpus, self.ticks_khz),
            *("kdyno.machine=qemu", f"kdyno.job=/{_JOB}"),
            *(_INSTALLED if self.modules is not None else ()),
            *([f"kdyno.counts={chance.shift}"] if self.way == "count" else []),
            *([f"kdyno.scatter={self.scatter}"] if self.scatter else []),
            *([f"kdyno.scheduler={self.scheduler.name}"] if self.scheduler else []),
            *printable_words(self.cmdline),
            *chance.words.split(),
        ]
        words += ["-kernel", places.kernel, "-initrd", places.initrd]
        return [*words, "-append", " ".join(kernel_words)]


def check(method: Method) -> None:
    """UsageError and ToolError as the kind's row says."""
    emulator.find()
    way = way_of(method)
    hardware = facts.hardware(method.counters)
    if method.counters and (way in emulator.SHIFTS or (hardware and way != "kvm")):
        what = "an emulated CPU has none" if way == "tcg" else "they go with time, under KVM"
        raise UsageError(f"[measure] counters = {json.dumps(hardware or method.counters)}: {what}")
    facts.check_counters(hardware, here=False)
    if method.userland:
        from kdyno.machines import userland

        userland.check(method.userland)


def way_of(method: Method) -> Way:
    """How guests run. ToolError for a time that nobody asked to be emulated."""
    if method.metric not in ("time", "instructions"):
        raise UsageError(
            f'[measure] metric = "{method.metric}" is of kind = "host": QEMU counts instructions; '
            f'with metric = "time" under KVM counters = ["{method.metric}"] are beside the time'
        )
    if method.metric != "time":
        if method.accel in ("kvm", "icount"):
            raise UsageError(
                f'[machine] accel = "{method.accel}" and [measure] metric = "{method.metric}": '
                "QEMU counts what it emulates; leave accel out"
            )
        return "count"
    if method.apart:
        raise UsageError('[measure] apart = true goes with metric = "instructions"')
    if method.accel == "tcg":
        return "tcg"
    if method.accel == "icount":
        return "icount"
    if why := emulator.why_no_kvm():
        raise _no_kvm(why)
    return "kvm"


def _no_kvm(why: str) -> ToolError:
    return ToolError(
        f'[measure] metric = "time" needs KVM: {why}. Emulated seconds say nothing of a kernel. '
        'metric = "instructions" (--metric instructions) counts exactly, on any machine; '
        '[machine] accel = "tcg" takes the seconds all the same'
    )


def _is_foreign(image: Image) -> bool:
    """Whether a kernel needs a bus that firmware describes, and modules."""
    options = image.build.get("options", {})
    return image.installed and any(options.get(name) != "y" for name in _AS_OURS)


class Qemu(Built):
    overhead_bytes = 192 << 20
    """QEMU's own memory: translated code most of it."""
    places = GUEST_PLACES

    def __init__(self, setup: Setup) -> None:
        self._emulator = emulator.find()
        self._way: Way = way_of(setup.method)
        self.can = CAN
        if self._way in emulator.SHIFTS:
            self.can = replace(CAN, turns="a count is the same whatever else the machine does")
        self.emulator = self._emulator.described(self._way)
        if setup.userland is not None:
            self.emulator += f", {setup.userland.description}"
        self._copies: dict[str, str] = {}
        """Variant → what its kernel's alternatives made of memcpy; nothing before ``probe``."""
        self._opened = 0
        self._modules: dict[tuple[str, tuple[str, ...]], Modules] = {}
        for image in setup.images.values():
            if image.installed and "PVH" not in image.build["options"]:
                raise UsageError(
                    f"image {image.build.get('source')}: QEMU starts kernels by their PVH entry, "
                    "and this one was built without CONFIG_PVH"
                )
        super().__init__(setup)

    def caveats(self) -> tuple[Flag, ...]:
        kind, text = _CAVEATS[self._way]
        text = text.format(described=self.emulator)
        copies = self._copies
        if len(set(copies.values())) == 1:
            text += f"; memcpy here: {next(iter(copies.values()))}"
        elif copies:
            text += f"; memcpy here: {', '.join(f'{name} {how}' for name, how in copies.items())}"
        flags = [Flag(kind=kind, text=text)]
        if names := [name for name, image in self._setup.images.items() if image.installed]:
            words = " ".join((*emulator.clock_words(self._way), *_INSTALLED[1:]))
            text = f"{', '.join(names)}: as installed, started with {words}: what its own command "
            text += "line would switch on (addresses by chance, tests at its start) is off"
            flags.append(Flag(kind="installed", text=text))
        return tuple(flags)

    def described(self, variant: str) -> dict[str, Any]:
        return {**super().described(variant), "emulator": self.emulator}

    def probe(self, notice: Callable[[str], None]) -> None:
        """Every image once with nothing to do; KVM is believed after the first guest's word."""
        believed = False
        for name in self._setup.images:
            limit_s = _PROBE_S if self._way == "kvm" else None
            job = Job(counters=self._setup.method.counters)
            outcome = run_to_end(self.open(Plan(name, job), limit_s=limit_s), self.clock)
            host, hello, fatal = outcome.host, outcome.transcript.hello, outcome.transcript.fatal
            if job.counters and host.reason != "scheduler":
                facts.refuse_counters(job.counters, fatal or "")
            believed = believed or hello is not None or fatal is not None
            if host.status == "ok":
                routine = self._setup.variants[name].memcpy
                if routine and routine not in NATIVE_COPIES:
                    self._copies[name] = Path(routine).stem
                elif hello is not None and hello.copies:
                    self._copies[name] = hello.copies
            elif self._way == "kvm" and not believed:
                raise _no_kvm(f"{name} did not boot under it: {host.reason}: {host.text}")
            elif host.reason in ("sandbox", "emulator"):
                raise ToolError(f"QEMU does not start: {host.text}")
            else:
                notice(f"{name}: its first boot failed ({host.reason}: {host.text})")

    def open(
        self, plan: Plan, listener: Listener = lambda _case: None, *, limit_s: float | None = None
    ) -> Session:
        setup = self._setup
        variant, image = setup.variants[plan.variant], setup.images[plan.variant]
        cpus = self._cpus(plan.variant)
        placement = first(setup.placement, cpus)
        if self._way in emulator.SHIFTS:
            placement = apart(placement, self._opened)
            self._opened += 1
        plugin: Plugin | None = None
        tally = setup.method.apart and not plan.left
        if (file := dict(plan.left).get(COUNTS)) is not None:
            counter = library(COUNTS, setup.cache, self._emulator)
            output = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            symbols = dict(plan.given).get(FUNCTIONS, b"")
            plugin = Plugin(counter, os.fdopen(output, "wb"), symbols)
        elif tally:
            counter = library(TALLY, setup.cache, self._emulator)
            output, halves = os.memfd_create("tally"), f"kernel {_KERNEL_FROM[image.arch]}\n"
            plugin = Plugin(counter, os.fdopen(output, "w+b"), halves.encode())
        request = QemuBoot(
            **vars(plan) | {"cmdline": f"{variant.words} {plan.cmdline}".strip()},
            emulator=self._emulator,
            way=self._way,
            kernel=image.link(plan.layout).kernel,
            program=self._program(plan.variant),
            placement=placement,
            cpus=cpus,
            memory_bytes=setup.memory_bytes,
            limit_s=limit_s or setup.timeout_s,
            plugin=plugin,
            tally=tally,
            scheduler=image.scheduler,
            modules=partial(self._needed, image) if _is_foreign(image) else None,
            ticks_khz=self._ticks_khz,
            apic=self._way == "kvm" or image.apic,
            root=setup.userland.root if setup.userland is not None else Path("/"),
        )
        return start(request, self.clock, listener)

    def _needed(self, image: Image, names: tuple[str, ...]) -> Modules:
        """Looked up once for each image: unpacking them takes longer than a boot."""
        if (image.digest, names) not in self._modules:
            self._modules[image.digest, names] = _modules_of(image, names)
        return self._modules[image.digest, names]

    @cached_property
    def _ticks_khz(self) -> int:
        if self._way != "tcg":
            return 0
        return emulator.ticks_khz(guest_program(self._setup.cache, 64))
