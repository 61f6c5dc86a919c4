# SPDX-License-Identifier: MIT
"""A run's files as archives in a store, and archives that others made."""

from __future__ import annotations

import gzip
import tarfile
from pathlib import Path

import pytest
from site_runs import at_once, small

from kdyno.errors import ToolError
from kdyno.store.database.push import pack, unpack


def files(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not path.name.startswith(".")
    }


def test_many_boots_are_several_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    at_once(monkeypatch)
    run = small(tmp_path / "runs")
    whole = pack(run.path)
    monkeypatch.setattr("kdyno.store.database.push._PART_BYTES", 4000)
    packed = pack(run.path)
    assert len(packed.parts) >= 3 and packed.digest == whole.digest
    into = tmp_path / "into"
    written = [unpack(part, into) for part in packed.parts]
    assert files(into) == files(run.path)
    assert tuple(map(sum, zip(*written, strict=True))) == (packed.files, packed.size_bytes)


def member(name: str, data: bytes = b"", **about: object) -> bytes:
    """As it lies in an archive; ``size`` may be another than the data's."""
    info = tarfile.TarInfo(name)
    info.size = len(data)
    for key, value in about.items():
        setattr(info, key, value)
    return info.tobuf(tarfile.GNU_FORMAT) + data.ljust(-(-len(data) // 512) * 512, b"\0")


@pytest.mark.parametrize(
    "name", ["/etc/x", "../x", "a/../x", "a/b/c/d", ".lock", "boots/.tmp-1/x", ""]
)
def test_an_archive_of_others_writes_nowhere_else(tmp_path: Path, name: str) -> None:
    into = tmp_path / "into"
    into.mkdir()
    with pytest.raises(ToolError, match="an archive of a run holds"):
        unpack(gzip.compress(member(name, b"1"), 1), into)
    assert list(into.iterdir()) == [] and list(tmp_path.iterdir()) == [into]


PAX = {"type": tarfile.XHDTYPE}


@pytest.mark.parametrize(
    "plain",
    [
        # A header may give a size below 0: Python's own reader goes round in a circle for ever.
        member("a", b"1") + member("b", size=-1536),
        member("p", b"14 size=-1024\n", **PAX) + member("a", b"1"),
        # Some bytes that say that they are a file of a terabyte.
        member("a", type=tarfile.GNUTYPE_SPARSE, size=1 << 40),
        member("p", b"22 GNU.sparse.major=1\n", **PAX) + member("a", b"1"),
        member("a", size=1 << 33),
        # Names and contents twice over.
        member("a", b"1") + member("a", b"2"),
        member("a", b"1") + member("a/b", b"2"),
        member("p", b"18 path=../outside\n", **PAX) + member("a", b"1"),
        member("p", b"99999999 path=a\n", **PAX) + member("a", b"1"),
        member("p", b"-9 path=a\n", **PAX) + member("a", b"1"),
        member("p", b"0 path=a\n", **PAX) + member("a", b"1"),
        member("p", b"9 path=a\n", **PAX) * 3000 + member("a", b"1"),
        member("a", type=tarfile.SYMTYPE, linkname="/etc/passwd"),
        member("a", type=tarfile.DIRTYPE),
        member("a" * 90 + "/" + "b", b"1")[:300],
        member("é" * 49 + "/x", b"1") + b"x" * 512,
    ],
)
def test_an_archive_that_kdyno_did_not_write(tmp_path: Path, plain: bytes) -> None:
    into = tmp_path / "into"
    into.mkdir()
    with pytest.raises(ToolError, match=r"^an archive of a run (holds|is damaged)"):
        unpack(gzip.compress(plain, 1), into)
    assert list(tmp_path.iterdir()) == [into]
    assert not any(it.is_symlink() for it in into.rglob("*"))


@pytest.mark.parametrize("name", ["n" * 200, "a" * 99 + "/" + "b" * 101, "é\udcff x", "boots/é/x"])
def test_names_that_do_not_fit_into_an_archives_header(tmp_path: Path, name: str) -> None:
    run = tmp_path / "run"
    (run / name).parent.mkdir(parents=True)
    (run / name).write_bytes(b"1")
    packed = pack(run)
    assert unpack(packed.parts[0], tmp_path / "into") == (1, 1)
    assert files(tmp_path / "into") == {name: b"1"}


@pytest.mark.slow
def test_an_archive_that_is_none(tmp_path: Path) -> None:
    for data in (b"", b"x" * 100, gzip.compress(b"x" * 100)[:-5], gzip.compress(bytes(1 << 27))):
        with pytest.raises(ToolError, match=r"archive of a run is (damaged|larger)"):
            unpack(data, tmp_path / "into")
