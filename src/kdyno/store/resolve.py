# SPDX-License-Identifier: MIT
"""What people type for a run, to its folder."""

from __future__ import annotations

from pathlib import Path

from kdyno.errors import UsageError
from kdyno.reading.mistakes import meant
from kdyno.store.run import MANIFEST, list_runs


class NoSuchRun(UsageError):
    """A name that no run has here; there may be one elsewhere."""


def resolve(text: str, runs: Path) -> Path:
    """A path, a run's name, the only run that begins or ends so, or ``last`` (the newest)."""
    if text == "last":
        from kdyno.store.database.query import Wanted
        from kdyno.store.index import entries

        found = entries(runs, Wanted(limit=1))
        if not found:
            raise NoSuchRun(f"last: there is no run in {runs}; `kdyno run EXPERIMENT` makes one")
        return found[-1].path
    if not text.strip() or "\0" in text:
        raise UsageError(f"{text!r}: names no run; `kdyno list runs` shows them")
    given = Path(text).expanduser()
    if "/" in text or text in (".", ".."):
        return _checked(given)
    names = {run.name: run.path for run in list_runs(runs)}
    if text in names:
        return names[text]
    matches = [name for name in names if name.startswith(text) or name.endswith(text)]
    if not matches:
        matches = [name for name in names if text in name]
    if len(matches) == 1:
        return names[matches[0]]
    if matches:
        shown = "\n  ".join(matches[:10] + (["…"] if len(matches) > 10 else []))
        raise UsageError(f"{text}: {len(matches)} runs match; give more of the name:\n  {shown}")
    if given.is_dir():
        return _checked(given)
    hint = meant(text, names)
    raise NoSuchRun(f"{text}: no such run in {runs}{hint}; `kdyno list runs` shows them")


def _checked(path: Path) -> Path:
    try:
        if (path / MANIFEST).is_file():
            return path
        found = path.is_dir()
    except OSError as error:  # a name that is too long
        raise UsageError(f"{str(path)[:100]}: {error.strerror}") from error
    if not found:
        raise UsageError(f"{path}: there is no such folder; `kdyno list runs` shows the runs")
    raise UsageError(f"{path}: is not a run (there is no {MANIFEST} in it)")
