# SPDX-License-Identifier: MIT
"""What `kdyno profile --method count` does: count or find counts, keep them, show them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from kdyno.errors import UsageError
from kdyno.verbs.options import consent_to_build, load, load_stored, stored_run
from kdyno.verbs.output import say, write, write_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kdyno.experiment.model import Experiment
    from kdyno.measure.execution import Options
    from kdyno.store.counts import Counted
    from kdyno.store.run import Run
    from kdyno.store.verdict import Verdict
    from kdyno.suites.catalogue import Suite


@dataclass(frozen=True)
class Asked:
    what: str
    """An experiment file, or a run."""
    is_file: bool
    variants: tuple[str, ...]
    cases: tuple[str, ...]
    show: bool
    """Boot nothing: what the run has."""
    top: int
    json: str | None
    folded: str | None
    function: str | None
    """To be annotated."""
    lines: str | None
    """Source file that is compiled with line numbers for that."""
    yes: bool = False
    """Also a run of somebody else's."""


def is_meant(method: str | None, what: str, is_file: bool, runs: Path, show: bool) -> bool:
    """Whether to count by function: asked for, or else as the experiment says; to be shown, where
    the run has counts and nothing else."""
    from kdyno.labs.profile.counts import METHOD
    from kdyno.labs.profile.record import stored_profiles

    if method is not None:
        return method == METHOD
    if is_file:
        return not show and load(Path(what))[0].measure.profile == METHOD
    run = stored_run(what, runs)
    if show:
        return not stored_profiles(run) and bool(stored(run))
    return load_stored(run, run.manifest())[0].measure.profile == METHOD


def verb(asked: Asked, options: Options) -> int:
    """Exact, so one boot of each kernel is enough. A run keeps what was counted."""
    from kdyno.labs.profile import annotate
    from kdyno.labs.profile.count_tables import as_json, folded, parts
    from kdyno.report.show import terminal

    if asked.lines and not asked.function:
        raise UsageError("--lines goes with --annotate FUNCTION")
    run, experiment, suites = _subject(asked, options.runs)
    found: Sequence[Counted] = ()
    if run is not None and (asked.show or asked.function):
        found = stored(run)
    if run is not None and (asked.function or not asked.show):
        what = "to count in it" if asked.function is None else "to annotate it"
        consent_to_build(run, experiment, what, sandboxed=options.sandboxed, yes=asked.yes)
    if asked.show and not found:
        raise UsageError(f"{asked.what} was not counted by function; without --show it is")
    if not found:
        found = _made(run, experiment, suites, options)
    if asked.folded:
        write(folded(found), asked.folded)
    if asked.function is not None:
        shown = annotate.annotated(found, asked.function, experiment, options, asked.lines)
        if asked.json is not None:
            write_json(annotate.as_json(shown), asked.json)
        if asked.json != "-":
            terminal.show(lambda _: list(annotate.parts(shown)))
        return 0
    if asked.json is not None:
        write_json(as_json(found), asked.json)
    if asked.json != "-":
        terminal.show(lambda _: list(parts(found, asked.top)))
    if run is not None:
        say(f"\nrun folder: {run.path}")
    return 0


def stored(run: Run) -> list[Counted]:
    from kdyno.store.counts import stored_counts

    return list(stored_counts(run).values())


def after_run(
    run: Run,
    verdict: Verdict,
    experiment: Experiment,
    suites: Mapping[str, Suite],
    options: Options,
) -> Verdict:
    """What `profile = "count"` in an experiment adds: the verdict says which functions."""
    from kdyno.store.counts import stored_counts

    say("\ncounting by function, in a boot of each kernel of its own")
    _made(run, experiment, suites, options)
    return _with_functions(verdict, stored_counts(run))


def _with_functions(verdict: Verdict, counted: Mapping[str, Counted]) -> Verdict:
    from kdyno.judge.explaining import explained

    return explained(verdict, counted)


def _subject(asked: Asked, runs: Path) -> tuple[Run | None, Experiment, Mapping[str, Suite]]:
    from kdyno.experiment.overrides import Overrides, apply

    run = None
    if asked.is_file:
        if asked.show:
            raise UsageError("--show goes with a run that was profiled")
        experiment, suites = load(Path(asked.what))
        overrides = Overrides(metric="instructions")
    else:
        run = stored_run(asked.what, runs)
        experiment, suites, overrides = load_stored(run, run.manifest())
    chosen = replace(
        overrides,
        variants=asked.variants or overrides.variants,
        cases=asked.cases or overrides.cases,
    )
    return run, apply(chosen, experiment), suites


def _made(
    run: Run | None, experiment: Experiment, suites: Mapping[str, Suite], options: Options
) -> Sequence[Counted]:
    """Count, and keep it with the run and its verdict."""
    from kdyno.labs.profile.counts import count
    from kdyno.store.counts import FOLDER, stored_counts, to_json
    from kdyno.store.run import file_name, write_run
    from kdyno.verbs.watching import watching

    earlier = run.manifest() if run is not None else None
    with watching(experiment) as listener:
        found = count(experiment, suites, replace(options, listener=listener), earlier)
    if run is None:
        return found
    with write_run(run.path) as writer:
        for counted in found:
            writer.save_file(file_name(counted.variant), to_json(counted), FOLDER)
        if (verdict := run.verdict()) is not None:
            writer.save_explained(_with_functions(verdict, stored_counts(run)))
    return found
