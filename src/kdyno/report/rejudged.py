# SPDX-License-Identifier: MIT
"""A run's newest verdict beside its first one: by whom, by which rule, and what changed."""

from __future__ import annotations

from kdyno.report import effects, figures, plain
from kdyno.store.manifest import Manifest
from kdyno.store.verdict import Effect, Verdict

_FIRST_RULE = "hl-signedrank-holm/1"
_SHOWN = 12


def lines(first: Verdict | None, now: Verdict, manifest: Manifest) -> list[str]:
    """One line for each verdict, then the effects whose word changed."""
    found = [f"now    kdyno {now.tool}, rule {now.rule}, {_asked(now)}"]
    if first is None:
        return [*found, "not judged before"]
    by, rule = first.tool or manifest.tool, first.rule or _FIRST_RULE
    found.append(f"first  kdyno {plain.short(by)}, rule {plain.short(rule)}, {_asked(first)}")
    before = {(it.suite, it.case, it.variant): it for it in first.effects}
    changed = [
        f"{plain.name(it.suite)}/{plain.name(it.case)} in {plain.name(it.variant)}: "
        f"{_word(old)} → {_word(it)}"
        for it in now.effects
        if (old := before.get((it.suite, it.case, it.variant))) is not None
        and _word(old) != _word(it)
    ]
    new = len({(it.suite, it.case, it.variant) for it in now.effects} - set(before))
    if new:
        changed.append(f"{figures.count(new, 'effect')} that the first one does not have")
    if not changed:
        return [*found, "no word changed"]
    if len(changed) > _SHOWN:
        changed = [*changed[:_SHOWN], f"… and {len(changed) - _SHOWN} more"]
    return [*found, "changed:", *(f"  {line}" for line in changed)]


def _word(it: Effect) -> str:
    return effects.word(it)


def _asked(verdict: Verdict) -> str:
    return f"{100 * verdict.confidence:g} %, equivalent {figures.tolerance(verdict.equivalent)}"
