# SPDX-License-Identifier: MIT
"""The counting kernel against a second count, and `kdyno lab memcpy histogram` as a whole."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from conftest import EXPERIMENT, kdyno  # type: ignore[import-not-found]
from needed import need  # type: ignore[import-not-found]

from kdyno.command import capture
from kdyno.kernels.image import Image
from kdyno.labs.memcpy.copies import Copy, read_distribution
from kdyno.labs.memcpy.counting import FILE, counting_experiment, read_dump
from kdyno.machines.guest import guest_program
from kdyno.paths import cache_root
from kdyno.suites.job import CaseJob, Job, render

pytestmark = pytest.mark.uml

TRACER = Path(__file__).parent / "copies_tracer.c"
# Through these a copy of user memory passes; they have frame pointers (count-copies.patch).
PASSING = (
    "copy_chunk_from_user copy_chunk_to_user raw_copy_from_user raw_copy_to_user strncpy_from_user",
    "_copy_to_iter _copy_from_iter copy_page_to_iter copy_page_from_iter "
    "copy_folio_from_iter_atomic copy_page_to_iter_nofault",
)


@pytest.fixture(scope="module")
def counting() -> Image:
    from kdyno.measure.builder import build_all, check
    from kdyno.verbs.subject import load

    experiment, _ = load(EXPERIMENT)
    experiment = counting_experiment(experiment)
    recipes = check(experiment, cache_root(), lambda _text, _part: None)
    return build_all(experiment, recipes, cache_root()).images["stock"]


class Table:
    """The kernel's symbols, as nm gives them."""

    def __init__(self, kernel: Path) -> None:
        rows = [line.split() for line in capture(["nm", "-n", str(kernel)]).output.splitlines()]
        rows = [row for row in rows if len(row) == 3]
        self.at = {name: int(address, 16) for address, _, name in reversed(rows)}
        self.starts = sorted({int(row[0], 16) for row in rows})

    def span(self, names: str) -> list[str]:
        """From the lowest of the functions to the end of the highest."""
        results = [self.at[name] for name in names.split() if name in self.at]
        end = self.starts[self.starts.index(max(results)) + 1]
        return [hex(min(results)), hex(end)]


def traced(image: Image, job: Job, folder: Path) -> tuple[Counter[tuple[int, Copy]], bytes]:
    """Boot under ptrace: (what it counts by caller and copy, what the kernel leaves)."""
    tracer = folder / "tracer"
    flags = ["-std=c11", "-O2", "-Wall", "-Wextra", "-Werror"]
    assert capture(["gcc", *flags, str(TRACER), "-o", str(tracer)]).output == ""
    (folder / "job").write_text(render(job, secrets.token_hex(16)))
    table = Table(image.kernel)
    results = os.open(os.devnull, os.O_WRONLY)
    spans = [word for names in PASSING for word in table.span(names)]
    command = [
        *(str(tracer), "copies", hex(table.at["memcpy_orig"]), hex(table.at["kdyno_copies_on"])),
        *(*spans, "--", str(image.kernel), "mem=256M", "root=/dev/root", "rootfstype=hostfs"),
        *("rootflags=/", "ro", "quiet", "con=null", "con0=null,fd:1", f"con1=null,fd:{results}"),
        *(f"uml_dir={folder}/", "umid=kdyno", "seccomp=on"),
        *(f"init={guest_program(cache_root(), 64)}", f"kdyno.job={folder}/job"),
    ]
    try:
        done = subprocess.run(
            ["taskset", "-c", str(min(os.sched_getaffinity(0))), *command],
            cwd=folder,
            pass_fds=(results,),
            env={**os.environ, "HOME": str(folder), "TMPDIR": "/dev/shm"},
            capture_output=True,
            timeout=300,
        )
    finally:
        os.close(results)
    assert done.returncode == 0, done.stdout + done.stderr
    rows: Counter[tuple[int, Copy]] = Counter()
    for line in (folder / "copies").read_text().splitlines():
        caller, size, to, at = map(int, line.split())
        rows[caller, Copy(size, to, at)] += 1
    return rows, (folder / FILE).read_bytes()


def test_its_counts_are_exactly_those_of_a_debugger(counting: Image, tmp_path: Path) -> None:
    need("taskset", "nm")
    cases = (
        CaseJob("test", "write", "fswrite", ("700", "64"), seconds=None, operations=300),
        CaseJob("test", "pipe", "pipe", (), seconds=None, operations=300),
    )
    seen, left = traced(counting, Job(cases), tmp_path)
    counted = read_dump(left)
    # By caller, size and both alignments; over a thousand copies of a hundred kinds and more.
    assert dict(counted.calls) == dict(seen)
    assert counted.total == seen.total() > 1000 and len(seen) > 100
    assert (counted.lost, counted.oversize) == (0, 0)


def test_a_histogram_from_the_command_line(counting: Image, tmp_path: Path) -> None:
    file = tmp_path / "copies.json"
    result = kdyno(
        *("lab", "memcpy", "histogram", "--case", "unixbench/pipe", "--operations", "2000"),
        *("-o", file, "--json", tmp_path / "all.json"),
        runs=tmp_path,
    )
    copies = read_distribution(file)
    sites = {site.site: site for site in copies.sites}
    # 2000 operations and a tenth of that to warm up, 512 bytes each; a pipe tells others things.
    for name in ("anon_pipe_write", "anon_pipe_read"):
        assert sites[name].calls >= 2200
        assert 0 <= sites[name].bytes - 2200 * 512 < 20_000
    assert sum(site.calls for site in copies.sites) == copies.calls
    assert sum(site.bytes for site in copies.sites) == copies.bytes
    assert "anon_pipe_write" in result.stdout and "257-512" in result.stdout
    totals = json.loads((tmp_path / "all.json").read_text())
    assert totals["calls"] == copies.calls and totals["cases"] == ["unixbench/pipe"]
    assert (totals["lost"], totals["oversize"], totals["failed"]) == (0, 0, [])


def test_a_guest_that_dies_gives_its_reason_and_no_file(counting: Image, tmp_path: Path) -> None:
    file = tmp_path / "copies.json"
    result = kdyno(
        *("lab", "memcpy", "histogram", "-o", file),
        *("--", "sh", "-c", "echo c > /proc/sysrq-trigger"),
        runs=tmp_path,
        check=(1,),
    )
    assert "the counting kernel failed (panic)" in result.stderr
    assert not file.exists()
