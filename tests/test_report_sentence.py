# SPDX-License-Identifier: MIT
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from command_line import verdict
from hypothesis import given, settings, strategies as st
from on_screen import text

from kdyno.judge.comparing import RULE
from kdyno.report import figures, plain
from kdyno.report.evidence import Evidence
from kdyno.report.exporters import csv, markdown
from kdyno.report.sentence import answer
from kdyno.store.verdict import Effect, Flag, Verdict
from kdyno.suites.catalogue import UNIT


def one(case: str, ratio: float | None, word: str, **more: Any) -> Effect:
    values: dict[str, Any] = {
        "suite": "u", "case": case, "variant": "mine", "unit": "loops/s", "better": "higher",
        "baseline_value": 100.0, "value": ratio and 100.0 * ratio, "ratio": ratio,
        "ci": ratio and (ratio - 0.004, ratio + 0.004), "blocks": 20, "verdict": word,
    }  # fmt: skip
    return Effect(**(values | more))


UP = [one(f"c{n}", 1 + n / 100, "faster") for n in range(1, 6)]
SAME = [one(f"e{n}", 1.0, "equivalent") for n in range(1, 6)]
OPEN = one("open", 1.01, "inconclusive", predicted_blocks=85)
FAR = one("open", 1.02, "inconclusive", variant="yours", predicted_blocks=4511)
TIME: dict[str, Any] = {"better": "lower", "unit": "s"}
LINKS = {"links": 4, "layout": 0.01}
EACH = "; 12 boots of each."

TABLE: list[tuple[list[Effect], dict[str, Any], str]] = [
    ([one("pipe", 1.02, "faster")], {},
     "mine is faster than stock in pipe by 2.00 % (95 % interval 1.60 to 2.40 %)" + EACH),
    ([one("pipe", 0.97, "slower", ci=None)], {},
     "mine is slower than stock in pipe by 3.00 %" + EACH),
    (UP[:2], {},
     "mine is faster than stock in both cases, by 1.00 % (c1) to 2.00 % (c2)" + EACH),
    (UP, {},
     "mine is faster than stock in all 5 cases, by 1.00 % (c1) to 5.00 % (c5), "
     "+2.99 % in the geometric mean of 5 cases" + EACH),
    ([*UP[:2], SAME[0]], {},
     "mine is faster than stock in c2 by 2.00 % and c1 by 1.00 %, equivalent (within ±1 %) "
     "in e1, +1.00 % in the geometric mean of 3 cases" + EACH),
    ([*UP[:4], SAME[0], one("s", 0.95, "slower")], {},
     "mine is faster than stock in 4 of 6 cases, by 1.00 % (c1) to 4.00 % (c4), slower in s by "
     "5.00 % (95 % interval 4.60 to 5.40 %), equivalent (within ±1 %) in e1" + EACH),
    (SAME, {}, "mine is equivalent to stock (within ±1 %) in all 5 cases" + EACH),
    (SAME[:1], {"equivalent": 0.005}, "mine is equivalent to stock (within ±0.5 %) in e1" + EACH),
    ([OPEN], {},
     "mine is undecided against stock in open (about 85 blocks would settle it)" + EACH),
    ([OPEN, one("o2", 1.0, "inconclusive")], {},
     "mine is undecided against stock in both cases (about 85 blocks would settle some of "
     "them)" + EACH),
    ([one("pipe", 1.0, "inconclusive", ci=None, blocks=1)], {"boots": {"stock": 1, "mine": 1}},
     "mine is undecided against stock: 1 block is too few, 6 are the least; 1 boot of each."),
    # all that is undecided is one clause, behind what is known
    ([UP[0], OPEN], {},
     "mine is faster than stock in c1 by 1.00 % (95 % interval 0.60 to 1.40 %); open is "
     "undecided (about 85 blocks would settle it)" + EACH),
    ([UP[1], OPEN, one("c2", 1.07, "faster", variant="yours"), FAR], {},
     "mine is faster than stock in c2 by 2.00 %; yours is faster than stock in c2 by 7.00 %; "
     "2 of 4 effects are undecided (about 4511 blocks would settle them)" + EACH),
    # and a variant of which nothing is known has none of its own
    ([OPEN, one("o2", 1.0, "inconclusive"), one("open", 1.07, "faster", variant="yours")], {},
     "yours is faster than stock in open by 7.00 %; 2 of 3 effects are undecided, among them "
     "all of mine (about 85 blocks would settle some of them)" + EACH),
    ([OPEN, one("open", 0.98, "slower", variant="yours")], {},
     "yours is slower than stock in open by 2.00 %; mine in open is undecided (about 85 blocks "
     "would settle it)" + EACH),
    ([OPEN, FAR], {},
     "mine and yours are undecided against stock in open (about 4511 blocks would settle them)"
     + EACH),
    ([one("c", 1.0, "inconclusive", variant=f"v{n}") for n in range(6)], {},
     "v0, v1, v2 and 3 more are undecided against stock in c" + EACH),
    ([*(one("c", 1.0, "equivalent", variant=f"v{n}") for n in range(4)),
      *(one("c", 1.0, "inconclusive", variant=f"w{n}") for n in range(3))], {},
     "Of 7 variants against stock, none is seen to be faster or slower, 4 are "
     "everywhere within ±1 % (v0; v1; v2; v3); 3 of 7 effects are undecided, among them all of "
     "w0, w1 and w2" + EACH),
    ([one("make", 0.9, "faster", **TIME)], {},
     "mine is faster than stock in make with 10.0 % less time (95 % interval 9.60 to 10.4 %)"
     + EACH),
    ([one("make", 1.1, "slower", ci=None, **TIME)], {},
     "mine is slower than stock in make with 10.0 % more time" + EACH),
    ([one("m1", 0.9, "faster", **TIME), one("m2", 0.95, "faster", **TIME)], {},
     "mine is faster than stock in both cases, with 5.00 % (m2) to 10.0 % (m1) less time" + EACH),
    ([one("m1", 0.9, "faster", **TIME), UP[0]], {},
     "mine is faster than stock in both cases, most in m1 with 10.0 % less time" + EACH),
    ([one("faults", 0.9, "faster", ci=None, better="lower", unit="faults")], {},
     "mine is faster than stock in faults with 10.0 % fewer faults" + EACH),
    ([one("pipe", 12.5, "faster")], {},
     "mine is faster than stock in pipe by a factor of 12.5" + EACH),
    ([one("pipe", 1.003, "faster", equivalent_too=True), SAME[0]], {},
     "mine is faster than stock by too little to matter (within ±1 %) in pipe (+0.30 %), "
     f"equivalent in {SAME[0].case}" + EACH),
    ([one("pipe", 1.02, "faster", inside_noise_floor=True, ci=None)], {},
     "mine is faster than stock in pipe by 2.00 % (inside the noise floor)" + EACH),
    ([one("execl", None, "failed", blocks=0)], {},
     "mine is without a verdict against stock in execl" + EACH),
    ([SAME[0], one("e1", 1.0, "equivalent", variant="yours")], {},
     "mine and yours are equivalent to stock (within ±1 %) in e1" + EACH),
    ([one("pipe", 1.02, "faster"), one("pipe", 1.0, "equivalent", suite="v")], {},
     "mine is faster than stock in u/pipe by 2.00 % (95 % interval 1.60 to 2.40 %), equivalent "
     "(within ±1 %) in v/pipe" + EACH),
    ([SAME[0], one("dhry", 1.02, "faster", control=True)], {},
     "mine is equivalent to stock (within ±1 %) in e1; caution: cases that do not depend on the "
     "kernel moved too (dhry +2.00 % with mine), so the machine or the code's layout may be the "
     "cause" + EACH),
    ([SAME[0], one("dhry", 1.02, "slower", control=True, exact=True, unit=UNIT)], {},
     "mine is equivalent to stock (within ±1 %) in e1; caution: cases that do not depend on the "
     "kernel moved too (dhry +2.00 % with mine), so what every case has a share in, such as the "
     "tick, may be the cause" + EACH),
    ([SAME[0]], {"failed": {"bad": "did not build.\nlog"}},
     "mine is equivalent to stock (within ±1 %) in e1; bad failed (did not build)" + EACH),
    ([SAME[0]], {"failed": {"mine": "panic"}},
     "mine is equivalent to stock (within ±1 %) in e1; mine failed before it was done (panic)"
     + EACH),
    ([], {"failed": {"mine": "panic"}},
     "No answer: no variant was measured; mine failed (panic); 12 boots of each."),
    ([], {"failed": {"stock": ""}}, "No answer: the baseline stock failed (no reason given)."),
    # what was measured until then counts
    ([SAME[0]], {"failed": {"stock": "panic"}},
     "mine is equivalent to stock (within ±1 %) in e1; stock failed before it was done (panic)"
     + EACH),
    # a variant that was never built has effects that failed, each for the same reason
    ([SAME[0], one("e1", None, "failed", variant="bad", blocks=0)],
     {"failed": {"bad": "did not build"}},
     "mine is equivalent to stock (within ±1 %) in e1; bad failed (did not build)" + EACH),
    ([SAME[0], one("e1", 0.8, "failed", variant="bad", blocks=10)], {"failed": {"bad": "panic"}},
     "mine is equivalent to stock (within ±1 %) in e1; bad failed before it was done (panic)"
     + EACH),
    ([one("e1", 0.8, "failed", blocks=10)], {"failed": {"mine": "panic"}},
     "No answer: no variant was measured to its end; mine failed before it was done (panic)"
     + EACH),
    ([one("dhry", 1.0, "equivalent", control=True)], {},
     "No answer: only controls were measured" + EACH),
    ([SAME[0], one("e1", None, "failed", variant="copy")],
     {"copy_of_baseline": "copy", "failed": {"copy": "panic"}},
     "mine is equivalent to stock (within ±1 %) in e1; copy failed (panic)" + EACH),
    ([SAME[0], one("e1", 1.01, "inconclusive", ci=None, variant="copy")],
     {"copy_of_baseline": "copy"},
     "mine is equivalent to stock (within ±1 %) in e1; how much stock differs from its own copy "
     "is not known" + EACH),
    # of runs that lie apart no number of blocks would do
    ([one("pipe", 1.1, "inconclusive", ci=None, blocks=3)], {"rule": RULE},
     "mine is undecided against stock in pipe" + EACH),
    ([one("pipe", 1.1, "inconclusive", ci=None, blocks=4, links=LINKS)], {},
     "mine is undecided against stock: 4 links are too few, 6 are the least" + EACH),
    # counts that agree need fewer
    ([one("pipe", 1.1, "inconclusive", ci=None, blocks=2, better="lower", unit=UNIT)], {},
     "mine is undecided against stock: 2 blocks are too few" + EACH),
    ([one("c", 1.02, "faster", inside_noise_floor=True),
      *(one("c", 1.0, "equivalent", variant=f"v{n}") for n in range(4))], {},
     "Of 5 variants against stock, 1 is faster (mine, in c by 2.00 % (inside the noise floor)), "
     "4 are everywhere within ±1 % (v0; v1; v2; v3)" + EACH),
    ([one("pipe", 1.00003, "slower", equivalent_too=True, exact=True, **TIME)], {},
     "mine is slower than stock by too little to matter (within ±1 %) in pipe (+0.003 %)" + EACH),
    ([SAME[0], one("e1", 1.0, "equivalent", variant="copy", noise_floor=0.004)],
     {"copy_of_baseline": "copy"},
     "mine is equivalent to stock (within ±1 %) in e1; stock against its own copy shows no "
     "difference but noise of at most 0.40 %" + EACH),
    ([one("e1", 1.03, "faster", variant="copy")], {"copy_of_baseline": "copy"},
     "caution: stock differs from its own copy (by +3.00 % in e1), so effects of that size mean "
     "nothing here" + EACH),
]  # fmt: skip


@pytest.mark.parametrize(("effects", "more", "expected"), TABLE)
def test_sentences(effects: list[Effect], more: dict[str, Any], expected: str) -> None:
    assert answer(verdict(*effects, **more)) == expected


@pytest.mark.parametrize(
    ("words", "cases"),
    [
        (figures.percent, {
            0.0123: "+1.23 %", -0.0123: "−1.23 %", 0.00001: "0.00 %", -0.00001: "0.00 %",
            0.09996: "+10.0 %", 0.5: "+50.0 %", 2.0: "+200 %", float("nan"): "?", None: "?",
        }),
        (figures.amount, {
            271828.1: "271.8 k", 12.34: "12.34", 1234567890.0: "1.235 G", 9999.0: "9999",
            0.00001234: "1.234e−05", 0.0: "0", 1e300: "1.000e+288 T", -5.0: "−5",
            9999.4: "9999", 9999.6: "10.00 k", -9999.9: "−10.00 k",
        }),
        (lambda pair: figures.quantity(*pair), {
            (812345.4, "KB/s"): "812345 KB/s", (812345.4, "loops/s"): "812.3 k loops/s",
            (4321.0, "MWIPS"): "4321 MWIPS", (12.34, "s"): "12.34 s", (None, "KB/s"): "? KB/s",
            (9999.6, "KB/s"): "10000 KB/s",
        }),
        (plain.name, {
            "pipe": "pipe", "\x1b[31mred\x1b[0m": "red", "\x1b]0;title\x07x": "x",
            "a\nb\tc": "a b c", "\u202eabc": "abc", "a\x00b": "ab", "\ud800": "\ufffd",
            "": "?", "\x1b": "?", "\x9b31mx": "x", "[red]x[/red]": "[red]x[/red]",
            "e\u0301": "e\u0301", "漢字": "漢字", "x" * 300: "x" * 199 + "…",
        }),
    ],
)  # fmt: skip
def test_figures_and_names(words: Callable[[Any], str], cases: dict[Any, str]) -> None:
    assert {value: words(value) for value in cases} == cases


words = st.sampled_from(["faster", "slower", "equivalent", "inconclusive", "failed"])
ratios = st.none() | st.floats(1e-6, 1e12)
effects = st.builds(
    Effect,
    suite=st.text(max_size=9), case=st.text(max_size=60), variant=st.text(max_size=9),
    unit=st.text(max_size=9), better=st.sampled_from(["higher", "lower"]),
    baseline_value=ratios, value=ratios, ratio=ratios,
    ci=st.none() | st.tuples(st.floats(0, 2), st.floats(0, 1e9)),
    noise_floor=ratios, blocks=st.integers(0, 10**9), verdict=words,
    equivalent_too=st.booleans(), inside_noise_floor=st.booleans(), control=st.booleans(),
    predicted_blocks=st.none() | st.integers(0, 10**6), reason=st.none() | st.text(max_size=20),
)  # fmt: skip
verdicts = st.builds(
    Verdict,
    experiment=st.text(max_size=20), baseline=st.text(max_size=9),
    boots=st.dictionaries(st.text(max_size=9), st.integers(0, 99), max_size=3),
    failed=st.dictionaries(st.text(max_size=9), st.text(max_size=50), max_size=3),
    flags=st.lists(st.builds(Flag, kind=st.text(max_size=9), text=st.text(max_size=50)),
                   max_size=2).map(tuple),
    effects=st.lists(effects, max_size=8).map(tuple),
    copy_of_baseline=st.none() | st.text(max_size=1),
)  # fmt: skip


@pytest.mark.slow
@settings(max_examples=80, deadline=None)
@given(verdict=verdicts, width=st.integers(1, 210))
def test_any_verdict_can_be_told(verdict: Verdict, width: int) -> None:
    sentence = answer(verdict)
    assert sentence.endswith(".") and sentence.isprintable()
    assert text(verdict, width).replace("\n", "").isprintable()
    assert csv(Evidence(verdict)).count("\n") >= 1 + len(verdict.effects)
    assert markdown(verdict).replace("\n", "").isprintable()
