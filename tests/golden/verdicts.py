# SPDX-License-Identifier: MIT
"""Verdicts that the golden files are made of, one of each shape that a run can end in."""

from __future__ import annotations

from typing import Any

from kdyno.store.verdict import Effect, Flag, Verdict


def effect(
    variant: str,
    case: str,
    ratio: float | None,
    half: float | None = 0.003,
    verdict: str = "equivalent",
    **more: Any,
) -> Effect:
    """An effect with a symmetric interval; ``more`` overrides."""
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


def verdict(**more: Any) -> Verdict:
    variants = dict.fromkeys([it.variant for it in more["effects"]], 24)
    values: dict[str, Any] = {
        "experiment": "simd-memcpy",
        "question": "Does a SIMD memcpy make the kernel faster?",
        "baseline": "stock",
        "boots": {"stock": 24, **variants},
        "stopped": "precision",
    }
    return Verdict(**(values | more))


def build() -> dict[str, Verdict]:
    copy_kib = {"unit": "KB/s", "base": 812345.0}
    control = {"unit": "MWIPS", "base": 4321.0, "control": True}
    seconds = {"suite": "run", "unit": "s", "better": "lower", "base": 12.34}
    floor = {"noise_floor": 0.006}
    return {
        "demo": verdict(
            effects=(
                effect("fsrm", "pipe", 1.0012, **floor),
                effect("fsrm", "fscopy-1024", 1.0213, 0.0051, "faster", **copy_kib, **floor),
                effect("fsrm", "fscopy-65536", 1.1874, 0.011, "faster", **copy_kib, **floor),
                effect("fsrm", "whetstone-double", 1.0004, **control, **floor),
                effect("saito-oikawa", "pipe", 0.9811, 0.0041, "slower", **floor),
                effect(
                    "saito-oikawa",
                    "fscopy-1024",
                    0.9972,
                    0.014,
                    "inconclusive",
                    predicted_blocks=85,
                    **copy_kib,
                    **floor,
                ),
                effect(
                    "saito-oikawa", "fscopy-65536", 1.0412, 0.009, "faster", **copy_kib, **floor
                ),
                effect("saito-oikawa", "whetstone-double", 0.9993, **control, **floor),
                effect(
                    "avx512",
                    "pipe",
                    1.0047,
                    0.0031,
                    "faster",
                    equivalent_too=True,
                    inside_noise_floor=True,
                    **floor,
                ),
                effect("avx512", "fscopy-1024", 1.0613, 0.0061, "faster", **copy_kib, **floor),
                effect("avx512", "fscopy-65536", 1.2391, 0.013, "faster", **copy_kib, **floor),
                effect("avx512", "whetstone-double", 1.0011, **control, **floor),
                effect("stock-again", "pipe", 1.0009, **floor),
                effect("stock-again", "fscopy-1024", 0.9988, 0.0046, **copy_kib, **floor),
            ),
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
            experiment="slow-umask",
            question="Is the delay found where it is, and nowhere else?",
            effects=(
                effect("slow", "syscall", 0.9712, 0.0042, "slower", suite="unixbench"),
                effect("slow", "pipe", 1.0003),
                effect("slow", "spawn", 0.9989, base=3201.0),
            ),
        ),
        "lower-is-better": verdict(
            experiment="compile",
            question="Which kernel compiles kernels faster?",
            effects=(
                effect("o3", "make-lib", 0.9, 0.012, "faster", **seconds),
                effect("o3", "make-all", 1.034, 0.008, "slower", **seconds),
                effect("o3", "pipe", 1.021, 0.006, "faster"),
            ),
        ),
        "inconclusive": verdict(
            boots={"stock": 12, "mine": 11},
            stopped="max_boots",
            effects=(
                effect(
                    "mine", "pipe", 1.012, 0.031, "inconclusive", predicted_blocks=85, blocks=11
                ),
                effect(
                    "mine",
                    "spawn",
                    0.993,
                    0.02,
                    "inconclusive",
                    predicted_blocks=40,
                    blocks=11,
                    base=3210.0,
                ),
            ),
        ),
        "too-few": verdict(
            boots={"stock": 4, "mine": 4},
            stopped="interrupted",
            effects=(
                effect("mine", "pipe", 1.012, None, "inconclusive", blocks=4),
                effect("mine", "spawn", 0.993, None, "inconclusive", blocks=4, base=3210.0),
            ),
        ),
        "tiny": verdict(
            effects=(effect("mine", "pipe", 1.0031, 0.0012, "faster", equivalent_too=True),),
        ),
        "failed": verdict(
            boots={"stock": 24, "mine": 24, "panics": 3, "broken": 0},
            failed={
                "panics": "panic at boot, three times in a row: Kernel panic - not syncing: "
                "No working init found.\nmore lines",
                "broken": "did not build: mm/slub.c:12:1: error: expected ';' before '}' token",
            },
            effects=(
                effect("mine", "pipe", 1.0003),
                effect(
                    "mine",
                    "execl",
                    None,
                    None,
                    "failed",
                    blocks=0,
                    reason="24 of 24 boots: exit status 1",
                ),
            ),
        ),
        "baseline-failed": verdict(
            boots={"stock": 3},
            failed={"stock": "hang: no end after 60 s"},
            effects=(),
            stopped="failed",
        ),
        "control-moved": verdict(
            effects=(
                effect("layout", "pipe", 1.021, 0.006, "faster"),
                effect("layout", "whetstone-double", 1.0124, 0.002, "faster", **control),
            ),
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
            experiment="calibrate",
            question="",
            baseline="stock",
            copy_of_baseline="stock-again",
            effects=(
                effect("stock-again", "pipe", 1.0011, noise_floor=0.0042),
                effect("stock-again", "spawn", 0.9991, noise_floor=0.0038, base=3210.0),
            ),
        ),
        "many": verdict(
            experiment="cross",
            question="Which of the eight pays?",
            effects=tuple(
                effect(
                    f"smp={smp},jobs={jobs}",
                    case,
                    1.0 + 0.01 * (jobs - 2) * (smp == "on"),
                    0.004,
                    "equivalent"
                    if smp == "off" or jobs == 2
                    else "slower"
                    if jobs == 1
                    else "faster",
                )
                for smp in ("off", "on")
                for jobs in (1, 2, 4, 8)
                for case in ("pipe", "spawn")
            ),
        ),
        "hostile": verdict(
            experiment="[red]x[/red]\x1b[31m\x1b]0;title\x07|`<b>",
            question="=cmd|' /C calc'!A0\nsecond line \u202eesrever :smile:",
            baseline="st[bold]ock",
            boots={"st[bold]ock": 7},
            failed={"@SUM(1)": "[link=x]\x1b[2Jgone\r\n| a | b |"},
            effects=(
                effect("=1+1", "pipe|pipe", 1.02, 0.004, "faster", unit="[/]\x07s", suite="漢字"),
                effect("=1+1", "مرحبا بالعالم", 0.95, 0.004, "slower", suite="漢字"),
                effect("=1+1", "😀" * 30, 1.0, suite="+x"),
                effect("=1+1", "n" * 300, 1e9, 1e8, "faster", suite="+x"),
                effect("=1+1", "inf", float("inf"), 0.1, "inconclusive", suite="+x"),
            ),
            flags=(Flag(kind="[b]", text="\x9b2J\u200b[/b] \ud800", case="*c*"),),
        ),
    }
