# SPDX-License-Identifier: MIT
"""Unix sockets of the host, pipes and links, in folders that the sandbox is handed as a whole."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from arms import Arm, both

from kdyno.sandbox import GUEST, VIEWS, Sandbox, View, _entered, confined, named

pytestmark = pytest.mark.needs("sandbox", "gcc")

WAYS = {"stream", "stream-with-flags", "datagram", "upper-half"}
WAYS |= {"pair-of-datagrams", "pair-connected-anew", "pair-raw"}
"""Those that any kernel has; i386, io_uring and vsock may be left out of one."""
SOURCE = Path(__file__).parent / "from_inside.c"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("sockets") / "from_inside"
    options = ["-Wall", "-Wextra", "-Werror", "-static", "-no-pie"]
    subprocess.run(["gcc", *options, "-o", str(file), str(SOURCE)], check=True)
    return file


@contextmanager
def services(folder: Path) -> Iterator[list[str]]:
    """A stream and a datagram socket in ``folder`` that everybody may write to; their files."""
    files = [folder / "stream", folder / "datagram"]
    with socket.socket(socket.AF_UNIX) as stream, datagrams() as datagram:
        for one, file in zip((stream, datagram), files, strict=True):
            one.bind(str(file))
            file.chmod(0o777)
        stream.listen(64)
        yield [str(file) for file in files]


def datagrams() -> socket.socket:
    return socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)


def reached(message: str) -> set[str]:
    return {line.removeprefix("REACHED ") for line in message.splitlines() if "REACHED" in line}


@pytest.mark.parametrize("view", VIEWS, ids=lambda view: view.name)
@both
def test_no_socket_in_a_folder_is_reached(arm: Arm, view: View, program: Path) -> None:
    # Each view with its own numbers, and a /proc or none: the filter is in all of them.
    with arm.place() as folder, services(folder) as files:
        copy = folder / "from_inside"
        copy.write_bytes(program.read_bytes())
        copy.chmod(0o755)
        outside = subprocess.run([str(copy), *files], capture_output=True, text=True, check=True)
        assert reached(outside.stdout) >= WAYS
        box = Sandbox(view, ((folder, str(folder)),))
        line = arm.sandboxed(box, f"{copy} {files[0]} {files[1]}")
        inside = subprocess.run(line, capture_output=True, text=True, check=True)
        assert inside.stdout.splitlines() == ["LEFT pairs", "LEFT internet", "LEFT netlink"]


def test_a_tool_reaches_none_either(tmp_path: Path, program: Path) -> None:
    with services(tmp_path) as files:
        line = confined([str(program), *files], reads=[tmp_path, program.parent])
        output = subprocess.run(line, capture_output=True, text=True, check=True).stdout
    assert reached(output) == set() and "LEFT pairs" in output


@pytest.mark.parametrize("content", [b"", b"\x06\0\0\0\0\0\xff\x7f"], ids=["empty", "allow-all"])
def test_a_filter_that_was_changed_is_made_again(
    content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KDYNO_CACHE", str(tmp_path))  # others open the one of this machine
    file = Path(Sandbox(GUEST).argv(["true"])[3])
    right = file.read_bytes()
    file.write_bytes(content)
    assert Path(Sandbox(GUEST).argv(["true"])[3]).read_bytes() == right != content


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """Not in /tmp, which no command line's names lead into."""
    with Arm(root=os.geteuid() == 0).place() as folder:
        yield folder


def test_what_is_neither_file_nor_folder_is_not_handed_in(place: Path) -> None:
    os.mkfifo(place / "pipe")
    (place / "file").write_text("x")
    with services(place) as files:
        assert named(["cat", str(place / "pipe"), *files]) == ()
    assert named(["cat", str(place / "file")]) == ((place / "file", str(place / "file")),)


def test_what_a_link_leads_to_elsewhere_is_not_handed_in(place: Path) -> None:
    sent, other = place / "sent", place / "other"
    for folder in (sent, other):
        folder.mkdir()
    (other / "secret").write_text("x")
    (other / "tool").write_text("#!/bin/sh\n")
    (other / "tool").chmod(0o755)
    (sent / "real").write_text("x")
    for name, to in {
        "file": other / "secret",
        "upwards": Path("../other/secret"),
        "folder": other,
        "tool": other / "tool",
        "circle": Path("circle"),
        "service": Path("/run"),
        "beside": Path("real"),
        "system": Path("/usr/bin"),
    }.items():
        (sent / name).symlink_to(to)
    names = ("file", "upwards", "folder", "folder/secret", "tool", "circle", "service")
    for name in names:
        assert named(["cat", f"{sent}/{name}"]) == (), name
        assert named(["sh", "-c", f"cat < {sent}/{name}"]) == (), name
    for name in ("beside", "system"):
        assert named([f"{sent}/{name}"]) == ((sent / name, f"{sent}/{name}"),)


def test_services_by_their_other_name_are_not_handed_in() -> None:
    assert Path("/var/run").resolve() == Path("/run")
    assert named([f"/var/run/{path.name}" for path in Path("/run").iterdir()]) == ()
    assert named(["/var/run", "/var/lock"]) == ()


@pytest.mark.parametrize("word", ["/root", "/home", "/var", "/var/lib", "/", "/home/..", "/root/."])
def test_a_home_is_not_handed_in_as_a_whole(word: str) -> None:
    assert named(["ls", word], ["sh", "-c", f"tar c {word} > x"]) == ()


def test_ones_own_home_is_not_either(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = place / "me"
    (home / "data").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    assert named([str(home)], [str(place)]) == ()
    assert named([str(home / "data")]) == ((home / "data", str(home / "data")),)


@pytest.mark.parametrize("root", [True, False])
def test_a_closed_folder_is_not_opened_for_a_name(
    place: Path, monkeypatch: pytest.MonkeyPatch, root: bool
) -> None:
    # An ordinary user's sandbox opens it with that user's rights, and needs none of root's.
    closed = place / "closed"
    closed.mkdir(mode=0o700)
    (closed / "file").write_text("x")
    monkeypatch.setattr(os, "geteuid", lambda: 0 if root else 1000)
    assert named([str(closed)]) == (() if root else ((closed, str(closed)),))


@both
def test_a_link_in_a_closed_folder_shows_nothing(arm: Arm) -> None:
    with arm.place() as folder:
        closed, other = folder / "closed", folder / "other"
        for each in (closed, other):
            each.mkdir()
            os.chown(each, arm.uid, arm.uid)
        (other / "secret").write_text("a secret\n")
        (closed / "file").write_text("a file\n")
        (closed / "link").symlink_to(other)
        (closed / "beside").symlink_to("file")
        closed.chmod(0o700)
        if not arm.root:
            os.chown(closed / "file", arm.uid, arm.uid)
        box = replace(Sandbox(GUEST), read_only=((closed, "/tmp/closed"),))
        script = "cat /tmp/closed/link/secret; cat /tmp/closed/beside"
        done = subprocess.run(arm.sandboxed(box, script), capture_output=True, text=True)
        assert done.stdout == "a file\n", done
        assert all(
            option == "--symlink" or "link" not in source
            for option, source, _ in _entered(closed, "/x", closed_too=True)
        )
