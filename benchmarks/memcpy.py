# SPDX-License-Identifier: MIT
"""The memory routines' figures, as ratios within one run: ``python -m benchmarks.memcpy``.

Two minutes: sizes 1 … 64 KiB in L1, fixed and drawn, and the measured distribution. A kernel source
must lie in the cache for memcpy_orig. Nothing else should run on the machine meanwhile.
"""

from __future__ import annotations

import sys

from benchmarks.figure import result_of
from kdyno.labs.memcpy.results import Bench, goals
from kdyno.labs.memcpy.tables import figures_text

if __name__ == "__main__":
    bench = Bench.model_validate(result_of("lab", "memcpy", "bench", "--figures"))
    print(figures_text(bench), end="")
    figures = goals(bench)
    sys.exit(0 if figures and all(goal.met for goal in figures) else 1)
