# SPDX-License-Identifier: MIT
"""Numbers as people read them: effects in percent of the baseline, values with their unit."""

from __future__ import annotations

import math

MINUS = "\u2212"
_LARGE = 10.0
"""Ratio from which a factor reads better than a percentage."""
_LONG = 9999.5
"""From here on a value has more than four digits before the point."""
_SI = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_TIMES = frozenset({"s", "ms", "us", "µs", "μs", "ns", "min", "h", "seconds", "s/run"})


def percent(fraction: float | None, signed: bool = True, decimals: int | None = None) -> str:
    """0.0123 → ``+1.23 %``. Without ``decimals``: two, fewer for large figures."""
    if fraction is None or not math.isfinite(fraction):
        return "?"
    value = 100.0 * fraction
    places = _decimals(value) if decimals is None else decimals
    text = f"{abs(value):.{places}f}"
    sign = ""
    if float(text) != 0.0:  # no −0.00
        sign = MINUS if value < 0 else "+" if signed else ""
    return f"{sign}{text} %"


def share(fraction: float | None) -> str:
    """A part of a whole, or a spread: 0.0123 → ``1.23 %``."""
    return percent(fraction, signed=False)


def effect(ratio: float | None) -> str:
    """A ratio as its distance from 1, with the sign: 0.9 → ``−10.0 %``, but 12.3 → ``×12.3``."""
    if ratio is not None and _LARGE <= ratio < math.inf:
        return f"×{ratio:.3g}"
    return percent(None if ratio is None else ratio - 1.0)


def exact(ratio: float | None) -> str:
    """The same of a count, with the digits that show that it is not nothing: ``+0.004 %``."""
    value = 0.0 if ratio is None else 100.0 * (ratio - 1.0)
    if value == 0.0 or abs(value) >= 0.005:
        return effect(ratio)
    places = 1 - math.floor(math.log10(abs(value)))
    return percent(value / 100.0, decimals=min(places - 1, 9))


def exact_because(boots: int) -> str:
    """What exact means, where an effect rests on so many boots of either kernel at least."""
    if boots == 1:
        return "counted, and the same in most parts of the one boot of either kernel"
    some = f"{boots} boots of either kernel or more"
    return f"counted, and the same in {some}; the mean of all parts says the same"


def size(ratio: float | None) -> str:
    """The same without a sign, after "by": ``10.0 %``, or ``a factor of 12.3``."""
    if ratio is not None and _LARGE <= ratio < math.inf:
        return f"a factor of {ratio:.3g}"
    return percent(None if ratio is None else ratio - 1.0, signed=False).replace(MINUS, "")


def interval(ci: tuple[float, float] | None) -> str:
    """The same for an interval of ratios: ``−1.62 … −0.85 %``."""
    if ci is None or not all(map(math.isfinite, ci)):
        return "?"
    if ci[1] >= _LARGE:
        return f"×{ci[0]:.3g} … ×{ci[1]:.3g}".replace("-", MINUS)
    # Both ends with the same number of decimals, so that they can be compared at a glance.
    places = min(_decimals(100.0 * (end - 1.0)) for end in ci)
    low, high = (percent(end - 1.0, decimals=places) for end in ci)
    return f"{low[:-2]} … {high}"


def amount(value: float | None) -> str:
    """Four significant digits: 271828.1 → ``271.8 k``."""
    if value is None or not math.isfinite(value):
        return "?"
    size = abs(value)
    for factor, letter in _SI:
        if size >= _LONG and size >= factor:
            return f"{value / factor:#.4g} {letter}".replace(". ", " ").replace("-", MINUS)
    if size >= 1e-3 or size == 0:
        return f"{value:.4g}".replace("-", MINUS)
    return f"{value:.3e}".replace("-", MINUS)


def more(before: float | None, after: float | None) -> float | None:
    """What there is more of, in the unit of both; None where either is not known."""
    return None if before is None or after is None else after - before


def signed(difference: float) -> str:
    """A difference of counts, to a thousandth: ``+41.000``, ``−0.250``, ``0.000``."""
    text = f"{abs(difference):,.3f}"
    sign = "" if float(text.replace(",", "")) == 0.0 else MINUS if difference < 0 else "+"
    return f"{sign}{text}"


def quantity(value: float | None, unit: str) -> str:
    """A value with its unit; one that has a prefix already (KB/s) gets no second one."""
    if value is not None and _LONG <= value < 1e9 and unit[:1] in ("K", "M", "G", "k"):
        return f"{value:.0f} {unit}"
    return f"{amount(value)} {unit}"


def count(number: int, noun: str) -> str:
    """``1 boot``, ``2 boots``, ``2 patches``."""
    return f"{number} {noun}{'' if number == 1 else 'es' if noun.endswith('ch') else 's'}"


def tolerance(fraction: float) -> str:
    """An equivalence margin as written in an experiment: ``±1 %``."""
    return f"±{100.0 * fraction:.4g} %"


def is_time(unit: str) -> bool:
    """The unit is a duration, so that less of it is ``less time``."""
    return unit in _TIMES


def _decimals(value: float) -> int:
    size = abs(value)
    return 2 if size < 9.995 else 1 if size < 99.95 else 0
