# SPDX-License-Identifier: MIT
"""The exact commands that do it again."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from kdyno.command import shown
from kdyno.report import plain
from kdyno.report.evidence import Evidence
from kdyno.report.show.markup import Html, block, join, name, tag

ORDER = 90
TITLE = "Do it again"

_REPEATED = {"variants": "--variant", "cases": "--case"}


def section(evidence: Evidence) -> Html | None:
    manifest = evidence.manifest
    if manifest is None:
        return None
    stem = plain.name(manifest.experiment)
    command = run_command(f"{stem}.toml", manifest.overrides, manifest.seed)
    parts = [tag("p", "The whole experiment, blocks in the same random order:"), block(command)]
    if evidence.experiment_text:
        text = evidence.experiment_text
        button = tag(
            "button", "Save the file", type="button", data_save=f"{stem}.toml", data_of="toml"
        )
        inside = tag("div", block(text), id="toml")
        summary = tag("summary", f"{stem}.toml, as it was given")
        parts.append(tag("details", summary, inside, button))
    boots = [
        tag("details", tag("summary", "One boot of ", name(variant)), block(shown(argv)))
        for variant in evidence.variants
        if (argv := evidence.commands.get(variant))
    ]
    if boots:
        note = (
            "What started one boot of each kernel. kdyno hands over the job and the channel for "
            "results as open files; the job is in the boot’s job.json."
        )
        parts += [tag("p", note), *boots]
    return join(parts)


def run_command(file: str, overrides: Mapping[str, Any], seed: int) -> str:
    """``kdyno run FILE`` with the options that this run had."""
    words = ["kdyno", "run", file]
    if overrides.get("only_baseline"):
        words[1] = "calibrate"
    for key, value in overrides.items():
        if key in _REPEATED:
            for each in value if isinstance(value, list | tuple) else ():
                words += [_REPEATED[key], str(each)]
        elif key in ("only_baseline", "seed") or (key == "calibrate" and words[1] == "calibrate"):
            continue
        elif value is True:
            words.append(f"--{key.replace('_', '-')}")
        elif isinstance(value, int | float) and value is not False:
            words += [f"--{key.replace('_', '-')}", f"{value:g}"]
    words += ["--seed", str(seed)]
    return " ".join(map(shlex.quote, words))
