# SPDX-License-Identifier: MIT
"""Options that several verbs share, and what they mean. Nothing heavy is imported here: the page of
help of a verb must be quick."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from kdyno import sandbox
from kdyno.errors import UsageError
from kdyno.paths import runs_root
from kdyno.verbs.output import Json
from kdyno.verbs.verb import argument, option

_OFFERS = "kdyno.verbs.subject:"
RUN_NAMES = f"{_OFFERS}run_names"


def _waived(given: bool) -> bool:
    """Heard before the verb begins: an experiment may want a tool to be read at all."""
    if given:
        sandbox.waive()
    return given


ExperimentFile = Annotated[
    Path | None,
    argument("EXPERIMENT", "Experiment file (TOML).", f"{_OFFERS}experiment_files"),
]
RunNames = Annotated[list[str], argument("RUN", "Runs: path, name, or last.", RUN_NAMES)]
Output = Annotated[str | None, option("-o --output FILE", "Write there.")]
Runs = Annotated[Path | None, option("--runs DIR", "Folder of the runs [$KDYNO_RUNS or XDG].")]
NoSandbox = Annotated[
    bool, option("--no-sandbox", "Run kernels and builds without bubblewrap.", callback=_waived)
]
NoWait = Annotated[bool, option("--no-wait", "Fail if another kdyno is measuring on this machine.")]
FailOn = Annotated[
    list[str] | None,
    option(
        "--fail-on WORD[:CASES]",
        "Exit 10 if slower, 11 if inconclusive: slower, slower:pipe, inconclusive.",
    ),
]
Jobs = Annotated[int | None, option("-j --jobs N", "Parallel jobs of a kernel build.", min=1)]
Refresh = Annotated[bool, option("--refresh", "Fetch newer packages and branches of the sources.")]
Variants = Annotated[
    list[str] | None,
    option("--variant NAME", "Only this variant (may be repeated).", f"{_OFFERS}variant_names"),
]
Cases = Annotated[
    list[str] | None,
    option("--case CASE", "Only these cases; patterns allowed.", f"{_OFFERS}case_names"),
]
MaxMinutes = Annotated[
    float | None,
    option("--max-minutes MINUTES", "At most this many minutes of measuring.", min=0.05),
]
Metric = Annotated[
    str | None,
    option(
        "--metric time|instructions",
        "Compare seconds, or instructions counted by QEMU.",
    ),
]
Ref = Annotated[str | None, option("--ref REF", "Only this commit of an experiment with [matrix].")]
Push = Annotated[bool, option("--push", "Put the run into the store that KDYNO_STORE names.")]
Yes = Annotated[
    bool,
    option(
        "--yes",
        "Accept an experiment with very many kernels, or somebody else's run.",
    ),
]
Scoring = Annotated[
    str | None,
    option(
        "--scoring WORD",
        "Also show indices and group scores: kdyno (medians) or unixbench (its own trimming).",
    ),
]


@dataclass(frozen=True)
class Extent:
    """How much is measured, for verbs that measure."""

    quick: Annotated[
        bool, option("--quick", "First impression: 0.2 s per case, at most 12 boots and 2 minutes.")
    ] = False
    seconds: Annotated[
        float | None, option("--seconds SECONDS", "Seconds per case and boot.", min=0.05)
    ] = None
    max_boots: Annotated[
        int | None, option("--max-boots N", "At most this many boots of each variant.", min=1)
    ] = None
    max_minutes: MaxMinutes = None
    precision: Annotated[
        str | None,
        option("--precision SHARE", 'Half-width at which measuring stops, such as "0.5%".'),
    ] = None
    seed: Annotated[int | None, option("--seed N", "Seed of the order of boots.", min=0)] = None


@dataclass(frozen=True)
class Working:
    """How a run is made, and where it and its figures go, for verbs that make one."""

    jobs: Jobs = None
    runs: Runs = None
    no_sandbox: NoSandbox = False
    no_wait: NoWait = False
    json: Json = None


def runs_folder(given: Path | None) -> Path:
    """--runs, else where runs live."""
    runs = given.absolute() if given is not None else runs_root()
    if runs.exists() and not runs.is_dir():
        raise UsageError(f"{runs}: the folder of runs is not a folder (--runs DIR, $KDYNO_RUNS)")
    return runs


def where(runs: Path) -> str:
    """What a command line needs to find a run of this folder again: "" or " --runs DIR"."""
    return "" if runs == runs_root() else f" --runs {shlex.quote(str(runs))}"


def percent(text: str | None, option: str = "--precision") -> float | None:
    """A fraction from "0.5%" or 0.005."""
    if text is None:
        return None
    try:
        value = float(text.strip().removesuffix("%")) / (100 if "%" in text else 1)
    except ValueError:
        value = 0.0
    if not 0 < value < 1:
        raise UsageError(f'{option} {text!r}: give a share such as "0.5%" or 0.005')
    return value
