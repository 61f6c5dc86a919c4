# SPDX-License-Identifier: MIT
"""Runs on several machines, simulated: ``python -m benchmarks.strata [--experiments N]``.

Each experiment has 2 to 16 machines with 6 to 20 groups each, whose noise differs by up to 8 times.
Of it are counted: false alarms and coverage of the common effect, false alarms of
``differs-by-machine``, beside those that Cochran's Q would give, and how often machines that do
differ are named. About a minute.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.random import Generator
from scipy.special import chdtrc

from benchmarks.figure import Figure, main
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


def simulated(law: Law, machines: int, experiments: int, apart: float, dice: Generator) -> Floats:
    """Shares of the experiments, in per cent: false alarms, covered, differing by machine, the
    same by Cochran's Q. Log ratios throughout; the true effect is 0, or the machines' mean."""
    counts = np.zeros(4)
    for _ in range(experiments):
        spreads = CALM * np.exp(dice.uniform(0.0, np.log(UNEQUAL), machines))
        sizes = dice.integers(6, 21, machines)
        effects = dice.normal(0.0, apart, machines) if apart else np.zeros(machines)
        strata = [
            effect + spread * law(dice, size)
            for effect, spread, size in zip(effects, spreads, sizes, strict=True)
        ]
        truth = np.exp(np.average(effects, weights=sizes))
        whole = effect_of_differences(np.concatenate(strata))
        assert whole.ci is not None
        low, high = whole.ci
        difference = heterogeneity(strata)
        counts += (
            not low <= 1.0 <= high,
            low <= truth <= high,
            difference is not None and difference.p_value <= 0.05,
            cochran(strata) <= 0.05,
        )
    return 100 * counts / experiments


def cochran(strata: list[Floats]) -> float:
    """p-value of Cochran's Q, which takes the estimated variances for the true ones."""
    weights = np.array([len(stratum) / np.var(stratum, ddof=1) for stratum in strata])
    means = np.array([np.mean(stratum) for stratum in strata])
    common = np.average(means, weights=weights)
    return float(chdtrc(len(strata) - 1, np.sum(weights * (means - common) ** 2)))


def of_machines(shares: Sequence[float] | Floats) -> str:
    return ", ".join(f"{n}: {share:.1f}" for n, share in zip(MACHINES, shares, strict=True))


def strata(request: Any) -> Iterator[Figure]:
    """Limits of 5 % have two standard errors of the simulation on top."""
    dice = np.random.default_rng(request.seed)
    most = 5 + 200 * np.sqrt(0.05 * 0.95 / (len(MACHINES) * request.experiments))

    def shares(law: Law, apart: float) -> Floats:
        rows = [simulated(law, n, request.experiments, apart, dice) for n in MACHINES]
        return np.array(rows).T

    for name, law in LAWS.items():
        alarms, covered, differs, by_q = shares(law, 0.0)
        how = f"{of_machines(differs)}; Cochran's Q: {of_machines(by_q)}"
        none, covers = f"differs-by-machine, none does, {name}", of_machines(covered)
        yield Figure(f"false alarms, {name}", alarms.mean(), "%", most, how=of_machines(alarms))
        yield Figure(f"coverage, {name}", covered.min(), "%", least=93, how=covers)
        yield Figure(none, differs.mean(), "%", most, how=how)
    _, covered, power, _ = shares(LAWS["normal"], APART)
    at_eight, name = power[MACHINES.index(8)], "coverage of the machines' mean, 1 % apart"
    yield Figure("differs-by-machine, 1 % apart", at_eight, "%", least=80, how=of_machines(power))
    yield Figure(name, covered.min(), "%", least=93, how=of_machines(covered))


if __name__ == "__main__":
    main(__doc__, strata, experiments=1000, seed=14)
