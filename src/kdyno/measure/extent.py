# SPDX-License-Identifier: MIT
"""How large an experiment is, before anything of it is built."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from kdyno.experiment.model import Experiment

ASK_ABOVE = 64
"""Variants beyond which a run is asked about first."""
BUILD_S = 240.0
"""A whole kernel on two cores; one that shares most of its objects is quicker."""
BOOT_S = 0.3
"""Start and power-off of a guest."""
CASE_SHARE = 1.4
"""Calibration and warm-up on top of a case's measured seconds."""


@dataclass(frozen=True)
class Extent:
    variants: int
    kernels: int
    """Different images among them."""
    build_hours: float
    """If none of them is in the cache."""
    measure_hours: float
    """At least: a case that runs a program takes as long as the program does."""

    @property
    def text(self) -> str:
        return (
            f"{self.variants} variants ({self.kernels} kernels to build): up to "
            f"{self.build_hours:.1f} hours of building and {self.measure_hours:.1f} hours or more "
            "of measuring"
        )


def extent(experiment: Experiment) -> Extent:
    """The predicted extent of ``experiment``, overrides applied."""
    images = {
        dataclasses.replace(it, name="", levels=(), cmdline="", sysctl=(), cpus=None)
        for it in experiment.variants
    }
    variants = len(experiment.variants) + experiment.measure.calibrate
    boot_s = BOOT_S + CASE_SHARE * sum(use.seconds * len(use.cases) for use in experiment.suites)
    measure_s = variants * experiment.measure.max_boots * boot_s
    if experiment.measure.max_minutes is not None:
        measure_s = min(measure_s, 60 * experiment.measure.max_minutes)
    return Extent(variants, len(images), len(images) * BUILD_S / 3600, measure_s / 3600)


def question(experiment: Experiment) -> str | None:
    """What to ask before a very large experiment; None for one that needs no asking."""
    found = extent(experiment)
    return f"{experiment.name} has {found.text}" if found.variants > ASK_ABOVE else None
