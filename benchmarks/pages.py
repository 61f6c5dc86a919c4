# SPDX-License-Identifier: MIT
"""Write the parts of docs/ that are made.

    python -m benchmarks.pages                 (make docs: this, and docs/research/published.md)
    python -m benchmarks.pages --demo RUN      the README's table, as `kdyno report RUN` prints it

A part stands between two marks, ``<!-- NAME: begin. make docs -->`` and ``<!-- NAME: end -->``; the
rest of a page is written by hand. NAME is ``verbs`` (what each verb's --help says) or ``run X``:
every effect of published/runs/X, which ``python -m benchmarks.kept RUN`` puts there.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from pathlib import Path

from kdyno.cli import main as command_line
from kdyno.command import capture
from kdyno.report import figures
from kdyno.report.page import run_command
from kdyno.store.run import Run
from kdyno.store.verdict import Effect, GroupEffect, Verdict

ROOT = Path(__file__).resolve().parent.parent
RUNS = ROOT / "published" / "runs"
PART = re.compile(r"(<!-- ([\w -]+): begin\. make docs -->\n).*?(<!-- \2: end -->)", re.DOTALL)
DEMO = re.compile(r"(<!-- demo table -->\n```text\n).*?(\n```\n)", re.DOTALL)
MARKS = ("≈", "Σ", "?", "(n)", "*")
WIDTH = 100
LESS = "less is better"
MORE = "more is better"
HELP = re.compile(r"\n +-h, --help +Show this message and exit\.")


def verbs() -> str:
    """A section for each verb: what its --help says, the examples as commands. An option that
    three verbs or more have in the same words is explained once, before all of them."""
    helps = []
    for name, verb in command_line.verbs().items():
        width = {"terminal_width": WIDTH, "max_content_width": WIDTH}
        context = verb.make_context(f"kdyno {name}", [], resilient_parsing=True, **width)
        text, _, examples = HELP.sub("", context.get_help()).partition("Examples:\n")
        about, _, options = text.removeprefix("Usage: ").partition("Options:\n")
        entries = [
            "  " + entry.rstrip() for entry in re.split(r"^  (?=-)", options, flags=re.M)[1:]
        ]
        helps.append((context.command_path, about, entries, examples))
    # Column widths differ from verb to verb: what is compared is the words.
    times = Counter(" ".join(entry.split()) for _, _, entries, _ in helps for entry in entries)
    rows = {}
    for entry in (entry for _, _, entries, _ in helps for entry in entries):
        option, words = re.split(r"  +|\n", entry.strip(), maxsplit=1)
        if times[key := " ".join(entry.split())] >= 3:
            rows[key] = f"| `{option.replace('|', chr(92) + '|')}` | {' '.join(words.split())} |"
    parts = [
        "## Options of several verbs",
        "| option | meaning |\n| --- | --- |\n" + "\n".join(rows.values()),
    ]
    for path, about, entries, examples in helps:
        usage, _, rest = about.partition("\n\n")
        summary, _, more = rest.partition("\n\n")
        own = [entry for entry in entries if times[" ".join(entry.split())] < 3]
        shared = [entry.split()[0].rstrip(",") for entry in entries if entry not in own]
        lines = [usage, more.rstrip(), "\n".join(["Options:", *own]) if own else ""]
        parts += [f"## {path.removeprefix('kdyno ')}", " ".join(summary.split())]
        parts += ["```text\n" + "\n\n".join(filter(None, lines)) + "\n```"]
        if shared:
            parts += [f"Also {', '.join(f'`{option}`' for option in shared)}."]
        commands = "\n".join(line.strip() for line in examples.splitlines() if line.strip())
        parts += [f"```sh\n{commands}\n```"]
    return "\n\n".join(parts) + "\n"


def results(run: Run) -> str:
    """One line of conditions, and every effect of the run."""
    verdict, manifest = run.verdict(), run.manifest()
    assert verdict is not None, run.path
    host, boots = manifest.host, sorted(set(verdict.boots.values()))
    conditions = (
        f"{manifest.created[:10]}, {host.get('cpu_model', 'unknown CPU')}, "
        f"{host.get('cpus', 0):g} CPUs, {' to '.join(map(str, boots))} boots of each kernel, "
        f"`{run_command(f'experiments/{manifest.experiment}.toml', manifest.overrides)}`:"
    )
    return f"{conditions}\n\n{effects(verdict)}\n"


def cell(row: Effect | GroupEffect, exact: bool = False) -> str:
    """``−2.14 % (−2.82 … −1.34) slower``."""
    interval = "exact" if exact else figures.interval(row.ci).removesuffix(" %")
    word = f"{row.verdict} ≈" if row.equivalent_too else row.verdict
    return f"{figures.effect(row.ratio)} ({interval}) {word}"


def effects(verdict: Verdict) -> str:
    """A row per case and group of cases, a column per variant: effect, interval and verdict."""
    variants = list(dict.fromkeys(effect.variant for effect in verdict.effects))
    lower = all(effect.better == "lower" for effect in verdict.effects)
    rows: dict[str, dict[str, str]] = {}
    for effect in verdict.effects:
        notes = ["control"] if effect.control else []
        notes += [LESS] if effect.better == "lower" and not lower else []
        name = effect.case.replace("_", r"\_") + (f" ({', '.join(notes)})" if notes else "")
        rows.setdefault(name, {})[effect.variant] = cell(effect, effect.exact)
    for group in verdict.groups:
        name = f"group {group.group}" + (f" ({MORE})" if lower else "")
        rows.setdefault(name, {})[group.variant] = cell(group)
    note = f", {LESS}" if lower else ""
    lines = [f"| ÷ {verdict.baseline}{note} | {' | '.join(variants)} |"]
    lines += ["| --- |" + " --- |" * len(variants)]
    for name, cells in rows.items():
        lines += [f"| {name} | {' | '.join(cells.get(variant, '') for variant in variants)} |"]
    return "\n".join(lines)


def part(name: str) -> str:
    """What stands between the marks of this name."""
    return verbs() if name == "verbs" else results(Run(RUNS / name.removeprefix("run ")))


def filled(page: str) -> str:
    """The page with all its parts as they are now."""
    return PART.sub(lambda match: match[1] + part(match[2]) + match[3], page)


def demo(report: str) -> str:
    """The table of what `kdyno report` prints, and what its marks mean."""
    paragraphs = report.rstrip("\n").split("\n\n")
    grid = next(paragraph for paragraph in paragraphs if "95 % interval" in paragraph)
    marks = [line for line in paragraphs[-1].splitlines() if line.startswith(MARKS)]
    return "\n\n".join(filter(None, (grid, "\n".join(marks))))


def main() -> int:
    parser = argparse.ArgumentParser(description="Write the parts of docs/ that are made.")
    parser.add_argument("--demo", metavar="RUN", help="only the README's table, from this run")
    run = parser.parse_args().demo
    if run is None:
        pages = {page: filled(page.read_text()) for page in sorted((ROOT / "docs").rglob("*.md"))}
    else:
        process = capture([sys.executable, "-m", "kdyno", "report", run])
        if process.status != 0:
            return process.status
        table, readme = demo(process.output), ROOT / "README.md"
        text = DEMO.sub(lambda match: match[1] + table + match[2], readme.read_text())
        pages = {readme: text}
    for page, text in pages.items():
        if text != page.read_text():
            page.write_text(text)
            print(page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
