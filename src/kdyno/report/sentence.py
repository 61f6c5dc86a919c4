# SPDX-License-Identifier: MIT
"""The answer to the experiment's question, in one sentence: what is known first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cached_property

from kdyno.report import figures, plain, tables
from kdyno.report.groups import Group, geometric_mean, groups, moved_controls
from kdyno.store.manifest import Manifest
from kdyno.store.verdict import Effect, StratumEffect, Verdict
from kdyno.suites.catalogue import UNIT

_SHOWN_CASES = 3
_SHOWN_VARIANTS = 4
_LEAST_BLOCKS = 6

Kind = Callable[[Effect], bool]

# By verdict.json's words; of those that are real the ones too little to matter by themselves.
_KINDS: tuple[tuple[str, Kind], ...] = (
    ("faster", lambda it: it.verdict == "faster" and not it.equivalent_too),
    ("slower", lambda it: it.verdict == "slower" and not it.equivalent_too),
    ("faster ≈", lambda it: it.verdict == "faster" and it.equivalent_too),
    ("slower ≈", lambda it: it.verdict == "slower" and it.equivalent_too),
    ("equivalent", lambda it: it.verdict == "equivalent"),
    ("without a figure", lambda it: it.verdict == "failed"),
)
_AGAINST = {"faster": "than", "slower": "than", "equivalent": "to"}


@dataclass(frozen=True)
class _Whole:
    """The verdict, and what is asked of all of it for each case that is named."""

    verdict: Verdict

    @cached_property
    def suites(self) -> Counter[str]:
        """Case → how many suites have one of that name."""
        return Counter(case for _, case in {(it.suite, it.case) for it in self.verdict.effects})

    @cached_property
    def is_of_one(self) -> bool:
        """It has a single variant beside the baseline and its copy."""
        variants = {it.variant for it in self.verdict.effects}
        return len(variants - {self.verdict.copy_of_baseline}) == 1


def answer(verdict: Verdict) -> str:
    """Who is faster or slower, where and by how much; what is equivalent, open or failed."""
    if verdict.values:  # nothing was compared: whoever measured says what was
        return verdict.answer
    baseline = plain.short(verdict.baseline)
    if verdict.baseline in verdict.failed:
        reason = _reason(verdict.failed[verdict.baseline])
        return f"No answer: the baseline {baseline} failed ({reason})."
    whole = _Whole(verdict)
    all_groups = groups(verdict)
    tested = [group for group in all_groups if not group.is_copy and group.tested]
    parts = []
    known = [group for group in tested if not all(map(_is_open, group.tested))]
    if len(tested) > _SHOWN_VARIANTS and known:
        parts.append(_overview(tested, baseline, whole))
    else:
        parts += _clauses(known, baseline, whole)
    parts += _open(tested, whole) if known else _all_open(tested, baseline, whole)
    shown = {group.variant for group in tested}
    for variant, reason in verdict.failed.items():
        left = " before it was done" if variant in shown else ""
        parts.append(f"{plain.short(variant)} failed{left} ({_reason(reason)})")
    copies = [group for group in all_groups if group.is_copy]
    parts += [_against_itself(group, baseline) for group in copies]
    if not tested and not copies:
        parts.insert(0, "No answer: no variant was measured")
    parts += _caveats(whole)
    parts += _boots(verdict, {*shown, verdict.baseline, *(it.variant for it in copies)})
    return "; ".join(parts) + "."


def _clauses(tested: Sequence[Group], baseline: str, whole: _Whole) -> list[str]:
    """One per variant; variants of which the same is to be said share one."""
    together: dict[str, list[str]] = {}
    for group in tested:
        together.setdefault(_said(group, baseline, whole), []).append(plain.short(group.variant))
    return [
        f"{_list(names)} {'is' if len(names) == 1 else 'are'} {said}"
        for said, names in together.items()
    ]


def _said(group: Group, baseline: str, whole: _Whole) -> str:
    effects = group.tested
    parts: list[str] = []
    for word, belongs in _KINDS:
        members = [it for it in effects if belongs(it)]
        if not members:
            continue
        text = word.removesuffix(" ≈")
        if not parts:
            text += f" {_AGAINST.get(text, 'against')} {baseline}"
        if word.endswith("≈"):
            text += " by too little to matter"
        band = f" (within {figures.tolerance(whole.verdict.equivalent)})"
        if (word.endswith("≈") or word == "equivalent") and not any(band in it for it in parts):
            text += band
        parts.append(f"{text} {_where(word, members, effects, whole)}")
    moved = [sum(belongs(it) for it in effects) for _, belongs in _KINDS[:2]]
    mean = geometric_mean(effects)
    # One number for cases that went both ways, or of which one moved, would mislead.
    if mean is not None and len(effects) >= 3 and max(moved) >= 2 and min(moved) == 0:
        measured = sum(it.ratio is not None for it in effects)
        parts.append(f"{figures.effect(mean)} in the geometric mean of {measured} cases")
    return ", ".join(parts)


def _is_open(it: Effect) -> bool:
    return it.verdict == "inconclusive"


def _open(tested: Sequence[Group], whole: _Whole) -> list[str]:
    """All that is undecided in one clause, if anything is; it stands behind what is known."""
    found = [it for group in tested for it in group.tested if _is_open(it)]
    if not found:
        return []
    settled = _settled(found)
    if len(found) == 1:
        who = f"{plain.short(found[0].variant)} in " if len(tested) > 1 else ""
        return [f"{who}{_case(found[0], whole)} is undecided{settled}"]
    number = sum(len(group.tested) for group in tested)
    entire = [plain.short(group.variant) for group in tested if all(map(_is_open, group.tested))]
    among = f", among them all of {_list(_short(entire))}" if entire else ""
    return [f"{len(found)} of {number} effects are undecided{among}{settled}"]


def _all_open(tested: Sequence[Group], baseline: str, whole: _Whole) -> list[str]:
    """The same where nothing else is known."""
    found = [it for group in tested for it in group.tested]
    if not found:
        return []
    names = [plain.short(group.variant) for group in tested]
    said = (
        f"{_list(_short(names))} {'is' if len(names) == 1 else 'are'} undecided against {baseline}"
    )
    if all(it.ci is None for it in found):
        blocks = max(it.blocks for it in found)
        least = f", {_LEAST_BLOCKS} are the least" if blocks < _LEAST_BLOCKS else ""
        few = f"{figures.count(blocks, 'block')} {'is' if blocks == 1 else 'are'} too few"
        return [f"{said}: {few}{least}"]
    cases = list({(it.suite, it.case): it for it in found}.values())
    return [f"{said} {_place(cases, cases, whole)}{_settled(found)}"]


def _settled(found: Sequence[Effect]) -> str:
    needed = [it.predicted_blocks for it in found if it.predicted_blocks]
    if not needed:
        return ""
    what = "it" if len(found) == 1 else "them" if len(needed) == len(found) else "some of them"
    return f" (about {max(needed)} blocks would settle {what})"


def _where(word: str, members: Sequence[Effect], effects: Sequence[Effect], whole: _Whole) -> str:
    place = _place(members, effects, whole)
    if word in ("faster", "slower"):
        return _sizes(members, effects, whole)
    if word.endswith("≈"):
        if len(members) > _SHOWN_CASES:
            most = max(members, key=_distance)
            return f"{place} ({figures.effect(most.ratio)} at most)"
        return f"in {_list([f'{_case(it, whole)} ({figures.effect(it.ratio)})' for it in members])}"
    return place


def _place(members: Sequence[Effect], effects: Sequence[Effect], whole: _Whole) -> str:
    names = [_case(it, whole) for it in members]
    if len(members) == len(effects) == 2:
        return "in both cases"
    if len(members) == len(effects) > 1:
        return f"in all {len(effects)} cases"
    if len(members) <= _SHOWN_CASES:
        return f"in {_list(names)}"
    return f"in {len(members)} of {len(effects)} cases"


def _sizes(members: Sequence[Effect], effects: Sequence[Effect], whole: _Whole) -> str:
    ordered = sorted(members, key=_distance)
    inside = [it for it in members if it.inside_noise_floor]
    floor = ""
    if inside:
        which = "" if len(inside) == len(members) else f"{_list(_short(_cases(inside, whole)))} "
        floor = f" ({which}inside the noise floor)"
    if len(members) == 1:
        (it,) = members
        return f"in {_case(it, whole)} {_by(it)}{_interval(it, whole)}{floor}"
    if len(members) <= _SHOWN_CASES and len(members) < len(effects):
        shown = [f"{_case(it, whole)} {_by(it)}" for it in reversed(ordered)]
        return f"in {_list(shown)}{floor}"
    low, high = ordered[0], ordered[-1]
    place, most = _place(members, effects, whole), _case(high, whole)
    if len({(it.better, it.unit if it.better == "lower" else "") for it in members}) > 1:
        return f"{place}, most in {most} {_by(high)}{floor}"
    least, tail = _case(low, whole), _tail(high)
    by = "with" if tail else "by"
    return (
        f"{place}, {by} {figures.size(low.ratio)} ({least}) to "
        f"{figures.size(high.ratio)} ({most}){tail}{floor}"
    )


def _by(it: Effect) -> str:
    """``by 3.40 %``; where lower is better, what there is less or more of."""
    more = figures.more(it.baseline_value, it.paired_value)
    if it.exact and it.unit == UNIT and more is not None:
        number = figures.signed(abs(more)).removeprefix("+")
        return f"with {number} {'fewer' if more < 0 else 'more'} instructions an operation"
    tail = _tail(it)
    summed = " in sum" if it.throughput is not None and it.throughput.decides else ""
    return f"{'with' if tail else 'by'} {figures.size(it.ratio)}{tail}{summed}"


def _tail(it: Effect) -> str:
    if it.better == "higher" or it.ratio is None:
        return ""
    if figures.is_time(it.unit):
        return " less time" if it.ratio < 1.0 else " more time"
    return f" {'fewer' if it.ratio < 1.0 else 'more'} {plain.short(it.unit)}"


def _interval(it: Effect, whole: _Whole) -> str:
    """Only in the answer about a single variant: with several it would bury the answer."""
    if it.ci is None or it.exact or not whole.is_of_one or it.ci[1] >= 2.0:
        return ""
    low, high = sorted(abs(end - 1.0) for end in it.ci)
    span = f"{figures.percent(low, signed=False)[:-2]} to {figures.percent(high, signed=False)}"
    return f" ({100 * whole.verdict.confidence:g} % interval {span})"


def _distance(it: Effect) -> float:
    return abs(it.ratio - 1.0) if it.ratio is not None else 0.0


def _overview(tested: Sequence[Group], baseline: str, whole: _Whole) -> str:
    parts: list[str] = []
    rest = list(tested)
    for word, belongs in _KINDS[:2]:
        found = []
        for group in tested:
            members = [it for it in group.tested if belongs(it)]
            if members:
                most = max(members, key=_distance)
                found.append((_distance(most), group, most))
        if found:
            found.sort(key=lambda item: -item[0])
            shown = [plain.short(group.variant) for _, group, _ in found]
            most = found[0][2]
            size = f"in {_case(most, whole)} {_by(most)}"
            if len(found) == 1:
                only = "most " if len(found[0][1].tested) > 1 else ""
                parts.append(f"1 is {word} ({shown[0]}, {only}{size})")
            else:
                parts.append(
                    f"{len(found)} are {word} somewhere ({'; '.join(_short(shown))}), "
                    f"most of all {shown[0]} {size}"
                )
            told = {group.variant for _, group, _ in found}
            rest = [group for group in rest if group.variant not in told]
    same = [
        group
        for group in rest
        if all(it.equivalent_too or it.verdict == "equivalent" for it in group.tested)
    ]
    if same:
        shown = [plain.short(group.variant) for group in same]
        band = figures.tolerance(whole.verdict.equivalent)
        parts.append(
            f"{len(same)} {'is' if len(same) == 1 else 'are'} everywhere within {band} "
            f"({'; '.join(_short(shown))})"
        )
    if len(rest) == len(tested) > len(same):
        tiny = any(it.equivalent_too for group in tested for it in group.tested)
        than = " by more than does not matter" if tiny else ""
        parts.insert(0, f"none is seen to be faster or slower{than}")
    return f"Of {len(tested)} variants against {baseline}, {', '.join(parts)}"


def _against_itself(group: Group, baseline: str) -> str:
    moved = [it for it in group.effects if it.verdict in ("faster", "slower")]
    floors = [it.noise_floor for it in group.effects if it.noise_floor is not None]
    if moved:
        most = max(moved, key=_distance)
        return (
            f"caution: {baseline} differs from its own copy "
            f"(by {figures.effect(most.ratio)} in {plain.short(most.case)}), so effects of that "
            "size mean nothing here"
        )
    size = f" of at most {figures.percent(max(floors), signed=False)}" if floors else ""
    return f"{baseline} against its own copy shows no difference but noise{size}"


def _caveats(whole: _Whole) -> list[str]:
    found = _machines(whole)
    moved = [
        it for it in moved_controls(whole.verdict) if it.variant != whole.verdict.copy_of_baseline
    ]
    if not moved:
        return found
    shown = [
        f"{_case(it, whole)} {figures.effect(it.ratio)} with {plain.short(it.variant)}"
        for it in sorted(moved, key=_distance, reverse=True)
    ]
    return [
        *found,
        "caution: cases that do not depend on the kernel moved too "
        f"({_list(_short(shown))}), so the machine or the code's layout may be the cause",
    ]


def _machines(whole: _Whole) -> list[str]:
    """Effects that are not the same on all machines, with the machines at both ends."""
    differ = [it for it in whole.verdict.effects if it.strata is not None and it.strata.differs]
    if not differ:
        return []
    spans = [(*_span(effect), effect) for effect in differ]
    low, high, most = max(spans, key=lambda it: (it[1].ratio or 1.0) / (it[0].ratio or 1.0))
    several = len({it.variant for it in whole.verdict.effects}) > 1
    who = f" of {plain.short(most.variant)}" if several else ""
    rest = f", as do {figures.count(len(differ) - 1, 'more effect')}" if len(differ) > 1 else ""
    return [
        f"{_case(most, whole)}{who} differs by machine ({figures.effect(low.ratio or 1.0)} on "
        f"{plain.short(low.stratum)}, {figures.effect(high.ratio or 1.0)} on "
        f"{plain.short(high.stratum)}){rest}"
    ]


def _span(effect: Effect) -> tuple[StratumEffect, StratumEffect]:
    """Smallest and largest of an effect that has strata: of the CPU models where there are several,
    else of the machines."""
    assert effect.strata is not None
    strata = effect.strata.cpu_models or effect.strata.machines
    ordered = sorted(strata, key=lambda stratum: stratum.ratio or 1.0)
    return ordered[0], ordered[-1]


def _boots(verdict: Verdict, shown: Collection[str]) -> list[str]:
    used = [number for variant, number in verdict.boots.items() if number and variant in shown]
    if not used:
        return []
    low, high = min(used), max(used)
    boots = figures.count(high, "boot")
    return [f"{boots} of each" if low == high else f"{low} to {boots} of each"]


def _case(it: Effect, whole: _Whole) -> str:
    """The case's name; with its suite where another suite has the same."""
    case = plain.short(it.case)
    return f"{plain.short(it.suite)}/{case}" if whole.suites[it.case] > 1 else case


def _cases(effects: Sequence[Effect], whole: _Whole) -> list[str]:
    return [_case(it, whole) for it in effects]


def _reason(text: str) -> str:
    """The first line, without its full stop: the report has the rest."""
    lines = [line for line in text.splitlines() if line.strip()]
    first = plain.sentence(lines[0] if lines else "no reason given").rstrip(".")
    return first if len(first) <= 160 else first[:159] + "…"


def _short(texts: Sequence[str]) -> list[str]:
    if len(texts) <= _SHOWN_CASES + 1:
        return list(texts)
    return [*texts[:_SHOWN_CASES], f"{len(texts) - _SHOWN_CASES} more"]


def _list(texts: Sequence[str]) -> str:
    if len(texts) < 2:
        return "".join(texts)
    return f"{', '.join(texts[:-1])} and {texts[-1]}"


def worded(verdict: Verdict, manifest: Manifest | None = None) -> Verdict:
    """The verdict with its answer, and a line for each case and factor of a cross.

    manifest: of its run, which names the kernel that was measured alone.
    """
    if table := verdict.factors:
        lines = tables.summary_of_factors(table, verdict.equivalent)
        verdict = verdict.model_copy(
            update={"factors": table.model_copy(update={"summary": lines})}
        )
    words = _of_values(verdict, manifest) if verdict.values else answer(verdict)
    return verdict.model_copy(update={"answer": words})


def _of_values(verdict: Verdict, manifest: Manifest | None) -> str:
    measured = [value for value in verdict.values if value.value is not None]
    kernel = (manifest.host if manifest else {}).get("host_kernel", "unknown")
    most = max((value.repetitions for value in measured), default=0)
    return (
        f"The running kernel {kernel}: {figures.count(len(measured), 'case')} of "
        f"{len(verdict.values)} measured, {figures.count(most, 'repetition')} at most; nothing is "
        "compared here (`kdyno compare RUN RUN` compares runs)."
    )
