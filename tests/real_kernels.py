# SPDX-License-Identifier: MIT
"""The kernels that the tests marked `uml` boot: built once, into the user's own cache."""

from __future__ import annotations

from pathlib import Path

from kdyno.lab.builder import Built

EXPERIMENT = Path(__file__).parent / "uml" / "umask.toml"


def built_kernels(file: Path = EXPERIMENT) -> Built:
    """The images of an experiment."""
    from kdyno.cli.session import load
    from kdyno.lab.builder import build_all, check
    from kdyno.paths import cache_root

    experiment, _ = load(file)
    recipes = check(experiment, cache_root(), lambda _text, _part: None)
    return build_all(experiment, recipes, cache_root())
