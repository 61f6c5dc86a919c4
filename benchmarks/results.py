# SPDX-License-Identifier: MIT
"""Write a run's results into an experiment's page.

    python -m benchmarks.results docs/experiments/hz.md RUN [--remark TEXT]

Between the page's two marks, ``<!-- results: begin … -->`` and ``<!-- results: end -->``, comes
what ``kdyno report RUN -f markdown`` says, with the machine and the day. RUN is a path, a name, a
part of one, or last. In a page with ``<!-- demo table -->``, which is the README, the block after
that mark becomes what ``kdyno report RUN`` prints.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from kdyno.command import capture
from kdyno.paths import runs_root
from kdyno.report.markdown import export
from kdyno.store.manifest import Manifest
from kdyno.store.resolve import resolve
from kdyno.store.run import open_run
from kdyno.store.verdict import Verdict

BEGIN = "<!-- results: begin. Written from a run: kdyno report RUN -f markdown -->"
END = "<!-- results: end -->"
DEMO = re.compile(r"(<!-- demo table -->\n```text\n).*?(\n```\n)", re.DOTALL)


def block(manifest: Manifest, verdict: Verdict, remark: str) -> str:
    """What stands between the marks."""
    host = manifest.host
    options = " ".join(_option(key, value) for key, value in manifest.overrides.items())
    came = (
        f"{manifest.created[:10]}, {host.get('cpu_model', 'unknown CPU')}, "
        f"{host.get('cpus', 0):g} CPUs, kdyno {manifest.tool}, "
        f"`kdyno run experiments/{manifest.experiment}.toml{' ' + options if options else ''}`; "
        f"it ended by {verdict.stopped or manifest.stopped}."
    )
    title, _, body = export(verdict).partition("\n\n")
    assert title.startswith("## ")
    said = body.strip()
    return "\n\n".join(part for part in (came, remark, said) if part)


def _option(key: str, value: object) -> str:
    name = "--" + {"variants": "variant", "cases": "case"}.get(key, key).replace("_", "-")
    if value is True:
        return name
    if isinstance(value, list | tuple):
        return " ".join(f'{name} "{each}"' for each in value)
    return f"{name} {value}"


def filled(page: str, content: str) -> str:
    """The page with the content between its marks; ValueError where it has none."""
    pattern = re.compile(r"(<!-- results: begin.*?-->\n).*?(<!-- results: end -->)", re.DOTALL)
    if len(pattern.findall(page)) != 1:
        raise ValueError(f"the page must have each mark once: {BEGIN} and {END}")
    return pattern.sub(lambda match: f"{match[1]}{content}\n{match[2]}", page)


def main() -> int:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("page", type=Path)
    arguments.add_argument("run")
    arguments.add_argument("--runs", type=Path, default=None)
    arguments.add_argument("--remark", default="", help="a sentence of yours above the tables")
    given = arguments.parse_args()
    run = open_run(resolve(given.run, given.runs or runs_root()))
    verdict, manifest = run.verdict(), run.manifest()
    if verdict is None:
        print(f"{run.name} has no verdict", file=sys.stderr)
        return 1
    text = given.page.read_text(encoding="utf-8")
    if DEMO.search(text):
        said = capture([sys.executable, "-m", "kdyno", "report", str(run.path)])
        table = said.output.rstrip("\n")
        given.page.write_text(DEMO.sub(lambda mark: mark[1] + table + mark[2], text), "utf-8")
        return said.status
    content = block(manifest, verdict, given.remark)
    given.page.write_text(filled(text, content), encoding="utf-8")
    print(f"{given.page}: {run.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
