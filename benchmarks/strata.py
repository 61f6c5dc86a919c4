# SPDX-License-Identifier: MIT
"""Runs on several machines, simulated: ``python -m benchmarks.strata [--experiments N]``.

Each experiment has 2 to 16 machines with 6 to 20 groups each (the fast ones have more), whose noise
differs by up to 8 times. Of it are counted: false alarms and coverage of the common effect, false
alarms of ``differs-by-machine``, beside those that Cochran's Q would give, and how often machines
that do differ are told. About a minute.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from benchmarks.speed import Figure, finish, options
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
        strata = [
            effect + spread * law(dice, size)
            for effect, spread, size in zip(effects, spreads, sizes, strict=True)
        ]
        truth = float(np.average(effects, weights=sizes))
        whole = effect_of_differences(np.concatenate(strata))
        assert whole.lo is not None and whole.hi is not None
        alarms += not whole.lo <= 1.0 <= whole.hi
        covered += whole.lo <= np.exp(truth) <= whole.hi
        difference = heterogeneity(strata)
        differs += difference is not None and difference.p_value <= 0.05
        by_q += cochran(strata) <= 0.05
    return Shares(*(count / experiments for count in (alarms, covered, differs, by_q)))


def cochran(strata: list[Floats]) -> float:
    """p-value of Cochran's Q, which takes the estimated variances for known."""
    from scipy.special import chdtrc

    weights = np.array([len(stratum) / np.var(stratum, ddof=1) for stratum in strata])
    means = np.array([np.mean(stratum) for stratum in strata])
    common = np.average(means, weights=weights)
    return float(chdtrc(len(strata) - 1, np.sum(weights * (means - common) ** 2)))


def figures(experiments: int, seed: int) -> list[Figure]:
    """Limits of 5 % have two standard errors of the simulation on top."""
    dice = np.random.default_rng(seed)
    most = 5 + 200 * np.sqrt(0.05 * 0.95 / (len(MACHINES) * experiments))
    rows = []

    def of_machines(values: list[float]) -> str:
        pairs = zip(MACHINES, values, strict=True)
        return ", ".join(f"{count}: {100 * value:.1f}" for count, value in pairs)

    for name, law in LAWS.items():
        shares = [simulated(law, count, experiments, 0.0, dice) for count in MACHINES]
        alarms, covered, differs, by_q = (
            [getattr(each, field) for each in shares]
            for field in ("false_alarms", "covered", "differs", "differs_by_q")
        )
        how = f"{of_machines(differs)}; Cochran's Q: {of_machines(by_q)}"
        none = f"differs-by-machine, none does, {name}"
        mean, least = 100 * float(np.mean(alarms)), 100 * min(covered)
        rows += [
            Figure(f"false alarms, {name}", mean, "%", most, how=of_machines(alarms)),
            Figure(f"coverage, {name}", least, "%", least=93, how=of_machines(covered)),
            Figure(none, 100 * float(np.mean(differs)), "%", most, how=how),
        ]
    shares = [simulated(LAWS["normal"], count, experiments, APART, dice) for count in MACHINES]
    power, covered = [each.differs for each in shares], [each.covered for each in shares]
    at_eight, least = 100 * power[MACHINES.index(8)], 100 * min(covered)
    name, how = "coverage of the machines' mean, 1 % apart", of_machines(covered)
    return [
        *rows,
        Figure("differs-by-machine, 1 % apart", at_eight, "%", least=80, how=of_machines(power)),
        Figure(name, least, "%", least=93, how=how),
    ]


if __name__ == "__main__":
    given = options(__doc__, experiments=1000, seed=14)
    sys.exit(finish(figures(given.experiments, given.seed), given.json))
