# SPDX-License-Identifier: MIT
"""Files and folders that are whole or absent, whenever this process is killed; and full disks.

What is written is renamed into place. What is needed for a while is held by a lock that dies with
its process, and whoever comes next removes what the dead have left. A network file system may have
no locks between machines: what another one left is removed by that one, or after a day."""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from hashlib import sha256
from pathlib import Path

from kdyno.errors import ToolError

NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""The system's words for a disk, or somebody's share of it, that is full."""
_ELSEWHERE = "KDYNO_CACHE names another cache folder"


def no_space(path: Path, needed_bytes: int | None = None) -> str:
    """What a person has to know of a full disk: which folder, how much is free and needed."""
    there = _existing(path if path.is_dir() else path.parent)
    free = "nothing"
    with suppress(OSError):
        free = _amount(shutil.disk_usage(there).free)
    needed = f", about {_amount(needed_bytes)} needed" if needed_bytes is not None else ""
    return f"no space left in {there} ({free} free{needed}, or a quota or limit is reached)"


def require_space(where: Path, needed_bytes: int, cache: bool = True) -> None:
    """ToolError, before the work, where a folder, of the cache or not, has fewer bytes free."""
    if shutil.disk_usage(_existing(where)).free < needed_bytes:
        way_out = f"Free some; {_ELSEWHERE}" if cache else "Free some"
        raise ToolError(f"{no_space(where, needed_bytes)}. {way_out}")


@contextmanager
def cache_errors(where: Path, needed_bytes: int | None = None) -> Iterator[None]:
    """A full, read-only or broken disk below ``where`` becomes a ToolError with the way out."""
    try:
        yield
    except OSError as problem:
        name = problem.filename
        path = Path(name if isinstance(name, str) else where)
        what = f"cannot write or read {name or where}: {problem.strerror}"
        if problem.errno in NO_SPACE:
            what = f"{no_space(where, needed_bytes)}. Free some"
        elif path.is_absolute() and not (path.is_relative_to(where) or where.is_relative_to(path)):
            raise ToolError(what) from problem  # of a source: no other cache makes that readable
        raise ToolError(f"{what}; {_ELSEWHERE}") from problem


def _existing(path: Path) -> Path:
    """The nearest folder above that is there."""
    return next(folder for folder in (path, *path.parents) if folder.exists())


def _amount(size_bytes: int) -> str:
    return f"{size_bytes / 1e3:,.0f} kB" if size_bytes < 1e6 else f"{size_bytes / 1e6:,.0f} MB"


_ASIDE = ".kdyno-"
_SCRATCH = "kdyno-"
_NEW, _HELD = ".new", ".held"
_NAME_LIMIT = 100
_MOST_LINKS = 40
LONG_S = 86400.0


def here() -> str:
    """This machine, in a few letters, for names."""
    return sha256(os.uname().nodename.encode()).hexdigest()[:6]


def into_place(aside: Path, place: Path) -> None:
    """Gives the folder ``aside`` the name ``place``. Where another machine was quicker, what it
    made stays: it is whole, and made of the same."""
    try:
        aside.rename(place)
    except OSError as problem:
        if problem.errno not in (errno.EEXIST, errno.ENOTEMPTY):
            raise


def write(path: Path, data: bytes) -> None:
    """Replaces the file in one step, through a link of this user's or root's; a pipe or a device is
    written to. ToolError for a full disk, with how much is free; any other OSError as the system
    gives it. A file in a folder that takes no new ones is written where it is, as it must be."""
    target = _target(path)
    try:
        _replace(target, data)
    except OSError as problem:
        if problem.errno not in NO_SPACE:
            raise
        raise ToolError(f"{target}: not written: {no_space(target, len(data))}") from problem


def _replace(target: Path, data: bytes) -> None:
    status = target.stat() if target.exists() else None
    if status is not None and not stat.S_ISREG(status.st_mode):
        target.write_bytes(data)
        return
    try:
        aside, descriptor = _aside(target)
    except PermissionError:
        if not os.access(target, os.W_OK):
            raise
        target.write_bytes(data)
        return
    try:
        if status is not None:
            with suppress(OSError):
                os.fchown(descriptor, status.st_uid, status.st_gid)
            os.fchmod(descriptor, stat.S_IMODE(status.st_mode))
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        os.fsync(descriptor)
        aside.replace(target)
    except BaseException:
        with suppress(OSError):
            aside.unlink()
        raise
    finally:
        os.close(descriptor)
    _settle(target.parent)


def check(path: Path) -> None:
    """Raises now the OSError that ``write`` would: nothing is changed."""
    target = _target(path)
    if target.exists() and not target.is_file():
        return  # opening and closing a pipe would tell its reader that all is said
    try:
        aside, descriptor = _aside(target)
    except PermissionError:
        if not os.access(target, os.W_OK):
            raise
        return
    aside.unlink()  # while it is locked: another's sweep takes it otherwise
    os.close(descriptor)


@contextmanager
def folder(place: Path) -> Iterator[Path]:
    """An empty folder beside ``place``, which gets that name at the end; gone on an exception.
    Whoever fills it holds a lock of his own: ``place`` must not exist yet."""
    place.parent.mkdir(parents=True, exist_ok=True)
    with scratch("new", place.parent) as aside:
        ready = aside / "ready"
        ready.mkdir()
        yield ready
        into_place(ready, place)
        _settle(place.parent)


@contextmanager
def scratch(kind: str, parent: Path | None = None) -> Iterator[Path]:
    """An empty folder for a while, in ``parent`` or where temporary files go. Those that killed
    processes of this user left there are removed first."""
    if parent is None:
        parent = Path(tempfile.gettempdir())
    else:
        parent.mkdir(parents=True, exist_ok=True)
    _sweep_once(parent)
    outer = Path(tempfile.mkdtemp(prefix=f"{_SCRATCH}{kind}-", dir=parent))
    lock = None
    try:
        # Held before it has its name, so that no one ever sees it unheld while we live.
        lock = os.open(outer / _NEW, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
        with suppress(OSError):  # for people; a full disk is told where it matters
            os.write(lock, f"{os.getpid()} {here()}\n".encode())
        (outer / _NEW).rename(outer / _HELD)
        (outer / "in").mkdir()
        yield outer / "in"
    finally:
        # The content first: while any of it is there, the lock's file tells whose it is. The rest
        # when the lock is closed: on NFS an open file that is removed stays under another name.
        _clear(outer / "in")
        if lock is not None:
            os.close(lock)
        shutil.rmtree(outer, ignore_errors=True)


def remove(folder: Path, work: Path) -> None:
    """Takes a folder out of its place in one step, by way of one in ``work`` on the same disk: it
    is there whole or not at all. What cannot be removed, as of a cache that others own, stays."""
    with suppress(OSError), scratch("gone", work) as aside:
        folder.rename(aside / folder.name)


def sweep(parent: Path) -> None:
    """Removes the folders of ``scratch`` that nobody holds any more."""
    for outer in parent.glob(f"{_SCRATCH}*"):
        with suppress(OSError):
            status = outer.lstat()
            if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
                continue
            inside = [*outer.iterdir()]
            if all(path.name == _NEW for path in inside):
                # Killed before its lock had a name: as old as no living one is in that state.
                is_old = time.time() - status.st_mtime > LONG_S
                if is_old and stat.S_IMODE(status.st_mode) == 0o700:  # as mkdtemp makes it
                    for path in inside:
                        path.unlink()
                    outer.rmdir()
                continue
            flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            descriptor = os.open(outer / _HELD, flags)  # without it the folder is none of ours
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                words = os.read(descriptor, 64).decode("ascii", "replace").split()
                other_machine = len(words) > 1 and words[1] != here()
                age_s = time.time() - (outer / _HELD).stat().st_mtime
                # Locks may not hold between machines: what another left is nobody's after a day.
                left = not other_machine or age_s > LONG_S
                if left:
                    _clear(outer / "in")
            finally:
                os.close(descriptor)
            if left:
                shutil.rmtree(outer, ignore_errors=True)


def _clear(folder: Path) -> None:
    """Removes a folder and all in it, such as folders that a build or a guest has closed to their
    owner."""
    shutil.rmtree(folder, ignore_errors=True)
    places = [folder]
    while places:
        with suppress(OSError):
            if not (place := places.pop()).is_symlink():
                place.chmod(0o700)
                places += filter(Path.is_dir, place.iterdir())
    shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def locked(file: Path, waiting: Callable[[str], None] = lambda _holder: None) -> Iterator[None]:
    """Hold the lock ``file``. While another has it, say once who (``process 12``) and wait."""
    file.parent.mkdir(parents=True, exist_ok=True)
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(file, flags, 0o666), "a+b") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            holder = lock.read(32).decode("ascii", "replace").strip()
            waiting(f"process {holder}" if holder.isdigit() else "another kdyno")
            fcntl.flock(lock, fcntl.LOCK_EX)
        with suppress(OSError):  # the number only serves the message
            lock.truncate(0)
            lock.write(b"%d\n" % os.getpid())
            lock.flush()
        yield


def _target(path: Path) -> Path:
    """Where links on the way lead. PermissionError for one that another user put there: through it
    that one would have this user write anywhere."""
    way, waiting, left = Path("/"), [*reversed(path.absolute().parts[1:])], _MOST_LINKS
    while waiting:
        step = way / waiting.pop()
        if step.name == "..":
            way = way.parent
        elif not step.is_symlink():
            way = step
        elif step.lstat().st_uid not in (0, os.geteuid()):
            raise PermissionError(errno.EACCES, f"{step} is a link of another user's", str(path))
        elif not (left := left - 1):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
        else:
            to = step.readlink()
            way = Path("/") if to.is_absolute() else way
            waiting += reversed(to.parts[to.is_absolute() :])
    return way


def _aside(target: Path) -> tuple[Path, int]:
    """A new file beside ``target``, held by its lock; those of the dead are removed."""
    begin = f"{_ASIDE}{os.fsdecode(os.fsencode(target.name)[:_NAME_LIMIT])}-{here()}"
    flags = os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC
    for left in target.parent.iterdir():  # no glob: the name may hold any character
        if left.name.startswith(begin):
            with suppress(OSError), os.fdopen(os.open(left, flags | os.O_NONBLOCK), "wb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                left.unlink()
    while True:
        aside = target.parent / f"{begin}{secrets.token_hex(6)}"
        descriptor = os.open(aside, flags | os.O_CREAT | os.O_EXCL, 0o666)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        if os.fstat(descriptor).st_nlink:  # else one that swept came between
            return aside, descriptor
        os.close(descriptor)


def _settle(parent: Path) -> None:
    """The new name, on the disk as well; some file systems cannot."""
    with suppress(OSError):
        descriptor = os.open(parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


_sweep_once = cache(sweep)
"""Of each folder once in a process."""
