# SPDX-License-Identifier: MIT
"""The doctor: which distribution this is, what is missing, the line that installs it."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from kdyno.cli import needs
from kdyno.cli.needs import INSTALL, NEEDS, Finding, family, install_line, suites_line
from kdyno.paths import data_root

DEBIAN = """PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"
NAME="Debian GNU/Linux"
VERSION_ID="12"
ID=debian
HOME_URL="https://www.debian.org/"
"""


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (DEBIAN, "debian"),
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
    return tuple(Finding(need, "gone" if need.name in missing else None) for need in NEEDS)


def test_one_line_installs_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    lost = findings("xz", "bubblewrap", "perf", "disk space")
    assert install_line(lost, "debian") == "sudo apt-get install xz-utils bubblewrap linux-perf"
    assert install_line(lost, "ubuntu") == (
        "sudo apt-get install xz-utils bubblewrap linux-tools-generic"
    )
    assert install_line(lost, "fedora") == "sudo dnf install xz bubblewrap perf"
    assert install_line(lost, "arch") == "sudo pacman -S xz bubblewrap perf"
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert install_line(findings("git"), "alpine") == "apk add git"


def test_what_suites_run_has_a_command_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(data_root())
    assert suites_line(findings("fio", "gcc"), "debian") == "make setup-suites"
    assert suites_line(findings("gcc"), "debian") is None
    assert suites_line(findings("fio"), "arch") is None
    monkeypatch.chdir("/usr")
    assert suites_line(findings("cairo"), "ubuntu") == (
        f"make -C {shlex.quote(str(data_root()))} setup-suites"
    )


def test_no_line_when_nothing_is_missing_or_nobody_knows_how() -> None:
    assert install_line(findings(), "debian") is None
    assert install_line(findings("disk space"), "debian") is None
    assert install_line(findings("gcc"), None) is None


@pytest.mark.parametrize("name", INSTALL)
def test_everything_required_can_be_installed_everywhere(name: str) -> None:
    for need in NEEDS:
        assert need.purpose
        if need.required and need.packages:
            assert need.packages[name], need.name


def test_names_are_said_once() -> None:
    assert len({need.name for need in NEEDS}) == len(NEEDS)


@pytest.mark.slow
def test_an_empty_path_lacks_every_program(tmp_path: Path) -> None:
    code = (
        "from kdyno.cli.needs import examine\n"
        "for f in examine(): print(f.need.name, f.problem, sep=': ')"
    )
    said = subprocess.run(
        [sys.executable, "-c", code],
        env={"PATH": str(tmp_path), "KDYNO_CACHE": str(tmp_path / "a" / "b")},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    problems = dict(line.split(": ", 1) for line in said.splitlines())
    assert list(problems) == [need.name for need in NEEDS]
    for program in ("gcc", "make", "flex", "bison", "bc", "patch", "xz", "git", "ccache", "perf"):
        assert problems[program] == f"no {program} on PATH"
    assert problems["static C library"] == problems["32-bit toolchain"] == "no gcc on PATH"
    assert problems["bubblewrap"] == "bubblewrap (the program bwrap) is not installed"


def test_a_gcc_that_cannot_link_statically(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gcc").write_text('#!/bin/sh\nfor x; do [ "$x" != -static ] || exit 1; done\n')
    (tmp_path / "gcc").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    found = {finding.need.name: finding.problem for finding in needs.examine()}
    assert found["static C library"] == "gcc -static cannot link a program"
    assert found["gcc"] is None


def test_a_patch_that_is_not_gnus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "patch").write_text("#!/bin/sh\necho BusyBox >&2; exit 1\n")
    (tmp_path / "patch").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    found = {finding.need.name: finding.problem for finding in needs.examine()}
    assert found["patch"] == "the patch on PATH is not GNU patch"


def test_a_full_disk_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Usage:
        free = 1_500_000_000

    monkeypatch.setenv("KDYNO_CACHE", str(tmp_path / "not" / "yet"))
    monkeypatch.setattr("shutil.disk_usage", lambda _path: Usage)
    found = {finding.need.name: finding.problem for finding in needs.examine()}
    assert found["disk space"] == f"1.5 GB free at {tmp_path}, 5 GB needed"


@pytest.mark.slow
def test_the_verb_says_what_to_do(tmp_path: Path) -> None:
    code = "from kdyno.cli.main import main; raise SystemExit(main())"
    done = subprocess.run(
        [sys.executable, "-c", code, "doctor"],
        env={"PATH": str(tmp_path), "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert "MISSING  gcc                to build kernels: no gcc on PATH\n" in done.stdout
    assert "missing  ccache " in done.stdout
