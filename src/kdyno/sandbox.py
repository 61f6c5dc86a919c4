# SPDX-License-Identifier: MIT
"""The bubblewrap sandbox around everything that is not trusted: builds, guests, cases, routines.

What each of them sees is a row of the table in views.py. Inside there is no network, no other
process, nothing that can be written but what is named, and no user of the host: an ordinary user
gets a user namespace, and for root the command is started as the view's uid, who owns nothing.
Where bubblewrap does not work kdyno refuses rather than runs without.
"""

from __future__ import annotations

import functools
import hashlib
import os
import resource
import shutil
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kdyno import whole
from kdyno.command import capture
from kdyno.errors import ToolError
from kdyno.paths import cache_root
from kdyno.views import EMPTY, TOOL, VIEWS, View, system

_NEEDED = (1 << 0) | (1 << 6) | (1 << 7) | (1 << 21)  # CAP_CHOWN, _SETGID, _SETUID, _SYS_ADMIN


@dataclass(frozen=True)
class Sandbox:
    """What the sandboxed command may see and write, by its purpose and beyond it.

    read_only, writable: (path on the host, path inside). As root, what is writable must have been
    given away before (``hand_over``). tmp_bytes: another size of the /tmp inside than the view's;
    it exists in memory only and goes away with the command.
    """

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

    def argv(self, command: list[str], *, dropping: bool | None = None) -> list[str]:
        """The whole command line, for subprocess (``files`` must be in its pass_fds).

        bubblewrap stays the first process inside and all others end with it. The command could
        not be that: one that runs as another user is not killed by the death of root's parent.
        dropping: as drops_root() says, for tests of the other way.
        """
        dropping = drops_root() if dropping is None else dropping
        user = str(self.view.uid)
        # A shell opens the filter: whoever copies the line can run it by hand.
        line = ["sh", "-c", f'exec "$@" {FILTER}<"$0"', str(_socket_filter())]
        line += ["bwrap", "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts"]
        line += ["--unshare-cgroup-try", "--die-with-parent", "--new-session"]
        line += ["--seccomp", str(FILTER)]
        if self.settings is not None:
            line += ["--clearenv"]
            line += [word for pair in self.settings.items() for word in ("--setenv", *pair)]
        if dropping:
            # What is needed to become another user, and gone with it.
            line += ["--cap-drop", "ALL", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
        else:
            line += ["--unshare-user", "--uid", user, "--gid", user, "--cap-drop", "ALL"]
        line += self._mounts(dropping)
        temporary = "/dev/shm" if self.memory_bytes is not None else "/tmp"
        line += ["--setenv", "HOME", "/tmp", "--setenv", "TMPDIR", temporary]
        line += ["--chdir", self.chdir]
        line += ["--", *_limits(self.view)]
        if dropping:
            line += ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"]
            line += ["--inh-caps=-all", "--"]
        return [*line, *command]

    def _mounts(self, dropping: bool) -> list[str]:
        line: list[str] = []
        for option, source, inside in system():
            line += [option, source, inside]
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
        shown = [bind for it in self.read_only for bind in _entered(*it, closed_too=dropping)]
        line += _parents([*(it[2] for it in shown), *(it[1] for it in self.writable)])
        line += [word for each in shown for word in each]
        for outside, inside in self.writable:
            line += ["--bind", str(outside), inside]
        for descriptor, inside in self.files:
            line += ["--file", str(descriptor), inside]
        return [*line, "--remount-ro", "/"]


def _entered(outside: Path, inside: str, closed_too: bool) -> list[tuple[str, str, str]]:
    """A folder that only root can enter, as all that lies in it: a temporary folder, a home.

    A link in it stays one: where it leads is not shown by it.
    """
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
            below_bound = any(parent == it or it in parent.parents for it in bound)
            words = ["--dir", str(parent)]
            if len(parent.parts) > 1 and not below_bound and words != line[-2:]:
                line += words
    return line


def _tmpfs(place: str, size_bytes: int | None) -> list[str]:
    # Not sticky: all inside is one user, and what bwrap itself has put there can be removed.
    size = ["--size", str(size_bytes)] if size_bytes is not None else []
    return ["--perms", "0777", *size, "--tmpfs", place]


def _limits(view: View) -> list[str]:
    """So many processes and no core dumps: a program of the host's would be handed those."""
    _, hard = resource.getrlimit(resource.RLIMIT_NPROC)
    most = view.processes if hard == resource.RLIM_INFINITY else min(view.processes, hard)
    return ["prlimit", f"--nproc={most}:{most}", "--core=0:0", "--"]


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


def _socket_filter() -> Path:
    """``_FILTER`` as a file of the cache, so that a line of a log can be run again."""
    content = b"".join(struct.pack("=HBBI", *it) for it in _FILTER)
    file = cache_root() / "sandbox" / f"sockets-{hashlib.sha256(content).hexdigest()[:16]}.bpf"
    if not file.is_file() or file.read_bytes() != content:
        file.parent.mkdir(parents=True, exist_ok=True)
        whole.write(file, content)
    return file


@functools.cache
def drops_root() -> bool:
    """Whether kdyno is root with root's powers, so that commands become other users.

    Else a user namespace is made, for root in a container that lacks those powers, too.
    """
    if os.geteuid() != 0:
        return False
    status = Path("/proc/self/status").read_text("ascii", "replace")
    powers = next(line for line in status.splitlines() if line.startswith("CapEff:"))
    return int(powers.split()[1], 16) & _NEEDED == _NEEDED and all(
        _is_mapped(view.uid) for view in VIEWS
    )


def _is_mapped(uid: int) -> bool:
    for name in ("uid_map", "gid_map"):
        ranges = [line.split() for line in Path(f"/proc/self/{name}").read_text().splitlines()]
        if not any(int(first) <= uid < int(first) + int(count) for first, _, count in ranges):
            return False
    return True


def hand_over(path: Path, view: View, *, again: bool = False) -> None:
    """Make a file or folder writable for what runs inside: root gives it away, with all it holds.

    again: also where the folder itself is the view's already, for kdyno has put more into it.
    """
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
    probe = Sandbox(TOOL).argv(["true"])
    try:
        done = capture(probe, limit_s=20)
    except ToolError as problem:
        return f"bwrap did not run: {problem}"
    if done.status == 0:
        return None
    said = done.output.strip().splitlines()
    return f"bwrap failed: {said[-1] if said else f'exit status {done.status}'}"


_waived = False


def require(sandboxed: bool = True) -> None:
    """ToolError with the ways out where the sandbox is not usable.

    sandboxed: False is the person's word (--no-sandbox), taken here alone; it holds until this
    process ends.
    """
    global _waived
    _waived = not sandboxed
    confines()


def confines() -> bool:
    """True: the sandbox is there. False: it is not, and the person said to go on without it."""
    reason = unusable()
    if reason is not None and not _waived:
        raise ToolError(
            f"no sandbox: {reason}. A guest runs a kernel under test and is not trusted, so "
            "kdyno does not run it unprotected. Install bubblewrap, allow unprivileged user "
            "namespaces (sysctl kernel.unprivileged_userns_clone=1 or "
            "kernel.apparmor_restrict_unprivileged_userns=0), or pass --no-sandbox if you "
            "trust the kernels and commands in this experiment."
        )
    return reason is None
