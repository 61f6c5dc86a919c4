# SPDX-License-Identifier: MIT
"""Whole runs on the machine in memory: the loop as it is, no kernel, no waiting."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fake_machine import FakeMachine, Fault, Rule

from kdyno.experiment.model import Experiment, Machine, Measure, SuiteUse, Variant
from kdyno.judge.judging import verdict_of
from kdyno.machines.cpus import place
from kdyno.measure.bench import Bench, Equipment
from kdyno.measure.execution import asked_of
from kdyno.measure.loop import Loop, Past, Status
from kdyno.store.boot import BootRecord
from kdyno.store.manifest import CaseInfo, Criteria, Manifest, VariantInfo
from kdyno.store.run import Run, create_run, open_run, write_run
from kdyno.store.verdict import Verdict
from kdyno.suites.catalogue import Case
from kdyno.suites.job import CaseJob

PIPE = Case("s", "pipe", "a pipe", "loops/s", "higher", "pipe")
LONG = Case("s", "long", "a program", "s", "lower", "run")
"""An operation of a tenth of a second: handed over by freezing."""
PRINTED = Case("s", "printed", "says its own figure", "MB/s", "higher", "run", figure="([0-9.]+)")


def steady(speeds: Mapping[str, float]) -> Rule:
    """A variant's speed against 1; an operation is 5 µs, of ``long`` a tenth of a second."""

    def each_s(variant: str, case: str, _now_s: float) -> float:
        return (0.1 if case == "long" else 5e-6) / speeds.get(variant, 1.0)

    return each_s


def bench(
    rule: Rule,
    variants: Sequence[str] = ("stock", "mine", "other"),
    cases: Sequence[Case] = (PIPE,),
    faults: Mapping[str, Mapping[int, Fault]] | None = None,
    lacking: Mapping[str, str] | None = None,
    **measure: object,
) -> Bench:
    given: dict[str, Any] = {"max_boots": 8, "precision": 1e-9, "seed": 7, **measure}
    given.setdefault("min_boots", given["max_boots"] + 1)  # what is made up has no spread
    experiment = Experiment(
        name="made-up",
        question="Is it?",
        baseline=variants[0],
        variants=tuple(Variant(name, "") for name in variants),
        suites=(SuiteUse("s", tuple(case.name for case in cases)),),
        machine=Machine(),
        measure=Measure(**given),
        text="",
    )
    return Bench(
        experiment=experiment,
        machine=FakeMachine(rule, faults or {}),
        variants={variant.name: variant for variant in experiment.variants},
        cases=tuple(cases),
        jobs=tuple(CaseJob(case.suite, case.name, case.bench, seconds=0.05) for case in cases),
        placement=place(1),
        equipment=Equipment(lacking or {}),
    )


def machine_of(setup: Bench) -> FakeMachine:
    assert isinstance(setup.machine, FakeMachine)
    return setup.machine


def manifest_of(setup: Bench, interleave: str = "turns") -> Manifest:
    return Manifest(
        tool="0",
        created="2026-01-01T00:00:00",
        experiment=setup.experiment.name,
        baseline=setup.experiment.baseline,
        seed=setup.experiment.measure.seed or 0,
        images={name: setup.machine.identity(name) for name in setup.variants},
        cases=setup.infos,
        **asked_of(setup.experiment),
        interleave=interleave,  # type: ignore[arg-type]
    )


def asking(
    cases: Iterable[CaseInfo],
    baseline: str = "stock",
    others: Sequence[str] = ("mine",),
    levels: Mapping[str, dict[str, str]] | None = None,
    **criteria: Any,
) -> Manifest:
    """What is judged of a run, and no more."""
    names = (baseline, *others)
    return Manifest(
        tool="0",
        created="2026-01-01T00:00:00",
        experiment="x",
        baseline=baseline,
        seed=0,
        cases=tuple(cases),
        variants={name: VariantInfo(levels=(levels or {}).get(name, {})) for name in names},
        asked=Criteria(**criteria),
    )


def measured(
    setup: Bench, runs: Path, interleave: str = "turns", show: list[Status] | None = None
) -> tuple[Run, str]:
    """A new run, and why it stopped."""
    manifest = manifest_of(setup, interleave)
    with create_run(runs, "", manifest) as writer:
        loop = Loop(setup, writer, manifest, (show if show is not None else []).append)
        why = loop.run()
        return writer.run, why


def resumed(setup: Bench, run: Run) -> str:
    manifest = open_run(run.path).manifest()
    with write_run(run.path) as writer:
        past = Past()
        for boot in writer.run.boots():
            past.add(boot)
        return Loop(setup, writer, manifest, lambda _status: None, past).run()


def boots_of(run: Run) -> list[BootRecord]:
    return [boot for boot in run.boots() if isinstance(boot, BootRecord)]


def judged(run: Run, stopped: str = "") -> Verdict:
    return verdict_of(run, run.manifest(), stopped)


def texts_of(verdict: Verdict, kind: str) -> list[str]:
    return [flag.text for flag in verdict.flags if flag.kind == kind]
