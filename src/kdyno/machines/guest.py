# SPDX-License-Identifier: MIT
"""A guest as every kind of machine starts it: what it is given, and the record that comes of it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from kdyno import whole
from kdyno.machines import diagnosis, disk, facts
from kdyno.machines.cpus import Placement
from kdyno.machines.diagnosis import Diagnosis
from kdyno.machines.events import Events
from kdyno.machines.listening import FIRST_WORD_S, Listening, listen
from kdyno.machines.pipes import Ended
from kdyno.machines.process import Command, Pipes, ProcessSession
from kdyno.machines.program import GUEST_PLACES
from kdyno.machines.session import Listener, Outcome
from kdyno.reading.checked import values
from kdyno.store.boot import BootFlag, BootHost
from kdyno.suites.job import Job
from kdyno.suites.protocol import Transcript


@dataclass(frozen=True, kw_only=True)
class Boot:
    """One boot to be done, as far as all kinds of machines have it in common."""

    program: Path
    job: Job
    placement: Placement
    sandboxed: bool = True
    limit_s: float | None = None
    """None follows from the cases."""
    shared: tuple[tuple[Path, str], ...] = ()
    """(folder of the host, name): what cases may read, as {tree}, {programs} and {prepared}."""
    disk_bytes: int = 0
    """Room that the cases want in {disk}; 0: they want none."""
    disk_parent: Path = Path("/var/tmp")
    """Where on the host that is."""
    scatter: int = 0
    """The seed by which free pages are put at drawn places; 0: they stay in the kernel's order.

    Which pages a case gets follows else from what ran before it in the same boot, and where its
    buffers and files lie to each other decides how often they meet in a cache's ways. Copies of
    64 KiB between files were 28 % faster by rep movsb when they came first, and 0 % after others,
    each time within 2 %. One layout is an accident; a new one for each block, the same for all its
    variants, is a sample, as link orders and stack addresses have to be (Mytkowicz et al.,
    *Producing Wrong Data Without Doing Anything Obviously Wrong!*, ASPLOS 2009).
    """


@dataclass(frozen=True)
class Ground:
    """What a boot has on the host as long as it lasts."""

    disk: Path | None
    folder: Path | None
    """For its files, where there is no sandbox to put them into."""


@dataclass(frozen=True)
class Kind:
    """Where kinds of machines differ in how a guest is begun and ended."""

    places: Callable[[Ground], Mapping[str, str]] = lambda _ground: GUEST_PLACES
    disk: Callable[[Path, int], AbstractContextManager[Path]] = disk.image
    first_word_s: float = FIRST_WORD_S
    failure: Callable[[str, Ended, Transcript, bool], Diagnosis | None] = diagnosis.of_boot
    """(console, end, what it said, sandboxed) → why the boot failed."""
    warnings: Callable[[str], list[str]] = diagnosis.warnings
    """console → what its kernel complained of."""
    said: Callable[[Transcript], Transcript] = lambda said: said
    """What it said → the same with what its machine saw of it."""
    clock: bool = True
    """The guest's clock goes as the host's does, and can be held against it."""


KERNEL = Kind()
_IN_ORDER = "free pages could not be put at drawn places: where a case's pages lie is an accident"


def start(
    request: Boot,
    events: Events,
    listener: Listener,
    command: Callable[[bytes, Ground, Pipes], Command],
    kind: Kind = KERNEL,
) -> ProcessSession:
    """A guest that begins. ``command``: how, given the job's text.

    ToolError and UsageError for what is not the guest's fault.
    """
    cpus = request.placement.guest
    with ExitStack() as opened:
        made = folder = None
        if request.disk_bytes:
            made = opened.enter_context(kind.disk(request.disk_parent, request.disk_bytes))
        if not request.sandboxed:
            folder = opened.enter_context(whole.scratch("boot"))
        ground = Ground(made, folder)
        guest, text = listen(
            request.job, kind.places(ground), request.limit_s, listener, kind.first_word_s
        )
        if made is not None and made.is_file():
            # Its init has mounted it: from here on a kdyno that is killed leaves nothing behind.
            guest.greeted = partial(made.unlink, missing_ok=True)
        before = facts.look(cpus)
        closing = opened.pop_all()
    return ProcessSession(
        events,
        guest,
        start=partial(command, text, ground),
        conclude=partial(_conclude, request, kind, guest, before),
        cpus=cpus,
        closing=closing,
    )


def supervised(request: Boot, program: str, pipes: Pipes) -> list[str]:
    """The guest program over what follows: it sees to its end, and reports what it took."""
    alone = ("--alone", "yes") if request.sandboxed else ()
    return [program, "supervise", "--report-fd", str(pipes.report), *alone]


def scatter_words(request: Boot) -> list[str]:
    """For the kernel's command line, where init reads it."""
    return [f"kdyno.scatter={request.scatter}"] if request.scatter else []


def handed(content: bytes) -> int:
    """A descriptor that the sandbox makes a file of; whoever is started has it to close."""
    made = os.memfd_create("handed")
    with os.fdopen(os.dup(made), "wb") as writer:
        writer.write(content)
    os.lseek(made, 0, os.SEEK_SET)
    return made


def link_shared(request: Boot, folder: Path) -> Path:
    """What is shared, by its names, where no sandbox puts it into place."""
    shared = folder / "shared"
    shared.mkdir()
    for path, name in request.shared:
        (shared / name).symlink_to(path)
    return shared


def _conclude(
    request: Boot,
    kind: Kind,
    guest: Listening,
    before: facts.Moment,
    ended: Ended,
    argv: tuple[str, ...],
) -> Outcome:
    """What came of it, by what it said and left on its console."""
    cpus = request.placement.guest
    after = facts.look(cpus)
    console = guest.console.content()
    said = kind.said(guest.reader.finish())
    text = diagnosis.readable(console)
    failed = kind.failure(text, ended, said, request.sandboxed)
    report = supervisor_report(bytes(guest.report))
    cpu_s = (report.get("user_us", 0.0) + report.get("sys_us", 0.0)) / 1e6
    flags = [BootFlag(kind="kernel-warning", text=line) for line in kind.warnings(text)]
    flags += [BootFlag(kind="guest-channel", text=line) for line in said.anomaly_texts]
    if request.scatter and said.hello is not None and not said.hello.scattered:
        flags.append(BootFlag(kind="pages-in-order", text=_IN_ORDER))
    inside_s = said.bye.inside_ns / 1e9 if said.bye is not None else None
    host_clock_s = guest_clock_s = None
    if kind.clock and guest.first_s is not None and guest.last_s is not None:
        host_clock_s = guest.last_s - guest.first_s
    if kind.clock and said.hello is not None and said.bye is not None:
        guest_clock_s = max(0, said.bye.mono_ns - said.hello.mono_ns) / 1e9
    host = BootHost(
        status="ok" if failed is None else "failed",
        reason=failed.reason if failed else "",
        text=failed.text if failed else "",
        console_tail=diagnosis.tail(text) if failed else "",
        wall_s=ended.wall_s,
        boot_overhead_s=max(0.0, ended.wall_s - inside_s) if inside_s is not None else None,
        inside_s=inside_s,
        guest_clock_s=guest_clock_s,
        host_clock_s=host_clock_s,
        user_s=report["user_us"] / 1e6 if "user_us" in report else None,
        sys_s=report["sys_us"] / 1e6 if "sys_us" in report else None,
        peak_rss_bytes=int(report["maxrss_kb"] * 1024) if "maxrss_kb" in report else None,
        before={**before.facts},
        after={**after.facts, **facts.between(before, after, cpus, cpu_s)},
        flags=tuple(flags[:100]),
    )
    return Outcome(host, said, console, argv)


def supervisor_report(raw: bytes) -> dict[str, float]:
    """The supervisor's JSON line, as far as it can be believed."""
    try:
        data = values(raw.split(b"\n", 1)[0] or b"{}")
    except ValueError:
        return {}
    if not isinstance(data, dict):
        return {}
    return {
        str(key): float(value)
        for key, value in data.items()
        if isinstance(value, int | float) and 0 <= value < 1e15
    }
