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
    assert cpus._holder() == text


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
