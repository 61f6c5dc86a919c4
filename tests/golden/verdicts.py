# SPDX-License-Identifier: MIT
"""Verdicts that the golden files are made of, one of each shape that a run can end in."""

from __future__ import annotations

from typing import Any

from kdyno.store.verdict import Effect, Flag, Verdict

CONTROL = {"unit": "MWIPS", "base": 4321.0, "control": True}
COPY = {"unit": "KB/s", "base": 812345.0}
SECONDS = {"suite": "run", "unit": "s", "better": "lower", "base": 12.34}
UNITS: dict[str, dict[str, Any]] = {
    "whetstone-double": CONTROL,
    "fscopy-1024": COPY,
    "fscopy-65536": COPY,
}


def effect(
    variant: str,
    case: str,
    ratio: float | None,
    half: float | None = 0.003,
    verdict: str = "equivalent",
    **more: Any,
) -> Effect:
    """An effect with a symmetric interval; ``more`` overrides."""
    more = UNITS.get(case, {}) | more
    base = more.pop("base", 271828.1)
    values: dict[str, Any] = {
        "suite": "unixbench",
        "case": case,
        "variant": variant,
        "unit": "loops/s",
        "better": "higher",
        "baseline_value": base if ratio is not None else None,
        "value": base * ratio if ratio is not None else None,
        "ratio": ratio,
        "ci": (ratio - half, ratio + half) if ratio is not None and half is not None else None,
        "blocks": 24,
        "verdict": verdict,
    }
    return Effect(**(values | more))


def table(text: str, **more: Any) -> tuple[Effect, ...]:
    """A line for each effect: variant, case, ratio, half of its interval, word."""
    effects = []
    for line in text.strip().splitlines():
        variant, case, ratio, half, word = line.split()
        ends = None if half == "-" else float(half)
        effects.append(effect(variant, case, float(ratio), ends, word, **more))
    return tuple(effects)


def verdict(effects: tuple[Effect, ...], **more: Any) -> Verdict:
    values: dict[str, Any] = {
        "experiment": "simd-memcpy",
        "question": "Does a SIMD memcpy make the kernel faster?",
        "baseline": "stock",
        "boots": {"stock": 24, **dict.fromkeys([effect.variant for effect in effects], 24)},
        "stopped": "precision",
    }
    return Verdict(**(values | more), effects=effects)


DEMO = """
fsrm          pipe              1.0012  0.003   equivalent
fsrm          fscopy-1024       1.0213  0.0051  faster
fsrm          fscopy-65536      1.1874  0.011   faster
fsrm          whetstone-double  1.0004  0.003   equivalent
saito-oikawa  pipe              0.9811  0.0041  slower
saito-oikawa  fscopy-1024       0.9972  0.014   inconclusive
saito-oikawa  fscopy-65536      1.0412  0.009   faster
saito-oikawa  whetstone-double  0.9993  0.003   equivalent
avx512        pipe              1.0047  0.0031  faster
avx512        fscopy-1024       1.0613  0.0061  faster
avx512        fscopy-65536      1.2391  0.013   faster
avx512        whetstone-double  1.0011  0.003   equivalent
stock-again   pipe              1.0009  0.003   equivalent
stock-again   fscopy-1024       0.9988  0.0046  equivalent
"""
MORE: dict[tuple[str, str], dict[str, Any]] = {
    ("saito-oikawa", "fscopy-1024"): {"predicted_blocks": 85},
    ("avx512", "pipe"): {"equivalent_too": True, "inside_noise_floor": True},
}


def build() -> dict[str, Verdict]:
    demo = tuple(
        each.model_copy(update=MORE.get((each.variant, each.case), {}))
        for each in table(DEMO, noise_floor=0.006)
    )
    return {
        "demo": verdict(
            demo,
            copy_of_baseline="stock-again",
            flags=(
                Flag(kind="disturbed", text="3 of 96 boots lost more than 1 % to other processes"),
                Flag(
                    kind="uml",
                    text="vector registers cost nothing in a UML kernel, unlike in a "
                    "native one, which has to save them",
                ),
            ),
        ),
        "slower-one": verdict(
            (
                effect("slow", "syscall", 0.9712, 0.0042, "slower"),
                effect("slow", "pipe", 1.0003),
                effect("slow", "spawn", 0.9989, base=3201.0),
            ),
            experiment="slow-umask",
            question="Is the delay found where it is, and nowhere else?",
        ),
        "lower-is-better": verdict(
            (
                effect("o3", "make-lib", 0.9, 0.012, "faster", **SECONDS),
                effect("o3", "make-all", 1.034, 0.008, "slower", **SECONDS),
                effect("o3", "pipe", 1.021, 0.006, "faster"),
            ),
            experiment="compile",
            question="Which kernel compiles kernels faster?",
        ),
        "inconclusive": verdict(
            (
                *table("mine pipe 1.012 0.031 inconclusive", predicted_blocks=85, blocks=11),
                *table(
                    "mine spawn 0.993 0.02 inconclusive",
                    predicted_blocks=40,
                    blocks=11,
                    base=3210.0,
                ),
            ),
            boots={"stock": 12, "mine": 11},
            stopped="max_boots",
        ),
        "too-few": verdict(
            (
                *table("mine pipe 1.012 - inconclusive", blocks=4),
                *table("mine spawn 0.993 - inconclusive", blocks=4, base=3210.0),
            ),
            boots={"stock": 4, "mine": 4},
            stopped="interrupted",
        ),
        "tiny": verdict(table("mine pipe 1.0031 0.0012 faster", equivalent_too=True)),
        "failed": verdict(
            (
                effect("mine", "pipe", 1.0003),
                effect(
                    *("mine", "execl", None, None, "failed"),
                    blocks=0,
                    reason="24 of 24 boots: exit status 1",
                ),
            ),
            boots={"stock": 24, "mine": 24, "panics": 3, "broken": 0},
            failed={
                "panics": "panic at boot, three times in a row: Kernel panic - not syncing: "
                "No working init found.\nmore lines",
                "broken": "did not build: mm/slub.c:12:1: error: expected ';' before '}' token",
            },
        ),
        "baseline-failed": verdict(
            (),
            boots={"stock": 3},
            failed={"stock": "hang: no end after 60 s"},
            stopped="failed",
        ),
        "control-moved": verdict(
            table("layout pipe 1.021 0.006 faster\nlayout whetstone-double 1.0124 0.002 faster"),
            flags=(
                Flag(
                    kind="control-moved",
                    text="moved by +1.24 %: layout, frequency or the "
                    "machine changed, not the kernel",
                    variant="layout",
                    suite="unixbench",
                    case="whetstone-double",
                ),
            ),
        ),
        "itself": verdict(
            (
                effect("stock-again", "pipe", 1.0011, noise_floor=0.0042),
                effect("stock-again", "spawn", 0.9991, noise_floor=0.0038, base=3210.0),
            ),
            experiment="calibrate",
            question="",
            copy_of_baseline="stock-again",
        ),
        "many": verdict(
            tuple(
                effect(f"smp={smp},jobs={jobs}", case, 1.0 + 0.01 * gain, 0.004, word)
                for smp in ("off", "on")
                for jobs in (1, 2, 4, 8)
                for gain in [(jobs - 2) * (smp == "on")]
                for word in ["slower" if gain < 0 else "faster" if gain else "equivalent"]
                for case in ("pipe", "spawn")
            ),
            experiment="cross",
            question="Which of the eight pays?",
        ),
        "hostile": verdict(
            (
                effect("=1+1", "pipe|pipe", 1.02, 0.004, "faster", unit="[/]\x07s", suite="漢字"),
                effect("=1+1", "مرحبا بالعالم", 0.95, 0.004, "slower", suite="漢字"),
                effect("=1+1", "😀" * 30, 1.0, suite="+x"),
                effect("=1+1", "n" * 300, 1e9, 1e8, "faster", suite="+x"),
                effect("=1+1", "inf", float("inf"), 0.1, "inconclusive", suite="+x"),
            ),
            experiment="[red]x[/red]\x1b[31m\x1b]0;title\x07|`<b>",
            question="=cmd|' /C calc'!A0\nsecond line \u202eesrever :smile:",
            baseline="st[bold]ock",
            boots={"st[bold]ock": 7},
            failed={"@SUM(1)": "[link=x]\x1b[2Jgone\r\n| a | b |"},
            flags=(Flag(kind="[b]", text="\x9b2J\u200b[/b] \ud800", case="*c*"),),
        ),
    }
