# SPDX-License-Identifier: MIT
"""A real kernel, linked several times of the same objects."""

from __future__ import annotations

import subprocess
from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest
from real_guests import Image, booted, case, sample_of
from real_kernels import EXPERIMENT

from kdyno.kernels.layout import FLAG
from kdyno.measure.builder import build_all, check
from kdyno.paths import cache_root
from kdyno.verbs.subject import load

pytestmark = pytest.mark.uml


@pytest.fixture(scope="module", name="kernel")
def _kernel() -> Image:
    experiment, _ = load(EXPERIMENT)
    alone = [it for it in experiment.variants if it.name == experiment.baseline]
    measure = replace(experiment.measure, layouts=3, calibrate=False)
    experiment = replace(experiment, variants=tuple(alone), measure=measure)
    recipes = check(experiment, cache_root(), lambda _text, _part: None)
    assert FLAG in recipes.of[experiment.baseline].cflags
    return build_all(experiment, recipes, cache_root()).images[experiment.baseline]


def functions(image: Image) -> list[tuple[int, str, int]]:
    """(address, name, bytes) of the kernel's own, by address."""
    said = subprocess.run(["nm", "-S", image.kernel], capture_output=True, text=True, check=True)
    lines = [line.split() for line in said.stdout.splitlines()]
    return sorted(
        (int(it[0], 16), it[3], int(it[1], 16)) for it in lines if len(it) == 4 and it[2] in "tT"
    )


def test_every_link_boots_and_has_the_same_code_at_other_places(kernel: Image) -> None:
    images = (kernel, *kernel.links)
    assert len({it.digest for it in images}) == 4
    found = [functions(it) for it in images]
    assert len(found[0]) > 10_000
    for link in found[1:]:
        assert Counter(it[1:] for it in link) == Counter(it[1:] for it in found[0])
        here, there = ({name: at for at, name, _ in it} for it in (link, found[0]))
        moved = [name for name, at in here.items() if at != there[name]]
        assert len(moved) > 0.8 * len(here)  # all but what runs at boot only
        assert {"anon_pipe_write", "vfs_write", "schedule"} <= set(moved)
        after = {one[1]: other[1] for one, other in pairwise(link)}
        before = {one[1]: other[1] for one, other in pairwise(found[0])}
        assert sum(after[name] == before.get(name) for name in after) < 0.5 * len(after)
    for image in images:
        sample_of(booted(image, case("pipe")))
