# SPDX-License-Identifier: MIT
"""What a vectorisation survey costs: its build, record and checks against a plain build.

    python -m benchmarks.survey [--flags avx2] [--json FILE]      (two whole builds, 10 minutes)

Both start from nothing in a cache of their own, so without the compile cache's help; the survey
comes second, with the source's files in memory as for the first.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.figure import Figure, main, timed
from kdyno.kernels.build import build
from kdyno.kernels.source import fetch, parse
from kdyno.labs.vectorize import survey as surveying
from kdyno.labs.vectorize.survey import flag_set
from kdyno.paths import cache_root, data_root
from kdyno.verbs.subject import load


def survey(request: Any) -> Iterator[Figure]:
    """Seconds of the survey ÷ seconds of a plain build of the same kernel with the same flags."""
    experiment, _ = load(data_root() / "experiments" / "simd-memcpy.toml")
    base = next(one for one in experiment.variants if one.name == experiment.baseline)
    flags = flag_set(request.flags)
    tree = fetch(parse(base.source), cache_root(), lambda _text, _part: None)
    (recipe,) = surveying.check(replace(base, cflags=""), (flags,), tree)
    with tempfile.TemporaryDirectory(dir=cache_root(), prefix="bench-") as folder:
        plain, surveyed = Path(folder) / "plain", Path(folder) / "surveyed"
        plain_s = timed(lambda: build(recipe, plain, name=request.flags, from_scratch=True))
        survey_s = timed(lambda: surveying.survey(base, (flags,), (recipe,), surveyed))
    title = f"vectorisation survey ÷ plain build ({request.flags})"
    yield Figure(title, survey_s / plain_s, "×", 1.3, how=f"{survey_s:.0f} s ÷ {plain_s:.0f} s")


if __name__ == "__main__":
    main(__doc__, survey, flags="avx2")
