# SPDX-License-Identifier: MIT
"""kdyno run of an experiment with [matrix]: a run for each commit, and a row per commit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from kdyno.cli.run import Request
from kdyno.errors import BuildError, ToolError, UsageError
from kdyno.experiment import loader
from kdyno.kernels.source import is_url, parse
from kdyno.kernels.sources.git import SHORT, first_parents
from kdyno.machines.kinds import KINDS
from kdyno.measure.builder import changed, check
from kdyno.measure.execution import Options
from kdyno.report import figures, gate
from kdyno.report.show.grid import Cell, Column, Grid
from kdyno.report.show.terminal import show
from kdyno.store.run import open_run
from kdyno.store.verdict import Verdict, deciding
from kdyno.verbs.output import say
from kdyno.verbs.subject import agree, earlier, load

_MANY = 64
Row = tuple[str, str, Verdict | None]
"""A commit, its run or why there is none, the verdict."""


def refs_of(matrix: loader.Matrix, file: Path, yes: bool) -> tuple[str, ...]:
    """The commits in order, the oldest first where they are a range. Asks before very many."""
    refs = _between(file, matrix.refs) if isinstance(matrix.refs, str) else matrix.refs
    if len(refs) > _MANY and not yes:
        agree(f"[matrix] has {len(refs)} commits, a run for each", "List fewer")
    return refs


def _between(file: Path, span: str) -> tuple[str, ...]:
    """span: FIRST..LAST."""
    experiment, _suites = load(file, span.partition("..")[2])
    baseline = next(own for own in experiment.variants if own.name == experiment.baseline)
    spec = parse(baseline.source)
    if spec.kind != "git" or is_url(spec.rest):
        raise UsageError(
            f"[matrix] refs = {span}: a range needs a repository on this machine, "
            "git:DIR#{ref}; or list the refs"
        )
    folder = Path(spec.rest)
    refs = tuple(point.commit for point in first_parents(folder, span))
    if not refs:
        raise UsageError(f"[matrix] refs = {span}: {folder} has no commit between them")
    return refs


def each(
    matrix: loader.Matrix, request: Request, options: Options, measured: Callable[[str], object]
) -> int:
    """``measured`` for each commit that has no finished run yet of this very experiment with these
    overrides; and the table of all. The exit status is that of the worst row, by --fail-on,
    measured now or before; a commit without a verdict is 1."""
    assert request.experiment is not None
    text = loader.read(request.experiment)
    refs = refs_of(matrix, request.experiment, request.yes)
    fail_on = request.fail_on or ()
    rules = gate.parse(fail_on)  # what cannot be is refused before hours of measuring
    if request.dry_run:
        measured(refs[-1])
        return 0
    rows: list[Row] = []
    for number, ref in enumerate(refs, 1):
        say(f"{short(ref)}: commit {number} of {len(refs)}")
        own, why = loader.at_ref(text, ref), "not finished"
        done = None if request.refresh else _finished(options, own, request)
        if done is not None and (variant := _changed(options, request, ref, done[0])):
            say(f"{short(ref)}: {variant} is not what it was in {done[0]}")
            done = None
        if done is not None:
            say(f"{short(ref)}: was measured before, {done[0]}")
            gate.check_verdict(rules, done[1])
        else:
            try:
                measured(ref)
            except BuildError as problem:
                say(str(problem))
                why = "does not build"
            done = _finished(options, own, request)
        rows.append((short(ref), *(done or (why, None))))
    show(lambda _screen: [table(rows)])
    return gate.worst(
        {gate.exit_status(verdict, fail_on) if verdict else gate.FAILED for _, _, verdict in rows}
    )


def _finished(options: Options, text: str, request: Request) -> tuple[str, Verdict] | None:
    """The newest run of this experiment with these overrides that came to its end, and what a gate
    judges by: where a second run confirms it, both. --confirm wants that of what is slower."""
    done = [
        (run.name, manifest.overrides, verdict)
        for run, manifest, verdict in earlier(options.runs, text)
        if manifest.state == "finished" and verdict is not None
    ]
    wanted = options.overrides.to_json()
    first = next(((name, own) for name, overrides, own in done if overrides == wanted), None)
    if first is None:
        return None
    name, verdict = first
    for again, overrides, second in done:
        if overrides.get("confirms") == name:
            return again, gate.confirmed(verdict, second)
    slower = gate.exit_status(verdict, request.fail_on or ("slower",)) == gate.SLOWER
    return None if request.confirm and slower else first


def _changed(options: Options, request: Request, ref: str, run: str) -> str | None:
    """A variant that would be another kernel today than in the run: a branch moved, a patch or a
    fragment beside the file was edited, the compiler is a newer one."""
    experiment = loader.apply(options.overrides, load(request.experiment, ref)[0])
    if not KINDS[experiment.machine.kind].builds:
        return None
    try:
        recipes = check(experiment, options.cache, options.listener.fetching)
    except (ToolError, UsageError):  # what cannot be looked at any more is what it was
        return None
    return changed(experiment, recipes, open_run(options.runs / run).manifest().images)


def table(rows: Sequence[Row]) -> Grid:
    effects = [effect for _, _, verdict in rows if verdict for effect in verdict.effects]
    keys = {effect.key: f"{effect.variant} {effect.case}" for effect in effects}
    heads = list(keys.values())  # two suites may have a case of one name
    for key, head in keys.items():
        if heads.count(head) > 1:
            keys[key] = f"{key[2]} {key[0]}/{key[1]}"

    def cell(row: Row, key: tuple[str, str, str]) -> Cell:
        for effect in row[2].effects if row[2] else ():
            if effect.key == key and (ratio := deciding(effect).ratio):
                return Cell(figures.effect(ratio), ratio, tone=effect.verdict)
        return Cell()

    columns = [
        Column("commit", lambda row: row[0], "name"),
        *(Column(head, partial(cell, key=key), "effect") for key, head in keys.items()),
        Column("run", lambda row: row[1], worth=1),
    ]
    return Grid(columns, rows, "commits")


def short(ref: str) -> str:
    """A commit's number as it is shown; other names whole."""
    return ref[:SHORT] if len(ref) >= 40 and ref.isalnum() else ref
