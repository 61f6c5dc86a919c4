# SPDX-License-Identifier: MIT
"""What the place of a kernel's code does, in one link and in several (one build, half an hour).

    python -m benchmarks.layouts [FIGURE ...] [--machine uml] [--config bench] [--json FILE]

Figures: `floors`, per case how far two links of the same objects lie apart, as a table; `link`, a
link ÷ the clean build before it (the cache must not have the kernel yet); `commits`, patches that
do nothing but shift code by a random size, each judged alone, in one link and in several. On
`qemu` instructions are counted, whatever else the machine does; on `uml` it is time, so nothing
else may run.
"""

from __future__ import annotations

import random
import statistics
import sys
import tempfile
from pathlib import Path

from benchmarks.speed import Figure, finish, options, quiet
from kdyno.judge.judging import within
from kdyno.measure.builder import build_all, check
from kdyno.paths import cache_root, data_root
from kdyno.store.run import Run, list_runs
from kdyno.verbs.subject import load

LINK, MOVED = 0.07, 0.05
"""Most that a link may take of a clean build, and most commits that may seem slower or faster."""
CLEAN = 300
"""Objects that a build compiles at least which had none to take over."""
HEAD = """
name = "layouts"
baseline = "stock"
[kernel]
source = "debian:linux-source-7.3"
config = ["{config}"]
cflags = "{flags}"
[variant.stock]
"""
SECTIONS = "-ffunction-sections"
"""The same objects in one link as in several, where kdyno asks for them itself."""
COMMIT = """
[variant.commit-{size}]
patches = ["commit-{size}.patch"]
"""
MACHINES = {
    "qemu": """
[machine]
kind = "qemu"
memory = "256M"
[measure]
metric = "instructions"
precision = "0.1%"
""",
    "uml": """
[measure]
precision = "0.5%"
""",
}
ALL_CASES = """
[[suite]]
name = "unixbench"
[[suite]]
name = "xbench"
cases = ["thread.computation", "memory.system.allocate"]
"""
SIX_CASES = """
[[suite]]
name = "unixbench"
cases = ["syscall", "pipe", "context1", "spawn", "execl", "fscopy-1024"]
"""


def measured(text: str, folder: Path, *words: str) -> Run:
    """The run of an experiment in these words."""
    file = folder / "layouts.toml"
    file.write_text(text, encoding="utf-8")
    quiet("run", str(file), *words, "--runs", str(folder / "-".join(["runs", *words])))
    (run,) = list_runs(folder / "-".join(["runs", *words]))
    return run


def floors(head: str, machine: str, links: int, boots: int, folder: Path) -> list[Figure]:
    text = head + ALL_CASES + MACHINES[machine] + "calibrate = true\n"
    run = measured(text, folder, "--layouts", str(links), "--max-boots", str(boots))
    verdict = run.verdict()
    assert verdict is not None
    print("| case | one link says nothing up to | standard deviation of links | of boots |")
    print("| --- | --: | --: | --: |")
    spreads = {it.case: it.links for it in verdict.effects if it.links is not None}
    for case, own in sorted(spreads.items(), key=lambda item: -(item[1].one_link or 0)):
        shares = (own.one_link, own.layout, own.boot)
        cells = ("" if share is None else f"{100 * share:.2g} %" for share in shares)
        print(f"| {case} | {' | '.join(cells)} |")
    widest = max(spreads, key=lambda case: spreads[case].one_link or 0)
    most = 100 * (spreads[widest].one_link or 0)
    count = sum((own.one_link or 0) < 1e-5 for own in spreads.values())
    how = f"{widest}; under 0.001 % in {count} of {len(spreads)} cases, {links} links"
    return [Figure("one link says nothing, up to", most, "%", 100, how=how)]


def link(head: str, machine: str, links: int, folder: Path) -> list[Figure]:
    file = folder / "link.toml"
    # With those of its copy: `floors` takes them all.
    draws = f"calibrate = true\n[layout]\ndraws = {links}\n"
    file.write_text(head + SIX_CASES + MACHINES[machine] + draws, encoding="utf-8")
    experiment, _ = load(file)
    recipes = check(experiment, cache_root(), lambda *_: None)
    image = build_all(experiment, recipes, cache_root()).images["stock"]
    if image.build["objects"] < CLEAN:
        sys.exit("link: the kernel was not built anew; KDYNO_CACHE names an empty cache")
    clean_s = image.build["seconds"]
    link_s = statistics.median(each.build["seconds"] for each in image.links)
    how = f"{link_s:.1f} s ÷ {clean_s:.0f} s, {image.build['objects']} objects"
    return [Figure("a link ÷ a clean build", link_s / clean_s, "", LINK, how=how)]


def commits(
    config: str, machine: str, links: int, boots: int, number: int, folder: Path
) -> list[Figure]:
    sizes = random.Random(number).sample(range(16, 4096, 16), number)
    patch = (data_root() / "kernel" / "patches" / "padding.patch").read_text(encoding="utf-8")
    for size in sizes:
        own = patch.replace("KDYNO_PADDING 1000", f"KDYNO_PADDING {size}")
        (folder / f"commit-{size}.patch").write_text(own, encoding="utf-8")
    body = "".join(COMMIT.format(size=size) for size in sizes) + SIX_CASES + MACHINES[machine]
    figures = []
    # With all links first: the kernels of one link are then there.
    for words, most in ((("--layouts", str(links)), MOVED), ((), 1.0)):
        text = HEAD.format(config=config, flags="" if words else SECTIONS) + body
        run = measured(text, folder, *words, "--max-boots", str(boots))
        moved, large = {}, 0
        for size in sizes:
            effects = within(run, "stock", f"commit-{size}").effects
            other = [it for it in effects if it.verdict in ("faster", "slower")]
            if other:
                moved[size] = [f"{it.case} {100 * ((it.ratio or 1) - 1):+.2g} %" for it in other]
            large += any(not it.equivalent_too for it in other)
        how = f"{large} by more than 1 %; {moved}"
        name = f"{number} no-op commits, slower or faster{' with' if words else ''}"
        figures.append(Figure(f"{name} {' '.join(words)}", len(moved) / number, "", most, how=how))
    return figures


def main() -> int:
    given = options(
        __doc__, ("floors", "link", "commits"),
        machine="qemu", config="small", links=6, boots=12, commits=10,
    )  # fmt: skip
    parts, machine, links = given.parts or ["link", "floors", "commits"], given.machine, given.links
    head = HEAD.format(config=given.config, flags="")
    figures = []
    with tempfile.TemporaryDirectory(prefix="kdyno-layouts-") as name:
        if "link" in parts:
            figures += link(head, machine, links, Path(name))
        if "floors" in parts:
            figures += floors(head, machine, links, given.boots, Path(name))
        if "commits" in parts:
            count = given.commits
            figures += commits(given.config, machine, links, given.boots, count, Path(name))
    return finish(figures, given.json)


if __name__ == "__main__":
    sys.exit(main())
