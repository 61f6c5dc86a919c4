# SPDX-License-Identifier: MIT
"""What the boots of a run measured, in the shape that the statistics take; and in one row for each
case of a variant, which lists, histories and comparisons show."""

from __future__ import annotations

import math
import re
import statistics
from array import array
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import log
from typing import Annotated

from pydantic import Field

from kdyno.store.boot import BootRecord, Sample
from kdyno.store.manifest import CaseInfo, Manifest
from kdyno.store.run import Damaged
from kdyno.store.verdict import LONGEST, SCORE_MOST, Ratio, Score as Level, Verdict, deciding

CONFIDENCE = 0.95
_FEWEST_EVEN = 3

Key = tuple[str, str, str]
"""(suite, case, variant)"""
QUANTILE = re.compile(r"p\d{1,3}_\w{1,40}")
"""Names of a sample's further figures that are quantiles of latencies: less is better."""
APART = "counted-"
"""What begins the names of a sample's further figures: what each counted operation is made of."""


@dataclass
class Samples:
    """Scores and what is missing from them; they grow boot by boot, and no boot is kept.

    A failed boot gives no scores, even for cases that ended before it failed: how a kernel
    measures on its way down is not what was asked."""

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
    by_firmware: dict[str, set[int]] = field(default_factory=dict)
    """Variant → blocks in which a box came to it by its firmware and one kexec, and not by one
    kexec after the other."""
    links: dict[int, int] = field(default_factory=dict)
    """Block → the link of each kernel that it booted, where there are several."""
    missing: dict[Key, Counter[str]] = field(default_factory=dict)
    """Key → reason (``error: …``, ``skip: …``) → boots, for cases without a score."""
    boots: Counter[str] = field(default_factory=Counter)
    """Variant → boots that ended well."""
    failures: dict[str, Counter[str]] = field(default_factory=dict)
    """Variant → reason word → boots that failed."""
    disturbed: Counter[str] = field(default_factory=Counter)
    """Kind of disturbance → boots that had it, failed ones too."""
    blocks: int = 0
    """One more than the highest block seen."""
    damaged: list[Damaged] = field(default_factory=list)

    def add(self, boot: BootRecord | Damaged) -> None:
        """A block that booted a variant twice keeps the first good score."""
        if isinstance(boot, Damaged):
            self.damaged.append(boot)
            return
        self.blocks = max(self.blocks, boot.block + 1)
        self.disturbed.update({flag.kind for flag in boot.host.flags})
        if boot.job.machine:
            self.machines[boot.block] = boot.job.machine
        if boot.job.layout:
            self.links[boot.block] = boot.job.layout
        if not boot.ok:
            reasons = self.failures.setdefault(boot.variant, Counter())
            reasons[boot.host.reason or "unknown"] += 1
            return
        self.boots[boot.variant] += 1
        if boot.host.before.get("boot") == "firmware":
            self.by_firmware.setdefault(boot.variant, set()).add(boot.block)
        for sample in boot.samples:
            key = (sample.suite, sample.case, boot.variant)
            if sample.score is None:
                reason = f"{sample.status}: {sample.text}" if sample.text else sample.status
                self.missing.setdefault(key, Counter())[reason[:500]] += 1
                continue
            self.scores.setdefault(key, {}).setdefault(boot.block, sample.score)
            same = Counter(sample.reps).most_common(1)
            if same and same[0][1] >= max(_FEWEST_EVEN, len(sample.reps) // 2 + 1):
                self.even.setdefault(key, set()).add(boot.block)
            for name, value in sample.extra.items():
                # A program may print anything; no verdict has a place for it.
                if not isinstance(value, float) or not 0 <= value <= SCORE_MOST:
                    continue
                if name.startswith(APART):
                    if len(figure := name.removeprefix(APART)) <= LONGEST:
                        self.apart.setdefault(key, {}).setdefault(figure, []).append(value)
                elif QUANTILE.fullmatch(name) and value >= 1 / SCORE_MOST:
                    quantiles = self.quantiles.setdefault(key, {}).setdefault(name, {})
                    quantiles.setdefault(boot.block, value)
            if sample.interleave:
                self._add_rounds(key, boot.block, sample)
            else:
                self._add_whole(key, boot.block, sample, sample.score)

    def _add_whole(self, key: Key, block: int, sample: Sample, score: float) -> None:
        """Of a case that a boot did in one go."""
        reps = sample.reps
        operations, whole_ns = sum(done for done, _ in reps), sum(ns for _, ns in reps)
        if not operations or not whole_ns:
            return
        most = max(abs(ns - score * done) for done, ns in reps)
        self.parts.setdefault(key, {}).setdefault(block, (whole_ns / operations, most / whole_ns))
        if len(reps) >= 2 and all(done and ns for done, ns in reps):
            middle = statistics.median(log(done) - log(ns) for done, ns in reps)
            whole = log(operations) - log(whole_ns)
            self.totals.setdefault(key, {}).setdefault(block, (middle, whole))

    def _add_rounds(self, key: Key, block: int, sample: Sample) -> None:
        """Of a case in which the guest took turns with others."""
        reps = sample.reps
        if not reps or not all(done and ns for done, ns in reps):
            return
        # Of two logarithms: the quotient of odd figures may be beyond a float.
        logs = array("d", [log(done) - log(ns) for done, ns in reps])
        self.rounds.setdefault(key, {}).setdefault(block, logs)
        self.turn_s[key] = statistics.median(ns for _, ns in reps) / 1e9
        if sample.interleave == "frozen" and sample.cpu_ns:
            share = 1.0 - sum(sample.cpu_ns) / sum(ns for _, ns in reps)
            self.asleep.setdefault(key, {}).setdefault(block, share)
        elif len(sample.cpu_ns) == len(logs):
            pairs = zip(sample.cpu_ns, reps, strict=True)
            spent = array("d", [log(done) - log(max(cpu_ns, 1)) for cpu_ns, (done, _) in pairs])
            self.spent.setdefault(key, {}).setdefault(block, spent)


def gather(boots: Iterable[BootRecord | Damaged]) -> Samples:
    samples = Samples()
    for boot in boots:
        samples.add(boot)
    return samples


@dataclass(frozen=True)
class Score:
    """One case of one variant. Text is as it was stored: whoever shows it makes it safe."""

    suite: str
    case: str
    unit: str
    better: str
    variant: str
    work: str
    """Short digest of the case's work."""
    boots: Annotated[int, Field(ge=0)]
    value: Annotated[float, Field(ge=1 / SCORE_MOST, le=SCORE_MOST)]
    """Median over the boots."""
    low: Level
    high: Level
    """95 % interval of the level within this run; None: too few boots."""
    ratio: Ratio
    """Variant ÷ baseline, from blocks; None for the baseline."""
    ratio_low: Ratio
    ratio_high: Ratio
    verdict: str


def every_case(verdict: Verdict, manifest: Manifest | None) -> tuple[CaseInfo, ...]:
    """Every case with a figure or a plan of one, in the order of the run."""
    cases = {case.key: case for case in (manifest.cases if manifest else ())}
    for effect in verdict.effects:
        # Not validated: a verdict may hold names that a run would refuse.
        fields = ("suite", "case", "unit", "better", "control")
        about = {name: getattr(effect, name) for name in fields}
        cases.setdefault(effect.key[:2], CaseInfo.model_construct(**about))
    return tuple(cases.values())


def scores_of(verdict: Verdict, manifest: Manifest, samples: Samples) -> list[Score]:
    """A row for each case of a variant that has a score; the baseline's copy has none."""
    import numpy as np

    from kdyno.stats.effect import ranked

    effects = {effect.key: deciding(effect) for effect in verdict.effects}
    variants = (verdict.baseline, *verdict.boots, *samples.boots)
    places = {name: at for at, name in enumerate(dict.fromkeys(variants))}
    places.pop(verdict.copy_of_baseline or "", None)
    measured: dict[tuple[str, str], list[str]] = {}
    for suite, name, variant in samples.scores:
        if variant in places:
            measured.setdefault((suite, name), []).append(variant)
    scores = []
    for case in every_case(verdict, manifest):
        for variant in sorted(measured.get(case.key, ()), key=places.__getitem__):
            own = list(samples.scores[*case.key, variant].values())
            judged = effects.get((*case.key, variant))
            ratio, ci = (judged.ratio, judged.ci) if judged else (None, None)
            # Hodges and Lehmann's interval of the level of the log scores, as between blocks.
            _, ends, _ = ranked(np.log(own), CONFIDENCE)
            score = Score(
                **case.about,
                variant=variant,
                work=case.work[:8],
                boots=len(own),
                value=_rounded(statistics.median(own)),
                low=_rounded(math.exp(ends[0])) if ends else None,
                high=_rounded(math.exp(ends[1])) if ends else None,
                ratio=_rounded(ratio) if ratio else None,
                ratio_low=_rounded(ci[0]) if ci else None,
                ratio_high=_rounded(ci[1]) if ci else None,
                verdict=judged.verdict if judged else "",
            )
            scores.append(score)
    return scores


def _rounded(value: float) -> float:
    return float(f"{value:.7g}")
