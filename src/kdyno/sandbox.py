# SPDX-License-Identifier: MIT
"""The bubblewrap sandbox around everything that is not trusted: builds, guests, cases, routines.

What each of them sees is a row of the table in views.py. Inside there is no network, no other
process, nothing that can be written but what is named, and no user of the host: an ordinary user
gets a user namespace, and for root the command is started as the view's uid, who owns nothing.
Where bubblewrap does not work kdyno refuses rather than runs without.
"""

from __future__ import annotations

import functools
import os
import resource
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kdyno.command import capture
from kdyno.errors import ToolError
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

    def argv(self, command: list[str], *, dropping: bool | None = None) -> list[str]:
        """The whole command line, for subprocess (``files`` must be in its pass_fds).

        bubblewrap stays the first process inside and all others end with it. The command could
        not be that: one that runs as another user is not killed by the death of root's parent.
        dropping: as drops_root() says, for tests of the other way.
        """
        dropping = drops_root() if dropping is None else dropping
        user = str(self.view.uid)
        line = ["bwrap", "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts"]
        line += ["--unshare-cgroup-try", "--die-with-parent", "--new-session"]
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
        read_only = [
            bind for it in self.read_only for bind in (_entered(*it) if dropping else [it])
        ]
        line += _parents([inside for _, inside in (*read_only, *self.writable)])
        for outside, inside in read_only:
            line += ["--ro-bind", str(outside), inside]
        for outside, inside in self.writable:
            line += ["--bind", str(outside), inside]
        for descriptor, inside in self.files:
            line += ["--file", str(descriptor), inside]
        return [*line, "--remount-ro", "/"]


def _entered(outside: Path, inside: str) -> list[tuple[Path, str]]:
    """A folder that only root can enter, as all that lies in it: a temporary folder, a home."""
    if not outside.is_dir() or outside.stat().st_mode & 0o005 == 0o005:
        return [(outside, inside)]
    return [(path, f"{inside}/{path.name}") for path in sorted(outside.iterdir())]


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


def require() -> None:
    """ToolError with the ways out where the sandbox is not usable."""
    reason = unusable()
    if reason is not None:
        raise ToolError(
            f"no sandbox: {reason}. A guest runs a kernel under test and is not trusted, so "
            "kdyno does not run it unprotected. Install bubblewrap, allow unprivileged user "
            "namespaces (sysctl kernel.unprivileged_userns_clone=1 or "
            "kernel.apparmor_restrict_unprivileged_userns=0), or pass --no-sandbox if you "
            "trust the kernels and commands in this experiment."
        )
