# SPDX-License-Identifier: MIT
"""What the SIMD laboratory gives, and costs, in real kernels (about 12 minutes, builds aside).

    python -m benchmarks.kernels [--boots 8] [--seconds 4] [--minutes 4] [--json FILE]

At the same work, by gprof: memcpy's seconds and all of the UML kernel's own with the variant `best`
of experiments/simd-gprof.toml, against stock's. And how much slower a kernel is that counts its
copies, in its worst case. Nothing else should run on the machine meanwhile.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.speed import Figure, finish, options
from kdyno.paths import data_root

EXPERIMENTS = data_root() / "experiments"
MOST_OF_MEMCPY, MOST_OF_ALL = 0.5, 0.9
MOST_SLOWDOWN = 2.0


def result_of(*words: str) -> Any:
    """What a verb of kdyno writes by --json; its progress goes where ours goes."""
    with tempfile.TemporaryDirectory(prefix="kdyno-kernels-") as folder:
        file = Path(folder) / "result.json"
        command = [sys.executable, "-m", "kdyno", *words, "--json", str(file)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return json.loads(file.read_bytes())


def in_the_kernel(boots: int, seconds: float) -> list[Figure]:
    words = ("--variant", "best", "--boots", str(boots), "--seconds", str(seconds))
    result = result_of("profile", str(EXPERIMENTS / "simd-gprof.toml"), *words)
    (best,) = result["differences"]
    memcpy = next(row for row in best["functions"] if row["function"] == "memcpy")
    return [
        _share("memcpy's seconds, best ÷ stock", memcpy, MOST_OF_MEMCPY),
        _share("the UML kernel's own seconds", best["where"]["kernel"], MOST_OF_ALL),
    ]


def _share(name: str, function: Any, most: float) -> Figure:
    relative = function["relative"]
    ends = relative["ci"]
    how = "no interval"
    if ends is not None:
        how = f"95 %: {1 + ends[0]:.3f} … {1 + ends[1]:.3f}"
    # Without an interval that leaves "the same" out, nothing is shown.
    value = 1 + relative["mean"] if ends is not None and ends[1] < 0 else 1.0
    return Figure(name, value, "×", most, how=how)


def slowdown(minutes: float) -> Figure:
    words = ("--max-minutes", str(minutes))
    result = result_of("run", str(EXPERIMENTS / "count-copies.toml"), *words)
    worst = max(result["effects"], key=lambda row: _slower(row, row["ratio"]))
    ends = sorted(_slower(worst, end) for end in worst["ci"])
    how = f"{worst['case']}; 95 %: {ends[0]:.2f} … {ends[1]:.2f}"
    name = "a kernel that counts its copies, slower"
    return Figure(name, _slower(worst, worst["ratio"]), "×", MOST_SLOWDOWN, how=how)


def _slower(effect: Any, ratio: float) -> float:
    return 1 / ratio if effect["better"] == "higher" else ratio


if __name__ == "__main__":
    given = options(__doc__, boots=8, seconds=4.0, minutes=4.0)
    rows = [*in_the_kernel(given.boots, given.seconds), slowdown(given.minutes)]
    sys.exit(finish(rows, given.json))
