# SPDX-License-Identifier: MIT
"""Warnings: disturbances that the host recorded, and what the figures themselves show.

Nothing is left out because of a flag: disturbed boots are kept."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import median

import numpy as np

from kdyno.judge.pairs import CONFIRMED_BOOTS, SURE, Judged, pairs_of
from kdyno.stats.changepoints import drift
from kdyno.stats.effect import Floats, added_by, mean_of
from kdyno.stats.groups import machine_spread
from kdyno.stats.verdict import word_of
from kdyno.store.boot import BootFlag, BootHost
from kdyno.store.manifest import Manifest
from kdyno.store.samples import Key, Samples
from kdyno.store.verdict import NO_SANDBOX, Effect, FactorEffect, Flag, GroupEffect, Strata

STEAL_SHARE = 0.01
"""Of the boot's wall time: the hypervisor ran other guests."""
INTRUDER_SHARE = 0.03
"""CPU seconds of others on the guest's own CPUs, in relation to the boot's wall time."""
NEIGHBOUR_SHARE = 0.35
"""Busy seconds of the other CPUs in relation to the wall time; kdyno itself needs far less."""
CLOCK_SHARE = 0.01
"""Difference of the guest's clock from the host's over the same span, once beyond 50 ms."""
# /proc/stat counts in ticks of 10 ms: below this a share means nothing.
_LEAST_S = 0.03
_MEANING = {
    "steal": "CPU time was stolen by the hypervisor",
    "intruder": "other programs ran on the guest's CPU",
    "neighbour": "other CPUs were busy with something else",
    "clock": "the guest's clock and the host's disagree",
    "kernel-warning": "the kernel printed warnings",
    "no-effect": "the kernel did not know a word of its cmdline",
    "low-parallelism": "parallelism fell below half of -j for a tenth of a case or more",
    "multiplexed": "the CPU has fewer counters than were asked for: they took turns",
    "pages-in-order": "free pages could not be put at drawn places",
    "asleep": "a frozen command mostly slept, which goes on in the others' turns,",
    "guest-channel": "the guest printed something other than results where results are due",
}
_LEAST_SHARE = 1e-4
CHANGE_OF_WAITS = 0.1
"""By which a kernel may well change what its programs wait for, in relation to it."""
_HAND_OVERS = 0.03
"""Share of frozen turns that goes into stopping and going on."""
RESTLESS = 0.03
"""Standard deviation of a machine's own speed beyond which people should hear of it."""
CONFIRMED_CASES = 13
"""Exact after one boot in all of 13 kernels, and no further boot differed: docs/counting.md."""
_FEWEST_BY_FIRMWARE = 3
_CASES_SHOWN = 6
_STRATA_SHOWN = 8


def disturbances(host: BootHost) -> tuple[BootFlag, ...]:
    """Those that one boot's record shows."""
    wall_s = host.wall_s or 0.0
    flags = []
    for kind, name, share in (
        ("steal", "steal_s", STEAL_SHARE),
        ("intruder", "guest_cpus_others_s", INTRUDER_SHARE),
        ("neighbour", "other_cpus_busy_s", NEIGHBOUR_SHARE),
    ):
        value = host.after.get(name)
        spent_s = float(value) if isinstance(value, int | float) else 0.0
        if spent_s > max(_LEAST_S, share * wall_s):
            text = f"{_MEANING[kind]}: {spent_s:.2f} s of {wall_s:.2f} s"
            flags.append(BootFlag(kind=kind, text=text))
    if host.guest_clock_s is not None and host.host_clock_s is not None:
        apart_s = abs(host.guest_clock_s - host.host_clock_s)
        if apart_s > max(0.05, CLOCK_SHARE * host.host_clock_s):
            text = f"{_MEANING['clock']}: {host.guest_clock_s:.3f} s, {host.host_clock_s:.3f} s"
            flags.append(BootFlag(kind="clock", text=text))
    return tuple(flags)


def disturbed(data: Samples) -> list[Flag]:
    """One for each kind of disturbance: how many boots it concerns."""
    whole = sum(data.boots.values()) + sum(sum(own.values()) for own in data.failures.values())
    return [
        Flag(kind=kind, text=f"{_MEANING.get(kind, kind)} in {n} of {whole} boots (kept)")
        for kind, n in sorted(data.disturbed.items())
    ]


def outside_sandbox(which: str = "") -> Flag:
    """At least one boot ran with --no-sandbox."""
    text = (
        f"{which}measured without the sandbox (--no-sandbox): its kernels and commands could do on "
        "this machine whatever the caller may"
    )
    return Flag(kind=NO_SANDBOX, text=text)


def of_manifest(manifest: Manifest) -> list[Flag]:
    """That it was measured because an earlier run called something slower; outside the sandbox;
    and what was measured by boots, or whole, where turns were wanted if possible, and why."""
    flags = []
    if first := str(manifest.overrides.get("confirms") or "")[:200]:
        text = f"measured to confirm what {first} called slower: a gate counts what is slower in"
        flags.append(Flag(kind="confirmation", text=f"{text} both"))
    if manifest.host.get("sandbox") is False:
        flags.append(outside_sandbox())
    texts, cases = [], dict[str, list[str]]()
    if manifest.why_boots or manifest.interleave == "mixed":
        # One that was joined by an earlier kdyno is called as its first part was measured.
        some = "" if manifest.interleave == "boots" else "on some machines "
        why = f": {manifest.why_boots}" if manifest.why_boots else ""
        texts.append(f"{some}one whole boot after the other, not by turns{why}")
    if manifest.interleave != "boots":
        for name, why in manifest.whole.items():
            cases.setdefault(why, []).append(name.partition("/")[2])
        texts += [
            f"{', '.join(names)}: whole, one guest after the other, not by turns: {why}"
            for why, names in cases.items()
        ]
    return [*flags, *(Flag(kind="not-by-turns", text=text) for text in texts)]


def tails(
    effects: Sequence[Effect],
    groups: Sequence[GroupEffect] = (),
    factors: Sequence[FactorEffect] = (),
) -> list[Flag]:
    """Effects, groups and rows of factors whose sum is not what the typical turn says, and
    quantiles that moved."""
    flags: list[Flag] = []
    rows: list[tuple[Effect | GroupEffect | FactorEffect, str, str | None, str]] = [
        *((effect, "", effect.variant, effect.case) for effect in effects),
        *((group, "", group.variant, group.group) for group in groups),
        *((row, f"{contrast(row)}: ", None, row.case) for row in factors),
    ]
    for effect, about, variant, case in rows:
        place = {"variant": variant, "suite": effect.suite, "case": case}
        if (own := effect.throughput) is not None and own.tail:
            rare = "some are slower than the others"
            if own.slow_turns and abs(own.slow_turns) >= _LEAST_SHARE:
                whose = "one in" if own.slow_turns > 0 else "of the baseline's one in"
                rare = f"{whose} {round(1 / abs(own.slow_turns))} is far slower than the others"
            text = f"{about}by summed times {_percent(own.ratio, own.ci)}, a typical one "
            text += f"{_percent(effect.ratio, effect.ci)}: {rare}. "
            moved = effect.verdict in ("faster", "slower")
            text += "The verdict is that of the sum" if moved else "So nothing is decided"
            flags.append(Flag(kind="tail", text=text, **place))
        flags += [
            Flag(kind="quantile", text=f"{own.figure} {_percent(own.ratio, own.ci)}", **place)
            for own in (effect.quantiles if isinstance(effect, Effect) else ())
            if own.verdict in ("faster", "slower") and not own.equivalent_too
        ]
    return flags


def contrast(row: FactorEffect) -> str:
    """``preempt full ÷ none at jobs 8``."""
    text = f"{row.factor} {row.level} ÷ {row.reference}"
    if row.other is not None:
        text += f" at {row.other} {row.at}"
        text += f" ÷ the same at {row.at_reference}" if row.kind == "interaction" else ""
    return text


def differing(strata: Mapping[Key, Strata]) -> list[Flag]:
    """One for each effect that is not the same on all machines."""
    flags = []
    for (suite, case, variant), own in strata.items():
        if not own.differs:
            continue
        ordered = own.ordered()
        half, left = _STRATA_SHOWN // 2, len(ordered) - _STRATA_SHOWN
        ends = [*ordered[:half], *ordered[-half:]] if left > 0 else ordered
        listed = [f"{100 * ((one.ratio or 1.0) - 1.0):+.2f} % on {one.stratum}" for one in ends]
        text = (
            f"{case} of {variant} is not the same on all machines: {', '.join(listed)}"
            f"{f', and {left} between' if left > 0 else ''} (p = {own.p_value:.1g}, I² "
            f"{100 * (own.i_squared or 0.0):.0f} %). The common effect is that of these machines "
            "together, each as often as it was measured"
        )
        place = {"variant": variant, "suite": suite, "case": case}
        flags.append(Flag(kind="differs-by-machine", text=text, **place))
    return flags


def _percent(ratio: float | None, ci: tuple[float, float] | None) -> str:
    ends = f" ({' … '.join(f'{100 * (end - 1):+.2f}' for end in ci)})" if ci else ""
    return f"{100 * ((ratio or 1.0) - 1):+.2f} %{ends}"


def _flag(kind: str, row: Judged, text: str) -> Flag:
    suite, case, variant = row.pair.key
    return Flag(kind=kind, text=f"{case}{text}", variant=variant, suite=suite, case=case)


def moved_controls(rows: Sequence[Judged]) -> list[Flag]:
    """Negative controls that moved. They are judged in the same family as all other effects, so a
    run without any cause moves a control, or anything else, with at most alpha."""
    flags = []
    for row in rows:
        judged, variant = row.judgement, row.pair.variant
        if not row.pair.case.control or not judged.moved:
            continue
        own = row.summed.judgement if row.summed and row.summed.decides else judged
        percent = 100 * ((own.effect.ratio or 1.0) - 1.0)
        moved = f"{percent:+.2f} %" if abs(percent) >= 0.005 else f"{percent:+.1g} %"
        why = "code layout, frequency or the machine changed"
        if judged.effect.exact:
            why = "what every case has a share in, such as the tick, has another length"
        small = " (too little to matter)" if judged.equivalent_too else ""
        text = f" does not depend on the kernel, yet {variant} moved it by {moved}{small}: {why}"
        flags.append(_flag("control-moved", row, f"{text}, so take effects of that size as noise"))
    return flags


def moved_copies(copies: Sequence[Judged]) -> list[Flag]:
    """Cases in which the baseline differs from its own copy."""
    text = ": the baseline's own copy came out {} than the baseline; effects of that size are noise"
    moved = [row for row in copies if row.judgement.moved and not row.judgement.equivalent_too]
    return [_flag("copy-moved", row, f"{text.format(row.judgement.word)} here") for row in moved]


def asleep(data: Samples, manifest: Manifest) -> list[Flag]:
    """Frozen commands that slept: a sleep goes on in the others' slices, so of a long one only the
    share of one guest is in its time.

    Flagged where a change of the waits by a tenth could be hidden though it is more than
    ±equivalent, and where the kernels' shares differ by so much."""
    others = len(manifest.names) - 1
    flags = []
    for case in manifest.cases:
        shares = [data.asleep.get((*case.key, name), {}) for name in manifest.names]
        most = max((median(own.values()) for own in shares if own), default=0.0)
        hidden = others * most
        text = ""
        if most > _HAND_OVERS and CHANGE_OF_WAITS * hidden > manifest.asked.equivalent:
            text = (
                f"no CPU for {100 * most:.0f} % of its frozen turns: waits of up to "
                f"{100 * hidden:.0f} % of its time were in the others' turns, and what a kernel "
                "changes of them is not seen"
            )
        for name, own in zip(manifest.names[1:], shares[1:], strict=True):
            common = sorted(own.keys() & shares[0].keys())
            apart = mean_of([own[at] - shares[0][at] for at in common], SURE)
            if apart.clear and others * abs(apart.mean) > manifest.asked.equivalent:
                text += "; " if text else ""
                text += f"{name} had no CPU for {100 * apart.mean:+.1f} % more of its frozen turns"
        if text:
            text += ". `--interleave boots` has no such gaps"
            flags.append(Flag(kind="asleep", text=text, suite=case.suite, case=case.case))
    return flags


def by_firmware(data: Samples, manifest: Manifest) -> list[Flag]:
    """Of a box: whether a kernel that comes from the firmware by one kexec runs otherwise than one
    that comes from another kernel under test."""
    boots = sum(map(len, data.by_firmware.values()))
    if boots < _FEWEST_BY_FIRMWARE:
        return []
    moved, unseen = [], {}
    for case in manifest.cases:
        groups: dict[tuple[str, str], list[tuple[float, bool]]] = {}
        for name in manifest.names:
            marked = data.by_firmware.get(name, ())
            for block, score in data.scores.get((*case.key, name), {}).items():
                group = groups.setdefault((name, data.machines.get(block, "")), [])
                group.append((math.log(score), block in marked))
        shift = added_by([np.asarray(group, dtype=np.float64) for group in groups.values()], SURE)
        if shift.ci is None:
            continue
        (low, high), name = shift.ci, "/".join(case.key)
        if shift.clear:
            ends = math.exp(low), math.exp(high)
            moved.append(f"{name} {_percent(math.exp(shift.mean), ends)}")
        else:
            unseen[name] = math.expm1(max(high, -low))
    if not moved and not unseen:
        return []
    text = f"{boots} of {sum(data.boots.values())} boots came through the firmware: "
    if moved:
        text += f"against those from one kernel under test into the next {', '.join(moved)}"
    else:
        most = max(unseen, key=lambda name: unseen[name])
        text += f"none of {len(unseen)} cases with enough boots differs in them. Not seen would be "
        text += f"up to {100 * unseen[most]:.2g} % ({most})"
    return [Flag(kind="by-firmware", text=text)]


def restless(data: Samples, manifest: Manifest) -> list[Flag]:
    """How much the machine's speed changed under guests that took turns.

    What all variants of a round have in common is the machine's doing. Neither steal nor other
    programs need to show for it: the host of a virtual machine may be busy."""
    moved: dict[tuple[str, str], float] = {}
    for case in manifest.cases:
        # Each machine separately: a difference in speed between machines is not restlessness.
        groups: dict[str, list[list[Floats]]] = {}
        rounds = [data.rounds.get((*case.key, name), {}) for name in manifest.names]
        for at in range(data.blocks):
            group = [np.asarray(own[at]) for own in rounds if own.get(at)]
            if len(group) >= 2:
                groups.setdefault(data.machines.get(at, ""), []).append(group)
        spreads = [sd for own in groups.values() if (sd := machine_spread(own)) is not None]
        if spreads:
            moved[case.key] = median(spreads)
    if not moved or median(moved.values()) < RESTLESS:
        return []
    of_pairs = [pair.spread() for pair in pairs_of(data, manifest, manifest.compared)]
    left = [spread.of_group for spread in of_pairs if spread is not None]
    if not left:
        return []
    most = max(moved, key=lambda key: moved[key])
    text = (
        f"the machine's own speed changed by {100 * median(moved.values()):.0f} % "
        f"(standard deviation between rounds and groups, median of the cases; {'/'.join(most)}: "
        f"{100 * moved[most]:.0f} %). Turns cancel that: a group's effect varied by "
        f"{100 * median(left):.2g} %"
    )
    return [Flag(kind="restless-host", text=text)]


def drifted(data: Samples, manifest: Manifest) -> list[Flag]:
    """One flag for all cases in which the baseline drifted by more than matters.

    None for several machines: there is no order between what they measured at the same time."""
    moved = []
    for case in manifest.cases if len(set(data.machines.values())) < 2 else ():
        scores = data.scores.get((*case.key, manifest.baseline), {})
        trend = drift([scores[block] for block in sorted(scores)])
        if trend is not None and trend.drifting and abs(trend.change) > manifest.asked.equivalent:
            moved.append(f"{case.case} {100 * trend.change:+.1f} %")
    if not moved:
        return []
    text = (
        f"the baseline drifted over the run ({', '.join(moved)}); comparisons are within blocks, "
        "so this cancels"
    )
    return [Flag(kind="drift", text=text)]


def few_boots(rows: Sequence[Judged]) -> list[Flag]:
    """Exact effects that no boots with other memory and random numbers have confirmed, and which
    share of cases such boots may contradict.

    The upper end of an exact binomial interval (Clopper & Pearson, Biometrika 1934), one-sided, at
    95 %. Cases are counted, not effects: what one boot does not show is common to all kernels."""
    exact = [row for row in rows if row.judgement.effect.exact]
    few = [row for row in exact if row.judgement.effect.n < CONFIRMED_BOOTS]
    if not few:
        return []
    from scipy.special import betaincinv

    boots = "one boot" if min(row.judgement.effect.n for row in few) == 1 else "two boots"
    decided = {row.pair.key[:2] for row in few}
    cases = {row.pair.key[:2] for row in rows}
    boots_of: dict[Key, list[float]] = {}
    for row in rows:
        for key in row.pair.keys:
            scores = row.pair.data.scores.get(key, {})
            if len(scores) > 1 and min(scores) in row.pair.data.even.get(key, ()):
                boots_of[key] = list(scores.values())
    tried = {key[:2] for key in boots_of}
    wrong = len({key[:2] for key, scores in boots_of.items() if len(set(scores)) > 1})
    count = len(tried) if wrong else max(len(tried), CONFIRMED_CASES)
    most = float(betaincinv(wrong + 1, count - wrong, 0.95)) if wrong < count else 1.0
    text = (
        f"{boots} of either kernel decided the exact effects of {len(decided)} of {len(cases)} "
        "cases: most parts of the case agree to the last digit, and no boot with other memory and "
        f"random numbers has confirmed them. Such boots contradicted {wrong} of {count} "
        f"cases, so they may contradict up to {100 * most:.0f} % of cases (95 % confidence)"
    )
    return [Flag(kind="few-boots", text=text)]


def rare_work(rows: Sequence[Judged]) -> list[Flag]:
    """Counts whose usual part says one thing, and all parts together another."""
    flags = []
    for row in rows:
        ratio, usual = row.judgement.effect.ratio or 1.0, row.pair.counts_ratio(whole=False) or 1.0
        whole = f"the effect is of all parts together, {100 * (ratio - 1):+.3g} %"
        if row.pair.hides_work:
            text = (
                f": most parts of {row.pair.variant} are the same in every boot, and what is done "
                f"in the others differs from the baseline's: {whole}"
            )
            flags.append(_flag("rare-work", row, text))
        elif row.pair.manifest.counted and abs(usual - ratio) > row.pair.manifest.asked.equivalent:
            text = (
                f": {whole}; the usual part of {row.pair.variant} differs by "
                f"{100 * (usual - 1):+.3g} %, so how often the path is another one decides, and "
                "that may depend on time, which a count has not"
            )
            flags.append(_flag("rare-work", row, text))
    return flags


def layouts(rows: Sequence[Judged]) -> list[Flag]:
    """Of kernels that were linked several times: what one link alone may differ by, and where one
    link would have had a verdict that all of them together have not.

    The floor is that of the baseline against links of its own, where there are any; of two kernels
    it holds what their common code leaves."""
    linked = [(row, spread) for row in rows if (spread := row.pair.links) is not None]
    if not linked:
        return []
    copy = linked[0][0].pair.manifest.asked.copy_of_baseline
    own = [each for each in linked if each[0].pair.variant == copy] or linked
    floors: dict[tuple[str, str], float] = {}
    for row, spread in own:
        key = row.pair.case.key
        floors[key] = max(floors.get(key, 0.0), spread.one_link or 0.0)
    ordered = sorted(floors, key=lambda key: -floors[key])
    suites = Counter(case for _, case in floors)
    texts = [
        f"{'/'.join(key) if suites[key[1]] > 1 else key[1]} {100 * floors[key]:.2g} %"
        for key in ordered[:_CASES_SHOWN]
    ]
    if left := len(ordered) - len(texts):
        texts.append(f"{left} with less")
    parts = "one boot of each"
    if all(spread.boot is not None for _, spread in own):
        sds = [[each.layout, each.boot or 0.0, each.round or 0.0] for _, each in own]
        variances = np.square(sds)
        sums = variances.sum(axis=1, keepdims=True)
        shares = np.median(variances / np.where(sums > 0, sums, 1.0), axis=0)
        named = list(zip(shares, ("layout", "boot", "rounds"), strict=True))
        named = named if any(spread.round is not None for _, spread in own) else named[:2]
        parts = ", ".join(f"{100 * share:.0f} % {what}" for share, what in named)
        parts = f"the variance of one boot is {parts}"
    text = (
        f"{max(spread.links for _, spread in linked)} links of each kernel, and intervals are over "
        f"them; {parts}. A difference between one link of either says nothing up to: "
        f"{', '.join(texts)}"
    )
    flags = [Flag(kind="layouts", text=text)]
    for row, spread in linked:
        if spread.worst_alone and spread.worst and not row.judgement.moved:
            better = (spread.worst > 1) == (row.pair.case.better == "higher")
            text = (
                f": one of {spread.links} links of {row.pair.variant} is "
                f"{'faster' if better else 'slower'} than the baseline's by "
                f"{100 * abs(spread.worst - 1):.2g} %, and all together are not: where its code "
                "lies does that, and not what it does"
            )
            flags.append(_flag("by-layout", row, text))
    return flags


def failed_cases(data: Samples, manifest: Manifest) -> list[Flag]:
    """Cases without a score in some boots of a variant that ended well: these blocks are missing
    from the effect, and a kernel may well be why."""
    flags = []
    for case in manifest.cases:
        for name in manifest.names:
            key = (*case.key, name)
            if (why := data.missing.get(key)) and data.scores.get(key):
                reason, _ = why.most_common(1)[0]
                text = f"no score in {sum(why.values())} of {data.boots[name]} boots: {reason}"
                place = {"variant": name, "suite": case.suite, "case": case.case}
                flags.append(Flag(kind="failed-cases", text=text, **place))
    return flags


def is_beyond(ratio: float | None, ci: tuple[float, float] | None, equivalent: float) -> bool:
    """Whether a plain mean of boots is another than 1, by more than does not matter."""
    within = 1.0 / (1.0 + equivalent) <= (ratio or 1.0) <= 1.0 + equivalent
    return ci is not None and not (within or ci[0] <= 1.0 <= ci[1])


def uneven_boots(effects: Sequence[Effect], equivalent: float) -> list[Flag]:
    """Effects that only the plain mean of their boots leaves undecided."""
    flags = []
    for effect in effects:
        word, too_small = word_of(effect.ci, effect.better, equivalent)
        small = effect.verdict == "inconclusive" and (too_small or word == "equivalent")
        if small and is_beyond(effect.mean_ratio, effect.mean_ci, equivalent):
            text = f"typically {_percent(effect.ratio, effect.ci)}, in the mean of its boots "
            text += f"{_percent(effect.mean_ratio, effect.mean_ci)}: some boots are far from most"
            place = {"variant": effect.variant, "suite": effect.suite, "case": effect.case}
            flags.append(Flag(kind="uneven-boots", text=text, **place))
    return flags


def failed_boots(data: Samples) -> list[Flag]:
    """One for each variant that had any, and one for each boot that cannot be read."""
    damaged = (f"{bad.name}: {bad.reason} (not used)" for bad in data.damaged)
    flags = [Flag(kind="damaged", text=text) for text in damaged]
    for variant, reasons in sorted(data.failures.items()):
        counts = ", ".join(f"{count} × {reason}" for reason, count in reasons.most_common())
        flags.append(Flag(kind="failed-boots", text=counts, variant=variant))
    return flags
