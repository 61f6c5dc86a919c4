# SPDX-License-Identifier: MIT
"""What is fuzzed: experiment files, run folders and results channels.

A case is data: what is fed, whole. To make one needs chance; to play one does not, so that what
was found once is tried again for ever. Playing raises for whatever kdyno must not do.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import io
import json
import os
import random
import re
import shutil
import signal
import sys
import traceback
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any
from unittest import mock

import typer

import kdyno.cli.main
from benchmarks.mutations import mutated, mutated_json, mutated_text
from kdyno.errors import KdynoError
from kdyno.experiment import loader
from kdyno.experiment.vocabulary import Vocabulary
from kdyno.measure.vocabulary import vocabulary
from kdyno.suites.catalogue import load as load_suites
from kdyno.suites.protocol import Reader

LONGEST_S = 60
MOST_SAID = 20_000
CANARY = b"what lies outside of a run\n"
NONCE = "ab" * 16
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_STATUSES = (0, 1, 2, 10, 11)
_SPARSE_BYTES = 80 << 20

VERBS = (
    (4, ("list", "runs")),
    (2, ("list", "runs", "--json", "-")),
    (4, ("report", "RUN")),
    (2, ("report", "RUN", "--json", "-")),
    (2, ("report", "RUN", "--chart", "effects")),
    (2, ("report", "RUN", "--scoring", "unixbench")),
    *((2, ("report", "RUN", "-f", name)) for name in ("markdown", "csv", "junit", "json")),
    *((1, ("report", "RUN", "-f", name)) for name in ("benchstat", "googlebench", "hyperfine")),
    (1, ("report", "RUN", "-f", "speedscope")),
    (3, ("report", "RUN", "-f", "html", "-o", "OUT.html")),
    (1, ("report", "RUN", "--chart", "rounds", "-o", "OUT.svg")),
    (1, ("report", "RUN", "--chart", "boots", "-o", "OUT.svg")),
    (1, ("report", "RUN", "--fail-on", "slower")),
    (2, ("report", "--all", "-o", "OUT")),
    (2, ("compare", "RUN", "OTHER")),
    (1, ("compare", "published:athlon64x2", "RUN")),
    (2, ("profile", "RUN", "--show")),
    (1, ("profile", "RUN", "--show", "--json", "-")),
    (3, ("judge", "RUN")),
    (1, ("memcpy", "bench", "--from", "BENCH")),
)
"""(how often, words): everything that reads a run and runs nothing."""

NAMES = (
    *("broken", "\udcff\udcfe", "\x1b[31m", "a" * 200, "-f", "<b>&", "last", "x\ny", "\u202e"),
    *("=1+1", "%s{0}"),
)
"""Of the run's folder."""

Case = Mapping[str, Any]
"""JSON values only; ``target`` is its kind."""


class Finding(Exception):
    """kdyno did something that it must not, whatever it was fed."""


@dataclass(frozen=True)
class Place:
    """Where cases are played. Nothing of it is worth anything."""

    folder: Path
    runs: Mapping[str, Path]
    """Name → a run as it should be; copied for each case."""
    experiments: Sequence[bytes] = ()

    @property
    def canary(self) -> Path:
        return self.folder / "outside" / "canary"

    @classmethod
    def at(cls, folder: Path, runs: Mapping[str, Path], experiments: Sequence[bytes] = ()) -> Place:
        place = cls(folder, runs, experiments)
        place.canary.parent.mkdir()
        place.canary.write_bytes(CANARY)
        return place


def packed(data: bytes) -> str:
    """Any bytes as text, small."""
    return base64.b85encode(zlib.compress(data, 9)).decode()


def unpacked(text: str) -> bytes:
    return zlib.decompress(base64.b85decode(text))


def experiment(rng: random.Random, place: Place) -> Case:
    fed = mutated_text(rng, rng.choice(place.experiments), place.experiments)
    return {"target": "experiment", "fed": packed(fed)}


def play_experiment(case: Case, place: Place) -> None:
    """Reads it as every verb does."""
    file = place.folder / "experiment.toml"
    file.write_bytes(unpacked(case["fed"]))
    try:
        loader.load(file, _words())
    except KdynoError as problem:
        if len(str(problem)) > MOST_SAID:
            raise Finding(f"{len(str(problem))} characters: {str(problem)[:500]}") from problem


@functools.cache
def _words() -> Vocabulary:
    return vocabulary(load_suites())


def channel(rng: random.Random, place: Place) -> Case:
    lines = []
    for seq, record in enumerate(_CONVERSATION):
        line = json.dumps({"n": NONCE, "seq": seq, **record}).encode()
        lines.append(mutated_json(rng, line) if rng.random() < 0.3 else line)
    if rng.random() < 0.3:
        rng.shuffle(lines)
    fed = b"\n".join([*lines, b""])
    if rng.random() < 0.4:
        fed = mutated(rng, fed)
    return {"target": "channel", "fed": packed(fed), "step": rng.choice((1, 7, 100, 1 << 30))}


def play_channel(case: Case, place: Place) -> None:
    """Feeds it in pieces: reading never fails, and no case has two results."""
    fed, reader = unpacked(case["fed"]), Reader(NONCE, 2)
    for at in range(0, len(fed), case["step"]):
        reader.feed(fed[at : at + case["step"]])
    said = reader.finish()
    if len({it.case for it in said.results}) < len(said.results):
        raise Finding(f"a case has two results: {said.results}")
    if any(not 0 <= it.case < 2 for it in (*said.begun, *said.results)):
        raise Finding(f"a case that is not in the job: {said}")


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


def run(rng: random.Random, place: Place) -> Case:
    """Some of a run's files broken, and the verb that then reads it."""
    name = rng.choice(list(place.runs))
    top = place.runs[name]
    files = sorted(path for path in top.rglob("*") if path.is_file())
    kinds = sorted({kind_of(path, top) for path in files})
    changes = []
    for _ in range(rng.choice((1, 1, 1, 2, 5))):
        kind = rng.choice(kinds)  # else all would be boots
        changes.append(
            _change(rng, rng.choice([it for it in files if kind_of(it, top) == kind]), top)
        )
    words = rng.choice([words for times, words in VERBS for _ in range(times)])
    called = rng.choice(NAMES) if rng.random() < 0.1 else NAMES[0]
    case = {"target": "run", "run": name, "changes": changes, "words": list(words)}
    return case if called == NAMES[0] else {**case, "called": called}


def kind_of(file: Path, top: Path) -> str:
    """Files that are made alike: ``boots/*/host.json``, ``profile/*``."""
    parts = file.relative_to(top).parts
    return "/".join((parts[0], "*", *parts[2:])) if len(parts) > 1 else parts[0]


def _change(rng: random.Random, file: Path, top: Path) -> list[str]:
    """[path in the run, what is done to it, content]."""
    name = str(file.relative_to(top))
    how = rng.random()
    if how < 0.12:
        return [name, rng.choice(("gone", "link", "folder", "pipe", "sparse", "linked-folder")), ""]
    data = file.read_bytes()
    if file.suffix in (".json", ".jsonl") and how < 0.85:
        lines = data.split(b"\n") if file.suffix == ".jsonl" else [data]
        at = rng.randrange(len(lines))
        lines[at] = mutated_json(rng, lines[at])
        return [name, "content", packed(b"\n".join(lines))]
    return [name, "content", packed(mutated(rng, data))]


def play_run(case: Case, place: Place) -> None:
    """Nothing but kdyno's own words, nothing read or written through a link."""
    home = place.folder / "runs"
    for stale in (home, place.folder / "OUT"):
        shutil.rmtree(stale, ignore_errors=True)
    broken, other = home / case.get("called", NAMES[0]), home / "other"
    shutil.copytree(place.runs[case["run"]], broken, copy_function=shutil.copyfile)
    if {"OTHER", "--all"} & set(case["words"]):
        shutil.copytree(next(iter(place.runs.values())), other, copy_function=shutil.copyfile)
    for name, how, content in case["changes"]:
        change(broken, name, how, content, place)
    out = str(place.folder / "OUT")
    bench = str(broken / "memcpy" / "bench.json")
    names = {"RUN": broken.name, "OTHER": other.name, "BENCH": bench, "OUT": out}
    words = [names.get(it, it.replace("OUT.", f"{out}.")) for it in case["words"]]
    with mock.patch.dict(
        os.environ, {"KDYNO_RUNS": str(home), "KDYNO_CACHE": str(place.folder / "cache")}
    ):
        status, said = said_by(words)
    _check(status, said)
    if CANARY.decode().strip() in said:
        raise Finding(f"read through a link: {said[-2000:]}")
    if place.canary.read_bytes() != CANARY or len(list(place.canary.parent.iterdir())) > 1:
        raise Finding("written through a link")


def change(run: Path, name: str, how: str, content: str, place: Place) -> None:
    """One change, of an ordinary file inside this copy and of nothing else."""
    if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
        raise ValueError(name)
    file = run / name
    if file.parent.resolve() != run.resolve() / PurePosixPath(name).parent:
        return  # the folder is a link by now
    if how == "content":
        flags = os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with contextlib.suppress(OSError):
            descriptor = os.open(file, flags)
            with os.fdopen(descriptor, "wb") as opened:
                opened.write(unpacked(content))
        return
    if not file.is_file() or file.is_symlink():
        return
    if how == "linked-folder" and file.parent != run:
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


def _check(status: int, said: str) -> None:
    if status not in _STATUSES:
        raise Finding(f"status {status}: {said[-2000:]}")
    if found := _UNSAFE.search(said):
        at = found.start()
        raise Finding(f"on the screen: {said[max(0, at - 60) : at + 60]!r}")


def said_by(words: Sequence[str]) -> tuple[int, str]:
    """(status, stdout and stderr) of a verb in this process; a Finding for a crash."""
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8") for _ in range(2))
    try:
        with (
            mock.patch.object(sys, "argv", ["kdyno", *words]),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
            mock.patch.object(kdyno.cli.main, "app", _app()),
            _signals_kept(),
        ):
            status = kdyno.cli.main.main()
    except (Exception, SystemExit) as problem:
        raise Finding(f"{words}\n{''.join(traceback.format_exception(problem))}") from problem
    said = ""
    for stream in (out, err):
        stream.flush()
        said += stream.buffer.getvalue().decode("utf-8", "replace")  # type: ignore[attr-defined]
    return status, said


@functools.cache
def _app() -> Callable[..., Any]:
    """The command line, put together once: that is half of what a short verb costs."""
    made: Callable[..., Any] = typer.main.get_command(kdyno.cli.main.app)
    return made


@contextlib.contextmanager
def _signals_kept() -> Iterator[None]:
    """And at most so long: an input on which kdyno works for ever is a finding."""

    def late(_signal: int, _frame: object) -> None:
        raise Finding(f"not done after {LONGEST_S} s")

    before = {it: signal.getsignal(it) for it in (signal.SIGTERM, signal.SIGALRM)}
    signal.signal(signal.SIGALRM, late)
    signal.alarm(LONGEST_S)
    try:
        yield
    finally:
        signal.alarm(0)
        for it, handler in before.items():
            signal.signal(it, handler)


MAKE: dict[str, Callable[[random.Random, Place], Case]] = {
    "experiment": experiment,
    "channel": channel,
    "run": run,
}
PLAY: dict[str, Callable[[Case, Place], None]] = {
    "experiment": play_experiment,
    "channel": play_channel,
    "run": play_run,
}
"""Both by the kind of target."""
