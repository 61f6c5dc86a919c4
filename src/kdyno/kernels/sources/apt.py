# SPDX-License-Identifier: MIT
"""A private apt: its own lists and state, the machine's own mirror, Debian's own keys.

Nothing of the system's package management is changed, and no privilege is needed. apt itself
checks the signatures and the checksums.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from kdyno.command import dying_with_us, started
from kdyno.errors import ToolError
from kdyno.kernels.source import Progress
from kdyno.kernels.sources import tool

_KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
_LINE = re.compile(r"deb\s+(?:\[[^\]]*\]\s+)?(\S+)\s+(\S+)\s+(.*)")
_ROLLING = ("oldstable", "stable", "testing", "unstable", "sid")
_LATER_SUITES = ("trixie-backports", "{codename}-backports", "trixie")
"""Where newer kernels are, tried in this order after the machine's own suites."""


@dataclass(frozen=True)
class Entry:
    """One suite of one archive that the machine has configured."""

    uri: str
    suite: str
    components: tuple[str, ...]


@dataclass(frozen=True)
class Archive:
    """What to ask, in order: each group of entries is one private apt."""

    groups: tuple[tuple[Entry, ...], ...]


def parse_deb822(text: str) -> list[Entry]:
    """Entries of a ``.sources`` file: stanzas of fields, one or more URIs and suites in each."""
    entries = []
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    for stanza in re.split(r"\n\s*\n", "\n".join(lines)):
        fields: dict[str, str] = {}
        name = ""
        for line in stanza.splitlines():
            if line[:1].isspace():
                fields[name] = f"{fields.get(name, '')} {line.strip()}"
            else:
                name, _colon, value = line.partition(":")
                name = name.strip().lower()
                fields[name] = value.strip()
        if fields.get("enabled", "yes").lower() in ("no", "false", "0"):
            continue
        if "deb" in fields.get("types", "").split():
            components = tuple(fields.get("components", "").split())
            entries += [
                Entry(uri.rstrip("/"), suite, components)
                for uri in fields.get("uris", "").split()
                for suite in fields.get("suites", "").split()
            ]
    return entries


def parse_list(text: str) -> list[Entry]:
    """Entries of a one-line ``.list`` file."""
    found = (_LINE.match(line.partition("#")[0].strip()) for line in text.splitlines())
    return [Entry(m[1].rstrip("/"), m[2], tuple(m[3].split())) for m in found if m]


def read_entries(etc: Path) -> list[Entry]:
    """All entries below ``etc`` (the machine's ``/etc/apt``), as apt would read them."""
    entries = []
    for file in [etc / "sources.list", *sorted((etc / "sources.list.d").glob("*"))]:
        if file.suffix in (".list", ".sources") and file.is_file():
            parse = parse_deb822 if file.suffix == ".sources" else parse_list
            entries += parse(file.read_text("utf-8", "replace"))
    return entries


def archive(entries: Sequence[Entry], codename: str) -> Archive:
    """The groups to try, from the machine's entries. ToolError when none is Debian's main."""
    own = [
        entry
        for entry in entries
        if "main" in entry.components
        and (entry.suite == codename or entry.suite.split("-")[0] in (codename, *_ROLLING))
    ]
    if not own:
        raise ToolError(
            "no Debian archive (component main) is configured in /etc/apt, so that there is no "
            "mirror to ask for a debian: source. Use kernel.org:, tar:, git: or path: instead"
        )
    mirror = own[0].uri
    later = [suite.format(codename=codename) for suite in _LATER_SUITES]
    known = {entry.suite for entry in own}
    own = [Entry(entry.uri, entry.suite, ("main",)) for entry in own]
    return Archive(
        (
            tuple(dict.fromkeys(own)),
            *(((Entry(mirror, name, ("main",)),)) for name in later if name not in known),
        )
    )


def codename(os_release: Path = Path("/etc/os-release")) -> str:
    """``bookworm`` and the like; empty on a system that names none."""
    match = re.search(r'^VERSION_CODENAME="?([\w-]+)', os_release.read_text("utf-8"), re.MULTILINE)
    return match[1] if match else ""


class PrivateApt:
    """apt over one group of entries, with all of its state in ``home``."""

    def __init__(self, home: Path, group: Sequence[Entry], keyring: Path = _KEYRING) -> None:
        if shutil.which("apt-get") is None or not keyring.is_file():
            raise ToolError(
                "debian: sources need apt-get and Debian's keys (packages apt and "
                "debian-archive-keyring). Use kernel.org:, tar:, git: or path: instead"
            )
        self.suites = ", ".join(entry.suite for entry in group)
        self._home = home
        for folder in ("lists/partial", "cache/archives/partial"):
            (home / folder).mkdir(parents=True, exist_ok=True)
        (home / "status").touch()
        (home / "sources.list").write_text(
            "".join(
                f"deb [signed-by={keyring}] {entry.uri} {entry.suite} main\n" for entry in group
            )
        )
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
        settings = [*_network_settings(), *(f'{key} "{value}";' for key, value in options.items())]
        config = home / "apt.conf"
        config.touch(mode=0o600)  # a proxy's password may be in it
        config.write_text("".join(f"{line}\n" for line in settings))
        self._env = {"APT_CONFIG": str(config)}

    def update(self, progress: Progress) -> None:
        """Fetch and verify the package lists."""
        self._run(["apt-get", "--quiet", "update"], f"package lists of {self.suites}", progress)

    def newest(self, package: str) -> str | None:
        """The newest version of ``package`` in the group, or None."""
        shown = tool.run(["apt-cache", "policy", package], env=self._env).decode()
        match = re.search(r"^  Candidate: (\S+)", shown, re.MULTILINE)
        return match[1] if match and match[1] != "(none)" else None

    def names(self, start: str) -> list[str]:
        """Package names that begin with ``start``."""
        return tool.run(["apt-cache", "pkgnames", start], env=self._env).decode().split()

    def download(self, package: str, version: str, into: Path, progress: Progress) -> Path:
        """The verified ``.deb`` file in ``into``."""
        argv = ["apt-get", "--quiet", "download", f"{package}={version}"]
        self._run(argv, f"downloading {package} {version}", progress, into)
        return next(into.glob(f"{package}_*.deb"))

    def _run(
        self, argv: list[str], doing: str, progress: Progress, cwd: Path | None = None
    ) -> None:
        """Run an apt command; its status channel feeds ``progress``."""
        progress(doing, None)
        read_fd, write_fd = os.pipe()
        told = dying_with_us([*argv, "-o", f"APT::Status-Fd={write_fd}"])
        env = tool.environment(self._env)
        with (
            os.fdopen(read_fd, "rb") as channel,
            os.fdopen(write_fd, "wb") as theirs,
            started(told, stdout=None, cwd=cwd, env=env, pass_fds=(write_fd,)) as apt,
        ):
            theirs.close()
            for fraction in _fractions(channel):
                progress(doing, fraction)
            if status := apt.process.wait():
                tool.raise_failure(argv, status, apt.complaint())


def _fractions(channel: Iterator[bytes]) -> Iterator[float]:
    """Fractions from ``dlstatus:ITEM:PERCENT:TEXT`` lines."""
    for line in channel:
        fields = line.split(b":")
        if fields[0] == b"dlstatus" and len(fields) > 2:
            try:
                yield min(1.0, float(fields[2]) / 100)
            except ValueError:
                continue


def _network_settings() -> list[str]:
    """The machine's Acquire settings: proxies, certificates, time-outs."""
    dump = tool.run(["apt-config", "dump"]).decode("utf-8", "replace")
    left_out = ("Acquire::Languages", "Acquire::IndexTargets", "Acquire::CompressionTypes")
    return [
        line
        for line in dump.splitlines()
        if line.startswith("Acquire::") and not line.startswith(left_out)
    ]
