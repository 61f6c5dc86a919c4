# SPDX-License-Identifier: MIT
"""kdyno judge and kdyno compare: stored runs by today's rule, beside each other, and joined."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from kdyno.bisect import attribution
from kdyno.cli.measuring import options_of
from kdyno.cli.outcome import export_of, show_outcome, write_verdict
from kdyno.errors import KdynoError, UsageError
from kdyno.experiment.limits import LEAST_CONFIDENCE, MOST_CONFIDENCE
from kdyno.experiment.loader import Overrides
from kdyno.judge import comparing
from kdyno.judge.judging import judge_again, within
from kdyno.kernels import installed
from kdyno.labs.published import article as articles
from kdyno.report import gate
from kdyno.report.evidence import Evidence
from kdyno.report.sentence import worded
from kdyno.report.show import terminal
from kdyno.report.terminal import rejudged, show as show_verdict
from kdyno.store import comparable
from kdyno.store.database.shared import Shared
from kdyno.store.run import FIRST_VERDICT, Run, write_run
from kdyno.store.verdict import Verdict
from kdyno.suites.catalogue import load as load_suites
from kdyno.verbs import options
from kdyno.verbs.options import Working, argument, option, percent, runs_folder
from kdyno.verbs.output import (
    answer,
    check_writable,
    kept_status,
    say,
    show,
    write,
    write_export,
    write_json,
)
from kdyno.verbs.subject import (
    find_run,
    gate_verdict,
    is_fetched,
    judged,
    pushed,
    store_prepared,
)
from kdyno.verbs.watching import Building, executed, say_where


def judge(
    what: list[str] = argument("RUN", "Runs: path, name, or last.", ..., options.RUN_NAMES),
    precision: str | None = option("--precision SHARE", 'Half-width wanted, such as "0.5%".', None),
    equivalent: str | None = option(
        "--equivalent SHARE", 'Differences below this do not matter, such as "1%".', None
    ),
    confidence: str | None = option("--confidence SHARE", 'Of the intervals, such as "99%".', None),
    fail_on: options.FailOn = None,
    push: options.Push = False,
    runs: options.Runs = None,
    json: options.Json = None,
) -> int:
    """Judge stored runs again, using the current rule. The first verdict is kept.

    A run of the shared store stays there as it is, unless --push puts the new verdict there.

    Examples:
      kdyno judge last
      kdyno judge 3f2a 81bc
      kdyno judge last --equivalent 2% --confidence 99%
      kdyno judge last --fail-on slower --json -
    """
    check_writable(json)
    shared = store_prepared() if push else None
    rules = gate.parse(fail_on or [])
    level = percent(confidence, "--confidence")
    if level is not None and not LEAST_CONFIDENCE <= level <= MOST_CONFIDENCE:
        raise UsageError(f'--confidence {confidence!r}: allowed is "50%" to "99.99%"')
    given = {
        "confidence": level,
        "equivalent": percent(equivalent, "--equivalent"),
        "precision": percent(precision),
    }
    criteria = {name: value for name, value in given.items() if value}
    subjects = [find_run(word, runs) for word in what]
    results: list[tuple[Run, Verdict, list[str]]] = []
    statuses = {0}
    for run in subjects:
        try:
            verdict, changes = _judge(run, criteria, rules, shared)
        except KdynoError as problem:
            if len(subjects) == 1:
                raise
            say(f"kdyno: {problem}")
            statuses.add(problem.exit_status)
            continue
        results.append((run, verdict, changes))
        if fail_on:
            statuses.add(gate.exit_status(gate_verdict(run, verdict), fail_on))
    order = (gate.SLOWER, gate.FAILED, UsageError.exit_status, gate.INCONCLUSIVE, 0)
    status = next(each for each in order if each in statuses)
    with kept_status():
        if json is not None and len(subjects) == 1:
            write_verdict(results[0][1], json)
        elif json is not None:
            data = [{"run": run.name, "verdict": verdict.to_data()} for run, verdict, _ in results]
            write_json(data, json)
        for run, verdict, changes in results if json != "-" else []:
            show_verdict(verdict)
            show("\n".join(["", f"run {run.name}", *changes, ""]), end="")
    return status


def _judge(
    run: Run, criteria: dict[str, float], rules: tuple[gate.Rule, ...], shared: Shared | None
) -> tuple[Verdict, list[str]]:
    """The verdict, kept in the run's folder and in ``shared``; and lines on what that changes."""
    if run.is_being_written():
        raise UsageError(f"{run.name} is still being measured; its verdict comes at the end")
    verdict, manifest = judge_again(run, **criteria)
    verdict = worded(verdict, manifest)
    gate.check_verdict(rules, verdict)
    before = None
    try:
        before = run.verdict(FIRST_VERDICT) or run.verdict()
    except KdynoError as problem:
        say(f"kdyno: {problem}")
    if is_fetched(run) and shared is None:
        say(f"{run.name}: the store has the verdict that it had; --push puts this one there")
    else:
        with write_run(run.path) as writer:
            writer.save_later_verdict(verdict)
    if shared is not None:
        try:
            pushed(shared, run)
        finally:
            if is_fetched(run):  # it is not what the store has under its name any more
                shared.forget(run)
    return verdict, rejudged(before, verdict, manifest)


def compare(
    what: list[str] = argument(
        "RUN",
        "Runs (path, name or last; the first is the baseline), or published:NAME.",
        ...,
        options.RUN_NAMES,
    ),
    common: bool = option("--common", "Compare the cases that all runs share.", False),
    variant: str | None = option(
        "--variant NAME", "This variant of each run [its baseline].", None
    ),
    against: str | None = option(
        "--against NAME", "Compare a run's variants with this one, using the rule of `run`.", None
    ),
    format: str | None = option(
        "-f --format FORMAT",
        "markdown, csv, json, junit, html, svg, png; none: by the name of the file, else a table.",
        None,
    ),
    join: bool = option(
        "--join", "Join runs of the same kernels on several machines into one, and judge it.", False
    ),
    attribute: bool = option(
        "--attribute",
        "Count how much of two images' difference is due to source, config and compiler.",
        False,
    ),
    case: list[str] | None = option("--case SUITE/CASE", "For --attribute; may be repeated.", None),
    source: list[str] | None = option(
        "--source SOURCE", "For --attribute: source of each image [its Debian package's].", None
    ),
    fail_on: options.FailOn = None,
    push: options.Push = False,
    output: options.Output = None,
    runs: options.Runs = None,
    json: options.Json = None,
) -> int:
    """Compare runs, variants of a run, or a published experiment.

    Runs that lie apart were not measured in turns, so the rule for them is stricter. Variants of
    one run were. With --join the verdict says what the effect is on each machine and each model
    of CPU, and whether they agree; the runs themselves stay as they are.

    Examples:
      kdyno compare 3f2a 81bc
      kdyno compare last published:snow-leopard
      kdyno compare published:athlon64x2
      kdyno compare last --variant mine --against stock
      kdyno compare --attribute debian:linux-image-amd64 debian:linux-image-6.12-amd64
      kdyno compare 3f2a 81bc 90d1 --join --push
    """
    check_writable(json, output)
    unused: dict[str, object] = {"--common": common, "--variant": variant, "--against": against}
    unused |= {"-f": format, "-o": output}
    if attribute:
        options.leave_out(
            "--attribute counts", unused | {"--join": join, "--push": push, "--fail-on": fail_on}
        )
        return _attribute(what, case or (), source or (), runs, json)
    if case or source:
        raise UsageError(f"{'--case' if case else '--source'} goes with --attribute")
    names = [word for word in what if word.startswith(articles.PREFIX)]
    subjects = [find_run(word, runs) for word in what if word not in names]
    if join:
        options.leave_out("--join makes a run of runs", {"published:NAME": names} | unused)
        return _join(subjects, runs, fail_on, push, json)
    if fail_on or push:
        raise UsageError(f"{'--fail-on' if fail_on else '--push'} goes with --join")
    if against is not None and (names or len(subjects) != 1):
        raise UsageError("--against goes with one run, whose variants are compared with each other")
    if names:
        if len(names) > 1 or len(subjects) > 1:
            raise UsageError("compare takes one article, alone or with one run")
        if format is not None:
            raise UsageError("--format goes with runs; an article is shown as text or --json")
        return _article(names[0], subjects, output, json)
    chosen = export_of(format, output, json)
    if chosen is not None and chosen.only_boots:
        raise UsageError(f"{chosen.name} shows the boots of one run; compare has csv and json")
    if against is not None:
        verdict = worded(within(subjects[0], against, variant))
    else:
        verdict = worded(comparing.compare(subjects, common=common, variant=variant))
    write_verdict(verdict, json)
    if chosen is not None:
        write_export(chosen.export(Evidence(verdict)), chosen.name, output)
    elif json != "-":
        show_verdict(verdict)
    return 0


def _article(name: str, runs: list[Run], output: str | None, json: str | None) -> int:
    article = articles.load(name)
    verdict = judged(runs[0]) if runs else None
    parts = articles.beside_parts(article, verdict) if verdict else articles.parts(article)
    write_json(articles.as_json(article, verdict), json)
    if output is not None:
        write(terminal.text(parts), output)
    elif json != "-":
        terminal.show(lambda _: parts)
    return 0


def _join(
    subjects: list[Run], runs: Path | None, fail_on: list[str] | None, push: bool, json: str | None
) -> int:
    rules = gate.parse(fail_on or [])
    shared = store_prepared() if push else None
    with comparable.join(subjects, runs_folder(runs)) as writer:
        run = writer.run
        verdict, manifest = judge_again(run)
        verdict = worded(verdict, manifest)
        writer.save_verdict(verdict)
    gate.check_verdict(rules, verdict)
    status = gate.exit_status(verdict, fail_on) if fail_on else 0
    show_outcome(verdict, json)
    say_where(run)
    if shared is not None:
        pushed(shared, run)
    return status


def _attribute(
    what: Sequence[str],
    cases: Sequence[str],
    sources: Sequence[str],
    runs: Path | None,
    json: str | None,
) -> int:
    """Of two images, or of a run that was made here before: show what the difference is due to."""
    measuring = options_of(Working(runs=runs, json=json), Overrides())
    if len(what) == 1 and what[0].partition(":")[0] not in installed.FORMS:
        if cases or sources:
            raise UsageError("--case and --source go with two images; a run has its own")
        run = find_run(what[0], runs)
        verdict = judged(run)
    else:
        if len(what) != 2 or len(sources) not in (0, 2):
            raise UsageError(
                "--attribute takes two images, such as debian:linux-image-amd64 and "
                "debian:linux-image-6.12-amd64, and --source of both or of none"
            )
        for name in what:
            installed.parse(name)
        suites = load_suites()
        folder = measuring.runs / f"{datetime.now(UTC):%Y-%m-%dT%H%M%S}-attribution-parts"
        with Building() as watch:
            sides = [
                attribution.side(name, own, measuring.cache, watch.fetching)
                for name, own in zip(what, sources or (None, None), strict=True)
            ]
            folder.mkdir(parents=True, exist_ok=True)
            try:
                experiment, notes = attribution.experiment_of(
                    sides,
                    cases or attribution.CASES,
                    *(folder, suites, measuring.cache, watch.fetching, watch.building),
                )
            except BaseException:
                shutil.rmtree(folder)
                raise
        for note in notes:
            say(note)
        run, verdict = executed(experiment, suites, measuring)
    question = verdict.question
    results = attribution.attributions(verdict)
    data = attribution.data(results, question, run.name)
    answer(data, [attribution.table(results, question)], json)
    say_where(run)
    return 0


VERBS = {"judge": judge, "compare": compare}
