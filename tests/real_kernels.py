# SPDX-License-Identifier: MIT
"""The kernels that the tests marked `uml` boot: built once, into the user's own cache."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kdyno.measure.builder import Built

EXPERIMENT = Path(__file__).parent / "uml" / "umask.toml"
EVERYTHING = EXPERIMENT.with_name("everything.toml")


def built_kernels(file: Path = EXPERIMENT) -> Built:
    """The images of an experiment."""
    from kdyno.measure.builder import build_all, check
    from kdyno.paths import cache_root
    from kdyno.verbs.options import load

    experiment, _ = load(file)
    recipes = check(experiment, cache_root(), lambda _text, _part: None)
    return build_all(experiment, recipes, cache_root())


def built_or_skipped(file: Path, variable: str, what: str) -> Built:
    """Images that take too long for the hour that all tests have: those that are not built already
    are built where the environment has ``variable``.

    what: what they are and cost, for the list of skips.
    """
    from kdyno.measure.builder import check
    from kdyno.paths import cache_root
    from kdyno.verbs.options import load

    experiment, _ = load(file)
    recipes = check(experiment, cache_root(), lambda _text, _part: None).of.values()
    there = all((cache_root() / "images" / recipe.digest).is_dir() for recipe in recipes)
    if not there and not os.environ.get(variable):
        pytest.skip(f"{what}: set {variable}=1")
    return built_kernels(file)
