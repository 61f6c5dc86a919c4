# SPDX-License-Identifier: MIT
"""What is fuzzed: experiment files, run folders, runs in jobs, stores, channels.

A case is data: what is fed, whole. To make one needs chance; to play one does not, so that what
was found once is tried again for ever. Playing raises for whatever kdyno must not do.
"""

from __future__ import annotations

import functools
import json
import random
from collections.abc import Callable

from benchmarks.fuzz_fleets import fleet, play_fleet
from benchmarks.fuzz_oracles import Finding
from benchmarks.fuzz_place import Case, Place, packed, unpacked
from benchmarks.fuzz_runs import play_run, run
from benchmarks.fuzz_stores import play_store, store
from benchmarks.mutations import mutated, mutated_json, mutated_text
from kdyno.errors import KdynoError
from kdyno.experiment import loader
from kdyno.experiment.layer import Vocabulary
from kdyno.measure.vocabulary import vocabulary
from kdyno.suites.catalogue import load as load_suites
from kdyno.suites.protocol import Reader

MOST_SAID = 20_000
NONCE = "ab" * 16


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


MAKE: dict[str, Callable[[random.Random, Place], Case]] = {
    "experiment": experiment,
    "channel": channel,
    "run": run,
    "store": store,
    "fleet": fleet,
}
PLAY: dict[str, Callable[[Case, Place], None]] = {
    "experiment": play_experiment,
    "channel": play_channel,
    "run": play_run,
    "store": play_store,
    "fleet": play_fleet,
}
"""Both by the kind of target."""
