# SPDX-License-Identifier: MIT
"""How long the loop goes on for the table of factors, and for a first interval."""

from __future__ import annotations

import dataclasses
import math
from itertools import product
from pathlib import Path

import pytest
from fake_run import bench, boots_of, measured, steady

from kdyno.judge.judging import verdict_of
from kdyno.judge.question import Question

FACTORS = {"smp": ("off", "on"), "preempt": ("none", "full")}


@pytest.mark.parametrize("way", ["boots", "turns"])
def test_precision_ends_a_run_when_its_factors_can_have_intervals(tmp_path: Path, way: str) -> None:
    names = tuple("+".join(levels) for levels in product(*FACTORS.values()))
    speeds = {name: 1.1 if name.startswith("on") else 1.0 for name in names}
    made = bench(steady(speeds), names, max_boots=40, min_boots=2, precision=0.5)
    crossed = tuple(
        dataclasses.replace(it, levels=tuple(zip(FACTORS, it.name.split("+"), strict=True)))
        for it in made.experiment.variants
    )
    made = dataclasses.replace(
        made,
        experiment=dataclasses.replace(made.experiment, variants=crossed),
        variants={it.name: it for it in crossed},
    )
    run, why = measured(made, tmp_path, way)
    assert why == "precision reached"
    # Six blocks have intervals, whatever the number of rows; four fifths of eight are seven.
    assert len(boots_of(run)) == 8 * len(names)
    table = verdict_of(run, Question.of(run.manifest()), "").factors
    assert table is not None and len(table.effects) == 7
    assert all(it.ci is not None for it in table.effects)


def test_the_last_blocks_without_which_nothing_has_an_interval_are_finished(
    tmp_path: Path,
) -> None:
    def blocks_in(minutes: float) -> tuple[int, float]:
        made = bench(steady({"stock": 1.0, "mine": 1.1}), max_boots=1000, max_minutes=minutes)
        run, _ = measured(made, tmp_path / f"{minutes}", "boots")
        boots = boots_of(run)
        spent_s = sum(boot.host.wall_s or math.nan for boot in boots)
        blocks = len({boot.block for boot in boots})
        return blocks, spent_s / blocks / 60

    _, block = blocks_in(0.2)
    assert blocks_in(5.4 * block)[0] == 6
    assert blocks_in(3.4 * block)[0] == 3
    assert blocks_in(7.4 * block)[0] == 7
