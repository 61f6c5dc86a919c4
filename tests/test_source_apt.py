# SPDX-License-Identifier: MIT
"""The machine's apt configuration, read as apt reads it; a package without a network."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from fake_tree import make_tar, make_tree
from needed import need

from kdyno.errors import ToolError, UsageError
from kdyno.kernels.source import fetch, parse
from kdyno.kernels.sources import debian

MIRROR = "http://mirror.example/debian"
SECURITY = "http://mirror.example/debian-security"
DEB822 = f"""Types: deb deb-src
URIs: {MIRROR}/
Suites: bookworm bookworm-updates
Components: main contrib

Types: deb
URIs: {SECURITY}
Suites:
 bookworm-security
Components: main

Enabled: no
Types: deb
URIs: http://off.example/debian
Suites: bookworm
Components: main
"""
LIST = """# deb http://commented.example/debian bookworm main
deb http://other.example/tool stable tool
deb http://cloud.example/apt cloud-sdk-bookworm main
"""


@pytest.mark.needs("apt-get")
def test_the_machine_s_own_suites_come_first_then_the_newer_ones(tmp_path: Path) -> None:
    (tmp_path / "sources.list.d").mkdir()
    (tmp_path / "sources.list").write_text(LIST)
    (tmp_path / "sources.list.d" / "debian.sources").write_text(DEB822)
    (tmp_path / "sources.list.d" / "off.list.disabled").write_text("deb http://x bookworm main")
    entries = debian.read_entries(tmp_path)
    own = [
        debian.Entry(MIRROR, "bookworm"),
        debian.Entry(MIRROR, "bookworm-updates"),
        debian.Entry(SECURITY, "bookworm-security"),
    ]
    assert set(entries) == {*own, debian.Entry("http://cloud.example/apt", "cloud-sdk-bookworm")}
    later = ("trixie-backports", "bookworm-backports", "trixie")
    groups = debian.groups(entries, "bookworm")
    assert groups == [tuple(own), *((debian.Entry(MIRROR, suite),) for suite in later)]


def test_a_machine_without_a_debian_mirror_is_told_what_else_there_is() -> None:
    entries = [debian.Entry("http://x.example/ubuntu", "noble")]
    with pytest.raises(ToolError, match=r"Use kernel\.org:, tar:, git: or path: instead"):
        debian.groups(entries, "bookworm")


class FakeApt:
    """One suite with one package, whose .deb is packed by dpkg-deb."""

    suites = "fake"

    def __init__(self, deb: Path, version: str) -> None:
        self.deb, self.version = deb, version
        self.updates = 0

    def update(self, _progress: object) -> None:
        self.updates += 1

    def newest(self, package: str) -> str | None:
        return self.version if package == "linux-source-7.3" else None

    def names(self, _start: str) -> list[str]:
        return ["linux-source-7.3"]

    def download(self, _package: str, _version: str, into: Path, _progress: object) -> Path:
        target = into / self.deb.name
        target.write_bytes(self.deb.read_bytes())
        return target


def make_deb(folder: Path) -> Path:
    tree = make_tree(folder / "linux-source-7.3")
    root = folder / "package"
    (root / "usr/src").mkdir(parents=True)
    (root / "DEBIAN").mkdir()
    (root / "DEBIAN/control").write_text(
        "Package: linux-source-7.3\nVersion: 7.3.4-1\nArchitecture: all\n"
        "Maintainer: T <t@example.org>\nDescription: toy\n"
    )
    make_tar(tree, root / "usr/src/linux-source-7.3.tar.xz")
    deb = folder / "linux-source-7.3_7.3.4-1_all.deb"
    subprocess.run(
        ["dpkg-deb", "-Zgzip", "-b", str(root), str(deb)], check=True, capture_output=True
    )
    return deb


def test_a_package_is_fetched_once_and_updated_when_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    need("dpkg-deb")
    fake = FakeApt(make_deb(tmp_path), "7.3.4-1")
    monkeypatch.setattr(debian, "read_entries", lambda: [])
    monkeypatch.setattr(debian, "groups", lambda _entries, _codename: [()])
    monkeypatch.setattr(debian, "PrivateApt", lambda _home, _group: fake)
    spec, cache = parse("debian:linux-source-7.3"), tmp_path / "cache"

    def got(refresh: bool = False) -> object:
        return fetch(spec, cache, lambda _text, _fraction: None, refresh=refresh)

    first = got()
    assert got() == first
    assert fake.updates == 1
    assert got(refresh=True) == first  # nothing newer
    fake.version = "7.3.5-1"
    assert got() == first
    second = got(refresh=True)
    assert second != first
    assert got() == second
    assert fake.updates == 3
    with pytest.raises(
        UsageError, match=r"no package linux-source-7\.2\. Did you mean linux-source-7\.3"
    ):
        fetch(parse("debian:linux-source-7.2"), cache, lambda _text, _fraction: None)
