# SPDX-License-Identifier: MIT
"""The published tables: read, checked against their own articles, put beside today; the page of all
claims: asked, answered from runs, plotted, kept, and kept up to date."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from command_line import Kdyno, by_sums, effect as shared_effect, verdict as judged
from held import held
from synthetic_run import Shape, case
from test_factorial_table import factor_table, planted
from test_memcpy_bench import bench_of as made_bench
from test_profiles_shown import profile, profiled
from test_report_gate import crossed, level

from benchmarks import kept as keeping, simd_candidates
from kdyno.errors import UsageError
from kdyno.labs.memcpy.results import to_json as bench_to_json
from kdyno.labs.published import article as articles
from kdyno.labs.published.answers import Evidence, Form, OfRun, Row, Source, answer, collect, kept
from kdyno.labs.published.article import Ask, Check, beside, check, load, load_file, names
from kdyno.labs.published.page import as_json, carried, claims, page, pictures, summary
from kdyno.paths import data_root
from kdyno.report.show.terminal import text as shown_text
from kdyno.store.run import Run
from kdyno.store.verdict import Effect, GroupEffect, Verdict
from kdyno.suites.catalogue import load as load_catalogue

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
        lines, tables = list(articles.parts(article)), article.all_tables.values()
        assert article.title and "the article's claims against its own figures" in lines
        assert articles.as_json(article)["claims"]
        assert lines.count(articles.NO_SPREAD) == sum(len(table.cells) > 1 for table in tables)


def test_a_name_may_be_cut_and_a_wrong_one_is_refused() -> None:
    assert load("published:snow").name == "snow-leopard-xbench-macbook-2.53"
    with pytest.raises(UsageError, match=r"Did you mean published:freebsd-5\.1-schedulers\?"):
        load("freebsd-5.1-scheduler-s")
    with pytest.raises(UsageError, match="no such article"):
        load("published:")


def test_claims_against_their_own_figures() -> None:
    """The word for each of them is in docs/research/published.md, which another test compares."""
    ratio = load("snow").tables["scores"].ratio(("64-bit kernel",), "memory.system.allocate")
    assert ratio == pytest.approx(618.01 / 369.54)
    article = load("core2duo")
    read = next(check(article, claim) for claim in article.checks if claim.figure == "read")
    assert read.figures == (("read", pytest.approx(2890.76 / 2349.92)),)
    article = load("athlon64x2")
    barely = "user time barely moves with -j (1.5-2 % from 1 to 8 jobs)"
    user = next(check(article, claim) for claim in article.checks if claim.text.startswith(barely))
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


def effect(case: str, ratio: float, **more: Any) -> Effect:
    return shared_effect(case, "faster", ratio, **{"unit": "s", "better": "lower", **more})


def test_todays_effects_stand_beside_the_published_ones() -> None:
    more: dict[str, Any] = {"suite": "xbench", "variant": "64-bit", "better": "higher"}
    today = [
        effect(case, ratio, ci=(ratio - 0.1, ratio + 0.1), **more)
        for case, ratio in (("cpu.gcd", 1.2), ("thread.computation", 1.25), ("none", 2.0))
    ]
    verdict = judged(*today)
    article = load("snow")
    pairs = {(each.table, each.today.case): each.published for each in beside(article, verdict)}
    assert pairs[("scores", "cpu.gcd")] == pytest.approx(285.50 / 295.89)
    assert pairs[("values", "thread.computation")] == pytest.approx(10.13 / 8.03)
    assert ("scores", "none") not in pairs
    lines = shown_text(articles.beside_parts(article, verdict)).splitlines()
    assert any("thread.computation: 64-bit" in line and "lies in it" in line for line in lines)
    assert lines[-1].startswith(articles.NO_SPREAD)
    # Of counted instructions less is better, of scores more: neither lies in the other's interval.
    counted = judged(*(each.model_copy(update={"better": "lower"}) for each in today))
    lines_of_counts = shown_text(articles.beside_parts(article, counted))
    assert "faster, of which less is better" in lines_of_counts and "lies in" not in lines_of_counts
    assert articles.as_json(article, counted)["today"][0]["opposite"] is True
    first = articles.as_json(article, verdict)["today"][0]
    assert first["published_ratio"] == pytest.approx(285.50 / 295.89)
    other = judged(effect("pipe", 1.0))
    lines = shown_text(articles.beside_parts(load("simd"), other)).splitlines()
    assert lines[1] == "no case of this run measures what the article did"


def test_effects_of_factors_stand_beside_the_cross() -> None:
    table = factor_table(*planted())
    renamed = tuple(row.model_copy(update={"suite": "kernel-compile"}) for row in table.effects)
    factors = table.model_copy(update={"effects": renamed})
    pairs = beside(load("athlon"), judged(factors=factors))
    published = {pair.what: pair.published for pair in pairs}
    at_two = published["generic_no_modules: smp on at jobs 2 (whole)"]
    assert at_two == pytest.approx(((95.29 / 182.25) * (95.23 / 183.81)) ** 0.5)
    # preempt is not a factor of the article, so nothing at its levels is compared.
    assert not [what for what in published if "preempt" in what]


ROOT = Path(__file__).parent.parent
GOLDEN = Path(__file__).parent / "golden"
SMALL = """\
title = "A small article"
system = "a machine"
[table.x]
factors = { kernel = ["old", "new"] }
better = "higher"
samples = 1
units = { pipe = "1/s" }
figures = { pipe = [100.0, 110.0], disk = [10.0, 9.0] }
[[check]]
text = "pipes gain 10 %"
figure = "pipe"
min = 1.09
max = 1.11
question = "Do pipes gain?"
carries = "The direction."
[[check.today]]
run = "small"
suite = "unixbench"
case = "case-*"
variant = "mine"
[[check.today]]
run = "no-such-run"
suite = "unixbench"
case = "*"
[[check]]
text = "memcpy gains [a third]"
figure = "disk"
min = 1.0
question = "Does memcpy take less time?"
carries = "Nothing."
[[check.today]]
what = "profile"
run = "small"
function = "memcpy"
[[check.today]]
what = "share"
run = "small"
function = "memcpy"
[[check]]
text = "copies of some sizes are frequent"
question = "Which sizes?"
carries = "The sizes."
[[check.today]]
what = "copies"
bytes = [64, 64]
[[check]]
text = "it feels faster"
unasked = "Nobody can measure that."
"""
SHAPE = Shape(
    cases=(case(0), case(2), case(1, case="whetstone-double", unit="MWIPS", control=True)),
    variants={"mine": 1.04, "other": 1.0},
    blocks=12,
    question="Is it faster?",
    experiment="small",
)


@pytest.mark.slow
def test_the_page_of_a_small_article_and_of_what_is_kept_of_its_run(tmp_path: Path) -> None:
    file = tmp_path / "small.toml"
    file.write_text(SMALL)
    run = profiled(tmp_path / "runs", profile("stock"), profile("mine", 0.7), shape=SHAPE)
    text = page([load_file(file)], collect([run.path]))
    held(GOLDEN / "published.md", text)
    # What is kept makes the same page, and does not say whose machine it was.
    small = keeping.keep_run(run, tmp_path / "kept")
    assert {path.name for path in small.iterdir()} == {"manifest.json", "profile", "verdict.json"}
    assert page([load_file(file)], collect([small])) == text
    assert set(Run(small).manifest().host) <= set(keeping.HOST)
    assert keeping.keep_run(run, tmp_path / "kept") == small
    assert keeping.keep_run(run, tmp_path / "kept", "part").name == f"{small.name}-part"


@pytest.mark.slow
def test_docs_published_is_what_the_kept_runs_say() -> None:
    """It is made again by `kdyno lab published -o docs/research/published.md`."""
    articles, evidence = [load(name) for name in names()], collect(kept())
    links = {
        name: f"![{text}](pictures/published-{name}.svg)"
        for name, (_, text) in pictures(articles, evidence).items()
    }
    held(ROOT / "docs" / "research" / "published.md", page(articles, evidence, links))


def test_what_is_kept_names_no_place_of_the_machine() -> None:
    paths = [path for path in (data_root() / "published" / "runs").rglob("*") if path.is_file()]
    assert paths
    for path in paths:
        assert not re.search(r'"/(home|root|tmp|work)', path.read_text(encoding="utf-8")), path
        assert path.stat().st_size < 200_000, path


NEEDED = {
    "effect": {"run", "suite", "case"},
    "group": {"run", "suite", "case"},
    "factor": {"run", "suite", "case", "factor"},
    "profile": {"run", "function"},
    "share": {"run", "function"},
    "sizes": {"routine", "against"},
    "places": set(),
    "reasons": {"reason"},
    "copies": {"bytes"},
    "forms": {"job", "bytes"},
}
"""What is asked → what it cannot be asked without."""


@pytest.mark.parametrize("name", names())
def test_every_claim_is_asked_about_or_says_why_not(name: str) -> None:
    shipped = {path.stem for path in (ROOT / "experiments").glob("*.toml")}
    suites = {*load_catalogue(), "*"}
    for claim in load(name).checks:
        request = {bool(claim.question), bool(claim.carries), bool(claim.today)}
        assert request == {not claim.unasked}, claim.text
        # Figures of today come from runs, never from the words.
        assert not re.search(r"\d ?%", claim.carries), claim.text
        for ask in claim.today:
            assert not ask.run or ask.run in shipped, ask.run
            assert not ask.suite or ask.suite in suites, ask.suite
            assert ask.model_fields_set - {"what", "instead"} >= NEEDED[ask.what], claim.text


def of_run(verdict: Verdict, day: str = "2026-11-22") -> OfRun:
    return OfRun(Source(verdict.experiment, "a machine", day, "9 boots"), "stock", verdict, {})


def test_the_newest_run_that_has_a_figure_answers() -> None:
    new = of_run(judged(effect("a", 0.9)))
    old = of_run(judged(effect("a", 0.5), effect("b", 0.8)), "2026-11-01")
    evidence = Evidence({"e": (new, old)})
    ask = Ask(run="e", suite="unixbench", case="a")
    assert answer(ask, evidence).rows[0].ratio == 0.9
    result = answer(Ask(run="e", suite="unixbench", case="b"), evidence)
    assert result.source == old.source
    assert result.rows == (
        Row("b", "mine ÷ stock", "s, less is better", "−20.0 %", 0.8, (0.798, 0.802),
            False, "faster"),
    )  # fmt: skip


def test_an_answer_has_the_figures_that_its_verdict_rests_on() -> None:
    evidence = Evidence({"e": (of_run(judged(by_sums("a", "slower", 0.95))),)})
    (row,) = answer(Ask(run="e", suite="unixbench", case="a"), evidence).rows
    assert (row.text, row.ratio, row.ci, row.verdict) == ("−5.00 %", 0.95, (0.948, 0.952), "slower")


def test_factors_and_groups_answer_at_the_levels_that_are_asked_for() -> None:
    group = GroupEffect(
        suite="s", group="memory", variant="mine", ratio=1.01, ci=(1.0, 1.02), blocks=9,
        verdict="equivalent",
    )  # fmt: skip
    at_jobs = (level("slower", "conditional", suite="s", other="jobs", at=at) for at in "14")
    factors = crossed(level("slower", suite="s"), *at_jobs)
    evidence = Evidence({"e": (of_run(judged(groups=(group,), factors=factors)),)})
    given = {"run": "e", "suite": "s", "case": "*", "factor": "smp"}
    average = answer(Ask(what="factor", **given, other=""), evidence)
    assert [row.compared for row in average.rows] == ["smp on ÷ off"]
    split = answer(Ask(what="factor", **given, other="jobs"), evidence)
    assert [row.compared for row in split.rows] == [
        "smp on ÷ off at jobs 1", "smp on ÷ off at jobs 4",
    ]  # fmt: skip
    (row,) = answer(Ask(what="group", run="e", suite="s", case="mem*"), evidence).rows
    assert (row.what, row.text, row.verdict) == ("memory", "+1.00 %", "equivalent")


def test_what_is_missing_says_what_it_needs() -> None:
    asks = (
        Ask(run="hz", suite="s", case="c"), Ask(what="share", run="simd-ladder", function="f"),
        Ask(run="nowhere", suite="s", case="c"), Ask(what="sizes", routine="a", against="b"),
    )  # fmt: skip
    needs = {answer(ask, Evidence()).needs for ask in asks}
    assert needs == {
        "a run of `experiments/hz.toml`",
        "`kdyno profile experiments/simd-ladder.toml`",
        "an experiment `nowhere`, which kdyno does not have yet",
        "`kdyno lab memcpy bench --paper --json FILE`",
    }


def test_files_of_other_verbs_answer_too(tmp_path: Path) -> None:
    forms = [
        Form(candidate="crc32c", form="scalar, tables", bytes=64, ns=100.0),
        Form(candidate="crc32c", form="scalar, slow", bytes=64, ns=400.0),
        Form(candidate="crc32c", form="crc32 instruction", bytes=64, ns=20.0),
    ]
    side = {
        "flags": "avx2", "cflags": "-O3", "records": {"long": True},
        "vectorized": {"places": 63, "loops": 83},
        "missed": {"places": 100, "reasons": {"branches": 72, "pointers": 8}},
    }  # fmt: skip
    survey = {
        "schema": 1, "kind": "vectorization", "source": "s", "version": "7.3", "compiler": "gcc",
        "sides": [side],
    }  # fmt: skip
    bench = made_bench()
    slow = made_bench(
        created="2026-01-01T12:00:00+00:00", ns={**bench.ns, "wide": bench.ns["orig"]}
    )
    texts = {
        "an-older-bench": json.dumps(bench_to_json(slow)),
        "forms": simd_candidates.as_json(forms),
        "survey": json.dumps(survey),
        "bench": json.dumps(bench_to_json(bench)),
        "copies": json.dumps({
            "schema": 1, "kind": "copies", "source": "here", "cells": [
                {"size": 64, "dst": 0, "src": 0, "calls": 3},
                {"size": 192, "dst": 0, "src": 0, "calls": 1},
            ],
        }),
    }  # fmt: skip
    for name, text in texts.items():
        (tmp_path / f"{name}.json").write_text(text)
    small = keeping.keep_file(tmp_path / "survey.json", tmp_path / "kept")
    assert small.name == "vectorization.json" and "records" not in small.read_text()
    whole = collect(sorted(tmp_path.glob("*.json")))
    surveys = [each.files["vectorization"][0][1] for each in (collect([small]), whole)]
    assert surveys[0] == surveys[1]

    def rows_of(ask: Ask) -> list[tuple[str, str]]:
        return [(row.what, row.text) for row in answer(ask, whole).rows]

    assert rows_of(Ask(what="forms", job="crc*", bytes=[64])) == [("crc32c, 64 bytes", "−80.0 %")]
    assert rows_of(Ask(what="places")) == [("loops in vectors", "63")]
    assert rows_of(Ask(what="reasons", reason="*linked*")) == [
        ("the next address comes out of memory: linked, not flat data", "8 of 100 (8.00 %)")
    ]
    assert rows_of(Ask(what="copies", bytes=[64, 64])) == [
        ("copies of 64 bytes", "75.0 %"), ("copies of 64 bytes", "50.0 %"),
    ]  # fmt: skip
    ask = Ask(what="sizes", routine="wide", against="fsrm", bytes=[4096, 4096])
    (timed,) = answer(ask, whole).rows
    assert timed.what == "4096 bytes" and timed.ratio is not None and timed.ratio < 1
    assert len(whole.sources) == 5


def test_what_is_no_evidence_is_refused_by_name(tmp_path: Path) -> None:
    for text, each in (
        ("{", "neither a run's folder nor JSON"),
        ('{"kind": "cake"}', "\"kind\" is 'cake'"),
        ('{"kind": "simd-forms", "schema": 1}', "cpu: is missing"),
    ):
        (tmp_path / "x.json").write_text(text)
        with pytest.raises(UsageError, match=rf"(?s)x\.json.*{re.escape(each)}"):
            collect([tmp_path / "x.json"])


@pytest.mark.slow
def test_the_pictures_say_in_words_what_they_show() -> None:
    times = (
        effect("lib@1", 0.96, suite="kernel-compile"),
        by_sums("lib@2", "slower", 1.5, suite="kernel-compile"),
    )
    evidence = Evidence({"smp-preemption": (of_run(judged(*times)),)})
    result = pictures([load(name) for name in names()], evidence)
    assert set(result) == {"jobs"}, "no bench, no curve"
    svg, text = result["jobs"]
    assert svg.startswith("<svg") and "var(--" not in svg
    assert "down to 0.53 with smp ule and 4 jobs" in text
    assert "kernel-compile/lib, a machine: up to 1.50 with mine and 2 jobs" in text
    assert not pictures([], Evidence())


@pytest.mark.slow
def test_the_verb_prints_the_page_or_its_claims(kdyno: Kdyno, tmp_path: Path) -> None:
    output = kdyno("lab", "published")
    assert output.status == 0 and output.out.startswith("<!-- SPDX")
    articles = [load(name) for name in names()]
    expected = json.loads(json.dumps(as_json(articles, collect(kept()))))
    assert json.loads(kdyno("lab", "published", "--json", "-").out) == expected
    target = tmp_path / "page.md"
    assert kdyno("lab", "published", "-o", str(target)).status == 0
    for link in re.findall(r"\]\((pictures/[^)]+)\)", target.read_text()):
        assert (tmp_path / link).is_file()


def row(case: str, ratio: float, unit: str = "u", **more: Any) -> Row:
    return Row(case, "x", unit, "", ratio, **more)


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
        row("a", 1.1, verdict=word.removesuffix(" ≈"), equivalent_too=word.endswith("≈"))
        for word in words
    ]
    control = row("dhry2reg (control)", 1.0, verdict="equivalent")
    assert carried(expected, [*rows, control] if says else rows) == says


def test_a_run_of_another_question_is_no_answer() -> None:
    """Its kernels differ in other things than the article's did."""
    total = GroupEffect(
        suite="xbench", group="total", variant="size", ratio=0.99, ci=(0.98, 1.0), blocks=9,
        verdict="equivalent",
    )  # fmt: skip
    evidence = Evidence({"xbench": (of_run(judged(groups=(total,))),)})
    article, claimed = load("snow"), "XBench as a whole: 122.67 to 127.31"
    (own,) = (check for check in article.checks if check.text == claimed)
    changed = {"run": "xbench", "instead": "one kernel for size", "variant": "*"}
    request = own.model_copy(update={"today": [own.today[0].model_copy(update=changed)]})
    article = article.model_copy(update={"checks": [request]})
    (claim,) = claims(article, evidence)
    assert claim.by_source and claim.today == "not asked"
    text = page([article], evidence)
    assert text.index("no answer to it:** one kernel for size") < text.index("|  | size")


def test_a_summary_counts_verdicts_and_says_how_far_figures_go() -> None:
    rows = [
        row("a", 1.1, verdict="faster"),
        row("b", 0.98, verdict="inconclusive"),
        row("c", 1.02, verdict="faster"),
    ]
    assert summary(rows) == "2 faster, 1 undecided (2.00 % worse to 10.0 % better)"
    times = [row("a", 2.28, "s, less is better"), row("b", 1.02, "KB/s")]
    assert summary(times) == "128 % worse to 2.00 % better"
    assert summary([Row("loops", "avx2", "places", "63")]) == "loops: 63 places"
