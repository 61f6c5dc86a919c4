# SPDX-License-Identifier: MIT
"""A userland of a guest's own: one and the same files for kernels of either word size. mmdebstrap
puts together what the cases need from one Debian release alone, which does not change any more as
its updates do. kdyno's own programs are built in it, by its own compiler."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from kdyno import whole
from kdyno.command import capture, started, stream
from kdyno.errors import ToolError, UsageError
from kdyno.experiment.model import userland_of
from kdyno.kernels.sources import debian
from kdyno.kernels.sources.tree import Progress, environment, raise_failure, read_json
from kdyno.machines.guest import guest_digest
from kdyno.machines.machine import Userland
from kdyno.machines.process import ENVIRONMENT
from kdyno.paths import data_root
from kdyno.sandbox import TOOL, Sandbox, hand_over
from kdyno.suites.catalogue import Case

PROGRAM = "mmdebstrap"
INSTALL = "apt-get install mmdebstrap"
_OF_PROGRAMS = ("fonts-dejavu-core", "gcc", "libc6-dev", "make", "pkg-config")
"""What kdyno's own programs are built with, and the letters that they draw."""
_PROGRAMS = data_root() / "guest" / "programs"
_OWN = "{programs}/"
_INSTALL = "// install: "
_LEFT_OUT = ("doc", "info", "locale", "man")
"""Folders of /usr/share that no program needs."""
_SETTINGS = "/etc/apt/apt.conf.d/99mmdebstrap"
"""Where mmdebstrap leaves what it was given for apt: this machine's settings."""
_NEEDED_BYTES = 3_000_000_000
_RECIPE = 2
"""Another one where what is made of the same packages changes."""


def missing() -> str | None:
    """For doctor: None where userlands can be made."""
    return None if shutil.which(PROGRAM) else f"no {PROGRAM} on PATH"


def check(request: str) -> None:
    """ToolError where none can be made here."""
    if why := missing():
        raise ToolError(f'[machine] userland = "{request}": {why}. On Debian: {INSTALL}')


def check_cases(cases: Sequence[Case]) -> None:
    """UsageError for cases that use this machine's programs beforehand."""
    if own := [f"{case.suite}/{case.name}" for case in cases if case.prepare or case.tree]:
        raise UsageError(
            f"{', '.join(own)}: prepared with this machine's own programs, which are not those of "
            "[machine] userland. Leave out userland, or the cases (cases = [...], --case)"
        )


def packages_of(cases: Sequence[Case]) -> tuple[str, ...]:
    """Debian packages, beside the essential ones, that the cases need."""
    packages = {package for case in cases for package in case.install.split()}
    for source in _sources(cases):
        packages.update(_OF_PROGRAMS)
        for line in source.read_text(encoding="utf-8").splitlines()[:5]:
            packages.update(line.removeprefix(_INSTALL).split() if _INSTALL in line else ())
    return tuple(sorted(packages))


def _sources(cases: Sequence[Case]) -> list[Path]:
    """Those of kdyno's own programs that the cases start."""
    words = {word for case in cases for word in (*case.args, *case.program) if _OWN in word}
    files = {_PROGRAMS / f"{word.removeprefix(_OWN)}.c" for word in words}
    return sorted(filter(Path.is_file, files))


def userland(request: str, cases: Sequence[Case], cache: Path, progress: Progress) -> Userland:
    """What ``[machine] userland`` requests for these cases, from the cache or made now."""
    packages = packages_of(cases)
    inputs = f"{_RECIPE} {request} {' '.join(packages)}"
    home = cache / "userlands" / hashlib.sha256(inputs.encode()).hexdigest()[:24]
    with whole.locked(home.parent / f".{home.name}.lock"):
        if not home.is_dir():
            whole.require_space(cache, _NEEDED_BYTES)
            with whole.folder(home) as aside:
                _bootstrap(request, packages, aside, progress)
        record = read_json(home / "userland.json") or {}
        programs = home / f"guest-{guest_digest(_PROGRAMS.parent)[:16]}"
        if not programs.is_dir():
            progress(f"building kdyno's programs in {request}", None)
            _build(home / "root", programs, bool(_sources(cases)))
    for source in _sources(cases):
        if not (programs / "programs" / source.stem).is_file():
            log = (programs / "log").read_text(encoding="utf-8", errors="replace")
            raise ToolError(f"{source.stem} does not build in {request}:\n{log.strip()[-2000:]}")
    digest = hashlib.sha256(f"{record.get('versions')} {programs.name}".encode()).hexdigest()[:12]
    return Userland(
        root=home / "root",
        program=programs / "kdyno-guest",
        description=f"userland {request}, {record.get('packages')} packages ({digest})",
    )


def _bootstrap(request: str, packages: Sequence[str], home: Path, progress: Progress) -> None:
    """Fill ``home``: root/, userland.json with the versions, the log."""
    suite, arch, _bits = userland_of(request)
    progress(f"making the userland {request}, {len(packages)} packages and what they need", None)
    archive, log, settings = home / "root.tar", home / "log", home / "apt.conf"
    settings.touch(mode=0o600)  # a proxy's password may be in it
    settings.write_text("".join(f"{line}\n" for line in debian.own_settings()), encoding="utf-8")
    argv = [PROGRAM, "--verbose", "--mode=auto", "--skip=check/qemu", "--variant=essential"]
    argv += [f"--architectures={arch}", "--format=tar", f"--aptopt={settings}"]
    argv += ['--aptopt=APT::Install-Recommends "false"', "--dpkgopt=force-unsafe-io"]
    argv += [f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in _LEFT_OUT]
    argv += [f"--include={','.join(packages)}"] if packages else []
    argv += [suite, str(archive), debian.line_of(debian.release(suite))]
    if status := stream(argv, log=log, env=environment()):
        raise_failure([PROGRAM, suite], status, log.read_text(encoding="utf-8", errors="replace"))
    settings.unlink()
    root = home / "root"
    root.mkdir()
    # Nobody's files but this user's, without devices and set-user bits.
    argv = ["tar", "-xf", str(archive), "-C", str(root), "--no-same-owner", "--exclude=./dev/*"]
    argv += [f"--exclude=.{_SETTINGS}"]
    with started([*argv, "--no-same-permissions"], stdout=None, umask=0o022) as tar:
        if status := tar.process.wait():
            raise_failure(argv, status, tar.complaint())
    archive.unlink()
    text = (root / "var/lib/dpkg/status").read_text(encoding="utf-8")
    versions = sorted(re.findall(r"^(?:Package|Version): .*$", text, re.MULTILINE))
    record = {
        "requested": list(packages),
        "packages": text.count("\nVersion: "),
        "versions": hashlib.sha256("\n".join(versions).encode()).hexdigest(),
    }
    (home / "userland.json").write_text(json.dumps(record, indent=1), encoding="utf-8")


def _build(root: Path, place: Path, compiled: bool) -> None:
    """kdyno's own programs: scripts, and those that are linked with what is in ``root`` by its
    compiler, shut into it."""
    with whole.folder(place) as aside:
        (aside / "programs").mkdir()
        for script in _PROGRAMS.glob("*.[fs]*"):
            shutil.copy(script, aside / "programs")
        if not compiled:
            return
        hand_over(aside, TOOL)
        box = Sandbox(
            TOOL,
            root=root,
            read_only=((_PROGRAMS.parent, "/tmp/guest"),),
            writable=((aside, "/tmp/out"),),
            settings={"PATH": ENVIRONMENT["PATH"], "LC_ALL": "C"},
        )
        result = capture(box.argv(["make", "-C", "/tmp/guest", "OUT=/tmp/out", "programs"]))
        (aside / "log").write_text(result.output, encoding="utf-8")
        if result.status != 0:
            raise ToolError(f"kdyno's programs did not build:\n{result.output.strip()[-2000:]}")
