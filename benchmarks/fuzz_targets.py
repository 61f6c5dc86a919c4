# SPDX-License-Identifier: MIT
"""What is fuzzed: experiment files, channels, run folders, stores, runs in jobs.

A case is data: what is fed, whole. To make one needs chance; to play one does not, so that every
finding can be played again. Playing raises for whatever kdyno must not do. Changes:

- of a run, [path, how, argument]. ``content``: the file has this content (packed); ``new``: the
  same, a file that was not there; ``called``: the file or folder gets this name; ``many``: its
  folder is there so many times more; ``said``: in all JSON files and in the names of boots one text
  is another (JSON of both); ``index``: the content of the index beside the runs; ``gone``,
  ``link``, ``folder``, ``pipe``, ``sparse``, ``linked-folder``: what the file becomes.
- of a store, [table, column, row, kind, value]: the cell gets the value, as SQLite keeps any in any
  column (``value``; ``blob``, ``text``: packed bytes). ``sql`` as the table is a command.
"""

from __future__ import annotations

import contextlib
import functools
import gzip
import json
import os
import random
import shutil
import sqlite3
import sys
import tarfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path, PurePosixPath
from typing import Any
from unittest import mock

from benchmarks.fuzz_oracles import Case, Finding, Place, packed, play_verb, unpacked
from benchmarks.mutations import MARK, TEXTS, VALUES, mutated, mutated_json, mutated_text, places_of
from kdyno.errors import KdynoError, ToolError
from kdyno.experiment import loader
from kdyno.experiment.loader import Overrides
from kdyno.fleet.engine import Commands, Job, Settings
from kdyno.fleet.waves import Place as Jobs, Record, Union
from kdyno.measure.execution import manifest_of
from kdyno.measure.vocabulary import vocabulary
from kdyno.paths import data_root
from kdyno.store.boot import plain_name
from kdyno.store.database.shared import Shared, pack, unpack
from kdyno.store.database.tables import METADATA, PARTS, VERSIONS
from kdyno.store.index import INDEX
from kdyno.store.manifest import CaseInfo, Manifest
from kdyno.store.run import EXPERIMENT, MANIFEST, Run, create_run
from kdyno.suites.catalogue import load as load_suites
from kdyno.suites.protocol import Reader
from kdyno.verbs.subject import load

sys.path.insert(0, str(data_root() / "tests"))
from synthetic_run import Shape, make

MOST_CHARACTERS = 20_000
NONCE = "ab" * 16
_CHART = "vl_convert.vegalite_to_svg"


# Experiment files, and what a guest sends.


def experiment(rng: random.Random, place: Place) -> Case:
    fed = mutated_text(rng, rng.choice(place.experiments), place.experiments)
    return {"target": "experiment", "fed": packed(fed)}


def play_experiment(case: Case, place: Place) -> None:
    file = place.folder / "experiment.toml"
    file.write_bytes(unpacked(case["fed"]))
    try:
        loader.load(file, _words())
    except KdynoError as problem:
        if len(str(problem)) > MOST_CHARACTERS:
            raise Finding(f"{len(str(problem))} characters: {str(problem)[:500]}") from problem


@functools.cache
def _words() -> Any:
    return vocabulary(load_suites())


_CONVERSATION = (
    {"t": "hello", "protocol": 1, "release": "7.3", "machine": "m", "word_bits": 64, "cpus": 1,
     "mem_kb": 9, "mono_ns": 5},
    {"t": "begin", "case": 0, "bench": "pipe", "mono_ns": 6},
    {"t": "sample", "case": 0, "reps": [[10, 100], [10, 110]], "user_ns": 1, "sys_ns": 2,
     "calibration_ns": 3, "extra": {"stdout": "x"}, "mono_ns": 7},
    {"t": "begin", "case": 1, "bench": "run", "mono_ns": 8},
    {"t": "error", "case": 1, "reason": "died"},
    {"t": "bye", "mono_ns": 9, "inside_ns": 4},
)  # fmt: skip


def channel(rng: random.Random, place: Place) -> Case:
    lines = []
    for seq, record in enumerate(_CONVERSATION):
        line = json.dumps({"n": NONCE, "seq": seq, **record}).encode()
        lines.append(mutated_json(rng, line) if rng.random() < 0.3 else line)
    if rng.random() < 0.3:
        rng.shuffle(lines)
    fed = b"\n".join([*lines, b""])
    fed = mutated(rng, fed) if rng.random() < 0.4 else fed
    return {"target": "channel", "fed": packed(fed), "step": rng.choice((1, 7, 100, 1 << 30))}


def play_channel(case: Case, place: Place) -> None:
    """Fed in pieces: reading never fails, and no case has two results."""
    fed, reader = unpacked(case["fed"]), Reader(NONCE, 2)
    for at in range(0, len(fed), case["step"]):
        reader.feed(fed[at : at + case["step"]])
    transcript = reader.finish()
    if len({result.case for result in transcript.results}) < len(transcript.results):
        raise Finding(f"a case has two results: {transcript.results}")
    if any(not 0 <= result.case < 2 for result in (*transcript.begun, *transcript.results)):
        raise Finding(f"a case that is not in the job: {transcript}")


# Run folders.

# (weight, words): everything that reads a run and starts nothing.
RUN_VERBS = (
    (4, "list runs"), (3, "list runs --json -"), (6, "report RUN"), (3, "report RUN --json -"),
    (3, "report RUN --scoring unixbench"),
    (3, "report RUN -f markdown"), (3, "report RUN -f csv"), (3, "report RUN -f junit"),
    (3, "report RUN -f json"), (2, "report RUN -f benchstat"), (2, "report RUN -f folded"),
    (1, "report RUN -f parquet -o OUT.parquet"), (4, "report RUN -f html -o OUT.html"),
    (3, "report RUN -o OUT.svg"), (2, "report RUN --fail-on slower"),
    (2, "report --all -o OUT"), (3, "compare RUN OTHER"),
    (2, "compare RUN --variant mine --against stock"), (1, "compare published:athlon64x2 RUN"),
    (3, "profile RUN --show"), (2, "profile RUN --show --json -"), (5, "judge RUN"),
    (2, "lab memcpy bench --from BENCH"),
)  # fmt: skip
STORE_VERBS = (
    (5, "list runs"), (3, "list runs --json -"), (4, "report RUN"), (2, "report RUN --json -"),
    (2, "list runs --case case-* --kernel 7.3* --cpu *a*"), (2, "judge RUN"),
    (2, "compare RUN OTHER"), (2, "report --all -o OUT"), (1, "push PUSHED"),
)  # fmt: skip
NAMES = (
    *("broken", "\udcff\udcfe", "\x1b[31m", "a" * 200, "-f", "<b>&", "last", "x\ny", "\u202e"),
    *("=1+1", "%s{0}", f"<{MARK}>", "2026-01-01T0000-x", "..."),
)
"""Of the run's folder, and of what lies in it."""
_BOOTS = ("0000-stock", "00000-stock", "-1-stock", "99999999999-mine", "0001", "-", "0x1-mine")
_NEW = (
    *(".tmp-x/manifest.json", "boots/.tmp-x/job.json", "boots/0099-mine/job.json", "boots/file"),
    *("profile/mine.json", "profile/stock.json", "memcpy/bench.json", "images/.json"),
    *("first-verdict.json", "report.html", "profile/\udcff.json", "images/\udcfe"),
)
_BECOMES = ("gone", "link", "folder", "pipe", "sparse", "linked-folder")
_SPARSE_BYTES = 80 << 20


def _verbs(rng: random.Random, verbs: Sequence[tuple[int, str]], count: int) -> list[list[str]]:
    chosen = rng.choices([words for _, words in verbs], [weight for weight, _ in verbs], k=count)
    return [words.split() for words in dict.fromkeys(chosen)]


def run(rng: random.Random, place: Place) -> Case:
    name = rng.choice(list(place.runs))
    changes = _changes(rng, place.runs[name])
    case = {"target": "run", "run": name, "changes": changes, "verbs": _verbs(rng, RUN_VERBS, 7)}
    case["drawn"] = rng.random() < 0.1
    return {**case, "called": rng.choice(NAMES)} if rng.random() < 0.1 else case


def kind_of(file: Path, top: Path) -> str:
    """Files that are made alike: ``boots/*/host.json``, ``profile/*``."""
    parts = file.relative_to(top).parts
    return "/".join((parts[0], "*", *parts[2:])) if len(parts) > 1 else parts[0]


@functools.cache
def _kinds(top: Path) -> dict[str, list[Path]]:
    files: dict[str, list[Path]] = {}
    for path in (path for path in sorted(top.rglob("*")) if path.is_file()):
        files.setdefault(kind_of(path, top), []).append(path)
    return files


@functools.cache
def _weight(kind: str, top: Path) -> int:
    """How often files of the kind are broken: the more places there are in them, the more often.
    The first line of a file of records shows how it is made."""
    contents = ((path, path.read_bytes()) for path in _kinds(top)[kind])
    firsts = (data.split(b"\n")[0] if path.suffix == ".jsonl" else data for path, data in contents)
    return min(60, max(4, *map(places_of, firsts)))


def _changes(rng: random.Random, top: Path) -> list[list[str]]:
    count = rng.choice((1, 1, 2, 3))
    return [change for _ in range(count) for change in _one_change(rng, top)]


def _one_change(rng: random.Random, top: Path) -> list[list[str]]:
    """One file changed, or in all of its kind the same place; or a name."""
    kinds = _kinds(top)
    files = kinds[rng.choices(list(kinds), [_weight(kind, top) for kind in kinds])[0]]
    file, how = rng.choice(files), rng.random()
    name = str(file.relative_to(top))
    if how < 0.06:
        return [[name, rng.choice(_BECOMES), ""]]
    if how < 0.10:
        folder = rng.random() < 0.7 and file.parent != top
        names = _BOOTS if folder and rng.random() < 0.6 else NAMES
        return [[str(PurePosixPath(name).parent) if folder else name, "called", rng.choice(names)]]
    if how < 0.12 and len(PurePosixPath(name).parts) > 2:
        return [[name, "many", str(rng.choice((3, 300)))]]
    if how < 0.16:
        return [[rng.choice(_NEW), "new", packed(_mutated(rng, file))]]
    if how < 0.22:
        texts = [rng.choice(("mine", "stock", "pipe", "case-3", "unixbench")), rng.choice(TEXTS)]
        return [["", "said", json.dumps(texts)]]
    if how < 0.23:
        return [["", "index", packed(rng.choice((b"", b"SQLite format 3\0", rng.randbytes(200))))]]
    seed = rng.random()
    return [
        [str(path.relative_to(top)), "content", packed(_mutated(random.Random(seed), path))]
        for path in (files if how < 0.50 else [file])
    ]


def _mutated(rng: random.Random, file: Path) -> bytes:
    data = file.read_bytes()
    if file.suffix == ".json" and rng.random() < 0.95:
        return mutated_json(rng, data)
    if file.suffix == ".jsonl" and rng.random() < 0.95:
        lines, seed = data.split(b"\n"), rng.random()
        chosen = range(len(lines)) if rng.random() < 0.5 else [rng.randrange(len(lines))]
        for at in chosen:
            lines[at] = lines[at] and mutated_json(random.Random(seed), lines[at])
        return b"\n".join(lines)
    return mutated(rng, data)


def _copy(run: Path, to: Path) -> Path:
    return Path(shutil.copytree(run, to, copy_function=shutil.copyfile))


def play_run(case: Case, place: Place) -> None:
    """Nothing but kdyno's own words, nothing read or written through a link."""
    home = place.folder / "runs"
    shutil.rmtree(home, ignore_errors=True)
    broken = _copy(place.runs[case["run"]], home / case.get("called", NAMES[0]))
    _copy(next(iter(place.runs.values())), home / "other")
    for change in case["changes"]:
        change_run(broken, *change, place)
    names = {"RUN": broken.name, "OTHER": "other"}
    bench = broken / "memcpy" / "bench.json"
    homes = {"KDYNO_RUNS": str(home), "KDYNO_CACHE": str(place.folder / "cache")}
    with mock.patch.dict(os.environ, homes), contextlib.ExitStack() as stack:
        if not case.get("drawn", True):
            stack.enter_context(mock.patch(_CHART, _no_chart))
        for words in case["verbs"]:
            # Who names a link or a pipe wants it followed, or waited for.
            if "BENCH" not in words or (bench.is_file() and not bench.is_symlink()):
                play_verb(words, {**names, "BENCH": str(bench)}, place)
    place.check()


def _no_chart(spec: object) -> str:
    """In place of a chart, which costs more than all the rest: one case of ten draws them."""
    json.dumps(spec, allow_nan=False)
    return '<svg width="1" height="1"></svg>'


def change_run(run: Path, name: str, how: str, content: str, place: Place) -> None:
    """One change, inside this copy (and of the index beside it) and of nothing else."""
    if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
        raise ValueError(name)
    file = run / name
    if how == "said":
        _rename(run, *json.loads(content))
    elif how == "index":
        _fill(run.parent / INDEX, unpacked(content), os.O_CREAT)
    # Unless the folder is a link by now.
    elif file.parent.resolve() == run.resolve() / PurePosixPath(name).parent:
        with contextlib.suppress(OSError, ValueError):  # the name is none, or the file is gone
            if how == "content":
                _fill(file, unpacked(content))
            elif how == "new":
                file.parent.mkdir(exist_ok=True)
                _fill(file, unpacked(content), os.O_CREAT)
            elif how == "called" and "/" not in content:
                file.rename(file.parent / content)
            elif how == "many" and not file.is_symlink():
                for number in range(1000, 1000 + int(content)):
                    again = file.parent.with_name(f"{number}-{file.parent.name[5:]}")
                    shutil.copytree(file.parent, again, symlinks=True)
            elif how == "linked-folder":
                if file.is_file() and not file.is_symlink() and file.parent != run:
                    shutil.rmtree(file.parent)
                    file.parent.symlink_to(place.canary.parent)
            elif how in _BECOMES and file.is_file() and not file.is_symlink():
                file.unlink()
                if how == "link":
                    file.symlink_to(place.canary)
                elif how == "folder":
                    file.mkdir()
                elif how == "pipe":
                    os.mkfifo(file)
                elif how == "sparse":
                    with file.open("xb") as sparse:
                        sparse.truncate(_SPARSE_BYTES)


def _fill(file: Path, data: bytes, flags: int = 0) -> None:
    flags |= os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with contextlib.suppress(OSError), os.fdopen(os.open(file, flags, 0o600), "wb") as opened:
        opened.write(data)


def _rename(run: Path, old: str, new: str) -> None:
    """As if the run had been measured with that name: all that is checked for agreement agrees."""
    before, after = json.dumps(old).encode(), json.dumps(new).encode()
    for path in (*run.rglob("*.json"), *run.rglob("*.jsonl")):
        if path.is_file() and not path.is_symlink():
            if before in (data := path.read_bytes()):
                _fill(path, data.replace(before, after))
            if path.parent.parent == run and path.stem == old:
                path.rename(path.with_name(f"{plain_name(new)}.json"))
    for folder in run.glob(f"boots/*-{old}"):
        if not folder.is_symlink():
            folder.rename(folder.with_name(f"{folder.name[:4]}-{plain_name(new)}"))


# Stores that others wrote into.

_COMMANDS = (
    *("DROP TABLE scores", "DROP TABLE runs", "DELETE FROM parts", "DELETE FROM kernels"),
    *(f"DELETE FROM {VERSIONS}", "ALTER TABLE runs DROP COLUMN counts"),
    *("UPDATE runs SET identity = 'a', digest = 'b'", f"DROP TABLE {VERSIONS}"),
)
_CELLS = [
    *((table.name, column.name) for table in METADATA.sorted_tables for column in table.columns),
    (VERSIONS, "version_num"),
]
_MEMBERS = (
    *("boots/0000-stock/job.json", "manifest.json", "manifest.json/x", "boots", "a/b/c/d"),
    *("../canary", "../outside/canary", "/etc/x", ".x", "x/../y", "x\0y", "", "a" * 300, "\udcff"),
    f"<{MARK}>",
)
_TYPES = (
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
    names = rng.sample(list(place.runs), min(3, len(place.runs)))
    changes: list[list[Any]] = []
    for _ in range(rng.choice((1, 1, 2, 3))):
        how = rng.random()
        if how < 0.2:
            changes += [["run", *change] for change in _one_change(rng, place.runs[names[0]])]
        elif how < 0.5:
            content = packed(_archive(rng, place.runs[names[0]]))
            changes.append(["store", PARTS.name, "content", rng.randrange(3), "blob", content])
        elif how < 0.55:
            changes.append(["store", "sql", "", 0, "", rng.choice(_COMMANDS)])
        else:
            changes.append(["store", *rng.choice(_CELLS), rng.randrange(100), *_value(rng)])
    verbs = _verbs(rng, STORE_VERBS, 4)
    return {"target": "store", "runs": names, "changes": changes, "verbs": verbs}


def _value(rng: random.Random) -> tuple[str, object]:
    how = rng.random()
    if how < 0.1:
        return "text", packed(rng.choice((b"\xff\xfe", b"{", b"[1e999, NaN]", b"null", b"[[]]")))
    if how < 0.2:
        return "blob", packed(rng.choice((b"", b"{}", rng.randbytes(40))))
    scalars = [value for value in VALUES if not isinstance(value, list | dict)]
    return "value", rng.choice([v for v in scalars if type(v) is not int or abs(v) < 1 << 63])


def _archive(rng: random.Random, run: Path) -> bytes:
    """An archive of a run that somebody changed, or made."""
    how, part = rng.random(), _part(run)
    if how < 0.2:
        return mutated(rng, part)
    content = gzip.decompress(part)
    if how < 0.5:
        return gzip.compress(mutated(rng, content), 1, mtime=0)
    members = b"".join(_member(rng) for _ in range(rng.choice((1, 1, 2, 3, 2000))))
    after = content.rstrip(b"\0") + members
    return gzip.compress(members + content if rng.random() < 0.5 else after, 1, mtime=0)


@functools.cache
def _part(run: Path) -> bytes:
    return pack(run).parts[0]


def _member(rng: random.Random) -> bytes:
    about = tarfile.TarInfo()
    about.type = rng.choice(_TYPES if rng.random() < 0.7 else _TYPES[:1])
    data = rng.choice((b"", b"x" * 100, *_PAX))
    about.size = rng.choice(_SIZES) if rng.random() < 0.4 else len(data)
    header = bytearray(about.tobuf(tarfile.GNU_FORMAT))
    header[:100] = os.fsencode(rng.choice(_MEMBERS))[:100].ljust(100, b"\0")
    if rng.random() < 0.1:
        prefix = rng.choice((b"..", b"a/b", b"\0\0\x01", rng.randbytes(150)))
        header[345:500] = prefix.ljust(155, b"\0")
    if rng.random() < 0.95:  # else it is damaged
        header[148:156] = b"        "
        header[148:156] = b"%06o\0 " % sum(header)
    return bytes(header) + data.ljust(-(-len(data) // 512) * 512, b"\0")


def play_store(case: Case, place: Place) -> None:
    """Nothing but kdyno's own words, and nothing written but where a run's files go."""
    home, cache, file = (place.folder / name for name in ("runs", "cache", "store.sqlite"))
    for folder in (home, cache):
        shutil.rmtree(folder, ignore_errors=True)
    shutil.copyfile(_filled(place, tuple(case["runs"])), file)
    pushed = _copy(place.runs[case["runs"][0]], home / "pushed")
    of_run = [change[1:] for change in case["changes"] if change[0] == "run"]
    for change in of_run:
        change_run(pushed, *change, place)
    homes = {"KDYNO_RUNS": str(home / "none"), "KDYNO_CACHE": str(cache)}
    homes["KDYNO_STORE"] = f"sqlite:///{file}"
    with mock.patch.dict(os.environ, homes), mock.patch(_CHART, _no_chart):
        names = {"RUN": "last", "OTHER": case["runs"][-1], "PUSHED": str(pushed)}
        if of_run:
            play_verb(["push", "PUSHED"], names, place)
        with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as base:
            for change in case["changes"]:
                # A column that takes no NULL, a table that is gone, a text that is none.
                with contextlib.suppress(sqlite3.Error, OverflowError, UnicodeEncodeError):
                    if change[0] == "store":
                        _change_cell(base, *change[1:])
            _unpack_all(base, place.folder / "inside" / "into")
        for words in case["verbs"]:
            play_verb(words, names, place)
    place.check()
    # STORE/IDENTITY/DIGEST/NAME and files of a run; what was begun and failed is gone.
    for path in (cache / "store").glob("*/*/*"):
        if path.name.startswith("kdyno-"):
            raise Finding(f"left in the cache: {path}")
        if any(inner.is_symlink() for inner in (*path.glob("*"), *path.glob("boots/*"))):
            raise Finding(f"a link in the cache: {path}")


def _filled(place: Place, names: tuple[str, ...]) -> Path:
    """A store with these runs intact, each with a seed of its own: some are of the same moment."""
    file = place.folder / "stores" / f"{'-'.join(names)}.sqlite"
    if not file.exists():
        file.parent.mkdir(exist_ok=True)
        with contextlib.closing(Shared(f"sqlite:///{file}")) as shared:
            shared.prepare()
            for number, name in enumerate(names):
                copy = _copy(place.runs[name], place.folder / "named" / name)
                manifest = json.loads((copy / "manifest.json").read_text())
                (copy / "manifest.json").write_text(json.dumps({**manifest, "seed": number}))
                shared.push(Run(copy))
                shutil.rmtree(copy)
    return file


def _change_cell(
    base: sqlite3.Connection, table: str, column: str, row: int, kind: str, value: Any
) -> None:
    if table == "sql":
        base.execute(value)
    elif rows := base.execute(f"SELECT rowid FROM {table}").fetchall():
        to = "CAST(? AS TEXT)" if kind == "text" else "?"
        command = f'UPDATE {table} SET "{column}" = {to} WHERE rowid = ?'
        base.execute(
            command, (value if kind == "value" else unpacked(value), *rows[row % len(rows)])
        )


def _unpack_all(base: sqlite3.Connection, into: Path) -> None:
    """Every archive by itself: as much as it holds below one folder, or kdyno's own words."""
    rows: list[tuple[object]] = []
    with contextlib.suppress(sqlite3.Error):
        rows = base.execute("SELECT content FROM parts").fetchall()
    for content in (content for (content,) in rows if isinstance(content, bytes)):
        shutil.rmtree(into.parent, ignore_errors=True)
        into.mkdir(parents=True)
        with contextlib.suppress(KdynoError):
            unpack(content, into)
        if list(into.parent.iterdir()) != [into]:
            raise Finding("unpacked beside its folder")
        for path in into.rglob("*"):
            name = path.relative_to(into)
            if path.is_symlink() or not (path.is_file() or path.is_dir()):
                raise Finding(f"unpacked {name}, which is no file")
            if len(name.parts) > 3 or path.name.startswith("."):
                raise Finding(f"unpacked {name}")


# Runs in jobs, gone on with by `kdyno run --resume`: files of the run, its shards and its jobs are
# changed, or (``said``) what jobs answer about the kernels that they were to build. The record of
# the controller is the person's own. No job ever begins: each is over at once, without a result.

_FLEET = """\
name = "fleet"
baseline = "stock"
[kernel]
source = "debian:linux-source-7.3"
config = ["bench"]
[variant.stock]
[variant.mine]
cflags = "-O3"
[[suite]]
name = "unixbench"
cases = ["syscall", "pipe"]
seconds = 0.2
[measure]
max_boots = 6
"""
_ANSWER = b'{"images": {"stock": {"digest": "1"}, "mine": {"digest": "2"}}, "failed": {}}'
_RUN, _GROUPS = "run", 3


def fleet(rng: random.Random, place: Place) -> Case:
    changes = _changes(rng, _fleet_of(place))
    ways = (bytes, functools.partial(mutated_json, rng), functools.partial(mutated, rng))
    answers = [packed(rng.choices(ways, (10, 9, 1))[0](_ANSWER))]
    return {"target": "fleet", "changes": changes, "said": answers if rng.random() < 0.3 else []}


def play_fleet(case: Case, place: Place) -> None:
    """It comes to its end or explains in kdyno's own words; nothing outside is touched."""
    home = place.folder / "runs"
    shutil.rmtree(home, ignore_errors=True)
    _copy(_fleet_of(place), home)
    for change in case["changes"]:
        change_run(home, *change, place)
    homes = {"KDYNO_RUNS": str(home), "KDYNO_CACHE": str(place.folder / "cache")}
    homes["XDG_STATE_HOME"] = str(place.folder / "state")
    record = Record(
        settings=Settings(nodes=2, groups=_GROUPS),
        file=str(place.folder / "fleet.toml"),
        next=2,
        built=[] if case["said"] else ["stock", "mine"],
    )
    engine = functools.partial(_Over, list(map(unpacked, case["said"])))
    with (
        mock.patch.dict(os.environ, homes),
        mock.patch("kdyno.fleet.engine.Engine", engine),
        mock.patch("kdyno.fleet.waves._LOOK_EVERY_S", 0.0),
        mock.patch("kdyno.fleet.waves._SHARE", 1e9),
        # Of a run that is none in jobs any more: nothing is built or booted here. Where verbs call
        # it by its module, for one that is imported meanwhile keeps what it imports.
        mock.patch("kdyno.measure.execution.execute", side_effect=ToolError("no run in jobs")),
        mock.patch("kdyno.measure.execution.resume", side_effect=ToolError("no run in jobs")),
    ):
        with contextlib.suppress(KdynoError):  # its experiment cannot be read
            Jobs(home / _RUN).write(record)
        for words in ("run --resume RUN", "list runs", "report RUN"):
            play_verb(words.split(), {"RUN": _RUN}, place)
    place.check()


class _Over:
    """An engine whose jobs are over when they begin. ``answers``: of those that build."""

    def __init__(self, answers: list[bytes], settings: Settings, folder: Path, label: str) -> None:
        self._answers, self._folder, self._count = answers, folder, 0

    def submit(
        self, work: Sequence[Commands], sbatch: dict[str, Any] | None = None, cpus: Any = ()
    ) -> list[Job]:
        jobs = []
        for commands in work:
            self._count += 1
            command = list(map(str, commands[0]))
            if "build" in command and self._answers:
                Path(command[command.index("--json") + 1]).write_bytes(self._answers.pop(0))
            outcome = self._folder / "0" / f"{self._count}.json"
            jobs.append(Job(str(self._count), outcome, "COMPLETED"))
        return jobs

    def look(self, jobs: Iterable[Job]) -> None:
        for job in jobs:
            job.state, job.lost = "COMPLETED", True

    def cancel(self, jobs: Iterable[Job]) -> None: ...

    def cancel_label(self) -> None: ...


def _fleet_of(place: Place) -> Path:
    """A folder of runs with one whose controller was killed: of two shards of three groups the one
    was taken up, and the other's job is alive."""
    top, file = place.folder / "fleet", place.folder / "fleet.toml"
    if top.exists():
        return top
    file.write_text(_FLEET)
    experiment, _suites = load(file)
    # Nothing is booted, and no second sandbox can be where fuzzing is.
    with mock.patch("kdyno.sandbox.require", return_value=True):
        manifest = manifest_of(experiment, Overrides(), images={}, failed={}, cases=())
    with mock.patch("os.fsync"), create_run(top, experiment.text, manifest) as writer:
        jobs, union = Jobs(top / _RUN), Union(writer)
        jobs.make()
        for number in range(2):
            _shard(jobs.shard(number), experiment.text, manifest)
        own = jobs.jobs / "0"
        own.mkdir(parents=True)
        (own / "1.json").write_text('{"node": "n1", "status": 1, "why": "exit status 1"}')
        (own / "1.log").write_text("the disk is full\n")
        union.take(union.shard(0, jobs.shard(0)))
        union.save(state="interrupted", stopped="interrupted: killed")
    writer.run.path.rename(top / _RUN)
    return top


def _shard(runs: Path, text: str, manifest: Manifest) -> None:
    """What a job leaves: groups that took turns."""
    cases = tuple(
        CaseInfo(suite="unixbench", case=case, unit="loops/s", better="higher")
        for case in ("syscall", "pipe")
    )
    run = make(runs, Shape(cases, {"mine": 1.0}, blocks=_GROUPS, rounds=24))
    more = {"cases": cases, "images": {"stock": "a", "mine": "b"}, "interleave": "turns"}
    more |= {"blocks": run.manifest().blocks, "state": "finished", "stopped": "max_boots"}
    own = manifest.model_copy(update=more)
    (run.path / MANIFEST).write_text(own.model_dump_json(by_alias=True))
    (run.path / EXPERIMENT).write_text(text)
    run.path.rename(runs / _RUN)


TARGETS: dict[str, tuple[Callable[[random.Random, Place], Case], Callable[[Case, Place], None]]] = {
    "experiment": (experiment, play_experiment),
    "channel": (channel, play_channel),
    "run": (run, play_run),
    "store": (store, play_store),
    "fleet": (fleet, play_fleet),
}
"""Name → (makes a case, plays it)."""
