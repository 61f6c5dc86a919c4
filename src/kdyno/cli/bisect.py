# SPDX-License-Identifier: MIT
"""kdyno bisect: what may be said on its command line. The work is in searching.py, which is
imported when it begins."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kdyno import deferred
from kdyno.verbs.options import Bundle, ExperimentFile, Metric, Working, option


@dataclass(frozen=True)
class Request(Bundle):
    """What is searched for, and where."""

    experiment: ExperimentFile = None
    source: str | None = option(
        "--source SOURCE",
        "git:FOLDER or git:URL of the commits; for --series and --between any source.",
        None,
    )
    good: str | None = option(
        "--good REF", "A commit without the difference, or a source such as a release.", None
    )
    bad: str | None = option("--bad REF", "A later commit or another source that has it.", None)
    series: Path | None = option("--series DIR", "Search the patches of a folder instead.", None)
    between: tuple[Path, Path] | None = option(
        "--between GOOD BAD", "Search the options of two .config files instead.", None
    )
    case: str | None = option("--case SUITE/CASE", "What differs, such as unixbench/pipe.", None)
    config: list[str] | None = option(
        "--config NAME", "Fragment or CONFIG_X=y of all kernels [bench]; may be repeated.", None
    )
    machine: str | None = option(
        "--machine uml|qemu", "User Mode Linux [uml], or a kernel in QEMU.", None
    )
    cpus: int | None = option("--cpus N", "CPUs of a guest [1].", None, min=1)
    metric: Metric = None
    min_effect: str | None = option(
        "--min-effect SHARE",
        "The smallest step looked for [a quarter of the difference of the ends].",
        None,
    )
    max_minutes: float | None = option(
        "--max-minutes MINUTES", "Of measuring, in each step [15].", None, min=0.05
    )
    layouts: int | None = option(
        "--layouts N", "Verify the commit in N links of each kernel.", None, min=6, max=100
    )
    resume: str | None = option("--resume NAME", "Go on with a search: its folder, or last.", None)


_search = deferred("kdyno.cli.searching:search")


def bisect(request: Request, working: Working) -> int:
    """Find the commit, patch, file or option that causes a difference.

    Examples:
      kdyno bisect --source git:../linux --good v7.2 --bad v7.3 --case unixbench/pipe
      kdyno bisect --source git:. --good v7.3 --bad main --case unixbench/pipe --cpus 2
      kdyno bisect --good kernel.org:7.3.1 --bad kernel.org:7.3.2 --case unixbench/pipe
      kdyno bisect slower.toml
      kdyno bisect --series patches/ --case unixbench/pipe
      kdyno bisect --between fast.config slow.config --case hackbench/pipe
      kdyno bisect --resume last
    """
    status: int = _search(request, working)
    return status


VERBS = {"bisect": bisect}
