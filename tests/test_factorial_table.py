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
from test_experiment import DATA

from kdyno.errors import UsageError
from kdyno.experiment.loader import parse
from kdyno.experiment.model import Experiment, Vocabulary
from kdyno.judge.judging import family_of
from kdyno.judge.pairs import Question
from kdyno.report import tables
from kdyno.report.exporters import exporter
from kdyno.report.sentence import worded
from kdyno.report.terminal import text
from kdyno.stats.verdict import Claim
from kdyno.store.manifest import CaseInfo
from kdyno.store.samples import Samples
from kdyno.store.verdict import FactorTable, Verdict
from kdyno.suites.catalogue import Case, Suite
from kdyno.suites.job import cases_of

WORDS = Vocabulary(
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
HEAD = 'name = "x"\nbaseline = "off"\n[kernel]\nsource = "kernel.org:7.3"\n'
SMP = '[factor.smp]\noff = {}\non = { config = ["smp"] }\n'


def parsed(body: str, suites: str = '[[suite]]\nname = "build"\ncases = ["whole"]\n') -> Experiment:
    return parse(HEAD + body + suites, "x.toml", DATA, WORDS)


def test_a_list_is_a_factor_of_cases_and_costs_no_kernel() -> None:
    experiment = parsed("[factor]\njobs = [1, 4]\n" + SMP)
    assert [variant.name for variant in experiment.variants] == ["off", "on"]
    assert [(use.cases, use.settings, use.levels) for use in experiment.suites] == [
        (("whole",), (("jobs", "1"),), (("jobs", "1"),)),
        (("whole",), (("jobs", "4"),), (("jobs", "4"),)),
    ]
    cells = cases_of(experiment, SUITES)
    assert [(case.name, case.of, case.args) for case in cells] == [
        ("whole@1", "whole", ("-j1", "{}")),
        ("whole@4", "whole", ("-j4", "{}")),
    ]


def test_cases_without_the_setting_are_measured_once() -> None:
    experiment = parsed(
        "[factor]\njobs = [1, 4]\n" + SMP,
        '[[suite]]\nname = "build"\n[[suite]]\nname = "unixbench"\ncases = ["pipe"]\n',
    )
    names = [case.name for case in cases_of(experiment, SUITES)]
    assert names == ["whole@1", "lib@1", "whole@4", "lib@4", "pipe"]


def test_a_level_may_choose_a_case() -> None:
    experiment = parsed(
        SMP + '[factor.block]\n256 = { case = "fscopy-256" }\n4096 = { case = "fscopy-4096" }\n',
        '[[suite]]\nname = "unixbench"\n',
    )
    cells = {case.name: (case.of, case.levels) for case in cases_of(experiment, SUITES)}
    assert cells == {
        "pipe": ("", ()),
        "fscopy-256": ("fscopy-*", (("block", "256"),)),
        "fscopy-4096": ("fscopy-*", (("block", "4096"),)),
    }


def test_the_users_own_command_has_settings_too() -> None:
    experiment = parsed(
        "[factor]\nn = [1, 2]\n" + SMP,
        "[[suite]]\nname = 'run'\ncommand = \"sort --parallel={n} {}\"\n",
    )
    assert [use.name_in_run("sort") for use in experiment.suites] == ["sort@1", "sort@2"]


def test_cpus_are_a_factor_of_the_kernels_side() -> None:
    head = HEAD.replace('"off"', '"1"')
    body = "[factor]\ncpus = [1, 2]\n[[suite]]\nname = 'build'\n"
    experiment = parse(head + body, "x.toml", DATA, WORDS)
    assert [(it.name, it.cpus) for it in experiment.variants] == [("1", 1), ("2", 2)]
    assert experiment.cpus == 2


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("[factor.smp]\noff = {}\n", "two levels or more, this has 1"),
        ("[factor]\njobs = [4]\n" + SMP, "two levels or more, this has 1"),
        ("[factor]\njobs = [4, 4]\n" + SMP, "two levels or more, this has 1"),
        ("[factor]\njosb = [1, 4]\n" + SMP, "no case of this experiment has a setting josb.*jobs"),
        (SMP + "[factor.x]\na = { set = { jobs = 1 } }\nb = { cpus = 2 }\n", "cannot be mixed"),
        (
            SMP + "[factor.x]\na = { set = { jobs = true } }\nb = { set = { jobs = 2 } }\n",
            "true or",
        ),
        (
            SMP + "[factor.x]\na = { set = { 'Jobs!' = 1 } }\nb = { set = { jobs = 2 } }\n",
            "not a setting",
        ),
        (SMP + "[factor.x]\na = { case = 'whole' }\nb = { case = 'lib' }\n", "not a case that a"),
        (SMP + "[factor.x]\na = { case = 'hole' }\nb = { case = 'wlib' }\n", "changes nothing"),
    ],
)
def test_factors_that_cannot_be(body: str, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        parsed(body)


def test_many_variants_with_factors_are_a_factor_themselves() -> None:
    experiment = parse(
        HEAD.replace('"off"', '"a+off"') + "[variant.a]\n[variant.b]\n" + SMP
        + "[[suite]]\nname = 'build'\n", "x.toml", DATA, WORDS,
    )  # fmt: skip
    assert experiment.variants[3].levels == (("variant", "b"), ("smp", "on"))


JOBS = ("1", "2", "8")


def planted(blocks: int = 16, lost: tuple[str, ...] = ()) -> tuple[Samples, Question]:
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
    question = Question(
        experiment="x", text="?", baseline=variants[0], variants=tuple(variants[1:]), copy=None,
        cases=cases, confidence=0.95, equivalent=0.01, precision=0.005,
        levels={
            name: tuple(zip(("smp", "preempt"), name.split("+"), strict=True)) for name in variants
        },
    )  # fmt: skip
    boots = Counter({variant: blocks for variant in variants})
    return Samples(scores=scores, boots=boots, blocks=blocks), question


def factor_table(
    data: Samples, question: Question, beside: Sequence[Claim] = ()
) -> FactorTable | None:
    return family_of(data, question, {}, beside)[2]


def test_the_table_says_what_was_planted() -> None:
    table = factor_table(*planted())
    assert table is not None and table.missing == ()
    assert table.summary == ()
    assert table.factors == {"smp": ("off", "on"), "preempt": ("none", "full"), "jobs": JOBS}
    assert tables.summary_of_factors(table, 0.01) == (
        "build/whole: smp on: −47.0 % time at jobs ≥ 2, nothing at jobs 1",
        "build/whole: preempt full: nothing (±1 %)",
        "build/whole: jobs 2: −47.0 % time at smp on, nothing at smp off",
        "build/whole: jobs 8: −47.0 % time at smp on, nothing at smp off",
    )
    at = {it.at: it for it in table.effects if it.kind == "conditional" and it.other == "jobs"
          and it.factor == "smp"}  # fmt: skip
    assert at["2"].ratio == pytest.approx(0.53, rel=0.01) and at["2"].averaged == 2
    assert (at["1"].verdict, at["2"].verdict, at["8"].verdict) == ("equivalent", "faster", "faster")


def test_six_blocks_are_enough_for_a_table() -> None:
    for blocks, decided in ((5, False), (6, True)):
        table = factor_table(*planted(blocks))
        assert table is not None
        assert any(it.ci is not None for it in table.effects) == decided


def test_table_and_effects_are_one_family() -> None:
    alone = factor_table(*planted(8))
    noise = np.random.default_rng(1).normal(0, 0.01, (200, 8))
    among = factor_table(*planted(8), [Claim(row, "higher") for row in noise])
    assert alone is not None and among is not None
    widths = [[it.ci[1] / it.ci[0] for it in table.effects if it.ci] for table in (alone, among)]
    assert np.mean(widths[1]) > np.mean(widths[0])


def test_what_is_said_of_several_cases_is_said_once() -> None:
    data, question = planted(blocks=3)
    twins = [
        case.model_copy(update={"case": case.case.replace("whole", "lib"), "of": "lib"})
        for case in question.cases
    ]
    scores = {
        (suite, case.replace("whole", "lib"), variant): found
        for (suite, case, variant), found in data.scores.items()
    }
    both = dataclasses.replace(data, scores={**data.scores, **scores})
    table = factor_table(both, dataclasses.replace(question, cases=(*question.cases, *twins)))
    assert table is not None
    assert tables.summary_of_factors(table, 0.01)[0] == "build: smp on: undecided, in whole and lib"


def test_a_lost_cell_is_named() -> None:
    table = factor_table(*planted(lost=("on+full",)))
    assert table is not None
    assert len(table.missing) == 3
    assert table.missing[0].startswith(
        "the cell smp=on, preempt=full, jobs=1 is missing (no score)"
    )
    main = table.effects[0]
    assert (main.factor, main.averaged, main.left_out) == ("smp", 3, 3)


def test_one_factor_alone_has_no_table() -> None:
    data, question = planted()
    cases = tuple(case.model_copy(update={"levels": {}, "of": ""}) for case in question.cases[:1])
    levels = {name: pairs[:1] for name, pairs in question.levels.items()}
    assert factor_table(data, dataclasses.replace(question, cases=cases, levels=levels)) is None


def test_the_table_is_shown_and_stored() -> None:
    table = factor_table(*planted())
    verdict = worded(
        Verdict(experiment="x", baseline="off+none", boots={"off+none": 16}, factors=table)
    )
    assert Verdict.from_json(verdict.to_json()) == verdict
    shown = text(verdict, 100)
    assert "smp on: −47.0 % time at jobs ≥ 2, nothing at jobs 1" in shown
    row = next(line for line in shown.splitlines() if line.strip().startswith("at jobs 2"))
    assert "−47.0 %" in row and "faster" in row
    page = exporter("markdown").export(verdict)
    assert "### Factors" in page and "| &nbsp;&nbsp;at jobs 2 | −47.0 % |" in page
    assert max(map(len, text(verdict, 60).splitlines())) <= 60
    assert [row[0].depth for row in tables.factors(verdict)[0].rows][:2] == [0, 1]
