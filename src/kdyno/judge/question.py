# SPDX-License-Identifier: MIT
"""What a verdict needs to know of the experiment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kdyno.store.manifest import CaseInfo, Manifest
from kdyno.store.verdict import Flag


@dataclass(frozen=True)
class Question:
    experiment: str
    text: str
    baseline: str
    variants: tuple[str, ...]
    """Without the baseline and its copy, in the file's order."""
    copy: str | None
    cases: tuple[CaseInfo, ...]
    confidence: float
    equivalent: float
    precision: float
    levels: Mapping[str, tuple[tuple[str, str], ...]] = field(default_factory=dict)
    """Variant → its (factor, level) pairs, where the variants are a cross."""
    caveats: tuple[Flag, ...] = ()
    """What figures of the machine that was measured on do not say."""
    counted: bool = False
    """Instructions are compared; where all boots agree there is nothing to estimate."""
    exact_boots: int = 3
    """As many of either kernel at least."""

    @classmethod
    def of(cls, manifest: Manifest) -> Question:
        """What a run was asked."""
        asked = manifest.asked
        return cls(
            experiment=manifest.experiment,
            text=asked.question,
            baseline=manifest.baseline,
            variants=tuple(name for name in manifest.variants if name != manifest.baseline),
            copy=asked.copy_of_baseline,
            cases=manifest.cases,
            confidence=asked.confidence,
            equivalent=asked.equivalent,
            precision=asked.precision,
            levels={name: tuple(it.levels.items()) for name, it in manifest.variants.items()},
            caveats=manifest.machine.caveats,
            counted=asked.metric == "instructions",
            exact_boots=asked.exact_boots,
        )

    @property
    def compared(self) -> tuple[str, ...]:
        """What the baseline is compared with: the variants, else its copy."""
        return self.variants or ((self.copy,) if self.copy else ())

    @property
    def names(self) -> tuple[str, ...]:
        """All that was booted, the baseline first."""
        return (self.baseline, *((self.copy,) if self.copy else ()), *self.variants)
