# SPDX-License-Identifier: MIT
"""kdyno run --on: a run in jobs, from its beginning or from where a controller left it."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

from kdyno import sandbox
from kdyno.errors import UsageError, interruption
from kdyno.experiment import loader
from kdyno.experiment.model import Experiment
from kdyno.fleet.engine import FILE, Engine, Settings, settings
from kdyno.fleet.waves import Controller, Place, Record, Union, build, label_of
from kdyno.machines.kinds import KINDS
from kdyno.measure.execution import Listener, Options, judged, manifest_of
from kdyno.paths import config_root
from kdyno.store.run import Run, RunWriter, create_run, write_run
from kdyno.store.verdict import Verdict
from kdyno.verbs.options import where
from kdyno.verbs.subject import load_stored
from kdyno.verbs.watching import watching

_OF_A_SHARD = ("max_boots", "max_minutes", "precision", "seed", "variants")
"""Overrides that are over all nodes, and that a shard's own command line says otherwise."""


def check(experiment: Experiment, on: str) -> Settings:
    """Where they run. UsageError, before anything is built, where they cannot."""
    chosen = settings(on, config_root() / FILE)
    chosen.slots()  # CPUs that are not there
    if not KINDS[experiment.machine.kind].builds:
        raise UsageError("--on is for kernels that are compared; the machine's own kernel is not")
    return chosen


def begin(file: Path, experiment: Experiment, on: str, options: Options) -> tuple[Run, Verdict]:
    """A new run in jobs. ``experiment``: with the overrides applied."""
    record = Record(settings=check(experiment, on), file=str(file.absolute()), ref=options.ref)
    manifest = manifest_of(experiment, options.overrides, images={}, failed={}, cases=())
    with create_run(options.runs, experiment.text, manifest) as writer:
        return _executed(writer, Place(writer.run.path), record, experiment, options)


def go_on(path: Path, options: Options) -> tuple[Run, Verdict]:
    """With a run whose controller was interrupted or killed."""
    with write_run(path) as writer:
        manifest = writer.run.manifest()
        experiment, _suites, overrides = load_stored(writer.run, manifest)
        place = Place(path)
        record = place.read()
        if record is None:
            raise UsageError(f"{path}: nothing is kept of its jobs any more")
        options = replace(options, overrides=overrides, ref=record.ref)
        writer.save_manifest(manifest.model_copy(update={"state": "running", "stopped": ""}))
        return _executed(writer, place, record, loader.apply(overrides, experiment), options)


def _executed(
    writer: RunWriter, place: Place, record: Record, experiment: Experiment, options: Options
) -> tuple[Run, Verdict]:
    """Built, measured and judged, watched; what is not finished can be gone on with."""
    run, union = writer.run, Union(writer)
    with watching(experiment) as listener:
        listener.started(run.path)
        try:
            place.make()
            place.write(record)
            stopped = _measured(union, place, record, experiment, options, listener)
        except BaseException as problem:
            if not union.blocks:  # as of every run that never began
                writer.close()  # NFS keeps the folder of a file that is open
                place.remove()
                shutil.rmtree(run.path, ignore_errors=True)
                raise
            union.save(state="interrupted", stopped=interruption(problem))
            if isinstance(problem, KeyboardInterrupt):
                again = f"kdyno run --resume {run.name}{where(run.path.parent)}"
                listener.notify(f"its jobs are cancelled; `{again}` goes on with this run")
            raise
        union.save()
        union.save_images(map(place.shard, place.numbers()))
        verdict = judged(writer, union.manifest, stopped)
    place.remove()
    return run, verdict


def _measured(
    union: Union,
    place: Place,
    record: Record,
    experiment: Experiment,
    options: Options,
    listener: Listener,
) -> str:
    """Why it stopped."""
    engine = Engine(record.settings, place.jobs, label_of(place.run))
    words = [record.file, *(["--ref", options.ref] if options.ref else [])]
    words += ["-j", str(options.jobs)] if options.jobs else []
    words += [] if sandbox.require() else ["--no-sandbox"]
    if not record.built:
        folder = place.path / "built"
        chosen = [word for name in options.overrides.variants for word in ("--variant", name)]
        newest = ["--refresh"] if options.refresh else []
        names, failed = build(engine, [*words, *newest, *chosen], folder, listener.notify)
        if len(names) < 2 and not experiment.measure.calibrate:
            why = "; ".join(f"{name}: {why}" for name, why in failed.items())
            raise UsageError(f"nothing to compare: no variant but the baseline is left ({why})")
        union.failed(failed)
        record = record.model_copy(update={"built": names})
        place.write(record)
    # How much a shard measures is its own.
    own = options.overrides.to_json().items()
    words += loader.options({key: value for key, value in own if key not in _OF_A_SHARD})
    controller = Controller(
        experiment, union, place, record, words, engine, listener.notify, listener.measuring
    )
    return controller.run()
