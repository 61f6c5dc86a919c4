# SPDX-License-Identifier: MIT
"""``git:DIR_OR_URL#REF``: a commit of a repository, known by its tree's hash; and commits in order.

What is wanted is fetched into a bare repository of kdyno's, whose settings are nobody's. Another
one on this machine may be somebody else's and is read only in the sandbox, for its own settings
name programs (gitsecurityboundary(7)). What git answers from in there is not trusted."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from kdyno import sandbox, whole
from kdyno.command import dying_with_us, started
from kdyno.errors import ToolError, UsageError
from kdyno.kernels.sources import archive, tree as trees
from kdyno.kernels.sources.tree import Progress, Request, SourceSpec, Tree
from kdyno.reading.mistakes import meant
from kdyno.sandbox import confined

CLEAN = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    # Attributes of this user's or this machine's would give one tree hash different files.
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_CONFIG_COUNT": "1",
    "GIT_CONFIG_KEY_0": "core.attributesFile",
    "GIT_CONFIG_VALUE_0": os.devnull,
    "GIT_CONFIG_PARAMETERS": "",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_ALLOW_PROTOCOL": "file",
}
"""Nobody's settings and nobody's programs, for repositories of kdyno's own."""
_SAFE = {"GIT_ALLOW_PROTOCOL": "file:git:http:https:ssh"}
_PROGRAMS_OFF = (
    *("-c", "core.fsmonitor=false", "-c", f"core.hooksPath={os.devnull}"),
    # Inside it is harmless to read another user's repository, which git refuses elsewhere.
    *("-c", "safe.directory=*"),
)
_MOST_ALTERNATES = 16
_FETCH = ("fetch", "--no-tags", "--no-recurse-submodules", "--quiet")
_LOCAL = "file://"
OPEN = "--end-of-options"
_VERIFY = ("rev-parse", "--verify", OPEN)
_SHOWN_REFS = 12
SHORT = 12
_FORMAT = "--format=%x00%H%x00%P%x00%an%x00%aI%x00%s%x00"
"""Names and subjects may have any character but that one."""
_HASH = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_SCP_LIKE = re.compile(r"[^/:]+@[^/:]+:.+")
_SCHEMES = ("https", "http", "ssh", "git", "file")
_REF = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./@^~{}+-]*")


def parse(text: str, rest: str, form: str) -> SourceSpec:
    """The source ``text``, of which ``rest`` is what follows the kind. UsageError."""
    place, mark, ref = rest.rpartition("#") if "#" in rest else (rest, "", "HEAD")
    if not place or (mark and not ref):
        raise UsageError(f"source {text!r} lacks its folder, URL or ref. {form}")
    # A leading dash would be read as an option by git, and "::" starts a transport helper,
    # which is a program of the URL's choice.
    if place.startswith("-"):
        raise UsageError(f"source {text!r}: a folder or URL must not begin with '-'")
    scheme = _SCHEME.match(place)
    if "::" in place or (scheme and scheme[1].lower() not in _SCHEMES):
        raise UsageError(
            f"source {text!r}: kdyno fetches from git over {', '.join(_SCHEMES)} "
            "and from folders only"
        )
    if not _REF.fullmatch(ref):
        raise UsageError(
            f"source {text!r}: {ref!r} is not a branch, tag or commit "
            "(letters, digits and _ . / @ ^ ~ { } + -, not beginning with '-')"
        )
    return SourceSpec("git", place, ref)


def is_url(place: str) -> bool:
    """Whether it names a repository elsewhere (``scheme://`` or ``user@host:path``)."""
    return bool(_SCHEME.match(place) or _SCP_LIKE.fullmatch(place))


def record_of(spec: SourceSpec, cache: Path) -> Path:
    """The record of the tree of a URL's reference."""
    name = f"{_short(spec.rest)}-{_short(spec.ref or 'HEAD')}.json"
    return cache / "sources" / "git" / name


def resolve(request: Request) -> Tree:
    spec = request.spec
    if is_url(spec.rest):
        return _remote(request)
    folder = Path(spec.rest).expanduser().resolve()
    if not folder.is_dir():
        raise UsageError(f"source {spec}: {folder} is not a folder")
    try:
        refs = answer(folder, ["for-each-ref", "--format=%(refname)", "refs/heads", "refs/tags"])
        try:
            commit = commit_of(folder, spec.ref or "HEAD")
        except UsageError as problem:
            raise _no_ref(spec, refs) from problem
        claimed = _hash(answer(folder, [*_VERIFY, f"{commit}^{{tree}}"]))
    except ToolError as problem:
        raise UsageError(f"source {spec}: {problem}") from problem

    def fill(scratch: Path) -> Path:
        own = scratch / "repository"
        _make(own, "sha1" if len(commit) == 40 else "sha256")
        request.progress(f"fetching {spec}", None)
        # It does not look above the folder, as it does for all that was asked before.
        want = ["--", str(_parts(folder)[0]), f"+{commit}:refs/kdyno/asked"]
        fetch = ["git", "-C", str(own), *_FETCH, "--depth=1"]
        with _readable(folder):
            trees.run(
                [*fetch, "--upload-pack", _upload_pack(folder), *want],
                env=CLEAN,
                called=[*fetch, *want],
            )
        tree = _hash(trees.run(["git", "-C", str(own), *_VERIFY, f"{commit}^{{tree}}"], env=CLEAN))
        if tree != claimed:
            raise ToolError(f"source {spec}: its git says that the tree of {commit} is {claimed}")
        return _unpacked(request, own, tree, scratch)

    return _placed(request, commit, claimed, fill)


def _remote(request: Request) -> Tree:
    spec = request.spec
    own = request.home / f"{_short(spec.rest)}.git"

    def make() -> tuple[Tree, dict[str, Any]]:
        kept = f"refs/kdyno/{_short(spec.ref or 'HEAD')}"
        request.progress(f"fetching {spec}", None)
        _fetch(own, spec, kept, "--depth=1")
        verify = ["git", "-C", str(own), *_VERIFY]
        commit = _hash(trees.run([*verify, f"{kept}^{{commit}}"], env=CLEAN))
        digest = _hash(trees.run([*verify, f"{commit}^{{tree}}"], env=CLEAN))
        return _placed(request, commit, digest, partial(_unpacked, request, own, digest)), {}

    return request.once(record_of(spec, request.cache), f"git-{own.stem}", make)


def mirror(spec: SourceSpec, cache: Path, progress: Progress) -> Path:
    """A repository of kdyno's with the whole history of a URL's branch, brought up to date. Commits
    that a rebase has dropped stay in it."""
    own = cache / "sources" / "git" / f"{_short(f'{spec.rest}#{spec.ref}')}.mirror.git"
    with whole.locked(own.with_suffix(".lock")):
        progress(f"fetching {spec}, with its history", None)
        _fetch(own, spec, f"refs/heads/{spec.ref}")
    return own


def between(place: str, good: str, bad: str, cache: Path, progress: Progress) -> Path:
    """A repository of kdyno's with the commits of a URL from ``good`` to ``bad`` and one before
    them; where ``good`` is a hash, which no server excludes, with their whole history."""
    own = cache / "sources" / "git" / f"{_short(f'{place}#{good}..{bad}')}.between.git"
    first, last = (parse(f"git:{place}#{ref}", f"{place}#{ref}", "") for ref in (good, bad))
    # Not by date, which cuts a merge off from both parents where one is older. The last step is one
    # commit more at each cut: the parents of those that were not excluded.
    steps = [(first, "--depth=1"), (last, f"--shallow-exclude={good}"), (last, "--deepen=1")]
    if _HASH.fullmatch(good):
        steps = [(first, ""), (last, "")]
    with whole.locked(own.with_suffix(".lock")):
        progress(f"fetching {place}, {good} to {bad}", None)
        for end, limit in steps:
            _fetch(own, end, f"refs/tags/{end.ref}", *filter(None, (limit,)))
    return own


def _fetch(own: Path, spec: SourceSpec, to: str, *limits: str) -> None:
    """The reference of a URL, as ``to`` in a repository of kdyno's, whose lock the caller has.
    UsageError where the URL has no such reference."""
    if not (own / "HEAD").is_file():
        _make(own)
    for stale in own.rglob("*.lock"):  # of a fetch that was killed
        stale.unlink(missing_ok=True)
    # What a rebase has dropped is not collected as garbage.
    git, give = ["git", "-C", str(own), "-c", "gc.pruneExpire=never"], list[str]()
    if spec.rest.lower().startswith(_LOCAL):  # "the server" is a program of this machine
        place = Path("/" + spec.rest[len(_LOCAL) :].lstrip("/")).resolve()
        give = ["--upload-pack", _upload_pack(place)]
    fetch, want = [*git, *_FETCH, *limits], ["--", spec.rest, f"+{spec.ref}:{to}"]
    try:
        trees.run([*fetch, *give, *want], env=_SAFE, called=[*fetch, *want])
    except ToolError as problem:
        listing = trees.run([*git, "ls-remote", "--refs", *give, "--", spec.rest], env=_SAFE)
        refs = b"\n".join(line.partition(b"\t")[2] for line in listing.splitlines())
        places = ("", "refs/", "refs/tags/", "refs/heads/", "refs/remotes/")  # where git looks
        if {f"{place}{spec.ref}".encode() for place in places} & {*refs.splitlines()}:
            raise
        raise _no_ref(spec, refs) from problem


def _no_ref(spec: SourceSpec, listing: bytes) -> UsageError:
    """listing: branches and tags of the repository, as git prints them in full."""
    refs = re.findall(r"^refs/(?:heads|tags)/(.+)$", listing.decode("utf-8", "replace"), re.M)
    near = meant(spec.ref or "HEAD", refs, ". Did you mean {}?") or "."
    some = ", ".join(sorted(refs)[-_SHOWN_REFS:]) or "none"
    alone = "; a server gives branches, tags and whole commit numbers" if is_url(spec.rest) else ""
    return UsageError(
        f"source {spec}: the repository has no branch, tag or commit {spec.ref!r}{alone}{near} "
        f"Branches and tags there: {some}{' and others' if len(refs) > _SHOWN_REFS else ''}"
    )


def _placed(request: Request, commit: str, tree: str, fill: Callable[[Path], Path]) -> Tree:
    description = f"{request.spec.rest} {request.spec.ref}, commit {commit[:12]}"
    return request.place(f"git-{tree[:40]}", tree, description, fill)


def _unpacked(request: Request, own: Path, tree: str, scratch: Path) -> Path:
    """The files of ``tree`` in a repository of kdyno's own, which has no settings."""
    git = ["git", "-C", str(own)]
    listing = trees.run([*git, "ls-tree", "-r", "-l", "-z", tree], env=CLEAN)
    sizes = (entry.split(b"\t")[0].split()[3] for entry in listing.split(b"\0") if entry)
    # A little rounded up, for blocks.
    whole.require_space(request.cache, sum(int(size) + 2048 for size in sizes if size.isdigit()))
    # Of the tree, not of the commit, whose hash and message export-subst would write into files.
    argv = [*git, "archive", "--format=tar", tree]
    with started(dying_with_us(argv), env=trees.environment(CLEAN)) as sender:
        name = str(request.spec)
        source, _sum = archive.unpack(sender.stdout, 0, name, scratch, request, ToolError)
        if status := sender.process.wait():
            trees.raise_failure(argv, status, sender.complaint())
    return source


def _make(repository: Path, hashes: str = "sha1") -> None:
    repository.parent.mkdir(parents=True, exist_ok=True)
    # Without a template, which could bring hooks and settings.
    plain = ["--quiet", "--bare", "--template=", f"--object-format={hashes}"]
    trees.run(["git", "init", *plain, str(repository)], env=CLEAN)


def _hash(output: bytes) -> str:
    text = output.decode("ascii", "replace").strip()
    if not _HASH.fullmatch(text):
        raise ToolError(f"git names no object: {text[:80]!r}")
    return text


def _short(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogateescape"), digest_size=12).hexdigest()


def answer(folder: Path, words: Sequence[str], reads: Sequence[Path] = ()) -> bytes:
    """What ``git WORDS`` prints in ``folder``. UsageError where there is no repository. reads:
    files that it needs besides the repository's own."""
    git = ["git", "-C", str(folder)]
    parts = [*_parts(folder), *reads]
    inside = confined([*git, *_PROGRAMS_OFF, *words], reads=parts, settings=CLEAN)
    with _readable(folder):
        return trees.run(inside, env=CLEAN, called=[*git, *words])


@contextmanager
def _readable(folder: Path) -> Iterator[None]:
    """A failure of git gets the way out where it may be that not everybody can read ``folder``."""
    try:
        yield
    except ToolError as problem:
        parts = filter(Path.exists, _parts(folder))
        private = any(part.stat().st_mode & 0o005 != 0o005 for part in parts)
        if not (sandbox.drops_root() and private):
            raise
        raise ToolError(
            f"{problem}\nIn the sandbox git is not root, and {folder} cannot be read by everybody: "
            f"chmod -R o+rX {folder}, or run kdyno as the user that it belongs to"
        ) from problem


def _upload_pack(folder: Path) -> str:
    """For ``git fetch --upload-pack``: the program that hands out the repository's objects. What
    fetches from it counts every object's hash itself, and so gets what the hashes say."""
    words = ["git", *_PROGRAMS_OFF, "-c", "uploadpack.allowAnySHA1InWant=true", "upload-pack"]
    return shlex.join(confined(words, reads=_parts(folder), settings=CLEAN))


def own_ignores() -> Path | None:
    """The file of names that this user's own settings have git leave out everywhere."""
    argv = ["git", "config", "--global", "--type=path", "--get", "core.excludesFile"]
    named = os.fsdecode(trees.run(argv, allowed=(0, 1))).rstrip("\n")
    settings = os.environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    file = Path(named or f"{settings}/git/ignore")
    return file if file.is_file() else None


def _parts(folder: Path) -> tuple[Path, ...]:
    """Every folder that git reads for the repository at or above ``folder``."""
    for place in (folder, *folder.parents):
        git = place / ".git"
        home = place
        if git.exists():
            home = git
            if not git.is_dir():  # a work tree of another repository, or a submodule
                home = place / next(iter(_lines(git)), "").removeprefix("gitdir:").strip()
                if not (home / "HEAD").is_file():
                    raise UsageError(f"{place} is not a git repository: {git} leads to none")
                home = home.resolve()
        elif not _is_store(place):
            continue
        return tuple(dict.fromkeys((place, home, *_shared(home))))
    raise UsageError(f"{folder} is not a git repository (nor any of the parent directories)")


def _shared(home: Path) -> Iterator[Path]:
    """The repository that a work tree belongs to, and the stores that objects are borrowed from."""
    common = home / next(iter(_lines(home / "commondir")), "")
    if common != home and _is_store(common):
        yield common.resolve()
    waiting, stores = [common / "objects"], set[Path]()
    while waiting and len(stores) < _MOST_ALTERNATES:
        objects = waiting.pop()
        for line in _lines(objects / "info" / "alternates"):
            # A loop of links, or a name that none can be, borrows from nowhere.
            other = Path(os.path.realpath(objects / line.replace("\0", "")))
            if other not in stores and (other / "pack").is_dir():
                stores.add(other)
                waiting.append(other)
                yield other


def _is_store(place: Path) -> bool:
    return (place / "HEAD").is_file() and (place / "objects").is_dir()


def _lines(file: Path) -> list[str]:
    try:
        with file.open(encoding="utf-8", errors="surrogateescape") as stream:
            return stream.read(1 << 16).splitlines()
    except (OSError, ValueError):
        return []


@dataclass(frozen=True)
class Commit:
    commit: str
    """Its full name."""
    parents: tuple[str, ...]
    author: str
    date: str
    """Of authoring, ISO 8601."""
    title: str
    files: tuple[str, ...] = ()
    """That it changes against its first parent."""

    @property
    def identity(self) -> str:
        """What it keeps when its branch is rebased: author, date of authoring and subject."""
        text = f"{self.author}\0{self.date}\0{self.title}"
        return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def first_parents(folder: Path, *words: str) -> tuple[Commit, ...]:
    """Commits of a span such as ``v7.2..v7.3``, which is the last word, the oldest first."""
    # -m: what a merge changes is what it changes against its first parent.
    return all_commits(folder, "--first-parent", "-m", "--name-only", "--no-renames", *words)


def all_commits(folder: Path, *words: str) -> tuple[Commit, ...]:
    """Those of merged branches too; without their files."""
    words = ("log", "--reverse", "--encoding=UTF-8", _FORMAT, *words[:-1], OPEN, words[-1])
    commits = []
    output = answer(folder, ["-c", "core.quotePath=off", *words]).decode("utf-8", "replace")
    for fields in zip(*[iter(output.split("\0")[1:])] * 6, strict=True):
        commit, parents, author, date, title, files = fields
        own = tuple(file for file in files.split("\n") if file)
        commits.append(Commit(commit, tuple(parents.split()), author[:200], date, title[:200], own))
    return tuple(commits)


def commit_of(folder: Path, ref: str) -> str:
    """The full name of a commit. UsageError where there is none of this name."""
    try:
        return _hash(answer(folder, [*_VERIFY, f"{ref}^{{commit}}"]))
    except ToolError as problem:
        raise UsageError(f"{folder} has no branch, tag or commit {ref!r}") from problem


def merge_base(folder: Path, first: str, second: str) -> str:
    """The newest commit that both have. ToolError where they have none."""
    return _hash(answer(folder, ["merge-base", OPEN, first, second]))
