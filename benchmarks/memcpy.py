# SPDX-License-Identifier: MIT
"""The memory routines' figures, as ratios within one run (about two minutes).

    python -m benchmarks.memcpy [--quick] [--routine NAME] [--from FILE] [--json FILE]

Sizes 1 … 64 KiB in L1, fixed and drawn, and the measured distribution. A kernel source must lie in
the cache for memcpy_orig. Nothing else should run on the machine meanwhile.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from kdyno.kernels.routines.routine import list_routines
from kdyno.labs.memcpy.results import goals, read_bench
from kdyno.labs.memcpy.tables import figures_text
from kdyno.reading.mistakes import among


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--routine")
    parser.add_argument("--from", dest="given", type=Path)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    names = [routine.name for routine in list_routines()]
    if asked.given is None and asked.routine not in (None, *names):
        parser.error(f"--routine {asked.routine}: no such routine{among(asked.routine, names)}")
    with tempfile.TemporaryDirectory() as folder:
        file = asked.given
        if file is None:
            file = Path(folder) / "bench.json"
            words = ["memcpy", "bench", "--quick" if asked.quick else "--figures"]
            command = [sys.executable, "-m", "kdyno", *words, "--json", str(file)]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        bench = read_bench(file)
    timed = [it.name for it in bench.timed]
    if asked.routine not in (None, *timed):
        parser.error(f"--routine {asked.routine} was not timed{among(asked.routine, timed)}")
    print(figures_text(bench, asked.routine), end="")
    found = goals(bench, asked.routine)
    if asked.json:
        asked.json.write_text(json.dumps([asdict(it) | {"met": it.met} for it in found]))
    return 0 if found and all(it.met for it in found) else 1


if __name__ == "__main__":
    sys.exit(main())
