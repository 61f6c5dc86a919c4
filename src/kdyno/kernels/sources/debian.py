# SPDX-License-Identifier: MIT
"""``debian:PACKAGE``: a linux-source package of Debian, its signature checked by apt."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

from kdyno import space
from kdyno.errors import ToolError, UsageError
from kdyno.kernels.source import KERNEL_TREE_BYTES, Progress, SourceSpec, Tree
from kdyno.kernels.sources import apt, archive, shelf, tool
from kdyno.reading.mistakes import meant

_ETC_APT = Path("/etc/apt")


def record(spec: SourceSpec, cache: Path) -> Path:
    """Where it is remembered which tree the package became."""
    return cache / "sources" / "debian" / f"{spec.rest}.json"


def resolve(spec: SourceSpec, cache: Path, progress: Progress, refresh: bool) -> Tree:
    package = spec.rest
    home = cache / "sources" / "debian"
    place = record(spec, cache)
    if not refresh and (tree := shelf.recorded(cache, place)) is not None:
        return tree
    with shelf.locked(cache, f"debian-{package}", progress):
        if not refresh and (tree := shelf.recorded(cache, place)) is not None:
            return tree
        # The lists are shared by all packages.
        with shelf.locked(cache, "debian", progress):
            machine, version = _offered(spec, home / "apt", progress)
        known = shelf.read_json(place) or {}
        tree = shelf.recorded(cache, place) if known.get("version") == version else None
        return tree or _fetched(spec, cache, place, machine, version, progress)


def _offered(spec: SourceSpec, home: Path, progress: Progress) -> tuple[apt.PrivateApt, str]:
    """The first private apt that has the package, and its newest version there."""
    names: set[str] = set()
    failures: list[str] = []
    for machine in _machines(home):
        try:
            machine.update(progress)
        except ToolError as problem:  # the mirror may not carry this suite: try the next
            failures.append(f"{machine.suites}: {problem}")
            continue
        version = machine.newest(spec.rest)
        if version is not None:
            return machine, version
        names.update(machine.names("linux-source"))
    if not names:
        raise ToolError(f"source {spec}: no package list could be read.\n" + "\n".join(failures))
    hint = meant(spec.rest, sorted(names), " Did you mean {}?")
    raise UsageError(
        f"source {spec}: the Debian archive has no package {spec.rest}.{hint} "
        f"Kernel sources there: {', '.join(sorted(names))}" + "".join(f"\n{f}" for f in failures)
    )


def _machines(home: Path) -> Iterator[apt.PrivateApt]:
    for group in apt.archive(apt.read_entries(_ETC_APT), apt.codename()).groups:
        content = " ".join(f"{entry.uri} {entry.suite}" for entry in group)
        name = hashlib.blake2b(content.encode(), digest_size=8).hexdigest()
        yield apt.PrivateApt(home / name, group)


def _fetched(
    spec: SourceSpec,
    cache: Path,
    record: Path,
    machine: apt.PrivateApt,
    version: str,
    progress: Progress,
) -> Tree:
    shelf.sweep(cache, f"debian-{spec.rest}")
    with shelf.partial(cache, f"debian-{spec.rest}") as scratch:
        space.require(scratch, KERNEL_TREE_BYTES // 4)
        package = machine.download(spec.rest, version, scratch, progress)
        with package.open("rb") as stream:
            checksum = hashlib.file_digest(stream, "sha256").hexdigest()

        def fill(own: Path) -> Path:
            tool.run(["dpkg-deb", "--extract", str(package), str(own / "package")])
            package.unlink()
            packed = sorted((own / "package" / "usr" / "src").glob("*.tar*"))
            if len(packed) != 1:
                raise UsageError(
                    f"source {spec}: the package holds {len(packed)} archives in usr/src; "
                    "a linux-source package holds one"
                )
            into = own / "unpacked"
            into.mkdir()
            archive.unpack(packed[0], into, progress, ToolError)
            packed[0].unlink()
            return archive.only_folder(into)

        digest = hashlib.sha256(f"{spec.rest} {version} {checksum}".encode()).hexdigest()
        key = f"debian-{spec.rest}-{digest[:24]}"
        description = f"Debian {spec.rest} {version} ({machine.suites})"
        tree = shelf.place(cache, spec, key, digest, description, fill, progress)
    shelf.write_json(
        record, {"source": str(spec), "version": version, "sha256": checksum, "tree": key}
    )
    return tree
