# SPDX-License-Identifier: MIT
"""What several verbs share: their options, and who is told while they work."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kdyno import sandbox
from kdyno.verbs.completion import case_names, experiment_files, variant_names
from kdyno.verbs.output import Json, check_writable, safe, say

if TYPE_CHECKING:
    from kdyno.experiment.model import Experiment
    from kdyno.experiment.overrides import Overrides
    from kdyno.measure.execution import Options
    from kdyno.store.manifest import Manifest
    from kdyno.store.run import Run
    from kdyno.suites.catalogue import Suite

ExperimentFile = Annotated[
    Path | None,
    typer.Argument(
        metavar="EXPERIMENT", help="An experiment file (TOML).", autocompletion=experiment_files
    ),
]
Output = Annotated[str | None, typer.Option("-o", "--output", metavar="FILE", help="Write there.")]
Runs = Annotated[
    Path | None,
    typer.Option("--runs", metavar="DIR", help="Folder of the runs [$KDYNO_RUNS or XDG]."),
]


def _waived(given: bool) -> bool:
    """Heard before the verb begins: an experiment may want a tool to be read at all."""
    if given:
        sandbox.waive()
    return given


NoSandbox = Annotated[
    bool,
    typer.Option(
        "--no-sandbox", help="Run kernels and builds without bubblewrap.", callback=_waived
    ),
]
NoWait = Annotated[
    bool, typer.Option("--no-wait", help="Fail when another kdyno measures on this machine.")
]
FailOn = Annotated[
    list[str] | None,
    typer.Option(
        "--fail-on",
        metavar="WORD[:CASES]",
        help="Exit 10 when slower, 11 when inconclusive: slower, slower:pipe, inconclusive.",
    ),
]
Jobs = Annotated[
    int | None,
    typer.Option("-j", "--jobs", metavar="N", min=1, help="Parallel jobs of a kernel build."),
]
Refresh = Annotated[
    bool, typer.Option("--refresh", help="Look for newer packages and branches of the sources.")
]
Variants = Annotated[
    list[str] | None,
    typer.Option(
        "--variant",
        metavar="NAME",
        help="Only this variant (may be repeated).",
        autocompletion=variant_names,
    ),
]
Cases = Annotated[
    list[str] | None,
    typer.Option(
        "--case",
        metavar="CASE",
        help="Only these cases; patterns allowed.",
        autocompletion=case_names,
    ),
]
Quick = Annotated[
    bool,
    typer.Option("--quick", help="A first impression: 0.2 s a case, 12 boots, 2 minutes at most."),
]
Seconds = Annotated[
    float | None,
    typer.Option("--seconds", metavar="SECONDS", min=0.05, help="Seconds per case and boot."),
]
MaxBoots = Annotated[
    int | None,
    typer.Option("--max-boots", metavar="N", min=1, help="Boots of each variant, at most."),
]
MaxMinutes = Annotated[
    float | None,
    typer.Option(
        "--max-minutes", metavar="MINUTES", min=0.05, help="Minutes of measuring, at most."
    ),
]
Precision = Annotated[
    str | None,
    typer.Option(
        "--precision", metavar="SHARE", help='Half-width at which measuring stops, such as "0.5%".'
    ),
]
Seed = Annotated[
    int | None, typer.Option("--seed", metavar="N", min=0, help="Seed of the order of boots.")
]
Interleave = Annotated[
    str | None,
    typer.Option(
        "--interleave",
        metavar="auto|turns|boots",
        help="How kernels alternate: turns of milliseconds, whole boots, or auto.",
    ),
]
Metric = Annotated[
    str | None,
    typer.Option(
        "--metric",
        metavar="time|instructions",
        help="What is compared: seconds, or instructions as QEMU counts them.",
    ),
]
Ref = Annotated[
    str | None,
    typer.Option("--ref", metavar="REF", help="This commit, of an experiment with [matrix]."),
]
On = Annotated[
    str | None,
    typer.Option(
        "--on",
        metavar="slurm[:PARTITION]|local",
        help="Measure in jobs, on many machines; see docs/team.md.",
    ),
]
Push = Annotated[
    bool, typer.Option("--push", help="Put the run into the store that KDYNO_STORE names.")
]
ExactBoots = Annotated[
    int | None,
    typer.Option(
        "--exact-boots",
        metavar="N",
        min=1,
        max=100,
        help="Boots of each kernel after which counts that agree are exact (3).",
    ),
]
Layouts = Annotated[
    int | None,
    typer.Option(
        "--layouts",
        metavar="N",
        min=6,
        max=100,
        help="Link each kernel N times, its functions in drawn orders; the interval is over them.",
    ),
]
Yes = Annotated[
    bool,
    typer.Option(
        "--yes",
        help="Go ahead with an experiment of very many kernels, or with a run of somebody else's.",
    ),
]
Scoring = Annotated[
    str | None,
    typer.Option(
        "--scoring",
        metavar="WORD",
        help="Also show indices and group scores: kdyno (medians) or unixbench (its own trimming).",
    ),
]


@dataclass(frozen=True)
class Extent:
    """How much is measured, for verbs that measure."""

    quick: Quick = False
    seconds: Seconds = None
    max_boots: MaxBoots = None
    max_minutes: MaxMinutes = None
    precision: Precision = None
    seed: Seed = None

    def overrides(self, **more: Any) -> Overrides:
        """With what else the verb changes against the file. UsageError for no share."""
        from kdyno.experiment.overrides import Overrides

        own = {**vars(self), "precision": percent(self.precision)}
        return Overrides(**own, **more)


@dataclass(frozen=True)
class Working:
    """How a run is made, and where it and its figures go, for verbs that make one."""

    jobs: Jobs = None
    runs: Runs = None
    no_sandbox: NoSandbox = False
    no_wait: NoWait = False
    json: Json = None

    def options(self, overrides: Overrides, *, refresh: bool = False) -> Options:
        """UsageError for folders and files that cannot be."""
        from kdyno.measure.execution import Options
        from kdyno.paths import cache_root

        check_writable(self.json)
        return Options(
            cache=cache_root(),
            runs=runs_folder(self.runs),
            wait=not self.no_wait,
            jobs=self.jobs,
            refresh=refresh,
            overrides=overrides,
        )


def runs_folder(given: Path | None) -> Path:
    """--runs, else where runs live."""
    from kdyno.paths import runs_root

    runs = given.absolute() if given is not None else runs_root()
    if runs.exists() and not runs.is_dir():
        from kdyno.errors import UsageError

        raise UsageError(f"{runs}: the folder of runs is not a folder (--runs DIR, $KDYNO_RUNS)")
    return runs


def where(runs: Path) -> str:
    """What a command line needs to find a run of this folder again: "" or " --runs DIR"."""
    from kdyno.paths import runs_root

    return "" if runs == runs_root() else f" --runs {shlex.quote(str(runs))}"


def percent(text: str | None, option: str = "--precision") -> float | None:
    """A fraction from "0.5%" or 0.005."""
    from kdyno.errors import UsageError

    if text is None:
        return None
    try:
        value = float(text.strip().removesuffix("%")) / (100 if "%" in text else 1)
    except ValueError:
        value = 0.0
    if not 0 < value < 1:
        raise UsageError(f'{option} {text!r}: give a share such as "0.5%" or 0.005')
    return value


def load(path: Path | None, ref: str | None = None) -> tuple[Experiment, Mapping[str, Suite]]:
    """The experiment of a file, checked, and the suites it may use; for a commit of [matrix]."""
    from kdyno.errors import UsageError
    from kdyno.experiment import loader
    from kdyno.measure.vocabulary import vocabulary
    from kdyno.suites.catalogue import load as load_suites

    if path is None:
        raise UsageError(
            "which experiment? Give a file: `kdyno list experiments` shows those that come with "
            "kdyno, docs/experiment-file.md how to write one"
        )
    suites = load_suites()
    return loader.load(path, vocabulary(suites), ref), suites


def stored_run(text: str, runs: Path | None) -> Run:
    """The run that a person means by a name, a part of one, a path or ``last``."""
    from kdyno.store.index import resolve
    from kdyno.store.run import open_run

    return open_run(resolve(text, runs_folder(runs)))


def load_stored(run: Run, manifest: Manifest) -> tuple[Experiment, Mapping[str, Suite], Overrides]:
    """The experiment of a run as its file said it, the suites, and what the run overrode."""
    from kdyno.experiment import loader
    from kdyno.experiment.overrides import Overrides
    from kdyno.measure.vocabulary import vocabulary
    from kdyno.suites.catalogue import load as load_suites

    suites = load_suites()
    origin = Path(manifest.origin) if manifest.origin else Path.cwd() / "experiment.toml"
    experiment = loader.parse(run.experiment_text(), str(origin), origin.parent, vocabulary(suites))
    return experiment, suites, Overrides.from_json(manifest.overrides)


def work_of(experiment: Experiment) -> str:
    """What measuring it builds and runs of others', a line each."""
    lines = {
        f"{key:9} {value}": None
        for it in experiment.variants
        for key, value in (
            ("source", it.source),
            *(("patch", file) for file in it.patches),
            ("compiler", f"{it.compiler} {it.cflags}".strip()),
            *(("flags", f"{flags} of {file}") for file, flags in it.file_cflags),
            *(("routine", name) for name in it.all_routines.values()),
            ("scheduler", it.scheduler),
            *(("config", f"{own.origin}, {len(own.lines)} lines") for own in it.config),
        )
        if value
    }
    for use in experiment.suites:
        lines[f"suite     {use.name}: {', '.join(use.cases)}"] = None
        if use.command:
            lines[f"command   {shlex.join(use.command)}"] = None
    where = "in the sandbox" if sandbox.require() else "OUTSIDE OF ANY SANDBOX, as you"
    return "\n".join([f"{experiment.name}, {where}:", *(f"  {line}" for line in lines)])


def consent_to_build(run: Run, experiment: Experiment, what: str, *, yes: bool) -> None:
    """Asks once before a run that somebody else began has anything built and run here. ``what``:
    "to go on with it", say. UsageError where nobody can answer."""
    from kdyno.store.run import Note

    note = Note(run)
    if note.read() is not None:
        return
    if not yes:
        say(work_of(experiment))
        agree(
            f"{run.name} was not begun by you on this machine: {what} builds and runs what stands "
            "above",
            "Look at it first",
        )
    note.write()


def consent(experiment: Experiment, yes: bool) -> None:
    """Asks before an experiment of very many kernels; UsageError where nobody can answer."""
    from kdyno.measure.extent import question

    asked = None if yes else question(experiment)
    if asked is None:
        return
    agree(asked, "Drop a factor or name variants with --variant")


def agree(asked: str, otherwise: str) -> None:
    """Asks whether to go ahead; UsageError with the ways out where nobody can answer."""
    from kdyno.errors import UsageError

    if not sys.stdin.isatty():
        raise UsageError(f"{asked}. {otherwise}; or pass --yes")
    typer.confirm(f"{safe(asked)}. Go ahead?", abort=True, err=True)
