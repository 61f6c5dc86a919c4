# SPDX-License-Identifier: MIT
"""The machine's measuring lock: who holds it."""

from __future__ import annotations

import os
import secrets
import struct

import pytest

from kdyno.errors import ToolError
from kdyno.machines import cpus


class Held:
    """A socket whose other end is a process that this machine calls so."""

    process = 0

    def __init__(self, *_kind: int) -> None:
        pass

    def __enter__(self) -> Held:
        return self

    def __exit__(self, *_problem: object) -> None:
        pass

    def settimeout(self, seconds: float) -> None:
        pass

    def connect(self, address: str) -> None:
        pass

    def getsockopt(self, *_what: int) -> bytes:
        return struct.pack("3i", self.process, 0, 0)


@pytest.mark.parametrize(
    ("process", "text"),
    [(41, "another kdyno (process 41)"), (0, "another kdyno (in a container)")],
)
def test_the_holder_is_named_where_it_is_seen(
    monkeypatch: pytest.MonkeyPatch, process: int, text: str
) -> None:
    monkeypatch.setattr(Held, "process", process)
    monkeypatch.setattr(cpus.socket, "socket", Held)
    assert cpus._holder(cpus._LOCK) == text


def test_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpus, "_LOCK", f"\0kdyno-test-{secrets.token_hex(8)}")
    said = rf"another kdyno \(process {os.getpid()}\) is measuring .* have it wait"
    with (
        cpus.measuring("this test", wait=False),
        pytest.raises(ToolError, match=said),
        cpus.measuring("it", wait=False),
    ):
        pass
    with cpus.measuring("this test", wait=False):
        pass


def test_on_cpus_of_ones_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpus, "_LOCK", f"\0kdyno-test-{secrets.token_hex(8)}")
    low, high, odd = frozenset({0, 2}), frozenset({4, 6}), frozenset({2, 4})
    with cpus.measuring("a", wait=False, cpus=low), cpus.measuring("b", wait=False, cpus=high):
        for other in (odd, None):
            with (
                pytest.raises(ToolError, match="is measuring on this machine"),
                cpus.measuring("it", wait=False, cpus=other),
            ):
                pass
    with (
        cpus.measuring("the machine", wait=False),
        pytest.raises(ToolError, match="is measuring on this machine"),
        cpus.measuring("it", wait=False, cpus=low),
    ):
        pass
    with cpus.measuring("it", wait=False, cpus=odd):
        pass


def test_who_waits_for_the_machine_is_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpus, "_LOCK", f"\0kdyno-test-{secrets.token_hex(8)}")
    low, high = frozenset({0}), frozenset({1})
    first = cpus.measuring("a", wait=False, cpus=low)
    first.__enter__()
    said: list[str] = []

    def meanwhile(_seconds: float) -> None:
        with (
            pytest.raises(ToolError, match="is measuring"),
            cpus.measuring("one that comes later", wait=False, cpus=high),
        ):
            pass
        first.__exit__(None, None, None)

    monkeypatch.setattr(cpus.time, "sleep", meanwhile)
    with cpus.measuring("the machine", wait=True, tell=said.append):
        assert len(said) == 1 and "waiting for it to end" in said[0]
