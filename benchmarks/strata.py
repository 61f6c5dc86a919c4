# SPDX-License-Identifier: MIT
"""Runs on several machines, simulated: ``python -m benchmarks.strata [--experiments N]``.

Each experiment has 2 to 16 machines with 6 to 20 groups each (the fast ones have more), whose noise
differs by up to 8 times. Of it are counted: false alarms and coverage of the common effect, false
alarms of ``differs-by-machine``, beside those that Cochran's Q would give, and how often machines
that do differ are told. About a minute.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.random import Generator

from benchmarks.speed import Figure, finish
from kdyno.stats.effect import Floats, effect_of_differences
from kdyno.stats.groups import heterogeneity

MACHINES = (2, 4, 8, 16)
UNEQUAL = 8.0
"""The noisiest machine's standard deviation ÷ the calmest one's, at most."""
CALM = 0.003
"""Standard deviation of a group's log ratio on the calmest machine."""
APART = 0.01
"""Standard deviation of the effect from machine to machine, where they differ."""

Law = Callable[[Generator, int], Floats]
LAWS: dict[str, Law] = {
    "normal": lambda dice, n: dice.normal(size=n),
    "Student's t with 3 degrees": lambda dice, n: dice.standard_t(3, size=n),
    "normal, one group in 20 far off": lambda dice, n: (
        dice.normal(size=n) + dice.choice([-4.0, 0.0, 4.0], size=n, p=[0.025, 0.95, 0.025])
    ),
}


@dataclass(frozen=True)
class Shares:
    """Of experiments."""

    false_alarms: float
    covered: float
    differs: float
    differs_by_q: float


def simulated(law: Law, machines: int, experiments: int, apart: float, dice: Generator) -> Shares:
    """Log ratios throughout; the true effect is 0, or that of these machines together."""
    alarms = covered = differs = by_q = 0
    for _ in range(experiments):
        spreads = CALM * np.exp(dice.uniform(0.0, np.log(UNEQUAL), machines))
        sizes = dice.integers(6, 21, machines)
        effects = dice.normal(0.0, apart, machines) if apart else np.zeros(machines)
        found = [
            effect + spread * law(dice, size)
            for effect, spread, size in zip(effects, spreads, sizes, strict=True)
        ]
        truth = float(np.average(effects, weights=sizes))
        whole = effect_of_differences(np.concatenate(found))
        assert whole.lo is not None and whole.hi is not None
        alarms += not whole.lo <= 1.0 <= whole.hi
        covered += whole.lo <= np.exp(truth) <= whole.hi
        told = heterogeneity(found)
        differs += told is not None and told.p_value <= 0.05
        by_q += cochran(found) <= 0.05
    return Shares(*(it / experiments for it in (alarms, covered, differs, by_q)))


def cochran(strata: list[Floats]) -> float:
    """p-value of Cochran's Q, which takes the estimated variances for known."""
    from scipy.special import chdtrc

    weights = np.array([len(it) / np.var(it, ddof=1) for it in strata])
    means = np.array([np.mean(it) for it in strata])
    common = np.average(means, weights=weights)
    return float(chdtrc(len(strata) - 1, np.sum(weights * (means - common) ** 2)))


def figures(experiments: int, seed: int) -> list[Figure]:
    """Limits of 5 % have two standard errors of the simulation on top."""
    dice = np.random.default_rng(seed)
    error = 100 * np.sqrt(0.05 * 0.95 / (len(MACHINES) * experiments))
    found = []
    for name, law in LAWS.items():
        rows = {count: simulated(law, count, experiments, 0.0, dice) for count in MACHINES}
        each = [f"{count}: {{}}" for count in MACHINES]

        def told(values: list[float], each: list[str] = each) -> str:
            return ", ".join(
                it.format(f"{100 * v:.1f}") for it, v in zip(each, values, strict=True)
            )

        alarms = [it.false_alarms for it in rows.values()]
        covered = [it.covered for it in rows.values()]
        differs = [it.differs for it in rows.values()]
        by_q = [it.differs_by_q for it in rows.values()]
        mean = 100 * float(np.mean(alarms))
        found += [
            Figure(f"false alarms, {name}", mean, "%", most=5 + 2 * error, how=told(alarms)),
            Figure(f"coverage, {name}", 100 * min(covered), "%", least=93, how=told(covered)),
            Figure(
                f"differs-by-machine, none does, {name}",
                100 * float(np.mean(differs)),
                "%",
                most=5 + 2 * error,
                how=f"{told(differs)}; Cochran's Q: {told(by_q)}",
            ),
        ]
    rows = {count: simulated(LAWS["normal"], count, experiments, APART, dice) for count in MACHINES}
    power = ", ".join(f"{count}: {100 * it.differs:.0f}" for count, it in rows.items())
    cover = [it.covered for it in rows.values()]
    found += [
        Figure(
            "differs-by-machine, 1 % apart, told", 100 * rows[8].differs, "%", least=80, how=power
        ),
        Figure(
            "coverage of the machines' mean, 1 % apart",
            100 * min(cover),
            "%",
            least=93,
            how=", ".join(f"{100 * it:.1f}" for it in cover),
        ),
    ]
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--experiments", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=14)
    parser.add_argument("--json", type=Path, metavar="FILE")
    asked = parser.parse_args()
    return finish(figures(asked.experiments, asked.seed), asked.json)


if __name__ == "__main__":
    sys.exit(main())
