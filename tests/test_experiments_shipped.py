# SPDX-License-Identifier: MIT
"""Every experiment that comes with kdyno loads, has cases, and has its page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kdyno.experiment.loader import Overrides, apply, load
from kdyno.kernels import recipe
from kdyno.kernels.config import wishes
from kdyno.kernels.routines.routine import of_variant
from kdyno.kernels.source import Tree
from kdyno.measure import builder
from kdyno.measure.bench import refuse_undecided
from kdyno.measure.vocabulary import vocabulary
from kdyno.suites.catalogue import load as load_suites
from kdyno.suites.job import cases_of, jobs_of

ROOT = Path(__file__).parents[1]
FILES = sorted((ROOT / "experiments").glob("*.toml"))
SUITES = load_suites()


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_it_loads_with_cases_that_its_metric_decides_and_names_its_page(file: Path) -> None:
    experiment = load(file, vocabulary(SUITES))
    assert experiment.name == file.stem and experiment.question.endswith("?")
    for quick in (False, True):
        chosen = apply(Overrides(quick=quick), experiment)
        cases, jobs = cases_of(chosen, SUITES), jobs_of(chosen, SUITES)
        assert len(cases) == len(jobs) > 0
        assert not any("{jobs}" in text for job in jobs for text in job.args)
    refuse_undecided(experiment, cases_of(experiment, SUITES))
    page = re.search(r"See (docs/\S+\.md)", file.read_text())
    assert page, f"{file.name} names no page"
    assert (ROOT / page[1]).read_text().startswith("<!-- SPDX-License-Identifier: MIT -->")


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_its_kernels_differ_and_share_compilations_with_all_others(file: Path) -> None:
    experiment = load(file, vocabulary(SUITES))
    mistakes = experiment.mistakes()
    builder._check_twins(experiment, mistakes)
    assert not mistakes.paths
    signed = Tree(ROOT, "digest", "signed", "7.3.4", origin="")
    for one in experiment.variants:
        routines = of_variant(one.memcpy, one.routines)
        assert recipe.foreign_parts(one, signed, routines, wishes(one.config)) == set(), one.name


def test_the_crossed_experiment_has_the_cells_that_its_page_tells() -> None:
    experiment = load(ROOT / "experiments" / "smp-preemption.toml", vocabulary(SUITES))
    assert [variant.name for variant in experiment.variants] == [
        "off+voluntary", "off+full", "on+voluntary", "on+full",
    ]  # fmt: skip
    names = [case.name for case in cases_of(experiment, SUITES)]
    assert names[:4] == ["lib@1", "lib@2", "lib@4", "lib@8"]
    assert all("@" not in name for name in names[4:])


def test_word_sizes_differ_where_they_are_the_question() -> None:
    experiment = load(ROOT / "experiments" / "kernel-32-64.toml", vocabulary(SUITES))
    archs = {variant.name: (variant.arch, variant.program_bits) for variant in experiment.variants}
    assert archs == {"32-bit": ("i386", 32), "64-bit": ("x86_64", 32)}
    suites = [case.suite for case in cases_of(experiment, SUITES)]
    assert (suites.count("xbench"), suites.count("tiobench")) == (28, 4)
