# SPDX-License-Identifier: MIT
"""Profiles on a terminal: the published tables' shape, differences, and theirs beside ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kdyno.profiles.differences import Change, Difference, Row, difference, rows, total
from kdyno.profiles.table import Profile
from kdyno.report import figures, plain
from kdyno.stats.additive import Estimate
from kdyno.store.article import Published

WHERE_WORDS = {"kernel": "UML kernel", "host": "host kernel", "user": "user code"}
TOP = 15
_MEMCPY_PARTS = 1e-12


def seconds(value: float, signed: bool = False) -> str:
    """Three decimals, as many as a sampler of 100 to 1000 Hz can mean."""
    text = f"{abs(value):.3f}"
    sign = figures.MINUS if value < 0 else "+" if signed else ""
    return (sign if float(text) else "") + text


def limits(estimate: Estimate, signed: bool = False) -> str:
    """The interval, or how many boots it takes to have one."""
    if estimate.lo is None or estimate.hi is None:
        return f"none from {figures.count(estimate.n, 'boot')}"
    return f"{seconds(estimate.lo, signed)} … {seconds(estimate.hi, signed)}"


def lines(profiles: Mapping[str, Profile], baseline: str, top: int = TOP) -> list[str]:
    """Every profile, then every variant against the baseline."""
    found: list[str] = []
    for profile in profiles.values():
        found += [*(_profile(profile, top)), ""]
    for it in differences(profiles, baseline):
        found += [*_difference(it, top), ""]
    notes = dict.fromkeys(note for profile in profiles.values() for note in profile.notes)
    found += [f"note: {plain.sentence(note)}" for note in notes]
    return found


def differences(profiles: Mapping[str, Profile], baseline: str) -> list[Difference]:
    """Every variant against the baseline; none where that was not profiled."""
    base = profiles.get(baseline)
    if base is None or not base.boots:
        return []
    return [
        difference(base, profile)
        for name, profile in profiles.items()
        if name != baseline and profile.boots
    ]


def beside(article: Published, profiles: Mapping[str, Profile], baseline: str) -> list[str]:
    """The article's profile and today's, function by function."""
    table = next((it for it in article.tables if it.name == "profile"), None)
    if table is None:
        return [f"{article.name} has no profile: nothing to show beside these"]
    arms = list(table.cells)
    names = [name for name in profiles if profiles[name].boots]
    head = ["function", *(f"theirs: {'+'.join(arm)}" for arm in arms)]
    body = [[*head, *(f"today: {plain.short(name)}" for name in names)]]
    for function in dict.fromkeys(["total", *table.figures]):
        cells = [function]
        for arm in arms:
            value, whole = table.cells[arm].get(function), table.cells[arm]["total"]
            cells.append("" if value is None else _with_share(value, whole))
        for name in names:
            whole = total(profiles[name]).mean
            mine = whole if function == "total" else _own(profiles[name], function)
            cells.append("not seen" if mine is None else _with_share(mine, whole))
        body.append(cells)
    found = [
        f"beside {article.title} ({article.system})",
        *_aligned(body),
        "theirs: gprof, one run each, no spread; seconds of another machine at other work: "
        "compare shares and changes, not seconds",
    ]
    base = table.cells[table.baseline]
    for arm in arms:
        if arm == table.baseline:
            continue
        for function in ("memcpy", "total"):
            if function in base and function in table.cells[arm]:
                change = table.cells[arm][function] / base[function] - 1.0
                found.append(f"  theirs, {function}: {figures.percent(change)}")
    for it in differences(profiles, baseline):
        for function, change_ in (("memcpy", _named(it, "memcpy")), ("total", it.sampled)):
            if change_ is not None:
                found.append(
                    f"  today, {plain.short(it.variant)}, {function}: {_relative(change_)}"
                )
    return found


def as_json(profiles: Mapping[str, Profile], baseline: str) -> dict[str, Any]:
    """Tables and differences, for programs."""
    return {
        "schema": 1,
        "baseline": baseline,
        "profiles": [
            {
                "variant": it.variant,
                "method": it.method,
                "event": it.event,
                "boots": len(it.boots),
                "operations": dict(it.operations),
                "seconds": _estimate(total(it)),
                "functions": [
                    {
                        "where": row.where,
                        "function": row.function,
                        "seconds": _estimate(row.seconds),
                        "share": row.share,
                        "calls": row.calls,
                    }
                    for row in rows(it)
                ],
                "notes": list(it.notes),
            }
            for it in profiles.values()
        ],
        "differences": [
            {
                "variant": it.variant,
                "functions": [_change_json(each) for each in it.changes],
                "where": {each.where: _change_json(each) for each in it.by_where},
                "sampled": _change_json(it.sampled),
                "measured": None if it.measured is None else _change_json(it.measured),
                "unexplained_s": it.unexplained_s,
            }
            for it in differences(profiles, baseline)
        ],
    }


def _profile(profile: Profile, top: int) -> list[str]:
    table = rows(profile)
    cpu = profile.measured()
    cpu_s = sum(cpu.values()) / len(cpu) if cpu else None
    head = (
        f"{plain.short(profile.variant)}: {profile.method} ({profile.event}), "
        f"{figures.count(len(profile.boots), 'boot')}, {seconds(total(profile).mean)} s a boot seen"
    )
    if cpu_s is not None:
        head += f" of {seconds(cpu_s)} s CPU"
    body = [["where", "function", "seconds", "share", "95 % interval", "calls"]]
    body += [_row(row) for row in table[:top]]
    if rest := table[top:]:
        left_s, share = sum(it.seconds.mean for it in rest), sum(it.share for it in rest)
        name = f"others: {len(rest)}"
        percent = figures.percent(share, signed=False)
        body.append(["", name, seconds(left_s), percent, "", ""])
    return [head, *_aligned(body)]


def _row(row: Row) -> list[str]:
    return [
        WHERE_WORDS[row.where],
        plain.short(row.function),
        seconds(row.seconds.mean),
        figures.percent(row.share, signed=False),
        limits(row.seconds),
        "" if row.calls is None else figures.amount(row.calls),
    ]


def _difference(it: Difference, top: int) -> list[str]:
    body = [["where", "function", "baseline", "variant", "Δ seconds", "95 % interval", "change"]]
    body += [
        _change_cells(each, WHERE_WORDS[each.where], plain.short(each.function))
        for each in it.changes[:top]
    ]
    for each in it.by_where:
        body.append(_change_cells(each, WHERE_WORDS[each.where], "all functions"))
    body.append(_change_cells(it.sampled, "", "sum of the profile"))
    if it.measured is not None:
        body.append(_change_cells(it.measured, "", "CPU time, measured"))
    found = [
        f"{plain.short(it.variant)} − {plain.short(it.baseline)}, {it.method}",
        *_aligned(body),
    ]
    if it.unexplained_s is not None:
        found.append(
            f"unexplained: {seconds(it.unexplained_s, True)} s of the measured change is in no "
            "function of the profile"
        )
    return found


def _change_cells(each: Change, where: str, function: str) -> list[str]:
    change = "" if each.relative is None else figures.percent(each.relative.mean)
    return [
        where,
        function,
        seconds(each.baseline_s),
        seconds(each.variant_s),
        seconds(each.delta.mean, True) + (" *" if each.delta.clear else ""),
        limits(each.delta, True),
        change,
    ]


def _relative(change: Change) -> str:
    it = change.relative
    if it is None:
        return "not seen in the baseline"
    if it.lo is None or it.hi is None:
        return f"{figures.percent(it.mean)}, no interval from {figures.count(it.n, 'block')}"
    return f"{figures.percent(it.mean)} ({figures.percent(it.lo)} … {figures.percent(it.hi)})"


def _named(it: Difference, function: str) -> Change | None:
    return next(
        (each for each in it.changes if (each.where, each.function) == ("kernel", function)), None
    )


def _own(profile: Profile, function: str) -> float | None:
    found = profile.seconds("kernel", function)
    mean = sum(found.values()) / len(found) if found else 0.0
    return mean if mean > _MEMCPY_PARTS else None


def _with_share(value: float, whole: float) -> str:
    share = figures.percent(value / whole, signed=False) if whole else "?"
    return f"{seconds(value)} s  {share}"


def _estimate(it: Estimate) -> dict[str, Any]:
    ci = None if it.lo is None or it.hi is None else [it.lo, it.hi]
    return {"mean": it.mean, "ci": ci, "n": it.n}


def _change_json(it: Change) -> dict[str, Any]:
    return {
        "where": it.where,
        "function": it.function,
        "baseline_s": it.baseline_s,
        "variant_s": it.variant_s,
        "delta_s": _estimate(it.delta),
        "relative": None if it.relative is None else _estimate(it.relative),
    }


def _aligned(body: Sequence[Sequence[str]]) -> list[str]:
    """Columns in line: text left, figures right."""
    widths = [max(len(row[column]) for row in body) for column in range(len(body[0]))]
    left = [all(not _is_figure(row[column]) for row in body[1:]) for column in range(len(widths))]
    return [
        "  "
        + "  ".join(
            cell.ljust(width) if is_left else cell.rjust(width)
            for cell, width, is_left in zip(row, widths, left, strict=True)
        ).rstrip()
        for row in body
    ]


def _is_figure(text: str) -> bool:
    return text[:1].isdigit() or text[:1] in (figures.MINUS, "+")
