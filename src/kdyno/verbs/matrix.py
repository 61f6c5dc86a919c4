# SPDX-License-Identifier: MIT
"""kdyno run of an experiment with [matrix]: a run for each commit, and a row per commit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from kdyno.errors import BuildError, KdynoError, UsageError
from kdyno.experiment import loader
from kdyno.experiment.model import Matrix
from kdyno.kernels.source import is_url, parse
from kdyno.kernels.sources import git
from kdyno.report import figures, gate
from kdyno.report.show.grid import Cell, Column, Grid
from kdyno.report.show.terminal import show
from kdyno.store.run import Run, list_runs
from kdyno.store.verdict import Verdict
from kdyno.verbs.options import agree, load
from kdyno.verbs.output import say

_MANY = 64
_SHORT = 12
"""Letters of a commit's number that are shown."""


@dataclass(frozen=True)
class CommitRun:
    """What came of a commit: its run, or why there is none."""

    ref: str
    run: Run | None = None
    verdict: Verdict | None = None
    why: str = ""


def matrix_of(file: Path | None) -> Matrix | None:
    """That of an experiment's file, if it has one."""
    return None if file is None else loader.read_matrix(loader.read(file), str(file))


def refs_of(found: Matrix, file: Path, yes: bool) -> tuple[str, ...]:
    """The commits in order, the oldest first where they are a range. Asks before very many."""
    refs = tuple(found.refs) if found.span is None else _between(file, *found.span)
    if len(refs) > _MANY and not yes:
        agree(f"[matrix] has {len(refs)} commits, a run for each", "List fewer")
    return refs


def _between(file: Path, first: str, last: str) -> tuple[str, ...]:
    asked, _suites = load(file, last)
    spec = parse(next(it.source for it in asked.variants if it.name == asked.baseline))
    if spec.kind != "git" or is_url(spec.rest):
        raise UsageError(
            f"[matrix] refs = {first}..{last}: a range needs a repository on this machine, "
            "git:DIR#{ref}; or list the refs"
        )
    folder = Path(spec.rest)
    words = ["rev-list", "--reverse", "--first-parent", "--end-of-options", f"{first}..{last}"]
    said = git.answer(folder, words).decode("ascii", "replace")
    if not said.split():
        raise UsageError(f"[matrix] refs = {first}..{last}: {folder} has no commit between them")
    return tuple(said.split())


def each(
    refs: tuple[str, ...],
    text_of: Callable[[str], str],
    runs: Path,
    overrides: Mapping[str, object],
    measured: Callable[[str], object],
    fail_on: Sequence[str] = (),
) -> int:
    """``measured`` for each commit that has no finished run of this very experiment yet, asked in
    the same way; and the table of all.

    The exit status is that of the worst row, by ``fail_on``, measured now or before; a commit
    without a verdict is 1.
    """
    rules = gate.parse(fail_on)  # what cannot be is refused before hours of measuring
    rows = []
    for number, ref in enumerate(refs, 1):
        say(f"{short(ref)}: commit {number} of {len(refs)}")
        known = finished(runs, text_of(ref), overrides)
        if known is not None:
            say(f"{short(ref)}: was measured before, {known.name}")
            verdict = known.verdict()
            if verdict is not None:
                gate.check_verdict(rules, verdict)
            rows.append(CommitRun(ref, known, verdict))
            continue
        try:
            measured(ref)
        except BuildError as problem:
            say(str(problem))
            rows.append(CommitRun(ref, why="does not build"))
            continue
        known = finished(runs, text_of(ref), overrides)
        rows.append(CommitRun(ref, known, known.verdict() if known else None, "not finished"))
    show(lambda _screen: [table(rows)])
    return gate.worst(
        {gate.exit_status(it.verdict, fail_on) if it.verdict else gate.FAILED for it in rows}
    )


def finished(runs: Path, text: str, overrides: Mapping[str, object]) -> Run | None:
    """The newest run of this experiment with these overrides that came to its end."""
    for run in reversed(list_runs(runs)):
        try:
            manifest = run.manifest()
            whole = manifest.state == "finished" and manifest.overrides == overrides
            if whole and run.experiment_text() == text and run.verdict() is not None:
                return run
        except KdynoError:
            continue
    return None


def table(rows: Sequence[CommitRun]) -> Grid:
    """A row a commit, a column an effect."""
    keys = dict.fromkeys(
        (it.variant, it.case) for row in rows if row.verdict for it in row.verdict.effects
    )

    def of(row: CommitRun, key: tuple[str, str]) -> Cell:
        effects = row.verdict.effects if row.verdict else ()
        it = next((it for it in effects if (it.variant, it.case) == key), None)
        if it is None or it.ratio is None:
            return Cell()
        return Cell(figures.effect(it.ratio), it.ratio, tone=it.verdict)

    columns = [
        Column("commit", lambda row: short(row.ref), "name"),
        *(Column(" ".join(key), partial(of, key=key), "effect") for key in keys),
        Column("run", lambda row: row.run.name if row.run else row.why, worth=1),
    ]
    return Grid(columns, rows, "commits")


def short(ref: str) -> str:
    return ref[:_SHORT] if len(ref) >= 40 and ref.isalnum() else ref
