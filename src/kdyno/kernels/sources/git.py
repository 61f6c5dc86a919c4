# SPDX-License-Identifier: MIT
"""``git:DIR_OR_URL#REF``: a commit of a repository. Its identity is the commit's tree hash.

A folder is read where it is. A URL gets a bare repository in the cache, into which the one
commit that is asked for is fetched, without history where the server allows that.
"""

from __future__ import annotations

import hashlib
import subprocess
import tempfile
from pathlib import Path

from kdyno.errors import ToolError, UsageError
from kdyno.kernels.source import Progress, SourceSpec, Tree, is_url
from kdyno.kernels.sources import archive, shelf, tool

_SAFE = {"GIT_ALLOW_PROTOCOL": "file:git:http:https:ssh"}
_SHALLOW = ("fetch", "--no-tags", "--depth=1", "--quiet")
_WHOLE = ("fetch", "--no-tags", "--quiet")


def resolve(spec: SourceSpec, cache: Path, progress: Progress, refresh: bool) -> Tree:
    if is_url(spec.rest):
        return _remote(spec, cache, progress, refresh)
    folder = Path(spec.rest).expanduser().absolute()
    if not folder.is_dir():
        raise UsageError(f"source {spec}: {folder} is no folder")
    return _archived(spec, cache, progress, folder, spec.ref or "HEAD")


def _remote(spec: SourceSpec, cache: Path, progress: Progress, refresh: bool) -> Tree:
    home = cache / "sources" / "git"
    repository = home / f"{_short(spec.rest)}.git"
    record = home / f"{_short(spec.rest)}-{_short(spec.ref or 'HEAD')}.json"
    if not refresh and (tree := shelf.recorded(cache, record)) is not None:
        return tree
    with shelf.locked(cache, f"git-{repository.stem}", progress):
        if not refresh and (tree := shelf.recorded(cache, record)) is not None:
            return tree
        kept = f"refs/kdyno/{_short(spec.ref or 'HEAD')}"
        _fetch(spec, repository, kept, progress)
        tree = _archived(spec, cache, progress, repository, kept)
        shelf.write_json(record, {"source": str(spec), "tree": tree.path.parent.name})
        return tree


def _fetch(spec: SourceSpec, repository: Path, kept: str, progress: Progress) -> None:
    """Bring the commit of ``spec.ref`` into ``repository`` as the reference ``kept``."""
    if not (repository / "HEAD").is_file():
        repository.parent.mkdir(parents=True, exist_ok=True)
        tool.run(["git", "init", "--quiet", "--bare", str(repository)], env=_SAFE)
    # A fetch that was killed leaves its locks; ours says that no other fetch is running.
    for stale in repository.rglob("*.lock"):
        stale.unlink(missing_ok=True)
    progress(f"fetching {spec}", None)
    git = ["git", "-C", str(repository)]
    want = ["--", spec.rest, f"+{spec.ref}:{kept}"]
    try:
        tool.run([*git, *_SHALLOW, *want], env=_SAFE)
        return
    except ToolError as problem:
        shallow = problem
    # Not every server hands out a bare commit, and REF~2 is no name that a server knows.
    everything = ["+refs/heads/*:refs/theirs/heads/*", "+refs/tags/*:refs/theirs/tags/*"]
    progress(f"fetching all of {spec.rest}: the server does not give {spec.ref} alone", None)
    unshallow = ["--unshallow"] if (repository / "shallow").is_file() else []
    tool.run([*git, *_WHOLE, *unshallow, "--", spec.rest, *everything], env=_SAFE)
    for name in (f"refs/theirs/heads/{spec.ref}", f"refs/theirs/tags/{spec.ref}", spec.ref or ""):
        verify = [*git, "rev-parse", "--verify", "--quiet", "--end-of-options"]
        commit = tool.run([*verify, f"{name}^{{commit}}"], env=_SAFE, allowed=(0, 1, 128))
        if commit:
            tool.run([*git, "update-ref", kept, commit.decode().strip()], env=_SAFE)
            return
    raise UsageError(f"source {spec}: the repository has no {spec.ref!r}. git said: {shallow}")


def _archived(
    spec: SourceSpec, cache: Path, progress: Progress, repository: Path, ref: str
) -> Tree:
    git = ["git", "-C", str(repository)]
    verify = [*git, "rev-parse", "--verify", "--end-of-options"]
    try:
        commit = tool.run([*verify, f"{ref}^{{commit}}"], env=_SAFE).decode().strip()
        digest = tool.run([*verify, f"{commit}^{{tree}}"], env=_SAFE).decode().strip()
    except ToolError as problem:
        raise UsageError(f"source {spec}: {problem}") from problem

    def fill(scratch: Path) -> Path:
        shelf.require_space(scratch, _size_bytes(git, commit))
        into = scratch / "unpacked"
        into.mkdir()
        argv = [*git, "archive", "--format=tar", commit]
        with (
            tempfile.TemporaryFile() as said,
            subprocess.Popen(
                tool.dying_with_us(argv),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=said,
                env=tool.environment(_SAFE),
            ) as process,
        ):
            assert process.stdout is not None
            try:
                archive.feed(
                    process.stdout,
                    into,
                    progress,
                    ToolError,
                    packed_by=None,
                    size_bytes=0,
                    name=str(spec),
                )
            except BaseException:
                process.kill()
                raise
            status = process.wait()
            said.seek(0)
            if status:
                tool.raise_failure(argv, status, said.read().decode("utf-8", "replace"))
        return into

    key = f"git-{digest[:40]}"
    description = f"{spec.rest} {spec.ref}, commit {commit[:12]}"
    return shelf.place(cache, spec, key, digest, description, fill, progress)


def _size_bytes(git: list[str], commit: str) -> int:
    """Bytes of all files of a commit, a little rounded up for blocks."""
    listing = tool.run([*git, "ls-tree", "-r", "-l", "-z", commit], env=_SAFE)
    sizes = (entry.split(b"\t")[0].split()[3] for entry in listing.split(b"\0") if entry)
    return sum(int(size) + 2048 for size in sizes if size.isdigit())


def _short(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogateescape"), digest_size=12).hexdigest()
