# SPDX-License-Identifier: MIT
"""The machine's measuring lock: who holds it."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

import pytest

from kdyno.errors import ToolError
from kdyno.machines import cpus


@pytest.fixture(autouse=True)
def _own_lock(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(cpus, "_LOCK", f"\0kdyno-test-{secrets.token_hex(8)}")
    monkeypatch.setenv("KDYNO_CACHE", str(tmp_path))


@pytest.mark.parametrize(
    ("peer", "text"),
    [
        ((41, os.geteuid()), "another kdyno (process 41)"),
        ((0, os.geteuid()), "another kdyno (in a container)"),
        ((41, 4711), "another kdyno (process 41, user 4711)"),
        (None, "a program that does not say whose it is"),
    ],
)
def test_the_holder_is_named_where_it_is_seen(
    monkeypatch: pytest.MonkeyPatch, peer: tuple[int, int] | None, text: str
) -> None:
    with cpus.measuring("this test", wait=False):
        monkeypatch.setattr(cpus, "_peer", lambda _name: peer)
        assert cpus._holder(cpus._LOCK) == text


def no_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a second container: the sockets of the one are not seen in the other."""
    monkeypatch.setattr(cpus, "_bound", lambda *_: True)
    monkeypatch.setattr(cpus, "_sockets", list)


@pytest.mark.parametrize("mine", [None, frozenset({0})])
@pytest.mark.parametrize("other", [None, frozenset({0})])
def test_two_containers_that_share_a_cache(
    monkeypatch: pytest.MonkeyPatch, mine: frozenset[int] | None, other: frozenset[int] | None
) -> None:
    no_socket(monkeypatch)
    with (
        cpus.measuring("a", wait=False, cpus=other),
        pytest.raises(ToolError, match=r"another kdyno, which locks .*, is measuring"),
        cpus.measuring("b", wait=False, cpus=mine),
    ):
        pass
    with cpus.measuring("b", wait=False, cpus=mine):
        pass


def test_one_at_a_time() -> None:
    message = rf"another kdyno \(process {os.getpid()}\) is measuring .* have it wait"
    with (
        cpus.measuring("this test", wait=False),
        pytest.raises(ToolError, match=message),
        cpus.measuring("it", wait=False),
    ):
        pass
    with cpus.measuring("this test", wait=False):
        pass


def test_on_cpus_of_ones_own() -> None:
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
    low, high = frozenset({0}), frozenset({1})
    first = cpus.measuring("a", wait=False, cpus=low)
    first.__enter__()
    texts: list[str] = []

    def meanwhile(_seconds: float) -> None:
        with (
            pytest.raises(ToolError, match="is measuring"),
            cpus.measuring("one that comes later", wait=False, cpus=high),
        ):
            pass
        first.__exit__(None, None, None)

    monkeypatch.setattr(cpus.time, "sleep", meanwhile)
    with cpus.measuring("the machine", wait=True, tell=texts.append):
        assert len(texts) == 1 and "waiting for it to end" in texts[0]
