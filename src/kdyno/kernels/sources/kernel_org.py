# SPDX-License-Identifier: MIT
"""``kernel.org:VERSION``: a release of the kernel project, its checksum verified.

The checksum comes from the project's signed list, read over HTTPS; the list's OpenPGP
signature itself is not checked. ``$KDYNO_KERNEL_ORG`` names another site of the same layout.
"""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path

from kdyno import space
from kdyno.errors import ToolError, UsageError
from kdyno.kernels.source import KERNEL_TREE_BYTES, Progress, SourceSpec, Tree
from kdyno.kernels.sources import archive, download, shelf

_DEFAULT_SITE = "https://www.kernel.org/pub/linux/kernel"
_SUM = re.compile(r"^([0-9a-f]{64}) [ *]linux-([0-9][0-9.]*)\.tar\.xz$", re.MULTILINE)


def record(spec: SourceSpec, cache: Path) -> Path:
    """Where it is remembered which tree the release became."""
    return cache / "sources" / "kernel.org" / f"{spec.rest}.json"


def resolve(spec: SourceSpec, cache: Path, progress: Progress, refresh: bool) -> Tree:
    version = spec.rest
    home = cache / "sources" / "kernel.org"
    place = record(spec, cache)
    # A release never changes, so there is nothing to refresh.
    if (tree := shelf.recorded(cache, place)) is not None:
        return tree
    with shelf.locked(cache, f"kernel.org-{version}", progress):
        if (tree := shelf.recorded(cache, place)) is not None:
            return tree
        site = os.environ.get("KDYNO_KERNEL_ORG") or _DEFAULT_SITE
        folder = f"{site.rstrip('/')}/v{version.partition('.')[0]}.x"
        checksum = _checksum(spec, folder, progress)
        home.mkdir(parents=True, exist_ok=True)
        packed = home / f"linux-{version}.tar.xz"

        def fill(scratch: Path) -> Path:
            space.require(home, KERNEL_TREE_BYTES // 8)
            download.file(f"{folder}/{packed.name}", packed, checksum, progress)
            into = scratch / "unpacked"
            into.mkdir()
            archive.unpack(packed, into, progress, ToolError)
            return archive.only_folder(into)

        key = f"kernel.org-{version}-{checksum[:24]}"
        description = f"Linux {version}, SHA-256 {checksum[:12]} verified"
        digest = hashlib.sha256(f"{version} {checksum}".encode()).hexdigest()
        tree = shelf.place(cache, spec, key, digest, description, fill, progress)
        packed.unlink(missing_ok=True)
        shelf.write_json(place, {"source": str(spec), "tree": key, "sha256": checksum})
        return tree


def _checksum(spec: SourceSpec, folder: str, progress: Progress) -> str:
    """SHA-256 that the site's list has for the release; UsageError lists the nearest others."""
    listing = f"{folder}/sha256sums.asc"
    progress(f"reading {listing}", None)
    try:
        sums: dict[str, str] = {
            version: digest for digest, version in _SUM.findall(download.text(listing))
        }
    except download.NotFound as problem:
        raise UsageError(f"source {spec}: {problem}. Is there such a major version?") from problem
    if spec.rest in sums:
        return sums[spec.rest]
    if "-rc" in spec.rest:
        raise UsageError(
            f"source {spec}: the site keeps no archive with a checksum of a release candidate. "
            "Use git:URL#vX.Y-rcZ"
        )
    wanted = _numbers(spec.rest)
    near = sorted(sums, key=lambda version: _distance(_numbers(version), wanted))[:5]
    raise UsageError(
        f"source {spec}: there is no release {spec.rest}. Nearest: "
        + (", ".join(sorted(near, key=_numbers)) or f"none; {listing} lists no release")
    )


def _numbers(version: str) -> tuple[int, int, int]:
    parts = [int(part) for part in version.partition("-")[0].split(".") if part]
    major, minor, patch = (*parts, 0, 0, 0)[:3]
    return major, minor, patch


def _distance(one: tuple[int, int, int], other: tuple[int, int, int]) -> tuple[int, int, int]:
    return abs(one[0] - other[0]), abs(one[1] - other[1]), abs(one[2] - other[2])
