# SPDX-License-Identifier: MIT
"""Another user who holds the name of the measuring lock."""

from __future__ import annotations

import secrets
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from arms import Arm

from kdyno.errors import ToolError
from kdyno.machines import cpus

HOLD = """
import socket, sys
lock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
lock.bind("\\0" + sys.argv[1])
if sys.argv[2] == "listens":
    lock.listen(1)
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    result = f"kdyno-attack-{secrets.token_hex(8)}"
    monkeypatch.setattr(cpus, "_LOCK", f"\0{result}")
    monkeypatch.setenv("KDYNO_CACHE", str(tmp_path))
    return result


@contextmanager
def held(name: str, how: str) -> Iterator[int]:
    """By an ordinary user; who is one already says of what is their own that it is another's."""
    argv = Arm(root=False).python("-c", HOLD, name, how)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(argv, text=True, **pipes) as process:  # type: ignore[call-overload]
        assert process.stdout.readline() == "held\n"
        yield Arm(root=False).uid
        process.stdin.close()


@pytest.mark.parametrize("how", ["listens", "is mute"])
@pytest.mark.parametrize("own", [None, frozenset({0})], ids=["the machine", "a CPU"])
def test_it_is_named_and_can_be_gone_past(
    monkeypatch: pytest.MonkeyPatch, name: str, how: str, own: frozenset[int] | None
) -> None:
    with held(name, how) as uid:
        monkeypatch.setattr(cpus.os, "geteuid", lambda: uid + 1)
        who = f"user {uid}" if how == "listens" else "does not say whose it is"
        with (
            pytest.raises(ToolError, match=f"{who}.* is measuring .*{cpus.DESPITE}=1"),
            cpus.measuring("a run", wait=False, cpus=own),
        ):
            pass
        monkeypatch.setenv(cpus.DESPITE, "1")
        # What is one's own counts nevertheless.
        with (
            cpus.measuring("a run", wait=False, cpus=own),
            pytest.raises(ToolError, match="is measuring"),
            cpus.measuring("another", wait=False, cpus=own),
        ):
            pass


def test_nobody_else_can_open_the_file(name: str) -> None:
    with cpus.measuring("a run", wait=False):
        assert cpus._file(f"\0{name}").stat().st_mode & 0o777 == 0o600
