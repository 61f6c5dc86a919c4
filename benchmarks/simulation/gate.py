# SPDX-License-Identifier: MIT
"""The history of a branch behind a gate: what of the changes that it stops is as fast as before.

Each change is a run of blocks with several effects; in a slow one the first effect is. It is
judged alone, by a second run that has to confirm the first, and by both at the level that LORD++
leaves.

    python -m benchmarks.simulation.gate
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from kdyno.stats.family import Family
from kdyno.stats.stopping import SHARE_FOR_VERDICTS
from kdyno.stats.verdict import adjusted, lord_level

EFFECTS, BLOCKS = 6, 24
SLOWER, SD = 0.02, 0.012


@dataclass(frozen=True)
class Gate:
    """Of one way to decide, over all branches."""

    stopped: float
    """Of the changes that are as fast as before, the share that is stopped."""
    false_discoveries: float
    """Of the changes that are stopped, the share that is as fast; mean over branches, 0 of none."""
    power: float
    """Of the slow changes, the share that is stopped."""


def least_p(rng: Generator, slow: np.ndarray) -> np.ndarray:
    """For each change the least corrected p-value of its effects that look slower."""
    ratios = SD * rng.standard_normal((len(slow), EFFECTS, BLOCKS))
    ratios[:, 0] -= SLOWER * slow[:, None]
    least = []
    family = Family(ratios)
    for own, middles in zip(family.p_values(), family.estimate, strict=True):
        levels = np.minimum(1.0, np.array(adjusted(list(own))) / SHARE_FOR_VERDICTS)
        least.append(float(np.min(np.where(middles < 0, levels, 1.0))))
    return np.array(least)


def branch(share: float, changes: int, branches: int, seed: int) -> tuple[Gate, Gate, Gate]:
    """(one run, two runs, two runs in a history) where ``share`` of the changes is slower."""
    rng = np.random.default_rng([seed, int(1000 * share)])
    counts: list[list[tuple[float, float, float]]] = [[], [], []]
    for _ in range(branches):
        slow = rng.random(changes) < share
        first, second = least_p(rng, slow), least_p(rng, slow)
        alone = first <= 0.05
        # Close to what the gate does, which wants the same effect to be slower in both.
        both = alone & (second <= 0.05)
        history: list[bool] = []
        for p_value in np.maximum(first, second) ** 2:
            history.append(bool(p_value <= min(0.05**2, lord_level(history))))
        for own, stopped in zip(counts, (alone, both, np.array(history)), strict=True):
            power = stopped[slow].mean() if slow.any() else np.nan
            false = stopped[~slow].sum() / max(1, stopped.sum())
            own.append((stopped[~slow].mean(), false, power))
    one, two, three = (Gate(*np.mean(own, axis=0)) for own in counts)
    return one, two, three


def main() -> None:
    """In per cent, over 200 branches of 300 changes."""
    print("| slow changes | gate | fast ones stopped | false among stopped | slow ones stopped |")
    for share in (0.0, 0.02, 0.1, 0.3):
        gates = branch(share, 300, 200, 20261123)
        for name, gate in zip(("one run", "--confirm", "and --history"), gates, strict=True):
            cells = (f"{100 * share:.2f}" for share in vars(gate).values())
            print(f"| {100 * share:g} | {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
