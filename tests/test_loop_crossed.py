# SPDX-License-Identifier: MIT
"""The loop where kernels are crossed: how long it goes on for the table of factors."""

from __future__ import annotations

import dataclasses
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
