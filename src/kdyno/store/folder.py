# SPDX-License-Identifier: MIT
"""A folder held by its descriptor: reading without trust, writing whole or absent.

Every name is opened relative to the descriptor with O_NOFOLLOW, one component at a time. A run
folder that somebody else prepared (links to elsewhere, pipes, devices, endless files) can then
neither be read through nor written through."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

from kdyno.errors import ToolError
from kdyno.whole import NO_SPACE, no_space

TEMPORARY = ".tmp-"
"""Prefix of what is being written. Readers skip it; the next writer removes it."""


class Folder(AbstractContextManager["Folder"]):
    """An open folder. ``path`` is for messages only; nothing is opened by it again."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor

    @classmethod
    def open(cls, path: Path) -> Folder:
        """The path itself may go through links: the person named it."""
        with _in_our_words(path):
            return cls(path, os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))

    @classmethod
    def private(cls, path: Path) -> Folder:
        """One that nobody else writes, made where there is none; ToolError for any other."""
        with _in_our_words(path), suppress(FileExistsError):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.mkdir(mode=0o700)
        folder = cls.open(path)
        status = os.fstat(folder._descriptor)
        if status.st_uid != os.geteuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            folder.close()
            raise ToolError(
                f"{path}: belongs to user {status.st_uid} with mode "
                f"{stat.S_IMODE(status.st_mode):o}: what lies there is not only yours "
                f"(user {os.geteuid()}) to write. If it is your own: "
                "chmod go-w; else take another folder"
            )
        return folder

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def folder(self, name: str) -> Folder:
        """A folder inside. A link with that name is refused, whatever it points to."""
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        with _in_our_words(self.path, name):
            return Folder(self.path / name, os.open(name, flags, dir_fd=self._descriptor))

    def make_folder(self, name: str) -> Folder:
        with _in_our_words(self.path, name), suppress(FileExistsError):
            os.mkdir(name, 0o777, dir_fd=self._descriptor)
        return self.folder(name)

    def folders(self) -> list[str]:
        """Names of the real folders inside, sorted; nothing temporary, hidden or linked."""
        with _in_our_words(self.path), os.scandir(self._descriptor) as entries:
            real = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
        return sorted(name for name in real if not name.startswith("."))

    def names(self) -> list[str]:
        """Names of all that lies here, whatever it is; nothing temporary or hidden."""
        return [name for name in self._names() if not name.startswith(".")]

    def has(self, name: str) -> bool:
        """A regular file of that name lies here."""
        try:
            status = os.stat(name, dir_fd=self._descriptor, follow_symlinks=False)
        except OSError:
            return False
        return stat.S_ISREG(status.st_mode)

    def read(self, name: str, limit_bytes: int) -> bytes:
        """The whole file; ToolError when it is missing, no regular file, or over the limit."""
        # O_NONBLOCK: opening a named pipe must not wait for its writer.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with _in_our_words(self.path, name):
            descriptor = os.open(name, flags, dir_fd=self._descriptor)
            try:
                status = os.fstat(descriptor)
                if not stat.S_ISREG(status.st_mode):
                    raise ToolError(f"{self.path / name}: is not a regular file")
                if status.st_size > limit_bytes:
                    raise ToolError(
                        f"{self.path / name}: {status.st_size} bytes, at most "
                        f"{limit_bytes} expected"
                    )
                # One byte more than the size seen, so that the usual file takes two calls; the
                # limit holds even when the file grows meanwhile.
                data = b""
                at_once = max(status.st_size + 1, 1 << 16)
                while part := os.read(descriptor, min(limit_bytes - len(data), at_once)):
                    data += part
                return data
            finally:
                os.close(descriptor)

    def write(self, name: str, data: bytes) -> None:
        """Replaces the file in one step; after a crash either the old or the new one is there."""
        aside = f"{TEMPORARY}{secrets.token_hex(6)}"
        with _in_our_words(self.path, name):
            try:
                self._put(aside, data)
                os.rename(aside, name, src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor)
                os.fsync(self._descriptor)
            except BaseException:
                with suppress(OSError):
                    os.unlink(aside, dir_fd=self._descriptor)
                raise

    def write_folders(self, folders: Mapping[str, Mapping[str, bytes]]) -> None:
        """Each with its files in one step, and these steps right after each other, when all is
        written; none may exist yet.

        Only who is killed within those few microseconds leaves some of them and not the others."""
        asides: dict[str, str] = {}
        with _in_our_words(self.path / next(iter(folders), "")):
            try:
                for name, files in folders.items():
                    aside = f"{TEMPORARY}{secrets.token_hex(6)}"
                    os.mkdir(aside, 0o777, dir_fd=self._descriptor)
                    asides[aside] = name
                    with self.folder(aside) as inside:
                        for file_name, data in files.items():
                            inside._put(file_name, data)
                        os.fsync(inside._descriptor)
                for aside, name in list(asides.items()):
                    os.rename(aside, name, src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor)
                    del asides[aside]
                os.fsync(self._descriptor)
            except BaseException:
                for aside in asides:
                    self.remove(aside)
                raise

    def remove_leftovers(self) -> None:
        """Removes what a killed writer left. Only for the one who holds the lock."""
        for name in self._names():
            if name.startswith(TEMPORARY):
                self.remove(name)

    def open_lock(self, name: str, make: bool) -> int:
        """Descriptor of a lock file; writable, and made when missing, if ``make``."""
        flags = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        flags |= os.O_RDWR | os.O_CREAT if make else os.O_RDONLY
        with _in_our_words(self.path, name):
            return os.open(name, flags, 0o666, dir_fd=self._descriptor)

    def rename_free(self, name: str, new_name: Callable[[], str]) -> Path:
        """Gives a folder inside the first of these names that nothing has yet."""
        with _in_our_words(self.path, name):
            for _ in range(100):
                wanted = new_name()
                try:
                    # A folder that holds something is never replaced by rename.
                    os.rename(
                        name, wanted, src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor
                    )
                except OSError as error:
                    if error.errno in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR):
                        continue
                    raise
                os.fsync(self._descriptor)
                return self.path / wanted
        raise ToolError(f"{self.path}: no free name for a new run; look at what fills this folder")

    def remove(self, name: str) -> None:
        """Removes a file or a folder with all in it, as far as the system allows."""
        with suppress(OSError):
            status = os.stat(name, dir_fd=self._descriptor, follow_symlinks=False)
            if stat.S_ISDIR(status.st_mode):
                shutil.rmtree(name, ignore_errors=True, dir_fd=self._descriptor)
            else:
                os.unlink(name, dir_fd=self._descriptor)

    def _names(self) -> list[str]:
        with _in_our_words(self.path), os.scandir(self._descriptor) as entries:
            return sorted(entry.name for entry in entries)

    def _put(self, name: str, data: bytes) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(name, flags, 0o666, dir_fd=self._descriptor)
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(descriptor, rest) :]
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextmanager
def _in_our_words(folder: Path, name: str = "") -> Iterator[None]:
    """Turns the system's errors into ours, with the path and the way out."""
    path = folder / name
    try:
        yield
    except OSError as error:
        if error.errno in NO_SPACE:
            raise ToolError(
                f"{path}: not written, {no_space(path)}. "
                "Nothing half-written was kept: free some space and try again; "
                "`kdyno run --resume` goes on with a run that was being measured"
            ) from error
        # O_DIRECTORY on a link says ENOTDIR, O_NOFOLLOW alone ELOOP.
        if error.errno in (errno.ELOOP, errno.ENOTDIR) and path.is_symlink():
            message = f"{path}: is a symbolic link; links in a run are not followed"
            raise ToolError(message) from error
        raise ToolError(f"{path}: {error.strerror or error}") from error
    except ValueError as error:  # a NUL in a name
        raise ToolError(f"{str(path)!r}: {error}") from error
