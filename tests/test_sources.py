# SPDX-License-Identifier: MIT
"""Every kind of source becomes the same pristine tree, once, and is found again; killed, cut short,
hostile, full, and two at once: never a tree that is not whole."""

from __future__ import annotations

import errno
import resource
import shutil
import signal
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from functools import partial
from hashlib import sha256
from http.client import HTTPResponse
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from fake_tree import FakeApt, commit, git, make_deb, make_repository, make_tar, make_tree
from needed import need
from toy_kernel import write_files

from kdyno import whole as files
from kdyno.errors import ToolError, UsageError
from kdyno.kernels.source import SourceSpec, Tree, fetch, parse
from kdyno.kernels.sources import debian
from kdyno.kernels.sources.tree import CANONICAL_MTIME_S, manifest_lines


def got(source: str, cache: Path, texts: list[str] | None = None, *, refresh: bool = False) -> Tree:
    """texts: gets what the fetch reports."""
    seen: list[str] = [] if texts is None else texts
    return fetch(parse(source), cache, lambda text, _part: seen.append(text), refresh=refresh)


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return make_tree(tmp_path / "linux-7.3.4")


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("debian:linux-source-7.3", SourceSpec("debian", "linux-source-7.3")),
        ("tar:/a b/x.tar.xz", SourceSpec("tar", "/a b/x.tar.xz")),
        ("git:/src/linux", SourceSpec("git", "/src/linux", "HEAD")),
        ("git:https://e.org/x.git#v7.3-rc1", SourceSpec("git", "https://e.org/x.git", "v7.3-rc1")),
        ("git:me@e.org:x.git#HEAD~2", SourceSpec("git", "me@e.org:x.git", "HEAD~2")),
        ("kernel.org:6.12.3", SourceSpec("kernel.org", "6.12.3")),
        ("path:/src", SourceSpec("path", "/src")),
    ],
)
def test_sources_are_taken_apart(text: str, spec: SourceSpec) -> None:
    assert parse(text) == spec


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("linux", "does not begin with a kind"),
        ("debain:x", "Did you mean debian:"),
        ("tar:", "nothing after the colon"),
        ("path:a\0b", "control character"),
        ("debian:-o=x", "not a Debian package name"),
        ("debian:a b", "not a Debian package name"),
        ("kernel.org:6", "not a kernel release"),
        ("kernel.org:../../x", "not a kernel release"),
        ("git:#v1", "lacks its folder"),
        ("git:/src#", "lacks its folder"),
        ("git:--upload-pack=x", "must not begin with '-'"),
        ("git:/src#--output=x", "is not a branch, tag or commit"),
        ("git:/src#a:b", "is not a branch, tag or commit"),
        ("git:ext::sh -c x", "over https, http, ssh, git, file"),
        ("git:ftp://e.org/x", "over https, http, ssh, git, file"),
    ],
)
def test_sources_that_cannot_be_are_refused(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse(text)


@pytest.mark.parametrize("suffix", ["tar", "tar.xz", "tar.gz", "tar.bz2", "tar.zst"])
def test_tar(tmp_path: Path, tree: Path, cache: Path, suffix: str) -> None:
    need(*{"tar.zst": ["zstd"], "tar.bz2": ["bzip2"]}.get(suffix, []))
    file = make_tar(tree, tmp_path / f"x.{suffix}")
    trees = got(f"tar:{file}", cache)
    assert trees.version == "7.3.4"
    assert (trees.path / "lib/sort.c").read_text() == (tree / "lib/sort.c").read_text()
    assert (trees.path / "scripts/run.sh").stat().st_mode & 0o777 == 0o755
    assert (trees.path / "lib/sort.c").stat().st_mtime == CANONICAL_MTIME_S
    manifest = trees.manifest()
    assert len(manifest) == 12
    assert manifest["scripts/run.sh"].endswith(" 755")
    assert manifest["lib/link.h"].endswith(" link")
    assert manifest["lib/empty.h"].split()[0] == "cae66941d9efbd404e4d88758ea67670"
    file.touch()
    texts: list[str] = []
    assert got(f"tar:{file}", cache, texts) == trees
    assert not [text for text in texts if text.startswith("unpacking")]


@pytest.mark.slow
def test_all_kinds_give_one_manifest(tmp_path: Path, tree: Path, cache: Path) -> None:
    trees = [got(f"tar:{make_tar(tree, tmp_path / 'x.tar')}", cache), got(f"path:{tree}", cache)]
    make_repository(tree)
    trees += [got(f"git:{tree}", cache), got(f"path:{tree}", cache)]
    assert [each.manifest() for each in trees[1:]] == [trees[0].manifest()] * 3
    assert trees[1].digest == trees[3].digest
    assert len({one.digest for one in trees}) == 3


def test_an_archive_without_a_top_folder(tmp_path: Path, tree: Path, cache: Path) -> None:
    file = tmp_path / "flat.tar"
    subprocess.run(["tar", "-C", str(tree), "-cf", str(file), "."], check=True)
    assert got(f"tar:{file}", cache).version == "7.3.4"


@pytest.mark.slow
def test_git_takes_any_ref_and_only_what_is_committed(tree: Path, cache: Path) -> None:
    head = make_repository(tree)
    (tree / "lib/sort.c").write_text("changed\n")
    trees = [got(f"git:{tree}{ref}", cache) for ref in ("", "#main", "#v7.3.4", f"#{head[:10]}")]
    trees.append(got(f"git:{tree / 'lib'}", cache))  # which lies in the repository
    assert len({one.path for one in trees}) == 1
    assert "changed" not in (trees[0].path / "lib/sort.c").read_text()
    assert trees[0].digest == git(tree, "rev-parse", "HEAD^{tree}")
    with pytest.raises(UsageError, match=r"no branch, tag or commit 'nowhere'\. .*: main, v7"):
        got(f"git:{tree}#nowhere", cache)


@pytest.mark.slow
def test_commits_with_the_same_files_keep_their_own_names(tree: Path, cache: Path) -> None:
    first = make_repository(tree)
    git(tree, "commit", "-q", "--allow-empty", "-m", "two")
    second = git(tree, "rev-parse", "HEAD")
    for source in (f"git:{tree}#", f"git:file://{tree}#"):
        trees = {ref: got(f"{source}{ref}", cache) for ref in (first, second, first)}
        assert len({each.path for each in trees.values()}) == 1
        assert all(f"commit {ref[:12]}" in each.description for ref, each in trees.items())


@pytest.mark.slow
@pytest.mark.parametrize("ref", ["main", "v7.3.4", "COMMIT", "main^{tree}~0", "v7.3", "HEAD"])
def test_git_url(tree: Path, cache: Path, ref: str) -> None:
    head = make_repository(tree)
    source = f"git:file://{tree}#{ref.replace('COMMIT', head)}"
    if "tree" in ref or ref == "v7.3":
        with pytest.raises(UsageError, match="the repository has no"):
            got(source, cache)
        return
    trees = got(source, cache)
    assert trees.version == "7.3.4"
    tree.rename(tree.with_name("gone"))  # what was fetched once needs no network
    assert got(source, cache) == trees
    with pytest.raises((ToolError, UsageError)):
        got(source, cache, refresh=True)


@pytest.mark.slow
def test_git_url_moves_only_when_asked(tree: Path, cache: Path) -> None:
    make_repository(tree)
    source = f"git:file://{tree}#main"
    first = got(source, cache)
    (tree / "lib/sort.c").write_text("int sort;\n")
    commit(tree, "two")
    assert got(source, cache) == first
    second = got(source, cache, refresh=True)
    assert second.digest != first.digest and got(source, cache) == second


@pytest.mark.slow
def test_path_leaves_build_products_out(tree: Path, cache: Path) -> None:
    clean = got(f"path:{tree}", cache).digest
    products = ("lib/sort.o", "vmlinux", ".config", "include/generated/a.h", "lib/.sort.o.cmd")
    write_files(tree, dict.fromkeys((*products, "scripts/fixdep", "scripts/.fixdep.cmd"), "x"))
    assert got(f"path:{tree}", cache).digest == clean
    write_files(tree, {"lib/new.c": "x", "include/linux/config.h": "x"})
    names = got(f"path:{tree}", cache).manifest().keys()
    assert {"lib/new.c", "include/linux/config.h"} < names and "scripts/fixdep" not in names


@pytest.mark.slow
def test_path_of_a_checkout_is_what_git_could_track(tree: Path, cache: Path) -> None:
    make_repository(tree)
    (tree / ".gitignore").write_text("*.o\n")
    (tree / "lib/sort.o").write_text("ignored")
    (tree / "lib/new.c").write_text("untracked")
    (tree / "lib/sort.c").unlink()
    names = got(f"path:{tree}", cache).manifest().keys()
    assert "lib/new.c" in names
    assert not {"lib/sort.o", "lib/sort.c", ".git/HEAD"} & names


def test_path_sees_changes_and_keeps_the_old_snapshot(tree: Path, cache: Path) -> None:
    first = got(f"path:{tree}", cache)
    (tree / "lib/sort.c").chmod(0o755)
    second = got(f"path:{tree}", cache)
    (tree / "lib/sort.c").write_text("x" * len((tree / "lib/sort.c").read_text()))
    third = got(f"path:{tree}", cache)
    assert len({first.digest, second.digest, third.digest}) == 3
    assert "return 1" in (first.path / "lib/sort.c").read_text()


def test_path_of_old_files_is_recognised_without_reading(
    tree: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kdyno.kernels.source._SETTLED_NS", -(10**12))  # as if the files were old
    texts: list[str] = []
    first = got(f"path:{tree}", cache, texts)
    assert texts
    texts.clear()
    assert got(f"path:{tree}", cache, texts) == first and texts == []


def test_path_that_changes_while_it_is_read(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make_tree(tmp_path / "100%" / "linux")

    def gone(root: Path, *more: Any) -> list[str]:
        (root / "Kbuild").unlink()
        return manifest_lines(root, *more)

    monkeypatch.setattr("kdyno.kernels.sources.tree.manifest_lines", gone)
    message = r"100%/linux changed while it was read \(at .*Kbuild\)\. Run the command again"
    with pytest.raises(ToolError, match=message):
        got(f"path:{folder}", cache)


class Site(SimpleHTTPRequestHandler):
    """A kernel site that breaks off after 100 bytes of files whose names end in ``cut``."""

    cut = "none"
    length = ""
    requests: list[str] = []  # noqa: RUF012 - one per test, set there

    def copyfile(self, source: Any, outputfile: Any) -> None:
        outputfile.write(source.read(100 if self.path.endswith(self.cut) else None))

    def send_header(self, keyword: str, value: str) -> None:
        odd = keyword == "Content-Length" and self.path.endswith(".xz")
        super().send_header(keyword, self.length or value if odd else value)

    def log_message(self, *_words: Any) -> None:
        self.requests.append(self.path)


@pytest.fixture
def site(tmp_path: Path, tree: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The site's folder for 7.x releases, with 7.3.4 in it."""
    folder = tmp_path / "site" / "v7.x"
    folder.mkdir(parents=True)
    packed = make_tar(tree, folder / "linux-7.3.4.tar.xz")
    lines = [f"{sha256(packed.read_bytes()).hexdigest()}  linux-7.3.4.tar.xz"]
    lines += [f"{'0' * 64}  linux-7.{minor}.tar.xz" for minor in (1, 2, 3)]
    (folder / "sha256sums.asc").write_text("-----BEGIN\n" + "\n".join(lines) + "\n")
    monkeypatch.setattr(Site, "requests", [])
    monkeypatch.setenv("no_proxy", "*")
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Site, directory=str(folder.parent))) as on:
        Thread(target=on.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        monkeypatch.setenv("KDYNO_KERNEL_ORG", f"http://127.0.0.1:{on.server_port}")
        yield folder
        on.shutdown()


def test_a_release_is_verified_unpacked_and_then_needs_no_network(site: Path, cache: Path) -> None:
    trees = got("kernel.org:7.3.4", cache)
    assert trees.version == "7.3.4"
    count = len(Site.requests)
    assert got("kernel.org:7.3.4", cache, refresh=True) == trees
    assert len(Site.requests) == count


@pytest.mark.parametrize(
    ("version", "message"),
    [
        ("7.3.5", r"no release 7\.3\.5\. Nearest: 7\.1, 7\.2, 7\.3, 7\.3\.4"),
        ("8.1", "Is there such a major version"),
        ("7.4-rc1", "release candidate"),
    ],
)
def test_a_release_that_is_not_there(site: Path, cache: Path, version: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        got(f"kernel.org:{version}", cache)


@pytest.mark.parametrize(
    ("cut", "message"),
    [
        (".xz", r"linux-7\.3\.4\.tar\.xz broke off after 100 of \d+ bytes"),
        (".asc", r"v7\.x/sha256sums\.asc broke off: \d+ bytes are missing\. Run"),
    ],
)
def test_a_download_that_breaks_off(
    site: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, cut: str, message: str
) -> None:
    with monkeypatch.context() as broken, pytest.raises(ToolError, match=message):
        broken.setattr(Site, "cut", cut)
        got("kernel.org:7.3.4", cache)
    assert not list((cache / "trees").glob("*"))
    assert got("kernel.org:7.3.4", cache).version == "7.3.4"


def test_a_route_that_is_lost_is_no_fault_of_the_cache(
    site: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = HTTPResponse.read

    def lost(response: HTTPResponse, amount: int) -> bytes:
        if amount < 1 << 20:  # of the archive, which comes in parts
            raise OSError(errno.EHOSTUNREACH, "No route to host")
        return read(response, amount)

    monkeypatch.setattr(HTTPResponse, "read", lost)
    with pytest.raises(
        ToolError, match=r"linux-7\.3\.4\.tar\.xz broke off after 0 of [\d,]+ bytes"
    ):
        got("kernel.org:7.3.4", cache)


@pytest.mark.parametrize("length", ["\xb2", "9" * 5000, "-1"])
def test_a_length_that_is_no_number_is_none(
    site: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, length: str
) -> None:
    monkeypatch.setattr(Site, "length", length)
    assert got("kernel.org:7.3.4", cache).version == "7.3.4"


def test_a_site_that_is_not_there(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KDYNO_KERNEL_ORG", "http://127.0.0.1:9/none")
    monkeypatch.setenv("no_proxy", "*")
    with pytest.raises(ToolError, match="cannot reach http://127"):
        got("kernel.org:7.3.4", cache)


# argv: source, cache, N. Fetches, and kills itself at the Nth thing that it tells; prints how
# many things it told.
KILLED = """
import os, signal, sys
from pathlib import Path
from kdyno.kernels.source import fetch, parse
told = 0
def progress(text, fraction):
    global told
    told += 1
    if told == int(sys.argv[3]):
        os.kill(os.getpid(), signal.SIGKILL)
fetch(parse(sys.argv[1]), Path(sys.argv[2]), progress)
print(told)
"""

# argv: source, cache. Says what it does on stdout; while unpacking it waits for a line on stdin.
SLOW = """
import sys
from pathlib import Path
from kdyno.kernels.source import fetch, parse
def progress(text, fraction):
    print(text, flush=True)
    if text.startswith("unpacking"):
        sys.stdin.readline()
print("got", fetch(parse(sys.argv[1]), Path(sys.argv[2]), progress).path, flush=True)
"""


def sources(folder: Path, tree: Path) -> dict[str, str]:
    """The tree as each kind of source of this machine."""
    packed = make_tar(tree, folder / "x.tar.xz")
    make_repository(tree)
    return {"tar": f"tar:{packed}", "path": f"path:{tree}", "git": f"git:{tree}"}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["tar", "path", "git"])
def test_a_fetch_killed_anywhere_leaves_nothing(tmp_path: Path, tree: Path, kind: str) -> None:
    source = {**sources(tmp_path, tree), "git": f"git:file://{tree}#main"}[kind]
    whole = got(source, tmp_path / "whole").manifest()
    for step in range(1, 20):
        cache = tmp_path / f"cache{step}"
        argv = [sys.executable, "-c", KILLED, source, str(cache), str(step)]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            assert step > 2  # it was killed at least twice before it told everything
            break
        assert done.returncode == -signal.SIGKILL, done.stderr
        trees = got(source, cache)
        assert trees.manifest() == whole
        assert [entry.name for entry in (cache / "trees").iterdir()] == [trees.path.parent.name]
    else:
        pytest.fail("the fetch never ended")


@pytest.mark.parametrize("record", ["{", "{}"])
def test_a_tree_without_its_record_is_made_again(tree: Path, cache: Path, record: str) -> None:
    trees = got(f"path:{tree}", cache)
    (trees.path.parent / "tree.json").write_text(record)
    (trees.path / "lib/sort.c").unlink()
    again = got(f"path:{tree}", cache)
    assert (again.path / "lib/sort.c").is_file()


@pytest.mark.slow
def test_fetches_of_one_source_take_turns(tmp_path: Path, tree: Path, cache: Path) -> None:
    source = f"tar:{make_tar(tree, tmp_path / 'x.tar')}"
    argv = [sys.executable, "-c", SLOW, source, str(cache)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(argv, **pipes) as first:  # type: ignore[call-overload]
        next(line for line in first.stdout if line.startswith("unpacking"))
        with subprocess.Popen(argv, **pipes) as second:  # type: ignore[call-overload]
            waiting = next(line for line in second.stdout if line.startswith("waiting"))
            assert f"another kdyno (process {first.pid}) is fetching tar-" in waiting
            first.stdin.write("\n" * 50)
            first.stdin.close()
            rest = second.stdout.read()
            assert "unpacking" not in rest
            assert rest.splitlines()[-1] == first.stdout.read().splitlines()[-1]


@pytest.mark.parametrize("cut", ["tar.xz", "tar.gz", "tar", "tar between two members", "no tar"])
def test_an_archive_that_is_cut_short(tmp_path: Path, tree: Path, cache: Path, cut: str) -> None:
    file = make_tar(tree, tmp_path / f"x.{cut.split()[0] if cut != 'no tar' else 'tar'}")
    content = file.read_bytes()
    end = len(content) // 3 + 200
    if cut == "tar between two members":
        with tarfile.open(file) as archive:
            end = archive.getmembers()[-1].offset
    file.write_bytes(content[:end] if cut != "no tar" else b"not found\n")
    with pytest.raises(UsageError, match="damaged, cut short or no tar archive"):
        got(f"tar:{file}", cache)
    assert not list((cache / "trees").iterdir())


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("tar:{}/nowhere.tar", "does not exist"),
        ("tar:{}", "is a folder: write path:"),
        ("path:{}/Makefile", "is a file: write tar:"),
    ],
)
def test_what_is_absent_or_of_another_kind(
    tree: Path, cache: Path, source: str, message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        got(source.format(tree), cache)


@pytest.mark.parametrize(
    ("gone", "message"),
    [
        ("Makefile", "lacks Makefile"),
        ("Kbuild", "lacks Kbuild"),
        ("arch", "lacks arch/"),
        ("VERSION", "lacks VERSION and PATCHLEVEL in Makefile"),
    ],
)
def test_source_that_is_no_kernel(tree: Path, cache: Path, gone: str, message: str) -> None:
    if gone == "VERSION":
        (tree / "Makefile").write_text("all:\n\ttrue\n")
    else:
        shutil.rmtree(tree / gone) if (tree / gone).is_dir() else (tree / gone).unlink()
    for source in (f"path:{tree}", f"tar:{make_tar(tree, tree.with_suffix('.tar'))}"):
        with pytest.raises(UsageError, match=f"is not a kernel source: it {message}"):
            got(source, cache)
    assert not list((cache / "trees").glob("*"))


def test_a_disk_without_room_is_told_before_anything_is_written(
    tmp_path: Path, tree: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = make_tar(tree, tmp_path / "x.tar.xz")
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: usage._replace(free=1000))
    lack = r"no space left in .* \(1 kB free, about \d+ kB needed.*KDYNO_CACHE"
    for source in (f"tar:{file}", f"path:{tree}"):
        with pytest.raises(ToolError, match=lack):
            got(source, cache)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["tar", "path", "git"])
def test_a_disk_that_fills_up(tmp_path: Path, tree: Path, cache: Path, kind: str) -> None:
    # A limit on file size fails where a full disk fails, without root or a mount.
    (tree / "lib/large.c").write_bytes(b"/* large */\n" * 20_000)
    source = sources(tmp_path, tree)[kind]
    argv = [sys.executable, "-c", KILLED, source, str(cache), "0"]
    limit = partial(resource.setrlimit, resource.RLIMIT_FSIZE, (64 << 10, 64 << 10))
    done = subprocess.run(argv, capture_output=True, text=True, check=False, preexec_fn=limit)
    assert "MB free, about 2,000 MB needed, or a quota or limit is reached)" in done.stderr
    assert not list((cache / "trees").iterdir())
    assert got(source, cache).version == "7.3.4"


def test_a_cache_that_cannot_be_written(tmp_path: Path, tree: Path) -> None:
    blocked = tmp_path / "blocked"
    blocked.write_text("a file where the cache should be")
    with pytest.raises(ToolError, match="KDYNO_CACHE names another cache folder"):
        got(f"path:{tree}", blocked)
    where = tmp_path / "kdyno"
    for file, words in ((where / "x", True), (tmp_path, True), (tree / "Makefile", False)):
        with pytest.raises(ToolError) as refusal, files.cache_errors(where):
            raise PermissionError(13, "Permission denied", str(file))
        assert str(refusal.value).startswith(f"cannot write or read {file}: Permission denied")
        assert ("KDYNO_CACHE" in str(refusal.value)) is words


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


@pytest.mark.slow
@pytest.mark.needs("dpkg-deb")
def test_a_package_is_fetched_once(
    tmp_path: Path, tree: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, name = tmp_path / "package", "linux-source-7.3"
    (root / "usr/src").mkdir(parents=True)
    make_tar(tree, root / f"usr/src/{name}.tar.xz")
    packages = {name: ["7.3.4-1"]}
    apt = FakeApt(monkeypatch, make_deb(root, name, "7.3.4-1"), packages)
    first = got(f"debian:{name}", cache)
    assert got(f"debian:{name}", cache) == first
    assert apt.updates == 1
    assert got(f"debian:{name}", cache, refresh=True) == first  # nothing newer
    packages[name] = ["7.3.5-1"]
    assert got(f"debian:{name}", cache) == first
    second = got(f"debian:{name}", cache, refresh=True)
    assert second != first
    assert got(f"debian:{name}", cache) == second
    assert apt.updates == 3
    absent = r"no package linux-source-7\.2\. Did you mean linux-source-7\.3"
    with pytest.raises(UsageError, match=absent):
        got("debian:linux-source-7.2", cache)
    with pytest.raises(UsageError, match=r"as 7\.3\.5-1, not as 7\.3\.1-1\. .* is a tar:FILE: "):
        got(f"debian:{name}=7.3.1-1", cache)
