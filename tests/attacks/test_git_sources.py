# SPDX-License-Identifier: MIT
"""Folders of git's that were made to run a program, or to pass for a source that they are not.

Each tries to leave a mark on the host while its source is fetched.
"""

from __future__ import annotations

import hashlib
import shlex
import subprocess
import zlib
from collections.abc import Mapping
from pathlib import Path

import pytest
from fake_tree import make_repository, make_tree

from kdyno import sandbox
from kdyno.errors import KdynoError, ToolError, UsageError
from kdyno.kernels.source import Tree, fetch, parse
from kdyno.kernels.sources.git import first_parents

PROGRAM = "PROGRAM"
"""Stands for the program that leaves a mark."""
SORT = "int sort(void)\n{\n\treturn 1;\n}\n"


class Hostile:
    """A repository of a toy kernel, and a program that leaves a mark."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.tree = make_tree(folder / "linux")
        self.commit = make_repository(self.tree)
        self.git_folder = self.tree / ".git"
        self.mark = folder / "mark"
        self.program = folder / "program"
        self.program.write_text(f'#!/bin/sh\necho "$0" >> {shlex.quote(str(self.mark))}\ncat\n')
        self.program.chmod(0o755)
        self.cache = folder / "cache"

    def git(self, *words: str, stdin: bytes | None = None) -> str:
        argv = ["git", "-C", str(self.tree), "-c", "user.name=T", "-c", "user.email=t@e.org"]
        done = subprocess.run([*argv, *words], input=stdin, capture_output=True, check=True)
        return done.stdout.decode().strip()

    def set(self, settings: Mapping[str, str]) -> None:
        for name, value in settings.items():
            self.git("config", name, value.replace(PROGRAM, str(self.program)))

    def write(self, path: str, text: str) -> None:
        file = self.tree / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text.replace(PROGRAM, str(self.program)))
        file.chmod(0o755 if path.startswith(".git/hooks/") else 0o644)

    def commit_all(self) -> None:
        self.git("add", "-A")
        self.git("commit", "-qm", "more")
        self.commit = self.git("rev-parse", "HEAD")

    def got(self, source: str) -> Tree:
        return fetch(parse(source), self.cache, lambda _text, _part: None)


@pytest.fixture
def hostile(tmp_path: Path) -> Hostile:
    return Hostile(tmp_path)


SMUDGE = {"filter.evil.smudge": f"{PROGRAM} %f"}
EVERYWHERE = {".git/info/attributes": "* filter=evil\n"}
HOOKS = ("post-index-change", "reference-transaction", "post-checkout", "update")
WAYS: Mapping[str, tuple[Mapping[str, str], Mapping[str, str]]] = {
    "smudged by the tree": (
        {".gitattributes": "* filter=evil\n"},
        {**SMUDGE, "filter.evil.clean": PROGRAM},
    ),
    "smudged by the repository": (EVERYWHERE, {**SMUDGE, "filter.evil.process": PROGRAM}),
    "monitored": ({}, {"core.fsmonitor": PROGRAM}),
    "included": (
        {
            ".git/more": (
                f'[core]\n\tfsmonitor = {PROGRAM}\n[filter "evil"]\n\tsmudge = {PROGRAM}\n'
            ),
            **EVERYWHERE,
        },
        {"include.path": "more"},
    ),
    "hooked": (
        {f".git/hooks/{name}": f"#!/bin/sh\nexec {PROGRAM}\n" for name in HOOKS},
        {"core.hooksPath": ".git/hooks"},
    ),
    "handed out by a program": ({}, {"uploadpack.packObjectsHook": PROGRAM}),
    "fetched lazily": (
        {},
        {
            "core.repositoryFormatVersion": "1",
            "extensions.partialClone": "origin",
            "remote.origin.url": f"ext::{PROGRAM}",
            "remote.origin.promisor": "true",
            "remote.origin.uploadpack": PROGRAM,
            "protocol.ext.allow": "always",
        },
    ),
    "led elsewhere": (EVERYWHERE, {**SMUDGE, "core.fsmonitor": PROGRAM}),
}
"""Way → (files of the repository, its settings)."""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["git:", "git:file://", "path:"])
@pytest.mark.parametrize("way", WAYS)
def test_no_program_of_a_repository_runs_outside(hostile: Hostile, way: str, kind: str) -> None:
    files, settings = WAYS[way]
    for path, text in files.items():
        hostile.write(path, text)
    if ".gitattributes" in files:
        hostile.commit_all()
    if way == "fetched lazily":  # a store without one of its objects, which a program is to bring
        blob = hostile.git("rev-parse", "HEAD:lib/sort.c")
        (hostile.git_folder / "objects" / blob[:2] / blob[2:]).unlink()
    hostile.set(settings)
    if way == "led elsewhere":
        hostile.git_folder.rename(hostile.folder / "elsewhere")
        hostile.git_folder.write_text("gitdir: ../elsewhere\n")
    hostile.mark.unlink(missing_ok=True)  # left while it was prepared
    try:
        tree = hostile.got(f"{kind}{hostile.tree}")
    except KdynoError:
        assert way == "fetched lazily" and kind != "path:"
    else:
        assert (tree.path / "lib/sort.c").read_text() == SORT
    assert not hostile.mark.exists()


@pytest.mark.slow
@pytest.mark.parametrize("variable", ["GIT_DIR", "GIT_WORK_TREE", "GIT_OBJECT_DIRECTORY"])
def test_the_caller_is_itself_a_hook_of_git(
    hostile: Hostile, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, str(hostile.folder / "nowhere"))
    assert hostile.got(f"git:{hostile.tree}").version == "7.3.4"
    assert hostile.got(f"path:{hostile.tree}").version == "7.3.4"


@pytest.mark.slow
def test_settings_and_attributes_do_not_change_what_a_tree_holds(hostile: Hostile) -> None:
    hostile.write(".gitattributes", "lib/subst.c export-subst\n")
    hostile.write("lib/subst.c", "$Format:%H$\n")
    hostile.commit_all()
    hostile.write(".git/info/attributes", "lib/sort.c export-ignore\nMakefile eol=crlf\n")
    hostile.set({"core.autocrlf": "true", "core.eol": "crlf", "tar.umask": "0777"})
    tree = hostile.got(f"git:{hostile.tree}")
    assert tree.digest == hostile.git("rev-parse", "HEAD^{tree}")
    assert (tree.path / "lib/subst.c").read_text() == "$Format:%H$\n"
    assert (tree.path / "lib/sort.c").read_bytes() == SORT.encode()
    assert b"\r" not in (tree.path / "Makefile").read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["git:", "git:file://"])
@pytest.mark.parametrize("way", ["home", "settings", "named", "told", "counted"])
@pytest.mark.parametrize("line", ["* eol=crlf", "lib/sort.c export-ignore", "* filter=evil"])
def test_the_callers_attributes_do_not_change_what_a_tree_holds(
    hostile: Hostile, monkeypatch: pytest.MonkeyPatch, kind: str, way: str, line: str
) -> None:
    # The tree's hash names what lies in the cache, for runs of all users and machines.
    home = hostile.folder / "home"
    file = home / ("settings/git" if way == "settings" else ".config/git") / "attributes"
    file.parent.mkdir(parents=True)
    file.write_text(f"{line}\n")
    evil = f'[filter "evil"]\n\tsmudge = {hostile.program}\n'
    (home / ".gitconfig").write_text(evil)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    program = str(hostile.program)
    environment = {
        "home": {},
        "settings": {"XDG_CONFIG_HOME": str(home / "settings")},
        "named": {"GIT_CONFIG_GLOBAL": str(home / ".gitconfig")},
        "told": {
            "GIT_CONFIG_PARAMETERS": (
                f"'core.attributesFile'='{file}' 'filter.evil.smudge'='{program}'"
            )
        },
        "counted": {
            "GIT_CONFIG_COUNT": "2",
            "GIT_CONFIG_KEY_0": "core.attributesFile",
            "GIT_CONFIG_VALUE_0": str(file),
            "GIT_CONFIG_KEY_1": "filter.evil.smudge",
            "GIT_CONFIG_VALUE_1": program,
        },
    }
    for name, value in environment[way].items():
        monkeypatch.setenv(name, value)
    tree = hostile.got(f"{kind}{hostile.tree}")
    assert tree.digest == hostile.git("rev-parse", "HEAD^{tree}")
    assert (tree.path / "lib/sort.c").read_bytes() == SORT.encode()
    assert not hostile.mark.exists()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["git:", "git:file://", "path:"])
@pytest.mark.parametrize("url", ["ext::{program}", "file://{other}", "{other}", "--upload-pack=x"])
def test_a_submodule_is_an_empty_folder(
    hostile: Hostile, monkeypatch: pytest.MonkeyPatch, kind: str, url: str
) -> None:
    """Nothing is fetched for it, nothing of what it holds is taken, and no program of it runs."""
    other = hostile.folder / "other"
    subprocess.run(["git", "clone", "-q", str(hostile.tree), str(other)], check=True)
    subprocess.run(["git", "clone", "-q", str(other), str(hostile.tree / "sub")], check=True)
    inner = hostile.tree / "sub" / ".git" / "config"
    inner.write_text(f"{inner.read_text()}[core]\n\tfsmonitor = {hostile.program}\n")
    address = url.format(program=hostile.program, other=other)
    hostile.write(
        ".gitmodules",
        f'[submodule "sub"]\n\tpath = sub\n\turl = {address}\n\tupdate = !{hostile.program}\n'
        "\tfetchRecurseSubmodules = true\n",
    )
    hostile.git("-c", "core.fsmonitor=false", "add", "-A")
    hostile.git("commit", "-qm", "a submodule", "--no-verify")
    hostile.set({"submodule.sub.url": address, "submodule.sub.active": "true"})
    hostile.set({"submodule.recurse": "true", "fetch.recurseSubmodules": "true"})
    home = hostile.folder / "home"
    home.mkdir()
    (home / ".gitconfig").write_text(
        "[submodule]\n\trecurse = true\n[fetch]\n\trecurseSubmodules = true\n"
        "[protocol]\n\tallow = always\n"
    )
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    hostile.mark.unlink(missing_ok=True)  # left while it was prepared
    tree = hostile.got(f"{kind}{hostile.tree}")
    assert "sub/Makefile" not in tree.manifest() and ".gitmodules" in tree.manifest()
    assert not list((tree.path / "sub").glob("*"))
    assert not hostile.mark.exists()


@pytest.mark.slow
def test_a_replaced_commit_is_not_taken_for_the_one_that_it_replaces(hostile: Hostile) -> None:
    honest = hostile.git("rev-parse", "HEAD^{tree}")
    hostile.write("lib/sort.c", "hostile\n")
    hostile.commit_all()
    hostile.git("update-ref", "refs/heads/shown", "v7.3.4")
    hostile.git("replace", "v7.3.4", "HEAD")
    tree = hostile.got(f"git:{hostile.tree}#shown")
    assert tree.digest == honest
    assert (tree.path / "lib/sort.c").read_text() == SORT


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["git:", "git:file://"])
def test_an_object_that_lies_about_its_content_is_refused(hostile: Hostile, kind: str) -> None:
    # Other text under an honest hash would be found in the cache by everybody who asks for that.
    blob = hostile.git("rev-parse", "HEAD:lib/sort.c")
    store = hostile.git_folder / "objects" / blob[:2] / blob[2:]
    text = SORT.replace("1", "7").encode()
    store.chmod(0o644)
    store.write_bytes(zlib.compress(b"blob %d\0" % len(text) + text))
    with pytest.raises((ToolError, UsageError)):
        hostile.got(f"{kind}{hostile.tree}")
    assert not [path for path in (hostile.cache / "trees").glob("*") if path.name[0] != "."]


def test_an_index_cannot_lead_out_of_its_folder(hostile: Hostile) -> None:
    (hostile.folder / "secret").write_text("secret")
    hostile.write("zz/secret", "x")
    hostile.git("add", "-A")
    index = hostile.git_folder / "index"
    content = index.read_bytes()
    assert content.count(b"zz/secret") == 1
    index.write_bytes(_signed(content[:-20].replace(b"zz/secret", b"../secret")))
    with pytest.raises(UsageError, match=r"outside of it: '\.\./secret'|\.\./secret"):
        hostile.got(f"path:{hostile.tree}")


@pytest.mark.slow
def test_an_index_cannot_lead_through_a_link(hostile: Hostile) -> None:
    (hostile.folder / "elsewhere").mkdir()
    (hostile.folder / "elsewhere" / "secret").write_text("secret")
    hostile.write("within/secret", "x")
    hostile.git("add", "-A")
    (hostile.tree / "within/secret").unlink()
    (hostile.tree / "within").rmdir()
    (hostile.tree / "within").symlink_to("../elsewhere")
    hostile.git("update-index", "--add", "--info-only", "Makefile")
    with pytest.raises(UsageError, match="leads out of the tree"):
        hostile.got(f"path:{hostile.tree}")
    (hostile.tree / "within").unlink()
    (hostile.tree / "within").symlink_to("lib")
    assert "within/secret" not in hostile.got(f"path:{hostile.tree}").manifest()


@pytest.mark.slow
def test_a_work_tree_and_borrowed_objects_are_still_sources(hostile: Hostile) -> None:
    other = hostile.folder / "other"
    hostile.git("worktree", "add", "-q", "--detach", str(other))
    borrowed = hostile.folder / "borrowed"
    subprocess.run(["git", "clone", "-q", "--shared", str(hostile.tree), str(borrowed)], check=True)
    bare = hostile.folder / "bare.git"
    subprocess.run(
        ["git", "clone", "-q", "--bare", "--reference", str(borrowed), str(borrowed), str(bare)],
        check=True,
    )
    digests = {hostile.got(f"git:{each}").digest for each in (other, other / "lib", borrowed, bare)}
    assert digests == {hostile.git("rev-parse", "HEAD^{tree}")}
    assert len(hostile.got(f"path:{other}").manifest()) == 12


@pytest.mark.slow
def test_odd_words_of_a_repository_are_no_traceback(hostile: Hostile) -> None:
    hostile.write("lib/more.c", "x")
    hostile.commit_all()
    hostile.set({"i18n.logOutputEncoding": "UTF-16"})
    assert [each.title for each in first_parents(hostile.tree, "HEAD~1..HEAD")] == ["more"]
    info = hostile.git_folder / "objects" / "info"
    (info / "alternates").write_text("info/loop\na\0b\n")
    (info / "loop").symlink_to("loop")
    assert "lib/more.c" in hostile.got(f"git:{hostile.tree}").manifest()


@pytest.mark.slow
def test_this_users_own_ignores_still_count(
    hostile: Hostile, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = hostile.folder / "settings"
    (settings / "git").mkdir(parents=True)
    (settings / "git" / "ignore").write_text("*.mine\n")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(settings))
    hostile.write("lib/note.mine", "x")
    hostile.write("lib/note.c", "x")
    names = hostile.got(f"path:{hostile.tree}").manifest().keys()
    assert "lib/note.c" in names and "lib/note.mine" not in names


@pytest.mark.slow
@pytest.mark.skipif(not sandbox.drops_root(), reason="only root becomes another user inside")
def test_what_only_root_may_read_is_refused_with_the_way_out(hostile: Hostile) -> None:
    subprocess.run(["chmod", "-R", "go-rwx", str(hostile.tree)], check=True)
    for kind in ("git:", "path:"):
        with pytest.raises(
            (ToolError, UsageError), match=r"git is not root, .* chmod -R o\+rX"
        ) as caught:
            hostile.got(f"{kind}{hostile.tree}")
        assert "bwrap" not in str(caught.value)


def _signed(index: bytes) -> bytes:
    return index + hashlib.sha1(index).digest()
