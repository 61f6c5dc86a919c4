# SPDX-License-Identifier: MIT
"""The suites unixbench and xbench whole, each in one boot of a real kernel."""

from __future__ import annotations

import needed
import pytest
from conftest import uml_processes

from kdyno.kernels.image import Image
from kdyno.machines.cpus import place
from kdyno.machines.guest import boot, guest_program, programs_folder
from kdyno.machines.process import Outcome
from kdyno.machines.uml import UmlBoot
from kdyno.paths import cache_root
from kdyno.report.scores import tables
from kdyno.suites.catalogue import Case, load
from kdyno.suites.job import CaseJob, Job, case_job
from kdyno.suites.protocol import CaseError, Sample, Skip
from kdyno.suites.score import read, score_of

pytestmark = pytest.mark.uml

SUITES = load()
SECONDS = 0.05


def booted(image: Image, cases: tuple[Case, ...], *more: CaseJob) -> Outcome:
    program = guest_program(cache_root(), image.word_bits)
    outcome = boot(
        UmlBoot(
            kernel=image.kernel,
            program=program,
            job=Job((*(case_job(case, SECONDS) for case in cases), *more)),
            placement=place(1),
            memory_bytes=512 << 20,
            shared=((programs_folder(program), "programs"),),
            disk_bytes=max(case.disk_bytes for case in cases),
            disk_parent=cache_root() / "disks",
        )
    )
    assert outcome.host.status == "ok", outcome.host
    assert uml_processes() == []
    return outcome


def scores(outcome: Outcome, cases: tuple[Case, ...]) -> dict[str, float]:
    """By case. What this machine lacks is skipped with the way to get it, where set-up was not to
    install it; nothing else may be."""
    results = {}
    for number, case in enumerate(cases):
        message = outcome.transcript.result(number)
        if isinstance(message, Skip):
            assert "apt-get install" in message.reason, message
            assert not needed.complete, f"{case.name}: {message.reason}"
            continue
        assert isinstance(message, Sample), (case.name, message)
        output = message.extra.get("stdout", "")
        results[case.name] = read(case, output) if case.figure else score_of(case, message.reps)
    return results


def test_the_whole_of_unixbench(stock: Image) -> None:
    suite = SUITES["unixbench"]
    rows = scores(booted(stock, suite.cases), suite.cases)
    assert set(rows) == {case.name for case in suite.cases}
    # No order of scores: a stalled host makes any of 0.05 s look many times slower.
    assert all(score > 0 for score in rows.values())
    values = {"stock": {(suite.name, case): score for case, score in rows.items()}}
    (table,) = tables(values, SUITES, "stock")
    assert table.rows[-1].name == "index"
    assert table.rows[-1].reference.value is not None
    assert table.rows[-1].own.value == pytest.approx(100.0)


def test_the_whole_of_xbench(stock: Image) -> None:
    suite = SUITES["xbench"]
    disk = needed.complete or (needed.path_of("fio") and needed.path_of("mkfs.ext4"))
    cases = tuple(case for case in suite.cases if disk or not case.disk_bytes)
    outcome = booted(stock, cases)
    rows = scores(outcome, cases)
    assert {case.name for case in cases if case.bench not in ("run", "program")} <= set(rows)
    assert all(score > 0 for score in rows.values())
    values = {"stock": {(suite.name, case): score for case, score in rows.items()}}
    (table,) = tables(values, SUITES, "stock")
    by_name = {row.name: row for row in table.rows}
    assert by_name["thread"].reference.value is not None
    assert by_name["memory"].reference.value is not None
    # Nothing was published to hold 2D drawing against, so it has no score, and says so.
    assert by_name["total"].reference.value is None
    assert "quartz.line" in by_name["total"].reference.missing


def test_a_program_that_is_not_there_fails_alone(stock: Image) -> None:
    missing = CaseJob("x", "none", "program", ("{programs}/none",), 0.05, placed=True)
    pipe = (SUITES["unixbench"].case("pipe"),)
    outcome = booted(stock, pipe, missing)
    assert isinstance(outcome.transcript.result(0), Sample)
    message = outcome.transcript.result(1)
    assert isinstance(message, CaseError)
    assert "cannot start /run/kdyno/programs/none: No such file" in message.reason
