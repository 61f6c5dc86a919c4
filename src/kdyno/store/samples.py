# SPDX-License-Identifier: MIT
"""What the boots of a run measured, in the shape that the statistics take; and in one row for each
case of a variant, which lists, histories and comparisons show."""

from __future__ import annotations

import math
import re
import statistics
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import log
from typing import TYPE_CHECKING, Any

from kdyno.store.run import Damaged, Run

if TYPE_CHECKING:
    from kdyno.store.boot import BootRecord, Sample
    from kdyno.store.manifest import CaseInfo, Manifest
    from kdyno.store.verdict import Verdict

CONFIDENCE = 0.95

Key = tuple[str, str, str]
"""(suite, case, variant)"""
QUANTILE = re.compile(r"p\d{1,3}_\w{1,40}")
"""Names of a sample's further figures that are quantiles of latencies: less is better."""
APART = "counted-"
"""What begins the names of a sample's further figures: what each counted operation is made of."""


@dataclass(frozen=True)
class Samples:
    """Scores and what is missing from them.

    A failed boot gives no scores, even for cases that ended before it failed: how a kernel
    measures on its way down is not what was asked.
    """

    scores: dict[Key, dict[int, float]] = field(default_factory=dict)
    """Key → block → score, in the case's unit."""
    rounds: dict[Key, dict[int, array[float]]] = field(default_factory=dict)
    """Key → block → natural logarithm of operations per nanosecond in each round of a group. The
    same index in all variants of a block is the same round. Only where guests took turns."""
    spent: dict[Key, dict[int, array[float]]] = field(default_factory=dict)
    """Key → block → for each of ``rounds`` natural logarithm of operations per nanosecond of CPU
    time; above that of ``rounds`` where the guest waited for the CPU. Only where the host counted
    the CPU time of turns."""
    asleep: dict[Key, dict[int, float]] = field(default_factory=dict)
    """Key → block → share of the frozen turns in which the guest's processes had no CPU."""
    turn_s: dict[Key, float] = field(default_factory=dict)
    """Key → seconds of a turn, the median of the last group."""
    totals: dict[Key, dict[int, tuple[float, float]]] = field(default_factory=dict)
    """Key → block → natural logarithm of operations per nanosecond: the median of the boot's
    repetitions, and of all of them together. Only where a boot was whole."""
    quantiles: dict[Key, dict[str, dict[int, float]]] = field(default_factory=dict)
    """Key → figure such as ``p99_ms`` → block → its value."""
    even: dict[Key, set[int]] = field(default_factory=dict)
    """Key → blocks in which more than half of the case's repetitions, and three at least, are the
    same to the last digit: a count then has no state in it that changes from one to the next."""
    parts: dict[Key, dict[int, tuple[float, float]]] = field(default_factory=dict)
    """Key → block → (mean of all repetitions, share of all of them by which the one that differs
    most from the score does), in nanoseconds, or instructions, of an operation. Of whole cases."""
    apart: dict[Key, dict[str, list[float]]] = field(default_factory=dict)
    """Key → figure → its value in each boot: what a counted operation is made of."""
    located: dict[tuple[str, str, str, str], dict[int, tuple[float, float]]] = field(
        default_factory=dict
    )
    """(suite, case, baseline, variant) → block → its ratio and the standard error of that by its
    rounds, when judge/pairs.py has had it."""
    summed: dict[tuple[str, str, str, str], dict[int, float]] = field(default_factory=dict)
    """The same by the group's summed times, without an error."""
    machines: dict[int, str] = field(default_factory=dict)
    """Block → the machine that it ran on, where the run had several."""
    links: dict[int, int] = field(default_factory=dict)
    """Block → the link of each kernel that it booted, where there are several."""
    missing: dict[Key, Counter[str]] = field(default_factory=dict)
    """Key → reason (``error: …``, ``skip: …``) → boots, for cases without a score."""
    boots: Counter[str] = field(default_factory=Counter)
    """Variant → boots that ended well."""
    failures: dict[str, Counter[str]] = field(default_factory=dict)
    """Variant → reason word → boots that failed."""
    blocks: int = 0
    """One more than the highest block seen."""
    damaged: tuple[Damaged, ...] = ()


def samples(run: Run) -> Samples:
    """All boots of the run."""
    return gather(run.boots())


class Gathering:
    """Samples that grow boot by boot; the boots themselves can be forgotten."""

    def __init__(self) -> None:
        self._found = Samples()
        self._damaged: list[Damaged] = []
        self._blocks = 0

    def add(self, boot: BootRecord | Damaged) -> None:
        """A block that booted a variant twice keeps the first good score."""
        if isinstance(boot, Damaged):
            self._damaged.append(boot)
            return
        found = self._found
        self._blocks = max(self._blocks, boot.block + 1)
        if boot.job.machine:
            found.machines[boot.block] = boot.job.machine
        if boot.job.layout:
            found.links[boot.block] = boot.job.layout
        if not boot.ok:
            reasons = found.failures.setdefault(boot.variant, Counter())
            reasons[boot.host.reason or "unknown"] += 1
            return
        found.boots[boot.variant] += 1
        for sample in boot.samples:
            key = (sample.suite, sample.case, boot.variant)
            if sample.score is None:
                reason = f"{sample.status}: {sample.text}" if sample.text else sample.status
                found.missing.setdefault(key, Counter())[reason[:500]] += 1
            else:
                found.scores.setdefault(key, {}).setdefault(boot.block, sample.score)
                self._add_parts(key, boot.block, sample)

    def _add_parts(self, key: Key, block: int, sample: Sample) -> None:
        """What of a sample with a score is more than its score."""
        found = self._found
        if _even(sample.reps):
            found.even.setdefault(key, set()).add(block)
        for name, value in sample.extra.items():
            if name.startswith(APART) and isinstance(value, float):
                own = found.apart.setdefault(key, {})
                own.setdefault(name.removeprefix(APART), []).append(value)
            elif QUANTILE.fullmatch(name) and isinstance(value, int | float) and value > 0:
                of = found.quantiles.setdefault(key, {}).setdefault(name, {})
                of.setdefault(block, float(value))
        if not sample.interleave:
            if (parts := _parts(sample)) is not None:
                found.parts.setdefault(key, {}).setdefault(block, parts)
            reps = [(done, ns) for done, ns in sample.reps if done and ns]
            if len(reps) == len(sample.reps) >= 2:
                middle = statistics.median(log(done) - log(ns) for done, ns in reps)
                whole = log(sum(done for done, _ in reps)) - log(sum(ns for _, ns in reps))
                found.totals.setdefault(key, {}).setdefault(block, (middle, whole))
            return
        # Of two logarithms: the quotient of odd figures may be beyond a float.
        logs = array("d", [log(done) - log(ns) for done, ns in sample.reps if done and ns])
        if not 0 < len(logs) == len(sample.reps):
            return
        found.rounds.setdefault(key, {}).setdefault(block, logs)
        found.turn_s[key] = statistics.median(ns for _, ns in sample.reps) / 1e9
        if sample.interleave == "frozen" and sample.cpu_ns:
            share = 1.0 - sum(sample.cpu_ns) / sum(ns for _, ns in sample.reps)
            found.asleep.setdefault(key, {}).setdefault(block, share)
        elif len(sample.cpu_ns) == len(logs):
            pairs = zip(sample.cpu_ns, sample.reps, strict=True)
            spent = array("d", [log(done) - log(max(cpu_ns, 1)) for cpu_ns, (done, _) in pairs])
            found.spent.setdefault(key, {}).setdefault(block, spent)

    def samples(self) -> Samples:
        """So far; it shares its tables with what is gathered later."""
        return replace(self._found, blocks=self._blocks, damaged=tuple(self._damaged))


_FEWEST_EVEN = 3


def _parts(sample: Sample) -> tuple[float, float] | None:
    """As ``Samples.parts`` has it; None without repetitions."""
    operations, whole = sum(done for done, _ in sample.reps), sum(ns for _, ns in sample.reps)
    if not operations or not whole or sample.score is None:
        return None
    most = max(abs(ns - sample.score * done) for done, ns in sample.reps)
    return whole / operations, most / whole


def _even(reps: Sequence[tuple[float, float]]) -> bool:
    times = Counter(reps).most_common(1)
    return bool(times) and times[0][1] >= max(_FEWEST_EVEN, len(reps) // 2 + 1)


def gather(boots: Iterable[BootRecord | Damaged]) -> Samples:
    """The samples of ``boots``."""
    gathering = Gathering()
    for boot in boots:
        gathering.add(boot)
    return gathering.samples()


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
                    value=_rounded(statistics.median(own)),
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
