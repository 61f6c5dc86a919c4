# SPDX-License-Identifier: MIT
"""kdyno run --on: the jobs of a run on many machines, and the one run that they make."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING

from kdyno.errors import Interrupted, ToolError, UsageError
from kdyno.verbs.options import load
from kdyno.verbs.output import kept_status, say, write_json_text

if TYPE_CHECKING:
    from kdyno.measure.execution import Options

_LOOK_S = 0.2


def on_many(
    file: Path | None,
    on: str,
    options: Options,
    json: str | None,
    fail_on: tuple[str, ...],
    push: bool,
) -> int:
    """Build, measure in jobs, join, judge and show; the exit status."""
    from kdyno import whole
    from kdyno.experiment.overrides import apply
    from kdyno.fleet.controller import Fleet, fleet_folder, forget, measure
    from kdyno.fleet.engine import Engine
    from kdyno.fleet.settings import settings
    from kdyno.judge.again import Otherwise, judge_again
    from kdyno.machines.kinds import KINDS
    from kdyno.report import gate
    from kdyno.report.terminal import show as show_verdict
    from kdyno.report.wording import worded
    from kdyno.store.join import join
    from kdyno.verbs.sharing import pushed, store_needed
    from kdyno.verbs.watching import say_where

    rules = gate.parse(fail_on)
    shared = store_needed() if push else None
    if shared is not None:
        shared.prepare()
    chosen = settings(on, _file())
    given, _suites = load(file)
    asked = apply(options.overrides, given)
    if not KINDS[asked.machine.kind].builds:
        raise UsageError("--on is for kernels that are compared; the machine's own kernel is not")
    assert file is not None
    words = _words(file.absolute(), options)
    folder = fleet_folder(options.runs, given, words)
    groups = min(chosen.groups, asked.measure.max_boots)
    fleet = Fleet(asked, words, folder, nodes=chosen.nodes, groups=groups)
    fleet.shards.mkdir(parents=True, exist_ok=True)
    # One controller at a time; who is second waits and then finds the shards.
    with whole.locked(folder / ".lock", lambda who: say(f"{who} measures this; waiting")):
        # Of its own: numbers of jobs begin anew when a cluster is set up again.
        engine = Engine(chosen, fleet.jobs / secrets.token_hex(4))
        try:
            _built(engine, fleet.build(_build_words(file.absolute(), options)))
            found, why = measure(fleet, engine, say)
        except (KeyboardInterrupt, Interrupted):
            say("its jobs are cancelled; the same command goes on with what is measured")
            raise
        with join(found, options.runs, least=1) as writer:
            manifest = writer.run.manifest()
            assert manifest.asked is not None
            wanted = manifest.asked.model_copy(update={"precision": asked.measure.precision})
            writer.save_manifest(manifest.model_copy(update={"asked": wanted, "stopped": why}))
            verdict, manifest = judge_again(writer.run, Otherwise())
            verdict = worded(verdict, manifest)
            writer.save_verdict(verdict)
        forget(fleet)
    gate.check_verdict(rules, verdict)
    status = gate.exit_status(verdict, fail_on) if fail_on else 0
    with kept_status(status):
        if json is not None:
            write_json_text(verdict.to_json(), json)
        if json != "-":
            show_verdict(verdict)
    say_where(writer.run)
    if shared is not None:
        pushed(shared, writer.run)
    return status


def _built(engine: object, command: list[str]) -> None:
    """All kernels, by one job: whoever measures finds them in the cache."""
    import time

    from kdyno.fleet.engine import Engine

    assert isinstance(engine, Engine)
    (job,) = engine.submit([command])
    say(f"kernels: job {job.name}")
    try:
        while not job.done:
            time.sleep(_LOOK_S)
        if why := job.failure():
            raise ToolError(f"the kernels were not built: {why}")
    finally:
        if not job.done:
            job.cancel()


def _file() -> Path:
    own = os.environ.get("XDG_CONFIG_HOME", "")
    home = Path(own) if own.startswith("/") else Path.home() / ".config"
    from kdyno.fleet.settings import FILE

    return home / "kdyno" / FILE


def _words(file: Path, options: Options) -> tuple[str, ...]:
    """What a shard's command line has of this one's; how much a shard measures is its own."""
    it = options.overrides
    words = [*_build_words(file, options)]
    words += ["--quick"] if it.quick else []
    words += ["--calibrate"] if it.calibrate else []
    for name, value in (
        ("--seconds", it.seconds),
        ("--interleave", it.interleave),
        ("--metric", it.metric),
    ):
        words += [name, str(value)] if value is not None else []
    for case in it.cases:
        words += ["--case", case]
    return tuple(words)


def _build_words(file: Path, options: Options) -> list[str]:
    words = [str(file)]
    for variant in options.overrides.variants:
        words += ["--variant", variant]
    words += ["-j", str(options.jobs)] if options.jobs else []
    words += [] if options.sandboxed else ["--no-sandbox"]
    return words
