# SPDX-License-Identifier: MIT
"""Runs against each other: kernels that somebody booted by hand, one after the other.

kdyno's own verdicts rest on blocks: kernels interleaved, so that drift cancels. Here nothing
was interleaved, so the rules are stricter (docs/comparing.md): a verdict needs three runs or
more of each kernel, and the runs of one must not all come before those of the other. Otherwise
the word is inconclusive, and at most "differs" is noted.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kdyno import __version__
from kdyno.errors import UsageError
from kdyno.judge.flags import outside_sandbox
from kdyno.stats.effect import interval
from kdyno.stats.holm import step_levels
from kdyno.stats.unpaired import FEWEST_RUNS, UnpairedEffect, between_runs, within_runs
from kdyno.stats.verdict import word_of
from kdyno.store.comparable import Measured, measured, refuse_different
from kdyno.store.manifest import CaseInfo
from kdyno.store.run import Run
from kdyno.store.verdict import Effect, Flag, Verdict

RULE = "runs-welch-holm/1"
"""See ``stats.verdict.RULE``; runs as samples, Welch's interval, Holm's correction."""
_SHOWN = 6


@dataclass(frozen=True)
class _Arm:
    """One kernel and all its runs, in the order given."""

    label: str
    runs: tuple[Measured, ...]

    def medians(self, case: CaseInfo) -> list[float]:
        """One score for each run that has one."""
        return [statistics.median(it) for run in self.runs if (it := run.scores_of(case))]

    def scores(self, case: CaseInfo) -> list[float]:
        return [score for run in self.runs for score in run.scores_of(case)]


def compare(
    runs: Sequence[Run],
    *,
    common: bool = False,
    variant: str | None = None,
    confidence: float = 0.95,
    equivalent: float = 0.01,
) -> Verdict:
    """The first run's kernel is the baseline. UsageError for runs that cannot be compared."""
    if len({run.path.resolve() for run in runs}) < max(2, len(runs)):
        raise UsageError(
            "compare needs two different runs or more (`kdyno list runs`), or one run "
            "and --against VARIANT"
        )
    found = [measured(run, variant) for run in runs]
    cases, left_out = refuse_different(found, common=common)
    arms = _arms(found)
    baseline, *others = arms
    rows = [
        (case, arm, _effect(baseline, arm, case, confidence)) for arm in others for case in cases
    ]
    verdicts = {arm.label: _verdict_allowed(baseline, arm) for arm in others}
    corrected = _corrected(rows, baseline, verdicts, confidence)
    effects = tuple(
        _told(case, baseline, arm, raw, corrected.get(index), equivalent)
        for index, (case, arm, raw) in enumerate(rows)
    )
    return Verdict(
        experiment=" against ".join(arm.label for arm in reversed(arms)),
        baseline=baseline.label,
        confidence=confidence,
        equivalent=equivalent,
        stopped="runs that were there already",
        boots={arm.label: sum(run.boots for run in arm.runs) for arm in arms},
        flags=tuple(_flags(arms, effects, verdicts, left_out)),
        effects=effects,
        tool=__version__,
        rule=RULE,
    )


def _arms(found: Sequence[Measured]) -> list[_Arm]:
    """Runs of one kernel together; runs that are all of one kernel each for itself."""
    by_kernel: dict[str, list[Measured]] = {}
    for run in found:
        by_kernel.setdefault(run.kernel, []).append(run)
    if len(by_kernel) == 1:
        return [_Arm(run.name, (run,)) for run in found]
    labels = [runs[0].label for runs in by_kernel.values()]
    return [
        _Arm(
            runs[0].label
            if labels.count(runs[0].label) == 1
            else f"{runs[0].label} ({kernel[:6]})",
            tuple(runs),
        )
        for kernel, runs in by_kernel.items()
    ]


def _verdict_allowed(first: _Arm, second: _Arm) -> str:
    """Why these two cannot have a verdict; "" when they can."""
    fewest = min(len(first.runs), len(second.runs))
    if fewest < FEWEST_RUNS:
        return (
            f"{fewest} run{'' if fewest == 1 else 's'} of a kernel where {FEWEST_RUNS} are needed "
            "to know how much it differs from itself from run to run"
        )
    times = [[run.created for run in arm.runs] for arm in (first, second)]
    if max(times[0]) < min(times[1]) or max(times[1]) < min(times[0]):
        return (
            f"all runs of {first.label} and of {second.label} lie on one side of each other in "
            "time, so that slow drift looks like a difference; boot them alternately"
        )
    return ""


def _effect(first: _Arm, second: _Arm, case: CaseInfo, confidence: float) -> UnpairedEffect:
    if not _verdict_allowed(first, second):
        return between_runs(first.medians(case), second.medians(case), confidence)
    return within_runs(first.scores(case), second.scores(case), confidence)


def _corrected(
    rows: Sequence[tuple[CaseInfo, _Arm, UnpairedEffect]],
    baseline: _Arm,
    refused: Mapping[str, str],
    confidence: float,
) -> dict[int, UnpairedEffect]:
    """Index of a row → its effect with the interval that Holm's correction gives it."""
    tested = {
        index: effect.p_value
        for index, (_case, arm, effect) in enumerate(rows)
        if effect.p_value is not None and not refused[arm.label]
    }
    levels = step_levels(list(tested.values()), 1.0 - confidence)
    return {
        index: _effect(baseline, rows[index][1], rows[index][0], 1.0 - level)
        for index, level in zip(tested, levels, strict=True)
    }


def _told(
    case: CaseInfo,
    first: _Arm,
    second: _Arm,
    raw: UnpairedEffect,
    corrected: UnpairedEffect | None,
    equivalent: float,
) -> Effect:
    seen = corrected or raw
    ci = interval(seen.lo, seen.hi)
    word, too_small = "inconclusive", False
    if corrected is not None:
        word, too_small = word_of(corrected.lo, corrected.hi, case.better, equivalent)
    medians = [first.medians(case), second.medians(case)]
    lacking = [arm.label for arm, it in zip((first, second), medians, strict=True) if not it]
    return Effect(
        suite=case.suite,
        case=case.case,
        variant=second.label,
        unit=case.unit,
        better=case.better,
        baseline_value=statistics.median(medians[0]) if medians[0] else None,
        value=statistics.median(medians[1]) if medians[1] else None,
        ratio=raw.ratio,
        ci=ci,
        ci_raw=interval(raw.lo, raw.hi),
        # Runs where these are what is compared, else boots.
        blocks=min(map(len, medians if corrected else (first.scores(case), second.scores(case)))),
        verdict="failed" if lacking else word,  # type: ignore[arg-type]
        equivalent_too=too_small,
        differs=corrected is None and ci is not None and not ci[0] <= 1 <= ci[1],
        control=case.control,
        reason=f"{', '.join(lacking)}: no score" if lacking else None,
    )


def _flags(
    arms: Sequence[_Arm],
    effects: Sequence[Effect],
    refused: Mapping[str, str],
    left_out: Sequence[str],
) -> list[Flag]:
    runs = [run for arm in arms for run in arm.runs]
    flags = list(dict.fromkeys(flag for run in runs for flag in run.caveats))
    if not all(run.counted for run in runs):
        text = (
            "these runs were measured one after the other: whatever changed between them, "
            "temperature, updates, what else ran, is in the differences"
        )
        flags.append(Flag(kind="not-interleaved", text=text))
    outside = [run.name for arm in arms for run in arm.runs if run.outside]
    if outside:
        flags.append(outside_sandbox(f"{', '.join(outside[:_SHOWN])}: "))
    if len({run.kernel for arm in arms for run in arm.runs}) == 1:
        text = "all runs are of one and the same kernel: what differs is the machine or the time"
        flags.append(Flag(kind="same-kernel", text=text))
    for arm in arms[1:]:
        why = refused[arm.label]
        if not why:
            continue
        mine = [it for it in effects if it.variant == arm.label and it.differs]
        named = [f"{it.case} {100 * ((it.ratio or 1) - 1):+.1f} %" for it in mine[:_SHOWN]]
        more = f" and {len(mine) - _SHOWN} more" if len(mine) > _SHOWN else ""
        differs = f"; differs by more than the runs' own spread: {', '.join(named)}{more}"
        text = f"no verdict: {why}{differs if mine else ''}"
        flags.append(Flag(kind="no-verdict", text=text, variant=arm.label))
    if left_out:
        text = f"only the common cases are compared; left out: {', '.join(left_out)}"
        flags.append(Flag(kind="common-cases", text=text))
    seconds = {
        name
        for arm in arms
        for run in arm.runs
        for name, value in run.seconds.items()
        if value != arms[0].runs[0].seconds.get(name, value)
    }
    if seconds:
        text = f"not measured for the same time in all runs: {', '.join(sorted(seconds)[:_SHOWN])}"
        flags.append(Flag(kind="settings", text=text))
    return flags
