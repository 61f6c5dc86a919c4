# SPDX-License-Identifier: MIT
"""Order statistics of the Walsh averages of very many pairs, without making the averages.

5,000 pairs have 12.5 million averages, 100 MB, and more for the copies that selecting from them
takes. How many averages lie at or below a number can be counted from the sorted differences alone,
and bisection on that number finds any of them. Source of method: Monahan, Algorithm 616 (ACM TOMS
10, 1984), in its simplest form.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from .signedrank import Floats, critical_rank, tail

MANY = 1000
"""Pairs beyond which averages are counted instead of made: 500,500 averages, 4 MB."""


class CountedWalsh:
    """The averages (x_i + x_j)/2, i ≤ j, of ``differences``, shape (n,), all finite."""

    def __init__(self, differences: Floats) -> None:
        self._x = np.sort(differences)
        self._at = np.arange(len(differences))
        self.n = len(differences)
        self.count = self.n * (self.n + 1) // 2

    def at_most(self, value: float) -> int:
        """Averages ≤ value."""
        return self._up_to(value, "right")

    def below(self, value: float) -> int:
        """Averages < value."""
        return self._up_to(value, "left")

    def _up_to(self, value: float, side: Literal["left", "right"]) -> int:
        ends = np.searchsorted(self._x, 2.0 * value - self._x, side=side)
        return int(np.maximum(ends - self._at, 0).sum())

    def ordered(self, rank: int) -> float:
        """The average with ``rank`` smaller or equal ones before it, to a double's last bits."""
        low, high = float(self._x[0]), float(self._x[-1])
        if self.at_most(low) > rank:
            return low
        while high - low > 4e-16 * max(abs(low), abs(high)):
            middle = low + (high - low) / 2.0
            if not low < middle < high:
                break
            if self.at_most(middle) > rank:
                high = middle
            else:
                low = middle
        return high

    def median(self) -> float:
        """The Hodges-Lehmann estimate."""
        half = self.count // 2
        if self.count % 2:
            return self.ordered(half)
        return 0.5 * (self.ordered(half - 1) + self.ordered(half))

    def bounds(self, confidence: float) -> tuple[float, float] | None:
        """As signedrank.bounds."""
        k = critical_rank(self.n, confidence)
        if k is None:
            return None
        return self.ordered(k), self.ordered(self.count - 1 - k)

    def p_value(self, shift: float = 0.0) -> float:
        """As signedrank.p_values."""
        fewer = min(self.count - self.below(shift), self.at_most(shift))
        return min(1.0, 2.0 * float(tail(self.n, fewer)))
