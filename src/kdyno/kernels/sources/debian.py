# SPDX-License-Identifier: MIT
"""``debian:PACKAGE``: a linux-source package of Debian, its signature and checksums checked by apt.
It is a private apt: its own lists and state, the machine's own mirror, Debian's own keys. Nothing
of the system's package management is changed, and no privilege is needed."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from kdyno import whole
from kdyno.errors import ToolError, UsageError
from kdyno.kernels.sources import archive, tree as trees
from kdyno.kernels.sources.tree import KERNEL_TREE_BYTES, Progress, Request, Tree
from kdyno.reading.mistakes import meant

_KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
_ROLLING = ("oldstable", "stable", "testing", "unstable", "sid")
_LATER_SUITES = ("trixie-backports", "{codename}-backports", "trixie")
"""Where newer kernels are, tried in this order after the machine's own suites."""
_NOT_OURS = ("Acquire::Languages", "Acquire::IndexTargets", "Acquire::CompressionTypes")


class Entry(NamedTuple):
    """One suite of one archive, of which the machine uses the component main."""

    uri: str
    suite: str


def read_entries(etc: Path = Path("/etc/apt")) -> list[Entry]:
    """The suites of binary packages that the machine has configured, as apt itself reads them."""
    if shutil.which("apt-get") is None:
        raise ToolError(f"debian: sources need apt-get. {_OTHERWISE}")
    form = "$(REPO_URI) $(RELEASE) $(COMPONENT)"
    argv = ["apt-get", "indextargets", "--no-release-info", "--format", form]
    output = trees.run([*argv, "Created-By: Packages", "-o", f"Dir::Etc={etc}/"])
    lines = (line.split() for line in dict.fromkeys(output.decode().splitlines()))
    return [Entry(fields[0].rstrip("/"), fields[1]) for fields in lines if fields[2:] == ["main"]]


_OTHERWISE = "Use kernel.org:, tar:, git: or path: instead"


def groups(entries: Sequence[Entry], codename: str) -> list[tuple[Entry, ...]]:
    """The suites to ask, in order: each group is one private apt. From the machine's entries;
    ToolError when none is Debian's main."""
    own = [entry for entry in entries if entry.suite.split("-")[0] in (codename, *_ROLLING)]
    if not own:
        raise ToolError(
            "no Debian archive (component main) is configured in /etc/apt, so that there is no "
            f"mirror to ask for a debian: source. {_OTHERWISE}"
        )
    suites = dict.fromkeys(suite.format(codename=codename) for suite in _LATER_SUITES)
    later = [suite for suite in suites if suite not in {entry.suite for entry in own}]
    return [tuple(dict.fromkeys(own)), *((Entry(own[0].uri, suite),) for suite in later)]


def codename() -> str:
    """``bookworm`` and the like; empty on a system that names none."""
    return platform.freedesktop_os_release().get("VERSION_CODENAME", "")


def release(suite: str) -> Entry:
    """The suite alone, without its updates, where the machine has its Debian from."""
    entries = read_entries()
    own = groups(entries, codename())[0]
    return next((entry for entry in entries if entry.suite == suite), Entry(own[0].uri, suite))


def line_of(entry: Entry) -> str:
    """As sources.list has it."""
    return f"deb [signed-by={_KEYRING}] {entry.uri} {entry.suite} main"


def own_settings() -> list[str]:
    """The machine's own, for apt.conf: proxies, certificates, time-outs."""
    dump = trees.run(["apt-config", "dump"]).decode("utf-8", "replace").splitlines()
    own = (line for line in dump if line.startswith("Acquire::"))
    return [line for line in own if not line.startswith(_NOT_OURS)]


class PrivateApt:
    """apt over one group of entries, with all of its state in ``home``."""

    def __init__(self, home: Path, group: Sequence[Entry]) -> None:
        if not _KEYRING.is_file():
            raise ToolError(
                "debian: sources need Debian's keys (package debian-archive-keyring). " + _OTHERWISE
            )
        self.suites = ", ".join(entry.suite for entry in group)
        for folder in ("lists/partial", "cache/archives/partial"):
            (home / folder).mkdir(parents=True, exist_ok=True)
        (home / "status").touch()
        (home / "sources.list").write_text("".join(f"{line_of(entry)}\n" for entry in group))
        options = {
            "Dir::Etc::main": "/dev/null",
            # Not the machine's apt.conf.d: it holds hooks that act on the machine's own state.
            "Dir::Etc::parts": "/dev/null",
            "Dir::Etc::preferences": "/dev/null",
            "Dir::Etc::preferencesparts": "/dev/null",
            "Dir::Etc::sourcelist": str(home / "sources.list"),
            "Dir::Etc::sourceparts": "/dev/null",
            "Dir::State": str(home),
            "Dir::State::status": str(home / "status"),
            "Dir::State::lists": str(home / "lists"),
            "Dir::Cache": str(home / "cache"),
            "Acquire::Languages": "none",
            "APT::Update::Error-Mode": "any",
            **({"APT::Sandbox::User": "root"} if os.geteuid() == 0 else {}),
        }
        settings = own_settings() + [f'{key} "{value}";' for key, value in options.items()]
        config = home / "apt.conf"
        config.touch(mode=0o600)  # a proxy's password may be in it
        config.write_text("".join(f"{line}\n" for line in settings))
        self._env = {"APT_CONFIG": str(config)}

    def update(self, progress: Progress) -> None:
        """Fetch and verify the package lists."""
        progress(f"package lists of {self.suites}", None)
        trees.run(["apt-get", "--quiet", "update"], env=self._env)

    def newest(self, package: str) -> str | None:
        policy = trees.run(["apt-cache", "policy", package], env=self._env).decode()
        match = re.search(r"^  Candidate: (\S+)", policy, re.MULTILINE)
        return match[1] if match and match[1] != "(none)" else None

    def versions(self, package: str) -> list[str]:
        """All versions of ``package`` in the group, the newest first."""
        lines = trees.run(["apt-cache", "madison", package], env=self._env).decode().splitlines()
        return list(dict.fromkeys(line.split("|")[1].strip() for line in lines))

    def depends(self, package: str, version: str) -> str:
        """What a version of ``package`` depends on, in the words of its control file."""
        record = trees.run(["apt-cache", "show", f"{package}={version}"], env=self._env).decode()
        match = re.search(r"^Depends: (.*)", record, re.MULTILINE)
        return match[1] if match else ""

    def names(self, start: str) -> list[str]:
        return trees.run(["apt-cache", "pkgnames", start], env=self._env).decode().split()

    def download(self, package: str, version: str, into: Path, progress: Progress) -> Path:
        """The verified ``.deb`` file in ``into``."""
        progress(f"downloading {package} {version}", None)
        argv = ["apt-get", "--quiet", "download", f"{package}={version}"]
        trees.run(argv, cwd=into, env=self._env)
        return next(into.glob(f"{package}_*.deb"))


def resolve(request: Request) -> Tree:
    record = request.home / f"{request.spec.rest}.json"
    package, _, exactly = request.spec.rest.partition("=")

    def make() -> tuple[Tree, dict[str, Any]]:
        with request.locked("debian"):  # the lists are shared by all packages
            apt, version = offered(request, package, exactly)
        earlier = trees.read_json(record) or {}
        tree = trees.recorded(request.cache, record)
        if tree is not None and earlier.get("version") == version:
            return tree, {"version": version, "sha256": earlier.get("sha256")}
        return _fetched(request, apt, package, version)

    return request.once(record, f"debian-{package}", make)


def offered(
    request: Request, package: str, exactly: str = "", kind: str = "linux-source"
) -> tuple[PrivateApt, str]:
    """The first private apt that has the package, and its newest version there, or this one. kind:
    how packages begin that could be meant instead. UsageError where there is none."""
    what = f"{'source' if kind == 'linux-source' else 'image'} {request.spec}"
    names: set[str] = set()
    versions: list[str] = []
    failures: list[str] = []
    for group in groups(read_entries(), codename()):
        content = " ".join(f"{entry.uri} {entry.suite}" for entry in group)
        name = hashlib.blake2b(content.encode(), digest_size=8).hexdigest()
        apt = PrivateApt(request.home / "apt" / name, group)
        try:
            apt.update(request.progress)
        except ToolError as problem:  # the mirror may not carry this suite: try the next
            failures.append(f"{apt.suites}: {problem}")
            continue
        if (version := apt.newest(package)) is not None:
            if not exactly:
                return apt, version
            if exactly in (own := apt.versions(package)):
                return apt, exactly
            versions += own
        names.update(apt.names(kind))
    names = {name for name in names if not name.endswith(("-dbg", "-template", "-unsigned"))}
    if versions:
        tar = "tar:FILE: the archive in usr/src of a package"
        form = tar if kind == "linux-source" else "deb:FILE"
        raise UsageError(
            f"{what}: the Debian archive has {package} as {', '.join(dict.fromkeys(versions))}, "
            f"not as {exactly}. What has gone from it is a {form} that somebody kept"
        )
    if not names:
        raise ToolError(f"{what}: no package list could be read.\n" + "\n".join(failures))
    hint = meant(package, sorted(names), " Did you mean {}?")
    kinds = "Kernel sources" if kind == "linux-source" else "Kernels"
    raise UsageError(
        f"{what}: the Debian archive has no package {package}.{hint} "
        f"{kinds} there: {', '.join(sorted(names))}" + "".join(f"\n{f}" for f in failures)
    )


def _fetched(
    request: Request, apt: PrivateApt, name: str, version: str
) -> tuple[Tree, dict[str, Any]]:
    spec = request.spec
    with request.scratch() as scratch:
        whole.require_space(request.cache, KERNEL_TREE_BYTES // 4)
        package = apt.download(name, version, scratch, request.progress)
        checksum = trees.sha256_of(package)

        def fill(own: Path) -> Path:
            trees.run(["dpkg-deb", "--extract", str(package), str(own / "package")])
            package.unlink()
            packed = sorted((own / "package" / "usr" / "src").glob("*.tar*"))
            if len(packed) != 1:
                raise UsageError(
                    f"source {spec}: the package holds {len(packed)} archives in usr/src; "
                    "a linux-source package holds one"
                )
            source, _checksum = archive.unpack_file(packed[0], own, request, ToolError)
            packed[0].unlink()
            return source

        digest = hashlib.sha256(f"{name} {version} {checksum}".encode()).hexdigest()
        description = f"Debian {name} {version} ({apt.suites})"
        tree = request.place(f"debian-{name}-{digest[:24]}", digest, description, fill)
    return tree, {"version": version, "sha256": checksum}
