# SPDX-License-Identifier: MIT
"""What a verb is about: the experiment or run that a person means, of a folder or of the shared
store, whether that person wants it built and run here, and the names that the shell is offered."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from kdyno import deferred, sandbox
from kdyno.errors import KdynoError, UsageError
from kdyno.experiment import loader
from kdyno.experiment.loader import Overrides
from kdyno.experiment.model import Experiment
from kdyno.measure.vocabulary import vocabulary
from kdyno.paths import cache_root, runs_root
from kdyno.reading.checked import check
from kdyno.store.index import NoSuchRun, resolve
from kdyno.store.manifest import Manifest
from kdyno.store.run import MANIFEST, Note, Run, list_runs, open_run
from kdyno.store.verdict import Verdict
from kdyno.suites import catalogue
from kdyno.verbs.options import Extent, percent, runs_folder, where
from kdyno.verbs.output import safe, say

if TYPE_CHECKING:  # SQLAlchemy, for those who have a store
    from kdyno.store.database.shared import Pushed, Shared

_address_of_store: Callable[[], str | None] = deferred("kdyno.store.database.address:configured")
_shared: Callable[[str], Shared] = deferred("kdyno.store.database.shared:Shared")
_question: Callable[[Experiment], str | None] = deferred("kdyno.measure.execution:question")
_with_first: Callable[..., Verdict] = deferred("kdyno.report.gate:with_first")
_RUNS_OFFERED = 20
_LEFT_OUT_SHOWN = 5


def load(path: Path | None, ref: str | None = None) -> tuple[Experiment, catalogue.Catalogue]:
    """The experiment of a file, checked, and the suites it may use; for a commit of [matrix]."""
    if path is None:
        raise UsageError(
            "which experiment? Give a file: `kdyno list experiments` shows those that come with "
            "kdyno, docs/experiment-file.md how to write one"
        )
    suites = catalogue.load()
    return loader.load(path, vocabulary(suites), ref), suites


def load_stored(run: Run, manifest: Manifest) -> tuple[Experiment, catalogue.Catalogue, Overrides]:
    """The experiment of a run as its file said it, the suites, and what the run overrode."""
    suites = catalogue.load()
    origin = Path(manifest.origin) if manifest.origin else Path.cwd() / "experiment.toml"
    experiment = loader.parse(run.experiment_text(), str(origin), origin.parent, vocabulary(suites))
    # Those of a later kdyno may have other keys, which are ignored.
    place = f"{run.path / MANIFEST}: overrides"
    return experiment, suites, check(Overrides, manifest.overrides, place)


def overrides_of(extent: Extent, **more: Any) -> Overrides:
    """With what else the verb changes against the file. UsageError for no share."""
    return Overrides(**{**vars(extent), "precision": percent(extent.precision)}, **more)


def stored_run(text: str, runs: Path | None) -> Run:
    """The run of the folder that a person means by a name, a part of one, a path or ``last``."""
    return open_run(resolve(text, runs_folder(runs)))


def find_run(text: str, runs: Path | None) -> Run:
    """The run that a person means: of the folder; else, unless --runs names one, of the store."""
    try:
        return stored_run(text, runs)
    except NoSuchRun as here:
        shared = store() if runs is None else None
        if shared is None:
            raise
        try:
            return shared.fetch(shared.find(text), cache_root())
        except NoSuchRun as there:
            raise UsageError(f"{here}\n{there}") from None


def earlier(runs: Path, text: str) -> Iterator[tuple[Run, Manifest, Verdict | None]]:
    """The runs of this very experiment that can be read, the newest first."""
    for run in reversed(list_runs(runs)):
        with suppress(KdynoError):
            if run.experiment_text() == text:
                yield run, run.manifest(), run.verdict()


def judged(run: Run) -> Verdict:
    """Its verdict. UsageError where it has none yet."""
    if (verdict := run.verdict()) is not None:
        return verdict
    if run.is_being_written():
        raise UsageError(f"{run.name} is still being measured; its verdict comes at the end")
    if is_fetched(run):
        raise UsageError(f"{run.name} has no verdict: it was pushed before its end")
    lost = run.manifest().state == "finished"
    verb, end = ("judge", "makes it again") if lost else ("run --resume", "goes on with it")
    raise UsageError(
        f"{run.name} has no verdict: it was {'lost' if lost else 'interrupted'}. "
        f"`kdyno {verb} {run.name}{where(run.path.parent)}` {end}"
    )


def gate_verdict(run: Run, verdict: Verdict) -> Verdict:
    """What a gate judges by: a run of the store with the one there that it confirms."""

    def in_store(name: str) -> Run | None:
        if is_fetched(run) and (shared := store()) is not None:
            with suppress(NoSuchRun):
                first = shared.fetch(shared.find(name), cache_root())
                # Another machine may have pushed a run of this name.
                if first.manifest().images == run.manifest().images:
                    return first
        return None

    return _with_first(run, verdict, in_store)


def is_fetched(run: Run) -> bool:
    """The run's folder is a copy out of the store: what is changed in it is lost."""
    return run.path.is_relative_to(cache_root() / "store")


def store() -> Shared | None:
    """What KDYNO_STORE names; None where it names nothing."""
    named = _address_of_store()
    return None if named is None else _shared(named)


def store_needed() -> Shared:
    """The same, or UsageError."""
    if (shared := store()) is not None:
        return shared
    raise UsageError("there is no store: set KDYNO_STORE, such as postgresql://HOST/DATABASE")


def store_prepared() -> Shared:
    """The same, asked whether it can take runs: what is wrong is heard before hours of work."""
    shared = store_needed()
    shared.prepare()
    return shared


def pushed(shared: Shared, run: Run) -> Pushed:
    """The run put there, and said."""
    done = shared.push(run)
    other = f" as {done.name}" if done.name != run.name else ""
    if done.word == "there":
        say(f"{run.name}: is in {shared.where}{other} as it is here")
    else:
        word = "pushed to" if done.word == "pushed" else "brought up to date in"
        size = f"{done.boots} boots, {done.size_bytes / 1e6:.1f} MB"
        say(f"{run.name}: {word} {shared.where}{other} ({size})")
    if done.left_out:
        more = ", …" if len(done.left_out) > _LEFT_OUT_SHOWN else ""
        names = ", ".join(done.left_out[:_LEFT_OUT_SHOWN])
        say(f"{run.name}: not pushed, as no files of a run: {names}{more}")
    return done


def agree(request: str, otherwise: str) -> None:
    """Asks whether to go ahead; UsageError with the ways out where nobody can answer."""
    if not sys.stdin.isatty():
        raise UsageError(f"{request}. {otherwise}; or pass --yes")
    typer.confirm(f"{safe(request)}. Go ahead?", abort=True, err=True)


def consent(experiment: Experiment, yes: bool) -> None:
    """Asks before an experiment of very many kernels; UsageError where nobody can answer."""
    if not yes and (request := _question(experiment)) is not None:
        agree(request, "Drop a factor or name variants with --variant")


def consent_to_build(run: Run, experiment: Experiment, what: str, *, yes: bool) -> None:
    """Asks once before a run that somebody else began has anything built and run here, after a line
    for each thing of others that it takes. ``what``: "to go on with it", say. UsageError where
    nobody can answer."""
    note = Note(run)
    if note.read() is not None:
        return
    if not yes:
        lines: list[str] = []
        for variant in experiment.variants:
            compiler = "" if variant.image else f"{variant.compiler} {variant.cflags}".strip()
            parts = [("source", variant.source), ("image", variant.image)]
            parts += [("patch", str(file)) for file in variant.patches]
            parts += [("compiler", compiler)]
            parts += [("flags", f"{flags} of {file}") for file, flags in variant.file_cflags]
            parts += [("routine", str(name)) for name in variant.all_routines.values()]
            parts += [("scheduler", variant.scheduler or "")]
            parts += [("config", f"{own.origin}, {len(own.lines)} lines") for own in variant.config]
            lines += [f"{key:9} {value}" for key, value in parts if value]
        for use in experiment.suites:
            lines.append(f"suite     {use.name}: {', '.join(use.cases)}")
            if use.command:
                lines.append(f"command   {shlex.join(use.command)}")
        machine, power = experiment.machine, experiment.box.power
        for host in filter(None, machine.all_hosts):
            lines.append(f"box       {host}, as root: its kernel is replaced")
        lines += [f"shell     {power}, OUTSIDE OF ANY SANDBOX, as you"] if power else []
        lines += [f"userland  {machine.userland}"] if machine.userland else []
        place = "in the sandbox" if sandbox.require() else "OUTSIDE OF ANY SANDBOX, as you"
        say("\n  ".join([f"{experiment.name}, {place}:", *dict.fromkeys(lines)]))
        begun = f"{run.name} was not begun by you on this machine"
        agree(f"{begun}: {what} builds and runs what stands above", "Look at it first")
    note.write()


def experiment_files(_ctx: typer.Context, incomplete: str) -> list[str]:
    """TOML files beside what was typed and one folder below.

    Never a bare folder: some shells put a space after a word that is offered alone. Where this
    offers nothing they complete folders by themselves."""
    typed, slash, begun = incomplete.rpartition("/")
    top = Path(typed or slash or ".").expanduser()
    matches = [*top.glob(f"{begun}*.toml"), *top.glob(f"{begun}*/*.toml")]
    files = sorted(path.relative_to(top).as_posix() for path in matches)
    return [f"{typed}{slash}{file}" for file in files if not file.startswith(".")]


def run_names(ctx: typer.Context, _incomplete: str) -> list[str]:
    """The newest runs, and ``last``."""
    names = [run.name for run in list_runs(ctx.params.get("runs") or runs_root())]
    return ["last", *reversed(names[-_RUNS_OFFERED:])]


def variant_names(_ctx: typer.Context, _incomplete: str) -> list[str]:
    """The variants of the experiment that stands on the command line."""
    experiment = _typed_experiment()
    return [variant.name for variant in experiment.variants] if experiment else []


def case_names(_ctx: typer.Context, _incomplete: str) -> list[str]:
    """The cases of the experiment, or all that there are."""
    experiment = _typed_experiment()
    if experiment is not None:
        return [case for use in experiment.suites for case in use.cases]
    return [case.name for suite in catalogue.load().values() for case in suite.cases]


def _typed_experiment() -> Experiment | None:
    # An option that still waits for its value keeps the parser from reading the arguments, so
    # the line itself is looked at: zsh and fish send it in the first variable, bash in the second.
    line = os.environ.get("_TYPER_COMPLETE_ARGS") or os.environ.get("COMP_WORDS", "")
    files = [Path(word).expanduser() for word in line.split() if word.endswith(".toml")]
    return load(files[0])[0] if files else None
