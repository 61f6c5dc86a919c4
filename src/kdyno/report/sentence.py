# SPDX-License-Identifier: MIT
"""The answer to the experiment's question, in one sentence: what is certain first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from kdyno.judge.comparing import RULE
from kdyno.report import figures, plain, tables
from kdyno.report.effects import effect as in_percent
from kdyno.report.groups import Group, geometric_mean, groups
from kdyno.report.tables import listed
from kdyno.store.manifest import Manifest
from kdyno.store.verdict import Effect, Verdict, by_sums
from kdyno.suites.catalogue import UNIT

_SHOWN_CASES = 3
_SHOWN_VARIANTS = 4
_LEAST_BLOCKS = 6

_KINDS = ("faster", "slower", "faster ≈", "slower ≈", "equivalent", "failed")
"""In the order of the sentence; ≈: real and too little to matter."""
_WORDS = {
    "faster": "faster than",
    "slower": "slower than",
    "equivalent": "equivalent to",
    "failed": "without a verdict against",
}


def answer(verdict: Verdict) -> str:
    """Who is faster or slower, where and by how much; what is equivalent, open or failed."""
    if verdict.values:  # nothing was compared: whoever measured says what was
        return plain.sentence(verdict.answer)
    return _Answer(verdict).sentence()


def worded(verdict: Verdict, manifest: Manifest | None = None) -> Verdict:
    """The verdict with its answer, and a line for each case and factor of a cross.

    manifest: of its run, which names the kernel that was measured alone."""
    if table := verdict.factors:
        lines = tables.summary_of_factors(table, verdict.equivalent)
        table = table.model_copy(update={"summary": lines})
        verdict = verdict.model_copy(update={"factors": table})
    words = answer(verdict)
    if verdict.values:
        measured = [value for value in verdict.values if value.value is not None]
        kernel, noun = f"The kernel {plain.short(verdict.baseline)}", "boot"
        if manifest is None or not manifest.machine.built:
            host = (manifest.host if manifest else {}).get("host_kernel", "unknown")
            kernel, noun = f"The running kernel {host}", "repetition"
        most = max((value.repetitions for value in measured), default=0)
        words = (
            f"{kernel}: {figures.count(len(measured), 'case')} of {len(verdict.values)} measured, "
            f"{figures.count(most, noun)} at most; nothing is compared here (`kdyno compare RUN "
            "RUN` compares runs)."
        )
    return verdict.model_copy(update={"answer": words})


class _Answer:
    def __init__(self, verdict: Verdict) -> None:
        self.verdict = verdict
        self.baseline = plain.short(verdict.baseline)
        self.band = figures.tolerance(verdict.equivalent)
        self.variants = {effect.variant for effect in verdict.effects}
        self.suites = Counter(case for _, case in {effect.key[:2] for effect in verdict.effects})
        """Case → how many suites have one of that name."""

    def sentence(self) -> str:
        verdict, failed = self.verdict, self.verdict.failed
        measured = [effect for effect in verdict.effects if effect.ratio is not None]
        if verdict.baseline in failed and not measured:
            reason = _reason(failed[verdict.baseline])
            return f"No answer: the baseline {self.baseline} failed ({reason})."
        begun = {verdict.baseline, *(effect.variant for effect in measured)}
        all_groups = groups(verdict)
        variants = [group for group in all_groups if not group.is_copy]
        copies = [group for group in all_groups if group.is_copy and group.variant in begun]
        # Why a variant failed is a part of its own.
        tested = [
            group
            for group in variants
            if any(each.verdict != "failed" or each.variant not in failed for each in group.tested)
        ]
        settled = [group for group in tested if not all(map(_is_open, group.tested))]
        parts = []
        if not tested and (variants or not copies):
            own = {each.control for each in measured if each.variant != verdict.copy_of_baseline}
            left = " to its end" if False in own else ""
            what = "only controls were" if own == {True} else "no variant was"
            parts = [f"No answer: {what} measured{left}"]
        if len(tested) > _SHOWN_VARIANTS and settled:
            parts.append(self.overview(tested))
        else:
            # Variants with the same clause share it.
            together: dict[str, list[str]] = {}
            for group in settled:
                together.setdefault(self.clause(group), []).append(plain.short(group.variant))
            parts += [f"{listed(who)} {_are(len(who))} {words}" for words, who in together.items()]
        parts += self.open(tested) if settled else self.all_open(tested)
        for variant, reason in failed.items():
            left = " before it was done" if variant in begun else ""
            parts.append(f"{plain.short(variant)} failed{left} ({_reason(reason)})")
        parts += map(self.against_itself, copies)
        parts += self.differing_machines() + self.moved_controls(variants)
        begun |= {group.variant for group in tested}
        if any(used := [count for name, count in verdict.boots.items() if name in begun]):
            least = f"{min(used)} to " if min(used) < max(used) else ""
            parts.append(f"{least}{figures.count(max(used), 'boot')} of each")
        return "; ".join(parts) + "."

    def clause(self, group: Group) -> str:
        """What is certain of a variant."""
        effects = group.tested
        of_kind: dict[str, list[Effect]] = {}
        for effect in effects:
            mark = " ≈" if effect.verdict in ("faster", "slower") and effect.equivalent_too else ""
            of_kind.setdefault(f"{effect.verdict}{mark}", []).append(effect)
        parts: list[str] = []
        band = f" (within {self.band})"
        for kind in _KINDS:
            if kind not in of_kind:
                continue
            text = _WORDS[kind.removesuffix(" ≈")]
            text = text.rpartition(" ")[0] if parts else f"{text} {self.baseline}"
            if kind.endswith("≈"):
                text += " by too little to matter"
            small = kind.endswith("≈") or kind == "equivalent"
            if small and not any(band in part for part in parts):
                text += band
            parts.append(f"{text} {self.where(kind, of_kind[kind], effects)}")
        moved = [len(of_kind.get(kind, ())) for kind in ("faster", "slower")]
        mean = geometric_mean(effects)
        # One number for cases that went both ways, or of which one moved, would mislead.
        if mean is not None and len(effects) >= 3 and max(moved) >= 2 and min(moved) == 0:
            measured = sum(effect.ratio is not None for effect in effects)
            parts.append(f"{figures.effect(mean)} in the geometric mean of {measured} cases")
        return ", ".join(parts)

    def open(self, tested: Sequence[Group]) -> list[str]:
        """All that is undecided in one clause, if anything is; it stands behind what is certain."""
        effects = [effect for group in tested for effect in group.tested if _is_open(effect)]
        if not effects:
            return []
        if len(effects) == 1:
            who = f"{plain.short(effects[0].variant)} in " if len(tested) > 1 else ""
            return [f"{who}{self.case(effects[0])} is undecided{_blocks_needed(effects)}"]
        number = sum(len(group.tested) for group in tested)
        entire = [group.variant for group in tested if all(map(_is_open, group.tested))]
        names = listed(_short(list(map(plain.short, entire))))
        among = f", among them all of {names}" if entire else ""
        needed = _blocks_needed(effects)
        return [f"{len(effects)} of {number} effects are undecided{among}{needed}"]

    def all_open(self, tested: Sequence[Group]) -> list[str]:
        """The same where nothing else is certain."""
        effects = [effect for group in tested for effect in group.tested]
        if not effects:
            return []
        who = listed(_short([plain.short(group.variant) for group in tested]))
        text = f"{who} {_are(len(tested))} undecided against {self.baseline}"
        if all(effect.ci is None for effect in effects) and self.verdict.rule != RULE:
            blocks = max(effect.blocks for effect in effects)
            noun = "link" if any(effect.links for effect in effects) else "block"
            # Counts need fewer, where they agree.
            few = blocks < _LEAST_BLOCKS and all(effect.unit != UNIT for effect in effects)
            least = f", {_LEAST_BLOCKS} are the least" if few else ""
            return [f"{text}: {figures.count(blocks, noun)} {_are(blocks)} too few{least}"]
        cases = list({effect.key[:2]: effect for effect in effects}.values())
        return [f"{text} {self.place(cases, cases)}{_blocks_needed(effects)}"]

    def where(self, kind: str, members: Sequence[Effect], effects: Sequence[Effect]) -> str:
        """In which cases, and by how much."""
        place = self.place(members, effects)
        if kind in ("faster", "slower"):
            return self.sizes(members, effects)
        if not kind.endswith("≈"):
            return place
        if len(members) > _SHOWN_CASES:
            return f"{place} ({in_percent(max(members, key=_distance)).text} at most)"
        ratios = [f"{self.case(effect)} ({in_percent(effect).text})" for effect in members]
        return f"in {listed(ratios)}"

    def place(self, members: Sequence[Effect], effects: Sequence[Effect]) -> str:
        if len(members) == len(effects) == 2:
            return "in both cases"
        if len(members) == len(effects) > 1:
            return f"in all {len(effects)} cases"
        if len(members) <= _SHOWN_CASES:
            return f"in {listed(list(map(self.case, members)))}"
        return f"in {len(members)} of {len(effects)} cases"

    def sizes(self, members: Sequence[Effect], effects: Sequence[Effect]) -> str:
        ordered = sorted(members, key=_distance)
        low, high = ordered[0], ordered[-1]
        floor = ""
        if inside := [effect for effect in members if effect.inside_noise_floor]:
            names = listed(_short(list(map(self.case, inside))))
            which = "" if len(inside) == len(members) else f"{names} "
            floor = f" ({which}inside the noise floor)"
        if len(members) == 1:
            return f"in {self.case(low)} {_by(low)}{self.interval(low)}{floor}"
        if len(members) <= _SHOWN_CASES and len(members) < len(effects):
            changes = [f"{self.case(effect)} {_by(effect)}" for effect in reversed(ordered)]
            return f"in {listed(changes)}{floor}"
        place = self.place(members, effects)
        kinds = {(each.better, each.unit if each.better == "lower" else "") for each in members}
        if len(kinds) > 1:
            return f"{place}, most in {self.case(high)} {_by(high)}{floor}"
        tail = _tail(high)
        return (
            f"{place}, {'with' if tail else 'by'} {figures.size(low.ratio)} ({self.case(low)}) to "
            f"{figures.size(high.ratio)} ({self.case(high)}){tail}{floor}"
        )

    def interval(self, effect: Effect) -> str:
        """Only in the answer about a single variant: with several it would bury the answer."""
        several = len(self.variants - {self.verdict.copy_of_baseline}) != 1
        if effect.ci is None or effect.exact or several or effect.ci[1] >= 2.0:
            return ""
        low, high = sorted(abs(end - 1.0) for end in effect.ci)
        span = f"{figures.percent(low, signed=False)[:-2]} to {figures.percent(high, signed=False)}"
        return f" ({100 * self.verdict.confidence:g} % interval {span})"

    def overview(self, tested: Sequence[Group]) -> str:
        parts: list[str] = []
        rest = list(tested)
        for word in ("faster", "slower"):
            tops = []
            for group in tested:
                if moved := [own for own in filter(_matters, group.tested) if own.verdict == word]:
                    tops.append((group, max(moved, key=_distance)))
            if not tops:
                continue
            tops.sort(key=lambda top: -_distance(top[1]))
            names = [plain.short(group.variant) for group, _ in tops]
            size = f"in {self.case(tops[0][1])} {_by(tops[0][1])}"
            size += " (inside the noise floor)" if tops[0][1].inside_noise_floor else ""
            if len(tops) == 1:
                only = "most " if len(tops[0][0].tested) > 1 else ""
                parts.append(f"1 is {word} ({names[0]}, {only}{size})")
            else:
                parts.append(
                    f"{len(tops)} are {word} somewhere ({'; '.join(_short(names))}), "
                    f"most of all {names[0]} {size}"
                )
            moving = {group.variant for group, _ in tops}
            rest = [group for group in rest if group.variant not in moving]
        same = [plain.short(group.variant) for group in rest if all(map(_is_small, group.tested))]
        if same:
            who = "; ".join(_short(same))
            parts.append(f"{len(same)} {_are(len(same))} everywhere within {self.band} ({who})")
        if len(rest) == len(tested) > len(same):
            tiny = any(effect.equivalent_too for group in tested for effect in group.tested)
            than = " by more than does not matter" if tiny else ""
            parts.insert(0, f"none is seen to be faster or slower{than}")
        return f"Of {len(tested)} variants against {self.baseline}, {', '.join(parts)}"

    def against_itself(self, copy: Group) -> str:
        if moved := [effect for effect in copy.effects if effect.verdict in ("faster", "slower")]:
            most = max(moved, key=_distance)
            return (
                f"caution: {self.baseline} differs from its own copy "
                f"(by {figures.effect(most.ratio)} in {plain.short(most.case)}), so effects of "
                "that size mean nothing here"
            )
        floors = [effect.noise_floor for effect in copy.effects if effect.noise_floor is not None]
        if not floors:
            return f"how much {self.baseline} differs from its own copy is not known"
        size = figures.percent(max(floors), signed=False)
        return (
            f"{self.baseline} against its own copy shows no difference but noise of at most {size}"
        )

    def differing_machines(self) -> list[str]:
        """Effects that differ by machine, with the machines, or models of CPU, at both ends."""
        spans = []
        for effect in self.verdict.effects:
            if effect.strata is not None and effect.strata.differs:
                ordered = effect.strata.ordered()
                spans.append((ordered[0], ordered[-1], effect))
        if not spans:
            return []
        low, high, most = max(spans, key=lambda ends: (ends[1].ratio or 1) / (ends[0].ratio or 1))
        who = f" of {plain.short(most.variant)}" if len(self.variants) > 1 else ""
        more = len(spans) - 1
        rest = f", as do {figures.count(more, 'more effect')}" if more else ""
        return [
            f"{self.case(most)}{who} differs by machine ({figures.effect(low.ratio or 1.0)} on "
            f"{plain.short(low.stratum)}, {figures.effect(high.ratio or 1.0)} on "
            f"{plain.short(high.stratum)}){rest}"
        ]

    def moved_controls(self, variants: Sequence[Group]) -> list[str]:
        effects = [effect for group in variants for effect in group.effects]
        moved = [effect for effect in effects if effect.control and _matters(effect)]
        if not moved:
            return []
        names = [
            f"{self.case(effect)} {figures.effect(effect.ratio)} with {plain.short(effect.variant)}"
            for effect in sorted(moved, key=_distance, reverse=True)
        ]
        cause = "the machine or the code's layout"
        if all(effect.exact for effect in moved):
            cause = "what every case has a share in, such as the tick,"
        return [
            "caution: cases that do not depend on the kernel moved too "
            f"({listed(_short(names))}), so {cause} may be the cause"
        ]

    def case(self, effect: Effect) -> str:
        """The case's name; with its suite where another suite has the same."""
        case = plain.short(effect.case)
        return f"{plain.short(effect.suite)}/{case}" if self.suites[effect.case] > 1 else case


def _is_open(effect: Effect) -> bool:
    return effect.verdict == "inconclusive"


def _is_small(effect: Effect) -> bool:
    return effect.equivalent_too or effect.verdict == "equivalent"


def _matters(effect: Effect) -> bool:
    return effect.verdict in ("faster", "slower") and not effect.equivalent_too


def _distance(effect: Effect) -> float:
    return abs(effect.ratio - 1.0) if effect.ratio is not None else 0.0


def _blocks_needed(effects: Sequence[Effect]) -> str:
    needed = [effect.predicted_blocks for effect in effects if effect.predicted_blocks]
    if not needed:
        return ""
    some = "them" if len(needed) == len(effects) else "some of them"
    what = "it" if len(effects) == 1 else some
    return f" (about {max(needed)} blocks would settle {what})"


def _by(effect: Effect) -> str:
    """``by 3.40 %``; where lower is better, what there is less or more of."""
    more = figures.more(effect.baseline_value, effect.paired_value)
    if effect.exact and effect.unit == UNIT and more is not None:
        number = figures.signed(abs(more)).removeprefix("+")
        return f"with {number} {'fewer' if more < 0 else 'more'} instructions an operation"
    tail = _tail(effect)
    summed = " in sum" if by_sums(effect) else ""
    return f"{'with' if tail else 'by'} {figures.size(effect.ratio)}{tail}{summed}"


def _tail(effect: Effect) -> str:
    if effect.better == "higher" or effect.ratio is None:
        return ""
    if figures.is_time(effect.unit):
        return " less time" if effect.ratio < 1.0 else " more time"
    return f" {'fewer' if effect.ratio < 1.0 else 'more'} {plain.short(effect.unit)}"


def _reason(text: str) -> str:
    """The first line, without its full stop: the report has the rest."""
    lines = [line for line in text.splitlines() if line.strip()]
    first = plain.sentence(lines[0] if lines else "no reason given").rstrip(".")
    return first if len(first) <= 160 else first[:159] + "…"


def _are(number: int) -> str:
    return "is" if number == 1 else "are"


def _short(texts: Sequence[str]) -> list[str]:
    if len(texts) <= _SHOWN_CASES + 1:
        return list(texts)
    return [*texts[:_SHOWN_CASES], f"{len(texts) - _SHOWN_CASES} more"]
