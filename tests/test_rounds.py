# SPDX-License-Identifier: MIT
"""The order in which guests of a group take turns."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest

from kdyno.measure.turns import orders, why_whole
from kdyno.suites.catalogue import load


def test_positions_in_rounds_are_balanced_and_follow_from_the_seed() -> None:
    names = ("a", "b", "c", "d")
    made = orders("7:0:s/pipe", names)
    first = [next(made) for _ in range(40)]
    again = orders("7:0:s/pipe", names)
    assert first == [next(again) for _ in range(40)]
    assert first != [next(orders("8:0:s/pipe", names)) for _ in range(40)]
    for position in range(4):
        assert Counter(order[position] for order in first) == dict.fromkeys(names, 10)
    assert len(set(first)) > 8


@pytest.mark.parametrize("names", ["ab", "abc", "abcd", "abcdefg"])
def test_each_follows_on_each_and_on_itself_as_often(names: str) -> None:
    """So who makes the next one slower does so to all alike."""
    made = orders("1", list(names))
    rounds_of = 4000 * len(names)
    turns = [name for _ in range(rounds_of) for name in next(made)]
    pairs = Counter(pairwise(turns))
    for before in names:
        for after in names:
            assert pairs[before, after] == pytest.approx(rounds_of / len(names), rel=0.1)


def test_what_of_each_suite_is_measured_whole() -> None:
    """As the table of docs/how-it-measures.md says."""
    whole = {
        name: sorted(case.name for case in suite.cases if why_whole(case))
        for name, suite in load().items()
    }
    cases = {name: sorted(case.name for case in suite.cases) for name, suite in load().items()}
    for name in (
        "unixbench",
        "xbench",
        "run",
        "kernel-compile",
        "make",
        "apachebench",
        "hackbench",
    ):
        assert whole[name] == [], name
    for name in ("fio", "tiobench", "sysbench", "stress-ng"):
        assert whole[name] == cases[name], name
    assert set(cases["perf-bench"]) - set(whole["perf-bench"]) == {"sched-messaging"}


def test_a_disk_that_nothing_is_known_of_takes_no_turns() -> None:
    item = load()["xbench"].case("disk.random.write_4k")
    unknown = replace(item, work="")
    assert why_whole(item) == ""
    assert "what the program says" in why_whole(unknown)
    assert "goes on writing" in why_whole(replace(unknown, figure=None))
