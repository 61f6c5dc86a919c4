# SPDX-License-Identifier: MIT
"""kdyno doctor: what this machine lacks, or the machines that jobs run on."""

from __future__ import annotations

from typing import Annotated

import typer

from kdyno import whole
from kdyno.cli import nodes as cluster
from kdyno.cli.needs import examine, install_line, suites_line, this_family
from kdyno.fleet.engine import settings
from kdyno.fleet.waves import FOLDER
from kdyno.paths import cache_root, runs_root
from kdyno.store.folder import Folder
from kdyno.verbs.fleet import settings_file
from kdyno.verbs.output import Json, check_writable, say, show, write_json
from kdyno.verbs.verb import Verb


def doctor(
    on: Annotated[
        str | None,
        typer.Option(
            "--on",
            metavar="slurm[:PARTITION]|local",
            help="Ask the machines that jobs run on, instead of this one.",
        ),
    ] = None,
    json: Json = None,
) -> int:
    """Show what this machine lacks, or what nodes of a cluster do."""
    check_writable(json)
    if on is not None:
        return _nodes(on, json)
    findings = examine()
    line = install_line(findings, this_family())
    bad = [finding for finding in findings if finding.need.required and not finding.ok]
    if json is not None:
        value = {
            "ok": not bad,
            "install": line,
            "needs": [
                {
                    "name": finding.need.name,
                    "required": finding.need.required,
                    "ok": finding.ok,
                    "problem": finding.problem,
                    "purpose": finding.need.purpose,
                }
                for finding in findings
            ],
        }
        write_json(value, json)
    if json != "-":
        for finding in findings:
            need = finding.need
            word = "ok" if finding.ok else ("MISSING" if need.required else "missing")
            why = "" if finding.ok else f": {finding.problem}"
            purpose = need.purpose
            if not need.required:
                plain = purpose.startswith(("for ", "to "))
                purpose = f"optional, {purpose if plain else f'for {purpose}'}"
            show(f"{word:8} {need.name:18} {purpose}{why}")
        if line is not None:
            if not bad:
                show("\nNothing is missing that kdyno cannot do without.")
            show(f"\nTo install what is missing: {line}")
            if (suites := suites_line(findings, this_family())) is not None:
                show(f"For the suites alone: {suites}")
        elif any(not finding.ok for finding in findings):
            show("\nInstall what is missing by your distribution's own tool.")
        else:
            show("\nNothing is missing.")
    return 1 if bad else 0


def _nodes(on: str, json: str | None) -> int:
    Folder.private(runs_root() / FOLDER).close()
    with whole.scratch("doctor", runs_root() / FOLDER) as folder:
        nodes = cluster.examine(settings(on, settings_file()), cache_root(), folder, say)
    bad = [it for it in nodes if it.problems]
    notes = (*dict.fromkeys(note for it in nodes for note in it.notes), *cluster.differences(nodes))
    if json is not None:
        value = [
            {
                "node": it.node,
                "ok": not it.problems,
                "problems": it.problems,
                "cpu_model": it.said.cpu_model if it.said else None,
                "cpus": it.said.cpus if it.said else None,
            }
            for it in nodes
        ]
        write_json({"ok": not bad, "nodes": value, "notes": notes}, json)
    if json != "-":
        for it in nodes:
            what = f"{it.said.cpu_model}, {it.said.cpus} CPUs" if it.said else ""
            show(f"{'BAD' if it.problems else 'ok':4} {it.node:12} {what}".rstrip())
            for problem in it.problems:
                show(f"     {problem}")
        for note in notes:
            show(f"\n{note}")
    return 1 if bad else 0


VERBS = (
    Verb(
        "doctor", doctor, ("kdyno doctor", "kdyno doctor --json -", "kdyno doctor --on slurm:lab")
    ),
)
