# SPDX-License-Identifier: MIT
"""The memory routines' figures, as ratios within one run: ``python -m benchmarks.memcpy``.

Two minutes: sizes 1 … 64 KiB in L1, fixed and drawn, and the measured distribution. A kernel source
must lie in the cache for memcpy_orig. Nothing else should run on the machine meanwhile.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from kdyno.labs.memcpy.results import goals, read_bench
from kdyno.labs.memcpy.tables import figures_text

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "bench.json"
        words = ["lab", "memcpy", "bench", "--figures", "--json", str(file)]
        command = [sys.executable, "-m", "kdyno", *words]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        bench = read_bench(file)
    print(figures_text(bench, None), end="")
    figures = goals(bench, None)
    sys.exit(0 if figures and all(goal.met for goal in figures) else 1)
