# SPDX-License-Identifier: MIT
"""What a search found, in words: for people, for the mailing list, and as JSON values."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from kdyno.bisect.points import Point
from kdyno.bisect.search import Difference, Measured, Same, Search, Span, Unusable
from kdyno.bisect.session import State, Verification
from kdyno.report import figures

FOUND, NOT_REPRODUCED, UNCLEAR = "found", "not-reproduced", "unclear"
_BAR = 24


def word(state: State) -> str:
    """The short answer: found (one step, verified), not-reproduced, or unclear."""
    if not state.reproduced:
        return NOT_REPRODUCED
    search = state.search()
    return FOUND if search.certain and state.finished else UNCLEAR


def cause(state: State) -> Point | None:
    """The one commit that was found; None: a range, no commit, or no single step."""
    if word(state) != FOUND or state.range.what != "commit":
        return None
    (step,) = state.search().steps
    return state.range.points[step.high] if step.high == step.low + 1 else None


def text(state: State) -> str:
    """The whole answer."""
    assert state.ends is not None
    question, points = state.question, state.range.points
    case = f"{question.suite}/{question.case}"
    ends = f"{effect(state.ends)} from {points[0].short} to {points[-1].short}"
    if word(state) == NOT_REPRODUCED:
        looked = figures.share(math.expm1(state.least))
        return (
            f"not reproduced: {case} differs by {ends}, and {looked} or more is looked for. "
            f"Run {state.ends_run} has the figures; --min-effect looks for less"
        )
    search = state.search()
    lines = [f"{case}: {ends}", ""]
    verified = {(check.low, check.high): check for check in state.verified if check.holds}
    for step in search.steps:
        lines += [*_step(state, step, verified.get((step.low, step.high))), ""]
    for span in search.spread:
        lines += [
            f"spread over {_between(state, span)}: {effect(span.difference)} in all, and no half "
            f"of it has {figures.share(math.expm1(state.least))} or more on its own",
            "",
        ]
    if not search.steps and not search.spread:
        lines += [
            "no step: the difference of the ends was not there when parts of the range were "
            "measured. Run the search again, or give a smaller --min-effect",
            "",
        ]
    elif not search.certain:
        lines += ["several steps, so no single one is named as the cause", ""]
    return "\n".join([*lines, *_curve(state, search)])


def _step(state: State, step: Span, check: Verification | None) -> Iterator[str]:
    points, what = state.range.points, state.range.what
    high = points[step.high]
    if step.high == step.low + 1:
        yield f"{what} {high.short}  {high.title}"
    else:
        yield f"one of {_count(step, what)}, of which only the last has a figure:"
        search = state.search()
        for at in range(step.low + 1, step.high):
            why = (search.unusable[at].strip().splitlines() or ["?"])[0]
            yield f"  {points[at].short}  {points[at].title}  ({why[:120]})"
        yield f"  {high.short}  {high.title}"
    if high.author:
        yield f"  author    {high.author}"
    if high.files:
        more = f" and {len(high.files) - 4} more" if len(high.files) > 4 else ""
        yield f"  files     {', '.join(high.files[:4])}{more}"
    if check is None:
        yield f"  effect    {effect(step.difference)}, not verified"
        return
    yield f"  effect    {effect(check.difference)}, verified with fresh guests ({check.run})"
    if check.reverted is not None:
        yield f"  reverted  on the bad end: {effect(check.reverted)}"
    else:
        yield f"  reverted  not tried: {check.why_not}"
    for counts in check.functions:
        difference = counts.value - counts.baseline_value
        if abs(difference) >= 0.5:
            name = counts.function or f"{counts.functions} others"
            yield f"  {difference:+9,.0f} instructions in {name}"
    yield f"  where     kdyno profile {check.run}"


def _between(state: State, span: Span) -> str:
    points = state.range.points
    return (
        f"{_count(span, state.range.what)} after {points[span.low].short} up to "
        f"{points[span.high].short}"
    )


def _count(span: Span, what: str) -> str:
    number = span.high - span.low
    return f"{number} {what}{'' if number == 1 else 'es' if what.endswith('ch') else 's'}"


def _curve(state: State, search: Search) -> Iterator[str]:
    """A line for each point with a figure: the effect so far, against the good end."""
    largest = max((abs(effect) for effect in search.curve.values()), default=0.0) or 1.0
    yield f"measured points, against {state.range.points[0].short}:"
    for at in sorted(search.curve):
        point, value = state.range.points[at], search.curve[at]
        bar = "█" * round(_BAR * abs(value) / largest)
        yield f"  {point.short:12}  {figures.effect(math.exp(value)):>9}  {bar}"
    if search.unusable:
        yield f"without a figure: {len(search.unusable)} ({_names(state, search)})"


def _names(state: State, search: Search) -> str:
    names = [state.range.points[at].short for at in sorted(search.unusable)]
    return ", ".join(names[:6]) + (", …" if len(names) > 6 else "")


def effect(difference: Difference) -> str:
    """With its interval, if that is one."""
    ci = (difference.low, difference.high)
    same = difference.low == difference.high
    return f"{figures.exact(difference.ratio)}" + ("" if same else f" ({figures.interval(ci)})")


def letter(state: State, machine: str) -> str:
    """A report of the one step that was found, for the mailing list of the kernel; empty where
    there is none, or it is no commit."""
    high = cause(state)
    if high is None:
        return ""
    check = next(check for check in state.verified if check.holds)
    question = state.question
    worse = (check.difference.ratio < 1) == (state.better == "higher")
    metric = question.base.get("measure", {}).get("metric", "time")
    lines = [
        f"Subject: [{'REGRESSION' if worse else 'PERFORMANCE'}] {high.title}: "
        f"{question.suite}/{question.case} {figures.effect(check.difference.ratio)}",
        "",
        f'Commit {high.short} ("{high.title}") changes {question.suite}/{question.case} by',
        f"{effect(check.difference)}; {'more' if state.better == 'higher' else 'less'} is better.",
        "",
        f"  measured   {metric}, on {machine}",
        f"  range      {state.range.points[0].short}..{state.range.points[-1].short}, "
        f"{effect(state.ends) if state.ends else ''}",
    ]
    if check.reverted is not None:
        lines.append(f"  reverted   on top of the range's last commit: {effect(check.reverted)}")
    base = question.base
    config = "".join(f" --config {part}" for part in base.get("kernel", {}).get("config", []))
    machine_words = f" --machine {base['machine']['kind']}" if "machine" in base else ""
    lines += [
        "",
        "To measure it again:",
        f"  kdyno bisect --source git:. --good {high.short}^ --bad {high.short} "
        f"--case {question.suite}/{question.case}{config}{machine_words} --metric {metric}",
        "",
        f'Fixes: {high.short} ("{high.title}")',
    ]
    return "\n".join(lines)


def data(state: State) -> dict[str, Any]:
    """For programs: the answer, its steps, every measured point."""
    points = state.range.points
    search = state.search() if word(state) != NOT_REPRODUCED else None
    verified = {(check.low, check.high): check for check in state.verified}

    def of(point: Point) -> dict[str, Any]:
        return {"name": point.name, "commit": point.commit or None, "title": point.title}

    def difference(value: Difference | None) -> dict[str, Any] | None:
        return None if value is None else {"ratio": value.ratio, "ci": [value.low, value.high]}

    def step(span: Span) -> dict[str, Any]:
        check = verified.get((span.low, span.high))
        return {
            "point": of(points[span.high]),
            "after": of(points[span.low]),
            "difference": difference(check.difference if check else span.difference),
            "verified": bool(check and check.holds),
            "reverted": difference(check.reverted) if check else None,
            "run": check.run if check else None,
            "functions": [function.model_dump() for function in check.functions] if check else [],
        }

    kinds = {Measured: "measured", Same: "same", Unusable: "unusable"}
    return {
        "schema": 1,
        "answer": word(state),
        "suite": state.question.suite,
        "case": state.question.case,
        "good": of(points[0]),
        "bad": of(points[-1]),
        "ends": difference(state.ends),
        "steps": [step(span) for span in search.steps] if search else [],
        "spread": [
            {
                "after": of(points[span.low]),
                "to": of(points[span.high]),
                "difference": difference(span.difference),
            }
            for span in (search.spread if search else ())
        ],
        "curve": [
            {**of(points[at]), "ratio": math.exp(value)}
            for at, value in sorted(search.curve.items() if search else ())
        ],
        "probes": [
            {
                **of(points[step.at]),
                "outcome": kinds[type(step.outcome)],
                "run": step.run or None,
                "seconds": step.seconds,
            }
            for step in state.steps
        ],
    }
