# SPDX-License-Identifier: MIT
"""What the benchmarks share: figures with their targets, the command line, runs of kdyno."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NoReturn

from kdyno.store.boot import BootRecord
from kdyno.store.run import Run, list_runs
from kdyno.store.verdict import Verdict


@dataclass(frozen=True)
class Figure:
    """One measured figure. ``most``/``least``: its target, one of them or none."""

    name: str
    value: float
    unit: str
    most: float | None = None
    least: float | None = None
    how: str = ""

    @property
    def met(self) -> bool:
        return (self.most is None or self.value <= self.most) and (
            self.least is None or self.value >= self.least
        )

    def line(self) -> str:
        targets = ((self.most, "≤"), (self.least, "≥"))
        target = "".join(f"{sign} {value:g}" for value, sign in targets if value is not None)
        word = ("met" if self.met else "MISSED") if target else ""
        return f"{self.name:58} {self.value:8.3f} {self.unit:5} {target:>8}  {word:6} {self.how}"


Part = Callable[[Any], Iterable[Figure]]
"""Its argument has each option by its name, and ``folder``, which is empty and goes afterwards."""


def main(doc: str | None, *parts: Part, **defaults: Any) -> NoReturn:
    """Print the figures of the parts that the command line names, or of all of them; exit with 1
    where one misses its target. An option for each default: a flag where that is False, and where
    it is a type, one without a default; for (), words."""
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = {part.__name__.replace("_", "-"): part for part in parts}
    if len(parts) > 1:
        parser.add_argument("parts", nargs="*", choices=[*names, []], metavar="PART")
    for name, default in defaults.items():
        option = f"--{name.replace('_', '-')}"
        if default is False:
            parser.add_argument(option, action="store_true")
        elif default == ():
            parser.add_argument(name, nargs="*")
        elif isinstance(default, type):
            parser.add_argument(option, type=default)
        else:
            parser.add_argument(option, type=type(default), default=default)
    parser.add_argument("--json", type=Path, metavar="FILE")
    request = parser.parse_args()
    named = getattr(request, "parts", None) or names

    rows: list[dict[str, Any]] = []
    for name in named:
        with tempfile.TemporaryDirectory(prefix="kdyno-bench-") as folder:
            request.folder = Path(folder)
            for figure in names[name](request):
                print(figure.line(), flush=True)
                own = {"value": float(figure.value), "met": bool(figure.met)}
                rows.append(asdict(figure) | own)
    if request.json is not None:
        request.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    sys.exit(0 if all(row["met"] for row in rows) else 1)


def timed(work: Callable[[], object]) -> float:
    """Wall seconds."""
    start_s = time.monotonic()
    work()
    return time.monotonic() - start_s


KDYNO = """
import sys
from pathlib import Path
from kdyno.cli.main import main
file = sys.argv.pop(1)
status = main()
(peak,) = (line for line in open("/proc/self/status") if line.startswith("VmHWM:"))
Path(file).write_text(peak.split()[1])
sys.exit(status)
"""
"""It leaves the peak of its own resident set in a file, in kB. getrusage has that of the largest of
all children, such as a compiler, and what it has of a process begins with its parent's."""


def run_of(
    experiment: Path | str,
    folder: Path,
    *words: object,
    program: Iterable[object] = ("-m", "kdyno"),
) -> Run:
    """The run, below ``folder``, of an experiment's file or text."""
    place = Path(tempfile.mkdtemp(dir=folder))
    if isinstance(experiment, str):
        text, experiment = experiment, folder / "experiment.toml"
        experiment.write_text(text, encoding="utf-8")
    command = [sys.executable, *program, "run", experiment, *words, "--runs", place]
    subprocess.run(list(map(str, command)), check=True, stdout=subprocess.DEVNULL)
    (run,) = list_runs(place)
    return run


def boots_of(run: Run) -> list[BootRecord]:
    """Its undamaged boots."""
    return [boot for boot in run.boots() if isinstance(boot, BootRecord)]


def verdict_of(experiment: Path | str, folder: Path, *words: object) -> Verdict:
    """Of such a run."""
    verdict = run_of(experiment, folder, *words).verdict()
    assert verdict is not None
    return verdict
