# SPDX-License-Identifier: MIT
"""What the SIMD laboratory gives, and costs, in real kernels (about 12 minutes, builds aside).

    python -m benchmarks.kernels [--boots 8] [--seconds 4] [--minutes 4] [--json FILE]

At the same work, by gprof: memcpy's seconds and all of the UML kernel's own with the variant `best`
of experiments/simd-gprof.toml, against stock's. And how much slower a kernel is that counts its
copies, in its worst case. Nothing else should run on the machine meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from benchmarks.figure import Figure, main, result_of
from kdyno.paths import data_root

EXPERIMENTS = data_root() / "experiments"


def in_the_kernel(request: Any) -> Iterator[Figure]:
    words = ("--variant", "best", "--boots", request.boots, "--seconds", request.seconds)
    result = result_of("profile", EXPERIMENTS / "simd-gprof.toml", *words)
    (best,) = result["differences"]
    memcpy = next(row for row in best["functions"] if row["function"] == "memcpy")
    for name, function, most in (
        ("memcpy's seconds, best ÷ stock", memcpy, 0.5),
        ("the UML kernel's own seconds", best["where"]["kernel"], 0.9),
    ):
        relative = function["relative"]
        low, high = relative["ci"] or (0.0, 0.0)
        # Without an interval that leaves "the same" out, nothing is shown.
        value = 1 + relative["mean"] if high < 0 else 1.0
        yield Figure(name, value, "×", most, how=f"95 %: {1 + low:.3f} … {1 + high:.3f}")


def slowdown(request: Any) -> Iterator[Figure]:
    words = ("--max-minutes", request.minutes)
    result = result_of("run", EXPERIMENTS / "count-copies.toml", *words)

    def slower(effect: Any, ratio: float) -> float:
        return 1 / ratio if effect["better"] == "higher" else ratio

    worst = max(result["effects"], key=lambda row: slower(row, row["ratio"]))
    low, high = sorted(slower(worst, end) for end in worst["ci"])
    how = f"{worst['case']}; 95 %: {low:.2f} … {high:.2f}"
    value = slower(worst, worst["ratio"])
    yield Figure("a kernel that counts its copies, slower", value, "×", 2.0, how=how)


if __name__ == "__main__":
    main(__doc__, in_the_kernel, slowdown, boots=8, seconds=4.0, minutes=4.0)
