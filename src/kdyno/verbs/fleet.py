# SPDX-License-Identifier: MIT
"""kdyno run --on: a run in jobs, from its beginning or from where a controller left it."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from kdyno.errors import Interrupted, UsageError
from kdyno.verbs.options import load_stored, where

if TYPE_CHECKING:
    from kdyno.experiment.model import Experiment
    from kdyno.fleet.record import Place, Record
    from kdyno.fleet.settings import Settings
    from kdyno.fleet.union import Union
    from kdyno.measure.execution import Listener, Options
    from kdyno.store.run import Run, RunWriter
    from kdyno.store.verdict import Verdict

_OF_A_SHARD = ("max_boots", "max_minutes", "precision", "seed", "variants")
"""Overrides that are over all nodes, and that a shard's own command line says otherwise."""


def begin(file: Path, asked: Experiment, on: str, options: Options) -> tuple[Run, Verdict]:
    """A new run in jobs. ``asked``: with the overrides applied."""
    from kdyno.fleet.record import Place, Record
    from kdyno.fleet.settings import settings
    from kdyno.machines.kinds import KINDS
    from kdyno.measure.execution import manifest_of
    from kdyno.store.run import create_run

    chosen = settings(on, settings_file())
    if not KINDS[asked.machine.kind].builds:
        raise UsageError("--on is for kernels that are compared; the machine's own kernel is not")
    record = Record(settings=chosen, file=str(file.absolute()), ref=options.ref)
    manifest = manifest_of(
        asked, options.overrides, sandboxed=options.sandboxed, images={}, failed={}, cases=()
    )
    with create_run(options.runs, asked.text, manifest) as writer:
        return _through(writer, Place(writer.run.path), record, asked, options)


def is_in_jobs(run: Path) -> bool:
    """Jobs have measured this run, and it is not finished."""
    from kdyno.fleet.record import Place

    return Place(run).read() is not None


def go_on(path: Path, options: Options) -> tuple[Run, Verdict]:
    """With a run whose controller was interrupted or killed."""
    from kdyno.experiment.overrides import apply
    from kdyno.fleet.record import Place
    from kdyno.store.run import write_run

    with write_run(path) as writer:
        manifest = writer.run.manifest()
        experiment, _suites, overrides = load_stored(writer.run, manifest)
        place = Place(path)
        record = place.read()
        if record is None:
            raise UsageError(f"{path}: nothing is kept of its jobs any more")
        options = replace(options, overrides=overrides, ref=record.ref)
        writer.save_manifest(manifest.model_copy(update={"state": "running", "stopped": ""}))
        asked = apply(overrides, experiment)
        return _through(writer, place, record, asked, options)


def _through(
    writer: RunWriter, place: Place, record: Record, asked: Experiment, options: Options
) -> tuple[Run, Verdict]:
    """Built, measured and judged, watched; what is not finished can be gone on with."""
    from kdyno.fleet.union import Union
    from kdyno.verbs.watching import watching

    run, union = writer.run, Union(writer)
    again = f"kdyno run --resume {run.name}{where(run.path.parent)}"
    with watching(asked) as listener:
        listener.started(run.path)
        try:
            place.make()
            place.write(record)
            stopped = _measured(union, place, record, asked, options, listener)
        except BaseException as problem:
            if not union.blocks:  # as of every run that never began
                writer.close()  # NFS keeps the folder of a file that is open
                place.remove()
                shutil.rmtree(run.path, ignore_errors=True)
            else:
                union.save(state="interrupted", stopped=_why(problem))
                if isinstance(problem, KeyboardInterrupt | Interrupted):
                    listener.told(f"its jobs are cancelled; `{again}` goes on with this run")
            raise
        verdict = _judged(writer, union, place, stopped)
    place.remove()
    return run, verdict


def _measured(
    union: Union,
    place: Place,
    record: Record,
    asked: Experiment,
    options: Options,
    listener: Listener,
) -> str:
    from kdyno.fleet.building import Building
    from kdyno.fleet.controller import Controller
    from kdyno.fleet.engine import Engine

    # Not of the run's name, which may be anything: Slurm takes names with commas for several.
    label = f"kdyno-{sha256(os.fsencode(union.run.name)).hexdigest()[:6]}"
    engine = Engine(record.settings, place.jobs, label)
    words = _building(record.file, options)
    if not record.built:
        folder = place.path / "built"
        chosen = [word for it in options.overrides.variants for word in ("--variant", it)]
        built = Building(engine, [*words, *chosen], asked.baseline, folder, listener.told).run()
        if len(built.names) < 2 and not asked.measure.calibrate:
            why = "; ".join(f"{name}: {why}" for name, why in built.failed.items())
            raise UsageError(f"nothing to compare: no variant but the baseline is left ({why})")
        union.failed(built.failed)
        record = record.model_copy(update={"built": built.names})
        place.write(record)
    controller = Controller(
        asked,
        union,
        place,
        record,
        [*words, *_words(options)],
        engine,
        listener.told,
        listener.measuring,
        _slots(record.settings),
    )
    return controller.run()


def _judged(writer: RunWriter, union: Union, place: Place, stopped: str) -> Verdict:
    from kdyno.fleet.union import save_images
    from kdyno.judge.judging import verdict_of
    from kdyno.judge.question import Question
    from kdyno.report.wording import worded

    union.settle()
    save_images(writer, map(place.shard, place.numbers()))
    verdict = worded(verdict_of(writer.run, Question.of(union.manifest), stopped), union.manifest)
    # The verdict first: whoever reads "finished" finds it, whenever this process is killed.
    writer.save_verdict(verdict)
    union.save(state="failed" if stopped.endswith("failed") else "finished", stopped=stopped)
    return verdict


def settings_file() -> Path:
    """Where a person says which machines his runs may use."""
    from kdyno.fleet.settings import FILE

    own = os.environ.get("XDG_CONFIG_HOME", "")
    home = Path(own) if own.startswith("/") else Path.home() / ".config"
    return home / "kdyno" / FILE


def _slots(chosen: Settings) -> list[list[int]]:
    """CPUs of each of the jobs that share this machine: neighbours, of equal number."""
    if chosen.engine != "local" or not chosen.beside:
        return []
    mine = sorted(os.sched_getaffinity(0))
    each = len(mine) // chosen.nodes
    if each < 1:
        raise UsageError(
            f"[fleet] nodes = {chosen.nodes} with beside = true: kdyno may use {len(mine)} CPUs"
        )
    return [mine[at * each : (at + 1) * each] for at in range(chosen.nodes)]


def _why(problem: BaseException) -> str:
    if isinstance(problem, KeyboardInterrupt):
        return "interrupted by Ctrl-C"
    return f"interrupted: {str(problem) or type(problem).__name__}"


def _building(file: str, options: Options) -> list[str]:
    words = [file]
    words += ["--ref", options.ref] if options.ref else []
    words += ["-j", str(options.jobs)] if options.jobs else []
    words += [] if options.sandboxed else ["--no-sandbox"]
    return words


def _words(options: Options) -> list[str]:
    """What a shard's command line has of this one's; how much a shard measures is its own."""
    words: list[str] = []
    for name, value in options.overrides.to_json().items():
        option = {"cases": "--case"}.get(name, f"--{name.replace('_', '-')}")
        if name in _OF_A_SHARD:
            continue
        if value is True:
            words.append(option)
        else:
            values = value if isinstance(value, list | tuple) else [value]
            words += [word for it in values for word in (option, str(it))]
    return words
