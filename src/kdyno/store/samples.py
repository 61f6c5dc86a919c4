# SPDX-License-Identifier: MIT
"""What the boots of a run measured, in the shape that the statistics take."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kdyno.store.run import Damaged, Run

if TYPE_CHECKING:
    from kdyno.store.boot import BootRecord

Key = tuple[str, str, str]
"""(suite, case, variant)"""


@dataclass(frozen=True)
class Samples:
    """Scores and what is missing from them.

    A failed boot gives no scores, even for cases that ended before it failed: how a kernel
    measures on its way down is not what was asked.
    """

    scores: dict[Key, dict[int, float]] = field(default_factory=dict)
    """Key → block → score, in the case's unit."""
    missing: dict[Key, Counter[str]] = field(default_factory=dict)
    """Key → reason (``error: …``, ``skip: …``) → boots, for cases without a score."""
    boots: Counter[str] = field(default_factory=Counter)
    """Variant → boots that ended well."""
    failures: dict[str, Counter[str]] = field(default_factory=dict)
    """Variant → reason word → boots that failed."""
    blocks: int = 0
    """One more than the highest block seen."""
    last_index: int = -1
    damaged: tuple[Damaged, ...] = ()


def samples(run: Run) -> Samples:
    """All boots of the run."""
    return gather(run.boots())


def gather(boots: Iterable[BootRecord | Damaged]) -> Samples:
    """The samples of ``boots``. A block that booted a variant twice keeps the first good score."""
    result = Samples()
    damaged: list[Damaged] = []
    blocks, last_index = 0, -1
    for boot in boots:
        if isinstance(boot, Damaged):
            damaged.append(boot)
            continue
        blocks = max(blocks, boot.block + 1)
        last_index = max(last_index, boot.index)
        if not boot.ok:
            reasons = result.failures.setdefault(boot.variant, Counter())
            reasons[boot.host.reason or "unknown"] += 1
            continue
        result.boots[boot.variant] += 1
        for sample in boot.samples:
            key = (sample.suite, sample.case, boot.variant)
            if sample.score is None:
                reason = f"{sample.status}: {sample.text}" if sample.text else sample.status
                result.missing.setdefault(key, Counter())[reason[:500]] += 1
            else:
                result.scores.setdefault(key, {}).setdefault(boot.block, sample.score)
    return Samples(
        scores=result.scores,
        missing=result.missing,
        boots=result.boots,
        failures=result.failures,
        blocks=blocks,
        last_index=last_index,
        damaged=tuple(damaged),
    )
