# SPDX-License-Identifier: MIT
"""Groups a minute by two virtual nodes of a Slurm, each with a CPU of its own, against one.

    python -m benchmarks.fleet [--json FILE]

It boots real kernels and wants a machine on which nothing else runs.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Any
from unittest import mock

from benchmarks.figure import Figure, boots_of, main, run_of
from kdyno.paths import data_root

sys.path.insert(0, str(data_root() / "tests"))
import slurm

MINE = data_root() / "tests" / "uml" / "umask.toml"


def groups_a_minute(environment: dict[str, str], folder: Path, nodes: int) -> float:
    """From the start of the first guest to the end of the last group. ``environment``: the
    cluster's."""
    settings = folder / "kdyno" / "fleet.toml"
    settings.parent.mkdir(exist_ok=True)
    settings.write_text(f"[fleet]\nnodes = {nodes}\nbeside = true\n")
    words = ("--on", "slurm", "--max-boots", 16 * nodes, "--precision", "0.000001%")
    with mock.patch.dict(os.environ, environment | {"XDG_CONFIG_HOME": str(folder)}, clear=True):
        run = run_of(MINE, folder, *words, "--seconds", "0.1", "--max-minutes", "30")
    boots = boots_of(run)
    starts_s = [datetime.fromisoformat(boot.job.started_at).timestamp() for boot in boots]
    ends_s = (
        start_s + (boot.host.group_s or 0.0) for start_s, boot in zip(starts_s, boots, strict=True)
    )
    return 60 * len({boot.block for boot in boots}) / (max(ends_s) - min(starts_s))


def nodes(request: Any) -> Iterator[Figure]:
    rates: dict[int, list[float]] = {1: [], 2: []}
    with slurm.cluster() as running:
        for count in (1, 2, 1, 2):
            rates[count].append(groups_a_minute(running.environment, request.folder, count))
    one, two = median(rates[1]), median(rates[2])
    how = f"{two:.1f} and {one:.1f} groups a minute"
    yield Figure("two virtual nodes ÷ one, groups a minute", two / one, "", least=1.8, how=how)


if __name__ == "__main__":
    main(__doc__, nodes)
