# SPDX-License-Identifier: MIT
"""What a vectorisation survey costs: its build, record and checks against a plain build.

    python -m benchmarks.survey [--flags avx2] [--json FILE]      (two whole builds, 10 minutes)

Both start from nothing in a cache of their own, so without the compile cache's help; the survey
comes second, with the source's files in memory as for the first.
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from benchmarks.speed import EXPERIMENT, Figure, finish, options, timed
from kdyno.experiment.model import Variant
from kdyno.kernels.build import build
from kdyno.kernels.source import fetch, parse
from kdyno.labs.vectorize import survey as surveying
from kdyno.labs.vectorize.survey import flag_set
from kdyno.paths import cache_root
from kdyno.verbs.subject import load

MOST = 1.3


def survey_cost(name: str = "avx2") -> Figure:
    """Seconds of the survey ÷ seconds of a plain build of the same kernel with the same flags."""
    experiment, _ = load(EXPERIMENT)
    base: Variant = next(
        variant for variant in experiment.variants if variant.name == experiment.baseline
    )
    flags = flag_set(name)
    tree = fetch(parse(base.source), cache_root(), lambda _text, _part: None)
    (recipe,) = surveying.check(replace(base, cflags=""), (flags,), tree)
    with tempfile.TemporaryDirectory(dir=cache_root(), prefix="bench-") as folder:
        plain, surveyed = Path(folder) / "plain", Path(folder) / "surveyed"
        plain_s = timed(lambda: build(recipe, plain, name=name, from_scratch=True))
        survey_s = timed(lambda: surveying.survey(base, (flags,), (recipe,), surveyed))
    how = f"{survey_s:.0f} s ÷ {plain_s:.0f} s"
    title = f"vectorisation survey ÷ plain build ({name})"
    return Figure(title, survey_s / plain_s, "×", MOST, how=how)


if __name__ == "__main__":
    given = options(__doc__, flags="avx2")
    sys.exit(finish([survey_cost(given.flags)], given.json))
