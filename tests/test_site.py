# SPDX-License-Identifier: MIT
"""The site of all runs: whole, safe, honest about what is broken, built only where needed; kdyno
serve: these pages and nothing else, whatever is asked for."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
from contextlib import ExitStack
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from command_line import FASTER, Kdyno, stored, verdict
from serving import Asked, ask, server, site
from site_runs import small, weeks
from synthetic_run import HOSTILE, Shape, case, make
from test_docs_examples import examples
from test_html import Page

from kdyno.errors import ToolError, UsageError
from kdyno.report import page as report_page
from kdyno.report.site import build
from kdyno.report.site.build import Built, build_site
from kdyno.report.site.history import series_of
from kdyno.report.site.server import SiteServer, is_loopback, watch
from kdyno.report.site.summary import page_name, summarize
from kdyno.stats import changepoints
from kdyno.store.run import create_run


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(build, "_POOL_FROM", 100)
    (tmp_path / "runs").mkdir()
    return tmp_path / "runs"


def checked(site: Path) -> dict[str, Page]:
    """Every page: well formed, asking for nothing, its links leading to pages that are there."""
    pages = {}
    for path in site.rglob("*.html"):
        text = path.read_text("utf-8")
        page = Page(text)
        pages[str(path.relative_to(site))] = page
        for link in page.all("a"):
            target, _, part = (link["href"] or "").partition("#")
            assert re.fullmatch(r"(\.\./)?((runs|history)/)?[\w.-]*", target), target
            goal = (path.parent / unquote(target)) if target else path
            assert goal.is_file(), f"{path.name}: {target}"
            if part:
                assert f'id="{part}"' in goal.read_text("utf-8")
        assert not {"img", "link", "iframe", "base"} & {name for name, _ in page.elements}
        assert not [element for _, element in page.elements if any(k[:2] == "on" for k in element)]
        assert [element for element in page.all("script") if "src" in element] == []
        policy = page.all("meta", **{"http-equiv": "Content-Security-Policy"})
        assert (policy[0]["content"] or "").startswith("default-src 'none'")
    return pages


def rows(site: Path) -> list[str]:
    text = (site / "index.html").read_text("utf-8")
    return re.findall(r"<tr.*?</tr>", text.split("<tbody>")[1], re.S)


def row_of(site: Path, name: str) -> str:
    (row,) = [row for row in rows(site) if name in row]
    return row


@pytest.mark.slow
def test_pages_of_a_few_runs(runs: Path, tmp_path: Path) -> None:
    first, second = small(runs, 0), small(runs, 1, 1.1, experiment="other")
    built = build_site(runs, tmp_path / "site")
    assert (built.runs, built.rendered, built.kept) == (2, 2, 0)
    pages = checked(tmp_path / "site")
    assert set(pages) == {
        *("index.html", "history.html"),
        *(f"runs/{run.name}.html" for run in (first, second)),
        *("history/nightly.html", "history/other.html"),
    }
    # A light page says what it lacks.
    light = f"runs/{first.name}.html"
    assert "verdicts" in pages[light].section_ids and "effects" not in pages[light].section_ids
    command = f"kdyno report {first.name} -o report.html"
    assert command in (tmp_path / "site" / light).read_text()
    newest, oldest = rows(tmp_path / "site")
    assert second.name in newest and first.name in oldest
    assert "Is it faster?" in newest and "mine is faster than stock in pipe" in newest
    assert "stock</bdi> 7.3.0" in newest and "uml on A CPU, 2 CPUs, 16 GiB" in newest


def test_no_runs_at_all(runs: Path, tmp_path: Path) -> None:
    build_site(runs, tmp_path / "site")
    assert "There is no run yet" in (tmp_path / "site" / "index.html").read_text()
    assert set(checked(tmp_path / "site")) == {"index.html", "history.html"}


@pytest.mark.slow
def test_runs_of_every_state_are_listed_with_the_reason(runs: Path, tmp_path: Path) -> None:
    good, site = small(runs), tmp_path / "site"
    broken, later, odd, lost = (small(runs, day) for day in (1, 2, 3, 4))
    (broken.path / "manifest.json").write_text("{")
    data = json.loads((later.path / "manifest.json").read_text())
    (later.path / "manifest.json").write_text(json.dumps(data | {"schema": 0}))
    (odd.path / "verdict.json").write_text('{"schema": 7}')
    (lost.path / "boots" / "0003-mine" / "samples.jsonl").write_text("{")
    stopped = stored(runs, None, state="interrupted")
    failed = stored(runs, verdict(failed={"stock": "it did not boot"}), state="failed")
    (runs / "2026-01-05T0800-empty-0000").mkdir()
    (runs / "2026-01-05T0800-link-0000").symlink_to(good.path)
    (runs / "not a run").mkdir()
    with create_run(runs, "", good.manifest().model_copy(update={"state": "running"})) as writer:
        build_site(runs, site)
    pages = checked(site)
    assert len(rows(site)) == 9
    for run, state, reason in (
        (broken.name, "damaged", "manifest.json: damaged"),
        (later.name, "schema 0", "written in schema 0, this kdyno reads 1"),
        (odd.name, "damaged", "is not a verdict"),
        (stopped.name, "interrupted", "interrupted: terminated"),
        ("2026-01-05T0800-empty-0000", "empty", "there is no manifest.json"),
        (writer.run.name, "running", ""),
    ):
        row = row_of(site, run)
        assert f">{state}</span>" in row and reason in row
        assert f"runs/{run}.html" not in row and f"runs/{run}.html" not in pages
    assert "1 of its boots are damaged" in row_of(site, lost.name)
    assert "the baseline stock failed (it did not boot)" in row_of(site, failed.name)
    for name in (good.name, lost.name, failed.name):
        assert f"runs/{name}.html" in row_of(site, name) and f"runs/{name}.html" in pages


@pytest.mark.slow
def test_only_what_changed_is_made_again(runs: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    kept = [small(runs, day) for day in range(3)]
    other = small(runs, 3, experiment="other")
    build_site(runs, site)

    def times() -> dict[str, int]:
        return {str(p.relative_to(site)): p.stat().st_ino for p in site.rglob("*.html")}

    before = times()
    again = build_site(runs, site)
    assert again == Built(4, 0, 4, 0, (), again.edition) and times() == before
    new = small(runs, 4)
    third = build_site(runs, site)
    assert (third.rendered, third.kept, third.removed) == (1, 4, 0)
    assert set(third.pages) == {"index.html", "history.html", "history/nightly.html"}
    assert third.edition != again.edition
    after = times()
    same = {*(f"runs/{run.name}.html" for run in [*kept, other]), "history/other.html"}
    assert {name for name in before if after[name] == before[name]} == same
    (new.path / "verdict.json").write_text("{}")
    (site / "runs" / f"{other.name}.html").unlink()
    fourth = build_site(runs, site)
    assert fourth.rendered == 2 and not (site / "runs" / f"{new.name}.html").exists()
    kept[0].path.rename(tmp_path / "away")
    assert build_site(runs, site).removed == 1
    assert not (site / "runs" / f"{kept[0].name}.html").exists()
    checked(site)


@pytest.mark.slow
def test_a_run_whose_writer_is_gone_is_looked_at_again(runs: Path, tmp_path: Path) -> None:
    manifest = small(runs).manifest().model_copy(update={"state": "running"})
    with create_run(runs, "", manifest) as writer:
        before = build_site(runs, tmp_path / "site")
        assert any(">running</span>" in row for row in rows(tmp_path / "site"))
    assert build_site(runs, tmp_path / "site").edition != before.edition
    assert ">interrupted</span>" in row_of(tmp_path / "site", writer.run.name)


@pytest.mark.slow
def test_pages_by_several_processes(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "_POOL_FROM", 12)
    template = small(runs)
    for number in range(13):
        copy = runs / f"2026-02-01T0800-copy-{number:04d}"
        shutil.copytree(template.path, copy, copy_function=os.link)
    seen: list[tuple[int, int]] = []
    built = build_site(runs, tmp_path / "site", progress=lambda *counts: seen.append(counts))
    assert built.rendered == 14 and seen == [(done, 14) for done in range(1, 15)]
    assert len(list((tmp_path / "site" / "runs").glob("*.html"))) == 14


@pytest.mark.slow
@pytest.mark.skipif(not changepoints.available(), reason="no ruptures: pip install ruptures")
def test_history_marks_the_change_and_the_kernels_on_its_sides(runs: Path, tmp_path: Path) -> None:
    weekly = weeks(runs, [1.0] * 9 + [0.9] * 7)
    build_site(runs, tmp_path / "site")
    pages = checked(tmp_path / "site")
    series = series_of([summarize(run)[0] for run in weekly])
    about = [
        (line.score.case, line.score.variant, line.measure, len(line.marks)) for line in series
    ]
    assert about == [
        (case, variant, measure, 16)
        for case in ("pipe", "read")
        for variant, measure in (("stock", "score"), ("mine", "score"), ("mine", "effect"))
    ]
    for one in series:
        if one.measure == "effect":
            assert one.changes == ()
            continue
        (change,) = one.changes
        assert change.at.run.name == weekly[9].name and change.before.run.name == weekly[8].name
        assert change.ratio == pytest.approx(0.9, rel=0.01)
        assert change.word == ("slower" if one.score.case == "pipe" else "faster")
        assert (change.before.kernel.version, change.at.kernel.version) == ("7.0.0", "7.9.0")
    page = pages["history/nightly.html"]
    dots = [element["d"] or "" for element in page.all("path", **{"class": "dots variant"})]
    assert [dot.count("M") for dot in dots] == [16] * 6
    for mark, number in (("change", 4), ("kernel", 6)):
        lines = [element["d"] or "" for element in page.all("path", **{"class": mark})]
        assert [line.count("M") for line in lines] == [1] * number
    text = (tmp_path / "site" / "history" / "nightly.html").read_text()
    assert text.count("7.0.0 → 7.9.0") == 4 and "PELT" in text
    command = f"kdyno compare {weekly[8].name} {weekly[9].name}"
    assert text.count(f"<code>{command}</code>") == text.count(f"{command} --variant mine") == 2
    assert [len(each["points"]) for each in site_data_of(text)["series"]] == [16] * 6


def site_data_of(text: str) -> Any:
    return json.loads(re.findall(r'id="site-data">(.*?)</script>', text)[0])


@pytest.mark.slow
def test_other_machines_and_other_work_are_series_of_their_own(runs: Path) -> None:
    expected = [
        summarize(each)[0]
        for each in (small(runs), small(runs, 1, cpu="Another"), small(runs, 2, work="size 1"))
    ]
    counts = [len(each.marks) for each in series_of(expected) if each.score.variant == "stock"]
    assert counts == [1] * 6


@pytest.mark.slow
def test_effects_against_another_baseline_are_a_series_of_their_own(runs: Path) -> None:
    every = (small(runs), small(runs, 1), small(runs, 2, baseline="mine"))
    series = series_of([summarize(run)[0] for run in every])
    about = [(own.score.variant, own.measure, len(own.marks)) for own in series]
    assert about[: len(about) // 2] == [
        *(("stock", "score", 3), ("stock", "effect", 1)),
        *(("mine", "score", 3), ("mine", "effect", 2)),
    ]


@pytest.mark.slow
def test_hostile_names_and_contents_stay_text(runs: Path, tmp_path: Path) -> None:
    shape = Shape(
        cases=tuple(case(0, HOSTILE[n % 3], case=text) for n, text in enumerate(HOSTILE)),
        variants={HOSTILE[0]: 1.02, HOSTILE[3]: 0.97},
        baseline=HOSTILE[1],
        blocks=6,
        question="".join(HOSTILE) * 4,
        experiment=HOSTILE[6],
    )
    names = ["2026 <script>alert(1)<!--", '"><b>', "😀" * 60, "n" * 250, "مرحبا\u202e", "a\nb"]
    for number, name in enumerate(names):
        run = make(runs, shape)
        run.path.rename(runs / name)
        if number == 4:
            (runs / name / "manifest.json").write_text("<script>alert(2)</script>")
    build_site(runs, tmp_path / "site")
    pages = checked(tmp_path / "site")
    assert len(rows(tmp_path / "site")) == 6
    assert len(pages) == 2 + 5 + 1
    for name, page in pages.items():
        kinds = [element.get("type") for element in page.all("script")]
        assert kinds in ([None], ["application/json", None]), name
    assert not [path for path in (tmp_path / "site").rglob("*") if not path.name.isascii()]
    assert len({page_name(name) for name in names}) == 6


@pytest.mark.slow
def test_missing_cells_and_figures_that_are_none(runs: Path, tmp_path: Path) -> None:
    run = small(runs)
    data = json.loads((run.path / "verdict.json").read_text())
    first = data["effects"][0]
    first |= {"ratio": float("nan"), "ci": [float("nan"), 1.0], "value": float("inf")}
    (run.path / "verdict.json").write_text(json.dumps(data))
    for path in (run.path / "boots").glob("*-mine/samples.jsonl"):
        path.write_text(path.read_text().splitlines()[0] + "\n")
    build_site(runs, tmp_path / "site")
    checked(tmp_path / "site")
    scores = summarize(run)[0].scores
    assert {(score.case, score.variant) for score in scores} == {
        *(("pipe", "stock"), ("pipe", "mine"), ("read", "stock"))
    }
    assert all(score.ratio is None for score in scores)
    text = (tmp_path / "site" / "history" / "nightly.html").read_text()
    assert "NaN" not in text and "Infinity" not in text


@pytest.mark.slow
def test_a_damaged_site_is_built_again(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, site = small(runs), tmp_path / "site"

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(build, "_write_pages", interrupted)
        build_site(runs, site)
    build_site(runs, site)
    whole = {path: path.read_text() for path in site.rglob("*.html")}
    (site / ".kdyno-site").write_text("[]")
    (site / ".data" / f"{run.name}.json").write_text('{"stamp": 1, "summary": "{}"}')
    (site / "index.html").unlink()
    assert build_site(runs, site).rendered == 1
    assert {path: path.read_text() for path in site.rglob("*.html")} == whole


def test_folders_that_cannot_be_a_site(runs: Path, tmp_path: Path) -> None:
    small(runs)
    letter = tmp_path / "mine" / "letter.txt"
    letter.parent.mkdir()
    letter.write_text("dear")
    for folder, message in (
        (runs, "folder of the runs themselves"),
        (letter.parent, "holds other things than a site"),
        (letter, "is a file"),
        (letter / "site", r"letter\.txt"),
        (Path("/proc/site"), "name a folder that can be written"),
    ):
        with pytest.raises(UsageError, match=message):
            build_site(runs, folder)
    assert [path.name for path in letter.parent.iterdir()] == ["letter.txt"]


@pytest.mark.slow
def test_a_report_that_cannot_be_drawn_takes_no_other_away(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good, bad = small(runs), small(runs, 1)
    real = report_page._page_data

    def breaks(evidence: Any) -> Any:
        if evidence.name == bad.name:
            raise ZeroDivisionError("<b>")
        return real(evidence)

    monkeypatch.setattr(report_page, "_page_data", breaks)
    build_site(runs, tmp_path / "site")
    checked(tmp_path / "site")
    row = row_of(tmp_path / "site", bad.name)
    assert "could not be made: ZeroDivisionError: &lt;b&gt;" in row
    assert (tmp_path / "site" / "runs" / f"{good.name}.html").is_file()


__all__ = ["ask", "server", "site"]


@pytest.mark.slow
def test_pages_are_served_as_they_are(ask: Asked, site: Path) -> None:
    for path in site.rglob("*.html"):
        status, headers, body = ask(f"/{path.relative_to(site)}")
        assert status == 200 and body == path.read_bytes()
        assert headers["Content-Type"] == "text/html; charset=utf-8"
        assert "default-src 'none'" in headers["Content-Security-Policy"]
        assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
        assert headers["X-Content-Type-Options"] == "nosniff"
    assert ask("/")[2] == (site / "index.html").read_bytes()
    assert ask("/?x=1")[0] == 200
    status, headers, body = ask("/index.html", "HEAD")
    assert status == 200 and body == b"" and int(headers["Content-Length"]) > 1000


def test_loopback() -> None:
    assert all(map(is_loopback, ("127.0.0.1", "127.9.9.9", "::1", "localhost")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "10.1.1.1", "evil.example", "")))


@pytest.mark.slow
def test_what_changes_gets_a_new_edition(server: SiteServer, ask: Asked, site: Path) -> None:
    runs, stop, message = site.parent / "runs", threading.Event(), []
    built = iter([0, 1, 2, 2, 3])

    def build() -> str:
        step = next(built)
        if step == 1:
            small(runs, 1)
        if step == 2:
            raise ToolError("no space left")
        if step == 3:
            stop.set()
        return build_site(runs, site, live=True).edition

    first = build()
    server.edition, server.problem = first, "no such page"
    assert ask("/edition")[2].decode() == first
    watch(server, build, 0.0, stop, message.append)
    assert ask("/edition")[2].decode() == server.edition != first
    assert message == ["no such page", "no space left", "no such page"]
    assert len(re.findall(rb'href="runs/', ask("/")[2])) == 2


@pytest.mark.slow
def test_live_pages_ask_and_others_do_not(site: Path, tmp_path: Path) -> None:
    text = (site / "index.html").read_text()
    assert "connect-src 'self'" in text and 'fetch("/edition"' in text
    build_site(tmp_path / "runs", tmp_path / "still")
    for path in (tmp_path / "still").rglob("*.html"):
        assert "fetch(" not in path.read_text() and "connect-src" not in path.read_text()


def test_a_port_in_use_names_the_way_out(server: SiteServer, kdyno: Kdyno, site: Path) -> None:
    port = server.server_address[1]
    runs = site.parent / "runs"
    output = kdyno("serve", "--port", port, "--runs", runs)
    assert output.status == 2 and f"port {port}: Address already in use" in output.err
    assert "--port" in output.err and "Traceback" not in output.err
    for words, each in (
        (("--bind", "no.such.host.invalid"), "--bind 'no.such.host.invalid'"),
        (("--bind", "203.0.113.9", "--port", 0), "; give --bind an address of this machine"),
    ):
        refused = kdyno("serve", "--runs", runs, *words)
        assert refused.status == 2 and each in refused.err
    with pytest.raises(UsageError, match="a port is a number up to 65535"):
        SiteServer(site, "127.0.0.1", 65536)


def test_a_cache_that_cannot_be_written_is_told_with_the_way_out(
    kdyno: Kdyno, site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")  # as much in the way as a closed folder, for root too
    monkeypatch.setenv("KDYNO_CACHE", str(tmp_path / "file"))
    output = kdyno("serve", "--port", 0, "--runs", site.parent / "runs")
    assert output.status in (1, 2) and "KDYNO_CACHE names another cache folder" in output.err


@pytest.mark.parametrize(
    "line",
    [
        "kdyno serve --port 0",
        *(pytest.param(example, marks=pytest.mark.slow) for example in examples("serve")),
    ],
)
def test_the_command_serves_until_it_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    run = stored(tmp_path / "runs", verdict(FASTER))
    monkeypatch.setenv("KDYNO_CACHE", str(tmp_path / "cache"))
    code = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from kdyno.cli.main import main; raise SystemExit(main())"
    )
    command = [*shlex.split(line)[1:], "--runs", str(tmp_path / "runs")]
    words = [sys.executable, "-c", code, *command]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stderr=pipe, text=True) as process, ExitStack() as end:
        end.callback(process.kill)
        assert process.stderr is not None
        message = process.stderr.readline()
        if "Address already in use" in message:
            pytest.skip(f"{line}: its port is taken on this machine")
        match = re.match(r"http://127\.0\.0\.1:(\d+)/", message)
        assert match, message
        connection = HTTPConnection("127.0.0.1", int(match[1]), timeout=10)
        connection.request("GET", f"/runs/{run.name}.html")
        assert b"Is mine faster?" in connection.getresponse().read()
        connection.close()
        process.send_signal(signal.SIGINT)
        rest = process.stderr.read()
        assert (process.wait(), rest) == (0, "ended\n")
