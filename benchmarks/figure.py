# SPDX-License-Identifier: MIT
"""What the benchmarks share: figures with their targets, the command line, runs of kdyno."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NoReturn

from kdyno.store.boot import BootRecord
from kdyno.store.run import Run, list_runs


@dataclass(frozen=True)
class Figure:
    """One measured figure. ``most``/``least``: its target, one of them."""

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
        target = f"≤ {self.most:g}" if self.most is not None else f"≥ {self.least:g}"
        word = "met" if self.met else "MISSED"
        return f"{self.name:58} {self.value:8.3f} {self.unit:5} {target:>8}  {word:6} {self.how}"


Part = Callable[[Any], Iterable[Figure]]
"""Its argument has each option by its name, and ``folder``, which is empty and goes afterwards."""


def main(doc: str | None, *parts: Part, **defaults: Any) -> NoReturn:
    """Print the figures of the parts that the command line names, or of all of them; exit with 1
    where one misses its target. An option for each default, a flag where that is False."""
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
        else:
            parser.add_argument(option, type=type(default), default=default)
    parser.add_argument("--json", type=Path, metavar="FILE")
    request = parser.parse_args()
    named = getattr(request, "parts", None) or names

    def figures() -> Iterator[Figure]:
        for name in named:
            with tempfile.TemporaryDirectory(prefix="kdyno-bench-") as folder:
                request.folder = Path(folder)
                yield from names[name](request)

    finish(figures(), request.json)


def finish(figures: Iterable[Figure], file: Path | None) -> NoReturn:
    """Print each as it comes, keep all in the file as JSON."""
    rows: list[dict[str, Any]] = []
    for figure in figures:
        print(figure.line(), flush=True)
        own = {"value": float(figure.value), "met": bool(figure.met)}
        rows.append(asdict(figure) | own)
    if file is not None:
        file.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    sys.exit(0 if all(row["met"] for row in rows) else 1)


def timed(work: Callable[[], object]) -> float:
    """Wall seconds."""
    start_s = time.monotonic()
    work()
    return time.monotonic() - start_s


def result_of(*words: object) -> Any:
    """What a command writes by --json; its progress goes where ours goes."""
    with tempfile.TemporaryDirectory(prefix="kdyno-bench-") as folder:
        file = Path(folder) / "result.json"
        command = [sys.executable, "-m", "kdyno", *map(str, words), "--json", str(file)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return json.loads(file.read_bytes())


def run_of(experiment: Path | str, folder: Path, *words: object) -> Run:
    """The run, below ``folder``, of an experiment's file or text."""
    place = Path(tempfile.mkdtemp(dir=folder))
    if isinstance(experiment, str):
        text, experiment = experiment, folder / "experiment.toml"
        experiment.write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "kdyno", "run", experiment, *words, "--runs", place]
    subprocess.run(list(map(str, command)), check=True, capture_output=True)
    (run,) = list_runs(place)
    return run


def boots_of(run: Run) -> list[BootRecord]:
    """Its undamaged boots."""
    return [boot for boot in run.boots() if isinstance(boot, BootRecord)]
