# SPDX-License-Identifier: MIT
"""Tuning with times that are made up: the planted best is found, gains are predicted, the row of a
CPU goes into its table."""

from __future__ import annotations

import json
import random
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from command_line import Kdyno, kdyno
from test_memcpy_bench import GRID, made

from kdyno.errors import ToolError, UsageError
from kdyno.kernels import cpu
from kdyno.kernels.cpu import Cpu
from kdyno.kernels.routines.routine import FILE, read_rows
from kdyno.labs.memcpy import tables
from kdyno.labs.memcpy.loads import Load, load
from kdyno.labs.memcpy.prediction import given_share, predict, share_of, verifying
from kdyno.labs.memcpy.results import parse_bench
from kdyno.labs.memcpy.search import (
    STAGES,
    Choice,
    Space,
    Trial,
    Tuned,
    choose,
    halving,
    rivals_score,
)
from kdyno.labs.memcpy.shape import Shape, generate, parse_shape
from kdyno.labs.memcpy.tune_cpu import (
    CpuTuned,
    files_of,
    kept,
    loads_of,
    row_name,
    row_text,
    shape_like,
    with_row,
)
from kdyno.labs.profile.record import FunctionTime, Profile, ProfiledBoot
from kdyno.report.show import terminal
from kdyno.stats.effect import paired_effect
from kdyno.store.verdict import Effect, Verdict

__all__ = ["kdyno"]

BEST = parse_shape("avx512vl-128-overlap-mask64-rep-16384")
HERE = Cpu("AMD EPYC", "", frozenset(), "AuthenticAMD", 25, 17)


@pytest.fixture(autouse=True)
def any_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tuning must choose alike whatever this machine has."""
    monkeypatch.setattr(cpu, "missing", lambda _requires: ())


def names(shapes: Sequence[Shape]) -> list[str]:
    return [shape.name for shape in shapes]


class Clock:
    """Trials in which each stage sees only its own part of a shape, the final all of them; the
    noise is seeded, 1 % strong."""

    def __init__(self, best: Shape = BEST, never: str = "") -> None:
        self.best, self.never = best, never
        self.trials: list[tuple[str, int, float]] = []

    def __call__(self, loads: Sequence[Load]) -> Trial:
        stage = next((each.name for each in STAGES if each.loads == list(loads)), "final")

        def trial(names: Sequence[str], seconds: float, seed: int) -> Mapping[str, Sequence[float]]:
            self.trials.append((stage, len(names), seconds))
            dice = random.Random(seed)
            away = {name: self._away(name, stage) for name in names if name != self.never}
            return {
                name: [10.0 * (1 + 0.2 * steps) * dice.gauss(1.0, 0.01) for _ in range(6)]
                for name, steps in away.items()
            }

        return trial

    def _away(self, name: str, stage: str) -> int:
        if name == "glibc":
            return 9
        shape, best = parse_shape(name), self.best
        wrong = {
            "short": (shape.short, shape.short_to) != (best.short, best.short_to),
            "middle": (shape.registers, shape.loop_bytes, shape.stores)
            != (best.registers, best.loop_bytes, best.stores),
            "long": (shape.large, shape.large_from) != (best.large, best.large_from),
        }
        return sum(wrong.values()) if stage == "final" else wrong[stage]


def chosen(
    clock: Callable[[Sequence[Load]], Trial], space: Space | None = None, seconds: float = 60
) -> Choice:
    return choose(space or Space(), clock, ["glibc"], seconds=seconds, seed=1, prepare=names)


def test_the_planted_parts_are_found_in_the_budget() -> None:
    clock = Clock()
    choice = chosen(clock)
    assert choice.best == BEST.name
    assert list(choice.finalists)[-1] == "glibc"
    # The best of each stage is in the final, whatever the next one added to it.
    last = {each.stage: each.kept[0] for each in choice.rounds}
    assert set(last.values()) <= set(choice.finalists)
    assert sum(seconds for _stage, _count, seconds in clock.trials) == pytest.approx(60)
    stages = [stage for stage, _count, _seconds in clock.trials]
    assert list(dict.fromkeys(stages)) == ["short", "middle", "long", "final"]
    assert {each.stage for each in choice.rounds} == {"short", "middle", "long"}
    assert choice.tried > clock.trials[0][1] == len(Space().shortest())
    assert chosen(Clock()) == choice


def test_every_part_is_chosen_apart_from_the_others() -> None:
    short = names(Space().shortest())
    assert len(short) == len(set(short)) > 20
    assert {"avx512-256-overlap", "avx512-256-overlap-mask64", "avx512-256-mask"} <= set(short)
    assert {"sse-64-overlap-bytes16", "avx2-128-overlap-bytes64", "sse-64-string"} <= set(short)
    loops = names(Space().middles([parse_shape("avx512-256-overlap-mask64")]))
    assert {"avx512vl-64-overlap-mask64", "avx512-512-overlap-mask64-unaligned"} <= set(loops)
    assert all(name.split("-")[0] in ("avx512", "avx512vl") and "mask64" in name for name in loops)
    kept = [parse_shape("avx512vl-64-overlap-mask64")]
    long = names(Space().longest(kept))
    assert "avx512vl-64-overlap-mask64-rep-16384" in long
    assert "avx512vl-64-overlap-mask64-nt-1048576" in long
    assert "avx512vl-64-overlap-mask64-nt-4096" not in long
    # Thresholds beyond the largest copy are not tried.
    assert Space(largest=511).longest(kept) == []
    above = {shape.large_from for shape in Space(largest=2048).longest(kept)}
    assert above == {512, 1024, 2048}
    assert {shape.registers for shape in Space(("avx2",)).shortest()} == {"avx2"}
    with pytest.raises(UsageError, match="--registers mmx: there are general"):
        Space(("mmx",))


def test_of_equals_the_simpler_one_is_chosen() -> None:
    def trial(asked: Sequence[str], _s: float, _seed: int) -> Mapping[str, Sequence[float]]:
        return {name: [1 - 0.0001 * len(name) * (-1) ** n for n in range(8)] for name in asked}

    best = chosen(lambda _loads: trial).best
    assert "-rep-" not in best and "-nt-" not in best


def test_who_fails_while_timed_or_checked_is_out() -> None:
    space = Space(("sse",), 64)
    best = chosen(Clock(), space).best
    assert chosen(Clock(never=best), space).best != best
    with pytest.raises(ToolError, match="no shape of stage 'short' could be timed"):
        choose(space, Clock(), [], seconds=1, seed=1, prepare=lambda _shapes: [])


def test_halving_keeps_the_fastest() -> None:
    spent: list[tuple[int, float]] = []

    def trial(asked: Sequence[str], seconds: float, _seed: int) -> Mapping[str, Sequence[float]]:
        spent.append((len(asked), seconds))
        return {name: [float(name)] * 6 for name in asked}

    rounds = halving(list("85274163"), trial, 8.0, 1, "loops", 2)
    assert rounds[-1].kept == ("1", "2")
    assert spent == [(8, 4.0), (4, 4.0)]
    assert [len(each.kept) for each in rounds] == [4, 2]


def test_a_cpus_score_is_the_mean_against_the_faster_rival_and_pays_for_the_worst() -> None:
    bench = made()
    assert rivals_score(bench, "wide") == pytest.approx([0.5] * 8)
    assert rivals_score(bench, "narrow") == pytest.approx([0.9] * 8)
    mean = (2.1 * 0.5**4) ** 0.2
    # Of copies from memory the worst is not asked.
    for slow, score in ((GRID[0], mean * 2.1 / 1.05), (GRID[3], mean)):
        rows = {**bench.ns["wide"], slow.id: [2.1 * ns for ns in bench.ns["fsrm"][slow.id]]}
        worse = made(ns={**bench.ns, "wide": rows})
        assert rivals_score(worse, "wide") == pytest.approx([score] * 8)


def test_prediction_is_amdahls() -> None:
    ratio = paired_effect([10.0] * 8, [5.0] * 8)
    found = predict(given_share("40%"), ratio)
    assert found is not None and found.ratio == pytest.approx(0.8)
    assert found.ends == pytest.approx((0.8, 0.8)) and found.bound == pytest.approx(0.6)
    assert given_share("0.35").value == 0.35
    assert predict(given_share("40%"), paired_effect([], [])) is predict(None, ratio) is None


@pytest.mark.parametrize("text", ["0", "1", "100%", "-3%", "x", "nan", ""])
def test_no_share(text: str) -> None:
    with pytest.raises(UsageError, match="give a share between 0 and 1"):
        given_share(text)


def profile(*functions: FunctionTime) -> Profile:
    return Profile("stock", "gprof", "clock", "", {}, (ProfiledBoot(0, None, functions),))


def test_the_share_of_a_profile() -> None:
    boots = profile(
        FunctionTime("kernel", "memcpy_orig", 3.0),
        FunctionTime("kernel", "vfs_write", 6.0),
        FunctionTime("user", "memcpy", 1.0),
    )
    found = share_of(boots, "stock.json")
    assert found.value == pytest.approx(0.3) and found.of == "the kernel's own time"
    with pytest.raises(UsageError, match=r"stock\.json: no time in memcpy_orig"):
        share_of(profile(FunctionTime("kernel", "vfs_write", 6.0)), "stock.json")


def test_the_experiment_of_verify_is_one(tmp_path: Path) -> None:
    from kdyno.experiment.loader import parse
    from kdyno.measure.vocabulary import vocabulary
    from kdyno.suites.catalogue import load

    file = tmp_path / "mine.S"
    file.write_text(generate(Shape("memcpy", "sse", 64), "mine"))
    text = verifying(file, "debian:linux-source-7.3", ("pipe", "xbench/cpu.gcd"))
    found = parse(text, str(tmp_path / "mine.toml"), tmp_path, vocabulary(load()))
    assert [it.name for it in found.variants] == ["stock", "tuned"]
    assert [(it.name, it.cases) for it in found.suites] == [
        ("unixbench", ("pipe",)),
        ("xbench", ("cpu.gcd",)),
    ]
    with pytest.raises(UsageError, match="give CASE of unixbench"):
        verifying(file, "debian:linux-source-7.3", ("/pipe",))


def tuned(name: str = "wide") -> Tuned:
    shape = Shape("memcpy", "sse", 64)
    finalists = {shape.name: (5.0,) * 8, "orig": (10.0,) * 8}
    return Tuned(name, shape, "", Choice(shape.name, finalists, (), 30), {"bad": "bytes"}, {})


def effect(case: str, ratio: float, better: str, control: bool = False) -> Effect:
    return Effect.model_construct(
        suite="unixbench",
        case=case,
        variant="tuned",
        better=better,
        ratio=ratio,
        ci=(ratio - 0.05, ratio + 0.05),
        control=control,
    )


def test_predicted_stands_beside_measured() -> None:
    verdict = Verdict.model_construct(
        effects=(
            effect("pipe", 1.25, "higher"),
            effect("build", 0.8, "lower"),
            effect("dhry2reg", 3.0, "higher", control=True),
        )
    )
    recorded = load("L1", "distribution", 8, 4096, "recorded", 300.0)
    prediction = predict(given_share("40%"), tuned().ratios["orig"])
    assert tables.measured_ratio(verdict) == pytest.approx(0.8)
    text = terminal.text(tables.tuning(tuned(), recorded, prediction, verdict))
    assert "sse-64-overlap is the fastest of 30 shapes" in text
    assert "with 40.0 % of the time that was given in memcpy, −20.0 % of that time" in text
    assert "geometric mean of these cases (no controls): −20.0 %" in text
    assert "refused: 1 shape; bad: bytes" in text
    value = tables.tuning_json(tuned(), recorded, prediction, verdict)
    assert value["predicted"]["time_ratio"] == pytest.approx(0.8)
    assert value["measured"]["cases"][0]["ci"] == pytest.approx((1 / 1.3, 1 / 1.2))
    text = terminal.text(tables.tuning(tuned(), recorded, None))
    assert "No prediction: give memcpy's share" in text


@pytest.mark.parametrize(
    ("shape", "function", "like"),
    [
        ("avx512-256-mask-small32", "memset", "memset-avx512vl-128-overlap-mask64"),
        ("avx512-256-overlap-mask64", "memmove", "memmove-avx512-256-overlap-mask64"),
        ("avx2-256-overlap-rep-8192", "memset", "memset-avx2-128-overlap"),
        ("avx2-128-overlap-bytes32", "memmove", None),
        ("avx512-256-mask", "copy_page", None),
    ],
)
def test_other_functions_are_made_like_the_winner(
    shape: str, function: str, like: str | None
) -> None:
    found = shape_like(parse_shape(shape), function)
    assert (found.name if found else None) == like


def test_other_functions_have_loads_of_their_own() -> None:
    assert {(it.level, it.least) for it in loads_of("clear_page")} == {
        (level, 4096) for level in ("L1", "L2", "L3", "memory")
    }
    assert {"L1/random/1-64/any", "L1/fixed/1/target"} <= {it.id for it in loads_of("memset")}


def cpu_tuned(name: str = "wide") -> CpuTuned:
    benches = {"memcpy": made(), "memset": made()}
    routines = {"memcpy": name, "memset": "narrow"}
    return CpuTuned(tuned(name), {f"{name}.S": "the routine\n"}, benches, routines)


def test_the_row_goes_into_the_table_and_its_benches_beside_it(tmp_path: Path) -> None:
    files = files_of(cpu_tuned(), row_name(HERE), HERE, tmp_path)
    assert set(files) == {
        *(tmp_path / it for it in ("wide.S", FILE)),
        *(tmp_path / "benches" / "amd-25-17" / f"{it}.json" for it in ("memcpy", "memset")),
    }
    (tmp_path / FILE).write_text(files[tmp_path / FILE])
    (row,) = read_rows(tmp_path / FILE)
    assert (row.name, row.state, row.bench) == ("amd-25-17", "measured", "amd-25-17")
    assert row.fits(HERE) and not row.fits(replace(HERE, number=18))
    assert dict(row.routines) == {"memcpy": "wide", "memset": "narrow"}
    assert [(it.routine, it.worst, it.glibc, it.rivals) for it in row.seen] == [
        ("wide", 0.5, 1.2, 2.0),
        ("narrow", 0.9, 0.667, 1.111),
    ]
    again = files_of(cpu_tuned("narrow"), row_name(HERE), HERE, tmp_path)[tmp_path / FILE]
    assert [it["memcpy"] for it in tomllib.loads(again)["row"]] == ["narrow"]


def test_a_row_leaves_the_others_as_they_are() -> None:
    bench = made()
    one, two = (row_text(it, HERE, {"memcpy": "wide"}, bench) for it in ("one", "two"))
    both = with_row(with_row("# head\n", "one", one), "two", two)
    assert both == f"# head\n\n{one}\n{two}"
    new = one.replace('memcpy = "wide"', 'memcpy = "narrow"')
    assert with_row(both, "one", new) == f"# head\n\n{new}\n{two}"


def test_a_kept_bench_is_the_bench_to_four_digits() -> None:
    bench = made()
    read = parse_bench(kept(bench).encode(), "kept")
    for name, rows in bench.ns.items():
        for id_, values in rows.items():
            assert read.ns[name][id_] == pytest.approx(values, rel=1e-3)
    assert len(kept(bench).splitlines()) == len(bench.ns) + 3


def test_the_tuning_of_a_cpu_in_words_and_for_programs() -> None:
    text = terminal.text(tables.cpu_tuning(cpu_tuned()))
    assert "sse-64-overlap is the best memcpy of 30 shapes on this CPU: wide." in text
    assert text.count(" met ") == 3 and text.count(" MISSED ") == 1
    assert "memset     narrow" in text and "refused: 1 shape; bad: bytes" in text
    value = tables.cpu_tuning_json(cpu_tuned(), "x")
    assert value["met"] == {"worst": True, "ceiling": False, "glibc": True, "rivals": True}
    assert json.dumps(value)


def test_what_goes_with_copies_does_not_go_with_a_cpu(kdyno: Kdyno, tmp_path: Path) -> None:
    out = kdyno(
        "lab", "memcpy", "tune", "--cpu", "copies.json", "--share", "30%", "--verify", "-o", "x.S"
    )
    assert out.status == 2 and "--cpu goes without FILE, --share, --verify" in out.err
    out = kdyno("lab", "memcpy", "tune", "--cpu", "-o", str(tmp_path / "gone" / "x.S"))
    assert out.status == 2 and "gone" in out.err
