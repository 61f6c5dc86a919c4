# SPDX-License-Identifier: MIT
"""kdyno lab memcpy …: check, generate, bench, histogram and tune."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from kdyno import sandbox, whole
from kdyno.errors import ToolError, UsageError
from kdyno.experiment.loader import Overrides, apply
from kdyno.experiment.model import BEST, Experiment
from kdyno.kernels import cpu as cpus
from kdyno.kernels.routines import checking
from kdyno.kernels.routines.routine import (
    FILE,
    FUNCTIONS,
    WORD,
    find_by_stem,
    list_routines,
    routines_folder,
)
from kdyno.labs.memcpy import copies as copying, counting, loads, results, search, tables, timing
from kdyno.labs.memcpy.shape import FORM, generate, parse_shape
from kdyno.labs.profile.counts import ready as built
from kdyno.labs.profile.record import by_line
from kdyno.labs.profile.symbols import symbols_of
from kdyno.machines.cpus import measuring, place
from kdyno.measure.execution import Listener, Options
from kdyno.paths import cache_root
from kdyno.report.charts.vega import png
from kdyno.report.show import terminal
from kdyno.suites.catalogue import Suite, load as load_suites
from kdyno.verbs.options import Jobs, Json, NoSandbox, NoWait, Refresh, argument, option, percent
from kdyno.verbs.output import Line, check_writable, say, show, write, write_json
from kdyno.verbs.subject import load
from kdyno.verbs.watching import Building, duration

Minutes = Annotated[float | None, option("--minutes MINUTES", "Minutes of timing.", min=0.05)]


def check(
    routine: list[str] | None = argument(
        "ROUTINE",
        "Names, with FUNCTION- in front for other functions than memcpy, or FILE.S; default: all.",
        None,
    ),
    quick: bool = option("--quick", "About every third size and offset.", False),
    no_sandbox: NoSandbox = False,
    json: Json = None,
) -> int:
    """Check that memory routines copy correctly. What lies beside the copy must stay, and
    the CPU must be left as it was.

    Examples:
      kdyno lab memcpy check
      kdyno lab memcpy check avx2 memset-avx512 ./mine.S
    """
    check_writable(json)
    sandbox.require()
    routines = [find_by_stem(name) for name in routine or ()]
    if not routines:
        routines = [each for function in FUNCTIONS for each in list_routines(function=function)]
    rows: list[dict[str, Any]] = []
    for number, each in enumerate(routines, 1):
        row: dict[str, Any] = {"routine": each.name, "function": each.function}
        rows.append(row)
        if lacking := cpus.missing(each.requires):
            row |= {"state": "skipped", "why": [f"this CPU lacks {', '.join(lacking)}"]}
        else:
            say(f"{number} of {len(routines)}: {each.function} {each.name}")
            result = checking.check(each, cache_root(), mode="thin" if quick else "full")
            state = "passed" if result.passed else "failed"
            row |= {"state": state, "why": list(result.violations), "cases": result.cases}
        if json != "-":
            cases = f"{row['cases']:,} cases" if row.get("cases") else ""
            show(f"{each.function:10} {each.name:28} {row['state']:8} {cases}".rstrip())
            for line in row["why"]:
                show(f"{'':12}{line}")
    write_json({"schema": 1, "routines": rows}, json)
    return 1 if any(row["state"] == "failed" for row in rows) else 0


def generate_verb(
    shape: str = argument("SHAPE", f"{FORM} (pages have none)."),
    output: str = option("--output -o FILE.S", "Where to; - is stdout.", "-"),
    name: str | None = option("--name NAME", "Its name; else the file's, else the shape's.", None),
) -> int:
    """Write a memory routine from its parameters. `memcpy = "FILE.S"` puts it into a kernel.

    Examples:
      kdyno lab memcpy generate avx512-256-overlap -o mine.S
      kdyno lab memcpy generate memset-avx2-128-overlap-rep-4096
    """
    check_writable(None, output)
    parameters = parse_shape(shape)
    if output != "-":
        if not output.endswith(".S"):
            raise UsageError(f"-o {output}: a routine's file ends in .S")
        prefix = "" if parameters.function == "memcpy" else f"{parameters.function}-"
        stem = Path(output).stem
        if not stem.startswith(prefix):
            raise UsageError(f"-o {output}: a {parameters.function} is called {prefix}NAME.S")
        own = stem.removeprefix(prefix)
        if name is not None and name != own:
            raise UsageError(f"--name {name}: the file's name says {own}; they must be the same")
        name = own
    if name is not None:
        _check_name(name)
    write(generate(parameters, name), output)
    return 0


def _check_name(name: str) -> None:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}", name):
        raise UsageError(f"{name!r} is not a name for a routine: letters, digits, - _ and . only")


@contextmanager
def alone(what: str, wait: bool) -> Iterator[tuple[int, Callable[[str, float | None], None]]]:
    """The machine for this bench or tuning: the CPU to time on, and a line of progress, given what
    is being done and the seconds left."""
    line = Line()

    def step(text: str, left_s: float | None) -> None:
        line.show(text + (f", about {duration(left_s)} left" if left_s is not None else ""))

    (core,) = place(1).guest
    try:
        with measuring(f"this {what}", wait=wait, tell=say):
            yield core, step
    finally:
        line.end()


def bench(
    routine: list[str] | None = argument("ROUTINE", "Names or FILE.S; default: all.", None),
    quick: bool = option("--quick", "A first impression, in less than a minute.", False),
    paper: bool = option(
        "--paper", "The published comparison: 128 to 2048 bytes, 5,000,000 calls.", False
    ),
    minutes: Minutes = None,
    distribution: Path | None = option(
        "--distribution FILE", "Replay what a kernel copied (JSON).", None
    ),
    earlier: Path | None = option("--from FILE", "Time nothing: show an earlier --json.", None),
    figures: bool = option("--figures", "The ratios that a good routine is judged by.", False),
    output: str | None = option("-o --output FILE", "Curves: .svg or .png.", None),
    no_wait: NoWait = False,
    no_sandbox: NoSandbox = False,
    json: Json = None,
) -> int:
    """Time memory routines. By size, alignment and cache level, with random and recorded copies.

    Examples:
      kdyno lab memcpy bench --quick
      kdyno lab memcpy bench --paper -o paper.svg
      kdyno lab memcpy bench avx2 mine.S --distribution copies.json -o bench.svg
      kdyno lab memcpy bench --from bench.json
    """
    if quick and paper:
        raise UsageError("--quick and --paper exclude each other")
    if earlier is not None and routine:
        raise UsageError(f"--from {earlier} shows the routines of that file: leave the names out")
    suffix = Path(output).suffix if output is not None else ""
    if output is not None and suffix not in (".svg", ".png"):
        raise UsageError(f"-o {output}: its name must end in .svg or .png")
    check_writable(json, output)
    if earlier is not None:
        result = results.read_bench(earlier)
    else:
        sandbox.require()
        plan = loads.paper() if paper else loads.full()
        if quick or (figures and not paper):
            plan = loads.quick() if quick else loads.judged()
        if minutes is not None:
            plan = replace(plan, seconds=60.0 * minutes, most_blocks=1000)
        if distribution is not None or not paper:
            recorded = copying.read_distribution(distribution or copying.shipped())
            plan = plan.with_copies(recorded)
        result = _timed(routine or [], plan, wait=not no_wait)
    write_json(results.to_json(result), json)
    if output is not None:
        svg = tables.picture(result)
        write(svg if suffix == ".svg" else png(svg), output)
        say(f"written: {output}")
    if json != "-":
        if figures:
            show(tables.figures_text(result), end="")
        else:
            terminal.show(lambda screen: tables.bench_parts(result, screen))
    return 0


def _timed(names: Sequence[str], plan: loads.Plan, wait: bool) -> results.Bench:
    cache = cache_root()
    with alone("bench", wait) as (core, step):
        step("checking that the routines copy correctly", None)
        contenders, left_out = timing.gather(names, cache, plan.only)

        def tell(elapsed_s: float, whole_s: float) -> None:
            left_s = whole_s - elapsed_s if elapsed_s > 0.5 else None
            step(f"timing, {100 * elapsed_s / whole_s:.0f} %", left_s)

        return timing.measure(contenders, plan, cache, core, left_out, tell)


def histogram(
    workload: list[str] | None = argument(
        "EXPERIMENT | -- COMMAND",
        "An experiment file (ends in .toml): its baseline and its cases; or any command.",
        None,
    ),
    case: list[str] | None = option(
        "--case SUITE/CASE", "Count while this case runs; patterns allowed, may be repeated.", None
    ),
    seconds: float = option("--seconds SECONDS", "Seconds for each case.", 0.5, min=0.05),
    operations: int | None = option(
        "--operations N", "This many operations of each case instead.", None, min=1
    ),
    output: str | None = option("-o --output FILE.json", "The distribution; - is stdout.", None),
    jobs: Jobs = None,
    refresh: Refresh = False,
    no_sandbox: NoSandbox = False,
    json: Json = None,
) -> int:
    """Count what a kernel copies with memcpy. Call sites, sizes and alignments of a workload.

    Examples:
      kdyno lab memcpy histogram --case unixbench/pipe --case 'unixbench/fscopy-*'
      kdyno lab memcpy histogram mine.toml -o copies.json
      kdyno lab memcpy histogram --json - -- tar cf /dev/null /usr/include
    """
    check_writable(json, output)
    if output not in (None, "-") and Path(output).suffix != ".json":
        raise UsageError(f"-o {output}: its name must end in .json, or be -")
    experiment, suites, title = _workload(tuple(workload or ()), tuple(case or ()))
    experiment = apply(Overrides(seconds=seconds), experiment)
    if operations is not None:
        uses = tuple(replace(use, operations=operations) for use in experiment.suites)
        experiment = replace(experiment, suites=uses)
    kernel = counting.counting_experiment(experiment)
    with Building() as watch:
        listener = Listener(watch.fetching, watch.building, notify=say)
        options = Options(cache_root(), Path(), jobs=jobs, refresh=refresh, listener=listener)
        ready = built(kernel, suites, options)
    # The harness calibrates and warms up as well; fixed work takes as long as it takes.
    estimate_s = 1.3 * sum(job.seconds for job in ready.runnable if job.seconds)
    if estimate_s > 2:
        say(f"counting for about {estimate_s:.0f} s")
    counts = counting.count(
        ready, lambda name, number, of: say(f"counting: {name} ({number} of {of})")
    )
    if not counts.calls:
        raise ToolError("the kernel counted no copies: did no case run?")
    image = ready.images[kernel.baseline]
    symbols = symbols_of(image.kernel)
    distribution = counting.distribution_of(counts, f"{title}, Linux {image.version}", symbols)
    if output is not None:
        write(by_line(copying.to_json(distribution)), output)
    if json is not None:
        keys = ("cases", "failed", "lost", "oversize")
        value = copying.to_json(distribution) | {key: getattr(counts, key) for key in keys}
        sums = {"calls": distribution.calls, "bytes": distribution.bytes}
        write_json(value | sums, json)
    if "-" not in (json, output):
        notes = counting.notes(counts)
        terminal.show(
            lambda screen: tables.copies(distribution, notes, ascii_only=not screen.unicode)
        )
    return 0


def _workload(
    words: tuple[str, ...], cases: tuple[str, ...]
) -> tuple[Experiment, Mapping[str, Suite], str]:
    """(the experiment, the suites, what is counted in words)."""
    if len(words) == 1 and words[0].endswith(".toml"):
        experiment, suites = load(Path(words[0]))
        return apply(Overrides(cases=cases), experiment), suites, experiment.name
    suites = load_suites()
    if words:
        if cases:
            raise UsageError("--case and a command exclude each other: count one after the other")
        return counting.of_command(words, Path.cwd(), suites), suites, " ".join(words)
    if not cases:
        raise UsageError(
            "which workload? For example: kdyno lab memcpy histogram --case unixbench/pipe, or "
            "kdyno lab memcpy histogram -- tar cf /dev/null /usr/include"
        )
    return counting.of_cases(cases, suites), suites, ", ".join(cases)


def tune(
    copies: Path | None = argument(
        "FILE", "A distribution, from histogram; default: UnixBench's.", None
    ),
    output: Path | None = option("-o --output FILE.S", "Where the routine goes.", None),
    cpu: bool = option(
        "--cpu",
        "Not for recorded copies but for this CPU: find its row of best.toml, and write "
        "routine, benches and row beside -o, or into kernel/memcpy.",
        False,
    ),
    minutes: Minutes = None,
    share: str | None = option(
        "--share SHARE", 'memcpy\'s share of the time, such as "35%".', None
    ),
    no_sandbox: NoSandbox = False,
    no_wait: NoWait = False,
    json: Json = None,
) -> int:
    """Find the fastest memcpy for what a kernel copies. Emit it, and predict its gain.

    Examples:
      kdyno lab memcpy tune copies.json -o tuned.S --share 0.35
      kdyno lab memcpy tune copies.json --minutes 5
      kdyno lab memcpy tune --cpu
    """
    check_writable(json, str(output) if output is not None else None)
    if output is not None and output.suffix != ".S":
        raise UsageError(f"-o {output}: its name must end in .S")
    if output is not None:
        _check_name(output.stem)
    if cpu:
        others: dict[str, object] = {"FILE": copies, "--share": share}
        if unused := [option for option, value in others.items() if value is not None]:
            raise UsageError(f"--cpu goes without {', '.join(unused)}")
        return _for_cpu(output, minutes or 4.0, json, wait=not no_wait)
    part = percent(share, "--share")
    recorded = copying.read_distribution(copies or copying.shipped())
    plan = loads.Plan("tune", (), 0.0).with_copies(recorded)
    seconds = 60.0 * (minutes or 2.0)
    sandbox.require()
    with _workshop(plan, seconds, wait=not no_wait) as workshop:
        contenders, left_out = timing.gather((), workshop.cache_root)
        beside = [each for each in contenders if each.rank != "bound"]
        result = workshop.tuned(beside, output.stem if output is not None else None, seconds)
        workshop.contender(f"{result.name}.S", result.text)
    for name, why in left_out.items():
        say(f"left out: {name}: {why}")
    if output is not None:
        write(result.text, str(output))
        say(f"written: {output}; `kdyno try -k memcpy={output} -- COMMAND` measures it in a kernel")
    write_json(tables.tuning_json(result, load=plan.loads[0].id, share=part), json)
    if json != "-":
        terminal.show(lambda _: tables.tuning(result, plan.loads[0], part))
    return 0


@contextmanager
def _workshop(plan: loads.Plan, seconds: float, wait: bool) -> Iterator[search.Workshop]:
    with alone("tuning", wait) as (core, step), whole.scratch("tune") as folder:
        yield search.Workshop(folder, cache_root(), core, plan, seconds, step)


def _for_cpu(output: Path | None, minutes: float, json: str | None, wait: bool) -> int:
    """Find this CPU's row, write routine, benches and row, and show the result."""
    here = cpus.this_cpu()
    path = output or routines_folder() / f"{BEST}-{search.row_name(here)}.S"
    check_writable(json, str(path))
    row = path.stem.removeprefix(f"{BEST}-")
    if not all(re.fullmatch(WORD, name) for name in (path.stem, row)):
        what = "names of at most 61 small letters, digits, - _ and ., of the routine and its row"
        raise UsageError(f"-o {path}: {FILE} has {what}")
    sandbox.require()
    recorded = copying.read_distribution(copying.shipped())
    plan = loads.Plan("tune", (), 0.0, 3, 30_000).with_copies(recorded)
    with _workshop(plan, 60.0 * minutes, wait) as workshop:
        result = search.tune_cpu(workshop, path.stem)
    for file, text in search.files_of(result, row, here, path.parent).items():
        file.parent.mkdir(parents=True, exist_ok=True)
        write(text, str(file))
    say(f"written: {path}, its benches and its row, {row}, in {path.parent / FILE}")
    write_json(tables.tuning_json(result.memcpy, row=row, routines=result.routines), json)
    if json != "-":
        terminal.show(lambda _: tables.cpu_tuning(result))
    return 0


VERBS = {
    "bench": bench,
    "check": check,
    "generate": generate_verb,
    "histogram": histogram,
    "tune": tune,
}
