# SPDX-License-Identifier: MIT
"""The machine's measuring lock: who holds it."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Any

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


def refused(message: str = "is measuring on this machine", **more: Any) -> None:
    with pytest.raises(ToolError, match=message), cpus.measuring("it", wait=False, **more):
        pass


@pytest.mark.parametrize("mine", [None, frozenset({0})])
@pytest.mark.parametrize("other", [None, frozenset({0})])
def test_two_containers_that_share_a_cache(
    monkeypatch: pytest.MonkeyPatch, mine: frozenset[int] | None, other: frozenset[int] | None
) -> None:
    """The sockets of the one are not seen in the other."""
    monkeypatch.setattr(cpus, "_bound", lambda *_: True)
    monkeypatch.setattr(cpus, "_sockets", list)
    with cpus.measuring("a", wait=False, cpus=other):
        refused(r"another kdyno, which locks .*, is measuring", cpus=mine)
    with cpus.measuring("b", wait=False, cpus=mine):
        pass


def test_one_at_a_time_or_on_cpus_of_ones_own() -> None:
    low, high, odd = frozenset({0, 2}), frozenset({4, 6}), frozenset({2, 4})
    with cpus.measuring("the machine", wait=False):
        refused(rf"another kdyno \(process {os.getpid()}\) is measuring .* have it wait")
        refused(cpus=low)
    with cpus.measuring("a", wait=False, cpus=low), cpus.measuring("b", wait=False, cpus=high):
        for other in (odd, None):
            refused(cpus=other)
    for other in (odd, None):
        with cpus.measuring("it", wait=False, cpus=other):
            pass


def test_who_waits_for_the_machine_is_next(monkeypatch: pytest.MonkeyPatch) -> None:
    first = cpus.measuring("a", wait=False, cpus=frozenset({0}))
    first.__enter__()
    texts: list[str] = []

    def meanwhile(_seconds: float) -> None:
        refused("is measuring", cpus=frozenset({1}))
        first.__exit__(None, None, None)

    monkeypatch.setattr(cpus.time, "sleep", meanwhile)
    with cpus.measuring("the machine", wait=True, tell=texts.append):
        assert len(texts) == 1 and "waiting for it to end" in texts[0]
