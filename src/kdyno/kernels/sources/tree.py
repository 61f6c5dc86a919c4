# SPDX-License-Identifier: MIT
"""Trees of kernel source in the cache: pristine, and each whole or absent, whoever is killed.
``trees/KEY/{tree/,manifest,tree.json}`` are finished trees, ``trees/kdyno-tree-*`` unfinished ones,
``locks/KEY`` is held during a fetch, ``sources/KIND/*.json`` record the tree of each source."""

# Paths are strings here: with 96,000 of them, Path objects would take most of the time.
# ruff: noqa: PTH101, PTH115, PTH117, PTH118, PTH120, PTH123

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shlex
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from signal import SIGXFSZ
from typing import Any

from kdyno import whole
from kdyno.command import capture, dying_with_us
from kdyno.errors import ToolError, UsageError
from kdyno.reading.checked import values_in
from kdyno.sandbox import plain_status

Progress = Callable[[str, float | None], None]
"""Called with what is being done and the fraction done (0..1), or None where nobody knows."""

KERNEL_TREE_BYTES = 2_000_000_000
"""What a whole kernel tree takes on disk (7.3: 1.7 GB in 96,000 files)."""
CANONICAL_MTIME_S = 1_577_836_800
"""2020-01-01 00:00 UTC, the modification time of every file of every tree: make and ccache see
the same time whichever way a source was fetched, and objects are always newer."""
MOST_FILE_BYTES = 256_000_000
MOST_BYTES = 20_000_000_000
"""7.3 has 1.4 GB in 96,000 files, the largest of 24 MB."""
PACKERS = {b"\xfd7zXZ\0": "xz", b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"\x28\xb5\x2f\xfd": "zstd"}
"""How a packed file begins → the program that unpacks it."""
_blake2b = partial(hashlib.blake2b, digest_size=16)
_BATCH = 512
_MAKEFILE_LINES = 40
_MAKEFILE_BYTES = 1 << 16


@dataclass(frozen=True)
class SourceSpec:
    """A source as written, taken apart. ``ref`` is set for git only."""

    kind: str
    rest: str
    ref: str | None = None

    def __str__(self) -> str:
        return f"{self.kind}:{self.rest}" + (f"#{self.ref}" if self.ref is not None else "")


@dataclass(frozen=True)
class Tree:
    """Pristine kernel source in the cache. Builds read it and never write there. Every regular file
    has mode 644 or 755 and the same modification time; beside the folder lies ``manifest``, one
    line ``HASH MODE PATH`` per file and link, sorted by path."""

    path: Path
    digest: str
    """Hexadecimal; equal digests mean equal source."""
    description: str
    version: str
    """From the Makefile, for example ``7.3.4`` or ``6.19.0-rc2``."""
    origin: str = "unknown"
    """Where it came from; empty for what is signed or has a published checksum."""

    def manifest(self) -> dict[str, str]:
        return read_manifest(self.path)


@dataclass(frozen=True)
class Request:
    """A source that is wanted in the cache. ``refresh``: an earlier fetch does not count."""

    spec: SourceSpec
    cache: Path
    progress: Progress
    refresh: bool = False

    @property
    def home(self) -> Path:
        """Records of sources of this kind."""
        return self.cache / "sources" / self.spec.kind

    @contextmanager
    def locked(self, key: str) -> Iterator[None]:
        """Hold the lock ``key``; while another process has it, say so once and wait."""

        def waiting(holder: str) -> None:
            who = f"another kdyno ({holder})" if holder.startswith("process") else holder
            self.progress(f"waiting: {who} is fetching {key}", None)

        with whole.locked(self.cache / "locks" / key, waiting):
            yield

    def scratch(self) -> AbstractContextManager[Path]:
        """A folder beside the finished trees; gone afterwards, or swept by the next fetch."""
        return whole.scratch("tree", self.cache / "trees")

    def once(
        self, record: Path, lock: str, make: Callable[[], tuple[Tree, dict[str, Any]]]
    ) -> Tree:
        """The tree that ``record`` names; else the result of ``make``, which is recorded with the
        further facts that ``make`` returns."""
        if not self.refresh and (tree := recorded(self.cache, record)) is not None:
            return tree
        with self.locked(lock):
            if not self.refresh and (tree := recorded(self.cache, record)) is not None:
                return tree
            tree, facts = make()
            own = {"tree": tree.path.parent.name, "description": tree.description}
            write_json(record, {"source": str(self.spec), **own, **facts})
            return tree

    def place(
        self,
        key: str,
        digest: str,
        description: str,
        fill: Callable[[Path], Path],
        check: Callable[[list[str]], None] = lambda _lines: None,
    ) -> Tree:
        """The tree ``key``; when absent, made by ``fill``, which unpacks into the folder it is
        given and returns where the source begins. ``check`` may refuse the manifest's lines."""
        source = str(self.spec)
        with self.locked(key):
            # Another commit, or folder, may have the same files.
            if (tree := find(self.cache, key)) is not None:
                return replace(tree, description=description)
            home = self.cache / "trees" / key
            if home.exists():  # without tree.json or tree/: somebody deleted parts by hand
                shutil.rmtree(home)
            with self.scratch() as scratch:
                filled = fill(scratch)
                version = kernel_version(filled, source)
                _settle(filled)
                lines = manifest_lines(filled, list(walk(str(filled))), source, self.progress)
                check(lines)
                ready = scratch / "ready"
                ready.mkdir()
                filled.rename(ready / "tree")
                text = "".join(f"{line}\n" for line in lines)
                # Names that are no UTF-8 keep their bytes.
                (ready / "manifest").write_bytes(text.encode("utf-8", "surrogateescape"))
                facts = {"digest": digest, "description": description, "version": version}
                write_json(ready / "tree.json", {"schema": 1, "source": source, **facts})
                whole.into_place(ready, home)
            tree = find(self.cache, key)
            assert tree is not None
            return tree


def find(cache: Path, key: str) -> Tree | None:
    """The finished tree ``key``, or None."""
    home = cache / "trees" / key
    data = read_json(home / "tree.json") or {}
    facts = [str(data[name]) for name in ("digest", "description", "version") if name in data]
    return Tree(home / "tree", *facts) if len(facts) == 3 and (home / "tree").is_dir() else None


def recorded(cache: Path, record: Path) -> Tree | None:
    """The tree that ``record`` names, if it is still there."""
    data = read_json(record) or {}
    tree = find(cache, data["tree"]) if isinstance(data.get("tree"), str) else None
    return tree and replace(tree, description=str(data.get("description", tree.description)))


def read_json(path: Path) -> dict[str, Any] | None:
    """A JSON object; None when absent or damaged, so that it is made again."""
    try:
        data = values_in(path)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    return data if isinstance(data, dict) else None


def write_json(path: Path, data: dict[str, Any]) -> None:
    """The file is whole or absent."""
    path.parent.mkdir(parents=True, exist_ok=True)
    whole.write(path, json.dumps(data, indent=1).encode())


def kernel_version(root: Path, source: str) -> str:
    """``VERSION.PATCHLEVEL.SUBLEVEL`` and EXTRAVERSION; UsageError when it is not a kernel."""
    missing = [name for name in ("Makefile", "Kbuild") if not (root / name).is_file()]
    missing += [] if (root / "arch").is_dir() else ["arch/"]
    fields: dict[str, str] = {}
    if "Makefile" not in missing:
        with (root / "Makefile").open("rb") as makefile:
            text = makefile.read(_MAKEFILE_BYTES).decode("utf-8", "replace")
        for line in text.splitlines()[:_MAKEFILE_LINES]:
            name, equals, value = line.partition("=")
            if equals:
                fields.setdefault(name.strip(), value.strip())
        if not (fields.get("VERSION", "").isdigit() and fields.get("PATCHLEVEL", "").isdigit()):
            missing.append("VERSION and PATCHLEVEL in Makefile")
    if missing:
        top = ", ".join(sorted(entry.name for entry in root.iterdir())[:8]) or "nothing"
        raise UsageError(
            f"source {source} is not a kernel source: it lacks {', '.join(missing)}. "
            f"At its top there is {top}"
        )
    numbers = [fields["VERSION"], fields["PATCHLEVEL"], fields.get("SUBLEVEL") or "0"]
    return ".".join(numbers) + fields.get("EXTRAVERSION", "")


Files = list[tuple[str, os.stat_result]]
"""(relative path, lstat)."""


def content_hash(path: str, mode: int) -> str:
    """BLAKE2b-128, hexadecimal, of a file's content or a link's target."""
    if stat.S_ISLNK(mode):
        return _blake2b(os.fsencode(os.readlink(path))).hexdigest()
    with open(path, "rb", buffering=0) as file:
        return hashlib.file_digest(file, _blake2b).hexdigest()


def sha256_of(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def short_mode(mode: int) -> str:
    """``link``, ``755`` or ``644``: all that a build can depend on."""
    if stat.S_ISLNK(mode):
        return "link"
    return "755" if mode & 0o100 else "644"


def walk(root: str) -> Iterator[tuple[str, os.stat_result]]:
    """Everything below ``root`` but folders, in no order."""
    stack = [""]
    while stack:
        below = stack.pop()
        with os.scandir(os.path.join(root, below)) as entries:
            for entry in entries:
                path = f"{below}/{entry.name}" if below else entry.name
                if entry.is_dir(follow_symlinks=False):
                    stack.append(path)
                else:
                    yield path, entry.stat(follow_symlinks=False)


def _settle(root: Path) -> None:
    """Give ``root`` and all below it the canonical mode and time."""
    for folder, folders, names in os.walk(root, topdown=False):
        for name in (*names, *folders, *(["."] if folder == str(root) else [])):
            path = os.path.join(folder, name)
            status = os.lstat(path)
            mode = 0o755 if stat.S_ISDIR(status.st_mode) or status.st_mode & 0o100 else 0o644
            if not stat.S_ISLNK(status.st_mode) and stat.S_IMODE(status.st_mode) != mode:
                os.chmod(path, mode)
            os.utime(path, (CANONICAL_MTIME_S,) * 2, follow_symlinks=False)


def manifest_lines(root: Path, files: Files, source: str, progress: Progress) -> list[str]:
    """``HASH MODE PATH`` of ``files`` below ``root``, sorted by path. UsageError for what has no
    place in kernel source: devices, sockets, links that leave the tree, names with line ends, files
    that are too large."""
    # Before any is read: a file may have a length of terabytes and take no room on the disk.
    for path, status in files:
        if status.st_size > MOST_FILE_BYTES:
            raise UsageError(
                f"source {source}: {path!r} has {status.st_size / 1e6:,.0f} MB; a file of kernel "
                f"source has {MOST_FILE_BYTES / 1e6:.0f} MB at most"
            )
    total_bytes = sum(status.st_size for _path, status in files)
    if total_bytes > MOST_BYTES:
        raise UsageError(
            f"source {source}: its files have {total_bytes / 1e9:,.1f} GB together; kernel source "
            f"has {MOST_BYTES / 1e9:.0f} GB at most"
        )

    place = os.path.realpath(root)

    def lines_of(batch: Files) -> list[tuple[str, str]]:
        pairs = []
        for path, status in batch:
            full, mode = f"{root}/{path}", short_mode(status.st_mode)
            if "\n" in path:
                raise UsageError(f"source {source}: a file name with a line end: {path!r}")
            if mode == "link":
                target = os.readlink(full)
                landed = os.path.normpath(os.path.join(os.path.dirname(path), target))
                # A patch or a build that follows such a link would write outside its own tree. What
                # it lands at by its text is elsewhere where it leads through another link.
                outside = os.path.isabs(target) or f"{landed}/".startswith("../")
                if outside or not Path(os.path.realpath(full)).is_relative_to(place):
                    raise UsageError(
                        f"source {source}: the link {path!r} leads out of the tree, to "
                        f"{target!r}. Remove it, or replace it by the file itself"
                    )
            elif not stat.S_ISREG(status.st_mode):
                raise UsageError(f"source {source}: {path!r} is neither file, folder nor link")
            pairs.append((path, f"{content_hash(full, status.st_mode)} {mode} {path}"))
        return pairs

    progress(f"hashing {source}", None)
    pairs: list[tuple[str, str]] = []
    remaining = iter(files)
    # In threads: hashing and most system calls drop the interpreter lock.
    with ThreadPoolExecutor(max_workers=min(8, (os.cpu_count() or 1) + 2)) as pool:
        for part in pool.map(lines_of, iter(lambda: list(islice(remaining, _BATCH)), [])):
            pairs += part
            progress(f"hashing {source}", len(pairs) / len(files))
    return [line for _path, line in sorted(pairs)]


def digest_of(lines: Iterable[str]) -> str:
    """One hexadecimal digest (BLAKE2b-256) for a whole manifest."""
    summer = hashlib.blake2b(digest_size=32)
    for line in lines:
        summer.update(line.encode("utf-8", "surrogateescape") + b"\n")
    return summer.hexdigest()


def read_manifest(tree: Path) -> dict[str, str]:
    """Path → ``"HASH MODE"``: BLAKE2b-128 of the content, mode 644, 755 or link."""
    text = (tree.parent / "manifest").read_bytes().decode("utf-8", "surrogateescape")
    lines = (line.split(" ", 2) for line in text.split("\n") if line)
    return {name: f"{digest} {mode}" for digest, mode, name in lines}


_FULL = ("no space left on device", "disk quota exceeded", "file too large", "file size limit")
_SHOWN_LINES = 15
_GITS_PLACES = re.compile(
    "GIT_(DIR|WORK_TREE|INDEX_FILE|OBJECT_DIRECTORY|COMMON_DIR|NAMESPACE|PREFIX|SHALLOW_FILE"
    "|ALTERNATE_OBJECT_DIRECTORIES|GRAFT_FILE|ATTR_SOURCE|CONFIG)"
)


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The caller's environment with untranslated messages and nobody asked for passwords. Nothing
    in it makes another repository git's, as it does for a program that git started."""
    return {
        **{key: value for key, value in os.environ.items() if not _GITS_PLACES.fullmatch(key)},
        "LC_ALL": "C.UTF-8",
        "LANGUAGE": "",
        "GIT_TERMINAL_PROMPT": "0",
        "DEBIAN_FRONTEND": "noninteractive",
        **(extra or {}),
    }


def refuse_full(status: int, stderr: str) -> None:
    """OSError(ENOSPC) when a program failed because the disk is full."""
    full = any(word in stderr.lower() for word in (*_FULL, f"terminated by signal {SIGXFSZ:d}"))
    if full or plain_status(status) == -SIGXFSZ:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def raise_failure(argv: Sequence[str], status: int, stderr: str) -> None:
    """ToolError with the program's own last lines; OSError(ENOSPC) when the disk is full."""
    refuse_full(status, stderr)
    lines = [line for line in stderr.splitlines() if line.strip()][-_SHOWN_LINES:]
    text = "\n  ".join(lines) if lines else "(it printed nothing)"
    ended = f"status {status}" if status >= 0 else f"signal {-status}"
    raise ToolError(f"`{shlex.join(argv)}` failed with {ended}:\n  {text}")


def run(
    argv: Sequence[str],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    stdin: bytes | None = None,
    allowed: tuple[int, ...] = (0,),
    called: Sequence[str] | None = None,
) -> bytes:
    """Standard output of a program that dies with kdyno; raises as ``raise_failure`` for other
    statuses. called: what a message calls the command, where that is long."""
    line = dying_with_us(argv)
    result = capture(line, cwd=cwd, env=environment(env), stdin=stdin, apart=True)
    if result.status not in allowed:
        raise_failure(called or argv, result.status, result.complaint)
    return result.stdout
