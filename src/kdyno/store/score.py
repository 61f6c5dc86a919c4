# SPDX-License-Identifier: MIT
"""One case of one variant of a run in one row: what lists, histories and comparisons show."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

from kdyno.store.samples import Key

if TYPE_CHECKING:
    from kdyno.store.manifest import CaseInfo, Manifest
    from kdyno.store.verdict import Verdict

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Score:
    """One case of one variant. Text is as it was stored: whoever shows it makes it safe."""

    suite: str
    case: str
    unit: str
    better: str
    variant: str
    work: str
    """Short digest of what the case was told to do."""
    boots: int
    value: float
    """Median over the boots."""
    low: float | None
    high: float | None
    """95 % interval of the level within this run; None: too few boots."""
    ratio: float | None
    """Variant ÷ baseline, from blocks; None for the baseline."""
    ratio_low: float | None
    ratio_high: float | None
    verdict: str


def scores_of(
    cases: Iterable[CaseInfo],
    variants: Iterable[str],
    values: Mapping[Key, Sequence[float]],
    verdict: Verdict,
    manifest: Manifest,
) -> list[Score]:
    """A row for each case and variant with values (all above 0); the baseline's copy has none."""
    effects = {(it.suite, it.case, it.variant): it for it in verdict.effects}
    work = {(case.suite, case.case): case.work for case in manifest.cases}
    places = {name: at for at, name in enumerate(variants)}
    measured: dict[tuple[str, str], list[str]] = {}
    for suite, name, variant in values:
        if variant in places and variant != verdict.copy_of_baseline:
            measured.setdefault((suite, name), []).append(variant)
    found = []
    for case in cases:
        for variant in sorted(measured.get((case.suite, case.case), ()), key=places.__getitem__):
            own = values[case.suite, case.case, variant]
            if not own:
                continue
            it = effects.get((case.suite, case.case, variant))
            low, high = _interval(own)
            found.append(
                Score(
                    suite=case.suite,
                    case=case.case,
                    unit=case.unit,
                    better=case.better,
                    variant=variant,
                    work=work.get((case.suite, case.case), "")[:8],
                    boots=len(own),
                    value=_rounded(median(own)),
                    low=low,
                    high=high,
                    ratio=_rounded(it.ratio) if it and it.ratio else None,
                    ratio_low=_rounded(it.ci[0]) if it and it.ci else None,
                    ratio_high=_rounded(it.ci[1]) if it and it.ci else None,
                    verdict=it.verdict if it else "",
                )
            )
    return found


def _interval(values: Sequence[float]) -> tuple[float | None, float | None]:
    """Hodges and Lehmann's interval of the level of the log scores, as between blocks."""
    import numpy as np

    from kdyno.stats.effect import MANY, CountedWalsh, bounds, walsh_averages

    logs = np.log(values)
    if len(logs) > MANY:
        ends: tuple[Any, Any] | None = CountedWalsh(logs).bounds(CONFIDENCE)
    else:
        ends = bounds(walsh_averages(logs), len(logs), CONFIDENCE)
    if ends is None:
        return None, None
    return _rounded(math.exp(float(ends[0]))), _rounded(math.exp(float(ends[1])))


def _rounded(value: float) -> float:
    return float(f"{value:.7g}")
