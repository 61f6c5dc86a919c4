# SPDX-License-Identifier: MIT
"""A run folder that somebody sent: to go on with it runs nothing of its maker's outside."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from command_line import EXPERIMENT, Kdyno, kdyno
from fake_tree import make_repository, make_tree

from kdyno.errors import UsageError
from kdyno.labs.vectorize.verb import profile_of
from kdyno.store.manifest import CaseInfo, Manifest
from kdyno.store.run import create_run

__all__ = ["kdyno"]

pytestmark = pytest.mark.needs("sandbox")


@pytest.fixture
def sent(tmp_path: Path) -> Path:
    """An interrupted run whose source, filter, hook and compiler leave a mark."""
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\n(echo ran > {tmp_path}/mark) 2>&-\necho gcc 12\n")
    program.chmod(0o755)
    tree = make_tree(tmp_path / "linux")
    with (tree / "Kconfig").open("a") as kconfig:
        kconfig.write("config 64BIT\n\tdef_bool y\n")
    (tree / ".gitattributes").write_text("* filter=it\n")
    make_repository(tree)
    (tree / ".git/config").write_text(
        f"[core]\n\tfsmonitor = {program}\n\thooksPath = {tmp_path}\n"
        f'[filter "it"]\n\tsmudge = {program}\n\tclean = {program}\n\tprocess = {program}\n'
    )
    text = EXPERIMENT.replace('cflags = "-O3"', f'compiler = "{program}"')
    manifest = Manifest(
        tool="0.1.0", created="2026-01-01T00:00:00", experiment="tiny", baseline="stock", seed=1,
        cases=(CaseInfo(suite="unixbench", case="pipe", unit="loops/s", better="higher"),),
        state="interrupted", stopped="interrupted: terminated",
        origin=str(tmp_path / "tiny.toml"),
    )  # fmt: skip
    with create_run(tmp_path / "runs", text, manifest) as writer:
        return writer.run.path


@pytest.fixture
def with_a_guest(guest_build: Path, tmp_path: Path) -> None:
    """A cache that has the guest program: compiling it is not what is tried."""
    folder = tmp_path / "cache" / "guest"
    folder.mkdir(parents=True)
    (folder / guest_build.name).symlink_to(guest_build)


def with_source(sent: Path, kind: str) -> Path:
    """The folder of the run's maker; the run's source lies there."""
    place, file = sent.parent.parent, sent / "experiment.toml"
    source = f"{kind}:{place / 'linux'}"
    file.write_text(file.read_text().replace("debian:linux-source-7.3", source))
    return place


@pytest.mark.slow
@pytest.mark.usefixtures("with_a_guest")
@pytest.mark.parametrize("kind", ["path", "git"])
@pytest.mark.parametrize("verb", [("run", "--yes", "--resume"), ("profile", "--yes")], ids=" ".join)
def test_to_go_on_with_it_runs_nothing_outside(
    kdyno: Kdyno, sent: Path, kind: str, verb: tuple[str, ...]
) -> None:
    place = with_source(sent, kind)
    result = kdyno(*verb, sent, "--no-wait")
    # A profile comes as far as the build; whoever goes on sees before that it is another run.
    assert result.status == (1 if verb[0] == "profile" else 2), result
    assert not (place / "mark").exists()


QUESTION = "was not begun by you on this machine"


@pytest.mark.parametrize(
    "words",
    [
        ("run", "--resume"),
        ("profile",),
        ("profile", "--method", "gprof"),
        ("profile", "--method", "count"),
        ("profile", "--annotate", "main"),
        ("profile", "--no-sandbox"),
    ],
    ids=" ".join,
)
def test_nothing_of_it_is_built_before_somebody_agrees(
    kdyno: Kdyno, sent: Path, words: tuple[str, ...]
) -> None:
    """Not even read: its source is a git repository with programs of its maker's."""
    place = with_source(sent, "git")
    result = kdyno(*words, sent, "--no-wait")
    assert result.status == 2 and QUESTION in result.err, result
    assert f"git:{place / 'linux'}" in result.err and f"{place / 'program'}" in result.err
    outside = "OUTSIDE OF ANY SANDBOX" in result.err
    assert outside == ("--no-sandbox" in words)
    assert not (place / "mark").exists() and not (place / "cache").exists()


def test_boxes_and_commands_outside_of_any_sandbox_are_among_what_it_takes(
    kdyno: Kdyno, sent: Path
) -> None:
    box = '[machine]\nkind = "box"\nhost = "rack1"\n[box]\npower = "power off rack1"\n'
    file = sent / "experiment.toml"
    variants = "".join(
        f'[variant.{name}]\nimage = "debian:linux-image-{release}amd64"\n'
        for name, release in (("stock", ""), ("mine", "6.12-"))
    )
    suite = '[[suite]]\nname = "unixbench"\ncases = ["pipe"]\n'
    file.write_text(f'name = "tiny"\nbaseline = "stock"\n{box}{variants}{suite}')
    result = kdyno("run", "--resume", sent)
    assert result.status == 2 and QUESTION in result.err, result
    assert "  box       rack1, as root: its kernel is replaced\n" in result.err
    assert "  shell     power off rack1, OUTSIDE OF ANY SANDBOX, as you\n" in result.err


def test_what_it_has_is_shown_without_a_question(kdyno: Kdyno, sent: Path) -> None:
    result = kdyno("profile", sent, "--show")
    assert result.status == 2 and "has no profile" in result.err and QUESTION not in result.err


@pytest.mark.slow
def test_who_agreed_once_or_began_it_is_not_asked(kdyno: Kdyno, sent: Path) -> None:
    with_source(sent, "path")  # a small tree, nothing to unpack
    text = (sent / "experiment.toml").read_text()
    compiler = str(sent.parent.parent / "program")
    (sent / "experiment.toml").write_text(text.replace(compiler, "no-such-compiler"))
    for yes in (("--yes",), ()):
        result = kdyno("profile", sent, "--no-wait", *yes)
        assert result.status in (1, 2) and QUESTION not in result.err, result


@pytest.mark.parametrize("what", ["link", "pipe"])
def test_a_profile_that_is_none_is_not_opened(sent: Path, what: str) -> None:
    outside = sent.parent.parent / "outside"
    outside.write_text('{"schema": 1}')
    file = sent / "profile/stock.json"
    file.parent.mkdir()
    if what == "link":
        file.symlink_to(outside)
    else:
        os.mkfifo(file)
    with pytest.raises(UsageError, match="has no profile"):
        profile_of(str(sent), sent.parent)
