# SPDX-License-Identifier: MIT
"""QEMU as a machine, without a kernel: command lines, first files, refusals, its monitor; which
memcpy a native kernel has, chosen by the features that it sees."""

from __future__ import annotations

import hashlib
import json
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import pytest

from kdyno import sandbox
from kdyno.command import Finished
from kdyno.errors import ToolError, UsageError
from kdyno.experiment.loader import parse
from kdyno.experiment.model import Variant
from kdyno.kernels import cpu
from kdyno.kernels.image import Image
from kdyno.kernels.recipe import recipe_of
from kdyno.kernels.routines.routine import of_variant
from kdyno.kernels.source import Tree
from kdyno.machines import emulator, guest, process, qemu
from kdyno.machines.cpus import Placement, place
from kdyno.machines.emulator import Emulator, Way
from kdyno.machines.guest import Ground
from kdyno.machines.kinds import KINDS
from kdyno.machines.machine import Method, Plan, Setup
from kdyno.machines.process import Ended, Events, Monitor, NoAnswer, Outcome, Pipes, Session
from kdyno.machines.qemu import Chance, Places, Qemu, QemuBoot, archive
from kdyno.measure.vocabulary import vocabulary
from kdyno.sandbox import system
from kdyno.store.boot import BootHost
from kdyno.suites.catalogue import load
from kdyno.suites.job import CaseJob, Job
from kdyno.suites.protocol import Hello, Nonsense, Transcript, read

EMULATOR = Emulator("/usr/bin/qemu-system-x86_64", "7.2.22")
TIMED, COUNTED = Method("time"), Method("instructions")


def request(way: Way = "count", **more: object) -> QemuBoot:
    placement = Placement(frozenset((1,)), frozenset((0,)))
    given = {"emulator": EMULATOR, "way": way, "kernel": Path("/k/linux"), "job": Job()}
    given |= {"program": Path("/k/guest"), "placement": placement, **more}
    return QemuBoot(**given)  # type: ignore[arg-type]


def words(wanted: QemuBoot) -> list[str]:
    return wanted.qemu_words(Places(), 9)


def after(line: list[str], option: str) -> list[str]:
    return [line[at + 1] for at, word in enumerate(line) if word == option]


@pytest.mark.parametrize(
    ("memory_bytes", "disk_bytes", "most_bytes"),
    [(64 << 20, 0, 320 << 20), (1 << 30, 0, 1088 << 20), (1 << 30, 2 << 30, 2112 << 20)],
)
def test_what_runs_a_guest_writes_no_larger_file_than_its_memory_or_disk(
    memory_bytes: int, disk_bytes: int, most_bytes: int
) -> None:
    boot = request(memory_bytes=memory_bytes, disk_bytes=disk_bytes)
    line = boot.supervised("guest", Pipes(5, 6, 7, 8), memory_bytes)
    assert after(line, "--fsize") == [str(most_bytes)]


FIXED = {"-accel": "tcg,thread=single", "-seed": "1", "-rtc": "base=2026-01-01T00:00:00,clock=vm"}
EXACT = {"tsc=reliable", "nolapic_timer", "nokaslr", "norandmaps", "kdyno.machine=qemu"}
ASKING = Job((CaseJob("s", "c", "run", ("--", "sort", "words")),))


@pytest.mark.parametrize(
    ("way", "more", "options", "kernel", "absent"),
    [
        ("count", {}, {"-icount": "shift=0,sleep=off", "-smp": "1"}, {"kdyno.counts=0"}, set()),
        ("count", {"memory_bytes": 256 << 20}, {"-m": "262144k", "-cpu": "qemu64"}, EXACT, set()),
        # Programs are timed by the clock there, and not by what they execute.
        ("icount", {}, {"-icount": "shift=4,sleep=off"} | FIXED, EXACT, {"kdyno.counts=0"}),
        # One that waits for the host has a clock that does not jump.
        ("count", {"job": ASKING}, {"-icount": "shift=0,sleep=on"}, EXACT, set()),
        ("count", {"disk_bytes": 1 << 30}, {"-icount": "shift=0,sleep=on"} | FIXED, EXACT, set()),
        # A kernel without an APIC's driver has a CPU without an APIC.
        ("count", {"apic": False}, {"-cpu": "qemu64,-apic"} | FIXED, EXACT, set()),
        ("kvm", {}, {"-accel": "kvm", "-cpu": "host"}, set(), {"-icount", "-seed", "tsc=reliable"}),
        ("kvm", {}, {}, set(), {"-rtc", "-mon", "kdyno.counts=0"}),
        ("tcg", {"ticks_khz": 2_595}, {}, {"tsc=reliable", "tsc_early_khz=2595"}, {"nokaslr"}),
        ("tcg", {}, {"-cpu": "qemu64"}, {"no_timer_check"}, {"tsc=reliable"}),
    ],
)
def test_each_way_has_its_clock_and_its_cpu(
    way: Way, more: dict[str, object], options: dict[str, str], kernel: set[str], absent: set[str]
) -> None:
    line = words(request(way, **more))
    assert {option: after(line, option)[-1] for option in options} == options
    own = set(after(line, "-append")[0].split())
    assert kernel <= own and not absent & (own | {*line})


def test_a_counter_that_may_stop_is_no_clock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "guest"
    program.write_text("#!/bin/sh\n[ $1 = ticks ] && echo 2595124\n", encoding="utf-8")
    program.chmod(0o755)
    for flags, khz in (("tsc constant_tsc", 0), ("tsc constant_tsc nonstop_tsc", 2_595_124)):
        monkeypatch.setattr(cpu, "flags", lambda has=flags: frozenset(has.split()))
        assert emulator.ticks_khz(program) == khz
    assert emulator.ticks_khz(Path("/bin/false")) == 0


def test_only_a_guest_that_takes_turns_has_a_monitor() -> None:
    line = request("kvm", job=Job(turns=True)).qemu_words(Places(), 9, monitor=11)
    assert "socket,id=monitor,fd=11" in after(line, "-chardev")
    assert after(line, "-mon") == ["chardev=monitor,mode=control"]


def test_qemu_is_shut_into_its_own_sandbox_with_no_device_too_many() -> None:
    line = words(request())
    shut = "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"
    assert after(line, "-sandbox") == [shut]
    assert {"-nodefaults", "-no-user-config", "-no-reboot"} < set(line)
    assert not {"-fsdev", "-drive", "-netdev"} & set(line)
    disk = words(request(disk_bytes=1 << 30))
    assert "if=none,id=disk,format=raw,cache=unsafe,file=/tmp/kdyno.disk" in disk
    # Folders are shown only to cases that name them.
    asking = CaseJob("s", "c", "run", ("--", "/run/kdyno/programs/fft"))
    shared = ((Path("/cache/programs"), "programs"),)
    assert "-fsdev" in words(request(job=Job((asking,)), shared=shared))
    assert "-fsdev" not in words(request(job=Job((CaseJob("s", "c", "pipe"),)), shared=shared))


def test_a_case_that_starts_a_program_sees_this_machines(tmp_path: Path) -> None:
    named = tmp_path / "words"
    named.touch()
    asking = Job((CaseJob("s", "c", "run", ("--", "sort", str(named))),))
    assert "-fsdev" in words(request(job=asking))
    seen = dict((inside, path) for path, inside in qemu.host_folders(asking))
    assert seen["/usr"] == Path("/usr") and not {"/tmp", "/run", "/proc"} & seen.keys()
    assert qemu.host_folders(Job((CaseJob("s", "c", "pipe"),))) == ()


def test_the_root_of_such_a_guest_looks_like_this_machines() -> None:
    plain = qemu.first_files(b"p", b"job", Chance.of(0))
    like = qemu.first_files(b"p", b"job", Chance.of(0), host=True)
    assert b"var/tmp\0" in like and b"var/tmp\0" not in plain
    links = [(inside, target) for how, target, inside in system() if how == "--symlink"]
    for inside, target in links:
        assert inside[1:].encode() + b"\0" in like and target.encode() in like


def test_without_the_sandbox_no_program_of_the_host_is_started(tmp_path: Path) -> None:
    program = tmp_path / "guest"
    program.write_bytes(b"p")
    without = request(job=ASKING, sandboxed=False, program=program)
    with pytest.raises(UsageError, match="it is the sandbox that puts this machine's programs"):
        without.command(b"job", Ground(None, tmp_path), Pipes(1, 2, 3, 4))


@pytest.mark.parametrize("word", ["a\x01b", "ü"])
def test_a_cmdline_is_printable_words(word: str) -> None:
    with pytest.raises(UsageError, match=r"cmdline: .* is not a printable word"):
        words(request(cmdline=f"quiet {word}"))


def test_the_same_draw_perturbs_all_variants_alike() -> None:
    assert Chance.of(0) == Chance(1, 0, 0, "")
    drawn = [Chance.of(number) for number in range(1, 200)]
    assert drawn == [Chance.of(number) for number in range(1, 200)]
    assert len(set(drawn)) == len(drawn)
    for one in drawn:
        assert one.memory_less_bytes % (1 << 14) == 0 and 0 < one.memory_less_bytes < 8 << 20
        assert one.padding_bytes % 4096 == 0 and 0 < one.padding_bytes < 1 << 18
        assert len(one.words) < 300
    # In some boots an instruction takes 2 ns, so ticks fall elsewhere; never where seconds count.
    assert {one.shift for one in drawn} == {0, 1}
    number = next(value for value, one in enumerate(drawn, 1) if one.shift)
    slower = words(request(draw=number))
    assert after(slower, "-icount") == ["shift=1,sleep=off"]
    assert "kdyno.counts=1" in after(slower, "-append")[0]
    assert after(words(request("icount", draw=number)), "-icount") == ["shift=4,sleep=off"]
    line = words(request(draw=5, memory_bytes=256 << 20))
    assert after(line, "-seed") == [str(Chance.of(5).seed)]
    assert after(line, "-append")[0].endswith(Chance.of(5).words)


def test_the_first_files_are_the_same_bytes_for_the_same_content() -> None:
    device = ("dev/console", 0o020600, b"")
    result = archive([("dev", 0o040755, b""), device, ("init", 0o100755, b"program")])
    digest = "44f0b32ad94e7f144e83267f30822faf49d4885c06387352686a2650ff7ef7c2"
    assert hashlib.sha256(result).hexdigest() == digest
    assert result.startswith(b"070701" + b"00000001" + b"000041ED")
    assert len(result) % 4 == 0 and result.count(b"070701") == 4
    first, again = (qemu.first_files(b"p", b"job", Chance.of(3)) for _ in range(2))
    assert first == again


Machines = Callable[..., Qemu]


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machines:
    """In a folder, for these variants, of one image."""

    def build(
        folder: Path, *variants: Variant, method: Method = COUNTED, program: str = EMULATOR.program
    ) -> Qemu:
        monkeypatch.setattr(emulator, "find", lambda: Emulator(program, EMULATOR.version))
        monkeypatch.setattr(guest, "guest_program", lambda _cache, _bits: folder / "guest")
        (folder / "config").touch()
        named = {variant.name: variant for variant in variants}
        images = dict.fromkeys(named, Image("d", folder, "x86_64", 64, "7.3", {}))
        return Qemu(Setup(named, images, place(1), 256 << 20, None, 1, folder, method))

    return build


def answering(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    emulator.find.cache_clear()
    monkeypatch.setattr(emulator.shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(emulator, "capture", lambda argv: Finished(0, text.encode()))


@pytest.fixture(autouse=True)
def _forgets() -> None:
    emulator.find.cache_clear()


def test_an_emulator_is_known_by_its_version(monkeypatch: pytest.MonkeyPatch) -> None:
    answering(monkeypatch, "QEMU emulator version 10.0.3 (Debian 1:10.0.3+ds-0+deb13u1~bpo12+1)\n")
    assert emulator.find().version == "10.0.3" and emulator.missing() is None
    assert emulator.find().described("count") == "QEMU 10.0.3, qemu64, count"
    assert EMULATOR.described("icount") == "QEMU 7.2.22, qemu64, icount of 16 ns"
    answering(monkeypatch, "QEMU emulator version 6.2.0\n")
    with pytest.raises(ToolError, match=r"is version 6\.2\.0; kdyno needs 7.2 or later"):
        emulator.find()
    assert str(emulator.missing()).endswith(" is version 6.2.0; kdyno needs 7.2 or later")
    monkeypatch.setattr(emulator.shutil, "which", lambda _name: None)
    with pytest.raises(ToolError, match="apt-get install --no-install-recommends qemu-system-x86"):
        emulator.find()
    assert emulator.missing() == "no qemu-system-x86_64 on PATH"


@pytest.mark.parametrize(
    ("kind", "method", "why"),
    [
        *((kind, Method("instructions"), rf'kind = "{kind}": .*qemu') for kind in ("uml", "host")),
        *((kind, Method(accel="kvm"), r"\[machine\] accel is of kind") for kind in ("uml", "host")),
        ("uml", Method("cycles"), "nobody counts exactly"),
        ("uml", Method(counters=("cycles",)), "User Mode Linux has no perf events"),
        ("uml", Method(apart=True), 'goes with metric = "instructions"'),
        ("qemu", Method(apart=True), 'goes with metric = "instructions"'),
        ("qemu", Method("instructions", "kvm"), 'accel = "kvm" and .*counts what it emulates'),
        ("qemu", Method("instructions", "icount"), 'accel = "icount" and .*instructions'),
        ("qemu", Method("instructions", counters=("cycles",)), "they go with time, under KVM"),
        ("qemu", Method(accel="icount", counters=("page-faults",)), "they go with time, under KVM"),
        ("qemu", Method(accel="tcg", counters=("cycles", "page-faults")), r'\["cycles"\]: an emul'),
        ("qemu", Method("cycles"), "QEMU counts instructions"),
    ],
)
def test_what_a_machine_cannot_do_is_refused(
    kind: str, method: Method, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(emulator, "find", lambda: EMULATOR)
    with pytest.raises(UsageError, match=why):
        KINDS[kind].check(method)
    if kind != "qemu":
        KINDS[kind].check(Method())


def test_emulated_seconds_are_asked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    answering(monkeypatch, "QEMU emulator version 7.2.22\n")
    monkeypatch.setattr(emulator, "KVM", tmp_path / "kvm")
    check = KINDS["qemu"].check
    check(Method("instructions"))
    check(Method("time", "tcg"))
    for accel in ("auto", "kvm"):
        with pytest.raises(ToolError, match=r"needs KVM: there is no .*kvm here\..*instructions"):
            check(Method("time", accel))
    (tmp_path / "kvm").touch()
    (tmp_path / "kvm").chmod(0o666)
    check(Method("time"))  # believed until the probe
    check(Method("time", "kvm"))


def test_what_emulated_seconds_are_is_flagged(machine: Machines, tmp_path: Path) -> None:
    (flag,) = machine(tmp_path, method=Method("time", "tcg")).caveats()
    assert flag.kind == "emulated-time"
    assert flag.text.startswith("seconds of an emulated CPU (QEMU 7.2.22, qemu64, tcg), as was ")
    slow = machine(tmp_path, method=Method("time", "icount"))
    assert slow.can.turns == "a count is the same whatever else the machine does"
    for one, kind, text in (
        (slow, "emulated-time", "what a scheduler decides"),
        (machine(tmp_path), "machine", "the length"),
    ):
        (flag,) = one.caveats()
        assert flag.kind == kind and text in flag.text


def test_a_qemu_in_an_odd_place_is_seen_with_what_it_was_installed_with(tmp_path: Path) -> None:
    program = tmp_path / "usr" / "bin" / "qemu-system-x86_64"
    program.parent.mkdir(parents=True)
    for each in (program, tmp_path / "guest"):
        each.write_bytes(b"p")
    own = Emulator(str(program), "10.0.2")
    odd = request(program=tmp_path / "guest", emulator=own)
    argv = list(odd.command(b"job", Ground(None, None), Pipes(1, 2, 3, 4)).argv)
    folder = str(tmp_path / "usr")
    assert ["--ro-bind", folder, folder] in [argv[at : at + 3] for at in range(len(argv))]
    assert str(program) in argv


GREETING = (
    b'{"QMP": {"version": {"qemu": {"micro": 22, "minor": 2, "major": 7}, '
    b'"package": "Debian 1:7.2+dfsg-7+deb12u18+b3"}, "capabilities": ["oob"]}}\r\n'
)
"""As Debian 12's says it."""


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A /dev/kvm that may be opened, and a QEMU."""
    kvm = tmp_path / "kvm"
    kvm.touch()
    kvm.chmod(0o666)
    monkeypatch.setattr(emulator, "KVM", kvm)
    result = Emulator(str(tmp_path / "qemu"), "7.2.22")
    monkeypatch.setattr(emulator, "find", lambda: result)
    return kvm


def refused() -> str:
    with pytest.raises(ToolError) as message:
        KINDS["qemu"].check(TIMED)
    return str(message.value)


def test_without_kvm_the_ways_out_are_named(device: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda _path, _mode: False)
    assert f"{device} may not be opened by this user (its group is mostly called kvm)" in refused()
    device.unlink()
    text = refused()
    assert text.startswith(f'[measure] metric = "time" needs KVM: there is no {device} here. ')
    assert "--metric instructions" in text and 'accel = "tcg" takes the seconds' in text


def test_a_device_closed_to_roots_sandbox(device: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "drops_root", lambda: True)
    monkeypatch.setattr(sandbox, "require", lambda: True)
    device.chmod(0o660)
    assert f"root's sandbox is another user, to whom {device} is closed" in refused()
    monkeypatch.setattr(sandbox, "require", lambda: False)
    KINDS["qemu"].check(TIMED)


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("exec sleep 600", "hang: did not"),
        ("echo 'qemu-system-x86_64: no kvm' >&2; exit 1", "emulator: qemu-system-x86_64: no kvm"),
    ],
)
def test_a_kvm_that_does_not_work_is_given_up_with_the_reason(
    machine: Machines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, words: str
) -> None:
    """QEMU is a shell script, started as the machine starts the real one."""
    monkeypatch.setattr(qemu, "_PROBE_S", 0.2 if "sleep" in script else 20.0)
    for name, text in (
        ("qemu", script),
        # In the place of the supervisor: `guest supervise … -- COMMAND`.
        ("guest", 'while [ "$1" != -- ]; do shift; done\nshift\nexec "$@"'),
    ):
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o700)
    sandbox.waive()
    variant = Variant("stock", "", "x86_64")
    qemu_machine = machine(tmp_path, variant, method=TIMED, program=str(tmp_path / "qemu"))
    with pytest.raises(ToolError, match=f"needs KVM: stock did not boot under it: {words}"):
        qemu_machine.probe(lambda _text: None)
    qemu_machine.close()


class FakeQemu:
    """The other end of a monitor, in a thread."""

    def __init__(self, answers: dict[str, list[object]], greeting: bytes) -> None:
        own, self._theirs = socket.socketpair()
        self.monitor = Monitor(own)
        self.requests: list[str] = []
        self._answers, self._greeting = answers, greeting
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        with suppress(OSError), self._theirs.makefile("rb") as lines:  # who hangs up is not told
            self._theirs.sendall(self._greeting)
            for line in lines:
                command = json.loads(line)["execute"]
                self.requests.append(command)
                for answer in self._answers.get(command, [{"return": {}}]):
                    self._theirs.sendall(json.dumps(answer).encode() + b"\r\n")

    def close(self) -> None:
        self.monitor.close()
        self._thread.join(5)
        self._theirs.close()


Fake = Callable[..., FakeQemu]


@pytest.fixture
def fake() -> Iterator[Fake]:
    with ExitStack() as stack:

        def begin(greeting: bytes = GREETING, **answers: list[object]) -> FakeQemu:
            return stack.enter_context(closing(FakeQemu(answers, greeting)))

        yield begin


def test_a_guest_is_stopped_and_goes_on_by_the_monitor(fake: Fake) -> None:
    # In the order in which QEMU 7.2.22 wrote them.
    stop = {"timestamp": {"seconds": 1795372208, "microseconds": 596482}, "event": "STOP"}
    go_on = {"timestamp": {"seconds": 1795372208, "microseconds": 288943}, "event": "RESUME"}
    one = fake(stop=[stop, {"return": {}}], cont=[go_on, {"return": {}}])
    one.monitor.hold(True)
    one.monitor.hold(False)
    one.monitor.hold(True)
    assert one.requests == ["qmp_capabilities", "stop", "cont", "stop"]


def test_an_error_silence_nonsense_and_a_flood_are_no_answer(
    fake: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusal = [{"error": {"class": "GenericError", "desc": "no"}}]
    for greeting, answers, message in (
        (GREETING, {"stop": refusal}, r"stop: .*GenericError"),
        (GREETING, {"stop": [[1, 2]]}, "not an object"),
        (b"SPICE\n", {}, "not an object"),
        (b"{}\n", {}, "did not greet"),
        (b"x" * (1 << 20), {}, "no whole line"),
    ):
        with pytest.raises(NoAnswer, match=message):
            fake(greeting, **answers).monitor.hold(True)
    monkeypatch.setattr(Monitor, "LIMIT_S", 0.05)
    with pytest.raises(NoAnswer):
        fake(stop=[]).monitor.hold(True)
    near, far = socket.socketpair()
    far.close()
    gone = Monitor(near)
    with pytest.raises(NoAnswer):
        gone.hold(True)
    gone.close()


def session(events: Events, monitor: Monitor) -> Session:
    """Of a process that does nothing, paused by this monitor."""
    guest = process.Dialogue(Job(turns=True), {})
    command = process.Command(("sleep", "600"), (), {"PATH": os.environ["PATH"]}, monitor)

    def conclude(ended: Ended, argv: tuple[str, ...]) -> Outcome:
        return ended  # type: ignore[return-value]

    placement = Placement(frozenset(os.sched_getaffinity(0)), frozenset())
    return Session(events, guest, lambda _pipes: command, conclude, placement.guest, ExitStack())


def test_a_session_with_a_monitor_is_paused_by_it_once_and_closes_it(fake: Fake) -> None:
    one = fake()
    with closing(Events()) as events:
        guest = session(events, one.monitor)
        guest.pause()
        guest.pause()
        guest.resume()
        guest.resume()
        guest.close()
    assert one.requests == ["qmp_capabilities", "stop", "cont"]
    with pytest.raises(NoAnswer, match="Bad file descriptor"):
        one.monitor.hold(True)


def test_a_guest_whose_monitor_does_not_answer_is_ended(fake: Fake) -> None:
    one = fake(stop=[{"error": {"class": "GenericError"}}])
    with closing(Events()) as events:
        guest = session(events, one.monitor)
        guest.pause()
        assert guest.ended
        ended = guest.close()
    assert isinstance(ended, Ended) and ended.stopped == "no-answer"


TEXT = """
name = "copies"
baseline = "stock"
[kernel]
source = "debian:linux-source-7.3"
[variant.stock]
[variant.erms]
memcpy = "erms"
[variant.plain]
memcpy = ["plain", "avx2"]
[machine]
kind = "qemu"
[[suite]]
name = "unixbench"
"""
VARIANTS = parse(TEXT, "copies.toml", Path.cwd(), vocabulary(load())).variants


def test_features_are_cleared_on_the_command_line_of_the_same_image(
    machine: Machines, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert [variant.memcpy for variant in VARIANTS] == [None, "erms", "plain"]
    assert [of_variant(variant.memcpy, variant.routines) for variant in VARIANTS] == [()] * 3
    boots: list[QemuBoot] = []
    opener = machine(tmp_path, *VARIANTS)
    monkeypatch.setattr(qemu, "start", lambda request, *_: boots.append(request))
    for variant in VARIANTS:
        opener.open(Plan(variant.name, Job(), cmdline="quiet"))
    cmdlines = [boot.cmdline.split() for boot in boots]
    assert cmdlines == [["quiet"], ["clearcpuid=fsrm", "quiet"], ["clearcpuid=fsrm,erms", "quiet"]]


@pytest.mark.parametrize("arch", ["um", "i386"])
def test_a_kernel_that_does_not_choose_cannot_be_told_to(arch: str, tmp_path: Path) -> None:
    variant = Variant("mine", "", arch=arch, memcpy="plain")
    with pytest.raises(UsageError, match=f"for arch 'x86_64', whose kernels .*arch '{arch}' does"):
        recipe_of(variant, Tree(tmp_path, "d", "linux", "7.3"))


def hello(**more: object) -> Hello:
    about = {"release": "7.3", "machine": "x86_64", "word_bits": 64, "cpus": 1, "mem_kb": 1}
    record = read({"t": "hello", "protocol": 1, "mono_ns": 1, **about, **more})
    assert isinstance(record, Hello)
    return record


def test_what_the_booted_kernels_chose_stands_beside_the_verdict(
    machine: Machines, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for odd in (1, "x" * 4000):
        with pytest.raises(Nonsense, match="copies: Input should be 'fsrm', 'erms', 'plain'"):
            hello(copies=odd)
    copies = {"stock": "fsrm", "erms": "erms", "plain": "plain", "built": "fsrm"}
    built = Variant("built", "", arch="x86_64", memcpy="overlap-general")
    prober = machine(tmp_path, *VARIANTS, built)

    def probed(plan: Plan, _clock: object) -> Outcome:
        transcript = Transcript(cases=0, hello=hello(copies=copies[plan.variant]))
        return Outcome(BootHost(status="ok"), transcript, b"", ())

    monkeypatch.setattr(Qemu, "open", lambda _self, plan, limit_s: plan)
    monkeypatch.setattr(qemu, "run_to_end", probed)
    assert "memcpy here" not in prober.caveats()[0].text
    prober.probe(lambda _text: None)
    caveat = "; memcpy here: stock fsrm, erms erms, plain plain, built overlap-general"
    assert prober.caveats()[0].text.endswith(caveat)
    copies |= dict.fromkeys(copies, "plain")
    alone = machine(tmp_path, Variant("stock", "", arch="x86_64"))
    alone.probe(lambda _text: None)
    assert alone.caveats()[0].text.endswith("; memcpy here: plain")


def failed(reason: str, fatal: str | None = None) -> Outcome:
    host = BootHost(status="failed", reason=reason, text="why")
    return Outcome(host, Transcript(cases=0, fatal=fatal), b"", ())


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize(
    ("name", "outcome"),
    [("mine", failed("panic")), ("stock", failed("scheduler", "scheduler: why"))],
)
def test_a_variant_that_does_not_boot_is_no_fault_of_kvm_or_a_counter(
    machine: Machines, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, outcome: Outcome
) -> None:
    sandbox.waive()
    variants = (Variant("stock", "", "x86_64"), Variant("mine", "", "x86_64"))
    prober = machine(tmp_path, *variants, method=Method(counters=("page-faults",)))
    good = Outcome(BootHost(status="ok"), Transcript(cases=0, hello=hello()), b"", ())
    monkeypatch.setattr(Qemu, "open", lambda _self, plan, limit_s: plan.variant)
    monkeypatch.setattr(qemu, "run_to_end", lambda each, _clock: outcome if each == name else good)
    notices: list[str] = []
    prober.probe(notices.append)
    assert notices == [f"{name}: its first boot failed ({outcome.host.reason}: why)"]
