# SPDX-License-Identifier: MIT
"""Guests in QEMU that take turns, paused by its monitor: as under KVM, but emulated."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from real_kernels import built_kernels

from kdyno.experiment.model import SuiteUse
from kdyno.measure import turns
from kdyno.measure.bench import Bench, bench_of
from kdyno.paths import cache_root
from kdyno.verbs.subject import load

EXPERIMENT = Path(__file__).with_name("known.toml")
NAMES = ("stock", "pipe-41")
LOOP = "i=0; while [ $i -lt 20 ]; do cat /proc/version >/dev/null; i=$((i+1)); done"
pytestmark = [pytest.mark.qemu, pytest.mark.uml, pytest.mark.needs("qemu-system-x86_64")]


@pytest.fixture
def bench() -> Bench:
    experiment, suites = load(EXPERIMENT)
    experiment = dataclasses.replace(
        experiment,
        suites=(
            SuiteUse("unixbench", ("pipe",), 0.05),
            SuiteUse("run", ("loop",), 0.2, command=("sh", "-c", LOOP)),
        ),
        machine=dataclasses.replace(experiment.machine, accel="tcg"),
        measure=dataclasses.replace(experiment.measure, metric="time"),
    )
    images = built_kernels(EXPERIMENT).images
    return bench_of(experiment, suites, images, None, cache_root(), lambda _text: None)


def test_guests_take_turns_and_those_that_are_frozen_stand_still(bench: Bench) -> None:
    effort = {("unixbench", "pipe"): 0.05, ("run", "loop"): 0.2}
    found = turns.measure(bench, NAMES, "1:0", first_index=0, block=0, draw=7, effort=effort)
    boots = [record for record, _ in found]
    for boot in boots:
        assert boot.ok, boot.host
        assert [sample.interleave for sample in boot.samples] == ["turns", "frozen"]
        assert "chardev=monitor,mode=control" in boot.job.command
    for ours, theirs in zip(boots[0].samples, boots[1].samples, strict=True):
        assert [done for done, _ in ours.reps] == [done for done, _ in theirs.reps]
    assert [flag.kind for flag in bench.caveats()] == ["emulated-time"]
