# SPDX-License-Identifier: MIT
"""What to beware of, as far as the figures themselves show it."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from statistics import median

import numpy as np
from numpy.typing import NDArray

from kdyno.judge.pairs import CONFIRMED_BOOTS, hides_work, links_of, spread_of
from kdyno.judge.question import Question
from kdyno.stats import noise
from kdyno.stats.additive import mean_of
from kdyno.stats.groups import machine_spread
from kdyno.stats.verdict import Judgement
from kdyno.store.manifest import CaseInfo, Manifest
from kdyno.store.samples import Samples
from kdyno.store.verdict import NO_SANDBOX, Effect, Flag, LinkSpread

Judged = tuple[CaseInfo, str, Judgement]
"""A case, a variant, and what came out."""


def outside_sandbox(which: str = "") -> Flag:
    """At least one boot ran with --no-sandbox."""
    text = (
        f"{which}measured without the sandbox (--no-sandbox): its kernels and commands could do on "
        "this machine whatever the caller may"
    )
    return Flag(kind=NO_SANDBOX, text=text)


def confirming(manifest: Manifest) -> list[Flag]:
    """That it was measured because an earlier run called something slower."""
    first = str(manifest.overrides.get("confirms") or "")[:200]
    text = f"measured to confirm what {first} called slower: a gate counts what is slower in both"
    return [Flag(kind="confirmation", text=text)] if first else []


def not_by_turns(manifest: Manifest) -> list[Flag]:
    """What was measured by boots, or whole, and why; where turns were wanted if possible."""
    if manifest.why_boots:
        text = f"one whole boot after the other, not by turns: {manifest.why_boots}"
        return [Flag(kind="not-by-turns", text=text)]
    by_reason: dict[str, list[str]] = {}
    for name, why in manifest.whole.items():
        by_reason.setdefault(why, []).append(name.partition("/")[2])
    return [
        Flag(
            kind="not-by-turns",
            text=f"{', '.join(names)}: whole, one guest after the other, not by turns: {why}",
        )
        for why, names in by_reason.items()
    ]


def moved_controls(claims: Sequence[Judged]) -> list[Flag]:
    """Negative controls that moved."""
    own = [each for each in claims if each[0].control]
    read = noise.read_controls([judgement for _, _, judgement in own])
    flags = []
    for index in read.moved:
        case, variant, judgement = own[index]
        percent = 100 * ((judgement.effect.ratio or 1.0) - 1.0)
        moved = f"{percent:+.2f} %" if abs(percent) >= 0.005 else f"{percent:+.1g} %"
        small = index not in read.moved_and_matter
        why = "code layout, frequency or the machine changed"
        if judgement.effect.exact:
            why = "what every case has a share in, such as the tick, has another length"
        flags.append(
            Flag(
                kind="control-moved",
                text=f"{case.case} does not depend on the kernel, yet {variant} moved it by "
                f"{moved}{' (too little to matter)' if small else ''}: {why}, "
                "so take effects of that size as noise",
                variant=variant,
                suite=case.suite,
                case=case.case,
            )
        )
    return flags


def tails(effects: Sequence[Effect]) -> list[Flag]:
    """Effects whose sum is not what the typical turn says, and quantiles that moved."""
    flags = []

    def flag(it: Effect, kind: str, text: str) -> None:
        flags.append(Flag(kind=kind, text=text, variant=it.variant, suite=it.suite, case=it.case))

    for it in effects:
        own = it.throughput
        if own is not None and own.tail:
            flag(
                it,
                "tail",
                f"by summed times {_percent(own.ratio, own.ci)}, a typical one "
                f"{_percent(it.ratio, it.ci)}: {_rare(own.slow_turns)}. The verdict is that of "
                "the sum",
            )
        for each in it.quantiles:
            if each.verdict in ("faster", "slower") and not each.equivalent_too:
                flag(it, "quantile", f"{each.figure} {_percent(each.ratio, each.ci)}")
    return flags


def _rare(share: float | None) -> str:
    if not share or abs(share) < _LEAST_SHARE:
        return "some are slower than the others"
    whose = "one in" if share > 0 else "of the baseline's one in"
    return f"{whose} {round(1 / abs(share))} is far slower than the others"


def _percent(ratio: float | None, ci: tuple[float, float] | None) -> str:
    ends = f" ({' … '.join(f'{100 * (end - 1):+.2f}' for end in ci)})" if ci else ""
    return f"{100 * ((ratio or 1.0) - 1):+.2f} %{ends}"


_LEAST_SHARE = 1e-4


def moved_copies(copies: Sequence[Judged]) -> list[Flag]:
    """Cases in which the baseline differs from its own copy."""
    return [
        Flag(
            kind="copy-moved",
            text=f"{case.case}: the baseline's own copy came out {judgement.word} than the "
            "baseline; effects of that size are noise here",
            variant=variant,
            suite=case.suite,
            case=case.case,
        )
        for case, variant, judgement in copies
        if judgement.word in ("faster", "slower") and not judgement.equivalent_too
    ]


CHANGE_OF_WAITS = 0.1
"""By which a kernel may well change what its programs wait for, in relation to it."""
_HAND_OVERS = 0.03
"""Share of frozen turns that goes into stopping and going on."""


def asleep(data: Samples, question: Question) -> list[Flag]:
    """Frozen commands that slept: a sleep goes on in the others' slices, so of a long one only the
    share of one guest is in its time.

    Flagged where a change of the waits by a tenth could be hidden though it is more than
    ±equivalent, and where the kernels' shares differ by so much.
    """
    others = len(question.names) - 1
    flags = []
    for case in question.cases:
        shares = [data.asleep.get((case.suite, case.case, it), {}) for it in question.names]
        known = [median(own.values()) for own in shares if own]
        most = max(known, default=0.0)
        hidden = others * most
        text = ""
        if most > _HAND_OVERS and CHANGE_OF_WAITS * hidden > question.equivalent:
            text = (
                f"no CPU for {100 * most:.0f} % of its frozen turns: waits of up to "
                f"{100 * hidden:.0f} % of its time were in the others' turns, and what a kernel "
                "changes of them is not seen"
            )
        for name, own in zip(question.names[1:], shares[1:], strict=True):
            common = sorted(own.keys() & shares[0].keys())
            apart = mean_of([own[at] - shares[0][at] for at in common], _SURE)
            if apart.clear and others * abs(apart.mean) > question.equivalent:
                text += "; " if text else ""
                text += f"{name} had {100 * apart.mean:+.1f} % more of such time"
        if text:
            text += ". `--interleave boots` has no such gaps"
            flags.append(Flag(kind="asleep", text=text, suite=case.suite, case=case.case))
    return flags


_SURE = 0.999
"""Of the interval of a difference of shares: there are many of them, and it is a flag."""
RESTLESS = 0.03
"""Standard deviation of a machine's own speed beyond which people should hear of it."""


def restless(data: Samples, question: Question) -> list[Flag]:
    """How much the machine's speed changed under guests that took turns.

    What all variants of a round have in common is the machine's doing. Neither steal nor other
    programs need to show for it: the host of a virtual machine may be busy.
    """
    moved: dict[tuple[str, str], float] = {}
    left: list[float] = []
    for case in question.cases:
        # Of several machines each by itself: that they differ in speed is nothing restless.
        groups: dict[str, list[list[NDArray[np.float64]]]] = {}
        for at in range(data.blocks):
            logs = [_rounds(data, case, name, at) for name in question.names]
            group = [np.asarray(it) for it in logs if it]
            if len(group) >= 2:
                groups.setdefault(data.machines.get(at, ""), []).append(group)
        seen = [it for own in groups.values() if (it := machine_spread(own)) is not None]
        if seen:
            moved[case.suite, case.case] = median(seen)
        for variant in question.compared:
            found = spread_of(data, question, case, variant)
            left += [found.of_group] if found is not None else []
    if not moved or not left or median(moved.values()) < RESTLESS:
        return []
    most = max(moved, key=lambda key: moved[key])
    text = (
        f"the machine's own speed changed by {100 * median(moved.values()):.0f} % "
        f"(standard deviation between rounds and groups, median of the cases; {'/'.join(most)}: "
        f"{100 * moved[most]:.0f} %). Turns cancel that: a group's effect varied by "
        f"{100 * median(left):.2g} %"
    )
    return [Flag(kind="restless-host", text=text)]


def _rounds(data: Samples, case: CaseInfo, variant: str, block: int) -> array[float] | None:
    return data.rounds.get((case.suite, case.case, variant), {}).get(block)


def drifted(data: Samples, question: Question) -> list[Flag]:
    """One flag for all cases in which the baseline drifted by more than matters.

    None for several machines: there is no order between what they measured at the same time.
    """
    if len(set(data.machines.values())) > 1:
        return []
    moved = []
    for case in question.cases:
        scores = data.scores.get((case.suite, case.case, question.baseline), {})
        seen = noise.drift([scores[block] for block in sorted(scores)])
        if seen is not None and seen.drifting and abs(seen.change) > question.equivalent:
            moved.append(f"{case.case} {100 * seen.change:+.1f} %")
    if not moved:
        return []
    text = (
        f"the baseline drifted over the run ({', '.join(moved)}); comparisons are within blocks, "
        "so this cancels"
    )
    return [Flag(kind="drift", text=text)]


def few_boots(claims: Sequence[Judged]) -> list[Flag]:
    """Exact effects that no boots with other memory and random numbers have confirmed."""
    few = [
        ((case.suite, case.case), each.effect)
        for case, _, each in claims
        if each.effect.exact and each.effect.n < CONFIRMED_BOOTS
    ]
    if not few:
        return []
    boots = "one boot" if min(it.n for _, it in few) == 1 else "two boots"
    cases = len({case for case, _ in few})
    text = (
        f"{boots} of either kernel decided {len(few)} exact effects, in {cases} cases: most parts "
        "of the case agree to the last digit, and no boot with other memory and random numbers has "
        "confirmed them"
    )
    return [Flag(kind="few-boots", text=text)]


def rare_work(data: Samples, question: Question, claims: Sequence[Judged]) -> list[Flag]:
    """Counts whose usual part says one thing, and all parts together another."""
    return [
        Flag(
            kind="rare-work",
            text=f"{case.case}: most parts of {variant} are the same in every boot, and what is "
            "done in the others differs from the baseline's: the effect is of all parts together, "
            f"{100 * ((judgement.effect.ratio or 1.0) - 1.0):+.3g} %",
            variant=variant,
            suite=case.suite,
            case=case.case,
        )
        for case, variant, judgement in claims
        if hides_work(data, question, case, variant)
    ]


_CASES_SHOWN = 6


def layouts(data: Samples, question: Question, judged: Sequence[Judged]) -> list[Flag]:
    """Of kernels that were linked several times: what one link would have said.

    The floor is that of the baseline against links of its own, where there are any; of two kernels
    it holds what their common code leaves.
    """
    found = [
        (case, variant, judgement, spread)
        for case, variant, judgement in judged
        if (spread := links_of(data, question, case, variant)) is not None
    ]
    if not found:
        return []
    own = [it for it in found if it[1] == question.copy] or found
    floors: dict[str, float] = {}
    for case, _, _, spread in own:
        floors[case.case] = max(floors.get(case.case, 0.0), spread.one_link or 0.0)
    ordered = sorted(floors, key=lambda name: -floors[name])
    shown = [f"{name} {100 * floors[name]:.2g} %" for name in ordered[:_CASES_SHOWN]]
    if left := len(ordered) - len(shown):
        shown.append(f"{left} with less")
    parts = "one boot of each"
    if all(it[3].boot is not None for it in own):
        shares = np.median([_shares(it[3]) for it in own], axis=0)
        named = list(zip(shares, ("layout", "boot", "rounds"), strict=True))
        named = named if any(it[3].round is not None for it in own) else named[:2]
        parts = ", ".join(f"{100 * share:.0f} % {what}" for share, what in named)
        parts = f"the variance of one boot is {parts}"
    text = (
        f"{max(it[3].links for it in found)} links of each kernel, and intervals are over them; "
        f"{parts}. A difference between one link of either says nothing up to: {', '.join(shown)}"
    )
    return [Flag(kind="layouts", text=text), *_made_by_layout(found)]


def _shares(spread: LinkSpread) -> list[float]:
    parts = [(it or 0.0) ** 2 for it in (spread.layout, spread.boot, spread.round)]
    return [part / (sum(parts) or 1.0) for part in parts]


def _made_by_layout(
    found: Sequence[tuple[CaseInfo, str, Judgement, LinkSpread]],
) -> Iterator[Flag]:
    """What one link would have been told, and all of them together are not."""
    for case, variant, judgement, spread in found:
        if spread.worst_alone and spread.worst and judgement.word not in ("faster", "slower"):
            better = (spread.worst > 1) == (case.better == "higher")
            text = (
                f"{case.case}: one of {spread.links} links of {variant} is "
                f"{'faster' if better else 'slower'} than the baseline's by "
                f"{100 * abs(spread.worst - 1):.2g} %, and all together are not: where its code "
                "lies does that, and not what it does"
            )
            yield Flag(
                kind="by-layout", text=text, variant=variant, suite=case.suite, case=case.case
            )


def failed_boots(data: Samples) -> list[Flag]:
    """One for each variant that had any, and one for each boot that cannot be read."""
    flags = [
        Flag(kind="damaged", text=f"{bad.name}: {bad.reason} (not used)") for bad in data.damaged
    ]
    for variant, reasons in sorted(data.failures.items()):
        told = ", ".join(f"{count} × {reason}" for reason, count in reasons.most_common())
        flags.append(Flag(kind="failed-boots", text=f"{variant}: {told}", variant=variant))
    return flags
