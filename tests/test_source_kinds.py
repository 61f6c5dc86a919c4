# SPDX-License-Identifier: MIT
"""Every kind of source becomes the same pristine tree, once, and is found again."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from functools import partial
from hashlib import sha256
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from fake_tree import make_repository, make_tar, make_tree
from needed import need

from kdyno.errors import ToolError, UsageError
from kdyno.kernels import source
from kdyno.kernels.source import SourceSpec, Tree, fetch, parse
from kdyno.kernels.sources.tree import CANONICAL_MTIME_S


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


def revision(tree: Path, name: str) -> str:
    argv = ["git", "-C", str(tree), "rev-parse", name]
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip()


def test_git_takes_any_ref_and_only_what_is_committed(tree: Path, cache: Path) -> None:
    commit = make_repository(tree)
    (tree / "lib/sort.c").write_text("changed\n")
    trees = [got(f"git:{tree}{ref}", cache) for ref in ("", "#main", "#v7.3.4", f"#{commit[:10]}")]
    assert len({one.path for one in trees}) == 1
    assert "changed" not in (trees[0].path / "lib/sort.c").read_text()
    assert trees[0].digest == revision(tree, "HEAD^{tree}")
    with pytest.raises(UsageError, match=r"no branch, tag or commit 'nowhere'\. .*: main, v7"):
        got(f"git:{tree}#nowhere", cache)


@pytest.mark.parametrize("ref", ["main", "v7.3.4", "COMMIT", "main^{tree}~0", "HEAD"])
def test_git_url(tree: Path, cache: Path, ref: str) -> None:
    commit = make_repository(tree)
    source = f"git:file://{tree}#{ref.replace('COMMIT', commit)}"
    if "tree" in ref:
        with pytest.raises(UsageError, match="the repository has no"):
            got(source, cache)
        return
    trees = got(source, cache)
    assert trees.version == "7.3.4"
    tree.rename(tree.with_name("gone"))  # what was fetched once needs no network
    assert got(source, cache) == trees
    with pytest.raises((ToolError, UsageError)):
        got(source, cache, refresh=True)


def test_git_url_moves_only_when_asked(tree: Path, cache: Path) -> None:
    make_repository(tree)
    source = f"git:file://{tree}#main"
    first = got(source, cache)
    (tree / "lib/sort.c").write_text("int sort;\n")
    git = ["git", "-C", str(tree), "-c", "user.name=T", "-c", "user.email=t@example.org"]
    subprocess.run([*git, "commit", "-qam", "two"], check=True)
    assert got(source, cache) == first
    second = got(source, cache, refresh=True)
    assert second.digest != first.digest and got(source, cache) == second


def test_path_leaves_build_products_out(tree: Path, cache: Path) -> None:
    def write(*names: str) -> None:
        for name in names:
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            (tree / name).write_text(name)

    clean = got(f"path:{tree}", cache).digest
    write("lib/sort.o", "vmlinux", ".config", "include/generated/a.h", "lib/.sort.o.cmd")
    write("scripts/fixdep", "scripts/.fixdep.cmd")
    assert got(f"path:{tree}", cache).digest == clean
    write("lib/new.c", "include/linux/config.h")
    names = got(f"path:{tree}", cache).manifest().keys()
    assert {"lib/new.c", "include/linux/config.h"} < names and "scripts/fixdep" not in names


def test_path_of_a_checkout_is_what_git_could_track(tree: Path, cache: Path) -> None:
    make_repository(tree)
    (tree / ".gitignore").write_text("*.o\n")
    (tree / "lib/sort.o").write_text("ignored")
    (tree / "lib/new.c").write_text("untracked")
    (tree / "lib/sort.c").unlink()
    names = got(f"path:{tree}", cache).manifest().keys()
    assert "lib/new.c" in names
    assert not {"lib/sort.o", "lib/sort.c", ".git/HEAD"} & names


def test_path_sees_a_changed_mode_and_content_and_keeps_the_old_snapshot(
    tree: Path, cache: Path
) -> None:
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
    monkeypatch.setattr(source, "_SETTLED_NS", -(10**12))  # as if the files were old
    texts: list[str] = []
    first = got(f"path:{tree}", cache, texts)
    assert texts
    texts.clear()
    assert got(f"path:{tree}", cache, texts) == first and texts == []


class Site(SimpleHTTPRequestHandler):
    """A kernel site that breaks off after ``cut_after`` bytes."""

    cut_after: int | None = None
    requests: list[str] = []  # noqa: RUF012 - one per test, set there

    def do_GET(self) -> None:
        self.requests.append(self.path)
        file = Path(self.translate_path(self.path))
        if not file.is_file():
            self.send_error(404)
            return
        content = file.read_bytes()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[: self.cut_after if self.path.endswith(".xz") else None])

    def log_message(self, *_words: Any) -> None:
        pass


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
    monkeypatch.setattr(Site, "cut_after", None)
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


def test_a_download_that_breaks_off_leaves_nothing(
    site: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Site, "cut_after", 100)
    with pytest.raises(ToolError, match=r"linux-7\.3\.4\.tar\.xz broke off after 100 of \d+ bytes"):
        got("kernel.org:7.3.4", cache)
    assert not list((cache / "trees").iterdir())
    monkeypatch.setattr(Site, "cut_after", None)
    assert got("kernel.org:7.3.4", cache).version == "7.3.4"


def test_a_site_that_is_not_there(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KDYNO_KERNEL_ORG", "http://127.0.0.1:9/none")
    monkeypatch.setenv("no_proxy", "*")
    with pytest.raises(ToolError, match="cannot reach http://127"):
        got("kernel.org:7.3.4", cache)
