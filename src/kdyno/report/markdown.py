# SPDX-License-Identifier: MIT
"""A report to paste into an issue, a merge request or a page."""

from __future__ import annotations

import re

from kdyno.report import factors, figures, plain
from kdyno.report.groups import Group, groups
from kdyno.report.sentence import answer
from kdyno.store.verdict import Effect, Verdict

NAME = "markdown"
HELP = "tables to paste into an issue or a page"
SUFFIX = ".md"

# HTML counts too: most renderers let it through.
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~$!@&])")
_BOLD = ("faster", "slower", "failed")


def export(verdict: Verdict) -> str:
    parts = [f"## {_text(plain.name(verdict.experiment))}"]
    if verdict.question:
        parts.append(f"*{_text(plain.sentence(verdict.question))}*")
    parts.append(_text(answer(verdict)))
    parts += [_table(verdict, group) for group in groups(verdict)]
    parts += factors.markdown(verdict, _text)
    if verdict.failed:
        lines = [
            f"- **{_text(plain.name(variant))}** failed: {_text(plain.sentence(reason))}"
            for variant, reason in verdict.failed.items()
        ]
        parts.append("\n".join(lines))
    if verdict.flags:
        lines = [f"- {plain.name(it.kind)}: {plain.sentence(it.text)}" for it in verdict.flags]
        parts.append("Flags:\n\n" + "\n".join("- " + _text(line[2:]) for line in lines))
    parts.append(_method(verdict))
    return "\n\n".join(parts) + "\n"


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
