# SPDX-License-Identifier: MIT
"""From the boots of a run to its verdict."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from statistics import median
from typing import Any

import numpy as np

from kdyno import __version__
from kdyno.judge import disturbance, flags
from kdyno.judge.alone import own_spread, values_of
from kdyno.judge.explaining import explained
from kdyno.judge.factoring import factor_claims, factor_table
from kdyno.judge.flags import Judged
from kdyno.judge.grouping import group_effects, group_rows
from kdyno.judge.machines import differing, strata_of
from kdyno.judge.pairs import (
    claim_of,
    effect_of,
    links_of,
    log_quantiles,
    log_ratios,
    log_sums,
    parts_ratio,
    ranked_effect,
    slow_turns,
    spread_of,
)
from kdyno.judge.question import Question
from kdyno.stats import noise
from kdyno.stats.effect import PairedEffect, effect_of_differences, interval
from kdyno.stats.holm import adjusted
from kdyno.stats.stopping import SHARE_FOR_VERDICTS
from kdyno.stats.throughput import Summed, judge_sums
from kdyno.stats.verdict import RULE, Claim, Judgement, judge
from kdyno.store.counts import stored_counts
from kdyno.store.manifest import CaseInfo, Manifest
from kdyno.store.run import Run
from kdyno.store.samples import Key, Samples, gather
from kdyno.store.verdict import Apart, Effect, Quantile, Throughput, Verdict
from kdyno.suites import catalogue
from kdyno.suites.instructions import FIGURES

Floors = Mapping[tuple[str, str], float | None]
"""(suite, case) → its noise floor; empty for a run that was not calibrated."""


def raw_effects(
    data: Samples, question: Question, given_up: Sequence[str], blocks: int | None = None
) -> dict[Key, PairedEffect]:
    """(suite, case, variant) → raw effect, for the stopping rule and the live display.

    ``blocks``: of the first so many only. Variants that were given up are left out, and cases that
    never gave a pair. Where nothing is compared it is each case's own spread.
    """
    if not question.compared:
        return own_spread(data, question, blocks)
    found = {}
    for variant in question.compared:
        if variant in given_up:
            continue
        for case in question.cases:
            effect = ranked_effect(data, question, case, variant, blocks)
            if effect.n > 0 or data.blocks < 3:
                found[(case.suite, case.case, variant)] = effect
    return found


def raw_sums(
    data: Samples, question: Question, keys: Container[Key], blocks: int | None = None
) -> list[PairedEffect]:
    """The effects with these keys by summed times and by ranks, for the stopping rule; those of
    which every block has a sum. ``blocks``: of the first so many only."""
    effects = []
    for variant in question.compared:
        for case in question.cases:
            if (case.suite, case.case, variant) in keys:
                sums = log_sums(data, question, case, variant)[:blocks]
                own = sums[np.isfinite(sums)]
                if 0 < len(own) == len(log_ratios(data, question, case, variant, blocks)):
                    effects.append(effect_of_differences(own, question.confidence))
    return effects


def verdict_of(run: Run, question: Question, stopped: str) -> Verdict:
    """Judge everything that the run has on disk.

    What people are told in words (``answer``, the factors' ``summary``) is left empty: the report
    makes it from the rest.
    """
    disturbed = disturbance.Tally()
    data = gather(disturbed.watch(run.boots()))
    manifest = run.manifest()
    floors = _noise_floors(data, question)
    suites = catalogue.load()
    copies, more = _judged(data, question, [question.copy] if question.copy else [], {})
    # One family: whatever a reader may take for a finding of this run.
    own = [it for _, _, it in _claims(data, question, question.variants, floors)]
    wholes = [claim for *_, claim in group_rows(data, question, suites)]
    crossed = factor_claims(data, question)
    beside = [*wholes, *crossed]
    claims, of_variants = _judged(data, question, question.variants, floors, beside)
    more |= of_variants
    strata = strata_of(data, question, manifest, claims)
    effects = [
        _effect(data, question, manifest, case, variant, judgement, floors).model_copy(
            update={"strata": strata.get(key), **more.get(key, {})}
        )
        for case, variant, judgement in (*claims, *copies)
        for key in [(case.suite, case.case, variant)]
    ]
    beware = (
        *question.caveats,
        *flags.confirming(manifest),
        *([flags.outside_sandbox()] if manifest.host.get("sandbox") is False else []),
        *flags.not_by_turns(manifest),
        *differing(strata),
        *flags.tails(effects),
        *flags.few_boots(claims),
        *flags.rare_work(data, question, claims),
        *flags.layouts(data, question, (*claims, *copies)),
        *flags.moved_controls(claims),
        *flags.moved_copies(copies),
        *disturbed.flags(),
        *flags.asleep(data, question),
        *flags.restless(data, question),
        *flags.drifted(data, question),
        *flags.failed_boots(data),
    )
    made = Verdict(
        experiment=question.experiment,
        question=question.text,
        baseline=question.baseline,
        confidence=question.confidence,
        equivalent=question.equivalent,
        precision=question.precision,
        stopped=stopped,
        boots={name: data.boots.get(name, 0) for name in question.names},
        failed=dict(manifest.failed),
        flags=beware,
        effects=tuple(effects),
        copy_of_baseline=question.copy,
        values=() if question.compared else values_of(data, question),
        groups=group_effects(data, question, suites, [*own, *crossed]),
        factors=factor_table(data, question, [*own, *wholes]),
        tool=__version__,
        rule=RULE,
    )
    return explained(made, stored_counts(run, question.names)) if question.counted else made


def _claims(
    data: Samples, question: Question, variants: Sequence[str], floors: Floors
) -> list[tuple[CaseInfo, str, Claim]]:
    return [
        (
            case,
            variant,
            claim_of(data, question, case, variant, floors.get((case.suite, case.case))),
        )
        for variant in variants
        for case in question.cases
    ]


def _judged(
    data: Samples,
    question: Question,
    variants: Sequence[str],
    floors: Floors,
    beside: Sequence[Claim] = (),
) -> tuple[list[Judged], dict[Key, dict[str, Any]]]:
    """(judgements, (suite, case, variant) → what its effect has by summed times and quantiles).

    ``beside``: what else the run claims.
    """
    rows = _claims(data, question, variants, floors)
    figures = [
        (case, variant, name, ratios)
        for case, variant, _ in rows
        for name, ratios in log_quantiles(data, question, case, variant).items()
    ]
    alpha = 1.0 - question.confidence
    claims = [claim for *_, claim in rows]
    judged, of_figures = judge_sums(
        claims,
        judge([*claims, *beside], question.equivalent, alpha)[: len(claims)],
        [log_sums(data, question, case, variant) for case, variant, _ in rows],
        [Claim(ratios, "lower") for *_, ratios in figures],
        question.equivalent,
        alpha,
    )
    more: dict[Key, dict[str, Any]] = {}
    tested = [at for at, (each, _) in enumerate(judged) if each.effect.p_value is not None]
    raw = [judged[at][0].effect.p_value or 0.0 for at in tested]
    for at, p_value in zip(tested, adjusted(raw), strict=True):
        (case, variant, _), (_, summed) = rows[at], judged[at]
        by_sum = summed is not None and summed.decides
        least = alpha if by_sum else min(1.0, p_value / SHARE_FOR_VERDICTS)
        more[case.suite, case.case, variant] = {"p_value": least}
    for (case, variant, _), (_, summed) in zip(rows, judged, strict=True):
        if summed is not None:
            throughput = _throughput(data, question, case, variant, summed)
            more.setdefault((case.suite, case.case, variant), {})["throughput"] = throughput
    for (case, variant, name, _), each in zip(figures, of_figures, strict=True):
        of = more.setdefault((case.suite, case.case, variant), {})
        of["quantiles"] = (*of.get("quantiles", ()), _quantile(name, each))
    words = [
        (case, variant, each) for (case, variant, _), (each, _) in zip(rows, judged, strict=True)
    ]
    return words, more


def _throughput(
    data: Samples, question: Question, case: CaseInfo, variant: str, summed: Summed
) -> Throughput:
    return Throughput(
        ratio=summed.effect.ratio,
        ci=interval(summed.lo, summed.hi),
        ci_raw=interval(summed.effect.lo, summed.effect.hi),
        tail=summed.tail,
        decides=summed.decides,
        slow_turns=slow_turns(data, question, case, variant),
    )


def _quantile(name: str, judgement: Judgement) -> Quantile:
    return Quantile(
        figure=name,
        ratio=judgement.effect.ratio,
        ci=interval(judgement.lo, judgement.hi),
        blocks=judgement.effect.n,
        verdict=judgement.word,
        equivalent_too=judgement.equivalent_too,
    )


def _noise_floors(data: Samples, question: Question) -> Floors:
    if question.copy is None:
        return {}
    return {
        (case.suite, case.case): noise.noise_floor(effect_of(data, question, case, question.copy))
        for case in question.cases
    }


def _effect(
    data: Samples,
    question: Question,
    manifest: Manifest,
    case: CaseInfo,
    variant: str,
    judgement: Judgement,
    floors: Floors,
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
        ci=interval(judgement.lo, judgement.hi),
        ci_raw=interval(raw.lo, raw.hi),
        mean_ratio=raw.mean_ratio,
        mean_ci=interval(raw.mean_lo, raw.mean_hi),
        noise_floor=floors.get((case.suite, case.case)),
        blocks=raw.n,
        verdict="failed" if reason or variant in manifest.failed else judgement.word,
        equivalent_too=judgement.equivalent_too,
        inside_noise_floor=judgement.inside_noise_floor and variant != question.copy,
        # Of several links: it would be links that settle it, and there are no more.
        predicted_blocks=None if data.links else judgement.predicted_blocks,
        control=case.control,
        exact=raw.exact,
        parts_ratio=parts_ratio(data, question, case, variant),
        reason=reason or manifest.failed.get(variant),
        spread=spread_of(data, question, case, variant),
        links=links_of(data, question, case, variant),
        apart=_apart(data, question, case, variant),
    )


def _apart(data: Samples, question: Question, case: CaseInfo, variant: str) -> tuple[Apart, ...]:
    """Medians of what both kernels' operations are made of."""
    before = data.apart.get((case.suite, case.case, question.baseline), {})
    after = data.apart.get((case.suite, case.case, variant), {})
    return tuple(
        Apart(figure=name, baseline_value=median(before[name]), value=median(after[name]))
        for name in sorted(before.keys() & after.keys(), key=_place)
    )


def _place(figure: str) -> tuple[int, str]:
    return (FIGURES.index(figure) if figure in FIGURES else len(FIGURES), figure)


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
    scores = data.scores.get((case.suite, case.case, variant))
    return float(np.median(list(scores.values()))) if scores else None
