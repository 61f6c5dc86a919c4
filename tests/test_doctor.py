# SPDX-License-Identifier: MIT
"""The doctor: which distribution this is, what is missing, the line that installs it; and that it,
set-up and the tests know every program and library that a suite asks for."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import Kdyno, effect, verdict
from needed import PACKAGES

from kdyno.cli import doctor, needs
from kdyno.cli.doctor import Precision, against_itself, precisions
from kdyno.cli.needs import INSTALL, NEEDS, Finding, family, install_line, suites_line
from kdyno.experiment.loader import Overrides
from kdyno.machines import emulator
from kdyno.measure.bench import equip
from kdyno.measure.execution import Options
from kdyno.paths import cache_root, data_root
from kdyno.store.run import Run
from kdyno.store.verdict import Effect
from kdyno.suites.catalogue import find, load

TESTS = Path(__file__).parent
SUITE_NEEDS = [need for need in NEEDS if need.suite]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ('PRETTY_NAME="Debian GNU/Linux 12"\nVERSION_ID="12"\nID=debian\nURL="x"\n', "debian"),
        ('NAME="Ubuntu"\nID=ubuntu\nID_LIKE=debian\n', "ubuntu"),
        ('ID=linuxmint\nID_LIKE="ubuntu debian"\n', "ubuntu"),
        ("ID=raspbian\nID_LIKE=debian\n", "debian"),
        ('NAME="Fedora Linux"\nID=fedora\n', "fedora"),
        ('ID="rhel"\nID_LIKE="fedora"\n', "fedora"),
        ('ID="rocky"\nID_LIKE="rhel centos fedora"\n', "fedora"),
        ("ID=arch\n", "arch"),
        ("NAME='Manjaro Linux'\nID=manjaro\nID_LIKE=arch\n", "arch"),
        ('ID="opensuse-leap"\nID_LIKE="suse opensuse"\n', "suse"),
        ('ID="opensuse-tumbleweed"\nID_LIKE="opensuse suse"\n', "suse"),
        ("ID='alpine'\n", "alpine"),
        ("# ID=debian\n\nID=plan9\nID_LIKE=unix\n", None),
        ("=x\nnothing\n", None),
        ("", None),
    ],
)
def test_families_of_distributions(text: str, name: str | None) -> None:
    assert family(text) == name


def findings(*missing: str) -> tuple[Finding, ...]:
    return tuple((need, "gone" if need.name in missing else None) for need in NEEDS)


@pytest.mark.parametrize(
    ("lost", "name", "line"),
    [
        (
            "xz,bubblewrap,perf,disk space",
            "debian",
            "apt-get install xz-utils bubblewrap linux-perf",
        ),
        ("xz,perf", "ubuntu", "apt-get install xz-utils linux-tools-generic"),
        ("xz,bubblewrap,perf", "fedora", "dnf install xz bubblewrap perf"),
        ("xz,bubblewrap,perf", "arch", "pacman -S xz bubblewrap perf"),
        ("git", "alpine", "apk add git"),
        # A package is named once.
        ("FFTW,cairo", "debian", "apt-get install pkg-config libfftw3-dev libcairo2-dev"),
        ("FFTW,cairo", "arch", "pacman -S pkgconf fftw cairo"),
        ("", "debian", None),
        ("disk space", "debian", None),
        ("gcc", None, None),
    ],
)
def test_one_line_installs_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, lost: str, name: str | None, line: str | None
) -> None:
    for user, sudo in ((1000, "sudo "), (0, "")):
        monkeypatch.setattr(os, "geteuid", lambda user=user: user)
        assert install_line(findings(*lost.split(",")), name) == (line and f"{sudo}{line}")


def test_what_suites_run_has_a_command_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(data_root())
    assert suites_line(findings("fio", "gcc"), "debian") == "make setup-suites"
    assert suites_line(findings("gcc"), "debian") is None
    assert suites_line(findings("fio"), "arch") is None
    monkeypatch.chdir("/usr")
    assert suites_line(findings("cairo"), "ubuntu") == (
        f"make -C {shlex.quote(str(data_root()))} setup-suites"
    )


@pytest.mark.parametrize("name", INSTALL)
def test_everything_needed_can_be_installed_everywhere(name: str) -> None:
    for need in NEEDS:
        assert need.purpose
        if (need.required and need.packages) or need.suite:
            assert need.packages[name], need.name
        if need.suite:
            assert not need.required and ("suite" in need.purpose or "xbench" in need.purpose)


@pytest.mark.slow
def test_an_empty_path_lacks_every_program(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "kdyno", "doctor"]
    environment = {"PATH": str(tmp_path), "HOME": str(tmp_path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 1
    assert "MISSING  gcc                to build kernels: no gcc on PATH\n" in done.stdout
    assert "missing  ccache " in done.stdout
    for program in ("make", "flex", "bison", "bc", "patch", "xz", "git", "ccache", "perf"):
        assert f": no {program} on PATH\n" in done.stdout
    assert re.search(r"static C library .*: no gcc on PATH", done.stdout)
    assert ": bubblewrap (the program bwrap) is not installed\n" in done.stdout


def test_its_status_is_1_where_something_needed_is_missing(
    kdyno: Kdyno, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "this_family", lambda: "fedora")
    monkeypatch.setattr(doctor, "examine", lambda: findings("flex"))
    output = kdyno("doctor")
    assert output.status == 1 and "MISSING  flex" in output.out
    assert re.search(r"To install what is missing: (sudo )?dnf install flex$", output.out, re.M)
    output = kdyno("doctor", "--json", "-")
    data = json.loads(output.out)
    assert output.err == "" and not data["ok"] and data["install"].endswith("dnf install flex")
    monkeypatch.setattr(doctor, "examine", lambda: findings("ccache"))
    assert kdyno("doctor").status == 0
    monkeypatch.setattr(doctor, "examine", lambda: findings("hardware counters"))
    assert kdyno("doctor").out.endswith("\nNothing is missing that kdyno cannot do without.\n")
    monkeypatch.setattr(doctor, "examine", findings)
    assert kdyno("doctor").out.endswith("\nNothing is missing.\n")


@pytest.mark.parametrize(
    ("program", "script", "need", "problem"),
    [
        ("gcc", 'for x; do [ "$x" != -static ] || exit 1; done', "static C library",
         "gcc -static cannot link a program"),
        ("gcc", 'for x; do [ "$x" != -static ] || exit 1; done', "gcc", None),
        ("patch", "echo BusyBox >&2; exit 1", "patch", "the patch on PATH is not GNU patch"),
    ],
)  # fmt: skip
def test_a_program_that_does_not_do(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    program: str,
    script: str,
    need: str,
    problem: str | None,
) -> None:
    (tmp_path / program).write_text(f"#!/bin/sh\n{script}\n")
    (tmp_path / program).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert next(each for each in NEEDS if each.name == need).missing() == problem


def test_a_full_disk_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Usage:
        free = 1_500_000_000

    monkeypatch.setenv("KDYNO_CACHE", str(tmp_path / "not" / "yet"))
    monkeypatch.setattr("shutil.disk_usage", lambda _path: Usage)
    (space,) = (need for need in NEEDS if need.name == "disk space")
    assert space.missing() == f"1.5 GB free at {tmp_path}, 5 GB needed"


def test_what_suites_lack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(needs, "ENVIRONMENT", {"PATH": str(tmp_path)})
    monkeypatch.setenv("PATH", str(tmp_path))
    lacking = {need.name: need.missing() for need in SUITE_NEEDS}
    assert lacking["fio"] == "no fio"
    assert lacking["Apache and ab"] == "no apache2 or httpd, no ab"
    assert lacking["cairo"] == "no pkg-config on PATH"
    (tmp_path / "httpd").touch(0o755)
    (tmp_path / "pkg-config").write_text('#!/bin/sh\n[ "$2" = gtk+-3.0 ]\n')
    (tmp_path / "pkg-config").chmod(0o755)
    lacking = {need.name: need.missing() for need in SUITE_NEEDS}
    assert lacking["Apache and ab"] == "no ab"
    assert lacking["Mesa"] == "pkg-config knows no egl, no glesv2"
    assert lacking["GTK and Xvfb"] == "no Xvfb"


def test_every_package_of_a_suite_is_known() -> None:
    expected = {"bash"}.union(*(need.packages.get("debian", "").split() for need in NEEDS))
    cases = [case for suite in load().values() for case in suite.cases]
    wanted = {package for case in cases for package in case.install.split()}
    for head in (data_root() / "guest" / "programs").glob("*.c"):
        wanted |= set(re.findall(r"^// install: (.*)$", head.read_text(), re.M)[0].split())
    assert wanted - expected == set()
    assert "rt-tests" in wanted and "libfftw3-dev" in wanted


def test_without_any_program_every_such_case_says_what_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kdyno.measure.bench.ENVIRONMENT", {"PATH": str(tmp_path)})
    suites = load()
    cases = [case for suite in suites.values() for case in suite.cases if case.program]
    pipe, web = find(suites, "unixbench").case("pipe"), suites["apachebench"].cases[0]
    lacking = equip([*cases, pipe], tmp_path / "programs", tmp_path, tmp_path, None, print).lacking
    assert f"{pipe.suite}/pipe" not in lacking
    for case in cases:
        why = lacking[f"{case.suite}/{case.name}"]
        assert why.endswith(f"not installed: apt-get install {case.install}"), case
    assert lacking["fio/read-4k"] == "fio is not installed: apt-get install fio"
    assert lacking[f"apachebench/{web.name}"] == (
        "apache2 or httpd, ab, awk are not installed: apt-get install apache2-bin apache2-utils"
    )
    for name in ("httpd", "ab", "awk"):  # either name of a program is enough
        (tmp_path / name).touch(0o755)
    result = equip([web, pipe], tmp_path / "programs", None, tmp_path, None, lambda _text: None)
    assert result.lacking == {}


def test_set_up_installs_what_tests_and_suites_need() -> None:
    text = (data_root() / "setup.sh").read_text()
    lists = {
        name: set(packages.split())
        for name, packages in re.findall(r'^(packages|suites|tests)="([^"]*)"$', text, re.M)
    }
    assert lists["suites"] == set(" ".join(each.packages["debian"] for each in SUITE_NEEDS).split())
    assert not lists["packages"] & (lists["suites"] | lists["tests"])
    installed = set().union(*lists.values()) | {"apt", "dpkg"}  # which every Debian has
    assert {package for package in PACKAGES.values() if package} - installed == set()


LACKING = """\
import needed
import pytest
needed.PACKAGES = {"no-such-program": "such-a-package"}
@pytest.mark.needs("no-such-program")
def test_marked(): raise AssertionError
def test_asking(): needed.need("no-such-program")
def test_another_cpu(): pytest.skip("this CPU has no wings")
"""


@pytest.mark.slow
@pytest.mark.parametrize("complete", [True, False])
def test_what_is_lacking_fails_where_all_must_be_there(complete: bool, tmp_path: Path) -> None:
    (tmp_path / "test_lacking.py").write_text(LACKING)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = needs(programs): x\n")
    command = [sys.executable, "-m", "pytest", "-p", "conftest", "--skips", "skips"]
    command += ["--complete"] if complete else []
    environment = {**os.environ, "PYTHONPATH": str(TESTS), "PYTEST_ADDOPTS": ""}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    cpu = "test_lacking.py::test_another_cpu: this CPU has no wings\n"
    way = "no no-such-program: apt-get install such-a-package"
    skips = (tmp_path / "skips").read_text()
    if complete:
        assert done.returncode == 1 and done.stdout.count(f"{way}; `./setup.sh --tests`") >= 2
        assert skips == cpu
    else:
        assert done.returncode == 0, done.stdout
        lines = [f"test_lacking.py::test_{name}: {way}\n" for name in ("marked", "asking")]
        assert skips == "".join([*lines, cpu])


# Under KVM: no machine of ours has it, so the run itself is by emulation.


@pytest.mark.parametrize("lacking", ["QEMU", "KVM"])
def test_where_it_cannot_be_it_says_why_and_what_else_there_is(
    kdyno: Kdyno, monkeypatch: pytest.MonkeyPatch, lacking: str
) -> None:
    monkeypatch.setattr(emulator, "missing", lambda: "no QEMU" if lacking == "QEMU" else None)
    monkeypatch.setattr(emulator, "why_no_kvm", lambda: "no KVM")
    output = kdyno("doctor", "--kvm")
    assert (output.status, output.out) == (1, "")
    assert f"no kernel can be timed under KVM here: no {lacking}. " in output.err
    assert "--metric instructions" in output.err


def copied(case: str, ci: tuple[float, float] | None, variant: str = "stock.copy") -> Effect:
    return effect(case, "inconclusive", 1.0, variant=variant, ci_raw=ci, blocks=8 if ci else 5)


def test_precision_is_half_of_the_interval_of_no_difference(
    kdyno: Kdyno, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    effects = [copied("pipe", (0.98, 0.98 * 1.0404)), copied("spawn", None)]
    effects.append(copied("pipe", (2.0, 3.0), "mine"))
    pipe, spawn = precisions(verdict(*effects, copy_of_baseline="stock.copy"))
    assert pipe.half_width == pytest.approx(0.02)
    assert (pipe.case, pipe.groups, pipe.differs) == ("pipe", 8, False)
    assert spawn == Precision("spawn", 5, None, False)
    differing = copied("pipe", (1.01, 1.02))
    (other,) = precisions(verdict(differing, copy_of_baseline="stock.copy"))
    assert other.differs

    monkeypatch.setattr(emulator, "missing", lambda: None)
    monkeypatch.setattr(emulator, "why_no_kvm", lambda: "")
    run = Run(tmp_path / "run")
    for own, status, words in (
        (effects, 1, "spawn        no interval: 5 groups, and six are needed\n"),
        (effects[:1], 0, "pipe         ±2.00 %, 8 groups\n"),
        ([differing], 1, "DIFFERS"),
        ([], 1, ""),
    ):
        judged = verdict(*own, copy_of_baseline="stock.copy")
        monkeypatch.setattr(doctor, "against_itself", lambda *_, judged=judged: (run, judged))
        output = kdyno("doctor", "--kvm")
        assert output.status == status and words in output.out
        report = json.loads(kdyno("doctor", "--kvm", "--json", "-").out)
        assert report["ok"] == (status == 0) and report["run"] == str(run.path)


@pytest.mark.qemu
@pytest.mark.uml
@pytest.mark.needs("qemu-system-x86_64")
def test_the_run_itself_by_emulation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Another kdyno that measures on this machine is nothing to wait for here.
    monkeypatch.setattr("kdyno.machines.cpus._LOCK", f"\0kdyno-test-{os.getpid()}-kvm")
    two = Overrides(max_boots=2)
    options = Options(cache_root(), tmp_path / "runs", beside=True, overrides=two)
    run, verdict = against_itself("tcg", options)
    assert run.manifest().interleave == "turns"
    assert verdict.boots == {"stock": 2, "stock.copy": 2} and verdict.failed == {}
    rows = precisions(verdict)
    assert [row.case for row in rows] == ["syscall", "pipe", "fscopy-1024", "context1", "spawn"]
    assert all(row == Precision(row.case, 2, None, False) for row in rows)
    assert "emulated-time" in {flag.kind for flag in verdict.flags}
