# SPDX-License-Identifier: MIT
"""Archives and package lists that somebody made for whoever unpacks and believes them."""

from __future__ import annotations

import gzip
import io
import shutil
import stat
import tarfile
from hashlib import sha256
from pathlib import Path

import pytest
from fake_tree import make_tree
from test_sources import cache, got, site, tree

from kdyno.errors import KdynoError, ToolError
from kdyno.kernels.source import Tree, fetch, parse
from kdyno.kernels.sources import debian
from kdyno.kernels.sources.debian import Entry, PrivateApt

__all__ = ["cache", "site", "tree"]

pytestmark = pytest.mark.needs("sandbox")


@pytest.fixture
def precious(tmp_path: Path) -> Path:
    file = tmp_path / "precious"
    file.write_text("as it was\n")
    return file


def unpacked(folder: Path, *members: tuple[tarfile.TarInfo, bytes]) -> Tree:
    """The source of an archive with these members behind those of a good one."""
    archive = folder / "linux.tar"
    with tarfile.open(archive, "w") as packed:
        packed.add(make_tree(folder / "linux"), "linux")
        for member, content in members:
            member.size = len(content)
            packed.addfile(member, io.BytesIO(content))
    return fetch(parse(f"tar:{archive}"), folder / "cache", lambda _text, _part: None)


def member(
    name: str, type_: bytes = tarfile.REGTYPE, to: str = "", mode: int = 0o644
) -> tarfile.TarInfo:
    result = tarfile.TarInfo(name)
    result.type, result.linkname, result.mode = type_, to, mode
    return result


@pytest.mark.parametrize("way", ["absolute", "upwards"])
def test_a_hard_link_to_a_file_of_the_host_is_none(
    tmp_path: Path, precious: Path, way: str
) -> None:
    to = str(precious) if way == "absolute" else "../" * 20 + str(precious)
    link = member("linux/lib/out", tarfile.LNKTYPE, to)
    through = (member("linux/lib/out"), b"written through it\n")
    with pytest.raises(KdynoError, match=r"refused|cannot be unpacked"):
        unpacked(tmp_path, (link, b""), through)
    assert precious.read_text() == "as it was\n" and precious.stat().st_nlink == 1


def test_a_file_behind_a_link_of_the_same_archive_is_not_written(
    tmp_path: Path, precious: Path
) -> None:
    link = member("linux/lib/out", tarfile.SYMTYPE, str(tmp_path))
    with pytest.raises(KdynoError):
        unpacked(tmp_path, (link, b""), (member("linux/lib/out/precious"), b"other"))
    assert precious.read_text() == "as it was\n"


@pytest.mark.parametrize(
    "odd",
    [
        member("linux/lib/pipe", tarfile.FIFOTYPE),
        member("linux/lib/null", tarfile.CHRTYPE),
        member("linux/lib/disk", tarfile.BLKTYPE),
        member("linux/lib/out", tarfile.SYMTYPE, "/etc/passwd"),
        member("linux/lib/out", tarfile.SYMTYPE, "../../../outside"),
        member("linux/lib/../../../outside"),
        member("/linux/outside"),
        member("linux/Makefile", tarfile.SYMTYPE, "/dev/zero"),
        member("linux/lib/line\nend"),
    ],
    ids=lambda value: f"{value.type!r}-{value.name!r}",
)
def test_what_has_no_place_in_a_source_is_refused(tmp_path: Path, odd: tarfile.TarInfo) -> None:
    reasons = r"outside its own|leads out of|neither file|line end|cannot be unpacked|it lacks"
    with pytest.raises(KdynoError, match=reasons):
        unpacked(tmp_path, (odd, b""))
    assert not list((tmp_path / "cache").glob("trees/*"))
    assert not [path for path in tmp_path.rglob("outside") if "cache" not in path.parts]


def test_a_link_that_leads_out_through_another_one_is_refused(tmp_path: Path) -> None:
    deep = "d/" * 14
    up = member(f"linux/{deep}up", tarfile.SYMTYPE, "../" * 14)  # the top of the tree
    out = member("linux/out", tarfile.SYMTYPE, f"{deep}up/{'../' * 14}{tmp_path}")
    with pytest.raises(KdynoError, match=r"the link 'out' leads out of the tree"):
        unpacked(tmp_path, (up, b""), (out, b""))


def test_no_file_of_an_archive_runs_as_its_owner(tmp_path: Path) -> None:
    tree = unpacked(tmp_path, (member("linux/scripts/tool", mode=0o6755), b"#!/bin/sh\n"))
    kept = [tree.path / "scripts/tool", *(path for path in tree.path.rglob("*") if path.is_file())]
    assert (tree.path / "scripts/tool").stat().st_mode & 0o777 == 0o755
    assert all(each.stat().st_mode & (stat.S_ISUID | stat.S_ISGID) == 0 for each in kept)


def repository(folder: Path) -> Path:
    """What apt takes for an archive, but for the signature."""
    packages = (
        b"Package: linux-source-9.9\nVersion: 1\nArchitecture: all\nFilename: x.deb\nSize: 1\n"
    )
    below = folder / "dists/suite/main/binary-all"
    below.mkdir(parents=True)
    (below / "Packages").write_bytes(packages)
    (below / "Packages.gz").write_bytes(gzip.compress(packages, mtime=0))
    place = "main/binary-all"
    lines = "".join(
        f" {sha256(path.read_bytes()).hexdigest()} {path.stat().st_size} {place}/{path.name}\n"
        for path in sorted(below.iterdir())
    )
    release = (
        f"Suite: suite\nCodename: suite\nArchitectures: all\nComponents: main\nSHA256:\n{lines}"
    )
    (folder / "dists/suite/Release").write_text(release)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("signed", ["not", "by nonsense"])
@pytest.mark.skipif(
    shutil.which("apt-get") is None, reason="no apt-get: debian: sources are refused here"
)
def test_a_package_list_that_is_not_debians_is_refused(
    tmp_path: Path, signed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = repository(tmp_path / "archive")
    if signed == "by nonsense":
        (place / "dists/suite/Release.gpg").write_text("-----BEGIN PGP SIGNATURE-----\n")
    keyring = tmp_path / "keyring.gpg"
    keyring.write_bytes(b"")
    monkeypatch.setattr(debian, "_KEYRING", keyring)
    apt = PrivateApt(tmp_path / "home", [Entry(f"file:{place}", "suite")])
    with pytest.raises(ToolError, match=r"not signed|isn't signed|NO_PUBKEY|signature"):
        apt.update(lambda _text, _part: None)
    assert apt.newest("linux-source-9.9") is None


def test_a_wrong_checksum_is_refused_and_nothing_is_kept(site: Path, cache: Path) -> None:
    shutil.copy(site / "linux-7.3.4.tar.xz", site / "linux-7.3.tar.xz")
    with pytest.raises(ToolError, match="wrong checksum"):
        got("kernel.org:7.3", cache)
    assert not list((cache / "trees").iterdir())
