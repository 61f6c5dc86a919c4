# SPDX-License-Identifier: MIT
"""The profiles that a run has, read without trust."""

from __future__ import annotations

from kdyno.errors import ToolError
from kdyno.labs.profile.record import FOLDER, Profile, from_bytes
from kdyno.store.boot import plain_name
from kdyno.store.folder import Folder
from kdyno.store.run import Run

_LIMIT_BYTES = 64 << 20


def stored_profiles(run: Run) -> dict[str, Profile]:
    """Variant → profile, the baseline's first; empty where nothing was profiled.

    ToolError names the file that is damaged or not the variant's.
    """
    manifest = run.manifest()
    names = [manifest.baseline, *manifest.images]
    found: dict[str, Profile] = {}
    with Folder.open(run.path) as folder:
        if FOLDER not in folder.folders():
            return {}
        with folder.folder(FOLDER) as inside:
            for name in dict.fromkeys(names):
                file = f"{plain_name(name)}.json"
                if not inside.has(file):
                    continue
                path = run.path / FOLDER / file
                profile = from_bytes(inside.read(file, _LIMIT_BYTES), path)
                if profile.variant != name:
                    raise ToolError(f"{path}: damaged: it is of {profile.variant!r}, not {name!r}")
                found[name] = profile
    return found
