# SPDX-License-Identifier: MIT
"""A summary to post to a pull request, or to paste into an issue or a page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kdyno.report import effects, figures, plain, tables
from kdyno.report.groups import Group, groups, shown
from kdyno.report.sentence import answer
from kdyno.report.show.grid import Column, Grid
from kdyno.report.show.markdown import escaped, table
from kdyno.store.verdict import Verdict

_MOST_UNFOLDED = 8
"""Effects up to which all of them stand in the open."""


def export(verdict: Verdict) -> str:
    """The answer and what changed; all the rest is there too, folded where it is long."""
    parts = [f"## {escaped(plain.name(verdict.experiment))}"]
    if verdict.question:
        parts.append(f"*{escaped(plain.sentence(verdict.question))}*")
    parts.append(escaped(answer(verdict)))
    whole, verdict = verdict, shown(verdict)
    variants = groups(verdict)
    of_variants = [_table(verdict, group) for group in variants]
    if len(verdict.effects) > _MOST_UNFOLDED:
        what = _many(len(verdict.effects), len(whole.effects), "effects")
        parts += [_changed(verdict, variants), *_folded(what, of_variants)]
    else:
        parts += of_variants
    if (values := tables.values(verdict)) is not None:
        parts.append(table(values))
    if verdict.failed:
        parts.append(
            "\n".join(
                f"- **{escaped(plain.name(variant))}** failed: {escaped(plain.sentence(reason))}"
                for variant, reason in verdict.failed.items()
            )
        )
    if (of_cases := tables.groups(verdict)) is not None:
        parts += ["### Groups", table(of_cases), f"*{tables.NOTE_OF_GROUPS}*"]
    if verdict.factors is not None and whole.factors is not None:
        what = _many(len(verdict.factors.effects), len(whole.factors.effects), "effects of factors")
        lines = "\n".join(f"- {escaped(line)}" for line in verdict.factors.summary)
        parts += ["### Factors", lines, *_folded(what, _factors(verdict))]
    for detail in tables.DETAILS:
        if (rows := detail.grid(verdict)) is not None:
            parts += _folded(detail.title, [table(rows), f"*{detail.note}*"])
    remarks = [
        (flag.kind, escaped(f"{plain.name(flag.kind)}: {plain.sentence(flag.text)}"))
        for flag in verdict.flags
    ]
    # What casts doubt on the answer must be seen without a click.
    loud = [f"- {text}" for kind, text in remarks if _is_loud(kind)]
    quiet = [f"- {text}" for kind, text in remarks if not _is_loud(kind)]
    parts += ["\n".join(loud)] if loud else []
    flags = ["\n".join(quiet)] if quiet else []
    parts += _folded("Conditions and method", [*flags, _method(verdict)])
    return "\n\n".join(parts) + "\n"


def _is_loud(kind: str) -> bool:
    return "moved" in kind or kind in ("differs-by-machine", "tail", "quantile")


def _many(count: int, there: int, what: str) -> str:
    return f"All {there} {what}" if count == there else f"{count} of {there} {what}"


def _folded(summary: str, parts: Sequence[str]) -> list[str]:
    """Opens with a click where the renderer knows it, and stands in full where it does not."""
    return [f"<details><summary>{summary}</summary>", *parts, "</details>"]


def _changed(verdict: Verdict, variants: Sequence[Group]) -> str:
    """One table of what is faster, slower or failed in any variant, slower first."""
    order = ("slower", "failed", "faster")
    tested = [effect for group in variants if not group.is_copy for effect in group.tested]
    rows = [effect for effect in tested if effect.verdict in order and not effect.equivalent_too]
    if not rows:
        if undecided := sum(effect.verdict == "inconclusive" for effect in tested):
            return f"Nothing was found faster or slower; {undecided} of {len(tested)} undecided."
        return "Nothing is faster or slower by more than does not matter."
    rows.sort(key=lambda effect: order.index(effect.verdict))
    columns = [
        Column("what changed", lambda it: effects.case(it, "before"), "name"),
        Column("variant", lambda it: plain.name(it.variant)),
        Column("effect", effects.effect, "effect"),
        *effects.counts(rows),
        Column(effects.level(verdict), effects.interval, "number"),
        Column("verdict", effects.verdict, "verdict"),
    ]
    return table(Grid(columns, rows))


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


def _factors(verdict: Verdict) -> list[str]:
    parts = []
    for grid in tables.factors(verdict):
        first, *others = grid.columns
        parts.append(table(replace(grid, columns=[replace(first, head=grid.title), *others])))
    missing = verdict.factors.missing if verdict.factors else ()
    if missing:
        parts.append("\n".join(f"- {escaped(plain.sentence(text))}" for text in missing))
    return [*parts, tables.note_of_factors(verdict)]


def _method(verdict: Verdict) -> str:
    boots = ", ".join(f"{escaped(plain.name(k))} {v}" for k, v in verdict.boots.items()) or "none"
    own = any(map(effects.uncorrected, verdict.effects))
    return (
        f"Boots: {boots}. The effect is variant ÷ baseline, paired within blocks; the value is the "
        "baseline's median × the effect; the interval is corrected for the number of effects. "
        f"Equivalent means inside {figures.tolerance(verdict.equivalent)}."
        + (f" In brackets: {effects.UNCORRECTED}." if own else "")
    )
