# SPDX-License-Identifier: MIT
"""A machine of the person's own, reached by ssh, that boots the kernels under test by kexec.

Nothing is written to /boot or the boot loader, so that any reset ends in the box's own kernel:
after a panic, a watchdog's time, or by itself where nobody can reach it (``prepare_return`` of
box.sh). All that kdyno has there, the end of a run takes away, and else the beginning of the next.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import shlex
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import ClassVar

from kdyno.command import capture
from kdyno.errors import ToolError
from kdyno.kernels.image import KEXEC, Image, release_of
from kdyno.machines import facts
from kdyno.machines.examination import (
    ROOM,
    STATE,
    State,
    call,
    connect,
    cpus_of,
    fields_of,
    kept,
    lacks,
    lock,
    number_of,
    refuse,
    state_of,
)
from kdyno.machines.guest import (
    Boot,
    Built,
    Diagnosis,
    Ground,
    guest_program,
    handed,
    sign,
    start,
    tail,
)
from kdyno.machines.host import HOST_PLACES, diagnosis_of_job
from kdyno.machines.machine import Can, Method, Plan, Setup, only_times
from kdyno.machines.process import (
    ENVIRONMENT,
    Command,
    Ended,
    Listener,
    Pipes,
    Session,
    printable_words,
)
from kdyno.machines.ssh import NOT_REACHED, Answer, Remote
from kdyno.sandbox import BECOMING, EMPTY, FILTER, HOST, NAMESPACES, SYSTEM, as_user, socket_filter
from kdyno.store.comparable import common_facts
from kdyno.store.verdict import Flag
from kdyno.suites.protocol import Transcript

NAME = "box"
CAN = Can(
    turns="a box runs one kernel at a time, and a turn would be a boot",
    profile="a profile is made of a kernel that is a process of this machine; "
    "`perf record -a` on the box shows its kernel",
    change="kernels for a purpose are run where a failed one costs nothing; "
    '[machine] kind = "qemu" does',
    scatter="its memory is managed by a whole system that runs on it",
    count='it runs on the box\'s CPU, where nobody counts exactly; [machine] kind = "qemu" does',
)
_WATCHDOG_S, _KEXEC_WATCHDOG_S = 60, 180
"""Of a kernel under test; from a kexec until its first process has the watchdog."""
ANSWER_S, DOWN_S = 45.0, 200.0
"""For a box that should be there; for one that was sent away, to stop its services and go."""
POLL_S = 0.5
_SPARE_BYTES = 256 << 20
"""What stays free on its disk."""
_INITRAMFS_S = 900.0
_SETTLE_S = 240.0
"""Half of it for services that still start."""
_GRACE_S = 150.0
"""Beyond a case's own limit: what a network may be away for, and what kdyno waits for it."""
_RENEWED_S = 3600.0
"""How long a box stays this run's without a word of it, whatever is waited for or copied."""
_TAKEN = 3
"""Status of what is requested of a box that another kdyno has by now."""
_SETTLED = re.compile(r"cpus|unknown|quiet_(?:smt|governor|turbo|boost|timers|irqbalance)")
"""What box.sh says when a box is ready."""
_HEAD = re.compile(r"^\w+#\d+ Part\d+$", re.M)
_LOAD_AVERAGE = re.compile(r"(\d{1,6}\.\d\d) \S+ \S+ (\d{1,9})/")
_LEFT_OUT = re.compile(
    r"(BOOT_IMAGE|initrd|kdyno\.\w+|panic|oops|softlockup_panic|nmi_watchdog|systemd\.watchdog_sec"
    r"|watchdog\.stop_on_reboot)=.*"
)
"""Words of the box's own command line that are its boot loader's, or of which kdyno has its own."""
_RECOVERY = "panic=10 oops=panic softlockup_panic=1 nmi_watchdog=panic"
_ARMED = f"systemd.watchdog_sec={_WATCHDOG_S} watchdog.stop_on_reboot=0"

_LOOK = "cat /proc/loadavg"
# The kernel may take a number and set another.
_SYSCTL = """while [ $# -gt 1 ]; do
    printf %s "$2" >"/proc/sys/$1" || exit 1
    is=$(cat "/proc/sys/$1" 2>/dev/null) || is=$2
    case $2,$is in
    *[!0-9,]* | "$2,$2") ;;
    *) echo "$1 = $2: it is $is" >&2 && exit 1 ;;
    esac
    shift 2
done"""
# Where the first process is dead, or a service does not stop.
_FORCE = "sync; systemctl --force --force reboot || echo b >/proc/sysrq-trigger"


@dataclass(frozen=True, kw_only=True)
class BoxJob(Boot):
    """The job of one boot, in the kernel under test that answers."""

    reports: ClassVar[bool] = False
    first_word_s: ClassVar[float] = 90.0
    grace_s: ClassVar[float] = _GRACE_S
    remote: Remote
    script: str
    """Runs the guest program there: the job comes by stdin, records go to stdout."""
    after: Callable[[Diagnosis, bool], Diagnosis]
    """What became of the box, of a job without an end: (cause, whether ssh was cut off)."""
    settings: facts.Facts
    not_known: str = ""
    """What the kernel's log says of its command line's words."""
    failed: Diagnosis | None = None
    """Why the kernel under test did not even come up."""

    @property
    def keeps_time(self) -> bool:
        """A network lies between the two clocks."""
        return False

    def places(self, ground: Ground) -> Mapping[str, str]:
        return HOST_PLACES

    def look(self) -> facts.Moment:
        if self.failed:
            return facts.Moment({}, {})
        load = _LOAD_AVERAGE.match(self.remote.ask(_LOOK, limit_s=10).text)
        seen = {"runnable_tasks": float(load[2]), "load_1min": float(load[1])} if load else {}
        return facts.Moment({}, {**seen, **self.settings})

    def command(self, job: bytes, ground: Ground, pipes: Pipes) -> Command:
        if self.failed:
            return Command(("false",), (), ENVIRONMENT)
        descriptor = handed(job)
        argv = [
            *(str(self.program), "supervise", "--report-fd", str(pipes.report)),
            *("--stdin", str(descriptor), "--stdout", str(pipes.results)),
            *("--", *self.remote.argv(self.script, master=False)),
        ]
        return Command(tuple(argv), (descriptor,), self.remote.environment)

    def warnings(self, console: str) -> list[str]:
        return []

    def unknown(self, console: str) -> list[str]:
        return self.not_known.split()

    def failure(self, console: str, ended: Ended, transcript: Transcript) -> Diagnosis | None:
        if self.failed:
            return self.failed
        cause = diagnosis_of_job(console, ended, transcript, self.sandboxed)
        refused = cause is not None and cause.reason in ("flood", "job-refused")
        cut = ended.status == NOT_REACHED and not ended.stopped
        return cause if cause is None or refused else self.after(cause, cut)


def check(method: Method) -> None:
    only_times(NAME, CAN, method)


class Box(Built):
    can = CAN
    overhead_bytes = 0
    places = HOST_PLACES

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self._settings, self._host = setup.box, setup.hosts[0]
        self._remote = Remote(self._host)
        self._lock = ExitStack()
        """Of this run among those on this machine, and the connection."""
        self._owner = ""
        """The run's name on the box, among those of all machines."""
        self._facts: dict[str, str] = {}
        self._own: State | None = None
        """The box in its own kernel, as kdyno came to it."""
        self._copies: dict[Path, str] = {}
        """Of what cases read: where it is there."""
        self._changed = False
        """Something of ours is there."""
        self._boots = 0
        self._fresh = True
        """The present boot came by the firmware and one kexec."""
        self._own_first = False
        """The next boot begins in the box's own kernel, since nothing is known of the last one."""
        self._ordered_s = 0.0
        """When the last kexec or reboot was ordered."""
        self._sent: tuple[str, State] | None = None
        """The order, and the boot that got it, until another one answers or is given up."""
        self._notice: Callable[[str], None] = lambda _text: None

    # Before the first boot.

    def probe(self, notice: Callable[[str], None]) -> None:
        self._notice = notice
        self._lock.enter_context(lock(self._setup.cache, self._host))
        self._lock.enter_context(self._remote)
        self._facts = connect(self._remote)
        cpus = max(map(self._cpus, self._setup.variants))
        counters = self._setup.method.counted
        lacking = partial(lacks, settings=self._settings, cpus=cpus, counters=counters)
        state = self._answer(ANSWER_S)
        if state is None or state.own:
            refuse(self._host, lacking(self._facts))
        # Whoever has the lock knows that an earlier run with the same lock is dead.
        file = kept(self._setup.cache, self._host, ".lock").resolve()
        place = hashlib.sha256(str(file).encode()).hexdigest()[:8]
        controller = f"{facts.machine().get('machine_id', 'unknown')}-{place} {self._host}"
        self._owner = f"{controller} {secrets.token_hex(8)}"
        self._remote.must("it cannot be taken", call("own"), self._owner, controller)
        self._changed = True
        if state is not None and not state.own:
            notice(f"{self._host}: it is in a kernel of an earlier run, and goes back to its own")
            state = self._reset("reboot", state)
            if state is not None and state.own:
                self._facts = connect(self._remote)
                refuse(self._host, lacking(self._facts))
        if state is None or not state.own:
            raise ToolError(f"box {self._host!r} is not in a kernel of its own")
        self._own = state
        self._remote.must("what an earlier run left cannot be taken away", call("undo"), "keep")
        self._install(notice)

    def _ours(self, answer: Answer) -> Answer:
        """ToolError where another kdyno has the box by now: then nothing there is ours."""
        if answer.status == _TAKEN:
            self._changed = False
            raise ToolError(f"box {self._host!r}: {answer.last}")
        return answer

    def _renew(self) -> None:
        self._ours(self._remote.ask(call("renew"), self._owner, str(int(_RENEWED_S))))

    def _install(self, notice: Callable[[str], None]) -> None:
        """The guest program, what brings the box back, and each image with its initramfs."""
        must, room = self._remote.must, ROOM
        generator = self._facts.get("generator", "")
        for name, image in self._setup.images.items():
            if not image.modular:
                self._refuse_named_root(name)
            elif not generator:
                raise ToolError(
                    f"box {self._host!r}: {name} has modules and needs an initramfs, and the box "
                    "has neither mkinitramfs nor dracut"
                )
        program = guest_program(self._setup.cache, 64)
        until_s = str(int(self._settings.boot_timeout_s))
        armed = str(_KEXEC_WATCHDOG_S) if self._armed else ""
        must("it cannot be written to", call("prepare_return"), until_s, armed)
        for file, name in ((program, "guest"), (socket_filter(), "filter")):
            self._remote.put(file, f"{room}/{name}")
        images = {image.digest: (name, image) for name, image in self._setup.images.items()}
        listed = must("it cannot be read", f"cd {room}/images && ls -d */ready || true")
        ready = {line.split("/")[0] for line in listed.splitlines()}
        sizes = {
            name: sum(file.stat().st_size for file in _files(image))
            for digest, (name, image) in images.items()
            if digest not in ready
        }
        # The copies, and as much again for the initramfs that is made of each.
        needed_bytes = 2 * sum(sizes.values()) + _SPARE_BYTES
        free_bytes = number_of(self._facts.get("free_kb", "")) << 10
        if sizes and free_bytes < needed_bytes:
            raise ToolError(
                f"box {self._host!r}: {free_bytes >> 20} MB are free in /var/lib, and "
                f"{needed_bytes >> 20} are needed for {', '.join(sizes)}"
            )
        for digest, (name, image) in images.items():
            self._renew()
            if name in sizes:
                notice(f"{self._host}: copying {name}, {sizes[name] >> 20} MB")
                place = f"{room}/images/{digest}"
                if image.has(KEXEC):
                    packed = image.folder / KEXEC.name
                    self._remote.unpack(packed, release_of(image), place)
                else:
                    must("it cannot be written to", 'mkdir -p "$1"', place)
                    self._remote.put(image.vmlinuz, f"{place}/vmlinuz")
                    if image.modules.is_dir():
                        self._remote.put(image.modules, f"{place}/modules")
                        self._remote.put(image.config, f"{place}/config")
            if image.modular and name in sizes:
                notice(f"{self._host}: {generator} for {name}")
            release = release_of(image)
            self._renew()
            must(f"{name}: its modules", call("modules"), release, digest)
            what = f"{name}: no initramfs"
            must(what, call("initramfs"), release, digest, generator, limit_s=_INITRAMFS_S)

    def _refuse_named_root(self, name: str) -> None:
        # Of several the kernel takes the last.
        words = self._cmdline(name, "").split()
        root = next((word for word in reversed(words) if word.startswith("root=")), "")
        if root.startswith(("root=UUID=", "root=LABEL=", "root=/dev/mapper/", "root=/dev/disk/")):
            raise ToolError(
                f"{name} has no modules and so no initramfs, and {root} is nothing that a kernel "
                "finds by itself: root=/dev/… or root=PARTUUID=… in cmdline would be"
            )

    def host_facts(self) -> facts.Facts:
        own, fields = self._own, self._facts
        named = ("cpu_model", "cpu_microcode", "governor", "turbo", "smt", "pstore")
        values: facts.Facts = {name: fields[name] for name in named if fields.get(name)}
        return {
            **values,
            **facts.identity(fields.get("machine_id", "")),
            "host_kernel": own.release if own else "",
            "host_arch": fields.get("arch", ""),
            "cpus": float(len(cpus_of(fields.get("cpus", "")))),
            "memory_bytes": number_of(fields.get("memory_kb", "")) * 1024.0,
            "box": self._host,
        }

    def caveats(self) -> tuple[Flag, ...]:
        every = self._settings.firmware_every
        firmware = f"every {every}. boot through the firmware" if every else "by kexec throughout"
        text = f"measured on {self._host} ({self._facts.get('cpu_model') or 'a CPU'}), {firmware}"
        flags = [Flag(kind="box", text=f"{text}; cases ran in bubblewrap")]
        if not self._armed or self._facts.get("watchdog_builtin"):
            # From a kernel under test it goes on, by a word of its command line.
            when = ", after a kexec from the box's own, until systemd ran" if self._armed else ""
            who = "[box] power" if self._settings.power else "somebody"
            text = f"no watchdog{when}: a kernel that hung would have needed {who} to reset the box"
            flags.append(Flag(kind="no-watchdog", text=text))
        return tuple(flags)

    @property
    def _armed(self) -> bool:
        return bool(self._settings.watchdog and self._facts.get("watchdog"))

    # A boot.

    def open(self, plan: Plan, listener: Listener = lambda _case: None) -> Session:
        began_s = time.monotonic()
        setup, image = self._setup, self._image(plan.variant)
        for path, name in plan.shared:
            if path not in self._copies:
                self._notice(f"{self._host}: copying what cases read ({name})")
                self._renew()
                self._copies[path] = f"{ROOM}/shared/{len(self._copies)}"
                self._remote.put(path.resolve(), self._copies[path])
        booted = self._boot(plan.variant, image)
        settled = booted if isinstance(booted, Diagnosis) else self._settle(plan, booted)
        failed = settled if isinstance(settled, Diagnosis) else None
        settings, cpus = ({}, []) if isinstance(settled, Diagnosis) else settled
        if failed is None:
            settings["boot"] = "firmware" if self._fresh else "kexec"
            settings["before_kexec_s"] = round(self._ordered_s - began_s, 2)
        words = setup.variants[plan.variant].words
        request = BoxJob(
            # Its disk is a folder there: no image is made here.
            **vars(plan) | {"job": replace(plan.job, sysctl=()), "disk_bytes": 0, "cmdline": words},
            program=guest_program(setup.cache, 64),
            placement=setup.placement,
            limit_s=setup.timeout_s,
            remote=self._remote,
            script=self._job_script(plan, cpus),
            after=partial(self._aftermath, booted),
            not_known=str(settings.pop("unknown", "")),
            settings=settings,
            booting_s=time.monotonic() - began_s,
            failed=failed,
        )
        return start(request, self.clock, listener)

    def _settle(self, plan: Plan, booted: State) -> tuple[facts.Facts, list[int]] | Diagnosis:
        """What the job needs of the kernel that answers: (what was set there, the job's CPUs)."""
        refused = partial(Diagnosis, "job-refused")
        ask, quiet = self._remote.ask, "quiet" if self._settings.quiet else ""
        limit_s = sum(case.timeout_s + _GRACE_S for case in plan.job.cases) + 600
        words = (self._owner, str(int(limit_s)), quiet)
        if (answer := self._ours(ask(call("settle"), *words, limit_s=_SETTLE_S))).status:
            cause = refused(f"the box is not ready for it: {answer.last}")
            return cause if answer.reached else self._aftermath(booted, cause, True)
        fields = {
            key: own for key, own in fields_of(answer.text).items() if _SETTLED.fullmatch(key)
        }
        online, wanted = cpus_of(fields.pop("cpus", "")), self._cpus(plan.variant)
        if len(online) < wanted:
            why = "; [box] quiet = true switched SMT off" if "quiet_smt" in fields else ""
            return refused(f"cpus = {wanted}, and {len(online)} are online{why}")
        cpus, others = online[-wanted:], online[:-wanted]
        if quiet and others:
            moved = ask(call("away"), ",".join(map(str, others)))
            if moved.status == 0:
                count = number_of(moved.text.strip())
                fields["quiet_interrupts"] = f"{count} moved off the measured CPUs"
        if plan.job.counters or plan.job.metric:
            ask(_SYSCTL, "kernel/perf_event_paranoid", "1")
        sysctls = [w for name, value in plan.job.sysctl for w in (name.replace(".", "/"), value)]
        if sysctls and (answer := ask(_SYSCTL, *sysctls)).status:
            return refused(f"sysctl: {answer.last}")
        if plan.disk_bytes:
            size_kb = (plan.disk_bytes + _SPARE_BYTES) >> 10
            if (answer := ask(call("empty_folder"), str(size_kb), str(HOST.uid))).status:
                return refused(f"{{disk}}: {answer.last}")
        return {**fields, "box_cpus": ",".join(map(str, cpus))}, cpus

    def _boot(self, variant: str, image: Image) -> State | Diagnosis:
        """The variant's kernel in place of the one that runs; why it is not there."""
        every = self._settings.firmware_every
        if (before := self._answer(ANSWER_S) or self._returned()) is None:
            raise ToolError(
                f"box {self._host!r} does not answer any more. When it is back, "
                "`kdyno run --resume` goes on"
            )
        self._renew()
        self._fresh = before.own
        leaves = not before.own and (self._own_first or (every and self._boots % every == 0))
        if leaves:
            before = self._own_kernel(before)
        self._boots += 1
        entered = self._enter(variant, image, before)
        refused = isinstance(entered, Diagnosis) and entered.reason == "kexec-refused"
        if refused and not leaves:
            # A kernel under test may refuse, or the box's own until it is booted anew.
            return self._enter(variant, image, self._own_kernel(before))
        return entered

    def _own_kernel(self, before: State) -> State:
        """The box's own kernel, booted anew through the firmware. ToolError."""
        state = self._reset("reboot", before)
        if state is None or not state.own:
            raise ToolError(f"box {self._host!r} did not come back into its own kernel")
        self._fresh = True
        return state

    def _enter(self, variant: str, image: Image, before: State) -> State | Diagnosis:
        """One kexec, and which kernel answers after it."""
        self._own_first = True  # until it is known to be well
        token = secrets.token_hex(8)
        cmdline = self._cmdline(variant, token)
        release = release_of(image)
        answer = self._remote.ask(call("modules"), release, image.digest)
        if answer.status == 0:
            words = (image.digest, cmdline, "armed" if self._armed else "", self._owner)
            answer = self._ours(self._remote.ask(call("load"), *words))
        if answer.status != 0:
            return Diagnosis("kexec-refused", answer.last or f"status {answer.status}")
        if (after := self._reset("kexec", before)) is None:
            return self._lost()
        if after.boot_id == before.boot_id:
            return Diagnosis("kexec-refused", f"it is still in {after.release}: kexec did nothing")
        if f"kdyno.boot={token}" not in after.words:
            return self._last_words("before it could be reached")
        if not re.match(re.escape(release) + r"(?!\d)", after.release):
            return Diagnosis("wrong-kernel", f"{after.release} answers in place of {release}")
        self._own_first = False
        return after

    def _cmdline(self, variant: str, token: str) -> str:
        own = self._own.words if self._own else ()
        words = [word for word in own if not _LEFT_OUT.fullmatch(word)]
        words += printable_words(self._setup.variants[variant].words)
        words += [*_RECOVERY.split(), *(_ARMED.split() if self._armed else [])]
        return " ".join((*words, f"kdyno.boot={token}"))

    def _job_script(self, plan: Plan, cpus: list[int]) -> str:
        """Records by a descriptor of their own, so that nothing that a program prints is one."""
        pinned = ["taskset", "-c", ",".join(map(str, cpus)) or "0"]
        settings = {**ENVIRONMENT, "LC_ALL": "C.UTF-8", "TERM": "dumb", "HOME": "/tmp"}
        clean = ["env", "-i", *(f"{name}={value}" for name, value in settings.items())]
        copies, shared = self._copies, HOST_PLACES["disk"].rpartition("/")[0]
        binds = [("--ro-bind", copies[path], f"{shared}/{name}") for path, name in plan.shared]
        binds += [("--bind", f"{ROOM}/disk", HOST_PLACES["disk"])] if plan.disk_bytes else []
        # While there are still the rights to raise a limit.
        argv = ["prlimit", f"--nproc={HOST.processes}", "--core=0", "--", *pinned, "bwrap"]
        argv += [*NAMESPACES, "--seccomp", str(FILTER), *BECOMING]
        for name in SYSTEM:
            argv += ["--ro-bind-try", f"/{name}", f"/{name}"]
        for name in EMPTY:
            argv += ["--dir", f"/{name}"]
        argv += ["--dev", "/dev", "--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys"]
        argv += ["--ro-bind", "/sys/devices/system", "/sys/devices/system"]
        for folder in ("/dev/shm", "/tmp"):
            argv += ["--perms", "0777", "--tmpfs", folder]
        argv += ["--dir", shared]
        argv += [word for bind in binds for word in bind]
        argv += ["--ro-bind", f"{ROOM}/guest", "/tmp/kdyno-guest", "--chdir", "/tmp"]
        # A file that another user may read, who is to be the case's.
        argv += ["--perms", "0644", "--file", "0", "/tmp/kdyno.job", "--remount-ro", "/", "--"]
        argv += [*as_user(HOST.uid), *clean]
        argv += ["/tmp/kdyno-guest", "job", "/tmp/kdyno.job", "--fd", "3"]
        return f"exec 3>&1 1>&2 {FILTER}<{ROOM}/filter; exec {shlex.join(argv)}"

    # What became of it.

    def _answer(self, limit_s: float, attempt_s: float = 5.0) -> State | None:
        """Which boot answers, as soon as one does. attempt_s: before ssh is begun anew."""
        until_s = time.monotonic() + limit_s
        while True:
            answer = self._remote.ask(STATE, limit_s=max(attempt_s, limit_s))
            if answer.reached:
                return state_of(answer.text)
            self._remote.hang_up()
            if time.monotonic() >= until_s:
                return None
            time.sleep(POLL_S)

    def _reset(self, verb: str, before: State) -> State | None:
        """Send it through ``systemctl verb``; as ``_arrived``."""
        self._ordered_s, self._sent = time.monotonic(), (verb, before)
        self._remote.ask(call("go"), verb)
        self._remote.hang_up()
        return self._arrived(verb, before)

    def _arrived(self, verb: str, before: State) -> State | None:
        """The boot that answers next, or the same one where nothing happened; None where nobody
        answers."""
        began_s, forced = time.monotonic(), verb != "reboot"
        while True:
            time.sleep(POLL_S)
            # A connection that begins before its network hangs until it is begun anew. The longer a
            # box takes to boot, the slower it may answer.
            spent_s = time.monotonic() - began_s
            state = self._answer(0, min(1.0 + spent_s / 12, 20.0))
            spent_s = time.monotonic() - began_s
            if state is not None and state.boot_id != before.boot_id:
                break
            if state is not None and spent_s > DOWN_S:
                if forced:
                    break
                self._remote.ask(_FORCE)
                self._remote.hang_up()
                began_s, forced = time.monotonic(), True
            if spent_s > DOWN_S + self._settings.boot_timeout_s:
                state = self._returned()
                break
        self._sent = None
        return state

    def _returned(self) -> State | None:
        """It does not answer: it has a watchdog's time to come back, and then power is cut."""
        limit_s = self._settings.boot_timeout_s
        state = self._answer(_KEXEC_WATCHDOG_S + limit_s)
        if state is None and self._settings.power:
            self._notice(f"{self._host}: no answer; {self._settings.power}")
            done = capture(["sh", "-c", self._settings.power], limit_s=120)
            if done.status != 0:
                self._notice(f"[box] power: status {done.status}: {tail(done.output, 1)}")
            state = self._answer(limit_s)
        return state

    def _lost(self) -> Diagnosis:
        return Diagnosis("box-lost", f"{self._host} does not answer any more")

    def _aftermath(self, booted: State | Diagnosis, cause: Diagnosis, cut: bool) -> Diagnosis:
        """Of a job without an end: the kernel's own death, the connection's, or the job's alone.
        cut: ssh ended before its command did."""
        self._own_first = True
        if (state := self._answer(ANSWER_S) or self._returned()) is None:
            return self._lost()
        if isinstance(booted, State) and state.boot_id == booted.boot_id:
            text = f"ssh ended in the job, the box went on: {cause.text}"
            return Diagnosis("connection", text) if cut else cause
        return self._last_words("in the job")

    def _last_words(self, where: str) -> Diagnosis:
        """Why the box is in its own kernel again, by what it kept of the other."""
        answer = self._remote.ask(call("last_words"))
        text = answer.text
        lines = text.splitlines()
        # The head of a part of a record says that there was an oops, and not which.
        if cause := sign(_HEAD.sub("", text)) or sign(text):
            return Diagnosis(cause.reason, f"{cause.text} ({where})")
        if any(line.startswith("returned ") for line in lines):
            text = "the kernel ran, and nobody could reach it; it went back by itself"
            return Diagnosis("no-network", text)
        if "watchdog" in lines:
            return Diagnosis("hang", f"the watchdog reset the box ({where})")
        pstore = any(re.fullmatch(r"pstore \w+", line) for line in lines)
        kept = "nothing in pstore" if pstore else "its firmware keeps no last words (no pstore)"
        if not answer.reached:
            kept = f"its last words cannot be read ({answer.last or 'no answer'})"
        text = f"the box was reset {where}, {kept}: a panic, a hang, or somebody"
        return Diagnosis("reset", text)

    def close(self) -> None:
        """Into its own kernel, with nothing of ours left. ToolError where that did not succeed."""
        super().close()
        try:
            if not self._changed:
                return
            if self._sent is None:
                state = self._answer(ANSWER_S)
            else:
                self._notice(
                    f"{self._host}: waiting for it to boot, to take it back into its own kernel. "
                    "Ctrl-C leaves it as it is"
                )
                state = self._arrived(*self._sent)
            if state is not None:
                self._renew()
            if state is not None and not state.own:
                self._notice(f"{self._host}: back into its own kernel")
                state = self._reset("reboot", state)
            if state is None or not state.own:
                self._notice(
                    f"{self._host} could not be put back into its own kernel now; a reset does, "
                    "and the next run on it takes away what is left"
                )
                return
            self._remote.must("not all of kdyno's could be taken away", call("undo"), "")
            self._changed = False
        finally:
            self._lock.close()


def _files(image: Image) -> list[Path]:
    """What a box gets of it."""
    if image.has(KEXEC):
        return [image.folder / KEXEC.name]
    modules = (file for file in image.modules.rglob("*") if not file.is_symlink())
    return [image.vmlinuz, *(file for file in modules if file.is_file())]


class Boxes:
    """Two boxes or more for one run, which all have every image: each block of boots lies on one of
    them, and they take the blocks in turns. So a slow box biases nothing, and whether all have the
    same effect is tested: each of them is a stratum of the verdict, as the nodes of a cluster are.
    """

    can = CAN
    emulator = ""
    places = HOST_PLACES

    def __init__(self, setup: Setup) -> None:
        self._boxes = {host: Box(replace(setup, hosts=(host,))) for host in setup.hosts}
        own = self._boxes[setup.hosts[0]]
        self.clock = own.clock
        # The same on all of them.
        self.identity, self.described = own.identity, own.described
        self.programs, self.footprint = own.programs, own.footprint
        for box in list(self._boxes.values())[1:]:
            box.clock.close()
            box.clock = self.clock

    def probe(self, notice: Callable[[str], None]) -> None:
        for box in self._boxes.values():
            box.probe(notice)
        identities = [box.host_facts().get("machine_id", host) for host, box in self._boxes.items()]
        if len(set(identities)) < len(identities):
            raise ToolError(f"{' and '.join(self._boxes)} are names of one and the same box")

    def several(self) -> Mapping[str, facts.Facts]:
        every = ((host, box.host_facts()) for host, box in self._boxes.items())
        named = ((f"{own.get('cpu_model') or 'unknown CPU'} {host}", own) for host, own in every)
        return {name[-200:]: own for name, own in named}  # as long as BootJob.machine may be

    def host_facts(self) -> facts.Facts:
        common = common_facts([dict(own) for own in self.several().values()])
        return {name: value for name, value in common.items() if isinstance(value, float | str)}

    def caveats(self) -> tuple[Flag, ...]:
        every = (caveat for box in self._boxes.values() for caveat in box.caveats())
        return tuple(dict.fromkeys(every))

    def open(self, plan: Plan, listener: Listener = lambda _case: None) -> Session:
        return tuple(self._boxes.values())[plan.block % len(self._boxes)].open(plan, listener)

    def close(self) -> None:
        """All of them, whatever becomes of one."""
        with ExitStack() as every:
            for box in self._boxes.values():
                every.callback(box.close)
