# SPDX-License-Identifier: MIT
"""Whether an effect is the same on all machines that it was measured on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kdyno.stats.effect import FEWEST_BLOCKS
from kdyno.stats.signedrank import Floats


@dataclass(frozen=True)
class Heterogeneity:
    statistic: float
    """Alexander and Govern's A: chi squared with ``strata`` − 1 degrees of freedom if all agree."""
    p_value: float
    i_squared: float
    """0 to 1: the share of the scatter between strata beyond what their own spread explains."""
    strata: int
    """That were compared."""


def heterogeneity(strata: Sequence[Floats]) -> Heterogeneity | None:
    """Of the log ratios of each machine's groups, shape (groups,) each.

    Machines with fewer than six groups, or without any spread, cannot tell and are left out; None
    where fewer than two are left. The test is that of Alexander & Govern (A New and Simpler
    Approximation for ANOVA Under Variance Heterogeneity, J. Educational Statistics 19, 1994), which
    takes means with unequal, estimated variances as they are. Cochran's Q (Biometrics 10, 1954)
    takes the variances for known and says "differs" of 16 equal machines with 6 to 20 groups
    each in 18 % of the cases instead of 5 %; see benchmarks/strata.py. I² is Higgins & Thompson's
    (Statistics in Medicine 21, 2002), of A in place of Q.
    """
    told = [each for each in strata if len(each) >= FEWEST_BLOCKS and np.ptp(each) > 0]
    if len(told) < 2:
        return None
    from scipy.stats import alexandergovern

    found = alexandergovern(*told)
    free = len(told) - 1
    statistic = float(found.statistic)
    beyond = max(0.0, (statistic - free) / statistic) if statistic > 0 else 0.0
    return Heterogeneity(statistic, float(found.pvalue), beyond, len(told))
