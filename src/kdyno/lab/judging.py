# SPDX-License-Identifier: MIT
"""From the boots of a run to its verdict."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kdyno.experiment.running import HOST
from kdyno.lab import disturbance
from kdyno.lab.factoring import factor_table
from kdyno.lab.hosting import HOST_CAVEAT, host_answer, own_spread, values_of
from kdyno.report.sentence import answer
from kdyno.stats import controls, noise
from kdyno.stats.effect import PairedEffect, paired_effect
from kdyno.stats.verdict import EffectInput, Judgement, judge
from kdyno.store.manifest import CaseInfo, Manifest
from kdyno.store.run import Run
from kdyno.store.samples import Samples, gather
from kdyno.store.verdict import Effect, Flag, Verdict

UML_CAVEAT = (
    "measured under User Mode Linux: comparisons of kernel code carry over, absolute figures "
    "and the cost of entering the kernel do not"
)


@dataclass(frozen=True)
class Question:
    """What a verdict needs to know of the experiment."""

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
    machine: str
    levels: Mapping[str, tuple[tuple[str, str], ...]] = field(default_factory=dict)
    """Variant → its (factor, level) pairs, where the variants are a cross."""


def paired(
    data: Samples, case: CaseInfo, baseline: str, variant: str
) -> tuple[list[float], list[float]]:
    """Scores of both arms, one per block; NaN where a boot or its case failed."""
    before = data.scores.get((case.suite, case.case, baseline), {})
    after = data.scores.get((case.suite, case.case, variant), {})
    blocks = range(data.blocks)
    return (
        [before.get(block, math.nan) for block in blocks],
        [after.get(block, math.nan) for block in blocks],
    )


def raw_effects(
    data: Samples, question: Question, given_up: Sequence[str]
) -> dict[tuple[str, str, str], PairedEffect]:
    """(suite, case, variant) → raw effect, for the stopping rule and the live display.

    Variants that were given up are left out, and cases that never gave a pair.
    """
    found = own_spread(data, question) if question.machine == HOST and not question.copy else {}
    for variant in question.variants or ((question.copy,) if question.copy else ()):
        if variant in given_up:
            continue
        for case in question.cases:
            effect = paired_effect(
                *paired(data, case, question.baseline, variant), question.confidence
            )
            if effect.n > 0 or data.blocks < 3:
                found[(case.suite, case.case, variant)] = effect
    return found


def verdict_of(run: Run, question: Question, stopped: str) -> Verdict:
    """Judge everything that the run has on disk."""
    disturbed = disturbance.Tally()
    data = gather(disturbed.watch(run.boots()))
    manifest = run.manifest()
    floors = _noise_floors(data, question)
    copies = _judged(data, question, [question.copy] if question.copy else [], {})
    claims = _judged(data, question, question.variants, floors)
    effects = [
        _effect(data, question, manifest, case, variant, judgement, floors)
        for case, variant, judgement in (*claims, *copies)
    ]
    flags = [
        *([Flag(kind="machine", text=UML_CAVEAT)] if question.machine == "uml" else []),
        *([Flag(kind="not-rebooted", text=HOST_CAVEAT)] if question.machine == HOST else []),
        *_control_flags(claims),
        *_copy_flags(copies),
        *disturbed.flags(),
        *_drift_flags(data, question),
        *(
            Flag(kind="damaged", text=f"{bad.name}: {bad.reason} (not used)")
            for bad in data.damaged
        ),
    ]
    for variant, reasons in sorted(data.failures.items()):
        told = ", ".join(f"{count} × {reason}" for reason, count in reasons.most_common())
        flags.append(Flag(kind="failed-boots", text=f"{variant}: {told}", variant=variant))
    judged = Verdict(
        experiment=question.experiment,
        question=question.text,
        baseline=question.baseline,
        confidence=question.confidence,
        equivalent=question.equivalent,
        precision=question.precision,
        stopped=stopped,
        boots={
            name: data.boots.get(name, 0)
            for name in (
                question.baseline,
                *([question.copy] if question.copy else []),
                *question.variants,
            )
        },
        failed=dict(manifest.failed),
        flags=tuple(flags),
        effects=tuple(effects),
        copy_of_baseline=question.copy,
        factors=factor_table(data, question),
    )
    if question.machine == HOST and not question.copy:
        values = values_of(data, question)
        return judged.model_copy(update={"values": values, "answer": host_answer(values, manifest)})
    return judged.model_copy(update={"answer": answer(judged)})


_Judged = tuple[CaseInfo, str, Judgement]


def _judged(
    data: Samples,
    question: Question,
    variants: Sequence[str],
    floors: dict[tuple[str, str], float | None],
) -> list[_Judged]:
    pairs = [(case, variant) for variant in variants for case in question.cases]
    inputs = []
    for case, variant in pairs:
        before, after = paired(data, case, question.baseline, variant)
        floor = floors.get((case.suite, case.case))
        inputs.append(EffectInput(before, after, case.better, floor))
    judged = judge(inputs, question.equivalent, 1.0 - question.confidence)
    return [(case, variant, each) for (case, variant), each in zip(pairs, judged, strict=True)]


def _noise_floors(data: Samples, question: Question) -> dict[tuple[str, str], float | None]:
    if question.copy is None:
        return {}
    return {
        (case.suite, case.case): noise.noise_floor(
            paired_effect(
                *paired(data, case, question.baseline, question.copy), question.confidence
            )
        )
        for case in question.cases
    }


def _effect(
    data: Samples,
    question: Question,
    manifest: Manifest,
    case: CaseInfo,
    variant: str,
    judgement: Judgement,
    floors: dict[tuple[str, str], float | None],
) -> Effect:
    raw = judgement.effect
    reason = _why_no_figure(data, question, manifest, case, variant) if raw.n == 0 else None
    return Effect(
        suite=case.suite,
        case=case.case,
        variant=variant,
        unit=case.unit,
        better=case.better,
        baseline_value=_median(data, case, question.baseline),
        value=_median(data, case, variant),
        ratio=raw.ratio,
        ci=_interval(judgement.lo, judgement.hi),
        ci_raw=_interval(raw.lo, raw.hi),
        mean_ratio=raw.mean_ratio,
        mean_ci=_interval(raw.mean_lo, raw.mean_hi),
        noise_floor=floors.get((case.suite, case.case)),
        blocks=raw.n,
        verdict="failed" if reason or variant in manifest.failed else judgement.word,
        equivalent_too=judgement.equivalent_too,
        inside_noise_floor=judgement.inside_noise_floor and variant != question.copy,
        predicted_blocks=judgement.predicted_blocks,
        control=case.control,
        reason=reason or manifest.failed.get(variant),
    )


def _why_no_figure(
    data: Samples, question: Question, manifest: Manifest, case: CaseInfo, variant: str
) -> str | None:
    for name in (variant, question.baseline):
        if name in manifest.failed:
            return f"{name}: {manifest.failed[name]}"
        reasons = data.missing.get((case.suite, case.case, name))
        if reasons:
            return f"{name}: {reasons.most_common(1)[0][0]}"
    return None


def _median(data: Samples, case: CaseInfo, variant: str) -> float | None:
    import numpy as np

    scores = data.scores.get((case.suite, case.case, variant))
    return float(np.median(list(scores.values()))) if scores else None


def _interval(low: float | None, high: float | None) -> tuple[float, float] | None:
    return None if low is None or high is None else (low, high)


def _control_flags(claims: list[_Judged]) -> list[Flag]:
    own = [each for each in claims if each[0].control]
    read = controls.read_controls([judgement for _, _, judgement in own])
    flags = []
    for index in read.moved:
        case, variant, judgement = own[index]
        percent = 100 * ((judgement.effect.ratio or 1.0) - 1.0)
        small = index not in read.moved_and_matter
        flags.append(
            Flag(
                kind="control-moved",
                text=f"{case.case} does not depend on the kernel, yet {variant} moved it by "
                f"{percent:+.2f} %{' (too little to matter)' if small else ''}: code layout, "
                "frequency or the machine changed, so take effects of that size as noise",
                variant=variant,
                suite=case.suite,
                case=case.case,
            )
        )
    return flags


def _copy_flags(copies: list[_Judged]) -> list[Flag]:
    return [
        Flag(
            kind="copy-moved",
            text=f"{case.case}: the baseline's own copy came out {judgement.word} than the "
            "baseline; effects of that size are noise here",
            variant=variant,
            suite=case.suite,
            case=case.case,
        )
        for case, variant, judgement in copies
        if judgement.word in ("faster", "slower") and not judgement.equivalent_too
    ]


def _drift_flags(data: Samples, question: Question) -> list[Flag]:
    moved = []
    for case in question.cases:
        scores = data.scores.get((case.suite, case.case, question.baseline), {})
        seen = noise.drift([scores[block] for block in sorted(scores)])
        if seen is not None and seen.drifting and abs(seen.change) > question.equivalent:
            moved.append(f"{case.case} {100 * seen.change:+.1f} %")
    if not moved:
        return []
    text = (
        f"the baseline drifted over the run ({', '.join(moved)}); comparisons are within blocks, "
        "so this cancels"
    )
    return [Flag(kind="drift", text=text)]
