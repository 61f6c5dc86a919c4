# SPDX-License-Identifier: MIT
"""The published tables: read, checked against their own articles, and put beside today."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_factorial_table import factor_table, planted

from kdyno.errors import UsageError
from kdyno.labs.published.article import (
    NO_SPREAD,
    Check,
    as_json,
    beside,
    beside_parts,
    check,
    load,
    load_file,
    names,
    parts,
)
from kdyno.report.show.terminal import text as shown_text
from kdyno.store.verdict import Effect, Verdict

TABLE = """\
title = "t"
[table.x]
factors = { kernel = ["a", "b"] }
figures = { f = [1.0, 1.1] }
"""


def test_all_five_load_and_without_a_spread_there_is_no_verdict() -> None:
    assert len(names()) == 5
    for name in names():
        article = load(name)
        lines, tables = list(parts(article)), article.all_tables.values()
        assert article.title and "the article's claims against its own figures" in lines
        assert as_json(article)["claims"]
        assert lines.count(NO_SPREAD) == sum(len(table.cells) > 1 for table in tables)


def test_a_name_may_be_cut_and_a_wrong_one_is_refused() -> None:
    assert load("published:snow").name == "snow-leopard-xbench-macbook-2.53"
    with pytest.raises(UsageError, match=r"Did you mean published:freebsd-5\.1-schedulers\?"):
        load("freebsd-5.1-scheduler-s")
    with pytest.raises(UsageError, match="no such article"):
        load("published:")


def words(name: str) -> dict[str, str]:
    return {claim.text: check(load(name), claim).word for claim in load(name).checks}


def test_claims_against_their_own_figures() -> None:
    """Those of all claims are in docs/research/published.md, which another test compares."""
    assert set(words("core2duo").values()) == {"holds"}
    assert words("freebsd")["4BSD is 5-20 % ahead on most items"] == "not settled"
    assert words("simd")["the printed percentages are seconds ÷ total"] == "does not hold"
    ratio = load("snow").tables["scores"].ratio(("64-bit kernel",), "memory.system.allocate")
    assert ratio == pytest.approx(618.01 / 369.54)
    article = load("core2duo")
    read = next(check(article, claim) for claim in article.checks if claim.figure == "read")
    assert read.figures == (("read", pytest.approx(2890.76 / 2349.92)),)
    claims = {claim.text.split(":")[0]: claim for claim in load("athlon64x2").checks}
    user = check(
        load("athlon64x2"), claims["user time barely moves with -j (1.5-2 % from 1 to 8 jobs)"]
    )
    assert (user.word, user.inside, len(user.figures)) == ("does not hold", 3, 8)
    figure = dict(user.figures)["generic_with_modules smp ule 8 user_s"]
    assert figure == pytest.approx(538.695 / 533.717)
    # What a note says: nine of ten printed percentages fit the other table's total.
    article = load("simd")
    assert article.tables["vectorized"].figures["sum"] == [sum(article.loops.values())]
    table = article.tables["profile"]
    fits = [
        abs(100 * table.figures[name][at] / table.figures["total"][1 - at] - percent) < 0.0125
        for name, percents in table.percent.items()
        for at, percent in enumerate(percents)
    ]
    assert sum(fits) == 9
    for figures in ({}, {"table": "bytebench", "figure": "nothing-there", "min": 1.0}):
        claim = Check.model_validate({"text": "it feels faster", **figures})
        assert check(load("freebsd"), claim).word == "not checked"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("title = ", "cannot be read"),
        ('title = "t"\n', "table: is missing"),
        (TABLE.replace("title", "tittle"), "tittle: unknown key. Did you mean"),
        (f'{TABLE}[[check]]\ntext = "t"\nfigure = "f"\nmn = 1\n', "mn"),
        (f'{TABLE}[[check]]\ntext = ""\ntable = "y"\nfigure = ""', "'y'"),
        (TABLE.replace("1.1]", "1.1, 2]"), "3 numbers for the 2 cells"),
    ],
)
def test_files_that_are_no_articles(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "bad.toml"
    file.write_text(text)
    with pytest.raises(UsageError, match=rf"(?s)bad\.toml.*{message}"):
        load_file(file)


def effect(case: str, ratio: float) -> Effect:
    return Effect(
        suite="xbench", case=case, variant="64-bit", unit="Mops/s", better="higher",
        baseline_value=1.0, value=ratio, ratio=ratio, ci=(ratio - 0.1, ratio + 0.1), blocks=9,
        verdict="faster",
    )  # fmt: skip


def test_todays_effects_stand_beside_the_published_ones() -> None:
    verdict = Verdict(
        experiment="kernel-32-64", baseline="32-bit", boots={},
        effects=(effect("cpu.gcd", 1.2), effect("thread.computation", 1.25), effect("none", 2.0)),
    )  # fmt: skip
    article = load("snow")
    pairs = {(each.table, each.today.case): each.published for each in beside(article, verdict)}
    assert pairs[("scores", "cpu.gcd")] == pytest.approx(285.50 / 295.89)
    assert pairs[("values", "thread.computation")] == pytest.approx(10.13 / 8.03)
    assert ("scores", "none") not in pairs
    lines = shown_text(beside_parts(article, verdict)).splitlines()
    assert any("thread.computation: 64-bit" in line and "lies in it" in line for line in lines)
    assert lines[-1].startswith(NO_SPREAD)
    assert as_json(article, verdict)["today"][0]["published_ratio"] == pytest.approx(
        285.50 / 295.89
    )
    other = Verdict(experiment="x", baseline="b", boots={}, effects=(effect("pipe", 1.0),))
    lines = shown_text(beside_parts(load("simd"), other)).splitlines()
    assert lines[1] == "no case of this run measures what the article did"


def test_effects_of_factors_stand_beside_the_cross() -> None:
    table = factor_table(*planted())
    assert table is not None
    renamed = tuple(row.model_copy(update={"suite": "kernel-compile"}) for row in table.effects)
    factors = table.model_copy(update={"effects": renamed})
    verdict = Verdict(experiment="x", baseline="b", boots={}, factors=factors)
    published = {each.what: each.published for each in beside(load("athlon"), verdict)}
    at_two = published["generic_no_modules: smp on at jobs 2 (whole)"]
    assert at_two == pytest.approx(((95.29 / 182.25) * (95.23 / 183.81)) ** 0.5)
    # preempt is not a factor of the article, so nothing at its levels is compared.
    assert not [what for what in published if "preempt" in what]
