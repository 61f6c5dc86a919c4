# SPDX-License-Identifier: MIT
"""A guest's userland, without a mirror: what is requested of mmdebstrap, what guests see of it, and
what cannot go together."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from needed import need
from test_host_scripts import tool

from kdyno import sandbox
from kdyno.errors import ToolError, UsageError
from kdyno.experiment.loader import parse
from kdyno.kernels.sources import debian
from kdyno.machines import emulator, qemu, userland
from kdyno.machines.kinds import KINDS
from kdyno.machines.machine import Method
from kdyno.machines.qemu import Chance
from kdyno.measure.bench import check_cases, equip
from kdyno.measure.builder import Recipes
from kdyno.measure.vocabulary import vocabulary
from kdyno.suites.catalogue import load
from kdyno.suites.job import CaseJob, Job

SUITES = load()
TEXT = """
name = "x"
baseline = "a"
[kernel]
source = "debian:linux-source-7.3"
[variant.a]
arch = "i386"
[variant.b]
arch = "x86_64"
[variant.c]
arch = "x86_64"
programs = "64-bit"
[machine]
kind = "qemu"
userland = "debian:bookworm/i386"
[[suite]]
name = "xbench"
"""
MADE = """
printf '%s\\n' "$@" >"$REQUESTED"
for word; do case $word in *.tar) archive=$word ;; esac; done
work=$(mktemp -d)
mkdir -p "$work/usr/bin" "$work/etc/apt/apt.conf.d" "$work/dev" "$work/var/lib/dpkg"
for word; do case $word in --aptopt=/*)
    cp "${word#--aptopt=}" "$work/etc/apt/apt.conf.d/99mmdebstrap" ;; esac; done
ln -s usr/bin "$work/bin"
ln -s /etc/alternatives/awk "$work/usr/bin/awk"
printf '#!' >"$work/usr/bin/fio"
chmod 4755 "$work/usr/bin/fio"
touch "$work/dev/null"
status="$work/var/lib/dpkg/status"
printf 'Package: fio\\nVersion: 3.33-3\\n\\nPackage: dash\\nVersion: 0.5\\n' >"$status"
tar -cf "$archive" -C "$work" .
rm -r "$work"
"""


@pytest.fixture
def requested(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A mmdebstrap that makes two packages of nothing; where it writes its command line."""
    (tmp_path / "bin").mkdir()
    tool(tmp_path / "bin", "mmdebstrap", MADE)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    monkeypatch.setenv("REQUESTED", str(tmp_path / "requested"))
    entries = [debian.Entry("http://mirror.example/debian", "bookworm")]
    monkeypatch.setattr(debian, "read_entries", lambda: entries)
    monkeypatch.setattr(debian, "codename", lambda: "bookworm")
    monkeypatch.setattr(debian, "own_settings", lambda: ['Acquire::Retries "3";'])
    return tmp_path / "requested"


def test_cases_bring_their_packages() -> None:
    xbench = SUITES["xbench"]
    assert userland.packages_of([xbench.case("cpu.gcd")]) == ()
    assert userland.packages_of([xbench.case("disk.random.read_4k")]) == ("fio",)
    fft = userland.packages_of([xbench.case("cpu.fft")])
    assert {"libfftw3-dev", "gcc", "make"} < set(fft) and "libgtk-3-dev" not in fft
    every = set(userland.packages_of(xbench.cases))
    assert {"fio", "xvfb", "libgtk-3-dev", "libcairo2-dev", "libgl1-mesa-dri"} < every


def test_programs_have_the_userlands_word_size() -> None:
    def bits(text: str) -> list[int]:
        experiment = parse(text, "x.toml", Path("/"), vocabulary(SUITES))
        return [variant.program_bits for variant in experiment.variants]

    assert bits(TEXT) == [32, 32, 64]
    assert bits(TEXT.replace("/i386", "/amd64")) == [64, 64, 64]


@pytest.mark.slow
def test_programs_of_a_word_size_that_nothing_has_are_refused(tmp_path: Path) -> None:
    for text, bits in ((TEXT, 32), (TEXT.replace("userland", "#").replace("64-bit", "32-bit"), 64)):
        for suite, refused in (("hackbench", True), ("unixbench", False)):
            own = text.replace('"xbench"', f'"{suite}"' + ('\ncases = ["pipe"]' * (not refused)))
            experiment = parse(own, "x.toml", Path("/"), vocabulary(SUITES))
            if not refused:
                check_cases(experiment, SUITES, tmp_path, Recipes({}, {}))
                continue
            with pytest.raises(UsageError, match=f"programs of c: .*programs of {bits} bits"):
                check_cases(experiment, SUITES, tmp_path, Recipes({}, {}))


@pytest.mark.slow
def test_it_is_made_once_of_the_release_alone(requested: Path, tmp_path: Path) -> None:
    cases, cache = [SUITES["xbench"].case("disk.random.read_4k")], tmp_path / "cache"

    def image_of() -> tuple[str, Path]:
        own = userland.userland("debian:trixie/i386", cases, cache, lambda _step, _part: None)
        return own.description, own.root

    description, root = image_of()
    words = requested.read_text(encoding="utf-8").splitlines()
    assert "--include=fio" in words and "--architectures=i386" in words and "--mode=auto" in words
    assert words[-3] == "trixie" and words[-1].endswith("http://mirror.example/debian trixie main")
    assert description.startswith("userland debian:trixie/i386, 2 packages (")
    assert not (root / "dev" / "null").exists()
    assert not [*(root / "etc/apt/apt.conf.d").iterdir()], "a proxy's password may be in it"
    assert (root / "usr/bin/fio").stat().st_mode & 0o7777 == 0o755
    scripts = {path.name for path in (root.parent).glob("guest-*/programs/*")}
    assert {"disk.sh", "tiobench.sh", "files.fio"} <= scripts
    assert not list(root.parent.glob("*.conf")) and not list(root.parent.glob("*.tar"))
    record = json.loads((root.parent / "userland.json").read_text(encoding="utf-8"))
    assert record["requested"] == ["fio"] and record["packages"] == 2
    requested.unlink()
    assert image_of() == (description, root) and not requested.exists()
    assert equip(cases, root, None, tmp_path, None, print, root).lacking == {}
    awk = SUITES["tiobench"].case("write")  # fio, awk by a link out of the root, and no df
    lacking = equip([awk, *cases], root, None, tmp_path, None, print, root).lacking
    assert "df is not installed" in lacking["tiobench/write"]


def test_a_mirror_that_fails_leaves_nothing(requested: Path, tmp_path: Path) -> None:
    tool(tmp_path / "bin", "mmdebstrap", "echo 'E: no such suite'; exit 25")
    with pytest.raises(ToolError, match=r"status 25(.|\n)*no such suite"):
        userland.userland("debian:none/i386", [], tmp_path / "cache", lambda _step, _part: None)
    assert not [path for path in (tmp_path / "cache/userlands").iterdir() if path.name[0] != "."]


def test_guests_see_it_and_not_this_machine(tmp_path: Path) -> None:
    (tmp_path / "usr").mkdir()
    (tmp_path / "bin").symlink_to("usr/bin")
    asking = Job((CaseJob("s", "c", "run", ("--", "sort")),))
    assert qemu.host_folders(asking, tmp_path) == ((tmp_path / "usr", "/usr"),)
    files = qemu.first_files(b"p", b"job", Chance.of(0), host=True, root=tmp_path)
    assert b"bin\0" in files and b"sbin\0" not in files


def test_a_sandbox_of_another_root(tmp_path: Path) -> None:
    need("sandbox")
    (tmp_path / "usr" / "bin").mkdir(parents=True)
    (tmp_path / "etc").mkdir()
    line = sandbox.Sandbox(sandbox.TOOL, root=tmp_path).argv(["true"])
    assert f"{tmp_path}/usr" in line and "/usr" in line
    assert ("--ro-bind", "/usr", "/usr") not in zip(line, line[1:], line[2:], strict=False)


def test_what_does_not_go_together(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="prepared with this machine's own programs"):
        userland.check_cases(SUITES["kernel-compile"].cases)
    method = Method(userland="debian:bookworm/i386")
    for kind in ("uml", "host"):
        with pytest.raises(UsageError, match='userland is of kind = "qemu"'):
            KINDS[kind].check(method)
    monkeypatch.setattr(emulator, "find", lambda: None)
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(ToolError, match=r"no mmdebstrap on PATH\. On Debian: apt-get install"):
        KINDS["qemu"].check(Method("instructions", userland="debian:bookworm/i386"))
