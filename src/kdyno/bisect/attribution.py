# SPDX-License-Identifier: MIT
"""What a difference between two shipped kernels is due to: their source, configuration, compiler.

Every combination of either kernel's source, configuration and compiler is built here and counted
beside the two images as they were shipped, in one run. A factor's share is its Shapley value
(Shapley 1953): what changing it adds, averaged over all orders in which the factors can be changed.
So the shares add up to the difference of the two kernels that were built from either's parts alone.
What remains up to the difference of the images is what was not built again: modules, signing,
debug data, link order, and parts that are not to be had here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

from kdyno.bisect.session import toml
from kdyno.errors import UsageError
from kdyno.experiment import loader
from kdyno.experiment.model import Experiment, Variant
from kdyno.kernels import compiler, installed, source
from kdyno.kernels.build import Report, accepted
from kdyno.kernels.config import rebuildable
from kdyno.kernels.sources.tree import Progress
from kdyno.measure.vocabulary import vocabulary
from kdyno.report.figures import MINUS, percent
from kdyno.store.verdict import Effect, Verdict
from kdyno.suites.catalogue import Catalogue

FACTORS = ("source", "config", "compiler")
FIRST, SECOND = "first", "second"
CASES = ("unixbench/syscall", "unixbench/pipe", "unixbench/context1", "unixbench/spawn")
"""Where none is named."""
_PACKAGE = re.compile(r"linux-image-\S+ (\S+)")

Cell = tuple[int, ...]
"""Of each factor that differs, whose: 0 of the first kernel, 1 of the second."""


@dataclass(frozen=True)
class Side:
    """A kernel as it was shipped, and the parts it can be built again from."""

    name: str
    """As it was named, such as debian:linux-image-amd64."""
    arch: str
    parts: Mapping[str, Any]
    """Source, lines of the configuration, compiler."""


@dataclass(frozen=True)
class Attribution:
    """Of one case, in its unit. ``total`` = the sum of ``shares`` + ``remains``."""

    suite: str
    case: str
    unit: str
    first: float
    second: float
    exact: bool
    """Counted the same in every boot of all kernels."""
    shares: Mapping[str, float] | None
    """Factor → its share; None: a combination was not measured."""
    why_not: str = ""

    @property
    def total(self) -> float:
        return self.second - self.first

    @property
    def remains(self) -> float | None:
        return None if self.shares is None else self.total - math.fsum(self.shares.values())


def side(name: str, own_source: str | None, cache: Path, progress: Progress) -> Side:
    """Fetch an image and say what it was built from: a Debian package from its source package in
    the same version. UsageError where that is not known."""
    image = installed.fetch(installed.parse(name), cache, progress)
    words = str(image.build["inputs"]["compiler"]).split() or ["gcc"]
    try:
        compiler.identify(words[0])
    except UsageError as problem:
        raise UsageError(f"{name} was built by {' '.join(words)!r}: {problem}") from problem
    package = _PACKAGE.fullmatch(str(image.build.get("package", "")))
    series = re.match(r"\d+\.\d+", image.version)
    if own_source is None and package is not None and series is not None:
        own_source = f"debian:linux-source-{series[0]}={package[1]}"
    if own_source is None:
        raise UsageError(
            f"{name}: which source is it from? Name the sources of both images: --source SOURCE "
            "--source SOURCE, in the order of the images"
        )
    config = rebuildable(image.config.read_text(encoding="utf-8", errors="replace"))
    return Side(name, image.arch, {"source": own_source, "config": config, "compiler": words[0]})


def experiment_of(
    sides: Sequence[Side],
    cases: Sequence[str],
    folder: Path,
    suites: Catalogue,
    cache: Path,
    progress: Progress,
    report: Report,
) -> tuple[Experiment, tuple[str, ...]]:
    """The run of both images and all combinations, and notes on them. Options that a source does
    not have, and what depended on them, are left out.

    UsageError where nothing differs, or a source is not to be had."""
    first, second = sides
    if first.arch != second.arch:
        raise UsageError(
            f"{first.name} is of arch {first.arch}, {second.name} of {second.arch}: no part of one "
            "can be built into the other"
        )
    programs = [compiler.identify(own.parts["compiler"]).version for own in sides]
    if programs[0].partition(" ")[2] == programs[1].partition(" ")[2]:  # gcc-12, by a longer name
        same = {**second.parts, "compiler": first.parts["compiler"]}
        sides = (first, replace(second, parts=same))
    parts = [own.parts for own in sides]
    factors = tuple(name for name in FACTORS if parts[0][name] != parts[1][name])
    if not factors:
        raise UsageError(
            f"{first.name} and {second.name} have the same source, config and compiler"
        )
    notes = [
        f"{name}: the same in both, {parts[0][name]}"
        for name in FACTORS
        if name not in factors and name != "config"
    ]
    variants: dict[str, dict[str, Any]] = {
        name: {"image": own.name} for name, own in zip((FIRST, SECOND), sides, strict=True)
    }
    sources = dict.fromkeys(own["source"] for own in parts)
    trees = {name: source.fetch(source.parse(name), cache, progress) for name in sources}
    for name, cell in _combinations(factors).items():
        whose = dict(zip(factors, cell, strict=True))
        own = {factor: parts[whose.get(factor, 0)][factor] for factor in FACTORS}
        keys = {key: own[key] for key in ("source", "compiler")}
        variant = Variant(name=name, arch=first.arch, **keys)
        lines, _recipe = accepted(variant, trees[variant.source], own["config"], cache, report)
        if lost := len(own["config"]) - len(lines):
            what = f"{lost} of {len(own['config'])} options"
            notes.append(f"{name}: {what} fall away: of modules, or unknown here")
        file = folder / f"{name}.config"
        file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        variants[name] = {**keys, "config": [str(file)]}
    tables: dict[str, list[str]] = {}
    for case in cases:
        suite, _, own_name = case.partition("/")
        tables.setdefault(suite, []).append(own_name)
    data = {
        "name": "attribution",
        "question": f"What is the difference between {first.name} and {second.name} due to?",
        "baseline": FIRST,
        "kernel": {"arch": first.arch},
        "machine": {"kind": "qemu", "memory": "512M"},
        "variant": variants,
        "suite": [{"name": suite, "cases": own} for suite, own in tables.items()],
        "measure": {"metric": "instructions"},
    }
    return loader.parse(toml(data), "kdyno compare", folder, vocabulary(suites)), tuple(notes)


def _combinations(factors: Sequence[str]) -> dict[str, Cell]:
    """By their variants' names."""
    return {
        "+".join(
            f"{factor}-{(FIRST, SECOND)[side]}" for factor, side in zip(factors, cell, strict=True)
        ): cell
        for cell in product((0, 1), repeat=len(factors))
    }


def shares(values: Mapping[Cell, float]) -> tuple[float, ...]:
    """Shapley values of the factors, from the value of every cell of a cross of two levels."""
    count = len(next(iter(values)))
    result = [0.0] * count
    for cell in values:
        others = sum(cell)
        for factor in range(count):
            if not cell[factor]:
                changed = (*cell[:factor], 1, *cell[factor + 1 :])
                weight = math.factorial(others) * math.factorial(count - others - 1)
                result[factor] += weight * (values[changed] - values[cell])
    return tuple(value / math.factorial(count) for value in result)


def attributions(verdict: Verdict) -> list[Attribution]:
    """Of every case that both images have a figure of; by the names that ``experiment_of`` gave.
    UsageError for a run with others."""
    effects: dict[tuple[str, str], dict[str, Effect]] = {}
    for effect in verdict.effects:
        effects.setdefault((effect.suite, effect.case), {})[effect.variant] = effect
    names = {effect.variant for effect in verdict.effects} | verdict.failed.keys()
    factors = [factor for factor in FACTORS if any(f"{factor}-" in name for name in names)]
    cells = _combinations(factors)
    if names - {FIRST, SECOND} != cells.keys():
        text = ", ".join(sorted(names))[:200]
        raise UsageError(f"variants {text}: this run was not made by `kdyno compare --attribute`")
    results = []
    for (suite, case), own in effects.items():
        total = own.get(SECOND)
        if total is None or total.baseline_value is None or total.paired_value is None:
            continue
        values = {name: own[name].paired_value if name in own else None for name in cells}
        built = {cells[name]: value for name, value in values.items() if value is not None}
        missing = [
            f"{name}: {verdict.failed.get(name, 'no figure')}"
            for name, value in values.items()
            if value is None
        ]
        results.append(
            Attribution(
                *(suite, case, total.unit, total.baseline_value, total.paired_value),
                exact=all(effect.exact for effect in own.values()),
                shares=None if missing else dict(zip(factors, shares(built), strict=True)),
                why_not="; ".join(missing),
            )
        )
    return results


def table(results: Sequence[Attribution], question: str) -> str:
    """For people: each case in its unit per operation, and below in percent of the first kernel."""
    factors = next((list(each.shares) for each in results if each.shares is not None), [])
    columns = ("total", *factors, "remains")
    width = max([len(f"{each.suite}/{each.case} ~") for each in results], default=4) + 2
    head = "".join(f"{name:>11}" for name in (FIRST, SECOND, *columns))
    lines = [question, "", f"{results[0].unit if results else '':{width}}{head}"]
    for each in results:
        name = f"{each.suite}/{each.case}{'' if each.exact else ' ~'}"
        start = f"{name:{width}}{each.first:11.1f}{each.second:11.1f}"
        if each.shares is None or each.remains is None:
            lines.append(f"{start}{_signed(each.total):>11}  not apart: {each.why_not}")
            continue
        values = (each.total, *each.shares.values(), each.remains)
        lines.append(start + "".join(f"{_signed(value):>11}" for value in values))
        parts = "".join(f"{percent(value / each.first):>11}" for value in values)
        lines.append(f"{'':{width + 22}}{parts}")
    lines += ["", "total = " + " + ".join(columns[1:])]
    if not all(each.exact for each in results):
        lines.append("~  not the same in every boot: a median, and its parts move with it")
    return "\n".join(lines)


def _signed(value: float) -> str:
    text = f"{abs(value):.1f}"
    return text if float(text) == 0 else (MINUS if value < 0 else "+") + text


def data(results: Sequence[Attribution], question: str, run: str) -> dict[str, Any]:
    cases = [{**vars(each), "total": each.total, "remains": each.remains} for each in results]
    return {"question": question, "run": run, "cases": cases}
