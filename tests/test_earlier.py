# SPDX-License-Identifier: MIT
"""Runs of kdyno 0.1.0 say the same as today's, by what else they have on disk."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from earlier_run import as_0_1_0

from kdyno.errors import ToolError, UsageError
from kdyno.experiment.loader import load
from kdyno.experiment.overrides import Overrides, apply
from kdyno.judge.comparing import compare
from kdyno.judge.question import Question
from kdyno.machines.uml_machine import CAVEAT
from kdyno.measure.asking import asked_of
from kdyno.measure.bench import info
from kdyno.measure.plan import copy_name
from kdyno.measure.vocabulary import vocabulary
from kdyno.report.site.series import series_of
from kdyno.report.site.summary import summarize
from kdyno.store.boot import BootHost, BootJob, BootRecord, Sample
from kdyno.store.earlier import whole_manifest
from kdyno.store.manifest import CaseInfo, MachineInfo, Manifest
from kdyno.store.run import Run, create_run
from kdyno.store.verdict import Flag, Verdict
from kdyno.store.work import work_digest, works_in
from kdyno.suites.catalogue import load as load_suites
from kdyno.suites.job import Job, render
from kdyno.suites.selection import cases_of, jobs_of

ROOT = Path(__file__).parents[1]
FILES = [
    file
    for file in sorted((ROOT / "experiments").glob("*.toml"))
    if "qemu" not in file.read_text()  # a machine that 0.1.0 had not
]
SUITES = load_suites()
LACKS = "hackbench is not installed: apt-get install rt-tests"
CASES = ("pipe", "messages", "syscall")


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
@pytest.mark.parametrize("judged", [False, True], ids=["never judged", "judged"])
@pytest.mark.parametrize(
    "overrides",
    [Overrides(), Overrides(quick=True, calibrate=True), Overrides(precision=0.03)],
    ids=["plain", "quick", "precision"],
)
def test_every_shipped_experiment_is_read_back(
    tmp_path: Path, file: Path, judged: bool, overrides: Overrides
) -> None:
    experiment = apply(overrides, load(file, vocabulary(SUITES)))
    cases, jobs = cases_of(experiment, SUITES), jobs_of(experiment, SUITES)
    names = [variant.name for variant in experiment.variants]
    if experiment.measure.calibrate:
        names.append(copy_name(experiment.baseline))
    manifest = Manifest(
        tool="0.1.0", created="2026-01-01", experiment=experiment.name, seed=1,
        baseline=experiment.baseline, images=dict.fromkeys(names, "0"),
        cases=tuple(map(info, cases, jobs)), overrides=overrides.to_json(),
        **asked_of(experiment),
    )  # fmt: skip
    assert manifest.machine
    machine = manifest.machine.model_copy(update={"caveats": (CAVEAT,), "scattered": False})
    manifest = manifest.model_copy(update={"machine": machine})
    job = render(Job(jobs), "0" * 32)
    boot = BootRecord(
        job=BootJob(index=0, block=0, variant=names[0], job=job), host=BootHost(status="ok")
    )
    with create_run(tmp_path, experiment.text, manifest) as writer:
        writer.add_boot(boot, b"")
        measure = experiment.measure
        if judged:
            writer.save_verdict(
                Verdict(
                    experiment=experiment.name, baseline=experiment.baseline,
                    boots=dict.fromkeys(names, 1), question=experiment.question,
                    precision=measure.precision, equivalent=measure.equivalent,
                    copy_of_baseline=manifest.asked.copy_of_baseline if manifest.asked else None,
                )
            )  # fmt: skip
    new = whole_manifest(writer.run)
    assert new == manifest
    as_0_1_0(writer.run.path)
    old = whole_manifest(writer.run)
    assert (old.machine, old.asked, old.cases) == (new.machine, new.asked, new.cases)
    assert Question.of(old) == Question.of(new)


def test_work_is_the_same_in_a_job_and_in_the_manifest() -> None:
    said = "kdyno-job 1\nnonce 0\ncase 0 run\nseconds 0.250000000\ntimeout 60.0\narg sh\n"
    said += "arg /tmp/kdyno-x1/y\ncase 1 pipe\noperations 7\ntimeout 1.0\nend\n"
    assert [(it.digest, it.seconds) for it in works_in(said)] == [
        (work_digest("run", None, ("sh", "/var/kdyno-other/z")), 0.25),
        (work_digest("pipe", 7, ()), None),
    ]
    assert work_digest("pipe", 8, ()) != work_digest("pipe", 7, ())


def made(
    runs: Path, *, at: int, lacking: str = "", skipped: str = "", score: float = 1000.0
) -> Run:
    """A run of 0.1.0; ``lacking`` was left out of its job, ``skipped`` by the guest's word."""
    infos = tuple(CaseInfo(suite="s", case=it, unit="loops/s", better="higher") for it in CASES)
    manifest = Manifest(
        tool="0.1.0", created=f"2026-11-{at:02d}", experiment="x", baseline="stock", seed=1,
        images={"stock": f"kernel {at}"}, cases=infos, state="finished",
    )  # fmt: skip
    done = [case for case in CASES if case != lacking]
    job = "".join(
        f"case {number} {case}\nseconds 0.5\narg {case}\n" for number, case in enumerate(done)
    )
    samples = tuple(
        Sample(suite="s", case=case, score=score)
        if case not in (lacking, skipped)
        else Sample(
            suite="s", case=case, status="skip", text=LACKS if case == lacking else "no such file"
        )
        for case in CASES
    )
    with create_run(runs, 'name = "x"\n[machine]\nmemory = "512M"\ncpus = 2\n', manifest) as writer:
        for index in range(7):
            about = BootJob(index=index, block=index, variant="stock", job=f"{job}end\n")
            host = BootHost(status="ok")
            writer.add_boot(BootRecord(job=about, host=host, samples=samples), b"")
        writer.save_verdict(Verdict(experiment="x", baseline="stock", boots={"stock": 7}))
    as_0_1_0(writer.run.path)
    return writer.run


@pytest.mark.parametrize(("lacking", "skipped"), [("messages", ""), ("pipe", "syscall")])
def test_work_goes_to_the_case_that_did_it(tmp_path: Path, lacking: str, skipped: str) -> None:
    whole = whole_manifest(made(tmp_path, at=1))
    less = whole_manifest(made(tmp_path, at=2, lacking=lacking, skipped=skipped))
    assert len({case.work for case in whole.cases}) == 3 and all(it.work for it in whole.cases)
    expected = [case.work if case.case != lacking else "" for case in whole.cases]
    assert [case.work for case in less.cases] == expected
    assert [case.seconds for case in less.cases] == [
        0.5 if case.work else None for case in less.cases
    ]


def test_a_run_that_lacked_a_case_is_compared_by_the_others(tmp_path: Path) -> None:
    runs = [made(tmp_path, at=1), made(tmp_path, at=2, lacking="messages")]
    found = {it.case: (it.verdict, it.reason) for it in compare(runs).effects}
    assert found["pipe"] == found["syscall"] == ("inconclusive", None)
    assert found["messages"][0] == "failed" and "no score" in (found["messages"][1] or "")


def test_a_case_that_is_lacking_begins_no_new_series(tmp_path: Path) -> None:
    runs = [made(tmp_path, at=at, lacking="pipe" if at == 2 else "") for at in (1, 2, 3)]
    series = {it.case: len(it.marks) for it in series_of([summarize(run)[0] for run in runs])}
    assert series == {"pipe": 2, "messages": 3, "syscall": 3}


def test_a_job_that_fits_no_case_gives_no_work(tmp_path: Path) -> None:
    run = made(tmp_path, at=1)
    for path in run.path.glob("boots/*/job.json"):
        data = json.loads(path.read_text())
        path.write_text(json.dumps(data | {"job": "case 0 pipe\nend\n"}) + "\n")
    assert [case.work for case in whole_manifest(run).cases] == ["", "", ""]


@pytest.mark.parametrize(
    ("text", "machine"),
    [
        ('[machine]\nkind = "host"\n', {"kind": "host"}),
        ('[machine]\nmemory = "2GiB"\ncpus = 4\n', {"memory_bytes": 2 << 30, "cpus": 4}),
        ('[machine]\nmemory = 7\ncpus = "x"\nkind = []\n', {}),
        ("machine = 1\nmeasure = 2\nfactor = 3\nvariant = 4\n", {}),
        ("no toml\n", {}),
        ("[factor.a]\n'' = {}\nx = {}\n[factor.b]\n", {}),
    ],
)
def test_whatever_an_old_experiment_says_a_machine_comes_out(
    tmp_path: Path, text: str, machine: dict[str, Any]
) -> None:
    run = made(tmp_path, at=1)
    (run.path / "experiment.toml").write_text(text)
    found = whole_manifest(run).machine
    assert found is not None
    builds = found.kind != "host"
    assert found.model_copy(update={"caveats": ()}) == MachineInfo(builds=builds, **machine)
    assert found.built == builds
    assert [it.kind for it in found.caveats] == (
        ["not-rebooted"] if found.kind == "host" else ["machine"]
    )


def test_without_its_experiment_an_old_run_cannot_be_compared(tmp_path: Path) -> None:
    runs = [made(tmp_path, at=1), made(tmp_path, at=2)]
    (runs[0].path / "experiment.toml").unlink()
    with pytest.raises(ToolError, match=r"experiment\.toml"):
        compare(runs)
    assert summarize(runs[0])[0].kind == "uml"


def test_what_the_first_boot_told_stays_with_the_run(tmp_path: Path) -> None:
    run = made(tmp_path, at=1)
    flags = (Flag(kind="drift", text="x"), Flag(kind="ptrace-mode", text="slower"))
    judged = Verdict(
        experiment="x", baseline="stock", boots={}, flags=flags, confidence=0.7, precision=0
    )
    (run.path / "verdict.json").write_text(judged.to_json())
    found = whole_manifest(run)
    assert found.machine and [it.kind for it in found.machine.caveats] == ["machine", "ptrace-mode"]
    assert found.asked and found.asked.confidence == 0.95


def test_other_work_is_refused_with_its_name(tmp_path: Path) -> None:
    runs = [made(tmp_path, at=1), made(tmp_path, at=2)]
    for path in runs[1].path.glob("boots/*/job.json"):
        path.write_text(path.read_text().replace("arg syscall", "arg other"))
    with pytest.raises(UsageError, match=r"\(s/syscall: not the same work\)"):
        compare(runs)
