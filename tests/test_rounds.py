# SPDX-License-Identifier: MIT
"""The order in which guests of a group take turns."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest

from kdyno.measure.rounds import orders


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
