# SPDX-License-Identifier: MIT
"""Simulates kdyno's whole rule and the rules of others, and prints docs/research/statistics.md.

python -m benchmarks.statistics --write docs/research/statistics.md     (15 minutes on two CPUs)
"""

from __future__ import annotations

import argparse
import csv
import math
import re
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from benchmarks.simulation import rare, simulate, synthetic
from benchmarks.simulation.rules import RULES
from benchmarks.turn_noise import NOISES, boot_values, group_values
from kdyno.stats.family import Family
from kdyno.stats.groups import precisions

ROOT = Path(__file__).resolve().parent.parent
NOISE = ROOT / "tests" / "data" / "uml-aa-boots.csv"
PROSE = Path(__file__).resolve().parent / "statistics.md.in"

EFFECTS = (0.005, 0.01, 0.02, 0.05)
TURN_EFFECTS = (0.0025, 0.005, 0.01, 0.02)
FOR_POWER = 500
"""Experiments whose power is simulated."""
MOST_BLOCKS = 60
CHUNK = 250
"""Experiments at a time: keeps the Walsh averages of 60 blocks below 40 MB."""

RECORDED = {
    "recorded: pipe, spawn, fscopy": ("pipe", "spawn", "fscopy1024"),
    "recorded: context1, syscall, dhry2reg": ("context1", "syscall", "dhry2reg"),
}
Kind = tuple[str, int, float]
"""(noise, variants, precision) of a row."""


@dataclass(frozen=True)
class Estimate:
    """A simulated share with its Monte Carlo standard error."""

    value: float
    error: float

    def __str__(self) -> str:
        return "" if math.isnan(self.value) else f"{100 * self.value:.1f}"


@dataclass(frozen=True)
class Row:
    """One kind of experiment under kdyno's rule."""

    source: str
    variants: int
    precision: float
    blocks: float
    """Median of those used."""
    alarms_per_experiment: Estimate
    coverage: Estimate
    lowest_coverage: float
    """Of the effects (variant × case) of the row, that of the one that fares worst."""
    coverage_with_effect: Estimate
    equivalent: Estimate
    power: tuple[Estimate, ...]


def recorded_logs() -> dict[str, NDArray[np.float64]]:
    """Centred log scores of each recorded case in order of boots."""
    scores: dict[str, dict[int, float]] = {}
    with NOISE.open(encoding="utf-8", newline="") as lines:
        for record in csv.DictReader(lines):
            if record["case"] != "steal_ticks":
                boots = scores.setdefault(record["case"], {})
                boots[int(record["boot"])] = float(record["value"])
    logs = {case: np.log([boots[n] for n in sorted(boots)]) for case, boots in scores.items()}
    return {case: values - np.median(values) for case, values in logs.items()}


def recorded(*cases: str) -> synthetic.Draw:
    """These cases' recorded noise."""
    logs = recorded_logs()
    return synthetic.resampled(np.column_stack([logs[case] for case in cases]))


def sources() -> dict[str, synthetic.Draw]:
    return {
        **{name: recorded(*cases) for name, cases in RECORDED.items()},
        "normal": synthetic.normal(),
        "heavy lower tail": synthetic.heavy_lower_tail(),
        "drift, lag-1 0.4": synthetic.drifting(),
        "two boot states": synthetic.two_states(),
        "two states, ±2 %": synthetic.two_states(0.0014, 0.5, 0.02, synthetic.CASES),
        "rare and far off": synthetic.two_states(0.002, 0.1, -0.08, synthetic.CASES),
    }


def estimate(shares: ArrayLike) -> Estimate:
    """Mean of one number per experiment; effects of one experiment are not independent."""
    values = np.asarray(shares, dtype=np.float64)
    return Estimate(float(values.mean()), float(values.std(ddof=1)) / math.sqrt(len(values)))


def stream(seed: int, *key: object) -> Generator:
    """A random stream of its own for each row, so that rows do not depend on each other."""
    return np.random.default_rng([seed, *"/".join(map(str, key)).encode()])


def kdyno_row(kind: Kind, experiments: int, seed: int) -> Row:
    name, variants, precision = kind
    draw = sources()[name]
    shifts = [math.log1p(effect) for effect in EFFECTS]
    truth = math.log1p(0.02)
    rng = stream(seed, name, variants, precision)
    plain, with_effect = [], []
    for start in range(0, experiments, CHUNK):
        size = min(CHUNK, experiments - start)
        ratios = simulate.differences(rng, draw, size, variants, MOST_BLOCKS)
        # Power needs fewer experiments than a promise of 5 %, and four times their work.
        plain.append(simulate.measure(ratios, precision, shifts if start < FOR_POWER else ()))
        if variants == 1:
            ratios = simulate.differences(
                rng, draw, size, variants, MOST_BLOCKS, effect=truth, effect_sd=0.01
            )
            result = simulate.measure(ratios, precision, truth=truth)
            with_effect.append(result.covered.mean(axis=1))
    covered = np.concatenate([each.covered for each in plain])
    with_power = [each.power for each in plain if len(each.power)]
    none = Estimate(math.nan, math.nan)
    return Row(
        source=name,
        variants=variants,
        precision=precision,
        blocks=float(np.median(np.concatenate([each.blocks for each in plain]))),
        alarms_per_experiment=estimate(np.concatenate([each.moved.any(axis=1) for each in plain])),
        coverage=estimate(covered.mean(axis=1)),
        lowest_coverage=float(covered.mean(axis=0).min()),
        coverage_with_effect=estimate(np.concatenate(with_effect)) if with_effect else none,
        equivalent=estimate(np.concatenate([each.equivalent.mean(axis=1) for each in plain])),
        power=tuple(map(estimate, np.concatenate(with_power, axis=1))),
    )


def other_cells(
    name: str, boots_of_kdyno: int, experiments: int, seed: int
) -> dict[str, list[str]]:
    """Other tools' rules on the same noise: of each, false alarms of an experiment and power at
    2 %, by three ways of booting: 3, then 3; as many as kdyno's; the same interleaved."""
    draw = sources()[name]
    cells: dict[str, list[str]] = {rule.name: [] for rule in RULES}
    sizes = [min(CHUNK, experiments - start) for start in range(0, experiments, CHUNK)]
    for boots, interleaved, setting in (
        (3, False, "3 boots, then 3 boots"),
        (boots_of_kdyno, False, f"{boots_of_kdyno} boots, then {boots_of_kdyno} boots"),
        (boots_of_kdyno, True, f"{boots_of_kdyno} boots each, interleaved"),
    ):
        for rule in RULES:
            rng = stream(seed, name, rule.name, setting)
            # 240 boots × 10 repetitions × 3 cases a chunk is 30 MB.
            runs = partial(
                simulate.other_rule, rng, rule, draw, boots=boots, interleaved=interleaved
            )
            signs = {
                effect: np.concatenate([runs(size, effect=math.log1p(effect)) for size in sizes])
                for effect in (0.0, *EFFECTS)
            }
            alarms = estimate((signs[0.0] != 0).any(axis=1))
            power = estimate((signs[0.02] == 1).mean(axis=1))
            cells[rule.name] += [str(alarms), str(power)]
    return cells


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """In Markdown; the first cell of a row is empty where it is that of the row before."""
    lines = ["| " + " | ".join(head) + " |"]
    lines.append("| --- |" + " --: |" * (len(head) - 1))
    before = ""
    for row in rows:
        first = "" if row[0] == before else row[0]
        before = row[0]
        lines.append("| " + " | ".join([first, *row[1:]]) + " |")
    return "\n".join(lines)


def per_cent(value: float) -> str:
    return f"{100 * value:g} %"


def rule_table(rows: Sequence[Row]) -> str:
    head = ["noise", "variants", "precision", "blocks", "false alarms"]
    head += ["coverage", "with a true effect", *map(per_cent, EFFECTS), "equivalent"]
    cells = []
    for row in rows:
        first = [row.source, str(row.variants), per_cent(row.precision), f"{row.blocks:.0f}"]
        shares = (row.alarms_per_experiment, row.coverage, row.coverage_with_effect)
        cells.append([*first, *map(str, (*shares, *row.power, row.equivalent))])
    return table(head, cells)


def others_table(compared: Sequence[tuple[Row, dict[str, list[str]]]]) -> str:
    head = ["noise", "rule", "3, then 3: alarms", "power", "n, then n: alarms", "power"]
    head += ["n interleaved: alarms", "power"]
    rows = []
    for own, others in compared:
        name = f"{own.source}; n = {own.blocks:.0f}"
        power = str(own.power[EFFECTS.index(0.02)])
        rows.append([name, "**kdyno**", *[""] * 4, str(own.alarms_per_experiment), power])
        rows += [[name, rule, *cells] for rule, cells in others.items()]
    return table(head, rows)


TURN_HEAD = ["noise", "by", "groups", "false alarms", "coverage", "half-width of 24"]
TURN_HEAD += map(per_cent, TURN_EFFECTS)


def turn_cells(kind: tuple[int, str], experiments: int, seed: int) -> Sequence[str]:
    """A row under TURN_HEAD: groups of guests that take turns, or whole boots in the same time.

    Three variants, two cases, groups of about 24 rounds until ±0.5 % or 24 of them.
    """
    shifts = [math.log1p(effect) for effect in TURN_EFFECTS]
    noise, way = NOISES[kind[0]], kind[1]
    rng = stream(seed, noise.name, way)
    results, widths = [], []
    for start in range(0, experiments, CHUNK):
        size = min(CHUNK, experiments - start)
        weights = None
        if way == "turns":
            both = [group_values(rng, noise, 24, 4, 24, 2) for _ in range(size)]
            ratios = np.stack([values for values, _ in both])
            weights = np.stack(
                [[precisions(*row) for row in zip(*each, strict=True)] for each in both]
            )
        else:
            ratios = np.stack([boot_values(rng, noise, 24, 4, 24, 2) for _ in range(size)])
        results.append(simulate.measure(ratios, 0.005, shifts, weights=weights))
        lo, hi = Family(ratios, weights).raw(0.05)
        widths.append((hi - lo) / 2)
    shares = (
        np.concatenate([each.moved.any(axis=1) for each in results]),
        np.concatenate([each.covered.mean(axis=1) for each in results]),
    )
    power = np.concatenate([each.power for each in results], axis=1)
    groups = np.median(np.concatenate([each.blocks for each in results]))
    alarms, coverage, *result = (str(estimate(own)) for own in (*shares, *power))
    width = f"{100 * np.median(np.concatenate(widths)):.2f} %"
    return [noise.name, way, f"{groups:.0f}", alarms, coverage, width, *result]


def largest_error(estimates: Iterable[Estimate]) -> str:
    """In per cent."""
    return f"{100 * max(each.error for each in estimates):.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description="Simulate the rule behind kdyno's verdicts.")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the page there")
    parser.add_argument("--seed", type=int, default=20261121)
    parser.add_argument("--experiments", type=int, default=2000, help="per row (default 2000)")
    request = parser.parse_args()
    count, seed = request.experiments, request.seed
    with ProcessPoolExecutor() as pool:
        kinds = list(product(sources(), (1, 3), (0.01, 0.02)))
        of_kind = pool.map(partial(kdyno_row, experiments=count, seed=seed), kinds)
        turning = list(product(range(len(NOISES)), ("turns", "boots")))
        of_turns = pool.map(partial(turn_cells, experiments=count, seed=seed), turning)
        of_rare = pool.map(partial(rare.row, experiments=count, seed=seed), rare.kinds())
        rows = []
        for row in of_kind:
            rows.append(row)
            print(f"{row.source}, {row.variants}, {row.precision}: done", file=sys.stderr)
    others = []
    names = list(sources())
    for name in (names[0], names[1], names[4]):
        kind = (name, 1, 0.01)
        own = next(row for row in rows if (row.source, row.variants, row.precision) == kind)
        others.append((own, other_cells(name, round(own.blocks), count, seed)))
    words = {
        "SEED": str(seed),
        "EXPERIMENTS": f"{count:,}",
        "RULE": rule_table(rows),
        "TURNS": table(TURN_HEAD, of_turns),
        "RARE": table(rare.HEAD, of_rare),
        "OTHERS": others_table(others),
        "ALARMS_ERROR": largest_error(row.alarms_per_experiment for row in rows),
        "COVERAGE_ERROR": largest_error(row.coverage for row in rows),
        "POWER_ERROR": largest_error(each for row in rows for each in row.power),
    }
    prose = PROSE.read_text(encoding="utf-8").rstrip("\n")
    page = re.sub("@([A-Z_]+)@", lambda mark: words[mark[1]], prose)
    if request.write:
        request.write.write_text(page + "\n", encoding="utf-8")
    else:
        print(page)


if __name__ == "__main__":
    main()
