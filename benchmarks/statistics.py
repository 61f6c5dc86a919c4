# SPDX-License-Identifier: MIT
"""Simulates kdyno's whole rule and the rules of others, and prints docs/research/statistics.md.

python -m benchmarks.statistics --write docs/research/statistics.md      (about five minutes)
python -m benchmarks.statistics --quick                         (seconds; tables only)
"""

from __future__ import annotations

import argparse
import csv
import math
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
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
CHUNK = 250
"""Experiments at a time: keeps the Walsh averages of 60 blocks below 40 MB."""

RECORDED = {
    "recorded: pipe, spawn, fscopy": ("pipe", "spawn", "fscopy1024"),
    "recorded: context1, syscall, dhry2reg": ("context1", "syscall", "dhry2reg"),
}


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
    experiments: int
    blocks: tuple[float, float, float]
    """5 %, median and 95 % of the blocks used."""
    alarms_per_experiment: Estimate
    alarms_per_effect: Estimate
    coverage: Estimate
    lowest_coverage: float
    """Of the effects (variant × case) of the row, that of the one that fares worst."""
    coverage_with_effect: Estimate
    equivalent: Estimate
    power: tuple[Estimate, ...]


@dataclass(frozen=True)
class OtherRow:
    """Another tool's rule on the same noise."""

    source: str
    rule: str
    setting: str
    alarms_per_experiment: Estimate
    alarms_per_effect: Estimate
    power: tuple[Estimate, ...]


def recorded_logs(path: Path = NOISE) -> dict[str, NDArray[np.float64]]:
    """Centred log scores of each recorded case in order of boots."""
    scores: dict[str, dict[int, float]] = {}
    with path.open(encoding="utf-8", newline="") as lines:
        for record in csv.DictReader(lines):
            if record["case"] != "steal_ticks":
                boots = scores.setdefault(record["case"], {})
                boots[int(record["boot"])] = float(record["value"])
    logs = {case: np.log([boots[n] for n in sorted(boots)]) for case, boots in scores.items()}
    return {case: values - np.median(values) for case, values in logs.items()}


def sources() -> dict[str, synthetic.Draw]:
    logs = recorded_logs()
    resampled = {
        name: synthetic.resampled(np.column_stack([logs[case] for case in cases]))
        for name, cases in RECORDED.items()
    }
    return {
        **resampled,
        "normal": synthetic.normal(),
        "heavy lower tail": synthetic.heavy_lower_tail(),
        "drift, lag-1 0.4": synthetic.drifting(),
        "two boot states": synthetic.two_states(),
        "two states, ±2 %": synthetic.either_way(),
        "rare and far off": synthetic.rare(),
    }


def estimate(shares: ArrayLike) -> Estimate:
    """Mean of one number per experiment; effects of one experiment are not independent."""
    values = np.asarray(shares, dtype=np.float64)
    return Estimate(float(values.mean()), float(values.std(ddof=1)) / math.sqrt(len(values)))


def stream(seed: int, *key: object) -> Generator:
    """A random stream of its own for each row, so that rows do not depend on each other."""
    return np.random.default_rng([seed, *"/".join(map(str, key)).encode()])


def kdyno_row(
    name: str, draw: synthetic.Draw, variants: int, precision: float, experiments: int, seed: int
) -> Row:
    plan = simulate.Plan(variants=variants, precision=precision)
    shifts = [math.log1p(effect) for effect in EFFECTS]
    truth = math.log1p(0.02)
    rng = stream(seed, name, variants, precision)
    plain, with_effect = [], []
    for start in range(0, experiments, CHUNK):
        size = min(CHUNK, experiments - start)
        ratios = simulate.differences(rng, draw, size, variants, plan.max_blocks)
        # Power needs fewer experiments than a promise of 5 %, and four times their work.
        plain.append(simulate.measure(ratios, plan, shifts if start < FOR_POWER else ()))
        if variants == 1:
            ratios = simulate.differences(
                rng, draw, size, variants, plan.max_blocks, effect=truth, effect_sd=0.01
            )
            with_effect.append(simulate.measure(ratios, plan, truth=truth).covered.mean(axis=1))
    alarms = np.concatenate([each.moved for each in plain])
    covered = np.concatenate([each.covered for each in plain])
    low, median, high = np.percentile(np.concatenate([each.blocks for each in plain]), (5, 50, 95))
    return Row(
        source=name,
        variants=variants,
        precision=precision,
        experiments=experiments,
        blocks=(float(low), float(median), float(high)),
        alarms_per_experiment=estimate(alarms.any(axis=1).astype(np.float64)),
        alarms_per_effect=estimate(alarms.mean(axis=1)),
        coverage=estimate(covered.mean(axis=1)),
        lowest_coverage=float(covered.mean(axis=0).min()),
        coverage_with_effect=(
            estimate(np.concatenate(with_effect)) if with_effect else Estimate(math.nan, math.nan)
        ),
        equivalent=estimate(np.concatenate([each.equivalent.mean(axis=1) for each in plain])),
        power=tuple(
            estimate(
                np.concatenate([it.found[index] for it in plain if len(it.found)]).astype(float)
            )
            for index in range(len(EFFECTS))
        ),
    )


def other_rows(
    name: str, draw: synthetic.Draw, boots_of_kdyno: int, experiments: int, seed: int
) -> Iterator[OtherRow]:
    for boots, interleaved, setting in (
        (3, False, "3 boots, then 3 boots"),
        (boots_of_kdyno, False, f"{boots_of_kdyno} boots, then {boots_of_kdyno} boots"),
        (boots_of_kdyno, True, f"{boots_of_kdyno} boots each, interleaved"),
    ):
        for rule in RULES:
            rng = stream(seed, name, rule.name, setting)
            # 240 boots × 10 repetitions × 3 cases a chunk is 30 MB.
            said: list[list[NDArray[np.int64]]] = [
                [
                    simulate.other_rule(
                        rng, rule, draw, min(CHUNK, experiments - start), boots, effect, interleaved
                    )
                    for start in range(0, experiments, CHUNK)
                ]
                for effect in (0.0, *(math.log1p(effect) for effect in EFFECTS))
            ]
            calls = [np.concatenate(each) for each in said]
            yield OtherRow(
                source=name,
                rule=rule.name,
                setting=setting,
                alarms_per_experiment=estimate((calls[0] != 0).any(axis=1).astype(np.float64)),
                alarms_per_effect=estimate((calls[0] != 0).mean(axis=1)),
                power=tuple(estimate((each == 1).mean(axis=1)) for each in calls[1:]),
            )


def kinds(quick: bool) -> list[tuple[str, int, float]]:
    """(noise, variants, precision) of every row."""
    return [
        (name, variants, precision)
        for name in sources()
        for variants in (1, 3)
        for precision in (0.01, 0.02)
        if not quick or variants == 1 or precision == 0.02
    ]


def row_of(kind: tuple[str, int, float], experiments: int, seed: int) -> Row:
    return kdyno_row(kind[0], sources()[kind[0]], *kind[1:], experiments, seed)


def table(head: Sequence[str], rows: Iterator[Sequence[str]]) -> str:
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
    head += ["coverage", "with a true effect"]
    head += [*map(per_cent, EFFECTS), "equivalent"]
    return table(
        head,
        (
            [
                row.source,
                str(row.variants),
                per_cent(row.precision),
                f"{row.blocks[1]:.0f}",
                str(row.alarms_per_experiment),
                str(row.coverage),
                str(row.coverage_with_effect),
                *map(str, row.power),
                str(row.equivalent),
            ]
            for row in rows
        ),
    )


def others_table(compared: Sequence[tuple[Row, Sequence[OtherRow]]]) -> str:
    """Of each noise and rule: false alarms and power at 2 %, by the three ways of booting."""
    head = ["noise", "rule", "3, then 3: alarms", "power", "n, then n: alarms", "power"]
    head += ["n interleaved: alarms", "power"]
    at = EFFECTS.index(0.02)
    cells = []
    for own, rows in compared:
        kdyno = ["", "", "", "", str(own.alarms_per_experiment), str(own.power[at])]
        cells.append([f"{own.source}; n = {own.blocks[1]:.0f}", "**kdyno**", *kdyno])
        for rule in dict.fromkeys(row.rule for row in rows):
            ways = [row for row in rows if row.rule == rule]
            pairs = ((str(row.alarms_per_experiment), str(row.power[at])) for row in ways)
            cells.append([cells[-1][0], rule, *(cell for pair in pairs for cell in pair)])
    return table(head, iter(cells))


@dataclass(frozen=True)
class TurnRow:
    """One kind of noise: groups of guests that take turns, and whole boots in the same time."""

    noise: str
    way: str
    groups: float
    alarms_per_experiment: Estimate
    coverage: Estimate
    half_width: float
    power: tuple[Estimate, ...]


def turn_row(kind: tuple[int, str], experiments: int, seed: int) -> TurnRow:
    """Three variants, two cases, groups of about 24 rounds until ±0.5 % or 24 of them."""
    plan = simulate.Plan(variants=3, precision=0.005, max_blocks=24)
    shifts = [math.log1p(effect) for effect in TURN_EFFECTS]
    noise, way = NOISES[kind[0]], kind[1]
    rng = stream(seed, noise.name, way)
    made, widths = [], []
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
        made.append(simulate.measure(ratios, plan, shifts, weights=weights))
        lo, hi = Family(ratios, weights).raw(0.05)
        widths.append((hi - lo) / 2)
    covered = np.concatenate([each.covered for each in made])
    alarms = np.concatenate([each.moved for each in made])
    return TurnRow(
        noise=noise.name,
        way=way,
        groups=float(np.median(np.concatenate([each.blocks for each in made]))),
        alarms_per_experiment=estimate(alarms.any(axis=1).astype(np.float64)),
        coverage=estimate(covered.mean(axis=1)),
        half_width=float(np.median(np.concatenate(widths))),
        power=tuple(
            estimate(np.concatenate([each.found[at] for each in made]).astype(np.float64))
            for at in range(len(TURN_EFFECTS))
        ),
    )


def turn_table(rows: Sequence[TurnRow]) -> str:
    head = ["noise", "by", "groups", "false alarms", "coverage"]
    head += ["half-width of 24", *(per_cent(effect) for effect in TURN_EFFECTS)]
    return table(
        head,
        (
            [
                row.noise,
                row.way,
                f"{row.groups:.0f}",
                str(row.alarms_per_experiment),
                str(row.coverage),
                f"{100 * row.half_width:.2f} %",
                *(str(each) for each in row.power),
            ]
            for row in rows
        ),
    )


def filled(
    prose: str, rows: Sequence[Row], tables: Sequence[str], seed: int, experiments: int
) -> str:
    """The page: its prose with the tables, and the largest standard errors of the first."""
    errors = (
        max(row.alarms_per_experiment.error for row in rows),
        max(row.coverage.error for row in rows),
        max(each.error for row in rows for each in row.power),
    )
    words = {"@SEED@": str(seed), "@EXPERIMENTS@": f"{experiments:,}"}
    words |= dict(zip(("@RULE@", "@TURNS@", "@RARE@", "@OTHERS@"), tables, strict=True))
    marks = ("@ALARMS_ERROR@", "@COVERAGE_ERROR@", "@POWER_ERROR@")
    words |= dict(zip(marks, (f"{100 * error:.1f}" for error in errors), strict=True))
    for mark, text in words.items():
        prose = prose.replace(mark, text)
    return prose.rstrip("\n")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Simulate the rule behind kdyno's verdicts.")
    parser.add_argument("--quick", action="store_true", help="fewer kinds of experiment")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the page there")
    parser.add_argument("--seed", type=int, default=20261121)
    parser.add_argument("--experiments", type=int, default=2000, help="per row (default 2000)")
    asked = parser.parse_args(arguments)
    if asked.experiments < 2 or asked.seed < 0:
        parser.error("--experiments must be 2 or more, --seed 0 or more")
    count, seed = asked.experiments, asked.seed
    with ProcessPoolExecutor() as pool:
        turning = [(at, way) for at in range(len(NOISES)) for way in ("turns", "boots")]
        made = pool.map(partial(row_of, experiments=count, seed=seed), kinds(asked.quick))
        by_turns = partial(turn_row, experiments=count // (10 if asked.quick else 4), seed=seed)
        turned = pool.map(by_turns, turning)
        rare_row = partial(rare.row, experiments=count // 4, seed=seed)
        of_rare = pool.map(rare_row, [] if asked.quick else rare.kinds())
        rows = []
        for row in made:
            rows.append(row)
            print(f"{row.source}, {row.variants}, {row.precision}: done", file=sys.stderr)
        turns = list(turned)
        rare_rows = list(of_rare)
    others = []
    compared = list(sources().items())
    for name, draw in [] if asked.quick else [compared[0], compared[1], compared[4]]:
        kind = (name, 1, 0.01)
        own = next(row for row in rows if (row.source, row.variants, row.precision) == kind)
        others.append((own, list(other_rows(name, draw, round(own.blocks[1]), count, seed))))
    tables = (
        rule_table(rows),
        turn_table(turns),
        table(rare.HEAD, iter(rare_rows)) if rare_rows else "",
        others_table(others) if others else "",
    )
    if asked.quick and not asked.write:
        page = "\n\n".join(each for each in tables if each)
    else:
        page = filled(PROSE.read_text(encoding="utf-8"), rows, tables, asked.seed, count)
    if asked.write:
        asked.write.write_text(page + "\n", encoding="utf-8")
    else:
        print(page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
