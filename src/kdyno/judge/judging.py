# SPDX-License-Identifier: MIT
"""From the boots of a run to its verdict; of a stored run again, by today's rule.

Everything that a reader may take for a finding of the run is one family: effects, groups of cases,
rows of factors. A copy of the baseline is a yardstick and is judged by itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

import numpy as np

from kdyno import __version__
from kdyno.errors import UsageError
from kdyno.judge import flags
from kdyno.judge.explaining import explained
from kdyno.judge.factors import crosses_of, rows_of, table_of
from kdyno.judge.pairs import Judged, Pair, figures_of, pairs_of
from kdyno.judge.question import Question
from kdyno.reading.mistakes import nearest, quoted
from kdyno.stats import stopping
from kdyno.stats.effect import (
    Floats,
    PairedEffect,
    effect_of_differences,
    interval,
    paired_effect,
)
from kdyno.stats.groups import Heterogeneity, heterogeneity
from kdyno.stats.verdict import (
    RULE,
    Claim,
    Judgement,
    adjusted,
    judge,
    judge_sums,
    noise_floor,
)
from kdyno.store.boot import BootRecord
from kdyno.store.counts import stored_counts
from kdyno.store.manifest import Manifest
from kdyno.store.run import Run
from kdyno.store.samples import Key, Samples, gather
from kdyno.store.verdict import (
    Apart,
    CaseValue,
    Effect,
    FactorTable,
    Flag,
    GroupEffect,
    Quantile,
    Strata,
    StratumEffect,
    Throughput,
    Verdict,
)
from kdyno.suites import catalogue
from kdyno.suites.catalogue import FIGURES, Catalogue
from kdyno.suites.score import group_scores

_STRATA_SHOWN = 8


@dataclass(frozen=True)
class Otherwise:
    """What is asked differently this time; None: as the run was asked."""

    confidence: float | None = None
    equivalent: float | None = None
    precision: float | None = None


def question_of(run: Run, otherwise: Otherwise) -> tuple[Question, Manifest]:
    """(what is to be judged, the run's manifest).

    UsageError for a run that has nothing to judge, ToolError for one that cannot be read.
    """
    manifest = run.manifest()
    if not manifest.failed and not any(isinstance(boot, BootRecord) for boot in run.boots()):
        raise UsageError(f"{run.name} has no boot that can be read, so there is nothing to judge")
    question = Question.of(manifest)
    return replace(
        question,
        confidence=otherwise.confidence or question.confidence,
        equivalent=otherwise.equivalent or question.equivalent,
        precision=otherwise.precision or question.precision,
    ), manifest


def judge_again(run: Run, otherwise: Otherwise) -> tuple[Verdict, Manifest]:
    """(verdict without its words, the run's manifest). Errors as ``question_of``."""
    question, manifest = question_of(run, otherwise)
    verdict = verdict_of(run, question, manifest.stopped or "interrupted")
    if manifest.state in ("running", "interrupted"):
        text = (
            f"measuring did not come to its end; judged were the {sum(verdict.boots.values())} "
            "boots that ended well (`kdyno run --resume RUN` goes on)"
        )
        interrupted = Flag(kind="interrupted", text=text)
        verdict = verdict.model_copy(update={"flags": (*verdict.flags, interrupted)})
    return verdict, manifest


def within(run: Run, against: str, variant: str | None = None) -> Verdict:
    """The run judged as if ``against`` were its baseline; of one variant, or of all the others.

    By the rule that every run is judged by, corrected for the effects that are asked for. Without
    the factors, whose main effects are against the baseline of the whole cross. UsageError where
    the run has no such variant.
    """
    question, manifest = question_of(run, Otherwise())
    names = question.names
    for name in (against, variant):
        if name is not None and name not in names:
            near = nearest(name, names)
            hint = f". Did you mean {quoted(near)}?" if near else "."
            raise UsageError(f"{run.name} has no variant {name!r}{hint} It has: {', '.join(names)}")
    others = tuple(name for name in names if name != against) if variant is None else (variant,)
    if others == (against,):
        raise UsageError(f"{against!r} against itself: take another --variant or --against")
    question = replace(
        question,
        experiment=f"{question.experiment}, against {against}",
        baseline=against,
        variants=others,
        copy=None,
        levels={},
    )
    return verdict_of(run, question, manifest.stopped or "interrupted")


# While it is measured.


def raw_effects(
    data: Samples, question: Question, given_up: Sequence[str], blocks: int | None = None
) -> dict[Key, PairedEffect]:
    """(suite, case, variant) → raw effect, for the stopping rule and the live display.

    ``blocks``: of the first so many only. Variants that were given up are left out, and cases that
    never gave a pair. Where nothing is compared it is each case's own spread.
    """
    if not question.compared:
        return own_spread(data, question, blocks)
    pairs = pairs_of(data, question, [it for it in question.compared if it not in given_up])
    return _raw(pairs, blocks)


def _raw(pairs: Sequence[Pair], blocks: int | None) -> dict[Key, PairedEffect]:
    effects = {pair.key: pair.ranked(blocks) for pair in pairs}
    return {
        pair.key: effects[pair.key]
        for pair in pairs
        if effects[pair.key].n > 0 or pair.data.blocks < 3
    }


def look(
    data: Samples,
    question: Question,
    given_up: Sequence[str],
    blocks: int,
    precision: float,
    minimum: int,
) -> tuple[dict[Key, PairedEffect], stopping.Progress]:
    """(raw effects, whether they are precise enough) after ``blocks`` whole blocks, by typical
    turns and by summed times."""
    earlier = stopping.before(blocks)
    pairs = pairs_of(data, question, [it for it in question.compared if it not in given_up])
    if question.compared:
        effects, then = _raw(pairs, None), _raw(pairs, earlier)
    else:
        effects, then = own_spread(data, question), own_spread(data, question, earlier)
    estimated = [effect for effect in effects.values() if not effect.exact]
    if effects and not estimated:
        return effects, stopping.settled(blocks)
    before = [effect for effect in then.values() if not effect.exact]
    progress = stopping.enough(estimated, blocks, precision, minimum, before)
    own = [pair for pair in pairs if pair.key in effects]
    if sums := [it for pair in own if (it := pair.ranked_sum()) is not None]:
        # Whether a sum matters has to be seen, not more: the typical turn is far more precise.
        precision = max(precision, question.equivalent)
        before = [it for pair in own if (it := pair.ranked_sum(earlier)) is not None]
        of_sums = stopping.enough(sums, blocks, precision, minimum, before)
        progress = stopping.both(progress, of_sums)
    return effects, progress


# Of a kernel alone, such as the host's own: nothing is compared.


def own_spread(
    data: Samples, question: Question, blocks: int | None = None
) -> dict[Key, PairedEffect]:
    """(suite, case, variant) → its repetitions against their own median.

    The ratio is 1 by construction; the width of the interval is what the run stops by.
    """
    effects = {}
    for case in question.cases:
        key = (case.suite, case.case, question.baseline)
        if scores := list(data.scores.get(key, {}).values())[:blocks]:
            middle = [median(scores)] * len(scores)
            effects[key] = paired_effect(middle, scores, question.confidence)
    return effects


def _values(data: Samples, question: Question) -> tuple[CaseValue, ...]:
    """The median of each case with the interval of its repetitions."""
    spread = own_spread(data, question)
    values = []
    for case in question.cases:
        key = (case.suite, case.case, question.baseline)
        scores = list(data.scores.get(key, {}).values())
        middle = median(scores) if scores else None
        ci = spread[key].ci if scores else None
        values.append(
            CaseValue(
                suite=case.suite,
                case=case.case,
                unit=case.unit,
                better=case.better,
                value=middle,
                ci=(middle * ci[0], middle * ci[1]) if middle is not None and ci else None,
                repetitions=len(scores),
                reason=None if scores else _usual(data.missing.get(key)),
            )
        )
    return tuple(values)


def _usual(reasons: Counter[str] | None) -> str | None:
    """The most common reason for a missing figure."""
    return reasons.most_common(1)[0][0] if reasons else None


# The verdict.


def verdict_of(run: Run, question: Question, stopped: str) -> Verdict:
    """Judge everything that the run has on disk.

    What people are told in words (``answer``, the factors' ``summary``) is left empty: the report
    makes it from the rest.
    """
    tally = flags.Tally()
    data = gather(tally.watch(run.boots()))
    manifest = run.manifest()
    copies = pairs_of(data, question, [question.copy] if question.copy else [])
    floors = {(*pair.key[:2],): noise_floor(pair.effect()) for pair in copies}
    pairs = pairs_of(data, question, question.variants)
    claims = [pair.claim(floors.get(pair.key[:2])) for pair in pairs]
    judged, groups, factors = family_of(data, question, catalogue.load(), claims)
    rows = judged_pairs(pairs, claims, judged)
    own = [pair.claim() for pair in copies]
    rows_of_copies = judged_pairs(copies, own, judge(own, question.equivalent, _alpha(question)))
    strata = strata_of(data, question, manifest, pairs)
    every = (*rows, *rows_of_copies)
    effects = tuple(
        _effect(row, manifest, floors.get(row.pair.key[:2]), strata.get(row.pair.key))
        for row in every
    )
    verdict = Verdict(
        experiment=question.experiment,
        question=question.text,
        baseline=question.baseline,
        confidence=question.confidence,
        equivalent=question.equivalent,
        precision=question.precision,
        stopped=stopped,
        boots={name: data.boots.get(name, 0) for name in question.names},
        failed=dict(manifest.failed),
        flags=(
            *question.caveats,
            *flags.of_manifest(manifest),
            *differing(strata),
            *flags.tails(effects),
            *flags.few_boots(rows),
            *flags.rare_work(rows),
            *flags.layouts(every),
            *flags.moved_controls(rows),
            *flags.moved_copies(rows_of_copies),
            *tally.flags(),
            *flags.asleep(data, question),
            *flags.restless(data, question),
            *flags.drifted(data, question),
            *flags.failed_boots(data),
        ),
        effects=effects,
        copy_of_baseline=question.copy,
        values=() if question.compared else _values(data, question),
        groups=groups,
        factors=factors,
        tool=__version__,
        rule=RULE,
    )
    return explained(verdict, stored_counts(run, question.names)) if question.counted else verdict


def _alpha(question: Question) -> float:
    return 1.0 - question.confidence


def family_of(
    data: Samples, question: Question, suites: Catalogue, claims: Sequence[Claim] = ()
) -> tuple[list[Judgement], tuple[GroupEffect, ...], FactorTable | None]:
    """(judgements of ``claims``, groups of cases, table of factors), all judged as one family."""
    groups = group_claims(data, question, suites)
    crosses = crosses_of(data, question)
    rows = rows_of(crosses)
    family = [*claims, *groups.values(), *(row.claim for row in rows)]
    judged = judge(family, question.equivalent, _alpha(question))
    of_groups = judged[len(claims) : len(claims) + len(groups)]
    of_rows = judged[len(claims) + len(groups) :]
    effects = tuple(
        GroupEffect(suite=suite, group=group, variant=variant, **figures_of(each))
        for (suite, group, variant), each in zip(groups, of_groups, strict=True)
    )
    return judged[: len(claims)], effects, table_of(crosses, rows, of_rows)


def group_claims(
    data: Samples, question: Question, suites: Catalogue
) -> dict[tuple[str, str, str], Claim]:
    """(suite, group, variant) → its claim, for every group of a suite's cases that were all
    measured. None for counts: groups are of scores.

    In every block each case has a ratio, above 1 where the variant is better, and a group the
    harmonic mean of its members' ratios: its score where the baseline's are all 100. So a group is
    compared within blocks, as its cases are.
    """
    claims: dict[tuple[str, str, str], Claim] = {}
    for variant in question.variants if not question.counted else ():
        for suite in suites.values():
            logs = {
                pair.case.case: pair.log_ratios * (1.0 if pair.case.better == "higher" else -1.0)
                for pair in pairs_of(data, question, [variant])
                if pair.case.suite == suite.name and suite.groups
            }
            groups: dict[str, Floats] = {}
            for block in range(data.blocks if logs else 0):
                ratios = {
                    name: float(np.exp(values[block]))
                    for name, values in logs.items()
                    if np.isfinite(values[block])
                }
                for group, score in group_scores(suite.groups, ratios).items():
                    if score.value is not None:
                        every = groups.setdefault(group, np.full(data.blocks, np.nan))
                        every[block] = np.log(score.value)
            for group, values in groups.items():
                claims[suite.name, group, variant] = Claim(values, "higher")
    return claims


def judged_pairs(
    pairs: Sequence[Pair], claims: Sequence[Claim], judged: Sequence[Judgement]
) -> list[Judged]:
    """With what summed times and quantiles say beside the judgements of typical turns."""
    if not pairs:
        return []
    question = pairs[0].question
    alpha = _alpha(question)
    figures = [(at, name, ratios) for at, pair in enumerate(pairs)
               for name, ratios in pair.log_quantiles().items()]  # fmt: skip
    words, of_figures = judge_sums(
        claims,
        judged,
        [pair.log_sums for pair in pairs],
        [Claim(ratios, "lower") for *_, ratios in figures],
        question.equivalent,
        alpha,
    )
    tested = [at for at, (word, _) in enumerate(words) if word.effect.p_value is not None]
    p_values = adjusted([words[at][0].effect.p_value or 0.0 for at in tested])
    least = {
        at: min(1.0, p_value / stopping.SHARE_FOR_VERDICTS)
        for at, p_value in zip(tested, p_values, strict=True)
    }
    quantiles: dict[int, list[Quantile]] = {}
    for (at, name, _), each in zip(figures, of_figures, strict=True):
        quantile = Quantile(
            figure=name,
            ratio=each.effect.ratio,
            ci=each.ci,
            blocks=each.effect.n,
            verdict=each.word,
            equivalent_too=each.equivalent_too,
        )
        quantiles.setdefault(at, []).append(quantile)
    rows = []
    for at, (pair, (word, summed)) in enumerate(zip(pairs, words, strict=True)):
        throughput = None
        if summed is not None:
            throughput = Throughput(
                ratio=summed.judgement.effect.ratio,
                ci=summed.judgement.ci,
                ci_raw=summed.judgement.effect.ci,
                tail=summed.tail,
                decides=summed.decides,
                slow_turns=pair.slow_turns(),
            )
        p_value = alpha if at in least and summed and summed.decides else least.get(at)
        rows.append(Judged(pair, word, p_value, throughput, tuple(quantiles.get(at, ()))))
    return rows


def _effect(row: Judged, manifest: Manifest, floor: float | None, strata: Strata | None) -> Effect:
    pair, judged, raw = row.pair, row.judgement, row.judgement.effect
    data, variant = pair.data, pair.variant
    failed = manifest.failed.get(variant)
    reason = _why_no_figure(pair, manifest) if raw.n == 0 else None
    figures = figures_of(judged)
    if reason or variant in manifest.failed:
        figures["verdict"] = "failed"
    if data.links:  # it would be links that settle it, and there are no more
        figures["predicted_blocks"] = None
    return Effect(
        **figures,
        suite=pair.case.suite,
        case=pair.case.case,
        variant=variant,
        unit=pair.case.unit,
        better=pair.case.better,
        baseline_value=_median(data, pair.keys[0]),
        value=_median(data, pair.key),
        mean_ratio=raw.mean_ratio,
        mean_ci=interval(raw.mean_lo, raw.mean_hi),
        noise_floor=floor,
        inside_noise_floor=judged.inside_noise_floor and variant != pair.question.copy,
        p_value=row.p_value,
        control=pair.case.control,
        exact=raw.exact,
        parts_ratio=pair.parts_ratio(),
        reason=reason or failed,
        throughput=row.throughput,
        quantiles=row.quantiles,
        spread=pair.spread(),
        links=pair.links,
        apart=_apart(pair),
        strata=strata,
    )


def _why_no_figure(pair: Pair, manifest: Manifest) -> str | None:
    for name, key in ((pair.variant, pair.key), (pair.question.baseline, pair.keys[0])):
        if why := manifest.failed.get(name) or _usual(pair.data.missing.get(key)):
            return f"{name}: {why}"
    return None


def _median(data: Samples, key: Key) -> float | None:
    scores = data.scores.get(key)
    return float(np.median(list(scores.values()))) if scores else None


def _apart(pair: Pair) -> tuple[Apart, ...]:
    """Medians of what both kernels' operations are made of."""
    before, after = (pair.data.apart.get(key, {}) for key in pair.keys)
    names = sorted(
        before.keys() & after.keys(),
        key=lambda name: (FIGURES.index(name) if name in FIGURES else len(FIGURES), name),
    )
    return tuple(
        Apart(figure=name, baseline_value=median(before[name]), value=median(after[name]))
        for name in names
    )


# Machines as strata. A block, or group, lies on one machine, so a slow machine biases no effect.
# The common effect is that of all blocks: the interval asks of them only that they lie
# symmetrically about one effect, not that they scatter alike. They have no weights, so that each
# machine counts as it was measured.


def strata_of(
    data: Samples, question: Question, manifest: Manifest, pairs: Sequence[Pair]
) -> dict[Key, Strata]:
    """(suite, case, variant) → its effect by machine; empty where the run had one machine."""
    models = {
        at: str(manifest.machines.get(name, {}).get("cpu_model") or "unknown CPU")[:200]
        for at, name in data.machines.items()
    }
    strata: dict[Key, Strata] = {}
    tests: dict[Key, Heterogeneity] = {}
    for pair in pairs if len(set(data.machines.values())) > 1 else ():
        machines = _by(pair.block_log_ratios, data.machines)
        if len(machines) < 2:
            continue
        test = heterogeneity(list(machines.values()))
        if test is not None:
            tests[pair.key] = test
        by_model = _by(pair.block_log_ratios, models)
        strata[pair.key] = Strata(
            machines=_by_stratum(machines, question.confidence),
            cpu_models=_by_stratum(by_model, question.confidence) if len(by_model) > 1 else (),
            p_value=test.p_value if test else None,
            i_squared=test.i_squared if test else None,
        )
    corrected = adjusted([test.p_value for test in tests.values()])
    for key, p_value in zip(tests, corrected, strict=True):
        differs = p_value <= _alpha(question) * (1.0 + 1e-9)
        strata[key] = strata[key].model_copy(update={"differs": differs})
    return strata


def _by(ratios: Floats, names: Mapping[int, str]) -> dict[str, Floats]:
    """Name → the finite ratios of its blocks, in the order of the names."""
    blocks: dict[str, list[int]] = {}
    for at, name in sorted(names.items()):
        if at < len(ratios) and np.isfinite(ratios[at]):
            blocks.setdefault(name, []).append(at)
    return {name: np.asarray(ratios[blocks[name]], dtype=np.float64) for name in sorted(blocks)}


def _by_stratum(ratios: Mapping[str, Floats], confidence: float) -> tuple[StratumEffect, ...]:
    effects = {name: effect_of_differences(own, confidence) for name, own in ratios.items()}
    return tuple(
        StratumEffect(stratum=name, ratio=raw.ratio, ci=raw.ci, blocks=raw.n)
        for name, raw in effects.items()
    )


def differing(strata: Mapping[Key, Strata]) -> list[Flag]:
    """One for each effect that is not the same on all machines."""
    flags = []
    for (suite, case, variant), own in strata.items():
        if not own.differs:
            continue
        ordered = sorted(own.cpu_models or own.machines, key=lambda each: each.ratio or 1.0)
        half, left = _STRATA_SHOWN // 2, len(ordered) - _STRATA_SHOWN
        shown = [*ordered[:half], *ordered[-half:]] if left > 0 else ordered
        listed = [f"{100 * ((it.ratio or 1.0) - 1.0):+.2f} % on {it.stratum}" for it in shown]
        text = (
            f"{case} of {variant} is not the same on all machines: {', '.join(listed)}"
            f"{f', and {left} between' if left > 0 else ''} (p = {own.p_value:.1g}, I² "
            f"{100 * (own.i_squared or 0.0):.0f} %). The common effect is that of these machines "
            "together, each as often as it was measured"
        )
        flags.append(
            Flag(kind="differs-by-machine", text=text, variant=variant, suite=suite, case=case)
        )
    return flags
