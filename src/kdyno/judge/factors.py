# SPDX-License-Identifier: MIT
"""Effects of crossed factors from blocks that hold every cell of the cross once.

Everything is on the log scale, so effects are ratios and "no interaction" means that two effects
multiply. Each effect is a contrast that is taken within every block and then treated like any
other within-block difference: slow drift cancels, and no cell's spread is assumed to be like
another's. The estimate of a main effect gives every combination of the other factors' levels the
same weight, whatever the number of boots behind it (Yates's weighted squares of means in a balanced
cross); where a cell is missing, the combinations that lack it are left out for both levels, so that
a missing cell is never mistaken for an effect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from typing import Literal

import numpy as np

from kdyno.experiment.cross import VARIANT
from kdyno.judge.pairs import Pair, figures_of
from kdyno.stats.effect import Floats
from kdyno.stats.verdict import Claim, Judgement, Summed
from kdyno.store.manifest import CaseInfo, Manifest, VariantInfo
from kdyno.store.samples import Samples
from kdyno.store.verdict import FactorEffect, FactorTable

PRESENT = 0.5
"""Share of the blocks of the fullest cell that a cell needs to be taken into a contrast."""
_MISSING_SHOWN = 8

Cell = tuple[int, ...]
"""The number of each factor's level; 0 is the reference."""


@dataclass(frozen=True)
class Contrast:
    """Level ``level`` of ``factor`` against its reference.

    main: averaged over all other factors. conditional: at level ``at`` of ``other``, averaged
    over the rest. interaction: the effect at level ``at`` of ``other`` ÷ that at the reference."""

    kind: Literal["main", "conditional", "interaction"]
    factor: int
    level: int
    other: int | None = None
    at: int | None = None


@dataclass(frozen=True)
class Cross:
    """One case with all factors that it is crossed with."""

    case: CaseInfo
    name: str
    factors: dict[str, tuple[str, ...]]
    """Factor → its levels, the reference first."""
    logs: dict[Cell, Floats]
    """Every cell → log score in each block, shape (blocks,), NaN for a failed boot."""
    sums: dict[Cell, Floats] = field(default_factory=dict)
    """Every cell → log ratio by summed times to the baseline in the same case, NaN without one."""
    clock: dict[Cell, Floats] = field(default_factory=dict)
    """Every cell → |log ratio| that may be the clock's own; NaN where its counts are not exact."""

    @cached_property
    def blocks(self) -> dict[Cell, int]:
        """How many blocks every cell has a score in."""
        return {cell: int(np.isfinite(logs).sum()) for cell, logs in self.logs.items()}

    @cached_property
    def missing(self) -> dict[Cell, int]:
        """Cells without enough blocks to be used → how many they have."""
        most = max(self.blocks.values(), default=0)
        return {cell: n for cell, n in self.blocks.items() if n == 0 or n < PRESENT * most}

    def contrasts(self) -> list[Contrast]:
        """Main effects, conditional effects and two-way interactions, factor by factor."""
        result = []
        levels = [len(own) for own in self.factors.values()]
        for factor, count in enumerate(levels):
            others = [other for other in range(len(levels)) if other != factor]
            for level in range(1, count):
                result.append(Contrast("main", factor, level))
                for other in others:
                    for at in range(levels[other]):
                        result.append(Contrast("conditional", factor, level, other, at))
                    for at in range(1, levels[other]) if other > factor else ():
                        result.append(Contrast("interaction", factor, level, other, at))
        return result

    def summed(self, contrast: Contrast) -> Floats:
        """The contrast's log ratio by summed times, of kernels in one case: the baseline's own sums
        cancel then. Empty where levels of cases are compared, whose turns do other work."""
        names = list(self.factors)
        ends = (contrast.factor, *((contrast.other,) if contrast.kind == "interaction" else ()))
        if not self.sums or all(names[end or 0] in self.case.levels for end in ends):
            return np.empty(0)
        return self.differences(contrast, self.sums)[0]

    def differences(
        self, contrast: Contrast, logs: Mapping[Cell, Floats] | None = None
    ) -> tuple[Floats, int, int]:
        """(the contrast's log ratio in every block or NaN, strata used, strata left out)."""
        logs = self.logs if logs is None else logs
        fixed = (contrast.factor, contrast.other)
        signs = {contrast.at: 1.0}
        if contrast.kind == "interaction":
            signs[0] = -1.0
        free = [
            range(len(levels)) if factor not in fixed else (0,)
            for factor, levels in enumerate(self.factors.values())
        ]
        used: list[Floats] = []
        strata = list(product(*free))
        for stratum in strata:
            terms = []
            for at, sign in signs.items():
                cell = list(stratum)
                if contrast.other is not None and at is not None:
                    cell[contrast.other] = at
                for level, side in ((contrast.level, sign), (0, -sign)):
                    cell[contrast.factor] = level
                    terms.append((tuple(cell), side))
            if not any(cell in self.missing for cell, _sign in terms):
                used.append(np.sum([sign * logs[cell] for cell, sign in terms], axis=0))
        if not used:
            return np.empty(0), 0, len(strata)
        return np.asarray(np.mean(used, axis=0)), len(used), len(strata) - len(used)


@dataclass(frozen=True)
class Row:
    """A contrast that some stratum carries, to be judged."""

    cross: Cross
    contrast: Contrast
    claim: Claim
    sums: Floats
    """Shape (blocks,): log ratio by summed times; empty: not to be had."""
    strata: int
    """Combinations of the remaining factors' levels that it averages over."""
    lost: int
    """Combinations that were left out because a cell of theirs is missing."""


def rows_of(crosses: Sequence[Cross]) -> list[Row]:
    """Every contrast of every cross that any stratum carries."""
    rows = []
    for cross in crosses:
        for contrast in cross.contrasts():
            ratios, strata, lost = cross.differences(contrast)
            if strata:
                # NaN as soon as one cell is not exact. An interaction is of two differences.
                off = cross.differences(contrast, cross.clock)[0] if cross.clock else np.nan
                exact = bool(np.isfinite(off).all() and np.isfinite(ratios).any())
                clock = max((float(own) for own in cross.clock.values() if own == own), default=0.0)
                clock *= 1 + (contrast.kind == "interaction")
                claim = Claim(ratios, cross.case.better, exact=exact, resolution=clock)
                rows.append(Row(cross, contrast, claim, cross.summed(contrast), strata, lost))
    return rows


def crosses_of(data: Samples, manifest: Manifest) -> list[Cross]:
    """Cases with two factors or more, of kernels or of cases; none where the variants' own effects
    say everything.

    Negative controls are left out. The reference of a factor of kernels is the baseline's level,
    that of a factor of cases its first."""
    families: dict[tuple[str, str], list[CaseInfo]] = {}
    for case in manifest.cases:
        if not case.control:
            families.setdefault((case.suite, case.of or case.case), []).append(case)
    variants = (manifest.baseline, *manifest.others)
    of_variants = {name: manifest.variants.get(name, VariantInfo()).levels for name in variants}
    crosses = []
    for (_suite, name), cases in families.items():
        of_cases = [case.levels for case in cases]
        if len({(case.unit, case.better) for case in cases}) > 1:
            continue  # levels that are measured in different units have no ratio
        of_variant = of_variants
        if not any(of_variants.values()) and any(of_cases):
            of_variant = {variant: {VARIANT: variant} for variant in variants}
        factors = {**_varying(list(of_variant.values())), **_varying(of_cases)}
        if len(factors) < 2:
            continue
        nothing = np.full(data.blocks, np.nan)
        logs = {cell: nothing for cell in product(*(range(len(own)) for own in factors.values()))}
        sums, clock = dict(logs), dict.fromkeys(logs, np.array(np.nan))
        for variant, case in product(variants, cases):
            levels = {**of_variant[variant], **case.levels}
            cell = tuple(own.index(levels[factor]) for factor, own in factors.items())
            pair = Pair(data, manifest, case, variant)
            logs[cell], sums[cell] = np.log(pair.scores), pair.log_sums
            clock[cell] = np.array(pair.resolution if pair.exact else np.nan)
        crosses.append(Cross(cases[0], name, factors, logs, sums, clock))
    return crosses


def _varying(cells: list[dict[str, str]]) -> dict[str, tuple[str, ...]]:
    """Factor → levels in order of appearance, for factors that every cell has and that vary."""
    names = [name for name in (cells[0] if cells else {}) if all(name in cell for cell in cells)]
    levels = {name: tuple(dict.fromkeys(cell[name] for cell in cells)) for name in names}
    return {name: own for name, own in levels.items() if len(own) > 1}


def table_of(
    crosses: Sequence[Cross], rows: Sequence[Row], judged: Sequence[tuple[Judgement, Summed | None]]
) -> FactorTable | None:
    """Rows with their judgements, and which cells are missing; None without a cross."""
    if not crosses:
        return None
    effects = []
    for row, word in zip(rows, judged, strict=True):
        contrast, case = row.contrast, row.cross.case
        named = list(row.cross.factors.items())
        name, levels = named[contrast.factor]
        other, others = (None, ()) if contrast.other is None else named[contrast.other]
        effect = FactorEffect(
            **figures_of(*word),
            **case.about | {"case": row.cross.name},
            kind=contrast.kind,
            factor=name,
            level=levels[contrast.level],
            reference=levels[0],
            other=other,
            at=None if contrast.at is None else others[contrast.at],
            at_reference=others[0] if contrast.kind == "interaction" else None,
            averaged=row.strata,
            left_out=row.lost,
        )
        effects.append(effect)
    return FactorTable(
        factors={name: levels for cross in crosses for name, levels in cross.factors.items()},
        of_cases=tuple(dict.fromkeys(name for cross in crosses for name in cross.case.levels)),
        effects=tuple(effects),
        missing=_warnings(crosses),
    )


def _warnings(crosses: Sequence[Cross]) -> tuple[str, ...]:
    """One line for each missing cell, the cases that lack it together."""
    lacking: dict[tuple[str, str], list[str]] = {}
    for cross in crosses:
        most = max(cross.blocks.values(), default=0)
        for cell, n in cross.missing.items():
            named = zip(cross.factors.items(), cell, strict=True)
            text = ", ".join(f"{name}={levels[level]}" for (name, levels), level in named)
            why = f"{n} of {most} blocks" if n else "no score"
            lacking.setdefault((text, why), []).append(f"{cross.case.suite}/{cross.name}")
    warnings = [
        f"the cell {cell} is missing ({why}) in {', '.join(dict.fromkeys(cases))}; effects are "
        "taken where both levels were measured"
        for (cell, why), cases in lacking.items()
    ]
    left = len(warnings) - _MISSING_SHOWN
    more = [f"{left} more cells are missing"] if left > 0 else []
    return (*warnings[:_MISSING_SHOWN], *more)
