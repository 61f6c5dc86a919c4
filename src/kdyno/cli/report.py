# SPDX-License-Identifier: MIT
"""kdyno report, kdyno serve and kdyno push: runs as tables, exports and pages, and in the store."""

from __future__ import annotations

import threading
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import typer

from kdyno import labs, whole
from kdyno.cli.outcome import SCORED, export_of, show_outcome, with_scores, write_verdict
from kdyno.errors import KdynoError, UsageError
from kdyno.paths import cache_root
from kdyno.report import gate, scores
from kdyno.report.evidence import Evidence, gather
from kdyno.report.exporters import exporters
from kdyno.report.site.build import Progress, SharedSite, build_site
from kdyno.report.site.server import SiteServer, watch
from kdyno.store.database.address import location
from kdyno.suites.catalogue import load as load_suites
from kdyno.verbs import options
from kdyno.verbs.options import argument, option, runs_folder
from kdyno.verbs.output import check_writable, kept_status, say, write_export, write_json
from kdyno.verbs.subject import (
    find_run,
    gate_verdict,
    judged,
    pushed,
    store,
    store_needed,
    stored_run,
)
from kdyno.verbs.watching import site_line

_LOOK_EVERY_S = 2.0


def format_names(_ctx: typer.Context, _incomplete: str) -> list[str]:
    return list(exporters(labs.reports()))


def report(
    run: str | None = argument("RUN", "A run: path, name, or last.", None, options.RUN_NAMES),
    format: str | None = option(
        "-f --format FORMAT",
        "html, markdown, csv, json, parquet, svg, png, junit, benchstat, "
        "folded; none: by the name of the file, else a table.",
        None,
        "kdyno.cli.report:format_names",
    ),
    output: options.Output = None,
    scoring: options.Scoring = None,
    fail_on: options.FailOn = None,
    history: Path | None = option(
        "--history FILE",
        "With --fail-on: earlier tests of the branch, which set the level of this one.",
        None,
    ),
    all_: bool = option("--all", "A site of all runs in the folder that -o names.", False),
    runs: options.Runs = None,
    json: options.Json = None,
) -> int:
    """Show a run as a table or exported, or all runs as a site.

    Examples:
      kdyno report last
      kdyno report last -o report.html
      kdyno report last -f markdown
      kdyno report last -o effects.svg
      kdyno report last --fail-on slower
      kdyno report 3f2a --json -
      kdyno report --all -o site/
    """
    if all_:
        given = {"RUN": run, "-f": format, "--fail-on": fail_on}
        given |= {"--scoring": scoring, "--history": str(history or "")}
        if several := [name for name, value in given.items() if value]:
            raise UsageError(f"--all shows every run; {', '.join(several)} goes with one run")
        check_writable(json)
        return _write_site(runs, output, json)
    if run is None:
        raise UsageError("which run? Name one, or last; --all -o site/ shows all of them")
    rules = gate.parse(fail_on or [])
    if history is not None and not rules:
        raise UsageError("--history keeps the tests of a gate: say what fails with --fail-on")
    check_writable(None, str(history) if history else None, "--history")
    chosen = export_of(format, output, json, labs.reports())
    if scoring is not None:
        scores.check_word(scoring)
        if chosen is not None and chosen.name not in SCORED:
            formats = " and ".join(SCORED)
            raise UsageError(f"--scoring goes with the table, {formats}, not {chosen.name}")
    subject = find_run(run, runs)
    verdict = judged(subject)
    manifest = subject.manifest()
    suites = {case.suite for case in manifest.cases}
    scores.check(scoring, manifest.asked.metric, suites, load_suites())
    gate.check_verdict(rules, verdict)
    status, tested = 0, verdict
    if fail_on:
        tested = gate_verdict(subject, verdict)
        status = gate.exit_status(tested, fail_on)
        if history is not None:
            tested = gate.in_history(history, subject.name, tested, fail_on)
            alone, status = status, gate.exit_status(tested, fail_on)
            if alone != status:
                say(f"slower, but not at the level that the tests in {history} leave: not stopped")
    elif chosen is not None and chosen.name == "junit":
        with suppress(UsageError):  # the run that it confirms may be elsewhere
            tested = gate_verdict(subject, verdict)
    if chosen is None:
        show_outcome(verdict, json, subject, scoring)
        return status
    with kept_status():
        write_verdict(verdict, json, subject, scoring)
        own = tested if chosen.name == "junit" else verdict  # its failures are a gate's
        evidence = gather(subject, own) if chosen.needs_run else Evidence(own)
        evidence = replace(evidence, sections=labs.reports())
        exported = with_scores(subject, verdict, chosen.export(evidence), scoring, chosen.name)
        write_export(exported, chosen.name, output)
    return status


def _write_site(runs: Path | None, output: str | None, json: str | None) -> int:
    """Builds it or what of it has changed: of the store, where there is one and no folder named."""
    if not output or output == "-":
        raise UsageError("--all writes a folder of pages: name it with -o, such as -o site/")
    out = Path(output).absolute()
    shared = store() if runs is None else None
    with site_line() as progress:
        if shared is not None:
            built = SharedSite(shared, out, cache_root(), sections=labs.reports).build_all(progress)
        else:
            built = build_site(runs_folder(runs), out, progress=progress, sections=labs.reports)
    facts = {"site": output, "runs": built.runs, "made": built.rendered, "kept": built.kept}
    write_json({**facts, "removed": built.removed, "pages": list(built.pages)}, json)
    index, drawn = Path(output) / "index.html", f"{built.rendered} of {built.runs}"
    say(f"written: {index} ({drawn} runs drawn again)")
    return 0


def serve(
    port: int = option("--port N", "Port; 0 takes any free one.", 8421, min=0, max=65535),
    bind: str = option(
        "--bind ADDRESS", "Address to listen on; who reaches it can read the runs.", "127.0.0.1"
    ),
    runs: options.Runs = None,
    json: options.Json = None,
) -> int:
    """Show all runs in a browser, as they change, until Ctrl-C.

    Those of the store that KDYNO_STORE names, unless --runs names a folder.

    Examples:
      kdyno serve
      kdyno serve --port 8500
      kdyno serve --runs DIR
    """
    check_writable(json)
    shared = store() if runs is None else None
    folder = runs_folder(runs)
    if shared is None and not folder.is_dir():
        raise UsageError(f"{folder}: there is no such folder of runs; choose another with --runs")
    # Where the pages lie between sessions, so that only what changed is made again.
    place = str(folder.resolve()) if shared is None else shared.address
    key = sha256(place.encode("utf-8", "surrogateescape")).hexdigest()[:16]
    site: Path = cache_root() / "sites" / key
    with whole.cache_errors(site):
        site.mkdir(parents=True, exist_ok=True)
    # The port first: whoever has it taken must not wait for the pages to learn of it.
    server = SiteServer(site, bind, port)
    stop = threading.Event()

    pages = None
    if shared is not None:
        pages = SharedSite(shared, site, cache_root(), live=True, sections=labs.reports)
        server.absent = pages.make

    def build(progress: Progress = lambda _done, _all: None) -> str:
        if pages is not None:
            return pages.build().edition
        return build_site(folder, site, live=True, progress=progress, sections=labs.reports).edition

    try:
        with site_line() as progress:
            server.edition = build(progress)
        if not server.is_local:
            say(f"warning: whoever reaches {bind} can read these runs")
        if json is not None:
            of = str(folder) if shared is None else location(shared.address)
            write_json({"url": server.url, "runs": of, "site": str(site)}, json)
        say(f"{server.url}  (Ctrl-C ends it)")

        arguments = (server, build, _LOOK_EVERY_S, stop, say)
        threading.Thread(target=watch, args=arguments, daemon=True).start()
        server.serve_forever(poll_interval=0.2)
    except KeyboardInterrupt:
        say("ended")
    finally:
        stop.set()
        server.server_close()
    return 0


def push(
    what: list[str] | None = argument("RUN", "Runs: path, name, or last.", None, options.RUN_NAMES),
    upgrade: bool = option(
        "--upgrade", "Change a store of an earlier kdyno to this one's tables.", False
    ),
    runs: options.Runs = None,
    json: options.Json = None,
) -> int:
    """Put runs into the store that KDYNO_STORE names.

    A run is put there whole or not at all, and once: pushed again, only what is new of it is.

    Examples:
      kdyno push last
      kdyno push 3f2a 81bc
      kdyno push --upgrade
    """
    check_writable(json)
    if not what and not upgrade:
        raise UsageError("which run? Name one, or last; `kdyno list runs` shows them")
    shared = store_needed()
    subjects = [stored_run(word, runs) for word in what or []]
    before = shared.prepare(upgrade_it=upgrade)
    if upgrade:
        say(f"{shared.where}: tables {'changed' if before else 'are those of this kdyno'}")
    done, status = [], 0
    for run in subjects:
        try:
            sent = pushed(shared, run)
        except KdynoError as problem:
            if len(subjects) == 1:
                raise
            say(f"kdyno: {problem}")
            status = max(status, problem.exit_status)
            continue
        facts = {"run": sent.name, "state": sent.word, "boots": sent.boots}
        done.append({**facts, "sent_bytes": sent.size_bytes, "left_out": list(sent.left_out)})
    write_json(done, json)
    return status


VERBS = {"report": report, "serve": serve, "push": push}
