# SPDX-License-Identifier: MIT
"""An experiment of very many kernels is asked about, with its number and its hours."""

from __future__ import annotations

import dataclasses

import pytest
from test_experiment import DATA, VOCABULARY

from kdyno.errors import UsageError
from kdyno.experiment.loader import Overrides, apply, parse
from kdyno.experiment.model import Experiment
from kdyno.measure.execution import kernels_of, measure_s, question, too_short
from kdyno.verbs.subject import consent


def crossed(factors: int, key: str = 'config = ["CONFIG_X{i}=y"]', more: str = "") -> Experiment:
    """A cross of 2^factors kernels."""
    levels = "\n".join(
        f"[factor.f{i}]\nno{i} = {{}}\nyes{i} = {{ {key.format(i=i)} }}" for i in range(factors)
    )
    baseline = "+".join(f"no{i}" for i in range(factors))
    return parse(
        f'name = "x"\nbaseline = "{baseline}"\n[kernel]\nsource = "kernel.org:7.3"\n{levels}\n'
        f"[[suite]]\nname = 'unixbench'\ncases = ['pipe', 'context1']\nseconds = 0.5\n"
        f"[measure]\nmax_boots = 30\n{more}",
        "x.toml", DATA, VOCABULARY,
    )  # fmt: skip


def test_hours_by_hand_and_more_than_64_variants_are_asked_about() -> None:
    assert kernels_of(crossed(7)) == 128
    assert measure_s(crossed(7)) == pytest.approx(128 * 30 * (0.3 + 1.4 * 2 * 0.5))
    assert measure_s(crossed(7, more="max_minutes = 30")) == 1800
    # Command lines and CPUs need no kernel of their own.
    assert kernels_of(crossed(7, 'cmdline = "a{i}"')) == 1
    assert question(crossed(6)) is None
    assert question(crossed(7)) == (
        "x has 128 variants (128 kernels to build): up to 8.5 hours of building and 1.8 hours or "
        "more of measuring"
    )


def test_nobody_there_to_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: False)
    with pytest.raises(UsageError, match=r"128 variants .*--yes"):
        consent(crossed(7), yes=False)
    consent(crossed(7), yes=True)
    name = "yes0+" + "+".join(f"no{i}" for i in range(1, 7))
    consent(apply(Overrides(variants=(name,)), crossed(7)), yes=False)


@pytest.mark.slow
def test_5000_cells_load_so_that_they_can_be_asked_about() -> None:
    assert len(crossed(12).variants) == 4096
    with pytest.raises(UsageError, match="16384 variants; at most 10000"):
        crossed(14)


def test_a_budget_that_ends_before_the_first_interval_is_said_before_the_run() -> None:
    # Eight variants, two cases of 0.25 s: six blocks of 8 s.
    assert too_short(crossed(3, more="max_minutes = 1")) is None
    assert too_short(crossed(3, more="max_minutes = 0.5")) == (
        "max_minutes = 0.5 may end before the first interval: 6 boots of each variant take 0.8 "
        "minutes or more. max_minutes = 1, or 1 cases instead of 2 (--case), would do"
    )
    few = crossed(3, more="min_boots = 2").measure
    assert few.max_boots == 30
    short = dataclasses.replace(
        crossed(3), measure=dataclasses.replace(few, max_boots=5, max_minutes=None)
    )
    assert too_short(short) == (
        "max_boots = 5 ends before the first interval, which takes 6 boots of each variant: every "
        "effect will be inconclusive"
    )
