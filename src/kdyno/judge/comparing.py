# SPDX-License-Identifier: MIT
"""Runs against each other: kernels that were booted by hand, one after the other.

kdyno's own verdicts rest on blocks: kernels interleaved, so that drift cancels. Here nothing
was interleaved, so the rules are stricter (docs/comparing.md): a verdict needs three runs or
more of each kernel, and the runs of one must not all come before those of the other. Otherwise
the word is inconclusive, and at most "differs" is noted."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kdyno import __version__
from kdyno.errors import UsageError
from kdyno.judge.flags import outside_sandbox
from kdyno.stats.effect import Floats, PairedEffect
from kdyno.stats.verdict import step_levels, word_of
from kdyno.store.comparable import label_of
from kdyno.store.manifest import CaseInfo, Manifest
from kdyno.store.run import Run
from kdyno.store.samples import Samples, gather
from kdyno.store.verdict import Effect, Flag, Verdict

RULE = "runs-welch-holm/1"
"""See ``stats.verdict.RULE``; runs as samples, Welch's interval, Holm's correction."""
CONFIDENCE, EQUIVALENT = 0.95, 0.01
FEWEST_RUNS = 3
"""Runs of each kernel below which their spread is not known well enough for a verdict."""
FEWEST_SCORES = 6
"""Boots of each kernel below which no interval is given."""
_SHOWN = 6


def between_runs(first: ArrayLike, second: ArrayLike, confidence: float = 0.95) -> PairedEffect:
    """From one positive score (a median) for each run, on the log scale. Whole runs are the sample,
    so what changes from one run to the next is in the interval.

    Welch's t interval (Welch 1947): the two kernels may spread differently."""
    from scipy.special import stdtr, stdtrit

    a, b = _logs(first), _logs(second)
    if not len(a) or not len(b):
        return PairedEffect(0)
    difference = float(b.mean() - a.mean())
    effect = PairedEffect(min(len(a), len(b)), math.exp(difference))
    if min(len(a), len(b)) < FEWEST_RUNS:
        return effect
    variances = [float(np.var(each, ddof=1)) / len(each) for each in (a, b)]
    error = math.sqrt(sum(variances))
    if error == 0.0:
        # All runs of a kernel agree to the last digit: no spread to judge by.
        return effect
    freedom = sum(variances) ** 2 / sum(
        variance**2 / (len(each) - 1) for variance, each in zip(variances, (a, b), strict=True)
    )
    half = float(stdtrit(freedom, 0.5 + confidence / 2.0)) * error
    p_value = 2.0 * float(stdtr(freedom, -abs(difference) / error))
    ci = math.exp(difference - half), math.exp(difference + half)
    return replace(effect, ci=ci, p_value=p_value)


def within_runs(first: ArrayLike, second: ArrayLike) -> PairedEffect:
    """From all scores of two kernels: Hodges and Lehmann's shift of the logs, with the interval
    that belongs to the rank sum test (Hollander, Wolfe & Chicken, section 4.3; normal law). It
    knows only the spread inside the runs and says nothing about what happened between them."""
    from scipy.special import ndtr, ndtri

    a, b = _logs(first), _logs(second)
    m, n = len(a), len(b)
    if not m or not n:
        return PairedEffect(0)
    shifts = np.sort(np.subtract.outer(b, a), axis=None)
    effect = PairedEffect(min(m, n), math.exp(float(np.median(shifts))))
    if min(m, n) < FEWEST_SCORES:
        return effect
    mean, sd = m * n / 2.0, math.sqrt(m * n * (m + n + 1) / 12.0)
    cut = math.floor(mean + sd * float(ndtri((1.0 - CONFIDENCE) / 2.0)) - 0.5)
    above = float((shifts > 0).sum() + 0.5 * (shifts == 0).sum())
    p_value = min(1.0, 2.0 * float(ndtr(-(abs(above - mean) - 0.5) / sd)))
    if cut < 0:
        return replace(effect, p_value=p_value)
    ci = math.exp(float(shifts[cut])), math.exp(float(shifts[m * n - 1 - cut]))
    return replace(effect, ci=ci, p_value=p_value)


def _logs(scores: ArrayLike) -> Floats:
    values = np.asarray(scores, dtype=np.float64)
    return np.asarray(np.log(values[np.isfinite(values) & (values > 0)]), dtype=np.float64)


MEMORY_TOLERANCE = 0.02
"""A kernel keeps some memory for itself, so the total differs a little between kernels."""


@dataclass(frozen=True)
class Measured:
    name: str
    label: str
    """The kernel's release on the host, else the variant's name."""
    variant: str
    manifest: Manifest
    data: Samples = field(repr=False)
    boot: str = ""
    """Of the host, whose boots a run does not vary: runs of one have its accident in common."""

    @property
    def kernel(self) -> str:
        """Digest of the kernel and, on the host, how it was booted."""
        return self.manifest.images.get(self.variant, self.variant)

    @cached_property
    def cases(self) -> dict[tuple[str, str], CaseInfo]:
        return {case.key: case for case in self.manifest.cases}

    @cached_property
    def machine(self) -> dict[str, Any]:
        """What has to be alike."""
        guest, host = self.manifest.machine, self.manifest.host
        machine = {"CPU": host.get("cpu_model"), "architecture": host.get("host_arch")}
        machine |= {"memory": host.get("memory_bytes"), "host's CPUs": host.get("cpus")}
        if guest.emulator:
            machine["emulator"] = guest.emulator
        if guest.scattered:
            machine["places of pages"] = "drawn"
        if guest.built:
            machine |= {"guest's memory": guest.memory_bytes, "guest's CPUs": guest.cpus}
        return machine

    def scores_of(self, case: CaseInfo) -> list[float]:
        scores = self.data.scores.get((*case.key, self.variant), {})
        return [scores[block] for block in sorted(scores)]


def measured(run: Run, variant: str | None = None) -> Measured:
    """The run's kernel: ``variant``, else its baseline."""
    manifest = run.manifest()
    name = variant or manifest.baseline
    if name not in manifest.images and variant:
        raise UsageError(
            f"{run.name} has no variant {name!r}; it has {', '.join(manifest.images) or 'none'}"
        )
    data = gather(run.boots())
    if not data.boots.get(name):
        raise UsageError(
            f"{run.name}: no boot of {name} ended well, so there is nothing to compare"
        )
    return Measured(run.name, label_of(run, manifest, name), name, manifest, data)


def _refuse_different(
    runs: Sequence[Measured], *, common: bool
) -> tuple[list[CaseInfo], tuple[str, ...]]:
    """(cases that all runs have, names of those that were left out).

    UsageError for different machines or kinds, and for different cases unless ``common``."""
    first = runs[0]
    for other in runs[1:]:
        kinds = [run.manifest.machine.kind for run in (first, other)]
        if kinds[0] != kinds[1]:
            raise UsageError(
                f"{first.name} was measured on the machine kind {kinds[0]!r}, {other.name} on "
                f"{kinds[1]!r}: their figures have nothing in common"
            )
        for what in dict.fromkeys((*first.machine, *other.machine)):
            one, two = (run.machine.get(what) for run in (first, other))
            same = one == two
            if isinstance(one, float) and isinstance(two, float):
                same = abs(one - two) <= MEMORY_TOLERANCE * max(one, two)
            if not same:
                raise UsageError(
                    f"{first.name} and {other.name} come from different machines: {what} is "
                    f"{_quoted(one)} in the one and {_quoted(two)} in the other. Kernels are "
                    "compared on one machine"
                )
    everything = list(dict.fromkeys(key for run in runs for key in run.cases))
    shared = [key for key in everything if all(key in run.cases for run in runs)]
    alike = [key for key in shared if all(_alike(first.cases[key], run.cases[key]) for run in runs)]
    names = ["/".join(key) for key in everything if key not in alike]
    if names and not common:
        why = [f"{'/'.join(key)}: not the same work" for key in shared if key not in alike]
        why += [f"{'/'.join(key)}: not in all" for key in everything if key not in shared]
        raise UsageError(
            f"the runs did not measure the same cases ({'; '.join(why[:6])}"
            f"{'; …' if len(why) > 6 else ''}). --common compares those that they share"
        )
    if not alike:
        raise UsageError("the runs have no case in common, so there is nothing to compare")
    return [first.cases[key] for key in alike], tuple(names)


def _alike(one: CaseInfo, other: CaseInfo) -> bool:
    if (one.unit, one.better, one.scale) != (other.unit, other.better, other.scale):
        return False
    # A machine that lacks a case never did its work, which is then not known of old runs.
    return one.work == other.work or not (one.work and other.work)


def _quoted(value: Any) -> str:
    if value is None:
        return "not known"
    if isinstance(value, int | float) and value > 1 << 20:
        return f"{value / (1 << 20):.0f} MiB"
    return f"{value:g}" if isinstance(value, float) else str(value)


@dataclass(frozen=True)
class _Arm:
    """One kernel and all its runs, in the order given."""

    label: str
    runs: tuple[Measured, ...]

    def medians(self, case: CaseInfo) -> list[float]:
        """One score for each run that has one."""
        boots: dict[str, list[float]] = {}
        for run in self.runs:
            if scores := run.scores_of(case):
                boots.setdefault(run.boot, []).append(statistics.median(scores))
        return [statistics.median(own) for own in boots.values()]

    @property
    def boots(self) -> int:
        return len({run.boot for run in self.runs})

    def scores(self, case: CaseInfo) -> list[float]:
        return [score for run in self.runs for score in run.scores_of(case)]


def compare(runs: Sequence[Run], *, common: bool = False, variant: str | None = None) -> Verdict:
    """The first run's kernel is the baseline. UsageError for runs that cannot be compared."""
    if len({run.path.resolve() for run in runs}) < max(2, len(runs)):
        raise UsageError(
            "compare needs two different runs or more (`kdyno list runs`), or one run "
            "and --against VARIANT"
        )
    every = _on_boots([measured(run, variant) for run in runs])
    cases, left_out = _refuse_different(every, common=common)
    arms = _arms(every)
    baseline, *others = arms
    refused = {arm.label: _why_no_verdict(baseline, arm) for arm in others}

    def effect(arm: _Arm, case: CaseInfo, confidence: float = CONFIDENCE) -> PairedEffect:
        if refused[arm.label]:
            return within_runs(baseline.scores(case), arm.scores(case))
        return between_runs(baseline.medians(case), arm.medians(case), confidence)

    rows = [(arm, case, effect(arm, case)) for arm in others for case in cases]
    tested = [None if refused[arm.label] else raw.p_value for arm, _, raw in rows]
    levels = iter(step_levels([p for p in tested if p is not None], 1.0 - CONFIDENCE))
    effects = []
    for (arm, case, raw), p_value in zip(rows, tested, strict=True):
        corrected = None if p_value is None else effect(arm, case, 1.0 - next(levels))
        effects.append(_effect(case, (baseline, arm), raw, corrected))
    return Verdict(
        experiment=" against ".join(arm.label for arm in reversed(arms)),
        baseline=baseline.label,
        confidence=CONFIDENCE,
        equivalent=EQUIVALENT,
        stopped="runs that were there already",
        boots={arm.label: sum(run.data.boots[run.variant] for run in arm.runs) for arm in arms},
        flags=tuple(_flags(arms, effects, refused, left_out)),
        effects=tuple(effects),
        tool=__version__,
        rule=RULE,
    )


def _on_boots(runs: Sequence[Measured]) -> list[Measured]:
    """Each with its boot; of the host the one that it says, or else what lies between two changes
    of the kernel. A run that boots its kernels itself has boots of its own."""
    boots: dict[str, str] = {}
    last, number = "", 0
    for run in sorted(runs, key=lambda run: run.manifest.created):
        number += run.kernel != last
        last = run.kernel
        own = run.manifest.host.get("boot_id") or number
        boots[run.name] = str(own) if run.manifest.machine.kind == "host" else run.name
    return [replace(run, boot=boots[run.name]) for run in runs]


def _arms(runs: Sequence[Measured]) -> list[_Arm]:
    """Runs of one kernel together; runs that are all of one kernel each for itself."""
    by_kernel: dict[str, list[Measured]] = {}
    for run in runs:
        by_kernel.setdefault(run.kernel, []).append(run)
    if len(by_kernel) == 1:
        return [_Arm(run.name, (run,)) for run in runs]
    labels = [own[0].label for own in by_kernel.values()]
    return [
        _Arm(label if labels.count(label) == 1 else f"{label} ({kernel[:6]})", tuple(own))
        for label, (kernel, own) in zip(labels, by_kernel.items(), strict=True)
    ]


def _why_no_verdict(first: _Arm, second: _Arm) -> str:
    """Why these two cannot have a verdict; "" when they can."""
    fewest = min(len(first.runs), len(second.runs))
    if fewest < FEWEST_RUNS:
        return (
            f"{fewest} run{'' if fewest == 1 else 's'} of a kernel where {FEWEST_RUNS} are needed "
            "to know how much it differs from itself from run to run"
        )
    times = [[run.manifest.created for run in arm.runs] for arm in (first, second)]
    if max(times[0]) < min(times[1]) or max(times[1]) < min(times[0]):
        return (
            f"all runs of {first.label} and of {second.label} lie on one side of each other in "
            "time, so that slow drift looks like a difference; boot them alternately"
        )
    if (least := min((first, second), key=lambda arm: arm.boots)).boots < FEWEST_RUNS:
        return (
            f"all runs of {least.label} are of {least.boots} boots of the host where {FEWEST_RUNS} "
            "are needed: what is by chance in a boot is in all runs of it; boot them alternately"
        )
    return ""


def _effect(
    case: CaseInfo, arms: tuple[_Arm, _Arm], raw: PairedEffect, corrected: PairedEffect | None
) -> Effect:
    """``corrected``: with the interval that Holm's correction gives it; None: no verdict."""
    ci = (corrected or raw).ci
    word, too_small = "inconclusive", False
    if corrected is not None:
        word, too_small = word_of(ci, case.better, EQUIVALENT)
    medians = [arm.medians(case) for arm in arms]
    lacking = [arm.label for arm, own in zip(arms, medians, strict=True) if not own]
    reason = f"{', '.join(lacking)}: no score" if lacking else None
    alike = all(len(set(own)) == 1 < FEWEST_RUNS <= len(own) for own in medians)
    if raw.ci is None and alike:
        reason = "all runs of each kernel have one and the same value: no spread to judge by"
    return Effect(
        **case.about,
        variant=arms[1].label,
        baseline_value=statistics.median(medians[0]) if medians[0] else None,
        value=statistics.median(medians[1]) if medians[1] else None,
        ratio=raw.ratio,
        ci=ci,
        ci_raw=raw.ci,
        # Runs where these are what is compared, else boots.
        blocks=min(map(len, medians if corrected else [arm.scores(case) for arm in arms])),
        verdict="failed" if lacking else word,  # type: ignore[arg-type]
        equivalent_too=too_small,
        differs=corrected is None and ci is not None and not ci[0] <= 1 <= ci[1],
        control=case.control,
        reason=reason,
    )


def _flags(
    arms: Sequence[_Arm],
    effects: Sequence[Effect],
    refused: Mapping[str, str],
    left_out: Sequence[str],
) -> list[Flag]:
    runs = [run for arm in arms for run in arm.runs]
    # Caveats about boots do not apply where runs are compared.
    caveats = (flag for run in runs for flag in run.manifest.machine.caveats)
    flags = list(dict.fromkeys(flag for flag in caveats if flag.kind == "machine"))

    def flag(kind: str, text: str, variant: str | None = None) -> None:
        flags.append(Flag(kind=kind, text=text, variant=variant))

    # What changed meanwhile cannot touch instructions.
    if any(run.manifest.asked.metric == "time" for run in runs):
        flag(
            "not-interleaved",
            "these runs were measured one after the other: whatever changed between them, "
            "temperature, updates, what else ran, is in the differences",
        )
    if outside := [run.name for run in runs if run.manifest.host.get("sandbox") is False]:
        flags.append(outside_sandbox(f"{', '.join(outside[:_SHOWN])}: "))
    if len({run.kernel for run in runs}) == 1:
        flag(
            "same-kernel",
            "all runs are of one image: what differs is how it was booted, the machine or the time",
        )
    for arm in arms[1:]:
        if not (why := refused[arm.label]):
            continue
        named = [
            f"{effect.case} {100 * ((effect.ratio or 1) - 1):+.1f} %"
            for effect in effects
            if effect.variant == arm.label and effect.differs
        ]
        more = f" and {len(named) - _SHOWN} more" if len(named) > _SHOWN else ""
        differs = f"; differs by more than the runs' own spread: {', '.join(named[:_SHOWN])}{more}"
        flag("no-verdict", f"no verdict: {why}{differs if named else ''}", arm.label)
    if left_out:
        flag("common-cases", f"only the common cases are compared; left out: {', '.join(left_out)}")
    seconds = [
        {f"{case.suite}/{case.case}": case.seconds for case in run.manifest.cases if case.seconds}
        for run in runs
    ]
    first, pairs = seconds[0], [pair for own in seconds for pair in own.items()]
    if names := sorted({name for name, value in pairs if value != first.get(name, value)}):
        flag("settings", f"not measured for the same time in all runs: {', '.join(names[:_SHOWN])}")
    if {run.manifest.interleave for run in runs} not in ({"turns"}, {"boots"}):
        flag("settings", "some were measured by turns and some by whole boots, which are not alike")
    return flags
