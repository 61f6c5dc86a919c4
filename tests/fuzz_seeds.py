# SPDX-License-Identifier: MIT
"""Runs that hold every kind of file that a run can have, for the fuzzer to break."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from command_line import FASTER, SLOWER, UNDECIDED, stored, verdict
from synthetic_run import DEMO, make
from test_memcpy_bench import made as bench
from test_profiles_shown import profile

from kdyno.labs.memcpy.time.results import FILE, FOLDER
from kdyno.labs.memcpy.time.results import to_json as bench_json
from kdyno.labs.profile.record import to_json
from kdyno.store.run import write_run

SMALL = replace(
    DEMO, cases=DEMO.cases[3:8], variants={"mine": 1.03, "nothing": 1.0}, blocks=3, failed=(5,)
)


def seed_runs(folder: Path) -> dict[str, Path]:
    """Name → run: a whole one with boots, images, a profile, a bench and two verdicts; one of
    guests that took turns; a verdict alone; an interrupted one."""
    with pytest.MonkeyPatch.context() as patch:
        whole = make(folder / "whole", SMALL, patch).path
        with write_run(whole) as writer:
            for name, part in (("stock", 1.0), ("mine", 0.5)):
                writer.save_file(f"{name}.json", to_json(profile(name, part)).encode(), "profile")
            writer.save_file(FILE, json.dumps(bench_json(bench())).encode(), FOLDER)
            judged = writer.run.verdict()
            assert judged is not None
            writer.save_later_verdict(judged)
        turns = make(folder / "turns", replace(SMALL, rounds=12, failed=()), patch).path
        bare = stored(folder / "judged", verdict(FASTER, SLOWER, UNDECIDED))
        open_ = stored(folder / "open", None, state="interrupted")
    return {"whole": whole, "turns": turns, "judged": bare, "open": open_}
