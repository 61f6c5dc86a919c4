# SPDX-License-Identifier: MIT
"""Far more cases than anybody reads: pages show the first and say so, files for programs have all,
and the work grows no faster than their number."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any
from xml.etree import ElementTree

import pyarrow.parquet
import pytest
from command_line import EXPERIMENT, Kdyno, effect, experiment_file, stored, verdict
from site_runs import evidence_of, small

from kdyno.errors import UsageError
from kdyno.experiment.loader import parse
from kdyno.measure.vocabulary import vocabulary
from kdyno.report.charts.panels import picture
from kdyno.report.evidence import Evidence
from kdyno.report.exporters import exporters
from kdyno.report.page import page
from kdyno.report.site.build import build_site
from kdyno.report.terminal import show
from kdyno.store.manifest import CaseInfo
from kdyno.store.run import Run
from kdyno.store.verdict import CaseValue, Flag, Kinds, Verdict
from kdyno.suites.catalogue import load

MOST, NUMBER = 6, 9
TOLD = f"first {MOST} of {NUMBER} effects"
LAST = f"case-{NUMBER - 1:05d}"


def cases(number: int) -> list[CaseInfo]:
    names = (f"case-{at:05d}" for at in range(number))
    return [CaseInfo(suite="many", case=name, unit="loops/s", better="higher") for name in names]


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kdyno.report.groups.MOST_SHOWN", MOST)
    monkeypatch.setattr("kdyno.report.site.history.MOST_SHOWN", MOST)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return small(tmp_path / "runs", cases=cases(NUMBER), blocks=4)


@pytest.mark.slow
@pytest.mark.parametrize("words", [(), ("-f", "markdown"), ("-f", "html")], ids=str)
def test_people_see_the_first_and_are_told_so(
    kdyno: Kdyno, run: Run, words: tuple[str, ...]
) -> None:
    output = kdyno("report", run.name, *words)
    assert (output.status, output.err) == (0, "")
    assert TOLD in " ".join(output.out.split())
    assert "case-00005" in output.out and LAST not in output.out


def test_the_answer_and_the_gate_are_of_all(kdyno: Kdyno, tmp_path: Path) -> None:
    equal = [effect(f"case-{at}", "faster", 1.05) for at in range(MOST)]
    run = stored(tmp_path / "runs", verdict(*equal, effect("the-last", "slower", 0.5)))
    for words in ((), ("-f", "markdown"), ("-f", "csv")):
        assert kdyno("report", run.name, *words).out.count("the-last") == 1
    assert kdyno("report", run.name, "--fail-on", "slower").status == 10


def test_what_changed_is_of_all(few: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kdyno.report.exporters._MOST_UNFOLDED", 3)
    equal = [effect(f"case-{at}", "equivalent", 1.0) for at in range(MOST)]
    judged = verdict(*equal, effect("last", "slower", 0.5))
    content = str(exporters()["markdown"].export(Evidence(judged)))
    assert "Nothing" not in content and "| unixbench/last | mine | −50.0 % |" in content


@pytest.mark.slow
def test_a_page_draws_and_carries_no_more_than_it_shows(run: Run) -> None:
    evidence = evidence_of(run)
    for home in ("", "../index.html"):
        text = page(evidence, home=home)
        assert TOLD in text and LAST not in text
        assert text.count('class="panel"') == MOST
    cut = evidence.cut()
    assert [case.case for case in cut.cases] == [f"case-{at:05d}" for at in range(MOST)]
    assert len(cut.points) == 2 * MOST
    assert evidence.cut() is not evidence and cut.cut() is not evidence
    whole = evidence_of(small(run.path.parent, 1, cases=cases(2), blocks=2))
    assert whole.cut() is whole


@pytest.mark.parametrize("format", ["csv", "json", "junit", "benchstat", "parquet"])
def test_a_program_gets_all(kdyno: Kdyno, run: Run, tmp_path: Path, format: str) -> None:
    if format == "parquet":
        assert kdyno("report", run.name, "-o", tmp_path / "x.parquet").status == 0
        column = pyarrow.parquet.read_table(tmp_path / "x.parquet")["case"].to_pylist()
        assert len(set(column)) == NUMBER
        return
    output = kdyno("report", run.name, "-f", format)
    assert output.status == 0
    assert all(f"{at:05d}" in output.out for at in range(NUMBER))
    if format == "junit":
        suites = ElementTree.parse(io.StringIO(output.out)).getroot()
        assert len(list(suites.iter("testcase"))) == NUMBER
    elif format == "json":
        assert len(json.loads(output.out)["effects"]) == NUMBER


def test_a_comparison_is_shown_like_a_run(kdyno: Kdyno, run: Run) -> None:
    other = small(run.path.parent, 1, cases=cases(NUMBER), blocks=4)
    output = kdyno("compare", run.name, other.name)
    assert output.status == 0 and TOLD in " ".join(output.out.split())
    assert LAST not in output.out
    output = kdyno("compare", run.name, other.name, "-f", "csv")
    assert output.out.count(LAST) == 1


def test_figures_that_compare_nothing(kdyno: Kdyno, tmp_path: Path) -> None:
    given = {"unit": "loops/s", "better": "higher", "value": 1.0, "repetitions": 9}
    values = [CaseValue(suite="many", case=case.case, **given) for case in cases(NUMBER)]
    run = stored(tmp_path / "runs", verdict(values=values, boots={"stock": 1}))
    for words in ((), ("-f", "markdown"), ("-f", "html")):
        output = kdyno("report", run.name, *words)
        assert output.status == 0 and TOLD in " ".join(output.out.split()), words
        assert LAST not in output.out


@pytest.mark.slow
def test_a_site_shows_the_first_series_and_those_that_changed(run: Run, tmp_path: Path) -> None:
    runs = run.path.parent
    for day in range(1, 3):
        small(runs, day, cases=cases(NUMBER), blocks=4)
    # An experiment that is not too large stays whole beside it.
    small(runs, 9, cases=cases(1), blocks=4, experiment="other")
    built = build_site(runs, tmp_path / "site")
    assert set(built.pages) >= {"index.html", "history.html"}
    number = 3 * NUMBER  # the scores of two variants and their effect
    message = f"These are {MOST} of {number} series"
    history = (tmp_path / "site" / "history" / "nightly.html").read_text()
    assert message in history and history.count('class="panel"') == MOST
    assert len(json.loads(history.split('id="site-data">')[1].split("<")[0])["series"]) == MOST
    overview = (tmp_path / "site" / "history.html").read_text()
    assert f"These are {MOST + 3} of {number + 3} series" in overview
    assert f"{number + 3} series, 0 changes" in overview
    # Every row leads to a chart that is there.
    rows = [part.split('"')[0] for part in overview.split('href="history/')[1:]]
    assert len(rows) == MOST + 3
    for row in rows:
        name, _, id_ = row.partition("#")
        assert f'id="{id_}"' in (tmp_path / "site" / "history" / name).read_text()
    other = (tmp_path / "site" / "history" / "other.html").read_text()
    assert "These are" not in other


@pytest.mark.slow
def test_of_very_many_variants_the_first_have_charts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kdyno.report.groups.MOST_CHARTS", 2)
    text = page(Evidence(scattered(4)))
    assert text.count('<figure class="effects">') == 2
    assert "Charts of the first 2 of 4 variants." in text
    drawing = str(picture(scattered(4), "svg"))
    assert drawing.count("÷ stock<") == 2
    assert "Charts of the first 2 of 4 variants." in drawing
    assert "Charts of the first" not in page(Evidence(scattered(2)))


def test_a_row_has_the_flags_about_it_and_about_all() -> None:
    flags = (
        Flag(kind="steal", text="", variant="mine"),
        Flag(kind="machine", text=""),
        Flag(kind="drift", text="", variant="mine", suite="s", case="c"),
        Flag(kind="machine", text="again", case="c"),
        Flag(kind="other", text="", variant="other"),
    )
    kinds = Kinds(flags)
    assert kinds.about("mine", "s", "c") == ("steal", "machine", "drift")
    assert kinds.about("mine", "s", "d") == ("steal", "machine")
    assert kinds.about("stock") == ("machine",)
    assert Kinds(Flag(kind=f"k{at}", text="") for at in range(1000)).about("x")[:2] == ("k0", "k1")
    assert len(Kinds(Flag(kind=f"k{at}", text="") for at in range(1000)).about("x")) == 100


def lines_run(work: Callable[[], object]) -> int:
    """Lines of kdyno's own code that are run by it; a loop's line counts each time."""
    count = 0
    kdyno_ = str(Path(exporters.__code__.co_filename).parents[1])

    def inside(_frame: FrameType, event: str, _arg: Any) -> Any:
        nonlocal count
        count += event == "line"
        return inside

    def called(frame: FrameType, _event: str, _arg: Any) -> Any:
        return inside if frame.f_code.co_filename.startswith(kdyno_) else None

    before = sys.gettrace()
    sys.settrace(called)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def scattered(number: int) -> Verdict:
    """As many variants as cases, each with one of its own, all flagged; as many that failed."""
    names = [f"v{at:05d}" for at in range(number)]
    return verdict(
        *(effect(f"case-{name}", "faster", 1.05, variant=name) for name in names),
        boots={"stock": 3} | dict.fromkeys(names, 3),
        failed={f"failed-{name}": "did not boot" for name in names},
        flags=tuple(Flag(kind="drift", text=name, variant=name) for name in names),
    )


def many(number: int) -> Verdict:
    words = (("faster", 1.05), ("slower", 0.95), ("equivalent", 1.0), ("inconclusive", 1.0))
    return verdict(*(effect(f"case-{at:05d}", *words[at % 4]) for at in range(number)))


PICTURES = ("png", "svg", "folded")
"""Of the same drawings as the page, or of no effects at all."""
FORMATS: dict[str, Callable[[Evidence], object]] = {
    "table": lambda evidence: show(evidence.verdict, io.StringIO()),
    **{name: exporter.export for name, exporter in exporters().items() if name not in PICTURES},
}


@pytest.mark.slow
@pytest.mark.parametrize("verdict_of", [many, scattered])
@pytest.mark.parametrize("format", FORMATS)
def test_the_work_grows_with_the_number_of_effects(
    format: str, verdict_of: Callable[[int], Verdict], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kdyno.report.groups.MOST_CHARTS", 1)
    work = FORMATS[format]
    work(Evidence(verdict_of(MOST + 1)))  # what is done once only is done
    results = [Evidence(verdict_of(number)) for number in (100, 200, 300)]
    counts = [lines_run(lambda each=each: work(each)) for each in results]  # type: ignore[misc]
    # One line for each pair of effects would make this 20,000.
    bend = counts[2] - 2 * counts[1] + counts[0]
    assert abs(bend) < 1000, counts


@pytest.mark.slow
def test_an_experiment_of_very_many_mistakes_is_not_read_to_its_end(
    kdyno: Kdyno, tmp_path: Path
) -> None:
    for entries in ('"k{}"', '"CONFIG_K{}=y,"'):
        listed = ", ".join(entries.format(number) for number in range(1500))
        text = EXPERIMENT.replace("[kernel]", f"[kernel]\nconfig = [{listed}]")
        output = kdyno("check", experiment_file(tmp_path, text))
        assert output.status == 2 and "tiny.toml: at least 1000 mistakes" in output.err


@pytest.mark.slow
@pytest.mark.parametrize("key", ["kernel", "absent"])
def test_reading_grows_with_the_number_of_lines(kdyno: Kdyno, tmp_path: Path, key: str) -> None:
    """Of a configuration, and of keys that are unknown."""

    def text_of(number: int) -> str:
        if key == "absent":
            return "".join(f"k{at} = 1\n" for at in range(number)) + EXPERIMENT
        listed = ", ".join(f'"CONFIG_K{at}=y"' for at in range(number))
        return EXPERIMENT.replace("[kernel]", f"[kernel]\nconfig = [{listed}]")

    def work(number: int) -> None:
        with suppress(UsageError):
            parse(text_of(number), "tiny.toml", tmp_path, vocabulary(load()))

    work(3)
    counts = [lines_run(lambda number=number: work(number)) for number in (100, 200, 300)]  # type: ignore[misc]
    bend = counts[2] - 2 * counts[1] + counts[0]
    assert abs(bend) < 1000, counts
