# SPDX-License-Identifier: MIT
"""What test files share: the command line, the guest program, built once; needs of the machine;
skips."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import needed
import pytest
from command_line import kdyno as kdyno
from hypothesis import settings

from kdyno import sandbox
from kdyno.machines.guest import guest_program
from kdyno.paths import data_root

# No test asserts a time, and a machine that does something else takes as long as it takes.
# `make test` tries more examples than `make check`.
settings.register_profile("quick", deadline=None, max_examples=40)
settings.register_profile("whole", deadline=None, max_examples=100)
settings.load_profile("quick")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--complete",
        action="store_true",
        help="what ./setup.sh --tests installs must be there: fail instead of skipping",
    )
    parser.addoption("--skips", metavar="FILE", help="append each skipped test and its reason")


def pytest_configure(config: pytest.Config) -> None:
    needed.complete = config.getoption("--complete")
    if needed.complete:
        settings.load_profile("whole")


@pytest.hookimpl(trylast=True)  # of what -m leaves
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files by what they wait for, each kind spread over the whole: those under User Mode Linux for
    each other to be measured, those in QEMU for a CPU, and the others are what one does meanwhile.
    """
    kinds = {"others": dict[Path, None](), "measured": {}, "emulated": {}}
    for item in items:
        marks = {mark.name for mark in item.iter_markers()}
        kind = "emulated" if marks & {"box", "qemu"} else "measured" if "uml" in marks else "others"
        kinds[kind][item.path] = None
    # A file with tests of several kinds is of the last.
    places = {
        path: (at / len(kind), path) for kind in kinds.values() for at, path in enumerate(kind)
    }
    items.sort(key=lambda item: places[item.path])


def pytest_runtest_setup(item: pytest.Item) -> None:
    for marker in item.iter_markers("needs"):
        needed.need(*marker.args)


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    file = config.getoption("--skips")
    if file and not hasattr(config, "workerinput"):  # each worker has a summary of its own, too
        with Path(file).open("a", encoding="utf-8") as skips:
            for report in terminalreporter.stats.get("skipped", []):
                reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else "?"
                skips.write(f"{report.nodeid}: {reason.removeprefix('Skipped: ')}\n")


@pytest.fixture(scope="session", autouse=True)
def _no_waiting_for_the_disk() -> Iterator[None]:
    """What is written is there for every process; only a machine that dies would lose it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _descriptor: None)
        yield


@pytest.fixture(autouse=True)
def _state(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a person began is kept in a folder of the test's own; nobody has waived the sandbox."""
    monkeypatch.setattr(sandbox, "_waived", False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))


@pytest.fixture(scope="session")
def guest_build() -> Path:
    """The folder that `make -C guest` fills, named by the digest of its sources. It stays in
    build/: compiling it takes longer than any test, and seldom has something new to compile."""
    return guest_program(data_root() / "build" / "tests", 64).parent


@pytest.fixture(scope="session", params=["64", "32"])
def program(guest_build: Path, request: pytest.FixtureRequest) -> Path:
    """The guest program in each word size that this machine can build."""
    path = guest_build / f"kdyno-guest-{request.param}"
    if not path.exists():
        assert request.param == "32"
        needed.lack("this toolchain does not link -m32 -static: apt-get install gcc-multilib")
    return path
