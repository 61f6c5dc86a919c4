# SPDX-License-Identifier: MIT
"""What a model refuses, told with line, key, what was found and the nearest right word."""

from __future__ import annotations

import tomllib
from typing import Literal

import pytest
from pydantic import Field

from kdyno.errors import UsageError
from kdyno.reading.checked import FromFile, check


class Part(FromFile):
    word: Literal["fast", "slow"] = "fast"
    start: int = Field(default=0, alias="from", ge=0)


class Whole(FromFile):
    name: str
    part: list[Part] = Field(default_factory=list)
    named: dict[str, Part] = Field(default_factory=dict)


def told(text: str) -> str:
    with pytest.raises(UsageError) as refused:
        check(Whole, tomllib.loads(text), "x.toml", text, "see the docs")
    return str(refused.value)


def test_what_is_right_passes() -> None:
    text = 'name = "x"\n[[part]]\nfrom = 3\n'
    assert check(Whole, tomllib.loads(text), "x.toml").part[0].start == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "x.toml: name: is missing; see the docs"),
        ("name = 7\n", "x.toml:1: name: 7, an integer, is given, but text is expected; "
         "see the docs"),
        (
            'name = "x"\n[[part]]\nwrod = "fast"\n',
            'x.toml:3: part[1].wrod: unknown key. Did you mean "word"? Allowed: word, from; '
            "see the docs",
        ),
        (
            'name = "x"\n[named.a]\nword = "fest"\n',
            'x.toml:3: named.a.word: "fest" is not known. Did you mean "fast"? '
            "Allowed: fast, slow; see the docs",
        ),
        (
            'name = "x"\n[named.a]\nstart = 1\n',
            "x.toml:3: named.a.start: unknown key. Allowed: word, from; see the docs",
        ),
        (
            'name = "x"\n[[part]]\nfrom = -1\n',
            "x.toml:3: part[1].from: -1 should be greater than or equal to 0; see the docs",
        ),
        ('name = "x"\npart = 1.5\n', "x.toml:2: part: 1.5, a number, is given, but an array "
         "is expected; see the docs"),
    ],
)  # fmt: skip
def test_one_mistake(text: str, message: str) -> None:
    assert told(text) == message


def test_all_mistakes_at_once_in_the_order_of_the_file() -> None:
    lines = told('name = true\n[[part]]\nword = "fast"\n[[part]]\nword = "sloww"\n').splitlines()
    assert lines[0] == "x.toml: 2 mistakes; see the docs"
    assert lines[1].startswith("  x.toml:1: name: true") and lines[2].startswith(
        "  x.toml:5: part[2]"
    )


def test_a_thousand_mistakes_are_cut() -> None:
    text = "\n".join(f"k{number} = 1" for number in range(3000))
    assert len(told(text).splitlines()) < 60
