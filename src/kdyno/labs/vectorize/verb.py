# SPDX-License-Identifier: MIT
"""kdyno lab vectorize."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kdyno import sandbox
from kdyno.errors import UsageError
from kdyno.experiment import loader
from kdyno.experiment.model import Variant
from kdyno.kernels.source import KINDS, fetch, parse
from kdyno.labs.profile.record import Profile, read_profile, stored_profiles
from kdyno.labs.published.article import load as load_article
from kdyno.labs.vectorize import survey as surveys
from kdyno.labs.vectorize import tables
from kdyno.labs.vectorize.survey import Survey
from kdyno.measure.vocabulary import vocabulary
from kdyno.paths import cache_root
from kdyno.report.show import terminal
from kdyno.verbs.options import Jobs, Json, NoSandbox, Output, Refresh, Runs, argument, option
from kdyno.verbs.output import check_writable, say, write, write_json
from kdyno.verbs.subject import load, stored_run
from kdyno.verbs.watching import Building

_ROWS = 20
"""Of each table on the terminal."""


def vectorize(
    what: str = argument(
        "WHAT",
        "A kernel source, an experiment file, the object tree of your own build, "
        "or a survey written by --json.",
        "debian:linux-source-7.3",
    ),
    flags: list[str] | None = option(
        "--flags SET",
        'o3, sse2, avx2, avx512, or NAME="FLAGS"; avx2 if none. May be repeated.',
        None,
    ),
    profile: str | None = option(
        "--profile RUN|FILE",
        "Rank missed loops by the seconds of their functions in this profile.",
        None,
    ),
    output: Output = None,
    jobs: Jobs = None,
    refresh: Refresh = False,
    no_sandbox: NoSandbox = False,
    runs: Runs = None,
    json: Json = None,
) -> int:
    """Survey a kernel's vectorised loops, and why others are not.

    Examples:
      kdyno lab vectorize
      kdyno lab vectorize --flags sse2 --flags avx2 --flags avx512 -o survey.html
      kdyno lab vectorize mine.toml --flags avx2 --profile last
      kdyno lab vectorize survey.json -o survey.html
    """
    check_writable(json)
    check_writable(output, "-o")
    suffix = Path(output).suffix if output not in (None, "-") else ".txt"
    if suffix not in (".txt", ".html"):
        raise UsageError(f"-o {output}: its name must end in .html or .txt")
    times = profile_of(profile, runs) if profile is not None else None
    survey = _survey(what, flags or (), jobs, refresh)
    hot = [] if times is None else [surveys.join(side.loops, times) for side in survey.sides]
    grids = tables.grids(survey, hot, load_article(tables.ARTICLE))
    if json is not None:
        write_json(survey.to_json(), json)
    if json == "-" and not output:
        return 0
    if suffix == ".html":
        content = tables.page(survey, [*grids, tables.vectorised(survey)])
    else:
        parts = (part for grid in grids for part in tables.parts(grid, _ROWS))
        content = terminal.text([*tables.head(survey), *parts])
    write(content, output or "-")
    if output:
        say(f"written: {output}")
    return 0


def _survey(what: str, flags: Sequence[str], jobs: int | None, refresh: bool) -> Survey:
    path = Path(what).expanduser()
    if path.suffix != ".json":
        sandbox.require()
    if path.is_dir() or path.suffix == ".json":
        if flags:
            raise UsageError(f"{what}: is built already; --flags goes with a source")
        return surveys.survey_of_folder(path) if path.is_dir() else surveys.survey_of_file(path)
    sets, base = surveys.flag_sets(flags), _variant(what, path)
    cache, watch = cache_root(), Building()
    try:
        tree = fetch(parse(base.source), cache, watch.fetching, refresh=refresh)
        recipes = surveys.check(base, sets, tree)
        return surveys.survey(base, sets, recipes, cache, jobs=jobs, report=watch.building)
    finally:
        watch.end()


def _variant(what: str, path: Path) -> Variant:
    """What the flags are added to: an experiment's baseline, or a stock variant of a source."""
    if path.suffix == ".toml" or path.is_file():
        experiment, _ = load(path)
        return next(each for each in experiment.variants if each.name == experiment.baseline)
    if what.partition(":")[0] not in KINDS:
        raise UsageError(
            f"{what!r}: neither a file or folder that exists, nor a kernel source. "
            f"Sources: {'; '.join(KINDS.values())}"
        )
    keys = {"source": what, "config": ["bench"]}
    return loader.variant("stock", keys, "vectorize", Path.cwd(), vocabulary({}))


def profile_of(text: str, runs: Path | None) -> Profile:
    """A profile file, or a run's: of its baseline, else the first. UsageError without one."""
    path = Path(text).expanduser()
    if path.is_file():
        return read_profile(path)
    run = stored_run(text, runs)
    for profile in stored_profiles(run).values():
        return profile
    raise UsageError(
        f"--profile {text}: {run.name} has no profile; `kdyno profile {run.name}` makes one"
    )


VERBS = {"vectorize": vectorize}
