# SPDX-License-Identifier: MIT
"""Shapes and what the generator makes of them, the shipped files byte for byte. Tuning with times
that are made up: the planted best is found, gains predicted, a CPU's row goes into its table."""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import subprocess
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from test_memcpy_bench import GRID, bench_of

from kdyno.errors import ToolError, UsageError
from kdyno.kernels import cpu
from kdyno.kernels.cpu import Cpu
from kdyno.kernels.routines import routine as routines
from kdyno.kernels.routines.routine import FILE, FUNCTIONS, PAGES, parse_routine, routines_folder
from kdyno.labs.memcpy import search, tables
from kdyno.labs.memcpy.loads import Load, load
from kdyno.labs.memcpy.results import parse_bench
from kdyno.labs.memcpy.search import STAGES, Choice, CpuTuned, Trial, Tuned
from kdyno.labs.memcpy.shape import STORES, TAILS, WIDTHS, Shape, describe, generate, parse_shape
from kdyno.report.show import terminal

GOLDEN = Path(__file__).parent / "golden"
_MADE = re.compile(r"generated: kdyno lab memcpy generate (\S+)(?: --name (\S+))? -o (\S+)$", re.M)
GENERATED = [
    (path, match)
    for path in sorted(routines_folder().glob("*.S"))
    if (match := _MADE.search(path.read_text("utf-8")))
]


SHORTEST = (("", 0), ("mask", 32), ("mask", 64), ("bytes", 16), ("bytes", 64))


def every_shape() -> list[Shape]:
    results = []
    turns_of_a_loop = (1, 2, 4, 8, 16, 64)
    ways = (FUNCTIONS, WIDTHS, TAILS, ("", "rep", "nt"), (0, 32), turns_of_a_loop, SHORTEST, STORES)
    for function, registers, tail, large, small, turns, short, stores in product(*ways):
        loop = turns * WIDTHS[registers]
        start = 0 if not large or function in PAGES else 8192
        parts = (function, registers, loop, tail, large, start, small)
        with suppress(UsageError):
            results.append(Shape(*parts, *short, stores))
    return results


@pytest.mark.parametrize(
    ("path", "result"), GENERATED, ids=lambda value: getattr(value, "stem", "")
)
def test_a_shipped_file_is_what_the_generator_makes(path: Path, result: re.Match[str]) -> None:
    shape, name, file = result.groups()
    assert file == path.name
    assert path.read_text("utf-8") == generate(parse_shape(shape), name)


def test_most_routines_are_generated() -> None:
    assert len(GENERATED) >= 25
    assert {parse_shape(each[1]).function for _, each in GENERATED} == set(FUNCTIONS)


@pytest.mark.slow
def test_every_shape_is_one_word_and_a_file_that_describes_itself() -> None:
    shapes = every_shape()
    assert len({shape.name for shape in shapes}) == len(shapes) > 300
    assert {shape.tail for shape in shapes} == set(TAILS)
    for shape in shapes:
        assert parse_shape(shape.name) == shape
        text = generate(shape)
        routine = parse_routine(Path(f"{shape.name}.S"), text)
        assert (routine.function, routine.requires) == (shape.function, shape.requires)
        assert routine.help == describe(shape)
        assert text.count(routines.start_of(routine)) == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("fast", "is not a shape"),
        ("avx2-128", "a tail is missing"),
        ("mmx-128-overlap", "is not a shape"),
        ("avx2-100-overlap", "must be a power of two"),
        ("avx2-16-overlap", "at least a register's 32 bytes"),
        ("avx2-8192-overlap", "are more than 2048"),
        ("avx2-128-mask", "only avx512 has masks"),
        ("avx2-128-overlap-rep", "begin at 256 bytes or more"),
        ("avx2-128-overlap-rep-128", "begin at 256 bytes or more"),
        ("avx2-128-overlap-small32", "only avx512 with overlap or mask"),
        ("avx512-128-overlap-small16", "is not a shape"),
        ("memset-avx512-128-mask-small32", "only memcpy has"),
        ("avx512-64-mask-small32", "128 bytes a turn or more"),
        ("avx2-128-overlap-mask32", "only avx512 and avx512vl have masks"),
        ("avx512-256-mask-mask64", "only with overlap"),
        ("avx512-256-overlap-mask16", "up to 32 or 64 bytes"),
        ("sse-64-overlap-bytes64", "up to 16 or 32 bytes"),
        ("memmove-avx2-128-overlap-bytes32", "go forward only"),
        ("avx2-128-overlap-aligned", "is not aligned anyway"),
        ("avx512-64-mask-aligned", "128 bytes or more"),
        ("memmove-avx2-128-overlap-unaligned", "only memcpy and memset"),
        ("memmove-sse-128-string", "memmove needs overlap"),
        ("memmove-sse-64-overlap-nt-4096", "do not overlap"),
        ("memmove-avx2-512-overlap", "128 at most"),
        ("copy_page-avx2-128-overlap", "a page has no tail"),
        ("copy_page-avx512-8192", "are more than 4096"),
    ],
)
def test_a_shape_that_cannot_be_is_refused_with_the_reason(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_shape(text)


@pytest.mark.slow
@given(st.text(max_size=40))
def test_no_text_is_taken_for_a_shape_by_chance(text: str) -> None:
    try:
        shape = parse_shape(text)
    except UsageError:
        return
    assert parse_shape(shape.name) == shape


def code_digest(text: str, folder: Path) -> str:
    """SHA-256 of the routine's instructions, as bytes."""
    source, result, code = (folder / name for name in ("routine.S", "routine.o", "code"))
    source.write_text(text)
    argv = ["gcc", "-c", "-I", str(routines_folder()), str(source), "-o", str(result)]
    subprocess.run(argv, check=True)
    argv = ["objcopy", "-O", "binary", "-j", ".text.*", str(result), str(code)]
    subprocess.run(argv, check=True)
    return hashlib.sha256(code.read_bytes()).hexdigest()


SPECIAL = (
    *("avx512-256-overlap", "avx512-256-overlap-unaligned", "avx512-256-mask-aligned"),
    *("avx512-256-overlap-unaligned-nt-1048576", "avx2-128-overlap-bytes32"),
)
"""Shapes with a way of their own at the loop's boundary, or for the shortest blocks."""


@pytest.mark.slow
def test_the_code_of_routines_is_what_it_was(tmp_path: Path) -> None:
    """Byte for byte by GNU as 2.40: what is measured changes by a commit that says so."""
    codes = {
        path.stem: code_digest(path.read_text("utf-8"), tmp_path)
        for path in sorted(routines_folder().glob("*.S"))
    }
    for shape in (*every_shape()[::40], *map(parse_shape, SPECIAL)):
        codes[shape.name] = code_digest(generate(shape), tmp_path)
    golden = GOLDEN / "routine-codes.json"
    if os.environ.get("KDYNO_GOLDEN") == "write":
        golden.write_text(json.dumps(codes, indent=0, sort_keys=True) + "\n")
    assert codes == json.loads(golden.read_text())


@pytest.mark.slow
@pytest.mark.needs("clang-19")
def test_clang_assembles_the_macros_too(tmp_path: Path) -> None:
    """Its code may differ in encodings; that it is right is tried by building such a kernel."""
    for shape in every_shape()[::100]:
        source = tmp_path / "routine.S"
        source.write_text(generate(shape))
        argv = ["clang-19", "-c", "-I", str(routines_folder()), str(source)]
        subprocess.run([*argv, "-o", str(tmp_path / "routine.o")], check=True)


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

    def __init__(self, never: str = "") -> None:
        self.never = never
        self.trials: list[tuple[str, int, float]] = []

    def __call__(
        self, loads: Sequence[Load], names: Sequence[str], seconds: float
    ) -> Mapping[str, Sequence[float]]:
        stage = next((each.name for each in STAGES if each.loads == list(loads)), "final")
        self.trials.append((stage, len(names), seconds))
        dice = random.Random(len(self.trials))
        away = {name: self._away(name, stage) for name in names if name != self.never}
        return {
            name: [10.0 * (1 + 0.2 * steps) * dice.gauss(1, 0.01) for _ in range(6)]
            for name, steps in away.items()
        }

    def _away(self, name: str, stage: str) -> int:
        if name == "glibc":
            return 9
        shape = parse_shape(name)
        parts = {
            "short": ("short", "short_to"),
            "middle": ("registers", "loop_bytes", "stores"),
            "long": ("large", "large_from"),
        }
        wrong = {
            part: any(getattr(shape, key) != getattr(BEST, key) for key in keys)
            for part, keys in parts.items()
        }
        return sum(wrong.values()) if stage == "final" else wrong[stage]


def chosen(trial: Trial, largest: int = 1 << 20) -> Choice:
    return search.choose(trial, ["glibc"], largest, 60, names)


def test_the_planted_parts_are_found_in_the_budget() -> None:
    clock = Clock()
    choice = chosen(clock)
    assert choice.best == BEST.name
    assert list(choice.finalists)[-1] == "glibc"
    # The best of each stage is in the final, whatever the next one added to it.
    assert any("-rep-" not in name and "mask64" in name for name in choice.finalists)
    assert sum(seconds for _, _, seconds in clock.trials) == pytest.approx(60)
    stages = [stage for stage, _, _ in clock.trials]
    assert list(dict.fromkeys(stages)) == ["short", "middle", "long", "final"]
    assert choice.tried > clock.trials[0][1] == len(search.shortest())
    # Rounds of a stage have the same time each, and the faster half goes on.
    first, second = clock.trials[:2]
    assert first[2] == second[2] and second[1] == (first[1] + 1) // 2
    assert chosen(Clock()) == choice


def test_every_part_is_chosen_apart_from_the_others() -> None:
    short = set(names(search.shortest()))
    assert {"avx512-256-mask", "sse-64-overlap-bytes16", "sse-64-string"} <= short
    kept = [parse_shape("avx512-256-overlap-mask64")]
    loops = set(names(search.middles(kept)))
    assert {"avx512vl-64-overlap-mask64", "avx512-512-overlap-mask64-unaligned"} <= loops
    assert all(name.startswith("avx512") and "mask64" in name for name in loops)
    above = [(shape.large, shape.large_from) for shape in search.longest(kept, 1 << 20)]
    assert min(at for large, at in above if large == "nt") == 1 << 18
    # Thresholds beyond the largest copy are not tried.
    above = [(shape.large, shape.large_from) for shape in search.longest(kept, 2048)]
    assert above == [("rep", at) for at in (512, 1024, 2048)]


def test_of_equals_the_simpler_one_is_chosen() -> None:
    def trial(_loads: object, names: Sequence[str], *_: object) -> Mapping[str, Sequence[float]]:
        return {name: [1 - 0.0001 * len(name) * (-1) ** n for n in range(8)] for name in names}

    best = chosen(trial).best
    assert "-rep-" not in best and "-nt-" not in best


def test_who_fails_while_timed_or_checked_is_out() -> None:
    best = chosen(Clock(), 64).best
    assert chosen(Clock(never=best), 64).best != best
    with pytest.raises(ToolError, match="no shape of stage 'short' could be timed"):
        search.choose(Clock(), [], 64, 1, lambda _shapes: [])


def test_a_cpus_score_is_the_mean_against_the_faster_rival_and_pays_for_the_worst() -> None:
    bench = bench_of()
    assert search.rivals_score(bench, "wide") == pytest.approx([0.5] * 8)
    assert search.rivals_score(bench, "narrow") == pytest.approx([0.9] * 8)
    mean = (2.1 * 0.5**4) ** 0.2
    # Of copies from memory the worst is not asked.
    for slow, score in ((GRID[0], mean * 2.1 / 1.05), (GRID[3], mean)):
        rows = {**bench.ns["wide"], slow.id: [2.1 * ns for ns in bench.ns["fsrm"][slow.id]]}
        worse = bench_of(ns={**bench.ns, "wide": rows})
        assert search.rivals_score(worse, "wide") == pytest.approx([score] * 8)


def test_prediction_is_amdahls() -> None:
    assert [search.after(0.4, ratio) for ratio in (0.5, 1.0)] == pytest.approx([0.8, 1.0])


def tuned(name: str = "wide") -> Tuned:
    shape = Shape("memcpy", "sse", 64)
    finalists = {shape.name: (5.0,) * 8, "orig": (10.0,) * 8}
    return Tuned(name, shape, Choice(shape.name, finalists, 30), {"bad": "bytes"})


def test_the_tuning_in_words_and_for_programs() -> None:
    recorded = load("L1", "distribution", 8, 4096, "recorded", 300.0)
    text = terminal.text(tables.tuning(tuned(), recorded, 0.4))
    for line in (
        "sse-64-overlap: of 30 shapes none is clearly faster",
        "with 40.0 % of the time in memcpy, −20.0 % of that time",
        "a memcpy that costs nothing: −40.0 %",
        "refused: 1 shape; bad: bytes",
    ):
        assert line in text
    value = json.loads(json.dumps(tables.tuning_json(tuned(), load=recorded.id)))
    assert value["time_ratios"]["orig"]["ratio"] == pytest.approx(0.5)
    assert value["finalists"]["orig"] == [10.0] * 8 and value["load"] == recorded.id
    text = terminal.text(tables.tuning(tuned(), recorded, None))
    assert "No prediction: that needs memcpy's share" in text


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
def test_other_functions_are_like_the_winner(shape: str, function: str, like: str | None) -> None:
    similar = search.shape_like(parse_shape(shape), function)
    assert (similar.name if similar else None) == like


def test_other_functions_have_loads_of_their_own() -> None:
    pages = {(each.level, each.least) for each in search.loads_of("clear_page")}
    assert pages == {(level, 4096) for level in ("L1", "L2", "L3", "memory")}
    ids = {each.id for each in search.loads_of("memset")}
    assert {"L1/random/1-64/any", "L1/fixed/1/target"} <= ids


def cpu_tuned(name: str = "wide") -> CpuTuned:
    benches = {"memcpy": bench_of(), "memset": bench_of()}
    routines = {"memcpy": name, "memset": "narrow"}
    return CpuTuned(tuned(name), {f"{name}.S": "the routine\n"}, benches, routines)


def test_the_row_goes_into_the_table_and_its_benches_beside_it(tmp_path: Path) -> None:
    row = search.row_name(HERE)
    files = search.files_of(cpu_tuned(), row, HERE, tmp_path)
    benches = {tmp_path / "benches" / "amd-25-17" / f"{name}.json" for name in ("memcpy", "memset")}
    assert set(files) == {tmp_path / "wide.S", tmp_path / FILE} | benches
    # Times to four digits.
    saved = parse_bench(files[min(benches)].encode(), "saved")
    for load_id, values in bench_of().ns["wide"].items():
        assert saved.ns["wide"][load_id] == pytest.approx(values, rel=1e-3)
    (tmp_path / FILE).write_text(files[tmp_path / FILE])
    (best,) = routines.read_rows(tmp_path / FILE)
    assert (best.name, best.state, best.bench) == ("amd-25-17", "measured", "amd-25-17")
    assert best.fits(HERE) and not best.fits(replace(HERE, number=18))
    assert dict(best.routines) == {"memcpy": "wide", "memset": "narrow"}
    seen = [(row.routine, row.worst, row.glibc, row.rivals) for row in best.seen]
    assert seen == [("wide", 0.5, 1.2, 2.0), ("narrow", 0.9, 0.667, 1.111)]
    again = search.files_of(cpu_tuned("narrow"), row, HERE, tmp_path)[tmp_path / FILE]
    assert [each["memcpy"] for each in tomllib.loads(again)["row"]] == ["narrow"]


def test_a_row_leaves_the_others_as_they_are() -> None:
    bench = bench_of()
    one, two = (search.row_text(name, HERE, {"memcpy": "wide"}, bench) for name in ("one", "two"))
    both = search.with_row(search.with_row("# head\n", "one", one), "two", two)
    assert both == f"# head\n\n{one}\n{two}"
    new = one.replace('memcpy = "wide"', 'memcpy = "narrow"')
    assert search.with_row(both, "one", new) == f"# head\n\n{new}\n{two}"


def test_the_tuning_of_a_cpu_in_words() -> None:
    text = terminal.text(tables.cpu_tuning(cpu_tuned()))
    assert (
        "sse-64-overlap: of 30 shapes of memcpy none is clearly better on this CPU: wide." in text
    )
    assert text.count(" met ") == 3 and text.count(" MISSED ") == 1
    assert "memset     narrow" in text and "refused: 1 shape; bad: bytes" in text
