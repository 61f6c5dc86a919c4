# SPDX-License-Identifier: MIT
"""The work of kdyno run and kdyno try: measure an experiment, each commit of a [matrix], or a
command of the person's own, and show the verdict."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from kdyno import deferred
from kdyno.cli.run import Attempt, Request
from kdyno.errors import KdynoError, UsageError
from kdyno.experiment import loader
from kdyno.experiment.model import Experiment
from kdyno.machines.kinds import of_command_line
from kdyno.measure.commands import Trial, experiment_text, option_of
from kdyno.measure.execution import Options
from kdyno.measure.vocabulary import vocabulary
from kdyno.paths import cache_root
from kdyno.suites import catalogue
from kdyno.verbs import subject
from kdyno.verbs.options import Extent, Working, runs_folder, where
from kdyno.verbs.output import check_writable, say
from kdyno.verbs.watching import executed

# What few runs need, or all of them only when everything is measured: imported then.
_begin_in_jobs = deferred("kdyno.cli.jobs:begin")
_go_on_in_jobs = deferred("kdyno.cli.jobs:go_on")
_place = deferred("kdyno.fleet.waves:Place")
_check_jobs = deferred("kdyno.cli.jobs:check")
_each_commit = deferred("kdyno.cli.matrix:each")
_examined = deferred("kdyno.cli.build:examined")
_check_wishes = deferred("kdyno.cli.outcome:check")
_end = deferred("kdyno.cli.outcome:end")


def run(request: Request, extent: Extent, working: Working) -> int:
    names = ("calibrate", "interleave", "metric", "exact_boots", "layouts")
    more = {name: getattr(request, name) for name in names}
    variants, cases = tuple(request.variant or ()), tuple(request.case or ())
    overrides = subject.overrides_of(extent, variants=variants, cases=cases, **more)
    options = options_of(working, overrides, refresh=request.refresh, beside=request.beside)
    file, json = request.experiment, working.json
    if request.confirm and (request.on is not None or request.resume is not None):
        raise UsageError(
            "--confirm begins a second run here: it goes with neither --on nor --resume"
        )
    if request.resume is not None:
        if any((file, request.ref, request.dry_run, request.refresh, overrides.to_json())):
            raise UsageError("--resume goes on with a run as it was begun; give nothing else")
        if request.on is not None:
            raise UsageError("--resume knows where the run was measured; leave out --on")
        path, experiment, suites, overrides = _stored(request.resume, options, request.yes)
        options = replace(options, overrides=overrides)
        return measured(experiment, suites, options, request, json, resumed=path)

    def one(ref: str | None) -> int:
        experiment, suites = subject.load(file, ref)
        return measured(experiment, suites, replace(options, ref=ref or ""), request, json)

    matrix = None
    if file is not None and request.ref is None:
        matrix = loader.read_matrix(loader.read(file), str(file))
    if matrix is not None and json is not None:
        raise UsageError("--json takes one verdict: a matrix has one for each commit (--ref)")
    return int(_each_commit(matrix, request, options, one) if matrix else one(request.ref))


def try_command(attempt: Attempt, extent: Extent, working: Working) -> int:
    options = options_of(working, subject.overrides_of(extent))
    of_command_line(
        attempt.machine, "a command is tried in several kernels, and for that there are"
    )
    names = ("source", "figure", "unit", "better", "cpus", "memory", "machine")
    more = {name: getattr(attempt, name) for name in names}
    kernels, command = tuple(attempt.kernel or ()), tuple(attempt.command)
    trial = Trial(kernels=kernels, command=command, metric=attempt.metric or "time", **more)
    suites = catalogue.load()
    text = experiment_text(trial, Path.cwd())
    experiment = loader.parse(text, "try", Path.cwd(), vocabulary(suites), option_of)
    return measured(experiment, suites, options, Request(push=attempt.push), working.json)


def options_of(
    working: Working, overrides: loader.Overrides, *, refresh: bool = False, beside: bool = False
) -> Options:
    """UsageError for folders and files that cannot be."""
    check_writable(working.json)
    return Options(
        cache=cache_root(),
        runs=runs_folder(working.runs),
        wait=not working.no_wait,
        beside=beside,
        jobs=working.jobs,
        refresh=refresh,
        overrides=overrides,
    )


def measured(
    experiment: Experiment,
    suites: catalogue.Catalogue,
    options: Options,
    request: Request,
    json: str | None,
    *,
    resumed: Path | None = None,
) -> int:
    """Execute or resume, with the overrides of the options, and show the verdict: exit status."""
    edited = loader.apply(options.overrides, experiment)
    in_jobs = request.on is not None or (resumed is not None and _place(resumed).read() is not None)
    if request.fail_on or request.scoring is not None or edited.measure.profile != "none":
        _check_wishes(edited, suites, request, in_jobs=in_jobs)
    if request.on is not None:
        _check_jobs(edited, request.on)
    shared = subject.store_prepared() if request.push else None
    subject.consent(edited, request.yes or resumed is not None)
    if request.dry_run:
        return int(_examined(edited, suites, json, fetching=False))
    if resumed is not None and in_jobs:
        run, verdict = _go_on_in_jobs(resumed, options)
    elif in_jobs and edited.path is not None:
        run, verdict = _begin_in_jobs(edited.path, edited, request.on, options)
    else:
        run, verdict = executed(edited, suites, options, resumed)
    last, status = _end(run, verdict, edited, experiment, suites, options, request, json)
    if shared is not None:
        # One that confirms another goes with it: a gate judges by both.
        for each in (run, last) if last.path != run.path else (run,):
            try:
                subject.pushed(shared, each)
            except KdynoError:
                again = f"kdyno push {each.name}{where(options.runs)}"
                say(f"measured, but not pushed: `{again}` tries again")
                raise
    return int(status)


def _stored(
    text: str, options: Options, yes: bool
) -> tuple[Path, Experiment, catalogue.Catalogue, loader.Overrides]:
    """An interrupted run, and all that was given. Asks before one that somebody else began."""
    run = subject.stored_run(text, options.runs)
    path, manifest = run.path, run.manifest()
    if manifest.joined:
        raise UsageError(
            f"{path.name} was put together from others; `kdyno compare --join` does that again"
        )
    verdict = None
    with suppress(KdynoError):  # one that lost its verdict is judged again
        verdict = run.verdict()
    if manifest.state == "finished" and verdict is not None:
        raise UsageError(
            f"{path.name} is finished ({manifest.stopped}); "
            f"`kdyno report {path.name}{where(path.parent)}` shows it"
        )
    experiment, suites, overrides = subject.load_stored(run, manifest)
    subject.consent_to_build(run, loader.apply(overrides, experiment), "to go on with it", yes=yes)
    return path, experiment, suites, overrides
