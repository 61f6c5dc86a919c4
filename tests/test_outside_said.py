# SPDX-License-Identifier: MIT
"""That a run was measured without the sandbox stands in every format that it is given out in."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from on_screen import text as on_screen
from site_runs import evidence_of
from synthetic_run import DEMO, make
from test_profiles_shown import profile, profiled

from kdyno import labs, sandbox
from kdyno.judge.comparing import compare
from kdyno.judge.flags import outside_sandbox
from kdyno.labs.profile import tables
from kdyno.labs.profile.boots import Profiler, noted
from kdyno.labs.profile.record import OUTSIDE, Profile, stored_profiles
from kdyno.report.evidence import Evidence
from kdyno.report.exporters import exporters
from kdyno.report.show import terminal as screen
from kdyno.report.site.summary import summarize
from kdyno.store.run import Run, list_runs, write_run

SAID = {
    "benchstat": "\nsandbox: none\n",
    "csv": ",no-sandbox",
    "folded": "stock (perf, without the sandbox)",
    "html": "measured without the sandbox (--no-sandbox)",
    "json": '"kind": "no-sandbox"',
    "junit": 'value="no-sandbox: measured without the sandbox',
    "markdown": "no-sandbox: measured without the sandbox",
    "svg": "Measured without the sandbox.",
}
"""Format → what is in it then, and only then."""
NOT_IN_TEXT = {"png", "parquet"}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    outside = [replace(profile(name), notes=("no counters", OUTSIDE)) for name in ("stock", "mine")]
    return profiled(tmp_path_factory.mktemp("outside") / "runs", *outside)


@pytest.fixture(scope="module")
def evidence(run: Run) -> Evidence:
    judged = run.verdict()
    with write_run(run.path) as writer:
        writer.save_verdict(judged.model_copy(update={"flags": (outside_sandbox(), *judged.flags)}))
        host = {**run.manifest().host, "sandbox": False}
        writer.save_manifest(run.manifest().model_copy(update={"host": host}))
    return evidence_of(run)


def inside(evidence: Evidence) -> Evidence:
    flags = tuple(flag for flag in evidence.verdict.flags if flag.kind != "no-sandbox")
    return replace(evidence, verdict=evidence.verdict.model_copy(update={"flags": flags}))


def test_no_format_is_forgotten() -> None:
    assert exporters(labs.reports()).keys() == SAID.keys() | NOT_IN_TEXT


@pytest.mark.slow
@pytest.mark.parametrize("name", SAID)
def test_it_is_said(evidence: Evidence, name: str) -> None:
    exported = exporters(labs.reports())[name]
    assert SAID[name] in str(exported.export(evidence))
    if name != "folded":  # there it is the profile that says so
        assert SAID[name] not in str(exported.export(inside(evidence)))


@pytest.mark.slow
def test_a_picture_of_pixels_differs(evidence: Evidence) -> None:
    png = exporters()["png"]
    assert png.export(evidence) != png.export(inside(evidence))


@pytest.mark.slow
def test_a_parquet_table_has_it_in_every_row(evidence: Evidence) -> None:
    pyarrow = pytest.importorskip("pyarrow.parquet")
    data = exporters()["parquet"].export(evidence)
    column = pyarrow.read_table(io.BytesIO(data)).column("remarks").to_pylist()
    assert column and all("no-sandbox" in kinds for kinds in column)


@pytest.mark.slow
def test_the_terminal_the_list_and_a_comparison_say_it(evidence: Evidence) -> None:
    assert "measured without the sandbox" in " ".join(on_screen(evidence.verdict, 80).split())
    assert "without the sandbox" in summarize(evidence.run)[0].reason
    runs = evidence.run.path.parent
    other = make(runs, replace(DEMO, blocks=7))
    assert len(list_runs(runs)) == 2
    flags = compare([evidence.run, other]).flags
    (text,) = [flag.text for flag in flags if flag.kind == "no-sandbox"]
    assert text.startswith(f"{evidence.run.name}: measured without")


@pytest.mark.slow
def test_a_profile_says_it_for_itself(run: Run) -> None:
    result = screen.text(tables.parts(stored_profiles(run), "stock"))
    assert f"note: {OUTSIDE}" in " ".join(result.split())


def test_one_boot_outside_is_enough_for_a_profile(monkeypatch: pytest.MonkeyPatch) -> None:
    before = Profiler("gprof", False).empty("stock", "", {})

    def after(sandboxed: bool, so_far: Profile) -> tuple[str, ...]:
        monkeypatch.setattr(sandbox, "_waived", not sandboxed)
        return noted(so_far).notes

    assert OUTSIDE not in after(True, before)
    assert after(False, before) == (*before.notes, OUTSIDE)
    again = replace(before, notes=after(False, before))
    assert after(True, again) == after(False, again) == (*before.notes, OUTSIDE)
