# SPDX-License-Identifier: MIT
"""KVM as far as it goes without one: what the probe says, and how a guest under it is paused."""

from __future__ import annotations

import json
import os
import socket
import stat
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from kdyno import sandbox
from kdyno.errors import ToolError
from kdyno.experiment.model import Variant
from kdyno.kernels.image import Image
from kdyno.machines import emulator, qemu
from kdyno.machines.cpus import Placement, place
from kdyno.machines.emulator import Emulator
from kdyno.machines.kinds import KINDS
from kdyno.machines.machine import Method, Outcome, Setup
from kdyno.machines.process import Command, Ended, Events, NoAnswer, ProcessSession, dialogue_of
from kdyno.machines.qemu import Monitor, Qemu
from kdyno.suites.job import Job

TIMED = Method("time")
GREETING = {
    "QMP": {
        "version": {
            "qemu": {"micro": 22, "minor": 2, "major": 7},
            "package": "Debian 1:7.2+dfsg-7+deb12u18+b3",
        },
        "capabilities": ["oob"],
    }
}
"""As Debian 12's says it."""


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A /dev/kvm that may be opened, and a QEMU."""
    made = tmp_path / "kvm"
    made.touch()
    monkeypatch.setattr(emulator, "KVM", made)
    emulator.find.cache_clear()
    found = Emulator(str(tmp_path / "qemu"), "7.2.22")
    monkeypatch.setattr(emulator, "find", lambda: found)
    return made


def refused() -> str:
    with pytest.raises(ToolError) as told:
        KINDS["qemu"].check(TIMED)
    return str(told.value)


def test_no_device_is_told_with_both_ways_out(device: Path) -> None:
    device.unlink()
    text = refused()
    assert text.startswith(f'[measure] metric = "time" needs KVM: there is no {device} here. ')
    assert "--metric instructions" in text and 'accel = "tcg" takes the seconds' in text


def test_no_permission_is_told_with_the_group_that_has_it(
    device: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda _path, _mode: False)
    assert f"{device} may not be opened by this user (its group is mostly called kvm)" in refused()


def test_a_device_that_may_be_opened_is_believed_until_the_probe(device: Path) -> None:
    KINDS["qemu"].check(TIMED)
    KINDS["qemu"].check(Method("time", "kvm"))


def machine(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> Qemu:
    """With a QEMU that is this shell script, started as the machine starts the real one."""
    program = folder / "qemu"
    program.write_text(f"#!/bin/sh\n{script}\n")
    guest = folder / "guest"  # in the place of the supervisor: `guest supervise … -- COMMAND`
    guest.write_text('#!/bin/sh\nwhile [ "$1" != -- ]; do shift; done\nshift\nexec "$@"\n')
    for file in (program, guest):
        file.chmod(file.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr("kdyno.machines.guest.guest_program", lambda _cache, _bits: guest)
    (folder / "config").touch()
    image = Image("d", folder, "x86_64", 64, "7.3", {})
    sandbox.waive()
    setup = Setup(
        {"stock": Variant("stock", "", "x86_64")},
        {"stock": image},
        place(1),
        256 << 20,
        None,
        1,
        folder,
        TIMED,
    )
    return Qemu(setup)


def test_a_kvm_whose_guest_does_not_start_is_given_up_after_the_limit(
    device: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(qemu, "_PROBE_S", 0.2)
    made = machine(tmp_path, "exec sleep 600", monkeypatch)
    with pytest.raises(ToolError, match=r"needs KVM: stock did not boot under it: hang: did not"):
        made.probe(lambda _text: None)
    made.close()


def test_a_kvm_that_qemu_cannot_use_is_told_in_qemus_words(
    device: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = "qemu-system-x86_64: failed to initialize kvm: Input/output error"
    made = machine(tmp_path, f"echo {words!r} >&2; exit 1", monkeypatch)
    with pytest.raises(ToolError, match=f"did not boot under it: emulator: {words}"):
        made.probe(lambda _text: None)
    made.close()


class FakeQemu:
    """The other end of a monitor, in a thread."""

    def __init__(self, answers: dict[str, list[object]], greeting: bytes | None = None) -> None:
        own, self._theirs = socket.socketpair()
        self.monitor = Monitor(own)
        self.asked: list[str] = []
        self._answers, self._greeting = answers, greeting
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        with suppress(OSError):  # who hangs up is not told
            self._answer()

    def _answer(self) -> None:
        greeting = json.dumps(GREETING).encode() + b"\r\n"
        self._theirs.sendall(greeting if self._greeting is None else self._greeting)
        with self._theirs.makefile("rb") as lines:
            for line in lines:
                command = json.loads(line)["execute"]
                self.asked.append(command)
                for answer in self._answers.get(command, [{"return": {}}]):
                    self._theirs.sendall(json.dumps(answer).encode() + b"\r\n")

    def close(self) -> None:
        self.monitor.close()
        self._thread.join(5)
        self._theirs.close()


@pytest.fixture
def made() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def fake(made: ExitStack, greeting: bytes | None = None, **answers: list[object]) -> FakeQemu:
    one = FakeQemu(answers, greeting)
    made.callback(one.close)
    return one


def test_a_guest_is_stopped_and_goes_on_by_the_monitor(made: ExitStack) -> None:
    # In the order in which QEMU 7.2.22 wrote them.
    stop = {"timestamp": {"seconds": 1795372208, "microseconds": 596482}, "event": "STOP"}
    go_on = {"timestamp": {"seconds": 1795372208, "microseconds": 288943}, "event": "RESUME"}
    one = fake(made, stop=[stop, {"return": {}}], cont=[go_on, {"return": {}}])
    one.monitor.stop()
    one.monitor.go_on()
    one.monitor.stop()
    assert one.asked == ["qmp_capabilities", "stop", "cont", "stop"]


def test_an_error_silence_nonsense_and_a_flood_are_no_answer(
    made: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(NoAnswer, match=r"stop: .*GenericError"):
        fake(made, stop=[{"error": {"class": "GenericError", "desc": "no"}}]).monitor.stop()
    with pytest.raises(NoAnswer, match="not an object"):
        fake(made, stop=[[1, 2]]).monitor.stop()
    with pytest.raises(NoAnswer, match="not an object"):
        fake(made, b"SPICE\n").monitor.stop()
    with pytest.raises(NoAnswer, match="did not greet"):
        fake(made, b"{}\n").monitor.stop()
    with pytest.raises(NoAnswer, match="no whole line"):
        fake(made, b"x" * (1 << 20)).monitor.stop()
    monkeypatch.setattr(Monitor, "LIMIT_S", 0.05)
    with pytest.raises(NoAnswer):
        fake(made, stop=[]).monitor.stop()
    near, far = socket.socketpair()
    far.close()
    gone = Monitor(near)
    with pytest.raises(NoAnswer):
        gone.stop()
    gone.close()


def session(events: Events, monitor: Monitor) -> ProcessSession:
    """Of a process that does nothing, paused by this monitor."""
    guest, _ = dialogue_of(Job(turns=True), {}, None, lambda _case: None)
    command = Command(("sleep", "600"), (), {"PATH": os.environ["PATH"]}, monitor)

    def conclude(ended: Ended, argv: tuple[str, ...]) -> Outcome:
        return ended  # type: ignore[return-value]

    placement = Placement(frozenset(os.sched_getaffinity(0)), frozenset())
    return ProcessSession(
        events, guest, lambda _pipes: command, conclude, placement.guest, ExitStack()
    )


def test_a_session_with_a_monitor_is_paused_by_it_once_and_closes_it(made: ExitStack) -> None:
    one = fake(made)
    with Events() as events:
        guest = session(events, one.monitor)
        guest.pause()
        guest.pause()
        guest.resume()
        guest.resume()
        guest.close()
    assert one.asked == ["qmp_capabilities", "stop", "cont"]
    with pytest.raises(NoAnswer, match="Bad file descriptor"):
        one.monitor.stop()


def test_a_guest_whose_monitor_does_not_answer_is_ended(made: ExitStack) -> None:
    one = fake(made, stop=[{"error": {"class": "GenericError"}}])
    with Events() as events:
        guest = session(events, one.monitor)
        guest.pause()
        assert guest.ended
        ended = guest.close()
    assert isinstance(ended, Ended) and ended.stopped == "no-answer"
