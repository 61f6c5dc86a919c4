# SPDX-License-Identifier: MIT
"""The bubblewrap sandbox around all that is not trusted: builds, guests, cases, routines, and tools
that read what others wrote. What each of them sees of the host is a row of one table, VIEWS.

Inside there is no network, no other process, nothing that can be written but what is named, and no
user of the host: an ordinary user gets a user namespace, root becomes the view's uid."""

from __future__ import annotations

import functools
import hashlib
import os
import re
import resource
import shutil
import signal
import stat
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kdyno import whole
from kdyno.command import capture
from kdyno.errors import ToolError
from kdyno.paths import cache_root

Binds = tuple[tuple[Path, str], ...]
"""(path on the host, path inside)."""

SYSTEM = (
    "bin", "sbin", "usr", "etc", "opt", "lib", "lib32", "lib64", "libx32", "nix", "gnu",
)  # fmt: skip
"""Folders of ``/`` with programs, libraries and their settings: seen read-only by all work."""
EMPTY = (
    "boot", "home", "media", "mnt", "proc", "root", "run", "srv", "sys", "tmp", "var",
    "var/lib", "var/log", "var/tmp",
)  # fmt: skip
"""Folders that exist inside with nothing in them; a guest mounts its own over some of them."""
_OWN = frozenset({"dev", "proc", "run", "sys", "tmp"})
"""Places in ``/`` that a sandbox or a guest has its own of."""
_PATH_IN_WORD = re.compile(r"(?:(?<=[\s=,:;'\"(])|^)/[^\s'\",:;()|&<>$`*?\[\]{}]+")


@dataclass(frozen=True)
class View:
    """One row of the table. uid: who its commands are, user and group; a number for each, so that
    none can touch what another made. host: paths shown read-only beside SYSTEM. processes: how many
    of them, threads counted, may live at once. proc: whether there is a /proc, with its own
    processes. tmp_bytes: size of the /tmp inside, which is memory; None: half of the machine's."""

    name: str
    what: str
    uid: int
    host: tuple[str, ...] = ()
    processes: int = 4096
    proc: bool = True
    tmp_bytes: int | None = None


_CPUS = "/sys/devices/system"

# Of the numbers that no distribution gives away (60706 to 61183, by systemd's list), and below
# 65536, so that containers have them as well.
BUILD = View("build", "a kernel's build", 60906, host=(_CPUS,))
# A guest's root sees what its kernel's process sees: in /proc that would be this very process, and
# its memory.
GUEST = View("guest", "a booted UML kernel", 60907, (), 16384, False, 256 << 20)
HOST = View("host", "cases on the running kernel", 60908, (_CPUS,), 16384, True, 256 << 20)
PREPARE = View("prepare", "what a case makes once beforehand", 60909, (_CPUS,), tmp_bytes=1 << 30)
TOOL = View("tool", "a tool that reads what others wrote", 60910, tmp_bytes=256 << 20)
# As many threads as it likes for reading and writing files: it gives up where it gets none.
QEMU = View("qemu", "a booted native kernel, in QEMU", 60911, proc=False)
VIEWS = (BUILD, GUEST, HOST, PREPARE, TOOL, QEMU)


@functools.cache
def system(root: Path = Path("/")) -> tuple[tuple[str, str, str], ...]:
    """bubblewrap's words for SYSTEM as this machine has it: (option, source, place inside). A link
    stays a link (``/bin`` is one to ``usr/bin`` nowadays)."""
    binds = []
    for name in SYSTEM:
        path = root / name
        if path.is_symlink():
            binds.append(("--symlink", str(path.readlink()), f"/{name}"))
        elif path.is_dir():
            binds.append(("--ro-bind", str(path), f"/{name}"))
    return tuple(binds)


def is_seen(path: Path) -> bool:
    """Whether ``path`` lies in what every view shows."""
    return any(top in SYSTEM for top in path.parts[1:2])


def around(program: Path) -> Binds:
    """What must be shown so that a program in an odd place works: the folder it is installed in.
    For ``PREFIX/bin/PROGRAM`` that is PREFIX, else its folder, but never a home or a folder of the
    root as a whole: there it is the program alone. Its real place counts, too."""
    places = set()
    for path in (program.absolute(), program.resolve()):
        if not is_seen(path) and path.exists():
            folder = path.parent.parent if path.parent.name == "bin" else path.parent
            folders = (each for each in (folder, path.parent) if not _too_much(each))
            places.add(next(folders, path))
    return tuple((path, str(path)) for path in sorted(places, key=str))


def named(*commands: Sequence[str]) -> Binds:
    """The files and folders that command lines name and that no view shows, at their own places. A
    program comes with what lies around it. Left out are sockets, pipes and devices, homes and the
    system's folders as a whole, what a link leads to elsewhere, and for root folders that are
    closed to others: those would be opened with root's rights."""
    places = set()
    for word in (word for words in commands for word in words):
        for text in {word, *_PATH_IN_WORD.findall(word)}:
            path = Path(os.path.normpath(text))
            if text.startswith("/") and _may_be_named(path):
                places.add(path)
                if path.is_file() and os.access(path, os.X_OK):
                    places |= {folder for folder, _inside in around(path)}
    return tuple((path, str(path)) for path in sorted(places, key=str))


def _may_be_named(path: Path) -> bool:
    try:
        real = path.resolve(strict=True)
        mode = real.stat().st_mode
    except (OSError, RuntimeError, ValueError):  # not there, links in a circle, no name
        return False
    closed = stat.S_ISDIR(mode) and os.geteuid() == 0 and mode & 0o005 != 0o005
    return (
        (stat.S_ISREG(mode) or stat.S_ISDIR(mode))
        and not closed
        and not is_seen(path)
        and all(map(_is_part, (path, real)))
        and not any(map(_leads_elsewhere, (path, *path.parents)))
    )


def _is_part(path: Path) -> bool:
    """Whether it is in no place of the sandbox's own, and no home or system's folder as a whole."""
    top, home = path.parts[1:2], Path.home()
    whole = str(path)[1:] in EMPTY or path.parent == Path("/home") or path in (home, *home.parents)
    return bool(top) and top[0] not in _OWN and not whole


def _leads_elsewhere(path: Path) -> bool:
    """Whether it is a link out of its folder; those in ``/`` itself are the system's."""
    if not path.is_symlink() or path.parent == Path("/"):
        return False
    to = path.resolve()
    return not (to.is_relative_to(path.parent.resolve()) or is_seen(to))


def _too_much(folder: Path) -> bool:
    home = Path.home()
    shared = len(folder.parts) < 3 or folder.parent == Path("/home")
    return shared or folder == home or folder in home.parents or not os.access(folder, os.R_OK)


NAMESPACES = (
    *("--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try"),
    *("--die-with-parent", "--new-session"),
)
BECOMING = ("--cap-drop", "ALL", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID")
"""What root needs to become another user, and gone with it."""
_NEEDED = (1 << 0) | (1 << 6) | (1 << 7) | (1 << 21)  # CAP_CHOWN, _SETGID, _SETUID, _SYS_ADMIN


def as_user(uid: int) -> list[str]:
    """The words before a command that root starts as another user."""
    own = [f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--inh-caps=-all"]
    return ["setpriv", *own, "--"]


@dataclass(frozen=True)
class Sandbox:
    """What the sandboxed command may see and write, by its purpose and beyond it. read_only,
    writable: (path on the host, path inside). As root, what is writable must have been given away
    before (``hand_over``). tmp_bytes: another size of the /tmp inside than the view's; it exists in
    memory only and goes away with the command."""

    view: View
    read_only: tuple[tuple[Path, str], ...] = ()
    writable: tuple[tuple[Path, str], ...] = ()
    files: tuple[tuple[int, str], ...] = ()
    """(descriptor, path inside): the descriptor's content becomes a file of the inner /tmp."""
    devices: tuple[Path, ...] = ()
    """Device files, each at its own place; whether they may be opened is theirs to say."""
    tmp_bytes: int | None = None
    chdir: str = "/tmp"
    memory_bytes: int | None = None
    """Size of /dev/shm inside, which TMPDIR then names: where UML keeps a guest's memory."""
    settings: Mapping[str, str] | None = None
    """Its environment beside HOME and TMPDIR; None: the caller's."""
    root: Path = Path("/")
    """Whose SYSTEM it sees."""

    def argv(self, command: list[str], *, dropping: bool | None = None) -> list[str]:
        """The whole command line, for subprocess (``files`` must be in its pass_fds). bubblewrap
        stays the first process inside and all others end with it. The command could not be that:
        one that runs as another user is not killed by the death of root's parent. dropping: as
        drops_root() says, for tests of the other way."""
        dropping = drops_root() if dropping is None else dropping
        user = str(self.view.uid)
        # A shell opens the filter: whoever copies the line can run it by hand.
        line = ["sh", "-c", f'exec "$@" {FILTER}<"$0"', str(socket_filter())]
        line += ["bwrap", *NAMESPACES, "--seccomp", str(FILTER)]
        if self.settings is not None:
            line += ["--clearenv"]
            line += [word for pair in self.settings.items() for word in ("--setenv", *pair)]
        if dropping:
            line += BECOMING
        else:
            line += ["--unshare-user", "--uid", user, "--gid", user, "--cap-drop", "ALL"]
        line += self._mounts(dropping)
        temporary = "/dev/shm" if self.memory_bytes is not None else "/tmp"
        line += ["--setenv", "HOME", "/tmp", "--setenv", "TMPDIR", temporary]
        line += ["--chdir", self.chdir]
        _, hard = resource.getrlimit(resource.RLIMIT_NPROC)
        most = self.view.processes
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        # No core dumps: a program of the host's would be handed those.
        line += ["--", "prlimit", f"--nproc={most}:{most}", "--core=0:0", "--"]
        if dropping:
            line += as_user(self.view.uid)
        return [*line, *command]

    def _mounts(self, dropping: bool) -> list[str]:
        line = [word for words in system(self.root) for word in words]
        for name in EMPTY:
            line += ["--dir", f"/{name}"]
        for path in self.view.host:
            line += ["--ro-bind-try", path, path]
        line += ["--dev", "/dev"]
        for device in self.devices:
            line += ["--dev-bind", str(device), str(device)]
        if self.view.proc:
            line += ["--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys"]
        line += _tmpfs("/dev/shm", self.memory_bytes)
        line += _tmpfs("/tmp", self.tmp_bytes or self.view.tmp_bytes)
        binds = [words for bind in self.read_only for words in _entered(*bind, closed_too=dropping)]
        inside_places = [*(place for *_, place in binds), *(place for _, place in self.writable)]
        line += _parents(inside_places)
        line += [word for words in binds for word in words]
        for outside, inside in self.writable:
            line += ["--bind", str(outside), inside]
        for descriptor, inside in self.files:
            line += ["--file", str(descriptor), inside]
        return [*line, "--remount-ro", "/"]


def _entered(outside: Path, inside: str, closed_too: bool) -> list[tuple[str, str, str]]:
    """A folder that only root can enter, as all that lies in it: a temporary folder, a home. A link
    in it stays one: where it leads is not shown by it."""
    if not (closed_too and outside.is_dir()) or outside.stat().st_mode & 0o005 == 0o005:
        return [("--ro-bind", str(outside), inside)]
    return [
        ("--symlink", str(path.readlink()), f"{inside}/{path.name}")
        if path.is_symlink()
        else ("--ro-bind", str(path), f"{inside}/{path.name}")
        for path in sorted(outside.iterdir())
    ]


def _parents(places: Sequence[str]) -> list[str]:
    """Folders above what is bound, where nothing else makes them: bubblewrap's own are its user's
    alone, and that is root."""
    line: list[str] = []
    for place in places:
        bound = [Path(other) for other in places if other != place]
        for parent in reversed(Path(place).parents):
            below_bound = any(parent == other or other in parent.parents for other in bound)
            words = ["--dir", str(parent)]
            if len(parent.parts) > 1 and not below_bound and words != line[-2:]:
                line += words
    return line


def _tmpfs(place: str, size_bytes: int | None) -> list[str]:
    # Not sticky: all inside is one user, and what bwrap itself has put there can be removed.
    size = ["--size", str(size_bytes)] if size_bytes is not None else []
    return ["--perms", "0777", *size, "--tmpfs", place]


FILTER = 9
"""The descriptor that bubblewrap reads the filter from: a shell knows those below 10 alone."""
_LOAD, _EQUAL, _AND, _RETURN = 0x20, 0x15, 0x54, 0x06
_FILTER = (
    # (operation, jump if equal, if not, constant): classic BPF over struct seccomp_data, whose nr
    # is at 0, arch at 4, the low half of an argument at 16 and 24. Allowed at 21, refused at 22.
    *((_LOAD, 0, 0, 4), (_EQUAL, 14, 0, 0x40000003), (_EQUAL, 0, 19, 0xC000003E)),
    # x86-64, and x32, whose bit is cleared: its numbers for these are the same.
    *((_LOAD, 0, 0, 0), (_AND, 0, 0, 0xBFFFFFFF)),
    # io_uring_setup: a ring makes sockets and connects them by itself. socket, socketpair.
    *((_EQUAL, 16, 0, 425), (_EQUAL, 1, 0, 41), (_EQUAL, 4, 13, 53)),
    # A socket of IPv4, IPv6 or netlink: the sandbox has a network of its own. vsock knows none.
    *((_LOAD, 0, 0, 16), (_EQUAL, 11, 0, 2), (_EQUAL, 10, 0, 10), (_EQUAL, 9, 10, 16)),
    # A pair of streams or of packets, which are connected for good; datagrams go to any name.
    *((_LOAD, 0, 0, 24), (_AND, 0, 0, 15), (_EQUAL, 6, 0, 1), (_EQUAL, 5, 6, 5)),
    # i386: socketcall, whose arguments no filter can see; socket, socketpair, io_uring_setup.
    *((_LOAD, 0, 0, 0), (_EQUAL, 4, 0, 102), (_EQUAL, 3, 0, 359), (_EQUAL, 2, 0, 360)),
    *((_EQUAL, 1, 0, 425), (_RETURN, 0, 0, 0x7FFF0000), (_RETURN, 0, 0, 0x00050001)),  # EPERM
)
"""Refuses Unix sockets. A read-only mount does not keep anybody from connecting to one that lies in
it, nor do a socket's permissions keep an ordinary user's sandbox from that user's own."""


def socket_filter() -> Path:
    """``_FILTER`` as a file of the cache, so that a line of a log can be run again."""
    content = b"".join(struct.pack("=HBBI", *step) for step in _FILTER)
    file = cache_root() / "sandbox" / f"sockets-{hashlib.sha256(content).hexdigest()[:16]}.bpf"
    if not file.is_file() or file.read_bytes() != content:
        file.parent.mkdir(parents=True, exist_ok=True)
        whole.write(file, content)
    return file


@functools.cache
def drops_root() -> bool:
    """Whether kdyno is root with root's powers, so that commands become other users. Else a user
    namespace is made, for root in a container that lacks those powers, too."""
    if os.geteuid() != 0:
        return False
    status = Path("/proc/self/status").read_text("ascii", "replace")
    powers = next(line for line in status.splitlines() if line.startswith("CapEff:"))
    mapped = int(powers.split()[1], 16) & _NEEDED == _NEEDED
    for name in ("uid_map", "gid_map"):
        ranges = [line.split() for line in Path(f"/proc/self/{name}").read_text().splitlines()]
        spans = [range(int(first), int(first) + int(count)) for first, _, count in ranges]
        mapped &= all(any(view.uid in span for span in spans) for view in VIEWS)
    return mapped


def hand_over(path: Path, view: View, *, again: bool = False) -> None:
    """Make a file or folder writable for what runs inside: root gives it away, with all it holds.
    again: also where the folder itself is the view's already, for kdyno has put more into it."""
    if not drops_root() or (path.lstat().st_uid == view.uid and not again):
        return
    for folder, folders, files in os.walk(path):
        for name in (*folders, *files):
            os.chown(Path(folder, name), view.uid, view.uid, follow_symlinks=False)
    os.chown(path, view.uid, view.uid, follow_symlinks=False)


@functools.cache
def unusable() -> str | None:
    """Why the sandbox cannot be used on this machine; None when it can (tried, not guessed)."""
    if shutil.which("bwrap") is None:
        return "bubblewrap (the program bwrap) is not installed"
    for program in ("prlimit", *(["setpriv"] if drops_root() else [])):
        if shutil.which(program) is None:
            return f"util-linux (the program {program}) is not installed"
    try:
        result = capture(Sandbox(TOOL).argv(["true"]), limit_s=20)
    except ToolError as problem:
        return f"bwrap did not run: {problem}"
    lines = result.output.strip().splitlines() or [f"exit status {result.status}"]
    return f"bwrap failed: {lines[-1]}" if result.status else None


_waived = False


def waive() -> None:
    """The person's word (--no-sandbox): it holds until this process ends."""
    global _waived
    _waived = True


def require() -> bool:
    """Whether builds and guests run in the sandbox: False by the person's word alone. ToolError
    with the ways out where the sandbox is not usable."""
    return not _waived and _usable()


def _usable() -> bool:
    """False: it is not, and the person said to go on without it; ToolError otherwise."""
    if (reason := unusable()) is not None and not _waived:
        raise ToolError(
            f"no sandbox: {reason}. A guest runs a kernel under test and is not trusted, so "
            "kdyno does not run it unprotected. Install bubblewrap, allow unprivileged user "
            "namespaces (sysctl kernel.unprivileged_userns_clone=1 or "
            "kernel.apparmor_restrict_unprivileged_userns=0), or pass --no-sandbox if you "
            "trust the kernels and commands in this experiment."
        )
    return reason is None


def confined(
    command: Sequence[str],
    *,
    reads: Sequence[Path] = (),
    writes: Sequence[Path] = (),
    settings: Mapping[str, str] | None = None,
) -> list[str]:
    """The command line that runs a tool that reads what others wrote.

    Such a tool obeys what it reads (a repository's settings), is chosen by it (a compiler) or may
    have a defect that it reaches. reads, writes: files and folders that it needs; all keep their
    paths. settings: its environment, beside PATH; nothing of the caller's, in which there may be
    passwords. Where the machine has no sandbox the command is given back as it is to a person who
    said ``--no-sandbox``; ToolError for all others."""
    if not _usable():
        return list(command)
    for path in writes:
        hand_over(path.resolve(), TOOL, again=True)
    program = Path(shutil.which(command[0]) or command[0])
    environment = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C.UTF-8"}
    return Sandbox(
        TOOL,
        read_only=(*around(program), *_places(reads)),
        writable=tuple(_places(writes)),
        settings={**environment, **(settings or {})},
    ).argv(list(command))


def plain_status(status: int) -> int:
    """An exit status as subprocess gives it: the sandbox tells a signal as 128 and its number."""
    return 128 - status if 128 < status < 128 + signal.NSIG else status


def _places(paths: Sequence[Path]) -> Iterator[tuple[Path, str]]:
    for path in paths:
        real, given = path.resolve(), path.absolute()
        yield real, str(real)
        # A symbolic link on the way is there inside as well, but for one in /tmp, which is the
        # sandbox's own.
        if given != real and given.is_relative_to("/tmp"):
            yield real, str(given)
