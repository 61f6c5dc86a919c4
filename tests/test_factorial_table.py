# SPDX-License-Identifier: MIT
"""From an experiment's factors to the table: loading, cells of cases, judging, showing."""

from __future__ import annotations

import dataclasses
import math
import random
from collections import Counter
from collections.abc import Sequence
from itertools import product

import numpy as np
import pytest
from fake_run import asking
from on_screen import text
from test_experiment import DATA
from vocabularies import knowing

from kdyno.experiment.loader import parse
from kdyno.experiment.model import Experiment
from kdyno.judge.factors import Cell, Contrast, Cross, Row, rows_of
from kdyno.judge.judging import family_of
from kdyno.judge.pairs import Pair
from kdyno.report import tables
from kdyno.report.sentence import worded
from kdyno.stats.verdict import Judgement, judge
from kdyno.store.manifest import CaseInfo, Manifest
from kdyno.store.samples import Samples
from kdyno.store.verdict import FactorTable, Verdict
from kdyno.suites.catalogue import Case, Suite
from kdyno.suites.job import cases_of

WORDS = knowing(
    suites={"build": ("whole", "lib"), "unixbench": ("pipe", "fscopy-256", "fscopy-4096")},
    settings={"build": {"whole": ("jobs",), "lib": ("jobs",)}},
    fragment_dirs=(DATA / "fragments",),
)
SUITES = {
    name: Suite(
        name,
        "help",
        tuple(Case(name, case, "help", "s", "lower", "run", ("-j{jobs}", "{}")) for case in cases),
    )
    for name, cases in WORDS.suites.items()
}
SMP = '[factor.smp]\noff = {}\non = { config = ["smp"] }\n'


def parsed(body: str, baseline: str = "off") -> Experiment:
    head = f'name = "x"\nbaseline = "{baseline}"\n[kernel]\nsource = "kernel.org:7.3"\n'
    return parse(head + body, "x.toml", DATA, WORDS)


BUILD = '[[suite]]\nname = "build"\ncases = ["whole"]\n'
UNIX = '[[suite]]\nname = "unixbench"\n'
JOBS_14 = "[factor]\njobs = [1, 4]\n" + SMP
BLOCK = '[factor.block]\n256 = { case = "fscopy-256" }\n4096 = { case = "fscopy-4096" }\n'


@pytest.mark.parametrize(
    ("body", "cells"),
    [
        # A list is a factor of cases.
        (JOBS_14 + BUILD, ["whole@1 -j1 of whole", "whole@4 -j4 of whole"]),
        # Cases without the setting are measured once.
        (JOBS_14 + BUILD + f'{UNIX}cases = ["pipe"]\n',
         ["whole@1 -j1 of whole", "whole@4 -j4 of whole", "pipe -j{jobs} of "]),
        # A level may choose a case.
        (SMP + BLOCK + UNIX, ["pipe -j{jobs} of ", "fscopy-256 -j{jobs} of fscopy-*",
                              "fscopy-4096 -j{jobs} of fscopy-*"]),
    ],
    ids=["list", "once", "case"],
)  # fmt: skip
def test_factors_of_cases_cost_no_kernel(body: str, cells: list[str]) -> None:
    experiment = parsed(body)
    assert [variant.name for variant in experiment.variants] == ["off", "on"]
    cases = cases_of(experiment, SUITES)
    assert [f"{case.name} {case.args[0]} of {case.of}" for case in cases] == cells
    assert {case.levels[0][1] for case in cases if case.of} in ({"1", "4"}, {"256", "4096"})


def test_the_users_own_command_has_settings_too() -> None:
    body = "[factor]\nn = [1, 2]\n" + SMP
    experiment = parsed(body + "[[suite]]\nname = 'run'\ncommand = \"sort --parallel={n} {}\"\n")
    assert [use.name_in_run("sort") for use in experiment.suites] == ["sort@1", "sort@2"]


def test_factors_of_kernels() -> None:
    experiment = parsed("[factor]\ncpus = [1, 2]\n" + BUILD, "1")
    assert [(variant.name, variant.cpus) for variant in experiment.variants] == [("1", 1), ("2", 2)]
    assert experiment.cpus == 2
    # Many variants are a factor themselves.
    crossed = parsed("[variant.a]\n[variant.b]\n" + SMP + BUILD, "a+off")
    assert crossed.variants[3].levels == (("variant", "b"), ("smp", "on"))


JOBS = ("1", "2", "8")


def planted(blocks: int = 16, lost: tuple[str, ...] = ()) -> tuple[Samples, Manifest]:
    """smp: 47 % less time from two jobs on; preempt: nothing anywhere."""
    noise = random.Random(7)
    variants = [f"{smp}+{preempt}" for smp, preempt in product(("off", "on"), ("none", "full"))]
    scores: dict[tuple[str, str, str], dict[int, float]] = {}
    for variant, jobs, block in product(variants, JOBS, range(blocks)):
        value = 100.0 * (1 + 0.05 * math.sin(block)) * math.exp(noise.gauss(0, 0.002))
        if variant.startswith("on") and jobs != "1":
            value *= 0.53
        if variant not in lost:
            scores.setdefault(("build", f"whole@{jobs}", variant), {})[block] = value
    cases = tuple(
        CaseInfo(
            suite="build", case=f"whole@{jobs}", unit="s", better="lower", of="whole",
            levels={"jobs": jobs},
        )
        for jobs in JOBS
    )  # fmt: skip
    levels = {
        name: dict(zip(("smp", "preempt"), name.split("+"), strict=True)) for name in variants
    }
    manifest = asking(cases, variants[0], variants[1:], levels)
    boots = Counter({variant: blocks for variant in variants})
    return Samples(scores=scores, boots=boots, blocks=blocks), manifest


def factor_table(data: Samples, manifest: Manifest, beside: Sequence[Pair] = ()) -> FactorTable:
    table = family_of(data, manifest, {}, beside)[2]
    assert table is not None
    return table


def test_the_table_says_what_was_planted() -> None:
    table = factor_table(*planted())
    assert table.missing == table.summary == ()
    assert table.factors == {"smp": ("off", "on"), "preempt": ("none", "full"), "jobs": JOBS}
    assert tables.summary_of_factors(table, 0.01) == (
        "build/whole: smp on: −47.0 % time at jobs ≥ 2, nothing at jobs 1",
        "build/whole: preempt full: nothing (±1 %)",
        "build/whole: jobs 2: −47.0 % time at smp on, nothing at smp off",
        "build/whole: jobs 8: −47.0 % time at smp on, nothing at smp off",
    )
    rows = [effect for effect in table.effects if effect.kind == "conditional"]
    at = {row.at: row for row in rows if row.other == "jobs" and row.factor == "smp"}
    assert at["2"].ratio == pytest.approx(0.53, rel=0.01) and at["2"].averaged == 2
    assert (at["1"].verdict, at["2"].verdict, at["8"].verdict) == ("equivalent", "faster", "faster")
    verdict = Verdict(experiment="x", baseline="off+none", boots={"off+none": 16}, factors=table)
    assert max(map(len, text(worded(verdict), 60).splitlines())) <= 60


def test_six_blocks_are_enough_for_a_table() -> None:
    for blocks, decided in ((5, False), (6, True)):
        effects = factor_table(*planted(blocks)).effects
        assert any(effect.ci is not None for effect in effects) == decided


@pytest.mark.slow
def test_table_and_effects_are_one_family() -> None:
    alone = factor_table(*planted(8))
    noise, (data, manifest) = np.random.default_rng(1), planted(8)
    cases = [CaseInfo(suite="x", case=f"{n}", unit="s", better="lower") for n in range(200)]
    for name, case in product((manifest.baseline, "other"), cases):
        own = np.exp(noise.normal(0, 0.007, 8))
        data.scores[*case.key, name] = dict(enumerate(own.tolist()))
    beside = [Pair(data, manifest, case, "other") for case in cases]
    among = factor_table(data, manifest, beside)
    widths = [
        [effect.ci[1] / effect.ci[0] for effect in table.effects if effect.ci]
        for table in (alone, among)
    ]
    assert np.mean(widths[1]) > np.mean(widths[0])


def test_what_is_said_of_several_cases_is_said_once() -> None:
    data, manifest = planted(blocks=3)
    twins = [
        case.model_copy(update={"case": case.case.replace("whole", "lib"), "of": "lib"})
        for case in manifest.cases
    ]
    scores = {
        (suite, case.replace("whole", "lib"), variant): score
        for (suite, case, variant), score in data.scores.items()
    }
    both = dataclasses.replace(data, scores={**data.scores, **scores})
    table = factor_table(both, manifest.model_copy(update={"cases": (*manifest.cases, *twins)}))
    (first, *_) = tables.summary_of_factors(table, 0.01)
    assert first == "build: smp on: undecided, in whole and lib"


def test_a_lost_cell_is_named() -> None:
    table = factor_table(*planted(lost=("on+full",)))
    assert len(table.missing) == 3
    assert table.missing[0].startswith(
        "the cell smp=on, preempt=full, jobs=1 is missing (no score)"
    )
    main = table.effects[0]
    assert (main.factor, main.averaged, main.left_out) == ("smp", 3, 3)


def test_one_factor_alone_has_no_table() -> None:
    data, manifest = planted()
    cases = tuple(case.model_copy(update={"levels": {}, "of": ""}) for case in manifest.cases[:1])
    levels = {name: {"smp": variant.levels["smp"]} for name, variant in manifest.variants.items()}
    one = asking(cases, manifest.baseline, manifest.others, levels)
    assert family_of(data, one, {})[2] is None


# Contrasts of crossed factors: planted effects come back, missing cells are no effects.


CELLS = tuple(product(range(2), range(3)))
LEVELS = {"smp": ("off", "on"), "jobs": ("1", "2", "8")}
CASE = CaseInfo(suite="build", case="whole", unit="s", better="lower")


def logs(blocks: int = 16, spread: float = 0.004, seed: int = 1) -> dict[Cell, np.ndarray]:
    """smp makes it 47 % shorter, but only from the second level of jobs on."""
    rng = np.random.default_rng(seed)
    drift = np.cumsum(rng.normal(0, 0.02, blocks))
    cells = {}
    for smp, jobs in CELLS:
        true = math.log(100.0) + (math.log(0.53) if smp and jobs else 0.0) + 0.01 * jobs
        cells[smp, jobs] = true + drift + rng.normal(0, spread, blocks)
    return cells


def cross(cells: dict[Cell, np.ndarray]) -> Cross:
    blocks = max((len(own) for own in cells.values()), default=0)
    nothing = dict.fromkeys(CELLS, np.full(blocks, np.nan))
    return Cross(CASE, "whole", LEVELS, nothing | cells)


def judged(
    *crosses: dict[Cell, np.ndarray], equivalent: float = 0.01
) -> dict[Contrast, tuple[Row, Judgement]]:
    """Of the first one, in one family with the others."""
    rows = rows_of([cross(cells) for cells in crosses])
    pairs = zip(rows, judge([row.claim for row in rows], equivalent), strict=True)
    return {row.contrast: (row, each) for row, each in reversed(list(pairs))}


def test_every_contrast_of_a_cross_of_two_by_three() -> None:
    assert cross({}).contrasts() == [
        Contrast("main", 0, 1),
        *(Contrast("conditional", 0, 1, 1, at) for at in range(3)),
        *(Contrast("interaction", 0, 1, 1, at) for at in (1, 2)),
        Contrast("main", 1, 1),
        *(Contrast("conditional", 1, 1, 0, at) for at in range(2)),
        Contrast("main", 1, 2),
        *(Contrast("conditional", 1, 2, 0, at) for at in range(2)),
    ]


@pytest.mark.parametrize(
    ("contrast", "doublings"),
    [
        (Contrast("main", 0, 1), 1.0),  # 0, 1 and 2 doublings
        (Contrast("conditional", 0, 1, 1, 2), 2.0),
        (Contrast("interaction", 0, 1, 1, 2), 2.0),
        (Contrast("main", 1, 1), 1.5),
        (Contrast("conditional", 1, 2, 0, 0), 2.0),
        (Contrast("conditional", 1, 2, 0, 1), 4.0),
    ],
)
def test_contrasts_by_hand_in_one_block(contrast: Contrast, doublings: float) -> None:
    cells = {(smp, jobs): np.array([math.log(2.0) * (smp * jobs + jobs)]) for smp, jobs in CELLS}
    ratios, _used, lost = cross(cells).differences(contrast)
    assert ratios == pytest.approx([doublings * math.log(2.0)])
    assert lost == 0


def test_planted_effects_come_back() -> None:
    rows = judged(logs(), equivalent=0.02)
    assert rows[Contrast("conditional", 0, 1, 1, 0)][1].word == "equivalent"
    for jobs in (1, 2):
        _, there = rows[Contrast("conditional", 0, 1, 1, jobs)]
        assert there.word == "faster" and there.ci is not None
        assert there.ci[0] < 0.53 < there.ci[1] and there.ci[1] - there.ci[0] < 0.02
        assert rows[Contrast("interaction", 0, 1, 1, jobs)][1].word == "faster"
    _, main = rows[Contrast("main", 0, 1)]
    assert main.effect.ratio == pytest.approx(0.53 ** (2 / 3), rel=0.01)
    # Drift of the blocks cancels.
    _, main = judged(logs(spread=1e-9))[Contrast("main", 0, 1)]
    assert main.effect.ratio == pytest.approx(0.53 ** (2 / 3), rel=1e-6)


def test_a_missing_cell_is_named_and_is_no_effect() -> None:
    cells = logs(spread=1e-6)
    del cells[1, 2]
    assert cross(cells).missing == {(1, 2): 0}
    rows = judged(cells)
    row, main = rows[Contrast("main", 0, 1)]
    # The jobs level that has no smp cell counts on neither side.
    assert main.effect.ratio == pytest.approx(0.53**0.5, rel=1e-3)
    assert (row.strata, row.lost) == (2, 1)
    assert Contrast("conditional", 0, 1, 1, 2) not in rows
    assert Contrast("interaction", 0, 1, 1, 2) not in rows
    row, jobs = rows[Contrast("main", 1, 2)]
    assert jobs.effect.ratio == pytest.approx(math.exp(0.02), rel=1e-3)
    assert (row.strata, row.lost) == (1, 1)


def test_missing_blocks() -> None:
    cells = logs()
    cells[1, 1][5] = np.nan  # a failed boot costs its block only
    assert {each.effect.n for _, each in judged(cells).values()} == {15, 16}
    # A cell with few blocks does not take the others' blocks away.
    cells[1, 1] = np.where(np.arange(16) < 3, cells[1, 1], np.nan)
    assert cross(cells).missing == {(1, 1): 3}
    assert judged(cells)[Contrast("main", 0, 1)][1].effect.n == 16
    assert judged({}) == {}
    few = [each for _, each in judged(logs(blocks=4)).values()]
    assert {(each.word, each.ci) for each in few} == {("inconclusive", None)}


@pytest.mark.slow
def test_false_alarms_of_a_whole_table_stay_rare() -> None:
    alarms = 0
    experiments = 300
    for seed in range(experiments):
        rng = np.random.default_rng(seed)
        cells = {cell: rng.standard_t(3, 12) * 0.01 for cell in CELLS}
        alarms += any(each.moved for _, each in judged(cells).values())
    # 5 % are allowed; three standard errors above for 300 experiments.
    assert alarms / experiments <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / experiments)


def test_all_crosses_share_one_correction() -> None:
    alone, together = judged(logs()), judged(logs(), logs(seed=2))
    for contrast, (_, one) in alone.items():
        two = together[contrast][1]
        assert one.effect == two.effect
        assert one.ci is not None and two.ci is not None and two.ci[1] >= one.ci[1] * (1 - 1e-4)
