# SPDX-License-Identifier: MIT
"""The shared store in verbs: which one, runs of it by name, and a run pushed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kdyno.errors import UsageError
from kdyno.store.database import address
from kdyno.verbs.output import say

if TYPE_CHECKING:
    from kdyno.store.database.push import Pushed
    from kdyno.store.database.shared import Shared
    from kdyno.store.run import Run

_SHOWN = 5


def store() -> Shared | None:
    """What KDYNO_STORE names; None where it names nothing."""
    asked = address.asked()
    if asked is None:
        return None
    from kdyno.store.database.shared import Shared

    return Shared(asked)


def store_needed() -> Shared:
    """The same, or UsageError."""
    found = store()
    if found is None:
        raise UsageError(
            f"there is no store: set {address.VARIABLE}, such as postgresql://HOST/DATABASE"
        )
    return found


def store_prepared() -> Shared:
    """The same, asked whether it can take runs: what is wrong is heard before hours of work."""
    shared = store_needed()
    shared.prepare()
    return shared


def pushed(shared: Shared, run: Run) -> Pushed:
    """The run put there, and said."""
    done = shared.push(run)
    other = f" as {done.name}" if done.name != run.name else ""
    if done.word == "there":
        say(f"{run.name}: is in {shared.where}{other} as it is here")
    else:
        word = "pushed to" if done.word == "pushed" else "brought up to date in"
        size = f"{done.boots} boots, {done.size_bytes / 1e6:.1f} MB"
        say(f"{run.name}: {word} {shared.where}{other} ({size})")
    if done.left_out:
        more = ", …" if len(done.left_out) > _SHOWN else ""
        names = ", ".join(done.left_out[:_SHOWN])
        say(f"{run.name}: not pushed, as no files of a run: {names}{more}")
    return done


def fetched(shared: Shared, text: str) -> Run:
    """The run of the store that a person means, as a folder in the cache."""
    from kdyno.paths import cache_root

    return shared.fetch(shared.find(text), cache_root())


def is_fetched(run: Run) -> bool:
    """The run's folder is a copy out of the store: what is changed in it is lost."""
    from kdyno.paths import cache_root

    return run.path.is_relative_to(cache_root() / "store")


def found(text: str, runs: Path | None) -> Run:
    """The run that a person means: of the folder; else, unless --runs names one, of the store."""
    from kdyno.store.index import NoSuchRun, resolve
    from kdyno.store.run import open_run
    from kdyno.verbs.options import runs_folder

    try:
        return open_run(resolve(text, runs_folder(runs)))
    except NoSuchRun as here:
        shared = store() if runs is None else None
        if shared is None:
            raise
        try:
            return fetched(shared, text)
        except NoSuchRun as there:
            raise UsageError(f"{here}\n{there}") from None
