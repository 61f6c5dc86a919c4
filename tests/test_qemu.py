# SPDX-License-Identifier: MIT
"""QEMU as a machine, without starting one: command lines, first files, what is refused and why."""

from __future__ import annotations

import dataclasses
import hashlib
from pathlib import Path

import pytest

from kdyno.command import Finished
from kdyno.errors import ToolError, UsageError
from kdyno.kernels import cpu
from kdyno.machines import emulator, qemu
from kdyno.machines.cpus import Placement
from kdyno.machines.emulator import Emulator, Way
from kdyno.machines.guest import Ground
from kdyno.machines.kinds import KINDS
from kdyno.machines.machine import Method, Setup
from kdyno.machines.process import Pipes
from kdyno.machines.qemu import Archive, Chance, Places, Qemu, QemuBoot
from kdyno.sandbox import system
from kdyno.suites.job import CaseJob, Job

EMULATOR = Emulator("/usr/bin/qemu-system-x86_64", "7.2.22")


def request(way: Way = "count", **more: object) -> QemuBoot:
    given = {
        **{"emulator": EMULATOR, "way": way, "kernel": Path("/k/linux"), "job": Job()},
        **{"program": Path("/k/guest"), "placement": Placement(frozenset((1,)), frozenset((0,)))},
        **more,
    }
    return QemuBoot(**given)  # type: ignore[arg-type]


def words(asked: QemuBoot) -> list[str]:
    return asked.qemu_words(Places(), 9)


def after(line: list[str], option: str) -> list[str]:
    return [line[at + 1] for at, word in enumerate(line) if word == option]


def test_a_count_fixes_whatever_chance_could_reach() -> None:
    line = words(request(memory_bytes=256 << 20))
    assert after(line, "-icount") == ["shift=0,sleep=off"]
    assert after(line, "-cpu") == ["qemu64"] and after(line, "-seed") == ["1"]
    assert after(line, "-rtc") == ["base=2026-01-01T00:00:00,clock=vm"]
    assert after(line, "-m") == ["262144k"] and after(line, "-smp") == ["1"]
    kernel = after(line, "-append")[0].split()
    assert {"tsc=reliable", "nolapic_timer", "nokaslr", "norandmaps"} < set(kernel)
    assert "kdyno.machine=qemu" in kernel


def test_a_slow_cpu_has_seconds_and_is_as_exact() -> None:
    count, slow = words(request()), words(request("icount"))
    assert after(slow, "-icount") == ["shift=4,sleep=off"]
    for option in ("-accel", "-cpu", "-seed", "-rtc", "-m", "-smp"):
        assert after(slow, option) == after(count, option)
    # Programs are timed by the clock there, and not by what they execute.
    kernel = set(after(count, "-append")[0].split()) - set(after(slow, "-append")[0].split())
    assert kernel == {"kdyno.counts=yes"}
    assert EMULATOR.described("icount") == "QEMU 7.2.22, qemu64, icount of 16 ns"


def test_under_kvm_the_clock_is_the_hosts() -> None:
    line = words(request("kvm"))
    assert after(line, "-accel") == ["kvm"] and after(line, "-cpu") == ["host"]
    assert not {"-icount", "-seed", "-rtc"} & set(line)
    assert "tsc=reliable" not in after(line, "-append")[0]


def test_emulated_time_is_told_how_fast_the_hosts_counter_goes() -> None:
    kernel = after(words(request("tcg", ticks_khz=2_595_124)), "-append")[0].split()
    assert {"tsc=reliable", "tsc_early_khz=2595124", "no_timer_check"} < set(kernel)
    assert "nokaslr" not in kernel
    unknown = after(words(request("tcg")), "-append")[0].split()
    assert not [word for word in unknown if word.startswith("tsc")]


def test_a_counter_that_does_not_always_go_alike_is_no_clock(
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
    assert "-mon" not in words(request("kvm"))
    line = request("kvm", job=Job(turns=True)).qemu_words(Places(), 9, monitor=11)
    assert "socket,id=monitor,fd=11" in after(line, "-chardev")
    assert after(line, "-mon") == ["chardev=monitor,mode=control"]


def test_qemu_is_shut_into_its_own_sandbox_and_has_no_network() -> None:
    line = words(request())
    assert after(line, "-sandbox") == [
        "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"
    ]
    assert {"-nodefaults", "-no-user-config", "-no-reboot"} < set(line)
    assert "-fsdev" not in line and "-drive" not in line and "-netdev" not in line


def test_folders_are_shown_only_to_cases_that_name_them() -> None:
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


def test_a_guest_that_waits_for_the_host_has_a_clock_that_does_not_jump() -> None:
    asking = Job((CaseJob("s", "c", "run", ("--", "sort", "words")),))
    for waiting in (request(job=asking), request(disk_bytes=1 << 30)):
        assert after(words(waiting), "-icount") == ["shift=0,sleep=on"]
    assert after(words(request()), "-icount") == ["shift=0,sleep=off"]
    assert "kdyno.counts=yes" in after(words(request()), "-append")[0]
    assert "kdyno.counts" not in after(words(request("kvm")), "-append")[0]


def test_without_the_sandbox_no_program_of_the_host_is_started(tmp_path: Path) -> None:
    asking = Job((CaseJob("s", "c", "run", ("--", "sort", "words")),))
    program = tmp_path / "guest"
    program.write_bytes(b"p")
    without = dataclasses.replace(request(job=asking, sandboxed=False), program=program)
    with pytest.raises(UsageError, match="it is the sandbox that puts this machine's programs"):
        without.command(b"job", Ground(None, tmp_path), Pipes(1, 2, 3, 4))


def test_a_disk_is_one_device_more() -> None:
    line = words(request(disk_bytes=1 << 30))
    assert "if=none,id=disk,format=raw,cache=unsafe,file=/tmp/kdyno.disk" in line


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
    line = words(request(draw=5, memory_bytes=256 << 20))
    assert after(line, "-seed") == [str(Chance.of(5).seed)]
    assert after(line, "-append")[0].endswith(Chance.of(5).words)


def test_the_first_files_are_the_same_bytes_for_the_same_content() -> None:
    archive = Archive()
    archive.folder("dev")
    archive.device("dev/console", 5, 1)
    archive.file("init", b"program", 0o755)
    made = archive.content()
    assert hashlib.sha256(made).hexdigest() == (
        "44f0b32ad94e7f144e83267f30822faf49d4885c06387352686a2650ff7ef7c2"
    )
    assert made.startswith(b"070701" + b"00000001" + b"000041ED")
    assert len(made) % 4 == 0 and made.count(b"070701") == 4
    assert qemu.first_files(b"p", b"job", Chance.of(3)) == qemu.first_files(
        b"p", b"job", Chance.of(3)
    )


def said(monkeypatch: pytest.MonkeyPatch, text: str, status: int = 0) -> None:
    emulator.find.cache_clear()
    monkeypatch.setattr(emulator.shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(
        emulator, "capture", lambda argv: Finished(tuple(argv), status, text.encode())
    )


@pytest.fixture(autouse=True)
def _forgets() -> None:
    emulator.find.cache_clear()


def test_an_emulator_is_known_by_its_version(monkeypatch: pytest.MonkeyPatch) -> None:
    said(monkeypatch, "QEMU emulator version 10.0.3 (Debian 1:10.0.3+ds-0+deb13u1~bpo12+1)\n")
    assert emulator.find().version == "10.0.3"
    assert emulator.find().described("count") == "QEMU 10.0.3, qemu64, count"
    assert emulator.missing() is None


def test_an_old_emulator_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    said(monkeypatch, "QEMU emulator version 6.2.0\n")
    with pytest.raises(ToolError, match=r"is version 6\.2\.0; kdyno needs 7.2 or later"):
        emulator.find()


def test_no_emulator_is_told_with_the_command_that_helps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(emulator.shutil, "which", lambda _name: None)
    with pytest.raises(ToolError, match="apt-get install --no-install-recommends qemu-system-x86"):
        emulator.find()
    assert emulator.missing() == "no qemu-system-x86_64 on PATH"


@pytest.mark.parametrize("kind", ["uml", "host"])
def test_what_runs_on_the_hosts_cpu_is_not_counted(kind: str) -> None:
    with pytest.raises(
        UsageError, match=rf'"instructions" and \[machine\] kind = "{kind}": .*qemu'
    ):
        KINDS[kind].check(Method("instructions"))
    with pytest.raises(UsageError, match=r"\[machine\] accel is of kind"):
        KINDS[kind].check(Method(accel="kvm"))
    KINDS[kind].check(Method(cpus=2))


def test_emulated_seconds_are_taken_only_when_asked_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    said(monkeypatch, "QEMU emulator version 7.2.22\n")
    monkeypatch.setattr(emulator, "KVM", tmp_path / "kvm")
    check = KINDS["qemu"].check
    check(Method("instructions"))
    check(Method("time", "tcg"))
    for accel in ("auto", "kvm"):
        with pytest.raises(ToolError, match=r"needs KVM: there is no .*kvm here\..*instructions"):
            check(Method("time", accel))
    (tmp_path / "kvm").touch()
    check(Method("time"))


def test_whoever_asks_for_emulated_seconds_is_told_what_they_are(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    said(monkeypatch, "QEMU emulator version 7.2.22\n")
    placement = Placement(frozenset((1,)), frozenset((0,)))
    setup = Setup({}, {}, placement, 1 << 28, None, 1, tmp_path, Method("time", "tcg"))
    (flag,) = Qemu(setup).caveats()
    assert flag.kind == "emulated-time"
    assert flag.text.startswith("seconds of an emulated CPU (QEMU 7.2.22, qemu64, tcg), as was ")
    slow = Qemu(dataclasses.replace(setup, method=Method("time", "icount")))
    (flag,) = slow.caveats()
    assert flag.kind == "emulated-time" and "what a scheduler decides" in flag.text
    assert slow.can.turns == "a count is the same whatever else the machine does"
    (flag,) = Qemu(dataclasses.replace(setup, method=Method("instructions"))).caveats()
    assert flag.kind == "machine" and "the length of the path, not time" in flag.text


def test_a_guest_that_is_counted_is_not_under_kvm(monkeypatch: pytest.MonkeyPatch) -> None:
    said(monkeypatch, "QEMU emulator version 7.2.22\n")
    for accel in ("kvm", "icount"):
        with pytest.raises(UsageError, match=rf'accel = "{accel}" and .*instructions'):
            KINDS["qemu"].check(Method("instructions", accel))


def test_a_qemu_in_an_odd_place_is_seen_with_what_it_was_installed_with(tmp_path: Path) -> None:
    program = tmp_path / "usr" / "bin" / "qemu-system-x86_64"
    program.parent.mkdir(parents=True)
    for each in (program, tmp_path / "guest"):
        each.write_bytes(b"p")
    odd = dataclasses.replace(
        request(program=tmp_path / "guest"), emulator=Emulator(str(program), "10.0.2")
    )
    argv = list(odd.command(b"job", Ground(None, None), Pipes(1, 2, 3, 4)).argv)
    folder = str(tmp_path / "usr")
    assert ["--ro-bind", folder, folder] in [argv[at : at + 3] for at in range(len(argv))]
    assert str(program) in argv
