# SPDX-License-Identifier: MIT
"""What the place of a kernel's code does, in one link and in several (one build, half an hour).

    python -m benchmarks.layouts [PART ...] [--machine uml] [--config bench] [--json FILE]

Parts: `link`, a link ÷ the clean build before it (the cache must not have the kernel yet);
`floors`, per case how far two links of the same objects lie apart, as a table; `commits`, patches
that do nothing but shift code by a random size, each judged alone, in one link and in several. On
`qemu` instructions are counted, whatever else the machine does; on `uml` it is time, so nothing
else may run.
"""

from __future__ import annotations

import random
import statistics
import sys
from collections.abc import Iterator
from typing import Any

from benchmarks.figure import Figure, main, run_of, verdict_of
from kdyno.judge.judging import within
from kdyno.measure.builder import build_all, check
from kdyno.paths import cache_root, data_root
from kdyno.verbs.subject import load

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


def link(request: Any) -> Iterator[Figure]:
    file = request.folder / "link.toml"
    # With those of its copy: `floors` takes them all.
    more = f"calibrate = true\n[layout]\ndraws = {request.links}\n"
    text = HEAD.format(config=request.config, flags="") + SIX_CASES + MACHINES[request.machine]
    file.write_text(text + more, encoding="utf-8")
    experiment, _ = load(file)
    recipes = check(experiment, cache_root(), lambda *_: None)
    image = build_all(experiment, recipes, cache_root()).images["stock"]
    if image.build["objects"] < CLEAN:
        sys.exit("link: the kernel was not built anew; KDYNO_CACHE names an empty cache")
    clean_s = image.build["seconds"]
    link_s = statistics.median(each.build["seconds"] for each in image.links)
    how = f"{link_s:.1f} s ÷ {clean_s:.0f} s, {image.build['objects']} objects"
    yield Figure("a link ÷ a clean build", link_s / clean_s, "", 0.07, how=how)


def floors(request: Any) -> Iterator[Figure]:
    text = HEAD.format(config=request.config, flags="") + ALL_CASES + MACHINES[request.machine]
    words = ("--layouts", request.links, "--max-boots", request.boots)
    verdict = verdict_of(text + "calibrate = true\n", request.folder, *words)
    print("| case | one link says nothing up to | standard deviation of links | of boots |")
    print("| --- | --: | --: | --: |")
    spreads = {effect.case: effect.links for effect in verdict.effects if effect.links is not None}
    floor = {case: own.one_link or 0.0 for case, own in spreads.items()}
    for case in sorted(spreads, key=lambda case: -floor[case]):
        own = spreads[case]
        shares = (own.one_link, own.layout, own.boot)
        cells = ("" if share is None else f"{100 * share:.2g} %" for share in shares)
        print(f"| {case} | {' | '.join(cells)} |")
    widest = max(floor, key=lambda case: floor[case])
    count = sum(share < 1e-5 for share in floor.values())
    how = f"{widest}; under 0.001 % in {count} of {len(floor)} cases, {request.links} links"
    yield Figure("one link says nothing, up to", 100 * floor[widest], "%", how=how)


def commits(request: Any) -> Iterator[Figure]:
    number, folder = request.commits, request.folder
    sizes = random.Random(number).sample(range(16, 4096, 16), number)
    patch = (data_root() / "kernel" / "patches" / "padding.patch").read_text(encoding="utf-8")
    for size in sizes:
        own = patch.replace("KDYNO_PADDING 1000", f"KDYNO_PADDING {size}")
        (folder / f"commit-{size}.patch").write_text(own, encoding="utf-8")
    body = "".join(COMMIT.format(size=size) for size in sizes) + SIX_CASES
    body += MACHINES[request.machine]
    # With all links first: the kernels of one link are then there.
    for words, flags, most in ((("--layouts", request.links), "", 0.05), ((), SECTIONS, None)):
        text = HEAD.format(config=request.config, flags=flags) + body
        run = run_of(text, folder, *words, "--max-boots", request.boots)
        moved, large = {}, 0
        for size in sizes:
            effects = within(run, "stock", f"commit-{size}").effects
            other = [effect for effect in effects if effect.verdict in ("faster", "slower")]
            if other:
                moved[size] = [
                    f"{effect.case} {100 * ((effect.ratio or 1) - 1):+.2g} %" for effect in other
                ]
            large += any(not effect.equivalent_too for effect in other)
        how = f"{large} by more than 1 %; {moved}"
        name = " ".join([f"{number} no-op commits, slower or faster", *map(str, words)])
        yield Figure(name, len(moved) / number, "", most, how=how)


if __name__ == "__main__":
    defaults = {"machine": "qemu", "config": "small", "links": 6, "boots": 12, "commits": 10}
    main(__doc__, link, floors, commits, **defaults)
