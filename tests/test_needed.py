# SPDX-License-Identifier: MIT
"""What tests need is what set-up installs, and a test that lacks it says so."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from needed import PACKAGES

from kdyno.cli.needs import NEEDS

TESTS = Path(__file__).parent
SETUP = (TESTS.parent / "setup.sh").read_text()
ESSENTIAL = {"dpkg"}
"""No Debian is without it."""
LACKING = """\
import needed
import pytest
needed.PACKAGES = {"no-such-program": "such-a-package"}
@pytest.mark.needs("no-such-program")
def test_marked(): raise AssertionError
def test_asking(): needed.need("no-such-program")
def test_another_cpu(): pytest.skip("this CPU has no wings")
"""


def listed(name: str) -> set[str]:
    """The packages of one list of setup.sh."""
    found = re.search(rf'^{name}="([^"]*)"$', SETUP, re.M)
    assert found
    return set(found[1].split())


def test_set_up_installs_what_tests_need() -> None:
    installed = listed("packages") | listed("suites") | listed("tests") | ESSENTIAL
    assert {package for package in PACKAGES.values() if package} - installed == set()
    assert not listed("packages") & (listed("suites") | listed("tests"))


def test_set_up_installs_what_the_suites_run() -> None:
    wanted = " ".join(need.packages["debian"] for need in NEEDS if need.suite)
    assert listed("suites") == set(wanted.split())


@pytest.mark.slow
@pytest.mark.parametrize("complete", [True, False])
def test_what_is_lacking_fails_where_all_must_be_there(complete: bool, tmp_path: Path) -> None:
    (tmp_path / "test_lacking.py").write_text(LACKING)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = needs(programs): x\n")
    options = ["--complete"] if complete else []
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "conftest", "--skips", "skips", *options],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(TESTS), "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
    )
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
