# SPDX-License-Identifier: MIT
"""A program that is root in a guest and tries every way out, and what came of it."""

from __future__ import annotations

import subprocess
from pathlib import Path

from kdyno.machines.process import Outcome
from kdyno.suites.protocol import Sample

FORGED = (777_000_000, 1_000_000)
_SOURCE = Path(__file__).with_name("attacks") / "from_a_guest.c"
_FLAGS = ["-std=c11", "-D_GNU_SOURCE", "-O1", "-Wall", "-Wextra", "-Werror", "-static"]
RIGHTS = f"{sum(1 << bit for bit in (0, 1, 3, 4, 5, 6, 7, 10, 14, 23, 24)):016x}"
"""chown, dac_override, fowner, fsetid, kill, setgid, setuid, net_bind_service, ipc_lock, sys_nice,
sys_resource: a case has these."""


def build(folder: Path) -> None:
    subprocess.run(["gcc", *_FLAGS, "-o", folder / "from-a-guest", _SOURCE], check=True)


def results_of(outcome: Outcome) -> dict[str, str]:
    """What the attacker, the first case, printed: way → what came of it."""
    result = outcome.transcript.result(0)
    assert isinstance(result, Sample), (result, outcome.host)
    lines = [line.partition(":") for line in result.extra["stdout"].splitlines()]
    return {way: came.strip() for way, _, came in lines}


def assert_honest(outcome: Outcome) -> None:
    """The attacker and the honest case behind it have their own figures."""
    assert outcome.host.status == "ok", outcome.host
    assert outcome.transcript.complete and outcome.transcript.anomaly_texts == ()
    for number in (0, 1):
        result = outcome.transcript.result(number)
        assert isinstance(result, Sample) and FORGED not in result.reps


def assert_rights(results: dict[str, str]) -> None:
    """Of files and processes, and no others."""
    assert {results[name] for name in ("CapPrm", "CapEff", "CapBnd")} == {RIGHTS}
    assert (results["CapAmb"], results["NoNewPrivs"]) == ("0" * 16, "1")
