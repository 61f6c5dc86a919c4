# SPDX-License-Identifier: MIT
"""A CPU's tuning: parts, scores, and the row, with times that are made up."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from command_line import Kdyno, kdyno
from test_memcpy_bench import GRID, made

from kdyno.kernels import cpu
from kdyno.kernels.cpu import Cpu
from kdyno.kernels.routines.best import FILE, read_rows
from kdyno.labs.memcpy.make.shape import Shape, parse_shape
from kdyno.labs.memcpy.time.loads import Load
from kdyno.labs.memcpy.time.results import parse_bench
from kdyno.labs.memcpy.tune import cpu_tables
from kdyno.labs.memcpy.tune.for_cpu import CpuTuned, loads_of, shape_like
from kdyno.labs.memcpy.tune.parts import loads_of as loads_of_part
from kdyno.labs.memcpy.tune.parts import longest, middles, scores, shortest, stages
from kdyno.labs.memcpy.tune.row import files_of, kept, row_name, row_text, with_row
from kdyno.labs.memcpy.tune.search import Choice, choose
from kdyno.report.show import terminal

__all__ = ["kdyno"]

HERE = Cpu("AMD EPYC", "", frozenset(), "AuthenticAMD", 25, 17)


@pytest.fixture(autouse=True)
def any_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "missing", lambda _requires: ())


def names(shapes: Sequence[Shape]) -> set[str]:
    return {shape.name for shape in shapes}


def test_every_part_is_chosen_apart_from_the_others() -> None:
    short = names(shortest())
    assert {"avx512-256-overlap", "avx512-256-overlap-mask64", "avx512-256-mask"} <= short
    assert {"sse-64-overlap-bytes16", "avx2-128-overlap-bytes64"} <= short
    loops = names(middles([parse_shape("avx512-256-overlap-mask64")]))
    assert {"avx512vl-64-overlap-mask64", "avx512-512-overlap-mask64-unaligned"} <= loops
    assert all(name.split("-")[0] in ("avx512", "avx512vl") and "mask64" in name for name in loops)
    long = names(longest([parse_shape("avx512vl-64-overlap-mask64")]))
    assert "avx512vl-64-overlap-mask64-rep-16384" in long
    assert "avx512vl-64-overlap-mask64-nt-1048576" in long
    assert "avx512vl-64-overlap-mask64-nt-4096" not in long


def test_the_planted_parts_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each stage tells only its own part; together they find what was planted."""
    best = parse_shape("avx512vl-128-overlap-mask64-rep-16384")
    seen: list[str] = []

    def timed(loads: Sequence[Load]) -> object:
        part = next(
            (it for it in ("short", "middle", "long") if list(loads) == loads_of_part(it)), "final"
        )

        def trial(asked: Sequence[str], _s: float, _seed: int) -> Mapping[str, Sequence[float]]:
            seen.append(part)
            return {name: [1 + away(parse_shape(name), part)] * 6 for name in asked}

        return trial

    def away(shape: Shape, part: str) -> float:
        wrong = {
            "short": (shape.short, shape.short_to) != (best.short, best.short_to),
            "middle": (shape.registers, shape.loop_bytes, shape.stores)
            != (best.registers, best.loop_bytes, best.stores),
            "long": (shape.large, shape.large_from) != (best.large, best.large_from),
        }
        counted = wrong.values() if part == "final" else [wrong[part]]
        return 0.2 * sum(counted)

    choice = choose(
        stages(timed),  # type: ignore[arg-type]
        [],
        timed([]),  # type: ignore[arg-type]
        seconds=10,
        seed=1,
        prepare=lambda shapes: [it.name for it in shapes],
    )
    assert choice.best == best.name
    assert list(dict.fromkeys(seen)) == ["short", "middle", "long", "final"]


def test_of_equals_the_simpler_one_is_chosen() -> None:
    def trial(asked: Sequence[str], _s: float, _seed: int) -> Mapping[str, Sequence[float]]:
        return {name: [1 - 0.0001 * len(name) * (-1) ** n for n in range(8)] for name in asked}

    choice = choose(
        stages(lambda _loads: trial),
        [],
        trial,
        seconds=1,
        seed=1,
        prepare=lambda shapes: [it.name for it in shapes],
    )
    assert "-rep-" not in choice.best and "-nt-" not in choice.best


def test_a_score_is_the_mean_against_the_faster_rival_and_pays_for_the_worst() -> None:
    bench = made()
    assert scores(bench, "wide") == pytest.approx([0.5] * 8)
    assert scores(bench, "narrow") == pytest.approx([0.9] * 8)
    slow = {
        load.id: tuple(2.1 * it for it in bench.ns["fsrm"][load.id])
        if load.id == GRID[0].id
        else bench.ns["wide"][load.id]
        for load in GRID
    }
    worse = replace(bench, ns={**bench.ns, "wide": slow})
    mean = (2.1 * 0.5**4) ** 0.2
    assert scores(worse, "wide") == pytest.approx([mean * 2.1 / 1.05] * 8)
    # Of copies from memory the worst is not asked.
    far = {it: bench.ns["wide"][it] for it in slow} | {
        GRID[3].id: tuple(2.1 * it for it in bench.ns["fsrm"][GRID[3].id])
    }
    assert scores(replace(bench, ns={**bench.ns, "wide": far}), "wide") == pytest.approx([mean] * 8)


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


def tuned(name: str = "wide") -> CpuTuned:
    choice = Choice("avx512-256-mask", {"avx512-256-mask": (0.5,) * 8, "wide": (0.6,) * 8})
    benches = {"memcpy": made(), "memset": made()}
    routines = {"memcpy": name, "memset": "narrow"}
    shape = parse_shape(choice.best)
    texts = {f"{name}.S": "the routine\n"}
    return CpuTuned(name, shape, texts, choice, benches, routines, {"bad": "bytes"}, {})


def test_the_row_goes_into_the_table_and_its_benches_beside_it(tmp_path: Path) -> None:
    files = files_of(tuned(), row_name(HERE), HERE, tmp_path)
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
    again = files_of(tuned("narrow"), row_name(HERE), HERE, tmp_path)[tmp_path / FILE]
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
        for load, values in rows.items():
            assert read.ns[name][load] == pytest.approx(values, rel=1e-3)
    assert len(kept(bench).splitlines()) == len(bench.ns) + 3


def test_the_tuning_in_words_and_for_programs() -> None:
    text = terminal.text(cpu_tables.parts(tuned()))
    assert "avx512-256-mask is the best memcpy of 0 shapes on this CPU: wide." in text
    assert text.count(" met ") == 3 and text.count(" MISSED ") == 1
    assert "memset     narrow" in text and "refused: 1 shape; bad: bytes" in text
    value = cpu_tables.to_json(tuned(), "x")
    assert value["met"] == {"worst": True, "ceiling": False, "glibc": True, "rivals": True}
    assert json.dumps(value)


def test_what_goes_with_copies_does_not_go_with_a_cpu(kdyno: Kdyno, tmp_path: Path) -> None:
    out = kdyno("memcpy", "tune", "--cpu", "copies.json", "--share", "30%", "--verify", "-o", "x.S")
    assert out.status == 2 and "--cpu goes without FILE, --share, --verify" in out.err
    out = kdyno("memcpy", "tune", "--cpu", "-o", str(tmp_path / "gone" / "x.S"))
    assert out.status == 2 and "gone" in out.err
