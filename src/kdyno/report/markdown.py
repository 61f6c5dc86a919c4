# SPDX-License-Identifier: MIT
"""A summary to post to a pull request, or to paste into an issue or a page."""

from __future__ import annotations

import re
from collections.abc import Sequence

from kdyno.report import factors, figures, plain
from kdyno.report.groups import Group, groups
from kdyno.report.sentence import answer
from kdyno.store.verdict import Effect, Verdict

NAME = "markdown"
HELP = "a summary for a pull request or a page: the answer, what changed, the rest folded"
SUFFIX = ".md"

# HTML counts too: most renderers let it through.
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~$!@&])")
_BOLD = ("faster", "slower", "failed")
_UNFOLDED = 8
"""Effects up to which all of them stand in the open."""


def export(verdict: Verdict) -> str:
    """The answer and what changed; all the rest is there too, folded where it is long."""
    parts = [f"## {_text(plain.name(verdict.experiment))}"]
    if verdict.question:
        parts.append(f"*{_text(plain.sentence(verdict.question))}*")
    parts.append(_text(answer(verdict)))
    found = groups(verdict)
    tables = [_table(verdict, group) for group in found]
    if len(verdict.effects) > _UNFOLDED:
        parts += [
            *_changed(verdict, found),
            *_folded(f"All {len(verdict.effects)} effects", tables),
        ]
    else:
        parts += tables
    parts += _values(verdict)
    if verdict.failed:
        lines = [
            f"- **{_text(plain.name(variant))}** failed: {_text(plain.sentence(reason))}"
            for variant, reason in verdict.failed.items()
        ]
        parts.append("\n".join(lines))
    tables = factors.markdown(verdict, _text)
    if len(tables) > 2 and verdict.factors is not None:
        head, summary, *rest = tables
        folded = _folded(f"All {len(verdict.factors.effects)} effects of factors", rest)
        parts += [head, summary, *folded]
    told = [
        (it.kind, _text(f"{plain.name(it.kind)}: {plain.sentence(it.text)}"))
        for it in verdict.flags
    ]
    # What casts doubt on the answer must be seen without a click.
    loud = [f"- {text}" for kind, text in told if "moved" in kind]
    quiet = [f"- {text}" for kind, text in told if "moved" not in kind]
    parts += ["\n".join(loud)] if loud else []
    flags = ["\n".join(quiet)] if quiet else []
    parts += _folded("Conditions and method", [*flags, _method(verdict)])
    return "\n\n".join(parts) + "\n"


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
    lines = [
        f"| what changed | variant | effect | {100 * verdict.confidence:g} % interval | verdict |",
        "| --- | --- | --: | --: | --- |",
    ]
    for it in changed:
        effect = figures.effect(it.ratio) if it.ratio is not None else ""
        interval = figures.interval(it.ci) if it.ci is not None else ""
        variant = _text(plain.name(it.variant))
        lines.append(f"| {_case(it)} | {variant} | {effect} | {interval} | {_word(it)} |")
    return ["\n".join(lines)]


def _values(verdict: Verdict) -> list[str]:
    """The figures of a run that compares nothing."""
    if not verdict.values:
        return []
    lines = ["| case | median | interval | repetitions |", "| --- | --: | --: | --: |"]
    for it in verdict.values:
        name = _text(f"{plain.name(it.suite)}/{plain.name(it.case)}")
        name += " (lower is better)" if it.better == "lower" else ""
        if it.value is None:
            why = _text(plain.sentence(it.reason or "it was never begun"))
            lines.append(f"| {name} | no figure: {why} | | {it.repetitions} |")
            continue
        ends = " … ".join(figures.amount(end) for end in it.ci) if it.ci else ""
        amount = _text(_amount(it.value, it.unit))
        lines.append(f"| {name} | {amount} | {ends} | {it.repetitions} |")
    return ["\n".join(lines)]


def _table(verdict: Verdict, group: Group) -> str:
    variant = _text(plain.name(group.variant))
    title = f"{variant} ÷ {_text(plain.name(verdict.baseline))}"
    if group.is_copy:
        title += " (the same kernel: A/A)"
    level = f"{100 * verdict.confidence:g} % interval"
    floor = any(it.noise_floor is not None for it in group.effects)
    head = [title, "baseline", "value", "effect", level, "verdict"]
    head += ["noise floor"] if floor else []
    head += ["blocks"]
    lines = ["| " + " | ".join(head) + " |"]
    lines.append("| --- |" + " --: |" * 4 + " --- |" + " --: |" * (len(head) - 6))
    for it in group.effects:
        cells = [
            _case(it),
            _text(_amount(it.baseline_value, it.unit)),
            _text(_amount(it.value, it.unit)),
            figures.effect(it.ratio) if it.ratio is not None else "",
            figures.interval(it.ci) if it.ci is not None else "",
            _word(it),
        ]
        if floor:
            known = it.noise_floor is not None
            cells.append(figures.percent(it.noise_floor, signed=False) if known else "")
        cells.append(str(it.blocks))
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _case(it: Effect) -> str:
    text = _text(f"{plain.name(it.suite)}/{plain.name(it.case)}")
    notes = []
    if it.better == "lower":
        notes.append("lower is better")
    if it.control:
        notes.append("control")
    return f"{text} ({', '.join(notes)})" if notes else text


def _word(it: Effect) -> str:
    text = f"**{it.verdict}**" if it.verdict in _BOLD else it.verdict
    if it.equivalent_too:
        text += ", too little to matter"
    if it.inside_noise_floor:
        text += ", inside the noise floor"
    if it.verdict == "inconclusive" and it.predicted_blocks:
        text += f", about {it.predicted_blocks} blocks would settle it"
    if it.reason:
        text += f": {_text(plain.sentence(it.reason))}"
    return text


def _amount(value: float | None, unit: str) -> str:
    return "" if value is None else figures.quantity(value, plain.name(unit))


def _method(verdict: Verdict) -> str:
    boots = ", ".join(f"{_text(plain.name(k))} {v}" for k, v in verdict.boots.items()) or "none"
    return (
        f"Boots: {boots}. The effect is value ÷ baseline, paired within blocks; the interval is "
        f"corrected for the number of effects. Equivalent means inside "
        f"{figures.tolerance(verdict.equivalent)}."
    )


def _text(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", text)
