# SPDX-License-Identifier: MIT
"""Machines as strata: an effect on each of several machines, and whether they agree.

A block, or group, lies on one machine, so a slow machine biases no effect. The common effect is
that of all blocks: the interval asks of them only that they lie symmetrically about one effect, not
that they scatter alike. They have no weights, so that each machine counts as it was measured.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from kdyno.judge.flags import Judged
from kdyno.judge.pairs import block_log_ratios
from kdyno.judge.question import Question
from kdyno.stats.effect import effect_of_differences, interval
from kdyno.stats.holm import rejected
from kdyno.stats.signedrank import Floats
from kdyno.stats.strata import Heterogeneity, heterogeneity
from kdyno.store.manifest import Manifest
from kdyno.store.samples import Key, Samples
from kdyno.store.verdict import Flag, Strata, StratumEffect

_SHOWN = 8


def strata_of(
    data: Samples, question: Question, manifest: Manifest, claims: Sequence[Judged]
) -> dict[Key, Strata]:
    """(suite, case, variant) → its effect by machine; empty where the run had one machine."""
    if len(set(data.machines.values())) < 2:
        return {}
    found: dict[Key, Strata] = {}
    tested: dict[Key, Heterogeneity] = {}
    for case, variant, _judgement in claims:
        ratios = block_log_ratios(data, question, case, variant)
        machines = _by(ratios, data.machines)
        if len(machines) < 2:
            continue
        models = _by(ratios, {at: _model(manifest, name) for at, name in data.machines.items()})
        key = (case.suite, case.case, variant)
        test = heterogeneity(list(machines.values()))
        if test is not None:
            tested[key] = test
        found[key] = Strata(
            machines=_effects(machines, question.confidence),
            cpu_models=_effects(models, question.confidence) if len(models) > 1 else (),
            p_value=test.p_value if test else None,
            i_squared=test.i_squared if test else None,
        )
    alarms = rejected(np.array([it.p_value for it in tested.values()]), 1.0 - question.confidence)
    for key, differs in zip(tested, alarms, strict=True):
        found[key] = found[key].model_copy(update={"differs": bool(differs)})
    return found


def differing(strata: Mapping[Key, Strata]) -> list[Flag]:
    """One for each effect that is not the same on all machines."""
    return [
        Flag(
            kind="differs-by-machine",
            text=f"{case} of {variant} is not the same on all machines: "
            f"{_told(it.cpu_models or it.machines)} (p = {it.p_value:.1g}, I² "
            f"{100 * (it.i_squared or 0.0):.0f} %). The common effect is that of these machines "
            "together, each as often as it was measured",
            variant=variant,
            suite=suite,
            case=case,
        )
        for (suite, case, variant), it in strata.items()
        if it.differs
    ]


def _told(found: Sequence[StratumEffect]) -> str:
    ordered = sorted(found, key=lambda it: it.ratio or 1.0)
    shown, half = ordered, _SHOWN // 2
    if len(ordered) > _SHOWN:
        shown = [*ordered[:half], *ordered[-half:]]
    told = [f"{100 * ((it.ratio or 1.0) - 1.0):+.2f} % on {it.stratum}" for it in shown]
    left = len(ordered) - len(shown)
    return ", ".join(told) + (f", and {left} between" if left else "")


def _by(ratios: Floats, names: Mapping[int, str]) -> dict[str, Floats]:
    """Name → the finite ratios of its blocks, in the order of the names."""
    blocks: dict[str, list[int]] = {}
    for at, name in sorted(names.items()):
        if at < len(ratios) and np.isfinite(ratios[at]):
            blocks.setdefault(name, []).append(at)
    return {name: np.asarray(ratios[blocks[name]], dtype=np.float64) for name in sorted(blocks)}


def _effects(found: Mapping[str, Floats], confidence: float) -> tuple[StratumEffect, ...]:
    effects = {name: effect_of_differences(own, confidence) for name, own in found.items()}
    return tuple(
        StratumEffect(stratum=name, ratio=it.ratio, ci=interval(it.lo, it.hi), blocks=it.n)
        for name, it in effects.items()
    )


def _model(manifest: Manifest, machine: str) -> str:
    return str(manifest.machines.get(machine, {}).get("cpu_model") or "unknown CPU")[:200]
