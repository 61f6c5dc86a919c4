# SPDX-License-Identifier: MIT
"""A guest as every kind of machine starts it: its program, what it is given, why it failed, its
record."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, ClassVar

from kdyno import deferred, sandbox, whole
from kdyno.command import capture, for_tools, require
from kdyno.errors import ToolError
from kdyno.kernels.compiler import identify
from kdyno.kernels.image import Image
from kdyno.machines import facts
from kdyno.machines.cpus import Placement
from kdyno.machines.machine import Footprint, Machine, Plan, Programs, Setup, run_to_end
from kdyno.machines.process import (
    FIRST_WORD_S,
    GRACE_S,
    Command,
    Dialogue,
    Ended,
    Events,
    Listener,
    Outcome,
    Pipes,
    Session,
)
from kdyno.paths import data_root
from kdyno.reading.checked import values
from kdyno.sandbox import Binds, Sandbox, View, hand_over
from kdyno.store.boot import BootFlag, BootHost
from kdyno.suites.protocol import Transcript

GUEST_PLACES = {
    "dir": "/tmp",
    "disk": "/run/disk",
    "tree": "/run/kdyno/tree",
    "programs": "/run/kdyno/programs",
    "prepared": "/run/kdyno/prepared",
}
"""Where the program puts what a case's command line asks for, as a kernel's first process."""
_PACKAGES = "// packages: "
"""In a program's source: the pkg-config modules that it needs."""
SPARE_BYTES = 1 << 30
"""Left free on the host's file system, whatever a boot writes."""
_PAGES_IN_ORDER = (
    "free pages could not be put at drawn places: where a case's pages lie is an accident"
)
_FILE_BYTES, _ROUND_BYTES = 256 << 20, 64 << 20
"""Such as the counts of QEMU's plugin; UML rounds up."""
_PART_BYTES = 1 << 20
"""Of a console, kept of its beginning and of its end."""
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_SIGNS: Mapping[str, str] = {
    "oom": r"Out of memory: Killed process|System is deadlocked on memory"
    r"|Kernel panic - not syncing: Out of memory",
    "init-died": r"Attempted to kill init|No working init found|Requested init .{1,200} failed"
    r"|Kernel panic - not syncing: (?:VFS|No init)",
    "no-seccomp": r"SECCOMP userspace requested but not functional",
    "oops": r"BUG: |Oops|general protection fault|Kernel mode fault|Segfault with no mm"
    r"|kernel BUG at",
    "panic": r"Kernel panic - not syncing",
}
"""The first match wins: a panic may follow an oops or an out-of-memory kill and names the cause
less."""
_SCHEDULER = "scheduler: "
"""How a guest begins when it says that its scheduler is not, or no longer, in charge."""
_symbols: Callable[[Image], Path] = deferred("kdyno.kernels.installed:symbols")
_MOST_WARNINGS = 5
_WARNING = re.compile(
    r"^.*(?:WARNING: CPU|WARNING: |BUG: |INFO: rcu.{1,200}stall|soft lockup).*$", re.M
)
_UNKNOWN = re.compile(r"^kdyno-guest: not known: (\S+)\s*$", re.M)


@cache
def guest_program(cache_root: Path, word_bits: int) -> Path:
    """Path of the static guest program for kernels of ``word_bits``. The same file is used in every
    variant: only the kernel may differ. ToolError where the compiler cannot link such a program."""
    source = data_root() / "guest"
    folder = cache_root / "guest" / guest_digest(source)
    program = folder / f"kdyno-guest-{word_bits}"
    if not folder.is_dir():
        _compile(source, folder)
    if not program.is_file():
        raise ToolError(
            f"no {word_bits}-bit guest program: gcc cannot link static {word_bits}-bit programs. "
            "On Debian: apt-get install gcc-multilib"
        )
    return program


def programs_folder(program: Path) -> Path:
    """Scripts and programs that suites call ``{programs}/NAME``, beside the guest program."""
    return program.parent / "programs"


def guest_digest(source: Path) -> str:
    """Of all that kdyno's own programs are made of."""
    total = hashlib.sha256(identify("gcc").version.encode())
    for file in sorted(source.rglob("*")):
        if file.suffix in (".c", ".h", ".S", ".sh", ".fio") or file.name == "Makefile":
            total.update(str(file.relative_to(source)).encode() + b"\0" + file.read_bytes())
    # Whether -m32 links decides what is built, so a later gcc-multilib gives a new name.
    total.update(capture(["gcc", "-m32", "-print-file-name=libc.a"]).output.encode())
    total.update(_libraries(source).encode())
    return total.hexdigest()[:32]


def _libraries(source: Path) -> str:
    """The versions of what guest/programs link with: a library that is installed later counts."""
    if shutil.which("pkg-config") is None:
        return ""
    packages: set[str] = set()
    for file in (source / "programs").glob("*.c"):
        for line in file.read_text(encoding="utf-8").splitlines()[:5]:
            if line.startswith(_PACKAGES):
                packages |= {*line.removeprefix(_PACKAGES).split()}
    command = ["pkg-config", "--modversion"]
    return "".join(f"{each} {capture([*command, each]).output}" for each in sorted(packages))


def _compile(source: Path, folder: Path) -> None:
    make = require("make", "to build the guest program")
    with whole.locked(folder.parent / ".lock"):
        if folder.is_dir():
            return
        with whole.folder(folder) as aside:
            result = capture([make, "-C", str(source), f"OUT={aside}", "-j2"], env=for_tools())
            if result.status != 0:
                text = result.output.strip()[-2000:]
                raise ToolError(f"the guest program did not build:\n{text}")


@dataclass(frozen=True)
class Diagnosis:
    """reason: a short stable word; text: the same for people, with the line that shows it."""

    reason: str
    text: str


def tail(text: str, lines: int = 12) -> str:
    """The last lines of a console, each cut to a readable length."""
    return "\n".join([line[:200] for line in text.splitlines() if line.strip()][-lines:])


def shortened(console: bytearray) -> bytes:
    """With one line in place of what is beyond the limit, in the middle."""
    omitted_bytes = len(console) - 2 * _PART_BYTES
    if omitted_bytes <= 0:
        return bytes(console)
    middle = b"\n[kdyno left out %d bytes here]\n" % omitted_bytes
    return bytes(console[:_PART_BYTES] + middle + console[-_PART_BYTES:])


def sign(text: str) -> Diagnosis | None:
    """What the console itself says went wrong."""
    for reason, pattern in _SIGNS.items():
        if match := re.search(pattern, text):
            start = text.rfind("\n", 0, match.start()) + 1
            return Diagnosis(reason, text[start:].partition("\n")[0].strip()[:300])
    return None


def diagnosis_of(
    console: str, ended: Ended, transcript: Transcript, sandboxed: bool
) -> Diagnosis | None:
    """None for a boot that ran its job to the end; otherwise why it did not."""
    cause = sign(console)
    answered = transcript.hello is not None
    if transcript.bye is not None and (cause is None or cause.reason in ("oom", "oops")):
        # A case that was killed for memory, or a kernel that limped on, did finish the job;
        # an oops spoils the measurement, a killed case is recorded with its case.
        return cause if cause is not None and cause.reason == "oops" else None
    stopped, fatal = ended.stopped, transcript.fatal or ""
    if stopped == "flood":
        return Diagnosis("flood", "the guest printed more than is read from a guest")
    if stopped == "timeout":
        where = "in the job" if answered else "before the guest program answered"
        text = f"did not end within {ended.wall_s:.0f} s, {where}; killed"
        return cause or Diagnosis("timeout" if answered else "hang", text)
    if stopped:
        return cause or Diagnosis(stopped, f"stopped by kdyno: {stopped}")
    if fatal.startswith(_SCHEDULER):
        return Diagnosis("scheduler", fatal.removeprefix(_SCHEDULER))
    if fatal:
        return Diagnosis("job-refused", f"the guest program refused the job: {fatal}")
    if cause is not None:
        return cause
    if answered:
        return Diagnosis("no-result", f"the guest ended with status {ended.status} in the job")
    if sandboxed and "bwrap: " in console:
        return Diagnosis("sandbox", tail(console, 1))
    text = f"the kernel ended with status {ended.status} before its first word"
    return Diagnosis("no-result", text)


@contextmanager
def disk_image(parent: Path, size_bytes: int) -> Iterator[Path]:
    """A disk for one boot: a sparse file of ``size_bytes`` with an empty ext4, the same each time.
    ToolError where the file system of ``parent`` has not that much to spare."""
    with disk_folder(parent, size_bytes) as inside:
        file = inside / "disk"
        with file.open("wb") as handle:
            handle.truncate(size_bytes)
        programs = ("mkfs.ext4", "/usr/sbin/mkfs.ext4", "/sbin/mkfs.ext4")
        mkfs = next(filter(shutil.which, programs), None)
        # Nothing is left for the kernel to initialise later, in the middle of a measurement;
        # fixed identifiers, so that directories hash alike in every boot.
        fixed = "6b64796e-6f00-4000-8000-000000000001"
        options = f"lazy_itable_init=0,lazy_journal_init=0,hash_seed={fixed}"
        argv = [mkfs or require("mkfs.ext4", "for cases on a disk (Debian package e2fsprogs)")]
        argv += ["-q", "-F", "-t", "ext4", "-m", "0", "-U", fixed, "-E", options]
        result = capture([*argv, "-J", "size=16", str(file)])
        if result.status != 0:
            raise ToolError(f"{file}: mkfs.ext4 failed: {result.output.strip()[-500:]}")
        yield file


@contextmanager
def disk_folder(parent: Path, size_bytes: int) -> Iterator[Path]:
    """An empty folder on the file system of ``parent``, which must have the room."""
    parent.mkdir(parents=True, exist_ok=True)
    whole.sweep(parent)  # before it is asked whether there is room
    whole.require_space(parent, size_bytes + SPARE_BYTES, cache=False)
    with whole.scratch("boot", parent) as folder:
        yield folder


@dataclass(frozen=True)
class Ground:
    """What a boot has on the host as long as it lasts."""

    disk: Path | None
    folder: Path | None
    """For its files, where there is no sandbox to put them into."""


@dataclass(frozen=True, kw_only=True)
class Boot(Plan, ABC):
    """One boot to be done: a plan, and what the machine adds to it. Each kind has its own."""

    variant: str = ""
    program: Path
    placement: Placement
    sandboxed: bool = field(default_factory=sandbox.require)
    limit_s: float | None = None
    """None follows from the cases."""
    first_word_s: ClassVar[float] = FIRST_WORD_S
    grace_s: ClassVar[float] = GRACE_S
    reports: ClassVar[bool] = True
    """The supervisor's report is of the guest's processes."""
    booting_s: float = 0.0
    """What the boot took before the session began."""

    @abstractmethod
    def command(self, job: bytes, ground: Ground, pipes: Pipes) -> Command:
        """How the guest is started; ``job`` is the job's text."""

    def places(self, ground: Ground) -> Mapping[str, str]:
        """Where the guest finds {dir}, {disk}, {tree}, {programs} and {prepared}."""
        return GUEST_PLACES

    def disk(self) -> AbstractContextManager[Path]:
        return disk_image(self.disk_parent, self.disk_bytes)

    def failure(self, console: str, ended: Ended, transcript: Transcript) -> Diagnosis | None:
        """Why the boot failed; None: it did not."""
        return diagnosis_of(console, ended, transcript, self.sandboxed)

    def warnings(self, console: str) -> list[str]:
        """What the kernel complained of in a boot that went through all the same."""
        lines = (line.strip()[:200] for line in _WARNING.findall(console))
        return list(dict.fromkeys(lines))[:_MOST_WARNINGS]

    def unknown(self, console: str) -> list[str]:
        """Words of the command line that the kernel did not know, among others."""
        return _UNKNOWN.findall(console)

    def observed(self, transcript: Transcript) -> Transcript:
        """The transcript, with what the machine saw of the guest."""
        return transcript

    def look(self) -> facts.Moment:
        """What the machine that runs the guest does now."""
        return facts.look(self.placement.guest)

    @property
    def keeps_time(self) -> bool:
        """The guest's clock goes as the host's does, and can be held against it."""
        return True

    def supervised(self, program: str, pipes: Pipes, memory_bytes: int = 0) -> list[str]:
        """The guest program over what follows: it sees to its end, and reports what it took.
        memory_bytes: of a guest, which may write files as large as that or its disk; 0: no guest,
        whose programs may write what they like."""
        argv = [program, "supervise", "--report-fd", str(pipes.report)]
        argv += ["--alone", "yes"] if self.sandboxed else []
        most_bytes = max(memory_bytes, self.disk_bytes, _FILE_BYTES) + _ROUND_BYTES
        return [*argv, *(["--fsize", str(most_bytes)] if memory_bytes else [])]

    def boxed(
        self,
        view: View,
        argv: list[str],
        ground: Ground,
        *,
        read_only: Binds,
        file: tuple[bytes, str],
        shared: str,
        disk: str,
        **more: Any,
    ) -> tuple[list[str], int]:
        """(argv in the sandbox, descriptor to be passed): the folders that cases read lie below
        ``shared``. file: content and place of what the guest is given. more: of ``Sandbox``."""
        if ground.disk is not None:
            hand_over(ground.disk, view)
        descriptor = handed(file[0])
        box = Sandbox(
            view,
            read_only=(*read_only, *((path, f"{shared}/{name}") for path, name in self.shared)),
            writable=((ground.disk, disk),) if ground.disk is not None else (),
            files=((descriptor, file[1]),),
            **more,
        )
        return box.argv(argv), descriptor

    @property
    def scatter(self) -> int:
        """The seed by which free pages are put at random places; 0: in the kernel's order.

        Else what ran before a case in the same boot decides which pages it gets, and how often its
        buffers meet in a cache's ways: copies of 64 KiB between files were 28 % faster by rep movsb
        when they came first, and 0 % after others. One layout is an accident; a new one for each
        block, the same for all its variants, is a sample (Mytkowicz et al., *Producing Wrong Data
        Without Doing Anything Obviously Wrong!*, ASPLOS 2009)."""
        return self.draw


def boot(request: Boot, listener: Listener = lambda _case: None) -> Outcome:
    """Boot once, let the guest work its job off, and give the record; whatever it does. Raises only
    for what is not the guest's fault (no bwrap, no descriptors, Ctrl-C)."""
    with closing(Events()) as events:
        return run_to_end(start(request, events, listener), events)


def start(boot: Boot, events: Events, listener: Listener = lambda _case: None) -> Session:
    """A guest that begins. ToolError and UsageError for what is not the guest's fault."""
    cpus = boot.placement.guest
    with ExitStack() as opened:
        disk = opened.enter_context(boot.disk()) if boot.disk_bytes else None
        folder = None if boot.sandboxed else opened.enter_context(whole.scratch("boot"))
        ground = Ground(disk, folder)
        dialogue = Dialogue(
            boot.job, boot.places(ground), listener, boot.limit_s, boot.first_word_s, boot.grace_s
        )
        if disk is not None and disk.is_file():
            # Its init has mounted it: from here on a kdyno that is killed leaves nothing behind.
            dialogue.at_first = partial(disk.unlink, missing_ok=True)
        before = boot.look()
        closing = opened.pop_all()
    return Session(
        events,
        dialogue,
        start=partial(boot.command, dialogue.text, ground),
        conclude=partial(_conclude, boot, dialogue, before),
        cpus=cpus,
        closing=closing,
    )


def handed(content: bytes) -> int:
    """A descriptor that the sandbox makes a file of; whoever is started has it to close."""
    memory = os.memfd_create("handed")
    with os.fdopen(os.dup(memory), "wb") as writer:
        writer.write(content)
        writer.seek(0)
    return memory


def _conclude(
    boot: Boot, dialogue: Dialogue, before: facts.Moment, ended: Ended, argv: tuple[str, ...]
) -> Outcome:
    """The record of a boot, from what the guest sent and left on its console."""
    cpus = boot.placement.guest
    after = boot.look()
    content = shortened(dialogue.console)
    text = content.decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n")
    text = _CONTROL.sub("", text)
    transcript = boot.observed(dialogue.reader.finish())
    hello, bye = transcript.hello, transcript.bye
    report = supervisor_report(bytes(dialogue.report))
    if not boot.reports:
        ended, report = replace(ended, status=int(report.get("status", ended.status))), {}
    failure = boot.failure(text, ended, transcript)
    wall_s = boot.booting_s + ended.wall_s
    user_s, sys_s, rss = (
        report[name] * unit if name in report else None
        for name, unit in (("user_us", 1e-6), ("sys_us", 1e-6), ("maxrss_kb", 1024))
    )
    flags = [BootFlag(kind="kernel-warning", text=line) for line in boot.warnings(text)]
    own = boot.cmdline.split()
    unknown = dict.fromkeys(word for word in boot.unknown(text) if word in own)
    flags += [BootFlag(kind="no-effect", text=f"cmdline: {word[:200]}") for word in unknown]
    flags += [BootFlag(kind="guest-channel", text=line) for line in transcript.anomaly_texts]
    if boot.scatter and hello is not None and not hello.scattered:
        flags.append(BootFlag(kind="pages-in-order", text=_PAGES_IN_ORDER))
    inside_s = bye.inside_ns / 1e9 if bye is not None else None
    host_clock_s = guest_clock_s = None
    if boot.keeps_time and dialogue.first_s is not None:
        host_clock_s = dialogue.last_s - dialogue.first_s
    if boot.keeps_time and hello is not None and bye is not None:
        guest_clock_s = max(0, bye.mono_ns - hello.mono_ns) / 1e9
    between = facts.between(before, after, cpus, (user_s or 0.0) + (sys_s or 0.0))
    if user_s is None:  # as of one that was killed: what was its own time is not known
        between.pop("guest_cpus_others_s", None)
    host = BootHost(
        status="ok" if failure is None else "failed",
        reason=failure.reason if failure else "",
        text=failure.text if failure else "",
        console_tail=tail(text) if failure else "",
        wall_s=wall_s,
        boot_overhead_s=max(0.0, wall_s - inside_s) if inside_s is not None else None,
        inside_s=inside_s,
        guest_clock_s=guest_clock_s,
        host_clock_s=host_clock_s,
        user_s=user_s,
        sys_s=sys_s,
        peak_rss_bytes=int(rss) if rss is not None else None,
        before={**before.facts},
        after={**after.facts, **between},
        flags=tuple(flags[:100]),
    )
    return Outcome(host, transcript, content, argv)


def supervisor_report(raw: bytes) -> dict[str, float]:
    """The supervisor's JSON line, as far as it can be believed."""
    try:
        data = values(raw.split(b"\n", 1)[0])
    except ValueError:
        data = None
    return {
        str(key): float(value)
        for key, value in (data.items() if isinstance(data, dict) else ())
        if isinstance(value, int | float) and 0 <= value < 1e15
    }


class Built(Machine):
    """What machines have in common that boot kernels: the images of a run, each with the guest
    program of its word size."""

    overhead_bytes: int
    """What a guest takes beside its memory."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self.clock = Events()
        for variant in setup.images:
            self._program(variant)

    def _image(self, variant: str) -> Image:
        return self._setup.images[variant]

    def _program(self, variant: str) -> Path:
        """Where a variant asks for programs of one word size, of that; else of its kernel's."""
        bits = self._setup.variants[variant].program_bits or self._image(variant).word_bits
        return guest_program(self._setup.cache, bits)

    def _cpus(self, variant: str) -> int:
        """As many as the variant asks for, of a kernel that has more than one."""
        cpus = self._setup.variants[variant].cpus or self._setup.cpus
        return cpus if self._image(variant).smp else 1

    def identity(self, variant: str) -> str:
        image = self._image(variant)
        if image.scheduler is None:
            return image.digest
        both = f"{image.digest} {image.scheduler.digest}"
        return hashlib.sha256(both.encode()).hexdigest()[: len(image.digest)]

    def described(self, variant: str) -> dict[str, Any]:
        image = self._image(variant)
        record = {"digest": image.digest, **image.build}
        if (loaded := image.scheduler) is not None:
            record["scheduler"] = {"name": loaded.name, "digest": loaded.digest}
        return record

    def programs(self, variant: str) -> Programs:
        image = self._image(variant)
        kernel = _symbols(image) if image.installed else image.kernel
        return Programs(kernel, self._program(variant))

    def footprint(self) -> Footprint:
        return Footprint(self._setup.memory_bytes + self.overhead_bytes, facts.available_bytes())
