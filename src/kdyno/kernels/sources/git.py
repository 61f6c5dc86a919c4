# SPDX-License-Identifier: MIT
"""``git:DIR_OR_URL#REF``: a commit of a repository. Its identity is the commit's tree hash.

The one commit that is asked for is fetched into a bare repository of kdyno's, without history
where the other side allows that: from a folder into one that goes away again, from a URL into
one in the cache. Files come out of that by the tree's hash alone, so that no setting of the
other repository changes them and equal hashes are equal files.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from pathlib import Path

from kdyno import space
from kdyno.command import dying_with_us, started
from kdyno.errors import ToolError, UsageError
from kdyno.kernels.source import Progress, SourceSpec, Tree, is_url
from kdyno.kernels.sources import archive, repository, shelf, tool
from kdyno.kernels.sources.repository import CLEAN
from kdyno.reading.mistakes import meant

_SAFE = {"GIT_ALLOW_PROTOCOL": "file:git:http:https:ssh"}
_WHOLE = ("fetch", "--no-tags", "--no-recurse-submodules", "--quiet")
_SHALLOW = (*_WHOLE, "--depth=1")
_LOCAL = "file://"
_NAMES = ("for-each-ref", "--format=%(refname)", "refs/heads", "refs/tags")
_SHOWN_REFS = 12
_HASH = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


def record(spec: SourceSpec, cache: Path) -> Path:
    """Where it is remembered which tree a URL's reference became."""
    name = f"{_short(spec.rest)}-{_short(spec.ref or 'HEAD')}.json"
    return cache / "sources" / "git" / name


def resolve(spec: SourceSpec, cache: Path, progress: Progress, refresh: bool) -> Tree:
    if is_url(spec.rest):
        return _remote(spec, cache, progress, refresh)
    folder = Path(spec.rest).expanduser().resolve()
    if not folder.is_dir():
        raise UsageError(f"source {spec}: {folder} is not a folder")
    ref = spec.ref or "HEAD"
    verify = ["rev-parse", "--verify", "--end-of-options"]
    try:
        listing = repository.asked(folder, _NAMES)
        try:
            commit = _hash(repository.asked(folder, [*verify, f"{ref}^{{commit}}"]))
        except ToolError as problem:
            raise UsageError(_no_ref(spec, listing)) from problem
        claimed = _hash(repository.asked(folder, [*verify, f"{commit}^{{tree}}"]))
    except ToolError as problem:
        raise UsageError(f"source {spec}: {problem}") from problem

    def fill(scratch: Path) -> Path:
        own = scratch / "repository"
        _make(own, "sha1" if len(commit) == 40 else "sha256")
        progress(f"fetching {spec}", None)
        want = ["--", str(folder), f"+{commit}:refs/kdyno/asked"]
        give = ["--upload-pack", repository.upload_pack(folder)]
        fetch = ["git", "-C", str(own), *_SHALLOW]
        with repository.readable(folder):
            tool.run([*fetch, *give, *want], env=CLEAN, called=[*fetch, *want])
        tree = _hash(tool.run(["git", "-C", str(own), *verify, f"{commit}^{{tree}}"], env=CLEAN))
        if tree != claimed:
            raise ToolError(f"source {spec}: its git says that the tree of {commit} is {claimed}")
        return _unpacked(spec, own, tree, scratch, progress)

    return _placed(spec, cache, progress, commit, claimed, fill)


def _remote(spec: SourceSpec, cache: Path, progress: Progress, refresh: bool) -> Tree:
    home = cache / "sources" / "git"
    own = home / f"{_short(spec.rest)}.git"
    place = record(spec, cache)
    if not refresh and (tree := shelf.recorded(cache, place)) is not None:
        return tree
    with shelf.locked(cache, f"git-{own.stem}", progress):
        if not refresh and (tree := shelf.recorded(cache, place)) is not None:
            return tree
        kept = f"refs/kdyno/{_short(spec.ref or 'HEAD')}"
        _fetch(spec, own, kept, progress)
        verify = ["git", "-C", str(own), "rev-parse", "--verify", "--end-of-options"]
        commit = _hash(tool.run([*verify, f"{kept}^{{commit}}"], env=CLEAN))
        digest = _hash(tool.run([*verify, f"{commit}^{{tree}}"], env=CLEAN))

        def fill(scratch: Path) -> Path:
            return _unpacked(spec, own, digest, scratch, progress)

        tree = _placed(spec, cache, progress, commit, digest, fill)
        shelf.write_json(place, {"source": str(spec), "tree": tree.path.parent.name})
        return tree


def _fetch(spec: SourceSpec, own: Path, kept: str, progress: Progress) -> None:
    """Bring the commit of ``spec.ref`` into ``own`` as the reference ``kept``."""
    if not (own / "HEAD").is_file():
        _make(own)
    # A fetch that was killed leaves its locks; ours says that no other fetch is running.
    for stale in own.rglob("*.lock"):
        stale.unlink(missing_ok=True)
    progress(f"fetching {spec}", None)
    git = ["git", "-C", str(own)]
    give = []
    if spec.rest.lower().startswith(_LOCAL):  # "the server" is a program of this machine
        place = Path("/" + spec.rest[len(_LOCAL) :].lstrip("/")).resolve()
        give = ["--upload-pack", repository.upload_pack(place)]
    want = ["--", spec.rest, f"+{spec.ref}:{kept}"]
    try:
        tool.run([*git, *_SHALLOW, *give, *want], env=_SAFE, called=[*git, *_SHALLOW, *want])
        return
    except ToolError:
        pass
    # Not every server hands out a bare commit, and REF~2 is not a name that a server knows.
    everything = ["+refs/heads/*:refs/theirs/heads/*", "+refs/tags/*:refs/theirs/tags/*"]
    progress(f"fetching all of {spec.rest}: the server does not give {spec.ref} alone", None)
    unshallow = ["--unshallow"] if (own / "shallow").is_file() else []
    want = [*unshallow, "--", spec.rest, *everything]
    tool.run([*git, *_WHOLE, *give, *want], env=_SAFE, called=[*git, *_WHOLE, *want])
    for name in (f"refs/theirs/heads/{spec.ref}", f"refs/theirs/tags/{spec.ref}", spec.ref or ""):
        verify = [*git, "rev-parse", "--verify", "--quiet", "--end-of-options"]
        commit = tool.run([*verify, f"{name}^{{commit}}"], env=_SAFE, allowed=(0, 1, 128))
        if commit:
            tool.run([*git, "update-ref", kept, commit.decode().strip()], env=_SAFE)
            return
    named = [*_NAMES[:-2], "refs/theirs"]
    raise UsageError(_no_ref(spec, tool.run([*git, *named], env=_SAFE)))


def _no_ref(spec: SourceSpec, listing: bytes) -> str:
    """listing: branches and tags of the repository, as git prints them in full."""
    names = [it.split("/", 2)[-1] for it in listing.decode("utf-8", "replace").split()]
    names = [it.removeprefix("heads/").removeprefix("tags/") for it in names if it != "HEAD"]
    near = meant(spec.ref or "HEAD", names, ". Did you mean {}?") or "."
    some = ", ".join(sorted(names)[-_SHOWN_REFS:]) or "none"
    return (
        f"source {spec}: the repository has no branch, tag or commit {spec.ref!r}{near} "
        f"Branches and tags there: {some}{' and others' if len(names) > _SHOWN_REFS else ''}"
    )


def _placed(
    spec: SourceSpec,
    cache: Path,
    progress: Progress,
    commit: str,
    tree: str,
    fill: Callable[[Path], Path],
) -> Tree:
    description = f"{spec.rest} {spec.ref}, commit {commit[:12]}"
    return shelf.place(cache, spec, f"git-{tree[:40]}", tree, description, fill, progress)


def _unpacked(spec: SourceSpec, own: Path, tree: str, scratch: Path, progress: Progress) -> Path:
    """The files of ``tree`` in a repository of kdyno's own, which has no settings."""
    git = ["git", "-C", str(own)]
    space.require(scratch, _size_bytes(git, tree))
    into = scratch / "unpacked"
    into.mkdir()
    # Of the tree, not of the commit, whose hash and message export-subst would write into files.
    argv = [*git, "archive", "--format=tar", tree]
    with started(dying_with_us(argv), env=tool.environment(CLEAN)) as git_:
        archive.feed(
            git_.stdout, into, progress, ToolError, packed_by=None, size_bytes=0, name=str(spec)
        )
        if status := git_.process.wait():
            tool.raise_failure(argv, status, git_.complaint())
    return into


def _size_bytes(git: list[str], tree: str) -> int:
    """Bytes of all files of a tree, a little rounded up for blocks."""
    listing = tool.run([*git, "ls-tree", "-r", "-l", "-z", tree], env=CLEAN)
    sizes = (entry.split(b"\t")[0].split()[3] for entry in listing.split(b"\0") if entry)
    return sum(int(size) + 2048 for size in sizes if size.isdigit())


def _make(repository: Path, hashes: str = "sha1") -> None:
    repository.parent.mkdir(parents=True, exist_ok=True)
    # Without a template, which could bring hooks and settings.
    plain = ["--quiet", "--bare", "--template=", f"--object-format={hashes}"]
    tool.run(["git", "init", *plain, str(repository)], env=CLEAN)


def _hash(said: bytes) -> str:
    text = said.decode("ascii", "replace").strip()
    if not _HASH.fullmatch(text):
        raise ToolError(f"git names no object: {text[:80]!r}")
    return text


def _short(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogateescape"), digest_size=12).hexdigest()
