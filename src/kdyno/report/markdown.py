# SPDX-License-Identifier: MIT
"""A summary to post to a pull request, or to paste into an issue or a page."""

from __future__ import annotations

from collections.abc import Sequence

from kdyno.report import (
    apart,
    effects,
    factors,
    figures,
    functions,
    plain,
    strata,
    values,
    wholes,
)
from kdyno.report.groups import Group, groups, shown
from kdyno.report.sentence import answer
from kdyno.report.show.grid import Column, Grid
from kdyno.report.show.markdown import escaped, table
from kdyno.store.verdict import Verdict

NAME = "markdown"
HELP = "a summary for a pull request or a page: the answer, what changed, the rest folded"
SUFFIX = ".md"

_UNFOLDED = 8
"""Effects up to which all of them stand in the open."""


def export(verdict: Verdict) -> str:
    """The answer and what changed; all the rest is there too, folded where it is long."""
    parts = [f"## {escaped(plain.name(verdict.experiment))}"]
    if verdict.question:
        parts.append(f"*{escaped(plain.sentence(verdict.question))}*")
    parts.append(escaped(answer(verdict)))
    all_, verdict = verdict, shown(verdict)
    found = groups(verdict)
    tables = [_table(verdict, group) for group in found]
    if len(verdict.effects) > _UNFOLDED:
        parts += [
            *_changed(verdict, found),
            *_folded(_many(len(verdict.effects), len(all_.effects), "effects"), tables),
        ]
    else:
        parts += tables
    parts += [table(values.grid(verdict))] if verdict.values else []
    if verdict.failed:
        lines = [
            f"- **{escaped(plain.name(variant))}** failed: {escaped(plain.sentence(reason))}"
            for variant, reason in verdict.failed.items()
        ]
        parts.append("\n".join(lines))
    if (grouped := wholes.grid(verdict)) is not None:
        parts += ["### Groups", table(grouped), f"*{wholes.NOTE}*"]
    tables = factors.markdown(verdict)
    if len(tables) > 2 and verdict.factors is not None:
        head, summary, *rest = tables
        there = len(all_.factors.effects if all_.factors else ())
        what = _many(len(verdict.factors.effects), there, "effects of factors")
        folded = _folded(what, rest)
        parts += [head, summary, *folded]
    if (made := apart.grid(verdict)) is not None:
        parts += _folded("What an operation is made of", [table(made), f"*{apart.NOTE}*"])
    if (several := strata.grid(verdict, strata.FEW)) is not None:
        parts += _folded("Effects by machine", [table(several), f"*{strata.NOTE}*"])
    if (counted := functions.grid(verdict)) is not None:
        parts += _folded("Instructions by function", [table(counted), f"*{functions.NOTE}*"])
    told = [
        (it.kind, escaped(f"{plain.name(it.kind)}: {plain.sentence(it.text)}"))
        for it in verdict.flags
    ]
    # What casts doubt on the answer must be seen without a click.
    loud = [f"- {text}" for kind, text in told if _is_loud(kind)]
    quiet = [f"- {text}" for kind, text in told if not _is_loud(kind)]
    parts += ["\n".join(loud)] if loud else []
    flags = ["\n".join(quiet)] if quiet else []
    parts += _folded("Conditions and method", [*flags, _method(verdict)])
    return "\n\n".join(parts) + "\n"


def _is_loud(kind: str) -> bool:
    return "moved" in kind or kind in ("differs-by-machine", "tail", "quantile")


def _many(shown: int, there: int, what: str) -> str:
    return f"All {there} {what}" if shown == there else f"{shown} of {there} {what}"


def _folded(summary: str, parts: Sequence[str]) -> list[str]:
    """Opens with a click where the renderer knows it, and stands in full where it does not."""
    return [f"<details><summary>{summary}</summary>", *parts, "</details>"]


def _changed(verdict: Verdict, found: Sequence[Group]) -> list[str]:
    """One table of what is faster, slower or failed in any variant, slower first."""
    order = ("slower", "failed", "faster")
    changed = [
        it
        for group in found
        if not group.is_copy
        for it in group.tested
        if it.verdict in order and not it.equivalent_too
    ]
    if not changed:
        tested = [it for group in found if not group.is_copy for it in group.tested]
        undecided = sum(it.verdict == "inconclusive" for it in tested)
        if undecided:
            return [f"Nothing was found faster or slower; {undecided} of {len(tested)} undecided."]
        return ["Nothing is faster or slower by more than does not matter."]
    changed.sort(key=lambda it: order.index(it.verdict))
    columns = [
        Column("what changed", lambda it: effects.case(it, "before"), "name"),
        Column("variant", lambda it: plain.name(it.variant)),
        Column("effect", effects.effect, "effect"),
        *effects.counts(changed),
        Column(effects.level(verdict), effects.interval, "number"),
        Column("verdict", effects.verdict, "verdict"),
    ]
    return [table(Grid(columns, changed))]


def _table(verdict: Verdict, group: Group) -> str:
    title = f"{plain.name(group.variant)} ÷ {plain.name(verdict.baseline)}"
    title += " (the same kernel: A/A)" if group.is_copy else ""
    columns = [
        Column(title, lambda it: effects.case(it, "before"), "name"),
        Column("baseline", lambda it: effects.amount(it, it.baseline_value), "number"),
        Column("value", effects.value, "number"),
        Column("effect", effects.effect, "effect"),
        *effects.counts(group.effects),
        Column(effects.level(verdict), effects.interval, "number"),
        Column("verdict", effects.verdict, "verdict"),
        *effects.floors(group.effects),
        Column("blocks", lambda it: it.blocks, "number"),
    ]
    return table(Grid(columns, group.effects))


def _method(verdict: Verdict) -> str:
    boots = ", ".join(f"{escaped(plain.name(k))} {v}" for k, v in verdict.boots.items()) or "none"
    return (
        f"Boots: {boots}. The effect is variant ÷ baseline, paired within blocks; the value is the "
        "baseline's median × the effect; the interval is corrected for the number of effects. "
        f"Equivalent means inside {figures.tolerance(verdict.equivalent)}."
    )
