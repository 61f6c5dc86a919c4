# SPDX-License-Identifier: MIT
"""``kdyno report --all -o DIR``: a site of all runs."""

from __future__ import annotations

from pathlib import Path

from kdyno.verbs.output import say, write_json


def write_site(runs: Path, output: str | None, full: bool, json: str | None) -> int:
    """Builds it or what of it has changed."""
    from kdyno.errors import UsageError
    from kdyno.report.site.build import build_site
    from kdyno.verbs.watching import site_line

    if not output or output == "-":
        raise UsageError("--all writes a folder of pages: name it with -o, such as -o site/")
    with site_line() as told:
        built = build_site(runs, Path(output).absolute(), full=full, told=told)
    if json is not None:
        facts = {"site": output, "runs": built.runs, "made": built.made, "kept": built.kept}
        write_json({**facts, "removed": built.removed, "pages": list(built.pages)}, json)
    say(f"written: {Path(output) / 'index.html'} ({built.made} of {built.runs} runs drawn again)")
    return 0
