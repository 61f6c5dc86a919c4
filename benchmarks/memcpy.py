# SPDX-License-Identifier: MIT
"""The memory routines' figures, as ratios within one run (about two minutes).

    python -m benchmarks.memcpy [--quick] [--routine NAME] [--from FILE]

Sizes 1 … 64 KiB in L1, fixed and drawn, and the measured distribution. A kernel source must lie in
the cache for memcpy_orig. Nothing else should run on the machine meanwhile.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from kdyno.labs.memcpy.results import goals, read_bench
from kdyno.labs.memcpy.tables import figures_text
from kdyno.reading.mistakes import among


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--routine")
    parser.add_argument("--from", dest="earlier", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        file = options.earlier or Path(folder) / "bench.json"
        if options.earlier is None:
            words = ["lab", "memcpy", "bench", "--quick" if options.quick else "--figures"]
            command = [sys.executable, "-m", "kdyno", *words, "--json", str(file)]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        bench = read_bench(file)
    timed = [each.name for each in bench.timed]
    if options.routine not in (None, *timed):
        parser.error(f"--routine {options.routine} was not timed{among(options.routine, timed)}")
    print(figures_text(bench, options.routine), end="")
    figures = goals(bench, options.routine)
    return 0 if figures and all(goal.met for goal in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
