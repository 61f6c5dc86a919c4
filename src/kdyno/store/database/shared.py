# SPDX-License-Identifier: MIT
"""The store that a team shares. A run goes in whole or not at all, and once however often it is
pushed; its files are in a few compressed archives, and come out byte for byte."""

from __future__ import annotations

import gzip
import io
import os
import shutil
import tarfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from hashlib import sha256
from pathlib import Path
from typing import Literal

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from kdyno import whole
from kdyno.errors import ToolError, UsageError
from kdyno.reading.mistakes import meant
from kdyno.store.boot import plain_name
from kdyno.store.database import query, tables
from kdyno.store.database.address import location, sqlite_file
from kdyno.store.database.query import Wanted, engine_of, reading, writing
from kdyno.store.database.tables import KERNELS, MACHINES, PARTS, RUNS, SAMPLES, SCORES, Facts
from kdyno.store.folder import Folder
from kdyno.store.index import NoSuchRun, stamp
from kdyno.store.run import BOOTS, MANIFEST, VERDICT, Run
from kdyno.store.samples import Score, gather, scores_of
from kdyno.whole import NO_SPACE

_SHOWN = 10
_HINTED = 1000
Word = Literal["pushed", "replaced", "there"]
"""New; in place of an earlier state of the same run; nothing to do."""
_TRIES = 3
_FILE_BYTES = 64 << 20
_PART_BYTES = 8 << 20
"""Of files, before they are compressed: what a push holds in memory beside the compressed ones."""
_UNPACKED_BYTES = _FILE_BYTES + 4 * _PART_BYTES
"""Nobody's archive becomes larger than this in memory."""
_DEEPEST = 3
"""boots/0000-stock/job.json"""
_LEVEL = 4


@dataclass(frozen=True)
class Rows:
    """What a page of many runs needs of them, at one moment."""

    facts: Sequence[Facts]
    """Newest first."""
    kernels: Mapping[str, Sequence[tables.Kernel]]
    """By identity."""
    scores: Mapping[str, Sequence[Score]]


class Shared:
    """``address`` as KDYNO_STORE has it, checked. Nothing is reached before the first question."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.where = f"the store {location(address)}"

    @cached_property
    def _engine(self) -> sa.Engine:
        file = sqlite_file(self.address)
        if file is not None and not file.parent.is_dir():
            raise UsageError(f"{self.where}: there is no folder {file.parent}")
        return engine_of(self.address)

    def close(self) -> None:
        self._engine.dispose()

    def prepare(self, *, upgrade_it: bool = False) -> str | None:
        """Makes the tables where there are none. The version of those that were changed, or None.

        UsageError for tables of another kdyno, ToolError for a store that cannot be reached."""
        with writing(self._engine, self.address) as connection:
            version = tables.prepare(connection, self.where, upgrade=upgrade_it)
        return version if version != tables.HEAD else None

    def push(self, run: Run) -> Pushed:
        """The run is in the store afterwards, whole; or an error, and the store is as it was."""
        copy = copy_of(run)
        with writing(self._engine, self.address) as connection:
            tables.prepare(connection, self.where)
            return put(connection, copy, self.where)

    def listed(self, wanted: Wanted) -> list[Facts]:
        """Newest first."""
        with reading(self._engine, self.address) as connection:
            tables.require(connection, self.where)
            return query.listed(connection, _bounded(wanted))

    def rows(self, wanted: Wanted) -> Rows:
        wanted = _bounded(wanted)
        with reading(self._engine, self.address) as connection:
            tables.require(connection, self.where)
            return Rows(
                query.listed(connection, wanted),
                query.of_runs(connection, wanted, KERNELS, partial(tables.read_row, tables.Kernel)),
                query.of_runs(connection, wanted, SCORES, tables.read_score),
            )

    def find(self, text: str) -> Facts:
        """A run's name, a part of it that only one has, or ``last``; NoSuchRun, or UsageError."""
        with reading(self._engine, self.address) as connection:
            tables.require(connection, self.where)
            facts = query.named(connection, text, _SHOWN + 1)
            hints = query.names(connection, _HINTED) if not facts else []
        if len(facts) == 1:
            return facts[0]
        if facts:
            names = [fact.name for fact in facts[:_SHOWN]] + ["…"] * (len(facts) > _SHOWN)
            listed = "\n  ".join(names)
            raise UsageError(f"{text}: several runs match; give more of the name:\n  {listed}")
        hint = meant(text, hints)
        raise NoSuchRun(f"{text}: no such run in {self.where}{hint}; `kdyno list runs` shows them")

    def fetch(self, facts: Facts, cache: Path) -> Run:
        """The run as a folder in the cache, to be read only: there is one copy."""
        name = facts.name
        digests = (facts.digest, facts.identity)
        if plain_name(name, 255) != name or not all(map(str.isalnum, digests)):
            raise ToolError(f"{self.where}: {name!r} is no name of a run")
        # A name that nothing of the address can be read from.
        store = sha256(self.address.encode("utf-8", "surrogateescape")).hexdigest()[:16]
        shelf = cache / "store" / store / facts.identity[:32]
        place = shelf / facts.digest[:32] / name
        with whole.cache_errors(shelf, facts.size_bytes), whole.locked(shelf / ".lock"):
            if place.is_dir() and weighed(place) == (facts.files, facts.size_bytes):
                return Run(place)
            for old in shelf.iterdir():
                if old.is_dir():  # what the run was like before
                    shutil.rmtree(old, ignore_errors=True)
            with whole.folder(place) as into:
                with reading(self._engine, self.address) as connection:
                    tables.require(connection, self.where)
                    for part in query.parts(connection, facts.identity):
                        unpack(part, into)
                if weighed(into) != (facts.files, facts.size_bytes):
                    raise ToolError(f"{self.where}: {facts.name} changed meanwhile; try again")
        return Run(place)

    def forget(self, run: Run) -> None:
        """A fetched folder that was changed."""
        with suppress(OSError):
            shutil.rmtree(run.path.parent)


def _bounded(wanted: Wanted) -> Wanted:
    return replace(wanted, limit=min(wanted.limit or query.NEWEST, query.MOST))


# A run as it is put there.


@dataclass(frozen=True)
class Packed:
    parts: tuple[bytes, ...]
    digest: str
    """Of all names and contents."""
    files: int
    size_bytes: int
    """Of the files, not compressed."""
    left_out: tuple[str, ...]
    """Links, devices, and files beyond what a run's files may have."""


@dataclass(frozen=True)
class Copy:
    """A run as it is written into the store."""

    facts: Facts
    rows: dict[sa.Table, Sequence[object]]
    """Those of the other tables; what has a place has it by its order."""
    packed: Packed


@dataclass(frozen=True)
class Pushed:
    name: str
    """In the store: the run's own, unless another run has it there."""
    word: Word
    boots: int
    size_bytes: int
    """As it was sent, compressed."""
    left_out: tuple[str, ...]


def copy_of(run: Run) -> Copy:
    """All of a run that is not being written. UsageError or ToolError where it is not whole."""
    if run.is_being_written():
        raise UsageError(f"{run.name} is still being measured; push it when that has ended")
    before = stamp(run, MANIFEST, VERDICT, BOOTS)
    manifest, verdict = run.manifest(), run.verdict()
    samples = gather(run.boots())
    failed = sum(reasons.total() for reasons in samples.failures.values())
    identity = tables.identity_of(manifest, run.experiment_text())
    packed = pack(run.path)
    facts = replace(
        tables.facts_of(manifest, verdict, identity, plain_name(run.name, 200), packed.digest),
        boots=samples.boots.total() + failed,
        damaged=len(samples.damaged),
        files=packed.files,
        size_bytes=packed.size_bytes,
    )
    records: dict[sa.Table, Sequence[object]] = {
        KERNELS: tables.kernels_of(run, manifest, verdict),
        MACHINES: tables.machines_of(run, manifest),
        SCORES: scores_of(verdict, manifest, samples) if verdict else [],
        SAMPLES: tables.series_in(samples),
    }
    if stamp(run, MANIFEST, VERDICT, BOOTS) != before or run.is_being_written():
        raise ToolError(f"{run.name} changed while it was read; nothing was pushed: try again")
    return Copy(facts, records, packed)


def put(connection: sa.Connection, copy: Copy, where: str) -> Pushed:
    """Within a transaction. Of two that put the same run at once, the second finds it there."""
    facts, packed = copy.facts, copy.packed
    values = tables.row_of(facts)
    dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
    number: int | None = None
    word: Word = "pushed"
    for _ in range(_TRIES):
        # Where another is putting the same run, this waits for the other's end.
        entered = dialect.insert(RUNS).values(values).on_conflict_do_nothing().returning(RUNS.c.id)
        number = connection.scalar(entered)
        if number is not None:
            break
        own = sa.select(RUNS.c.id, RUNS.c.name, RUNS.c.digest, RUNS.c.boots)
        there = connection.execute(
            own.where(RUNS.c.identity == facts.identity).with_for_update()
        ).one_or_none()
        if there is None:  # another run of this name, from another machine perhaps
            values["name"] = f"{facts.name}-{facts.identity[:8]}"
            continue
        if there.digest == facts.digest:
            return Pushed(there.name, "there", facts.boots, 0, packed.left_out)
        if there.boots > facts.boots:
            raise UsageError(
                f"{where} has more of {facts.name}: {there.boots} boots, here are {facts.boots}. "
                "It was gone on with elsewhere; nothing was pushed"
            )
        number, word, values["name"] = there.id, "replaced", there.name
        connection.execute(sa.update(RUNS).where(RUNS.c.id == number).values(values))
        for table in (*copy.rows, PARTS):
            connection.execute(sa.delete(table).where(table.c.run == number))
        break
    if number is None:
        raise ToolError(f"{where}: {facts.name} could not be put there; try again")
    for table, records in copy.rows.items():
        if numbered := tables.rows_of(table, records, number):
            connection.execute(sa.insert(table), numbered)
    for place, content in enumerate(packed.parts):  # one by one: each is some megabytes
        connection.execute(sa.insert(PARTS), {"run": number, "number": place, "content": content})
    sent_bytes = sum(map(len, packed.parts))
    return Pushed(str(values["name"]), word, facts.boots, sent_bytes, packed.left_out)


# Archives.


def pack(folder: Path) -> Packed:
    """All files of a run; hidden and temporary ones are left out."""
    digest, parts, left_out = sha256(), [], []
    files = size_bytes = held_bytes = 0
    held: list[tuple[str, bytes]] = []
    with Folder.open(folder) as top:
        for name, data in _files(top, ()):
            if data is None:
                left_out.append(name)
                continue
            files += 1
            size_bytes += len(data)
            held_bytes += len(data)
            digest.update(b"%s\0%s" % (os.fsencode(name), sha256(data).digest()))
            held.append((name, data))
            if held_bytes >= _PART_BYTES:
                parts.append(_archive(held))
                held, held_bytes = [], 0
    if held or not parts:
        parts.append(_archive(held))
    return Packed(tuple(parts), digest.hexdigest(), files, size_bytes, tuple(left_out))


def _archive(files: Sequence[tuple[str, bytes]]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.TarFile(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, data in files:
            about = tarfile.TarInfo(name)
            about.size = len(data)
            archive.addfile(about, io.BytesIO(data))
    return gzip.compress(buffer.getbuffer(), _LEVEL, mtime=0)


def _files(folder: Folder, above: tuple[str, ...]) -> Iterator[tuple[str, bytes | None]]:
    """(name, content) in a fixed order; None for what is left out."""
    folders = set(folder.folders())
    for name in folder.names():
        path = (*above, name)
        if name in folders and len(path) < _DEEPEST:
            with folder.folder(name) as inside:
                yield from _files(inside, path)
            continue
        data = None
        if name not in folders:
            with suppress(ToolError):  # a link, a device, or too large
                data = folder.read(name, _FILE_BYTES)
        yield "/".join(path), data


def _is_plain(name: str) -> bool:
    return bool(name) and not name.startswith(".") and "\0" not in name and len(name) <= 255


def unpack(content: bytes, into: Path) -> None:
    """Writes the files of one part below a private folder.

    ToolError for anything that ``pack`` does not write."""
    unzip = zlib.decompressobj(wbits=31)
    try:
        plain = unzip.decompress(content, _UNPACKED_BYTES)
        if unzip.unconsumed_tail or not unzip.eof:
            raise ToolError("an archive of a run is larger than any that kdyno writes")
        for name, data in _members(plain):
            parts = name.split("/")
            if len(parts) > _DEEPEST or not all(map(_is_plain, parts)):
                raise ToolError(f"an archive of a run holds {name[:100]!r}")
            target = into.joinpath(*parts)
            try:
                target.parent.mkdir(parents=True, exist_ok=True)
                with target.open("xb") as file:
                    file.write(data)
            except OSError as problem:
                if problem.errno in NO_SPACE:
                    raise
                why = f"an archive of a run holds {name[:100]!r}: {problem.strerror}"
                raise ToolError(why) from None
    except (tarfile.TarError, zlib.error, ValueError) as problem:
        raise ToolError(f"an archive of a run is damaged: {problem}") from None


def _members(plain: bytes) -> Iterator[tuple[str, memoryview]]:
    """(name, content) of the files in an archive as ``pack`` writes it.

    Python's own reader of archives believes what they say of themselves: with a size below 0 it
    reads in circles, a sparse file of some bytes becomes one of any size."""
    at, name, whole = 0, "", memoryview(plain)
    while any(header := plain[at : at + tarfile.BLOCKSIZE]):
        about = tarfile.TarInfo.frombuf(header, "utf-8", "surrogateescape")
        at += tarfile.BLOCKSIZE
        if not 0 <= about.size <= len(plain) - at:
            raise ValueError(f"a file of {about.size} bytes")
        data = whole[at : at + about.size]
        at += -(-about.size // tarfile.BLOCKSIZE) * tarfile.BLOCKSIZE
        if about.type == tarfile.XHDTYPE and not name:
            name = _long_name(bytes(data))
        elif about.type == tarfile.REGTYPE:
            yield name or about.name, data
            name = ""
        else:
            raise ToolError(f"an archive of a run holds {about.name[:100]!r}, which is no file")


def _long_name(records: bytes) -> str:
    """Of a file whose name has no room in its header: lines "LENGTH KEY=VALUE"."""
    name = ""
    while records:
        length = int(records[:10].partition(b" ")[0])
        key, _, value = records[: max(0, length)].partition(b" ")[2].partition(b"=")
        expected = key in (b"path", b"hdrcharset") and value.endswith(b"\n")
        if not expected or length > len(records):
            raise ValueError(f"a record {records[:100]!r}")
        if key == b"path":
            name = value[:-1].decode("utf-8", "surrogateescape")
        records = records[length:]
    return name


def weighed(folder: Path) -> tuple[int, int]:
    """(files, bytes) of what lies there."""
    sizes = [
        os.lstat(Path(place, name)).st_size
        for place, _folders, names in os.walk(folder)
        for name in names
        if not name.startswith(".")
    ]
    return len(sizes), sum(sizes)
