# SPDX-License-Identifier: MIT
"""Keep of runs what docs/research/ is made of: verdict, manifest and the largest of a profile.

    python -m benchmarks.kept RUN… [--runs DIR] [--part NAME]

Each becomes published/runs/EXPERIMENT, one that was only profiled EXPERIMENT-profile, in place of
the one that was there. A part of an experiment that was run by itself becomes EXPERIMENT-NAME, and
the page has both. A FILE.json of memcpy bench, vectorize or simd_candidates becomes
published/runs/KIND.json; of a survey, the totals.
`make docs` then makes the pages again.
"""

from __future__ import annotations

import argparse
import json
import shutil
from collections import defaultdict
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from kdyno.labs.profile.record import (
    FOLDER,
    FunctionTime,
    Profile,
    Where,
    stored_profiles,
    to_json,
)
from kdyno.labs.published.answers import OTHERS, SURVEY
from kdyno.paths import data_root, runs_root
from kdyno.store.boot import plain_name
from kdyno.store.index import resolve
from kdyno.store.run import MANIFEST, VERDICT, Run, open_run

PLACE = data_root() / "published" / "runs"
HOST = ("cpu_model", "cpus", "memory_bytes", "sandbox")
"""Of the machine: what a reader must know. The rest would tell whose it was."""
FUNCTIONS = 8
"""Of a profile, by name; the others are one."""


def shortened(profile: Profile, keep: Collection[tuple[str, str]]) -> Profile:
    """Without stacks, and with all functions that are not kept as one for each place."""
    boots = []
    for boot in profile.boots:
        kept = []
        others: defaultdict[Where, float] = defaultdict(float)
        for function in boot.functions:
            if (function.where, function.function) in keep:
                kept.append(function)
            else:
                others[function.where] += function.seconds
        kept += [FunctionTime(where, OTHERS, seconds) for where, seconds in others.items()]
        boots.append(replace(boot, functions=tuple(kept)))
    return replace(profile, boots=tuple(boots), stacks=())


def keep_run(run: Run, place: Path = PLACE, part: str = "") -> Path:
    """The run's folder there."""
    manifest = run.manifest()
    only_profiled = not (run.path / VERDICT).is_file()
    words = [manifest.experiment, part, "profile" if only_profiled else ""]
    folder = place / plain_name("-".join(filter(None, words)))
    if folder.is_dir():
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    host = {key: fact for key, fact in manifest.host.items() if key in HOST}
    short = manifest.model_copy(update={"host": host, "origin": "", "blocks": (), "machines": {}})
    text = short.model_dump_json(by_alias=True, indent=1)
    (folder / MANIFEST).write_text(f"{text}\n", encoding="utf-8")
    if not only_profiled:
        (folder / VERDICT).write_bytes((run.path / VERDICT).read_bytes())
    profiles = stored_profiles(run)
    keep = {name for profile in profiles.values() for name in profile.names[:FUNCTIONS]}
    for variant, profile in profiles.items():
        (folder / FOLDER).mkdir(exist_ok=True)
        short = to_json(shortened(profile, keep))
        (folder / FOLDER / f"{plain_name(variant)}.json").write_text(short, encoding="utf-8")
    return folder


def keep_file(path: Path, place: Path = PLACE) -> Path:
    """The file there, by what it is."""
    value = json.loads(path.read_text(encoding="utf-8"))
    if value["kind"] == SURVEY:
        for side in value["sides"]:
            side.pop("records", None)
    place.mkdir(parents=True, exist_ok=True)
    kept = place / f"{plain_name(value['kind'])}.json"
    kept.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")
    return kept


def main() -> None:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("what", nargs="+", metavar="RUN")
    arguments.add_argument("--runs", type=Path, default=None)
    arguments.add_argument("--part", metavar="NAME", default="")
    request = arguments.parse_args()
    for word in request.what:
        if word.endswith(".json"):
            print(keep_file(Path(word)))
        else:
            run = open_run(resolve(word, request.runs or runs_root()))
            print(keep_run(run, part=request.part))


if __name__ == "__main__":
    main()
