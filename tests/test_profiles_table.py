# SPDX-License-Identifier: MIT
"""Profiles on disk, and the differences of two, on values."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdyno.errors import ToolError, UsageError
from kdyno.labs.profile.record import (
    FunctionTime,
    Profile,
    ProfiledBoot,
    Stack,
    from_bytes,
    read_profile,
    to_json,
)
from kdyno.labs.profile.tables import difference, rows, total
from kdyno.stats.effect import difference_of, mean_of, relative

MEMCPY = (0.40, 0.42, 0.38, 0.41, 0.39, 0.40)
WORK = {"unixbench/pipe": 1000}


def boot(block: int, memcpy_s: float, cpu_s: float | None = 5.0) -> ProfiledBoot:
    found = (
        FunctionTime("kernel", "memcpy", memcpy_s),
        FunctionTime("kernel", "vfs_read", 0.1, 12345),
        FunctionTime("host", "futex", 0.5),
    )
    return ProfiledBoot(block, cpu_s, found)


def profile(name: str, seconds: tuple[float, ...], saved_s: float = 0.0) -> Profile:
    boots = tuple(boot(number, it, 5.0 - saved_s) for number, it in enumerate(seconds))
    stacks = (Stack("kernel", ("UML kernel", "memcpy"), 0.4),)
    return Profile(name, "perf", "cpu-clock", "abc", WORK, boots, stacks, ("a note",))


STOCK = profile("stock", MEMCPY)
HALF = profile("mine", tuple(it / 2 for it in MEMCPY), saved_s=0.3)


def test_json_and_back(tmp_path: Path) -> None:
    file = tmp_path / "stock.json"
    file.write_text(to_json(STOCK))
    assert read_profile(file) == STOCK
    assert json.loads(file.read_text())["schema"] == 1


@pytest.mark.parametrize(
    ("before", "after", "word"),
    [
        ('"schema": 1', '"schema": 2', "schema"),
        ('"perf"', '"top"', "method"),
        ('"where": "kernel"', '"where": "moon"', "where"),
        ('"seconds": 0.4', '"seconds": -1', "seconds"),
        ('"seconds": 0.4', '"seconds": NaN', ""),
        ('"block": 1', '"block": 0', "twice"),
        ('"calls": 12345', '"calls": 1.5', "calls"),
    ],
)
def test_damage_is_told_with_its_place(before: str, after: str, word: str) -> None:
    text = to_json(STOCK)
    assert before in text
    with pytest.raises(ToolError, match=rf"p\.json: damaged.*{word}"):
        from_bytes(text.replace(before, after).encode(), Path("p.json"))


@given(st.integers(0, 4000), st.binary(max_size=4))
def test_any_damage_is_read_or_refused(at: int, garbage: bytes) -> None:
    data = to_json(STOCK).encode()
    try:
        from_bytes(data[:at] + garbage + data[at + len(garbage) :], Path("p.json"))
    except ToolError as problem:
        assert "p.json" in str(problem)


def test_a_missing_file_is_no_traceback(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="No such file"):
        read_profile(tmp_path / "none.json")


def test_seconds_share_and_interval() -> None:
    table = {it.function: it for it in rows(STOCK)}
    assert [it.function for it in rows(STOCK)] == ["futex", "memcpy", "vfs_read"]
    assert table["memcpy"].seconds.mean == pytest.approx(0.4)
    assert table["memcpy"].share == pytest.approx(0.4)
    # Student's t with 5 degrees of freedom at 97.5 %: 2.5706.
    half = 2.570582 * math.sqrt(0.001 / 5) / math.sqrt(6)
    assert table["memcpy"].seconds.hi == pytest.approx(0.4 + half, rel=1e-5)
    assert table["vfs_read"].calls == 12345 and table["memcpy"].calls is None
    assert table["vfs_read"].seconds.hi is None  # no spread, nothing to judge by
    assert total(STOCK).mean == pytest.approx(1.0)


def test_a_difference_adds_up() -> None:
    found = difference(STOCK, HALF)
    first = found.changes[0]
    assert (first.where, first.function) == ("kernel", "memcpy")
    assert first.delta.mean == pytest.approx(-0.2) and first.delta.clear
    assert first.relative is not None and first.relative.mean == pytest.approx(-0.5)
    assert found.sampled.delta.mean == pytest.approx(-0.2)
    assert found.sampled.delta.mean == pytest.approx(sum(it.delta.mean for it in found.changes))
    assert found.measured is not None and found.measured.delta.mean == pytest.approx(-0.3)
    assert found.unexplained_s == pytest.approx(-0.1)
    assert sum(it.delta.mean for it in found.changes if it.delta.clear) == pytest.approx(-0.2)
    by = {it.where: it.delta.mean for it in found.by_where}
    assert by == {"kernel": pytest.approx(-0.2), "host": pytest.approx(0.0)}


def test_a_function_seen_in_one_kernel_only_counts_as_none_in_the_other() -> None:
    bare = Profile("bare", "perf", "cpu-clock", "", WORK, (ProfiledBoot(0, None, ()),))
    found = difference(STOCK, bare)
    assert found.measured is None and found.unexplained_s is None
    memcpy = next(it for it in found.changes if it.function == "memcpy")
    assert memcpy.variant_s == 0 and memcpy.delta.n == 1 and memcpy.delta.lo is None


def test_profiles_of_different_work_are_refused() -> None:
    from dataclasses import replace

    with pytest.raises(UsageError, match="work"):
        difference(STOCK, replace(HALF, operations={"unixbench/pipe": 1001}))
    with pytest.raises(UsageError, match="method"):
        difference(STOCK, replace(HALF, method="gprof"))


def test_additive_estimates() -> None:
    assert mean_of([]).n == 0
    assert mean_of([1.0] * 5).lo is None
    with pytest.raises(ValueError, match="finite"):
        mean_of([1.0, math.nan])
    # Only blocks that both have.
    found = difference_of({0: 1.0, 1: 2.0, 7: 9.0}, {0: 1.5, 1: 2.5})
    assert found.n == 2 and found.mean == pytest.approx(0.5)
    assert relative({0: 0.0}, {0: 1.0}) is None


@given(st.lists(st.floats(0, 1e6), min_size=6, max_size=30))
def test_the_interval_holds_the_mean(values: list[float]) -> None:
    found = mean_of(values)
    if found.lo is not None and found.hi is not None:
        assert found.lo <= found.mean <= found.hi
