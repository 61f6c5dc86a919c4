# SPDX-License-Identifier: MIT
"""From the boots of a run to its verdict; of a stored run again, by today's rule.

Everything that a reader may take for a finding of the run is one family: effects, groups of cases,
rows of factors. A copy of the baseline is a yardstick and is judged separately."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from statistics import median

import numpy as np

from kdyno import __version__
from kdyno.errors import UsageError
from kdyno.judge import flags
from kdyno.judge.factors import crosses_of, rows_of, table_of
from kdyno.judge.pairs import Judged, Pair, figures_of, pairs_of
from kdyno.reading.mistakes import nearest, quoted
from kdyno.stats import stopping
from kdyno.stats.effect import Floats, PairedEffect, effect_of_differences, paired_effect
from kdyno.stats.groups import heterogeneity
from kdyno.stats.verdict import (
    RULE,
    Claim,
    Judgement,
    Summed,
    adjusted,
    judge,
    judge_sums,
    noise_floor,
)
from kdyno.store.boot import BootRecord
from kdyno.store.counts import CaseCounts, Counted, stored_counts
from kdyno.store.manifest import CaseInfo, Manifest, VariantInfo
from kdyno.store.run import Run
from kdyno.store.samples import Key, Samples, gather
from kdyno.store.verdict import (
    MOST_FIGURES,
    Apart,
    CaseValue,
    Effect,
    FactorTable,
    Flag,
    FunctionCounts,
    GroupEffect,
    Quantile,
    Strata,
    StratumEffect,
    Verdict,
)
from kdyno.suites import catalogue
from kdyno.suites.catalogue import FIGURES, UNIT, Catalogue, Suite
from kdyno.suites.score import group_scores

NOTHING = 5e-4
"""Of an instruction: what three decimals show as 0.000."""
_FUNCTIONS_SHOWN = 10
_LOST = 0.1
_FEW_LOST = 2
"""Share of boots, and boots, in which a case may fail in the variant alone and have a verdict."""


# A stored run again.


def _judgeable(run: Run) -> Manifest:
    """UsageError for a run that has nothing to judge, ToolError for one that cannot be read."""
    manifest = run.manifest()
    if not manifest.failed and not any(isinstance(boot, BootRecord) for boot in run.boots()):
        raise UsageError(f"{run.name} has no boot that can be read, so there is nothing to judge")
    return manifest


def judge_again(run: Run, **criteria: float) -> tuple[Verdict, Manifest]:
    """(verdict without its words, the run's manifest). ``criteria``: confidence, equivalent or
    precision, where they are others this time. Errors as ``_judgeable``."""
    manifest = _judgeable(run)
    again = manifest.model_copy(update={"asked": manifest.asked.model_copy(update=criteria)})
    verdict = verdict_of(run, again, manifest.stopped or "interrupted")
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
    the run has no such variant, or no other one."""
    manifest = _judgeable(run)
    names = manifest.names
    for name in (against, variant):
        if name is not None and name not in names:
            near = nearest(name, names)
            hint = f". Did you mean {quoted(near)}?" if near else "."
            raise UsageError(f"{run.name} has no variant {name!r}{hint} It has: {', '.join(names)}")
    others = tuple(name for name in names if name != against) if variant is None else (variant,)
    if others == (against,):
        raise UsageError(f"{against!r} against itself: take another --variant or --against")
    if not others:
        raise UsageError(f"{run.name} measured {against} alone: nothing can be compared with it")
    names = (against, *others)
    update = {
        "experiment": f"{manifest.experiment}, against {against}",
        "baseline": against,
        "variants": {name: VariantInfo() for name in names},
        "asked": manifest.asked.model_copy(update={"copy_of_baseline": None}),
        "failed": {name: manifest.failed[name] for name in names if name in manifest.failed},
    }
    manifest = manifest.model_copy(update=update)
    return verdict_of(run, manifest, manifest.stopped or "interrupted")


# While it is measured.


def look(
    data: Samples, manifest: Manifest, blocks: int, precision: float, minimum: int, links: int = 0
) -> tuple[dict[Key, PairedEffect], stopping.Progress]:
    """(raw effects, whether they are precise enough) after ``blocks`` whole blocks, by typical
    turns and by summed times. ``links``: of each kernel; 0: it is linked once.

    Variants that were given up are left out, and cases that never gave a pair. Where nothing is
    compared an effect is the case's own spread."""
    beside = stopping.beside(blocks, links)
    pairs = pairs_of(
        data, manifest, [name for name in manifest.compared if name not in manifest.failed]
    )

    def raw(count: int | None, apart: bool = False) -> dict[Key, PairedEffect]:
        if not manifest.compared:
            return _own_spread(data, manifest, count)
        effects = {pair.key: pair.ranked(count, apart) for pair in pairs}
        return {key: effect for key, effect in effects.items() if effect.n > 0 or data.blocks < 3}

    effects = raw(None)
    estimated = [effect for effect in effects.values() if not effect.exact]
    others = [effect for each in beside for effect in raw(*each).values() if not effect.exact]
    if effects and not estimated:
        # Nothing is estimated: the counts agree in every block.
        return effects, stopping.Progress(True, blocks)
    progress = stopping.enough(estimated, blocks, precision, minimum, others, links)
    own = [pair for pair in pairs if pair.key in effects]
    if sums := [effect for pair in own if (effect := pair.ranked_sum())]:
        # Only whether a sum matters has to be decided: the typical turn is far more precise.
        precision = max(precision, manifest.asked.equivalent)
        others = [effect for pair in own for each in beside if (effect := pair.ranked_sum(*each))]
        of_sums = stopping.enough(sums, blocks, precision, minimum, others, links)
        progress = stopping.both(progress, of_sums)
    return effects, progress


# Of a kernel alone, such as the host's own: nothing is compared.


def _own_spread(
    data: Samples, manifest: Manifest, blocks: int | None = None
) -> dict[Key, PairedEffect]:
    """(suite, case, variant) → its repetitions against their own median.

    The ratio is 1 by construction; the width of the interval is what the run stops by."""
    effects = {}
    for case in manifest.cases:
        key = (*case.key, manifest.baseline)
        if scores := list(data.scores.get(key, {}).values())[:blocks]:
            middle = [median(scores)] * len(scores)
            effects[key] = paired_effect(middle, scores, manifest.asked.confidence)
    return effects


def _values(data: Samples, manifest: Manifest) -> tuple[CaseValue, ...]:
    """The median of each case with the interval of its repetitions."""
    spread = _own_spread(data, manifest)
    values = []
    for case in manifest.cases:
        key = (*case.key, manifest.baseline)
        scores = list(data.scores.get(key, {}).values())
        middle, ci = (median(scores), spread[key].ci) if scores else (None, None)
        counters = list(data.apart.get(key, {}).items())[:MOST_FIGURES]
        value = CaseValue(
            **case.about,
            value=middle,
            ci=(middle * ci[0], middle * ci[1]) if middle is not None and ci else None,
            repetitions=len(scores),
            reason=None if scores else _usual(data.missing.get(key)),
            counters={name: median(own) for name, own in counters},
        )
        values.append(value)
    return tuple(values)


def _usual(reasons: Counter[str] | None) -> str | None:
    return reasons.most_common(1)[0][0] if reasons else None


# The verdict.


def verdict_of(run: Run, manifest: Manifest, stopped: str) -> Verdict:
    """Judge everything that the run has on disk.

    The texts (``answer``, the factors' ``summary``) are left empty: the report makes them
    from the rest."""
    data = gather(run.boots())
    copy = manifest.asked.copy_of_baseline
    copies = pairs_of(data, manifest, [copy] if copy else [])
    floors = {pair.key[:2]: noise_floor(pair.effect()) for pair in copies}
    pairs = pairs_of(data, manifest, manifest.others)
    rows, groups, factors = family_of(data, manifest, catalogue.load(), pairs, floors)
    rows_of_copies, _ = judged_all(copies, [pair.claim() for pair in copies], manifest)
    strata = strata_of(data, manifest, pairs)
    every = (*rows, *rows_of_copies)
    effects = tuple(
        _effect(row, manifest, floors.get(row.pair.key[:2]), strata.get(row.pair.key))
        for row in every
    )
    verdict = Verdict(
        experiment=manifest.experiment,
        **manifest.asked.model_dump(include={"question", "confidence", "equivalent", "precision"}),
        baseline=manifest.baseline,
        stopped=stopped,
        boots={name: data.boots.get(name, 0) for name in manifest.names},
        failed=dict(manifest.failed),
        flags=(
            *manifest.machine.caveats,
            *flags.of_manifest(manifest),
            *flags.differing(strata),
            *flags.tails(effects, groups, factors.effects if factors else ()),
            *flags.few_boots(rows),
            *flags.rare_work(rows),
            *flags.layouts(every),
            *flags.by_firmware(data, manifest),
            *flags.moved_controls(rows),
            *flags.moved_copies(rows_of_copies),
            *flags.disturbed(data),
            *flags.asleep(data, manifest),
            *flags.restless(data, manifest),
            *flags.drifted(data, manifest),
            *flags.failed_boots(data),
            *flags.failed_cases(data, manifest),
            *flags.uneven_boots(effects, manifest.asked.equivalent),
        ),
        effects=effects,
        copy_of_baseline=copy,
        values=() if manifest.compared else _values(data, manifest),
        groups=groups,
        factors=factors,
        tool=__version__,
        rule=RULE,
    )
    return explained(verdict, stored_counts(run)) if manifest.counted else verdict


def family_of(
    data: Samples,
    manifest: Manifest,
    suites: Catalogue,
    pairs: Sequence[Pair] = (),
    floors: Mapping[tuple[str, str], float | None] | None = None,
) -> tuple[list[Judged], tuple[GroupEffect, ...], FactorTable | None]:
    """(``pairs`` judged, groups of cases, table of factors), all as one family.

    floors: (suite, case) → the baseline's noise floor."""
    groups = _group_claims(data, manifest, suites)
    crosses = crosses_of(data, manifest)
    rows = rows_of(crosses)
    own = [pair.claim((floors or {}).get(pair.key[:2])) for pair in pairs]
    wholes = [*groups.values(), *((row.claim, row.sums) for row in rows)]
    judged, words = judged_all(pairs, own, manifest, wholes)
    effects = tuple(
        GroupEffect(suite=suite, group=group, variant=variant, **figures_of(*word))
        for (suite, group, variant), word in zip(groups, words, strict=False)
    )
    return judged, effects, table_of(crosses, rows, words[len(groups) :])


def _group_claims(
    data: Samples, manifest: Manifest, suites: Catalogue
) -> dict[tuple[str, str, str], tuple[Claim, Floats]]:
    """(suite, group, variant) → (its claim, the same by summed times), for every group of a suite's
    cases that were all measured.

    In every block each case has a ratio, above 1 where the variant is better, and a group the
    harmonic mean of its members' ratios: its score where the baseline's are all 100. So a group is
    compared within blocks, as its cases are. Of counts it is exact where all members are."""
    claims: dict[tuple[str, str, str], tuple[Claim, Floats]] = {}
    for variant in manifest.others:
        pairs = pairs_of(data, manifest, [variant])
        for suite in (suite for suite in suites.values() if suite.groups):
            own = [pair for pair in pairs if pair.case.suite == suite.name]
            values, sums = (
                _logs_of_groups(suite, data.blocks, [(pair.case, ratios(pair)) for pair in own])
                for ratios in (attrgetter("log_ratios"), attrgetter("log_sums"))
            )
            exact = {pair.case.case: pair.exact for pair in own}
            clock = {pair.case.case: pair.resolution for pair in own}
            for name, members in suite.groups.items():
                exact[name] = all(exact.get(member, False) for member in members)
                clock[name] = max((clock.get(member, 0.0) for member in members), default=0.0)
            for group, logs in values.items():
                claim = Claim(logs, "higher", exact=exact[group], resolution=clock[group])
                claims[suite.name, group, variant] = claim, sums.get(group, np.empty(0))
    return claims


def _logs_of_groups(
    suite: Suite, blocks: int, logs: Sequence[tuple[CaseInfo, Floats]]
) -> dict[str, Floats]:
    """Group → log of its score in each block; ``logs``: of its cases' ratios."""
    values: dict[str, Floats] = {}
    for block in range(blocks if logs else 0):
        ratios = {
            case.case: float(np.exp(log if case.better == "higher" else -log))
            for case, own in logs
            if np.isfinite(log := own[block])
        }
        for group, score in group_scores(suite.groups, ratios).items():
            if score.value is not None:
                own = values.setdefault(group, np.full(blocks, np.nan))
                own[block] = np.log(score.value)
    return values


def judged_all(
    pairs: Sequence[Pair],
    own: Sequence[Claim],
    manifest: Manifest,
    wholes: Sequence[tuple[Claim, Floats]] = (),
) -> tuple[list[Judged], list[tuple[Judgement, Summed | None]]]:
    """(``pairs`` judged, judgements of ``wholes``), with what summed times and quantiles say beside
    typical turns. ``own``: the pairs' claims. ``wholes``: claims that are made of several pairs,
    with their log ratios by summed times."""
    alpha = 1.0 - manifest.asked.confidence
    claims = [*own, *(claim for claim, _ in wholes)]
    figures = [(pair, *figure) for pair in pairs for figure in pair.log_quantiles().items()]
    words, of_figures = judge_sums(
        claims,
        judge(claims, manifest.asked.equivalent, alpha),
        [*(pair.log_sums for pair in pairs), *(sums for _, sums in wholes)],
        [Claim(ratios, "lower") for *_, ratios in figures],
        manifest.asked.equivalent,
        alpha,
    )
    # A robust mean does not see what one boot in ten does; the plain one beside it does.
    uneven = {
        at
        for at, (word, _) in enumerate(words)
        if word.small
        and not word.effect.exact
        and flags.is_beyond(word.effect.mean_ratio, word.effect.mean_ci, manifest.asked.equivalent)
    }
    words = [
        (replace(word, word="inconclusive", equivalent_too=False) if at in uneven else word, summed)
        for at, (word, summed) in enumerate(words)
    ]
    if pairs and pairs[0].data.links:  # links would settle it, and there are no more
        words = [(replace(word, predicted_blocks=None), summed) for word, summed in words]
    quantiles: dict[Key, list[Quantile]] = {}
    for (pair, name, _), each in zip(figures, of_figures, strict=True):
        quantiles.setdefault(pair.key, []).append(Quantile(figure=name, **figures_of(each)))
    of_pairs = words[: len(pairs)]
    p_values = [word.effect.p_value for word, _ in of_pairs]
    least = iter(adjusted([p_value for p_value in p_values if p_value is not None]))
    rows = []
    for at, (pair, (word, summed)) in enumerate(zip(pairs, of_pairs, strict=True)):
        p_value = None
        if word.effect.p_value is not None:
            p_value = min(1.0, next(least) / stopping.SHARE_FOR_VERDICTS)
            if summed and summed.decides and (summed.tail or word.word == "inconclusive"):
                p_value = alpha if summed.p_value is None else summed.p_value
            p_value = max(p_value, alpha) if at in uneven else p_value
        rows.append(Judged(pair, word, p_value, summed, tuple(quantiles.get(pair.key, ()))))
    return rows, words[len(pairs) :]


def _effect(row: Judged, manifest: Manifest, floor: float | None, strata: Strata | None) -> Effect:
    pair, raw, case, variant = row.pair, row.judgement.effect, row.pair.case, row.pair.variant
    figures = figures_of(row.judgement, row.summed, pair.slow_turns() if row.summed else None)
    reason = None
    if raw.n == 0:
        for name, key in ((variant, pair.key), (pair.manifest.baseline, pair.keys[0])):
            why = manifest.failed.get(name) or _usual(pair.data.missing.get(key))
            if not why and key not in pair.data.scores:
                why = _usual(pair.data.failures.get(name))
            if why and reason is None:
                reason = f"{name}: {why}"
    data = pair.data
    lost = [
        sum((data.missing.get(key, Counter()) + data.failures.get(key[2], Counter())).values())
        for key in pair.keys
    ]
    blocks = np.count_nonzero(np.isfinite(pair.block_log_ratios))  # of links there are fewer
    if raw.n and lost[1] - lost[0] > max(_FEW_LOST, _LOST * (blocks + lost[1])):
        why = _usual(data.missing.get(pair.key)) or _usual(data.failures.get(variant))
        reason = f"{variant}: no score in {lost[1]} boots: {why}"
    if reason or variant in manifest.failed:
        figures |= {"verdict": "failed", "equivalent_too": False, "predicted_blocks": None}
    before, after = (pair.data.apart.get(key, {}) for key in pair.keys)
    order = {name: place for place, name in enumerate(FIGURES)}
    scores = [list(pair.data.scores.get(key, {}).values()) for key in pair.keys]
    baseline_value, value = (float(np.median(own)) if own else None for own in scores)
    return Effect(
        **figures,
        **case.about,
        variant=variant,
        baseline_value=baseline_value,
        value=value,
        mean_ratio=raw.mean_ratio,
        mean_ci=raw.mean_ci,
        noise_floor=floor,
        inside_noise_floor=row.judgement.inside_noise_floor
        and variant != pair.manifest.asked.copy_of_baseline,
        p_value=row.p_value,
        control=case.control,
        exact=raw.exact,
        parts_ratio=pair.counts_ratio(whole=True),
        reason=reason or manifest.failed.get(variant),
        quantiles=row.quantiles[:MOST_FIGURES],
        spread=pair.spread(),
        links=pair.links,
        apart=tuple(
            Apart(figure=name, baseline_value=median(before[name]), value=median(after[name]))
            for name in sorted(
                before.keys() & after.keys(), key=lambda name: (order.get(name, len(order)), name)
            )[:MOST_FIGURES]
        ),
        strata=strata,
    )


# Machines as strata. A block, or group, lies on one machine, so a slow machine biases no effect.
# The common effect is that of all blocks: the interval asks of them only that they lie
# symmetrically about one effect, not that they scatter alike. They have no weights, so that each
# machine counts as it was measured.


def strata_of(data: Samples, manifest: Manifest, pairs: Sequence[Pair]) -> dict[Key, Strata]:
    """(suite, case, variant) → its effect by machine; empty where the run had one machine."""
    models = {
        at: str(manifest.machines.get(name, {}).get("cpu_model") or "unknown CPU")[:200]
        for at, name in data.machines.items()
    }
    confidence = manifest.asked.confidence
    strata: dict[Key, Strata] = {}
    for pair in pairs if len(set(data.machines.values())) > 1 else ():
        machines = _by(pair.block_log_ratios, data.machines)
        if len(machines) < 2:
            continue
        test = heterogeneity(list(machines.values()))
        by_model = _by(pair.block_log_ratios, models)
        strata[pair.key] = Strata(
            machines=_by_stratum(machines, confidence),
            cpu_models=_by_stratum(by_model, confidence) if len(by_model) > 1 else (),
            p_value=test.p_value if test else None,
            i_squared=test.i_squared if test else None,
        )
    p_values = {key: own.p_value for key, own in strata.items() if own.p_value is not None}
    for key, p_value in zip(p_values, adjusted(list(p_values.values())), strict=True):
        differs = p_value <= (1.0 - confidence) * (1.0 + 1e-9)
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
    strata = []
    for name, own in ratios.items():
        raw = effect_of_differences(own, confidence)
        strata.append(StratumEffect(stratum=name, ratio=raw.ratio, ci=raw.ci, blocks=raw.n))
    return tuple(strata)


# Which functions a counted difference is in: the rows of two counted profiles, which add up.


def differences(before: CaseCounts, after: CaseCounts) -> list[FunctionCounts]:
    """Every function of either, the largest difference first."""
    rows = []
    for where, name in dict.fromkeys((*before.functions, *after.functions)):
        old, new = (own.functions.get((where, name), 0.0) for own in (before, after))
        rows.append(FunctionCounts(where=where, function=name, baseline_value=old, value=new))
    return sorted(rows, key=lambda row: (-abs(row.more), -row.baseline_value, row.function))


def together(rows: Sequence[FunctionCounts], name: str = "") -> FunctionCounts:
    """Functions as one row."""
    return FunctionCounts(
        where="others",
        function=name,
        baseline_value=sum(row.baseline_value for row in rows),
        value=sum(row.value for row in rows),
        functions=len(rows),
    )


def explained(verdict: Verdict, counted: Mapping[str, Counted]) -> Verdict:
    """The same with the functions of each effect of counts, where they were counted: those that
    differ most, and one row for all others, so that together they are the whole."""
    by_case = {
        (case.suite, case.case, name): case for name, own in counted.items() for case in own.cases
    }
    effects = []
    for effect in verdict.effects:
        before = by_case.get((*effect.key[:2], verdict.baseline))
        after = by_case.get(effect.key)
        if effect.unit == UNIT and before is not None and after is not None:
            rows = differences(before, after)
            functions = [row for row in rows if abs(row.more) >= NOTHING][:_FUNCTIONS_SHOWN]
            if rest := rows[len(functions) :]:
                functions.append(together(rest))
            effect = effect.model_copy(update={"functions": tuple(functions)})
        effects.append(effect)
    return verdict.model_copy(update={"effects": tuple(effects)})
