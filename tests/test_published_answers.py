# SPDX-License-Identifier: MIT
"""The one short answer that a published claim has today."""

from __future__ import annotations

import pytest
from test_published_page import GROUP, of_run

from kdyno.labs.published.answering import Row, summary
from kdyno.labs.published.evidence import Evidence
from kdyno.labs.published.files import load
from kdyno.labs.published.page import carried, claims, page
from kdyno.store.verdict import Verdict


@pytest.mark.parametrize(
    ("words", "expected", "says"),
    [
        (("faster", "faster", "inconclusive"), "faster", "carried today"),
        (("slower", "equivalent"), "faster", "not carried"),
        (("faster", "slower"), "faster", "differs"),
        (("faster ≈", "equivalent"), "equivalent", "carried today"),
        (("inconclusive",), "faster", "undecided"),
        (("faster",), "", ""),
        (("",), "faster", ""),
    ],
)
def test_a_claim_has_one_short_answer(words: tuple[str, ...], expected: str, says: str) -> None:
    rows = [
        Row("a", "x", "u", "", 1.1, verdict=it.removesuffix(" ≈"), equivalent_too=it.endswith("≈"))
        for it in words
    ]
    control = Row("dhry2reg (control)", "x", "u", "", 1.0, verdict="equivalent")
    assert carried(expected, [*rows, control] if says else rows) == says


def test_a_run_of_another_question_is_no_answer() -> None:
    """XBench's kernels of today differ in other things than the articles' did."""
    xbench = Verdict(experiment="xbench", baseline="speed", boots={}, groups=(GROUP,))
    article = load("snow-leopard-xbench-macbook-2.53")
    found = {it.check.text: it for it in claims(article, Evidence({"xbench": (of_run(xbench),)}))}
    claim = found["XBench as a whole: 122.67 to 127.31"]
    assert claim.rows and claim.today == "not asked"
    text = page([article], Evidence({"xbench": (of_run(xbench),)}))
    assert text.index("no answer to it:** one kernel for size") < text.index("| cpu | size")


def test_a_summary_counts_verdicts_and_says_how_far_figures_go() -> None:
    rows = [
        Row("a", "x", "u", "", 1.1, verdict="faster"),
        Row("b", "x", "u", "", 0.98, verdict="inconclusive"),
        Row("c", "x", "u", "", 1.02, verdict="faster"),
    ]
    assert summary(rows) == "2 faster, 1 undecided (2.00 % worse to 10.0 % better)"
    times = [Row("a", "x", "s, less is better", "", 2.28), Row("b", "x", "KB/s", "", 1.02)]
    assert summary(times) == "128 % worse to 2.00 % better"
    assert summary([Row("loops", "avx2", "places", "63")]) == "loops: 63 places"
