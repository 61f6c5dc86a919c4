# SPDX-License-Identifier: MIT
"""Run folders that nobody made so: changed files, names and links, and the verbs that read them.

A change is [path in the run, what is done to it, with what]:

- ``content``: the file has this content (packed); ``new``: the same, a file that was not there;
- ``called``: the file or folder gets this name; ``many``: its folder is there so many times more;
- ``said``: JSON of two texts; in all JSON files and in the names of boots the one is the other;
- ``index``: the content (packed) of the index beside the runs;
- ``gone``, ``link``, ``folder``, ``pipe``, ``sparse``, ``linked-folder``: what it becomes.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import random
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from unittest import mock

from benchmarks.fuzz_command import said_by
from benchmarks.fuzz_oracles import Finding, check_folder, check_screen, check_written
from benchmarks.fuzz_place import CANARY, Case, Place, packed, unpacked
from benchmarks.mutations import MARK, TEXTS, mutated, mutated_json, places_of
from kdyno.store.boot import plain_name
from kdyno.store.index import INDEX

_SPARSE_BYTES = 80 << 20
_MOST_COPIES = 300
_VERBS_EACH = 7

VERBS = (
    (4, ("list", "runs")),
    (3, ("list", "runs", "--json", "-")),
    (6, ("report", "RUN")),
    (3, ("report", "RUN", "--json", "-")),
    (3, ("report", "RUN", "--chart", "effects")),
    (3, ("report", "RUN", "--scoring", "unixbench")),
    *((3, ("report", "RUN", "-f", name)) for name in ("markdown", "csv", "junit", "json")),
    (2, ("report", "RUN", "-f", "benchstat")),
    (2, ("report", "RUN", "-f", "speedscope")),
    (1, ("report", "RUN", "-f", "parquet", "-o", "OUT.parquet")),
    (4, ("report", "RUN", "-f", "html", "-o", "OUT.html")),
    (1, ("report", "RUN", "--chart", "rounds", "-o", "OUT.svg")),
    (1, ("report", "RUN", "--chart", "boots", "-o", "OUT.svg")),
    (1, ("report", "RUN", "--chart", "effects", "-o", "OUT.svg")),
    (2, ("report", "RUN", "--fail-on", "slower")),
    (2, ("report", "--all", "-o", "OUT")),
    (3, ("compare", "RUN", "OTHER")),
    (2, ("compare", "RUN", "--variant", "mine", "--against", "stock")),
    (1, ("compare", "published:athlon64x2", "RUN")),
    (3, ("profile", "RUN", "--show")),
    (2, ("profile", "RUN", "--show", "--json", "-")),
    (5, ("judge", "RUN")),
    (2, ("lab", "memcpy", "bench", "--from", "BENCH")),
)
"""(how often, words): everything that reads a run and runs nothing."""

_SUFFIXES = {"markdown": ".md", "csv": ".csv", "junit": ".xml"} | dict.fromkeys(
    ("json", "speedscope"), ".json"
)

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


def run(rng: random.Random, place: Place) -> Case:
    """Some of a run's files broken, and the verbs that then read it."""
    name = rng.choice(list(place.runs))
    top = place.runs[name]
    changes: list[list[str]] = []
    for _ in range(rng.choice((1, 1, 2, 3))):
        changes += one_change(rng, top)
    chosen = rng.choices([words for _, words in VERBS], [each for each, _ in VERBS], k=_VERBS_EACH)
    verbs = [list(words) for words in dict.fromkeys(chosen)]
    case = {"target": "run", "run": name, "changes": changes, "verbs": verbs}
    case["drawn"] = rng.random() < 0.1
    return {**case, "called": rng.choice(NAMES)} if rng.random() < 0.1 else case


def one_change(rng: random.Random, top: Path) -> list[list[str]]:
    """Of one of a run's files, or of all of its kind."""
    kinds = _kinds(top)
    (kind,) = rng.choices(list(kinds), [weight for weight, _files in kinds.values()])
    return change_in(rng, kinds[kind][1], top)


def kind_of(file: Path, top: Path) -> str:
    """Files that are made alike: ``boots/*/host.json``, ``profile/*``."""
    parts = file.relative_to(top).parts
    return "/".join((parts[0], "*", *parts[2:])) if len(parts) > 1 else parts[0]


@functools.cache
def _kinds(top: Path) -> dict[str, tuple[int, list[Path]]]:
    """Kind → (how often it is broken, its files): the more there is in it, the more often."""
    files: dict[str, list[Path]] = {}
    for path in sorted(top.rglob("*")):
        if path.is_file():
            files.setdefault(kind_of(path, top), []).append(path)
    return {
        kind: (min(60, max(4, *(places_of(_first(path)) for path in found))), found)
        for kind, found in files.items()
    }


def _first(file: Path) -> bytes:
    """What tells how the file is made: its first line, of a file of records."""
    data = file.read_bytes()
    return data.split(b"\n")[0] if file.suffix == ".jsonl" else data


def change_in(rng: random.Random, files: Sequence[Path], top: Path) -> list[list[str]]:
    """One file changed, or in all of its kind the same place; or a name."""
    file = rng.choice(files)
    name, how = str(file.relative_to(top)), rng.random()
    if how < 0.06:
        words = ("gone", "link", "folder", "pipe", "sparse", "linked-folder")
        return [[name, rng.choice(words), ""]]
    if how < 0.10:
        folder = rng.random() < 0.7 and file.parent != top
        names = _BOOTS if folder and rng.random() < 0.6 else NAMES
        given = str(PurePosixPath(name).parent) if folder else name
        return [[given, "called", rng.choice(names)]]
    if how < 0.12 and len(PurePosixPath(name).parts) > 2:
        return [[name, "many", str(rng.choice((3, _MOST_COPIES)))]]
    if how < 0.16:
        return [[rng.choice(_NEW), "new", packed(_mutated(rng, file))]]
    if how < 0.22:
        said = [rng.choice(("mine", "stock", "pipe", "case-3", "unixbench")), rng.choice(TEXTS)]
        return [["", "said", json.dumps(said)]]
    if how < 0.23:
        return [["", "index", packed(rng.choice((b"", b"SQLite format 3\0", rng.randbytes(200))))]]
    if how < 0.50:
        seed = rng.random()
        return [
            [str(it.relative_to(top)), "content", packed(_mutated(random.Random(seed), it))]
            for it in files
        ]
    return [[name, "content", packed(_mutated(rng, file))]]


def _mutated(rng: random.Random, file: Path) -> bytes:
    data = file.read_bytes()
    if file.suffix == ".json" and rng.random() < 0.95:
        return mutated_json(rng, data)
    if file.suffix == ".jsonl" and rng.random() < 0.95:
        lines = data.split(b"\n")
        seed, at = rng.random(), rng.randrange(len(lines))
        everywhere = rng.random() < 0.5
        return b"\n".join(
            mutated_json(random.Random(seed), line) if line and (everywhere or n == at) else line
            for n, line in enumerate(lines)
        )
    return mutated(rng, data)


def play_run(case: Case, place: Place) -> None:
    """Nothing but kdyno's own words, nothing read or written through a link."""
    home = place.folder / "runs"
    shutil.rmtree(home, ignore_errors=True)
    verbs = case["verbs"] if "verbs" in case else [case["words"]]
    broken, other = home / case.get("called", NAMES[0]), home / "other"
    shutil.copytree(place.runs[case["run"]], broken, copy_function=shutil.copyfile)
    if {"OTHER", "--all"} & {word for words in verbs for word in words}:
        shutil.copytree(next(iter(place.runs.values())), other, copy_function=shutil.copyfile)
    for name, how, content in case["changes"]:
        change(broken, name, how, content, place)
    homes = {"KDYNO_RUNS": str(home), "KDYNO_CACHE": str(place.folder / "cache")}
    with mock.patch.dict(os.environ, homes), contextlib.ExitStack() as stack:
        if not case.get("drawn", True):
            stack.enter_context(mock.patch("vl_convert.vegalite_to_svg", outlined))
        for words in verbs:
            _play_verb(words, broken, other, place)
    check_outside(place)


def outlined(spec: object) -> str:
    """In place of a chart, which costs more than all the rest: that it can be drawn is tried by
    one case of ten."""
    json.dumps(spec, allow_nan=False)
    return '<svg width="1" height="1"></svg>'


def _play_verb(words: Sequence[str], broken: Path, other: Path, place: Place) -> None:
    bench = broken / "memcpy" / "bench.json"
    if "BENCH" in words and (bench.is_symlink() or not bench.is_file()):
        return  # who names a link or a pipe wants it followed, or waited for
    play_verb(words, {"RUN": broken.name, "OTHER": other.name, "BENCH": str(bench)}, place)


def play_verb(words: Sequence[str], names: Mapping[str, str], place: Place) -> None:
    """A verb with these names in the place of words, and all that it said and wrote looked at."""
    out = place.folder / "OUT"
    shutil.rmtree(out, ignore_errors=True)
    for stale in place.folder.glob("OUT.*"):
        stale.unlink()
    names = {**names, "OUT": str(out)}
    given = [names.get(it, it.replace("OUT.", f"{out}.")) for it in words]
    status, said, told = said_by(given)
    check_screen(status, said + told)
    if CANARY.decode().strip() in said + told:
        raise Finding(f"read through a link: {said[-2000:]}")
    if status == 0 and "-f" in words and "-o" not in words:
        check_written(_SUFFIXES.get(words[words.index("-f") + 1], ""), said.encode())
    if "--json" in words and said:
        check_written(".json", said.encode())
    check_folder(out)
    for path in place.folder.glob("OUT.*"):
        check_written(path.name, path.read_bytes())


def check_outside(place: Place) -> None:
    """Nothing was written where nobody may."""
    if place.canary.read_bytes() != CANARY or len(list(place.canary.parent.iterdir())) > 1:
        raise Finding("written through a link")


def change(run: Path, name: str, how: str, content: str, place: Place) -> None:
    """One change, inside this copy (and of the index beside it) and of nothing else."""
    if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
        raise ValueError(name)
    file = run / name
    if how == "said":
        _say(run, *json.loads(content))
        return
    if how == "index":
        _fill(run.parent / INDEX, unpacked(content), os.O_CREAT)
        return
    if file.parent.resolve() != run.resolve() / PurePosixPath(name).parent:
        return  # the folder is a link by now
    with contextlib.suppress(OSError, ValueError):  # the name is none, or what it names has gone
        if how == "content":
            _fill(file, unpacked(content))
        elif how == "new":
            file.parent.mkdir(exist_ok=True)
            _fill(file, unpacked(content), os.O_CREAT)
        elif how == "called" and "/" not in content:
            file.rename(file.parent / content)
        elif how == "many" and not file.is_symlink():
            for number in range(int(content)):
                again = file.parent.with_name(f"{1000 + number}-{file.parent.name[5:]}")
                shutil.copytree(file.parent, again, symlinks=True)
        elif file.is_file() and not file.is_symlink():
            _become(file, how, run, place)


def _fill(file: Path, data: bytes, flags: int = 0) -> None:
    flags |= os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with contextlib.suppress(OSError), os.fdopen(os.open(file, flags, 0o600), "wb") as opened:
        opened.write(data)


def _say(run: Path, old: str, new: str) -> None:
    """As if the run had been made with that name: what is checked against each other agrees."""
    before = json.dumps(old).encode()
    after = json.dumps(new).encode()
    for path in (*run.rglob("*.json"), *run.rglob("*.jsonl")):
        if path.is_file() and not path.is_symlink():
            data = path.read_bytes()
            if before in data:
                _fill(path, data.replace(before, after))
            if path.parent.parent == run and path.stem == old:
                path.rename(path.with_name(f"{plain_name(new)}.json"))
    for folder in run.glob(f"boots/*-{old}"):
        if not folder.is_symlink():
            folder.rename(folder.with_name(f"{folder.name[:4]}-{plain_name(new)}"))


def _become(file: Path, how: str, run: Path, place: Place) -> None:
    if how == "linked-folder":
        if file.parent != run:
            shutil.rmtree(file.parent)
            file.parent.symlink_to(place.canary.parent)
        return
    file.unlink()
    if how == "link":
        file.symlink_to(place.canary)
    elif how == "folder":
        file.mkdir()
    elif how == "pipe":
        os.mkfifo(file)
    elif how == "sparse":
        with file.open("xb") as made:
            made.truncate(_SPARSE_BYTES)
