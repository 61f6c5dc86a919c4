# SPDX-License-Identifier: MIT
"""Stores that others wrote into: rows and archives that kdyno did not put there.

A change is [table, column, which row, kind, value]: that cell gets the value, as SQLite keeps any
in any column (``value``; ``blob``, ``text``: packed bytes, the latter called text). ``sql`` as the
table is a command. Runs are pushed first, one of them broken as those of fuzz_runs.
"""

from __future__ import annotations

import functools
import gzip
import json
import os
import random
import shutil
import sqlite3
import tarfile
from contextlib import ExitStack, suppress
from pathlib import Path
from unittest import mock

from benchmarks.fuzz_command import said_by
from benchmarks.fuzz_oracles import Finding, check_screen
from benchmarks.fuzz_place import Case, Place, packed, unpacked
from benchmarks.fuzz_runs import change, check_outside, one_change, outlined, play_verb
from benchmarks.mutations import MARK, VALUES, mutated
from kdyno.errors import KdynoError
from kdyno.store.database.pack import pack, unpack
from kdyno.store.database.schema import METADATA, PARTS, VERSIONS
from kdyno.store.database.shared import Shared
from kdyno.store.run import Run

VERBS = (
    (5, ("list", "runs")),
    (3, ("list", "runs", "--json", "-")),
    (2, ("list", "runs", "--case", "case-*", "--kernel", "7.3*", "--cpu", "*a*")),
    (4, ("report", "RUN")),
    (2, ("report", "RUN", "--json", "-")),
    (2, ("judge", "RUN")),
    (2, ("compare", "RUN", "OTHER")),
    (2, ("report", "--all", "-o", "OUT")),
    (1, ("push", "PUSHED")),
)
_VERBS_EACH = 4
_PUSHED = 3
"""Runs of a store, at most."""
_COMMANDS = (
    *("DROP TABLE scores", "DROP TABLE runs", "DELETE FROM parts", "DELETE FROM kernels"),
    *(f"DELETE FROM {VERSIONS}", "ALTER TABLE runs DROP COLUMN counts"),
    *("UPDATE runs SET identity = 'a', digest = 'b'", f"DROP TABLE {VERSIONS}"),
)
_CELLS = [
    (table.name, column.name)
    for table in METADATA.sorted_tables
    for column in table.columns
    if table is not PARTS
]
_CELLS += [(VERSIONS, "version_num")]
_MEMBERS = (
    *("boots/0000-stock/job.json", "manifest.json", "manifest.json/x", "boots", "a/b/c/d"),
    *("../canary", "../outside/canary", "/etc/x", ".x", "x/../y", "x\0y", "", "a" * 300, "\udcff"),
    f"<{MARK}>",
)
_KINDS = (
    *(tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.LNKTYPE, tarfile.SYMTYPE, tarfile.CHRTYPE),
    *(tarfile.DIRTYPE, tarfile.FIFOTYPE, tarfile.CONTTYPE, tarfile.GNUTYPE_SPARSE),
    *(tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK, tarfile.XHDTYPE, tarfile.XGLTYPE, b"Z"),
)
_SIZES = (0, 1, 512, 4096, 1 << 33, 1 << 62, -1, -1024, -1536)
_PAX = (
    *(b"22 GNU.sparse.major=1\n", b"22 GNU.sparse.minor=0\n", b"28 GNU.sparse.size=999999\n"),
    *(b"31 GNU.sparse.map=0,1,9999,99\n", b"12 size=9e9\n", b"11 size=-1\n", b"0 x=y\n"),
    *(b"99999999 path=x\n", b"20 path=../canary\n", b"17 mtime=infinit\n", b"hdrcharset=x\n"),
    *(b"36 GNU.sparse.realsize=99999999999\n", b"24 GNU.sparse.name=../x\n"),
)


def store(rng: random.Random, place: Place) -> Case:
    """Runs in a store, some cells and archives of it broken, and the verbs that then read it."""
    names = rng.sample(list(place.runs), min(_PUSHED, len(place.runs)))
    broken: list[list[str]] = []
    cells: list[list[object]] = []
    for _ in range(rng.choice((1, 1, 2, 3))):
        how = rng.random()
        if how < 0.2:
            broken += one_change(rng, place.runs[names[0]])
        elif how < 0.5:
            content = packed(_archive(rng, place.runs[names[0]]))
            cells.append([PARTS.name, "content", rng.randrange(_PUSHED), "blob", content])
        elif how < 0.55:
            cells.append(["sql", "", 0, "", rng.choice(_COMMANDS)])
        else:
            cells.append([*rng.choice(_CELLS), rng.randrange(100), *_value(rng)])
    chosen = rng.choices([words for _, words in VERBS], [each for each, _ in VERBS], k=_VERBS_EACH)
    return {
        "target": "store",
        "runs": names,
        "changes": [*(["run", *it] for it in broken), *(["store", *it] for it in cells)],
        "verbs": [list(words) for words in dict.fromkeys(chosen)],
    }


def _value(rng: random.Random) -> tuple[str, object]:
    how = rng.random()
    if how < 0.1:
        return "text", packed(rng.choice((b"\xff\xfe", b"{", b"[1e999, NaN]", b"null", b"[[]]")))
    if how < 0.2:
        return "blob", packed(rng.choice((b"", b"{}", rng.randbytes(40))))
    values = [it for it in VALUES if not isinstance(it, list | dict) and not _is_large(it)]
    return "value", rng.choice(values)


def _is_large(value: object) -> bool:
    return isinstance(value, int) and abs(value) >= 1 << 63


def _archive(rng: random.Random, run: Path) -> bytes:
    """An archive of a run's that somebody changed, or made."""
    how = rng.random()
    part = _part(run)
    if how < 0.2:
        return mutated(rng, part)
    plain = gzip.decompress(part)
    if how < 0.5:
        return gzip.compress(mutated(rng, plain), 1, mtime=0)
    members = b"".join(_member(rng) for _ in range(rng.choice((1, 1, 2, 3, 2000))))
    if rng.random() < 0.5:
        return gzip.compress(members + plain, 1, mtime=0)
    return gzip.compress(plain.rstrip(b"\0") + members, 1, mtime=0)


@functools.cache
def _part(run: Path) -> bytes:
    return pack(run).parts[0]


def _member(rng: random.Random) -> bytes:
    about = tarfile.TarInfo()
    about.type = rng.choice(_KINDS if rng.random() < 0.7 else _KINDS[:1])
    data = rng.choice((b"", b"x" * 100, *_PAX))
    about.size = rng.choice(_SIZES) if rng.random() < 0.4 else len(data)
    header = bytearray(about.tobuf(tarfile.GNU_FORMAT))
    name = os.fsencode(rng.choice(_MEMBERS))[:100]
    header[:100] = name.ljust(100, b"\0")
    if rng.random() < 0.1:
        header[345:500] = rng.choice((b"..", b"a/b", b"\0\0\x01", rng.randbytes(150))).ljust(
            155, b"\0"
        )
    if rng.random() < 0.95:  # else it is damaged
        header[148:156] = b"        "
        header[148:156] = b"%06o\0 " % sum(header)
    return bytes(header) + data.ljust(-(-len(data) // 512) * 512, b"\0")


def play_store(case: Case, place: Place) -> None:
    """Nothing but kdyno's own words, and nothing written but where a run's files go."""
    home, cache = place.folder / "runs", place.folder / "cache"
    for left in (home, cache):
        shutil.rmtree(left, ignore_errors=True)
    file = place.folder / "store.sqlite"
    shutil.copyfile(_filled(place, tuple(case["runs"])), file)
    pushed = home / "pushed"
    shutil.copytree(place.runs[case["runs"][0]], pushed, copy_function=shutil.copyfile)
    for it in case["changes"]:
        if it[0] == "run":
            change(pushed, *it[1:], place)
    homes = {"KDYNO_RUNS": str(home / "none"), "KDYNO_CACHE": str(cache)}
    with mock.patch.dict(os.environ, {**homes, "KDYNO_STORE": f"sqlite:///{file}"}):
        if any(it[0] == "run" for it in case["changes"]):
            status, said, told = said_by(["push", str(pushed)])
            check_screen(status, said + told)
        _change(file, [it[1:] for it in case["changes"] if it[0] == "store"])
        _unpack_all(file, place)
        names = {"RUN": "last", "OTHER": case["runs"][-1], "PUSHED": str(pushed)}
        with ExitStack() as stack:
            stack.enter_context(mock.patch("vl_convert.vegalite_to_svg", outlined))
            for words in case["verbs"]:
                play_verb(words, names, place)
    check_outside(place)
    _check_cache(cache / "store")


def _filled(place: Place, names: tuple[str, ...]) -> Path:
    """A store with these runs as they should be, under names of their own."""
    file = place.folder / "stores" / f"{'-'.join(names)}.sqlite"
    if not file.exists():
        file.parent.mkdir(exist_ok=True)
        shared = Shared(f"sqlite:///{file}")
        shared.prepare()
        for number, name in enumerate(names):
            run = place.folder / "named" / name
            shutil.copytree(place.runs[name], run, copy_function=shutil.copyfile)
            manifest = run / "manifest.json"  # some are of the same moment
            about = {**json.loads(manifest.read_text()), "seed": number}
            manifest.write_text(json.dumps(about))
            shared.push(Run(run))
            shutil.rmtree(run)
        shared.close()
    return file


def _change(file: Path, changes: list[list[object]]) -> None:
    with sqlite3.connect(file, isolation_level=None) as base:
        for table, column, row, kind, value in changes:
            # A column that takes no NULL, a table that is gone, a text that is none.
            with suppress(sqlite3.Error, OverflowError, UnicodeEncodeError):
                if table == "sql":
                    base.execute(str(value))
                    continue
                found = base.execute(f"SELECT rowid FROM {table}").fetchall()
                if not found:
                    continue  # a command has emptied it
                to = "CAST(? AS TEXT)" if kind == "text" else "?"
                given = value if kind == "value" else unpacked(str(value))
                (chosen,) = found[int(str(row)) % len(found)]
                command = f'UPDATE {table} SET "{column}" = {to} WHERE rowid = ?'
                base.execute(command, (given, chosen))
    base.close()


def _unpack_all(file: Path, place: Place) -> None:
    """Every archive by itself: as much as it holds below one folder, or kdyno's own words."""
    into = place.folder / "inside" / "into"
    with sqlite3.connect(file) as base:
        rows: list[tuple[object]] = []
        with suppress(sqlite3.Error):
            rows = base.execute("SELECT content FROM parts").fetchall()
    base.close()
    for (content,) in rows:
        if not isinstance(content, bytes):
            continue
        shutil.rmtree(into.parent, ignore_errors=True)
        into.mkdir(parents=True)
        with suppress(KdynoError):
            unpack(content, into)
        if list(into.parent.iterdir()) != [into]:
            raise Finding("unpacked beside its folder")
        for path in into.rglob("*"):
            if path.is_symlink() or not (path.is_file() or path.is_dir()):
                raise Finding(f"unpacked {path.name!r}, which is no file")
            if len(path.relative_to(into).parts) > 3 or path.name.startswith("."):
                raise Finding(f"unpacked {path.relative_to(into)}")


def _check_cache(store: Path) -> None:
    """STORE/IDENTITY/DIGEST/NAME and files of a run; what was begun and failed is gone."""
    for path in store.glob("*/*/*"):
        if path.name.startswith("kdyno-"):
            raise Finding(f"left in the cache: {path.relative_to(store)}")
    for path in (*store.glob("*/*/*/*/boots/*"), *store.glob("*/*/*/*")):
        if path.is_symlink():
            raise Finding(f"a link in the cache: {path.relative_to(store)}")
