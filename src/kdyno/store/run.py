# SPDX-License-Identifier: MIT
"""A run: one folder, readable by anyone at any time, written by one process.

One writer at a time, by flock on a file of the run folder. That lock dies with its process, so
nothing has to be cleaned up after kill -9; the number inside the file only serves the message.

Which runs this person began on this machine is noted in the person's own state folder: what a
folder of runs says of that is not believed."""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

from kdyno.errors import KdynoError, ToolError, UsageError
from kdyno.paths import state_root
from kdyno.store.boot import CONSOLE, CONSOLE_LIMIT_BYTES, BootRecord, plain_name, read_boot
from kdyno.store.folder import TEMPORARY, Folder
from kdyno.store.manifest import Manifest
from kdyno.store.reading import parse
from kdyno.store.verdict import Verdict
from kdyno.whole import LONG_S, here

T = TypeVar("T")
EXPERIMENT, MANIFEST, VERDICT = "experiment.toml", "manifest.json", "verdict.json"
FIRST_VERDICT = "first-verdict.json"
"""verdict.json as it was before the run was judged again."""
BOOTS, IMAGES, LOCK = "boots", "images", ".lock"
BEGUN = b"{}\n"
"""The note of a run of which nothing more is to be kept."""

_LIMIT_BYTES = 64 << 20
_TRIES = 25
_ABANDONED_S = 3600.0


def hold(folder: Folder) -> int:
    """Descriptor of the lock, held until that is closed, or until the process ends."""
    descriptor = folder.open_lock(LOCK, make=True)
    try:
        for _ in range(_TRIES):  # whoever looks whether it is held has it for a moment
            with suppress(BlockingIOError):
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            time.sleep(0.02)
        else:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        holder = "another process"
        with suppress(OSError):
            text = os.pread(descriptor, 20, 0).strip()
            holder = f"process {int(text)}" if text.isdigit() else holder
        os.close(descriptor)
        raise ToolError(
            f"{folder.path}: is being written by {holder}. "
            "Wait until that ends, or stop it, and try again"
        ) from error
    with suppress(OSError):  # A full disk is reported where it matters.
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, b"%d\n" % os.getpid(), 0)
    return descriptor


def is_held(folder: Folder) -> bool:
    """Somebody is writing this run right now."""
    if not folder.has(LOCK):
        return False
    try:
        descriptor = folder.open_lock(LOCK, make=False)
    except ToolError:
        return False  # Not ours to read, so nothing can be said; the writer's own lock will tell.
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


@dataclass(frozen=True)
class Damaged:
    name: str
    reason: str


@dataclass(frozen=True)
class Run:
    """A run to read. Every method opens what it needs; ToolError says what is damaged."""

    path: Path

    @property
    def name(self) -> str:
        return self.path.name

    def experiment_text(self) -> str:
        with Folder.open(self.path) as folder:
            data = folder.read(EXPERIMENT, _LIMIT_BYTES)
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            raise ToolError(f"{self.path / EXPERIMENT}: damaged: {error}") from None

    def manifest(self) -> Manifest:
        with Folder.open(self.path) as folder:
            return parse(Manifest, folder.read(MANIFEST, _LIMIT_BYTES), self.path / MANIFEST)

    def verdict(self, name: str = VERDICT) -> Verdict | None:
        """The newest; None before the first judgement. FIRST_VERDICT: the one of the measurement
        itself, where the run was judged again since."""
        with Folder.open(self.path) as folder:
            if not folder.has(name):
                return None
            return Verdict.from_bytes(folder.read(name, _LIMIT_BYTES), self.path / name)

    def image(self, variant: str) -> dict[str, Any]:
        """How the variant's image was built, as ``RunWriter.save_image`` got it."""
        name = file_name(variant)
        with Folder.open(self.path) as folder, folder.folder(IMAGES) as images:
            return parse(dict, images.read(name, _LIMIT_BYTES), self.path / IMAGES / name)

    def boots(self, skip: Collection[str] = ()) -> Iterator[BootRecord | Damaged]:
        """Every boot in the order of the index; what cannot be read comes as Damaged.

        ``skip``: names of folders that are not looked at."""
        last = -1
        with Folder.open(self.path) as folder:
            if BOOTS not in folder.folders():
                if (self.path / BOOTS).is_symlink():
                    yield Damaged(BOOTS, f"{self.path / BOOTS}: is a symbolic link")
                return
            boots = folder.folder(BOOTS)
        with boots:
            for name in sorted(set(boots.folders()) - set(skip), key=_by_index):
                try:
                    with boots.folder(name) as inside:
                        boot = read_boot(inside)
                    if boot.index == last:
                        raise ToolError(f"boot {boot.index} is there twice")
                except ToolError as error:
                    yield Damaged(name, str(error))
                    continue
                last = boot.index
                yield boot

    def taken_indices(self) -> frozenset[int]:
        """Indices in the names of all that lies among the boots, readable or not."""
        with Folder.open(self.path) as folder, folder.folder(BOOTS) as boots:
            return frozenset(_by_index(name)[0] for name in boots.names())

    def console(self, boot: BootRecord) -> bytes:
        """Raw bytes of the boot's console: shown only after control characters were taken out."""
        with (
            Folder.open(self.path) as folder,
            folder.folder(BOOTS) as boots,
            boots.folder(boot.folder_name) as inside,
        ):
            return inside.read(CONSOLE, CONSOLE_LIMIT_BYTES)

    def is_being_written(self) -> bool:
        with Folder.open(self.path) as folder:
            return is_held(folder)

    def state(self, recorded: str) -> str:
        """As the manifest has it; interrupted where that is running and no writer is seen."""
        with suppress(KdynoError):
            if recorded != "running" or self.is_being_written():
                return recorded
        return "interrupted"


class RunWriter(AbstractContextManager["RunWriter"]):
    """The one process that writes a run. Leaving it gives up the lock."""

    def __init__(self, folder: Folder, held: ExitStack) -> None:
        """``held``: the folder and its lock, which are the writer's from now on."""
        self.run, self._folder = Run(folder.path), folder
        self._boots = held.enter_context(folder.make_folder(BOOTS))
        self._held = held.pop_all()

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._held.close()

    def save_manifest(self, manifest: Manifest) -> None:
        self._folder.write(MANIFEST, manifest.to_json(indent=1))

    def save_verdict(self, verdict: Verdict) -> None:
        """Of a measurement that has just ended: what was judged before is gone."""
        self._folder.remove(FIRST_VERDICT)
        self.save_explained(verdict)

    def save_later_verdict(self, verdict: Verdict) -> None:
        """Of boots that were judged before; the first verdict stays beside it, byte for byte."""
        try:
            judged = self.run.verdict() is not None
        except KdynoError:  # what cannot be read is not worth keeping
            judged = False
        if judged and not self._folder.has(FIRST_VERDICT):
            self._folder.write(FIRST_VERDICT, self._folder.read(VERDICT, _LIMIT_BYTES))
        self.save_explained(verdict)

    def save_explained(self, verdict: Verdict) -> None:
        """The same verdict, which now says which functions its effects are in."""
        self._folder.write(VERDICT, verdict.to_json().encode() + b"\n")

    def save_image(self, variant: str, facts: Mapping[str, Any]) -> None:
        """``facts`` must be JSON values; with the one command line that builds it again."""
        text = json.dumps(dict(facts), indent=1, ensure_ascii=False)
        # A text that somebody else wrote may hold half of a pair: escaped it is JSON, too.
        data = text.encode("utf-8", "backslashreplace")
        self.save_file(file_name(variant), data + b"\n", IMAGES)

    def save_file(self, name: str, data: bytes, folder: str) -> None:
        """Any other file: ``stock.json`` in the folder ``profile``."""
        with self._folder.make_folder(folder) as inside:
            inside.write(name, data)

    def add_boots(self, boots: Sequence[tuple[BootRecord, bytes]]) -> None:
        """With their consoles: each whole or absent, and all of them in one go."""
        self._boots.write_folders({boot.folder_name: boot.files(text) for boot, text in boots})


def create_run(runs: Path, experiment_text: str, manifest: Manifest) -> RunWriter:
    """A new run in the folder ``runs``, complete from the moment that it has its name."""
    try:
        runs.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ToolError(f"{runs}: {error.strerror}; choose another folder with --runs") from error
    _remove_abandoned(runs)
    stamp = datetime.now().strftime("%Y-%m-%dT%H%M")
    with Folder.open(runs) as parent, ExitStack() as held:
        aside = f"{TEMPORARY}{here()}{secrets.token_hex(6)}"
        folder = held.enter_context(parent.make_folder(aside))
        try:
            held.callback(os.close, hold(folder))
            folder.write(EXPERIMENT, experiment_text.encode())
            folder.write(MANIFEST, manifest.to_json(indent=1))
            folder.make_folder(BOOTS).close()
            folder.path = parent.rename_free(
                aside, lambda: f"{stamp}-{plain_name(manifest.experiment)}-{secrets.token_hex(2)}"
            )
        except BaseException:
            parent.remove(aside)
            raise
        return RunWriter(folder, held)


def open_run(path: Path) -> Run:
    """The run at this path, to read; UsageError when there is none."""
    if not (path / MANIFEST).is_file():
        raise UsageError(
            f"{path}: is not a run (there is no {MANIFEST} in it); see `kdyno list runs`"
        )
    return Run(path)


def write_run(path: Path) -> RunWriter:
    """Goes on with a run: takes its lock, removes what a killed writer left behind."""
    open_run(path)
    with ExitStack() as held:
        folder = held.enter_context(Folder.open(path))
        held.callback(os.close, hold(folder))
        folder.remove_leftovers()
        for name in (BOOTS, IMAGES):
            with folder.make_folder(name) as inside:
                inside.remove_leftovers()
        return RunWriter(folder, held)


def list_runs(runs: Path) -> tuple[Run, ...]:
    """The runs in a folder, by name (which begins with the time). No folder: no runs. A folder that
    is closed to this person is none, such as ``lost+found``."""
    try:
        with Folder.open(runs) as parent:
            names = [name for name in parent.folders() if parent.has(f"{name}/{MANIFEST}")]
            return tuple(Run(runs / name) for name in names)
    except ToolError:
        if runs.exists():
            raise
        return ()


class Note:
    """Of one run. Its text is the one who began it's: nobody else can write there."""

    def __init__(self, run: Run) -> None:
        manifest = run.manifest()
        facts = (manifest.created, manifest.seed, manifest.origin, manifest.overrides)
        text = json.dumps((run.experiment_text(), *facts), sort_keys=True)
        self._name = f"{sha256(text.encode()).hexdigest()[:32]}.json"
        self._folder = state_root() / "runs"

    def read(self) -> bytes | None:
        """None: somebody else began it, or it was changed. ToolError where others write, too."""
        if not self._folder.is_dir():
            return None
        with self._opened() as folder:
            return folder.read(self._name, _LIMIT_BYTES) if folder.has(self._name) else None

    def write(self, text: bytes = BEGUN) -> None:
        with self._opened() as folder:
            folder.write(self._name, text)

    def remove(self) -> None:
        with suppress(ToolError), self._opened() as folder:
            folder.remove(self._name)

    def _opened(self) -> Folder:
        Folder.private(self._folder.parent).close()
        return Folder.private(self._folder)


def read_each(run: Run, folder: str, read: Callable[[bytes, Path], T]) -> dict[str, T]:
    """Of a folder with a file for each variant: variant → what its file says, the baseline's first.

    Empty where there is none. ToolError names the file that is damaged or not the variant's."""
    records: dict[str, T] = {}
    with Folder.open(run.path) as whole:
        if folder not in whole.folders():
            return {}
        manifest = run.manifest()
        with whole.folder(folder) as inside:
            for name in dict.fromkeys((manifest.baseline, *manifest.images)):
                path = run.path / folder / file_name(name)
                if inside.has(path.name):
                    records[name] = read(inside.read(path.name, _LIMIT_BYTES), path)
                    if (own := records[name].variant) != name:  # type: ignore[attr-defined]
                        raise ToolError(f"{path}: damaged: it is of {own!r}, not {name!r}")
    return records


def file_name(variant: str) -> str:
    return f"{plain_name(variant)}.json"


def _by_index(name: str) -> tuple[int, str]:
    digits = name.split("-", 1)[0]
    return (int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 10 else -1, name)


def _remove_abandoned(runs: Path) -> None:
    """Runs whose writer was killed before they got their name."""
    for path in runs.glob(f"{TEMPORARY}*"):
        with suppress(ToolError, OSError):
            with Folder.open(path) as folder:
                # Between mkdir and flock a living writer holds no lock yet, and that of another
                # machine may not be seen here; hence the age.
                own = path.name.startswith(f"{TEMPORARY}{here()}")
                old_s = _ABANDONED_S if own else LONG_S
                if is_held(folder) or time.time() - path.stat().st_mtime < old_s:
                    continue
            with Folder.open(runs) as parent:
                parent.remove(path.name)
