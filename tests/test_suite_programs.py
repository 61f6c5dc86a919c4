# SPDX-License-Identifier: MIT
"""The doctor knows every program and library that a suite asks for, and what brings it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kdyno.cli import needs
from kdyno.cli.needs import INSTALL, NEEDS, Finding, install_line
from kdyno.measure.bench import equip
from kdyno.suites.catalogue import find, load

PROGRAMS = Path(__file__).parent.parent / "guest" / "programs"


def known() -> set[str]:
    return {package for need in NEEDS for package in need.packages.get("debian", "").split()} | {
        "bash"
    }


def test_every_package_of_a_suite_is_known() -> None:
    wanted = {
        package
        for suite in load().values()
        for case in suite.cases
        for package in case.install.split()
    }
    for head in PROGRAMS.glob("*.c"):
        wanted |= set(re.findall(r"^// install: (.*)$", head.read_text(), re.M)[0].split())
    assert wanted - known() == set()
    assert "rt-tests" in wanted and "libfftw3-dev" in wanted


@pytest.mark.parametrize("family", INSTALL)
def test_they_are_optional_and_can_be_installed(family: str) -> None:
    for need in (it for it in NEEDS if it.suite):
        assert not need.required and need.packages[family], need.name
        assert "suite" in need.purpose or "xbench" in need.purpose


def test_an_installing_line_names_a_package_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    lost = tuple(Finding(need, "gone") for need in NEEDS if need.name in ("FFTW", "cairo"))
    assert install_line(lost, "debian") == "apt-get install pkg-config libfftw3-dev libcairo2-dev"
    assert install_line(lost, "arch") == "pacman -S pkgconf fftw cairo"


def test_what_a_machine_without_them_lacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(needs, "ENVIRONMENT", {"PATH": str(tmp_path)})
    monkeypatch.setenv("PATH", str(tmp_path))
    said = {need.name: need.missing() for need in NEEDS if need.suite}
    assert said["fio"] == "no fio"
    assert said["Apache and ab"] == "no apache2 or httpd, no ab"
    assert said["cairo"] == "no pkg-config on PATH"
    (tmp_path / "httpd").touch(0o755)
    (tmp_path / "pkg-config").write_text('#!/bin/sh\n[ "$2" = gtk+-3.0 ]\n')
    (tmp_path / "pkg-config").chmod(0o755)
    said = {need.name: need.missing() for need in NEEDS if need.suite}
    assert said["Apache and ab"] == "no ab"
    assert said["Mesa"] == "pkg-config knows no egl, no glesv2"
    assert said["GTK and Xvfb"] == "no Xvfb"


def test_either_name_of_a_program_is_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kdyno.measure.bench.ENVIRONMENT", {"PATH": str(tmp_path)})
    suites = load()
    web, pipe = suites["apachebench"].cases[0], find(suites, "unixbench").case("pipe")

    def lacking() -> tuple[str, ...]:
        nowhere = tmp_path / "programs"
        return equip([web, pipe], nowhere, None, tmp_path, None, lambda _text: None).lacking

    how = "are not installed: apt-get install apache2-bin apache2-utils"
    assert lacking() == (f"apache2 or httpd, ab, awk {how}", "")
    for name in ("httpd", "ab", "awk"):
        (tmp_path / name).touch(0o755)
    assert lacking() == ("", "")


def test_without_any_program_every_such_case_says_what_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kdyno.measure.bench.ENVIRONMENT", {"PATH": str(tmp_path)})
    suites = load()
    cases = [it for suite in suites.values() for it in suite.cases if it.program]
    native = suites["unixbench"].case("pipe")
    found = equip([*cases, native], tmp_path / "programs", tmp_path, tmp_path, None, print)
    assert found.lacking[-1] == ""
    for case, why in zip(cases, found.lacking, strict=False):
        assert why.endswith(f"not installed: apt-get install {case.install}"), case
    told = {f"{case.suite}": why for case, why in zip(cases, found.lacking, strict=False)}
    assert told["fio"] == "fio is not installed: apt-get install fio"
    assert told["hackbench"] == "hackbench is not installed: apt-get install rt-tests"
    assert "apt-get install apache2-bin apache2-utils" in told["apachebench"]
