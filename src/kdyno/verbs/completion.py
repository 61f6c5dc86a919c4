# SPDX-License-Identifier: MIT
"""What the shell is offered when Tab is pressed.

Whatever goes wrong here gives no offers and no message: the shell shows its own file names.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from kdyno.experiment.model import Experiment

_RUNS_OFFERED = 20
_PLAIN = re.compile(r"[\w./][\w./@%+=:,-]*")
"""Words that no shell takes for more than a word: it puts them into the line as they are, or has
them evaluated. Others are not offered."""

Offer = Callable[[typer.Context, str], list[str]]


def offered(find: Offer) -> Offer:
    """``find``'s words that begin with what was typed; none when it fails."""

    # Not functools.wraps: typer would read the names of the parameters behind it.
    def offer(ctx: typer.Context, incomplete: str) -> list[str]:
        try:
            found = [word for word in find(ctx, incomplete) if word.startswith(incomplete)]
            return [word for word in found if _PLAIN.fullmatch(word)]
        except Exception:  # a traceback would end up on the person's command line
            return []

    return offer


@offered
def experiment_files(_ctx: typer.Context, incomplete: str) -> list[str]:
    """TOML files beside what was typed and one folder below.

    Never a bare folder: some shells put a space after a word that is offered alone. Where this
    offers nothing they complete folders by themselves.
    """
    typed, slash, begun = incomplete.rpartition("/")
    top = Path(typed or slash or ".").expanduser()
    found = [*top.glob(f"{begun}*.toml"), *top.glob(f"{begun}*/*.toml")]
    files = sorted(path.relative_to(top).as_posix() for path in found)
    return [f"{typed}{slash}{file}" for file in files if not file.startswith(".")]


@offered
def run_names(ctx: typer.Context, _incomplete: str) -> list[str]:
    """The newest runs, and ``last``."""
    from kdyno.paths import runs_root
    from kdyno.store.run import list_runs

    found = [run.name for run in list_runs(ctx.params.get("runs") or runs_root())]
    return ["last", *reversed(found[-_RUNS_OFFERED:])]


@offered
def variant_names(_ctx: typer.Context, _incomplete: str) -> list[str]:
    """The variants of the experiment that stands on the command line."""
    experiment = _experiment()
    return [variant.name for variant in experiment.variants] if experiment else []


@offered
def case_names(_ctx: typer.Context, _incomplete: str) -> list[str]:
    """The cases of the experiment, or all that there are."""
    from kdyno.suites.catalogue import load

    experiment = _experiment()
    if experiment is not None:
        return [case for use in experiment.suites for case in use.cases]
    return [case.name for suite in load().values() for case in suite.cases]


@offered
def chart_names(_ctx: typer.Context, _incomplete: str) -> list[str]:
    """The charts that can be had as a picture."""
    from kdyno.report.drawings import CHARTS

    return list(CHARTS)


def _experiment() -> Experiment | None:
    from kdyno.experiment import loader
    from kdyno.measure.vocabulary import vocabulary
    from kdyno.suites.catalogue import load

    # An option that still waits for its value keeps the parser from reading the arguments, so
    # the line itself is looked at: zsh and fish send it in the first variable, bash in the second.
    line = os.environ.get("_TYPER_COMPLETE_ARGS") or os.environ.get("COMP_WORDS", "")
    files = [Path(word).expanduser() for word in line.split() if word.endswith(".toml")]
    return loader.load(files[0], vocabulary(load())) if files else None
