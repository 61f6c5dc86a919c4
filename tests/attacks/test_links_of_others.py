# SPDX-License-Identifier: MIT
"""Links that somebody planted where kdyno is told to write."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from arms import Arm, both
from command_line import Kdyno, kdyno, stored, verdict

from kdyno import whole
from kdyno.errors import UsageError
from kdyno.report.site import build

__all__ = ["kdyno"]

STRANGER = 60999
"""Nobody's number; where an ordinary user starts the tests, ``lstat`` answers in its place."""


def planted(link: Path, to: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A link of another user's."""
    link.symlink_to(to)
    if os.geteuid() == 0:
        os.lchown(link, STRANGER, STRANGER)
        return
    real = Path.lstat

    def seen(path: Path) -> os.stat_result:
        result = real(path)
        if path != link:
            return result
        fields = list(result)
        fields[4] = STRANGER
        return os.stat_result(fields)

    monkeypatch.setattr(Path, "lstat", seen)


@pytest.mark.parametrize("way", ["file", "folder", "chain", "dangling"])
def test_a_link_of_another_user_is_not_written_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    precious = mine / "precious"
    precious.write_text("as it was\n")
    shared = tmp_path / "shared"
    shared.mkdir()
    to = {"folder": mine, "dangling": mine / "new"}.get(way, precious)
    planted(shared / "link", to, monkeypatch)
    out = shared / "link" / "precious" if way == "folder" else shared / "link"
    if way == "chain":
        out = tmp_path / "own"
        out.symlink_to(shared / "link")
    for call in (lambda: whole.write(out, b"other"), lambda: whole.check(out)):
        with pytest.raises(PermissionError, match="is a link of another user's"):
            call()
    assert precious.read_text() == "as it was\n"
    assert sorted(path.name for path in mine.iterdir()) == ["precious"]


def test_the_message_names_the_link(
    kdyno: Kdyno, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = stored(tmp_path / "runs", verdict())
    planted(tmp_path / "out.md", tmp_path / "elsewhere", monkeypatch)
    output = kdyno("report", run.name, "--format", "md", "-o", tmp_path / "out.md")
    assert output.status != 0 and "is a link of another user's" in output.err
    assert not (tmp_path / "elsewhere").exists()


def test_ones_own_links_lead_where_they_lead(tmp_path: Path) -> None:
    (tmp_path / "to").mkdir()
    (tmp_path / "link").symlink_to("to")
    (tmp_path / "to" / "up").symlink_to("../to/../file")
    whole.write(tmp_path / "link" / "up", b"x")
    assert (tmp_path / "file").read_bytes() == b"x"
    (tmp_path / "circle").symlink_to("circle")
    with pytest.raises(OSError, match="Too many levels"):
        whole.write(tmp_path / "circle", b"x")


@pytest.mark.parametrize("name", ["index.html", ".lock", "runs/r.html", "history", ".data/r.json"])
def test_a_site_is_not_written_through_a_link(tmp_path: Path, name: str) -> None:
    # Of whomever: a site that was sent and unpacked is one's own, and so are its links.
    site, other = tmp_path / "site", tmp_path / "other"
    build.prepare(site)
    (site / build.MARKER).write_text("{}")
    other.mkdir()
    precious = other / "precious"
    precious.write_text("as it was\n")
    if name == "history":
        (site / name).rmdir()
    (site / name).symlink_to(other if name == "history" else precious)
    with pytest.raises(UsageError, match=r"is a link, and a site of kdyno has none"):
        build.prepare(site)
    assert precious.read_text() == "as it was\n"


def test_a_lock_is_not_taken_through_a_link(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("as it was\n")
    (tmp_path / ".lock").symlink_to(precious)
    with pytest.raises(OSError), whole.locked(tmp_path / ".lock"):
        pytest.fail("it is held")
    assert precious.read_text() == "as it was\n"


@both
def test_really_with_two_users(arm: Arm) -> None:
    """In a folder like /tmp, whose own protection of links some machines switch off."""
    program = (
        "import sys; from pathlib import Path; from kdyno import whole\n"
        "try: whole.write(Path(sys.argv[1]), b'other')\n"
        "except OSError as problem: print(problem.strerror)"
    )
    with arm.place() as folder:
        shared = folder / "shared"
        shared.mkdir()
        shared.chmod(0o777)
        precious = folder / "precious"
        precious.write_text("as it was\n")
        os.chown(precious, arm.uid, arm.uid)
        (shared / "out").symlink_to(precious)
        stranger = os.geteuid() == 0
        if stranger:
            os.lchown(shared / "out", STRANGER, STRANGER)
        argv = arm.python("-c", program, str(shared / "out"))
        output = subprocess.run(argv, capture_output=True, text=True).stdout
        assert ("is a link of another user's" in output) == stranger
        assert precious.read_text() == ("as it was\n" if stranger else "other")
