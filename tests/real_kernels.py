# SPDX-License-Identifier: MIT
"""The kernels that the tests marked `uml` boot: built once, into the user's own cache."""

from __future__ import annotations

from pathlib import Path

from kdyno.measure.builder import Built

EXPERIMENT = Path(__file__).parent / "uml" / "umask.toml"
EVERYTHING = EXPERIMENT.with_name("everything.toml")


def built_kernels(file: Path = EXPERIMENT) -> Built:
    from kdyno.measure.builder import build_all, check
    from kdyno.paths import cache_root
    from kdyno.verbs.subject import load

    experiment, _ = load(file)
    recipes = check(experiment, cache_root(), lambda _text, _part: None)
    return build_all(experiment, recipes, cache_root())
