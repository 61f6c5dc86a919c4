# SPDX-License-Identifier: MIT
"""Whether fuzzing finds anything: with a rule switched off, what it kept away is found."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Callable
from typing import Any, get_args

import pytest
from fuzz_seeds import seed_runs

from benchmarks import fuzz
from benchmarks.fuzz_oracles import Place
from kdyno.report import plain
from kdyno.report.show import html as markup
from kdyno.report.show import markdown
from kdyno.store import verdict

Patch = pytest.MonkeyPatch


def no_bounds(kind: Any) -> Callable[[Patch], None]:
    """Figures of this kind of a verdict may be anything: NaN, 0, 1e308."""

    def off(patch: Patch) -> None:
        (checked,) = [it.func for it in get_args(kind)[1:]]
        ends = dict(zip(checked.__code__.co_freevars, checked.__closure__, strict=True))
        for name, anything in (("least", -math.inf), ("most", math.inf)):
            patch.setattr(ends[name], "cell_contents", anything)

    return off


def replaced(where: Any, name: str, new: Any) -> Callable[[Patch], None]:
    return lambda patch: patch.setattr(where, name, new)


def as_it_is(text: str, _limit: int = 0) -> str:
    return text


OFF: dict[str, tuple[Callable[[Patch], None], str]] = {
    "bounds of scores": (no_bounds(verdict.Score), ""),
    "bounds of ratios": (no_bounds(verdict.Ratio), ""),
    "bounds of intervals": (no_bounds(verdict.Interval), ""),
    "clean names": (replaced(plain, "_clean", as_it_is), "on the screen"),
    "clean lines": (replaced(plain, "line", as_it_is), ""),
    "escaped HTML": (replaced(markup.ENVIRONMENT, "finalize", markup.Html), "OUT.html"),
    "escaped Markdown": (replaced(markdown, "escaped", as_it_is), ".md"),
    "no links": (replaced(os, "O_NOFOLLOW", 0), "through a link"),
}
"""Rule → (how it is switched off, what the finding says)."""

SEEDS, INPUTS = (1, 2, 3, 4), 500
"""At most 500 of each seed in turn. Seen: 7 to 290 of one seed where it found anything, and once
none in 700, where the old fuzzer had found nothing of all this."""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """With one small run: others have more files, in which other things can break."""
    folder = tmp_path_factory.mktemp("fuzz")
    return Place.at(folder, {"judged": seed_runs(folder / "seeds")["judged"]})


@pytest.mark.slow
@pytest.mark.parametrize("rule", OFF)
def test_a_rule_that_is_switched_off_is_missed(rule: str, place: Place, monkeypatch: Patch) -> None:
    off, told = OFF[rule]
    off(monkeypatch)
    for number, seed in itertools.product(range(INPUTS), SEEDS):
        if found := fuzz.finding(fuzz.case_of("run", seed, number, place), place):
            assert told in found[1]
            return
    pytest.fail(f"{len(SEEDS) * INPUTS} inputs found nothing")
