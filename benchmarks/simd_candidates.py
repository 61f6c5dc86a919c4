# SPDX-License-Identifier: MIT
"""Jobs where SIMD may pay in a kernel: each in a scalar and in SIMD forms, over sizes.

    python -m benchmarks.simd_candidates [--write docs/research/vectorize.md] [--json FILE]

Builds kernel/simd/*.c with the compiler here, in user space; every form is checked against the
scalar one before anything is timed. Nothing else should run on the machine meanwhile.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from kdyno.kernels import cpu
from kdyno.labs.published.answers import FORMS, Form, Forms
from kdyno.paths import data_root

FOLDER = data_root() / "kernel" / "simd"
SIZES = (64, 256, 1024, 4096, 65536)
BEGIN, END = "<!-- candidates -->\n", "<!-- end of candidates -->\n"


def build(folder: Path) -> Path:
    """The program of all candidates; raises CalledProcessError with gcc's words on stderr."""
    program = folder / "lab"
    flags = ["-std=gnu11", "-O2", "-fno-tree-vectorize", "-Wall", "-Wextra", "-Werror"]
    subprocess.run(["gcc", *flags, "-o", program, *sorted(FOLDER.glob("*.c"))], check=True)
    return program


def measure(program: Path, sizes: tuple[int, ...] = SIZES) -> list[Form]:
    """Every form that this CPU can run: median CPU time of a call, all in the nearest cache that
    holds it."""
    words = [str(program), ",".join(sorted(cpu.flags())), ",".join(map(str, sizes))]
    done = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True)
    timings = []
    for line in done.stdout.splitlines():
        candidate, form, size, ns = line.split("\t")
        timings.append(Form(candidate=candidate, form=form, bytes=int(size), ns=float(ns)))
    return timings


def table(timings: list[Form]) -> str:
    """ns a call; in brackets how many times as fast as the quickest scalar form."""
    sizes = sorted({timing.bytes for timing in timings})
    ns = {(timing.candidate, timing.form, timing.bytes): timing.ns for timing in timings}
    scalar: dict[tuple[str, int], float] = {}
    for (job, form, size), own in ns.items():
        if form.startswith("scalar"):
            scalar[job, size] = min(own, scalar.get((job, size), own))
    lines = ["| job | form | " + " | ".join(f"{size} bytes" for size in sizes) + " |"]
    lines.append("| --- | --- |" + " --: |" * len(sizes))
    for job, form in dict.fromkeys((job, form) for job, form, _size in ns):
        cells = []
        for size in sizes:
            own = ns[job, form, size]
            ratio = f" ({scalar[job, size] / own:.1f} ×)"
            text = f"{own:.3g}" if own < 1000 else f"{own:.0f}"
            cells.append(text + ("" if form.startswith("scalar") else ratio))
        lines.append(f"| {job} | {form} | " + " | ".join(cells) + " |")
    model = cpu.this_cpu().model
    return "\n".join([*lines, "", f"ns a call, {model or 'CPU unknown'}, GCC -O2.", ""])


def as_json(timings: list[Form]) -> str:
    """What `kdyno lab published` reads: when and where, and every timing."""
    created = datetime.now(UTC).isoformat(timespec="seconds")
    model = cpu.this_cpu().model or "an unknown CPU"
    forms = Forms(cpu=model, created=created, forms=timings)
    return json.dumps({"schema": 1, "kind": FORMS, **forms.model_dump()}, indent=1) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--write", type=Path, help="put the table between the page's markers")
    parser.add_argument("--json", type=Path, help="write all timings there")
    request = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        timings = measure(build(Path(folder)))
    text = table(timings)
    print(text)
    if request.json is not None:
        request.json.write_text(as_json(timings), encoding="utf-8")
    if request.write is not None:
        before, rest = request.write.read_text(encoding="utf-8").split(BEGIN)
        request.write.write_text(before + BEGIN + text + END + rest.split(END)[1], encoding="utf-8")


if __name__ == "__main__":
    main()
