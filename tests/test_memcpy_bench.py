# SPDX-License-Identifier: MIT
"""What a bench of memory routines says: replay, ceilings, ratios, goals, files, the page."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from kdyno.errors import UsageError
from kdyno.kernels.routines.checking import Contender
from kdyno.labs.memcpy import loads, results, tables, timing
from kdyno.labs.memcpy.copies import distribution
from kdyno.labs.memcpy.results import Bench, goals, parse_bench, to_json
from kdyno.report.show import terminal
from kdyno.report.show.terminal import Screen

GRID = (
    loads.fixed("L1", 64, "aligned"),
    loads.fixed("L1", 1024, "aligned"),
    loads.fixed("L1", 4096, "aligned"),
    loads.fixed("memory", 4096, "aligned"),
    loads.load("L1", "distribution", 8, 4096, "recorded", 500.0),
)


def bench_of(**changed: object) -> Bench:
    """Eight blocks; ``wide`` takes half the time of fsrm, orig twice as long as that."""
    factors = {"wide": 0.5, "narrow": 0.9, "fsrm": 1.0, "orig": 2.0, "glibc": 0.6, "nothing": 0.1}
    ranks = {"fsrm": "rival", "orig": "rival", "glibc": "other", "nothing": "bound"}

    def times(load: loads.Load, factor: float) -> list[float]:
        first = (1.0 + load.mean_bytes / 64) * factor
        return [first * (1 + 0.001 * block) for block in range(8)]

    ns = {name: {load.id: times(load, own) for load in GRID} for name, own in factors.items()}
    bench = {
        "plan": "quick",
        "created": "2026-11-21T12:00:00+00:00",
        "cpu": "Test CPU",
        "blocks": 8,
        "seconds": 10.0,
        "clock": {"core_ghz": 4.0},
        "contenders": [{"name": name, "rank": ranks.get(name, "routine")} for name in factors],
        "loads": list(GRID),
        "ns": ns,
        "ceilings": {"L1": {"bytes_per_ns": 256.0}, "memory": {"bytes_per_ns": 16.0}},
        "caches": {"L1": 32768, "L2": 1 << 20, "L3": 1 << 24},
        "failed": {"bad": "died of SIGSEGV"},
        "left_out": {"mine": "fails its check: <b>bytes</b>"},
        "remarks": [],
    }
    return Bench.model_validate({**bench, **changed})


@pytest.mark.parametrize(
    ("ceilings", "load", "least_ns"),
    [
        ({"L1": 256.0, "memory": 16.0}, GRID[2], 16.0),
        ({"L1": 256.0, "memory": 16.0}, GRID[3], 256.0),
        # What does not fit is held against the next level.
        ({"L1": 256.0, "L2": 64.0}, loads.fixed("L1", 16384, "aligned"), 64.0),
        ({"L1": 256.0, "L2": 64.0}, loads.fixed("L1", 16385, "aligned"), 16385 / 64),
        ({"L1": 256.0, "L2": 64.0}, loads.fixed("memory", 64, "aligned"), None),
    ],
)
def test_ceiling_of_a_load(
    ceilings: dict[str, float], load: loads.Load, least_ns: float | None
) -> None:
    levels = {level: {"bytes_per_ns": most} for level, most in ceilings.items()}
    ceiling = results.ceiling_ns(bench_of(ceilings=levels), load)
    assert ceiling == (None if least_ns is None else pytest.approx(least_ns))


def test_the_rival_is_the_faster_one_and_ratios_are_paired() -> None:
    bench = bench_of()
    assert results.rival(bench, GRID[0]) == "fsrm"
    effect = results.against(bench, "wide", "fsrm", GRID[0])
    # The drift within blocks is common to both, so it cancels.
    assert effect.ratio == pytest.approx(0.5) and effect.ci and effect.ci[0] == pytest.approx(0.5)
    bands = results.bands(bench, ("L1", "fixed", "aligned"))
    (band,) = [band for band in bands if band.least == 1025]
    assert (band.name, band.others) == ("wide", ())
    assert band.ratio and band.ratio.ci and band.ratio.ci[1] == pytest.approx(0.5)
    (recorded,) = results.bands(bench, ("L1", "distribution", "recorded"))
    assert (recorded.least, recorded.most, recorded.name) == (8, 4096, "wide")


def test_draws_of_random_sizes_are_a_row_each_and_rivals_those_that_were_timed() -> None:
    draws = [loads.load("L1", "random", 1, most, "any", most / 2) for most in (64, 1024, 65536)]
    names = ("wide", "fsrm")
    ns = {name: {load.id: [1.0 + at] * 8 for load in draws} for at, name in enumerate(names)}
    ranks = zip(names, ("routine", "rival"), strict=True)
    contenders = [{"name": name, "rank": rank} for name, rank in ranks]
    bench = bench_of(loads=draws, ns=ns, contenders=contenders)
    bands = results.bands(bench, ("L1", "random", "any"))
    assert [(band.least, band.most) for band in bands] == [(1, 64), (1, 1024), (1, 65536)]
    assert "× is time ÷ time of fsrm\n" in terminal.text(tables.bench_parts(bench, Screen(100)))
    assert goals(bench)[0].name == "worst time ÷ fsrm, L1"
    assert goals(bench_of())[0].name == "worst time ÷ the faster of fsrm and orig, L1"


def test_the_bound_never_wins_equal_ones_are_named_and_the_mildest_worst_case() -> None:
    rows = bench_of().ns
    winner = results.best(bench_of(ns={**rows, "narrow": rows["wide"]}), GRID[:3], 1, 4096)
    assert winner is not None and winner.name == "wide" and winner.others == ("narrow",)
    slow = {**rows["wide"], GRID[1].id: [30.0 + block for block in range(8)]}
    steady = results.steadiest(bench_of(ns={**rows, "wide": slow}), GRID[:3])
    assert steady is not None and steady.name == "narrow"
    assert steady.ratio.ratio == pytest.approx(0.9)


def test_goals_compare_with_the_right_ones() -> None:
    figures = goals(bench_of(), "wide")
    share = 16.0 / (0.5 * 65 * 1.0035)
    assert [goal.value for goal in figures] == pytest.approx([0.5, share, 1.2, 2.0])
    assert [goal.met for goal in figures] == [True, False, True, True]
    assert "fsrm" in figures[3].name
    assert not goals(bench_of(), "orig")[0].met


def test_a_bench_survives_its_file() -> None:
    bench = bench_of()
    assert parse_bench(json.dumps(to_json(bench)).encode(), "x") == bench


FIRST = "L1/fixed/64/aligned"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda file: file.pop("ns"),
            "ns: is missing; `kdyno lab memcpy bench --json FILE` writes",
        ),
        (lambda file: file["ns"]["wide"].popitem(), "do not belong"),
        (lambda file: file["ns"]["wide"].update({FIRST: [1.0]}), "do not have 8 blocks"),
        (
            lambda file: file["ns"]["wide"].update({FIRST: [-1.0] * 8}),
            r"-1\.0 should be greater than",
        ),
        (lambda file: file["ns"]["wide"].update({FIRST: ["1"] * 8}), '"1", text, is given, but'),
        (lambda file: file["loads"][0].update(id="L1/fixed/65/aligned"), f"is '{FIRST}'"),
        (lambda file: file["loads"][0].update(mean_bytes=1e100), r"1e\+100 should be less than"),
        (lambda file: file["loads"][0].update(most=1 << 40), "should be less than"),
        (lambda file: file["clock"].update(core_ghz=5e-324), "should be greater than"),
        (lambda file: file["contenders"][0].update(rank="rivl"), r'rank: "rivl" .* "rival"'),
        (lambda file: file.update(blocks=True), "blocks: true, true or false, is given"),
        (lambda file: file.update(blocks=0), "blocks: 0 "),
        (lambda file: file["caches"].update(memory=1), "caches.memory"),
        (lambda file: file.update(kind="copies"), 'no "kind": "memcpy-bench"'),
    ],
)
def test_a_damaged_file_is_refused(change: Callable[[Any], object], message: str) -> None:
    data = json.loads(json.dumps(to_json(bench_of())))
    change(data)
    with pytest.raises(UsageError, match=message):
        parse_bench(json.dumps(data).encode(), "bench.json")


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    st.binary(max_size=200)
    | st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["ns", "loads", "blocks", "clock"]), inner)
        ),
        max_leaves=10,
    ).map(lambda value: json.dumps({**to_json(bench_of()), "loads": value, "ns": value}).encode())
)
def test_garbage_is_refused_in_words(content: bytes) -> None:
    with pytest.raises(UsageError, match=r"^file: "):
        parse_bench(content, "file")


def test_replay_reproduces_the_weights() -> None:
    copies = {(8, 0, 8): 600, (64, 5, 0): 300, (4096, 0, 0): 100, (1, 0, 0): 0}
    load = loads.load("L1", "distribution", 1, 4096, "aligned", 1.0)
    plan = replace(loads.quick(), copies=distribution(copies, "t"))
    draws = loads.draws(np.random.default_rng(1), load, plan, 16384)
    sizes, counts = np.unique(draws["size"], return_counts=True)
    assert sizes.tolist() == [8, 64, 4096]
    assert counts / len(draws) == pytest.approx([0.6, 0.3, 0.1], abs=0.01)
    assert set(draws["src"][draws["size"] == 8] % 64) == {8}
    assert set(draws["dst"][draws["size"] == 64] % 64) == {5}


@pytest.mark.slow
@given(
    st.integers(1, 5000),
    st.integers(0, 60000),
    st.integers(0, 1 << 32),
    st.sampled_from(["random", "fixed", "distribution"]),
)
@settings(max_examples=40, deadline=None)
def test_no_draw_leaves_its_room(least: int, more: int, seed: int, mode: str) -> None:
    most = least + more
    room = loads.room_for(most, 1 << 18, "L1")
    least = least if mode == "random" else most
    load = loads.load("L1", mode, least, most, "both", 1.0)
    plan = replace(loads.quick(), copies=distribution({(most, 63, 0): 1}, "t"))
    draws = loads.draws(np.random.default_rng(seed), load, plan, room, 500)
    assert draws["size"].min() >= least and draws["size"].max() <= most
    ends = np.maximum(draws["dst"], draws["src"]).astype(np.int64) + draws["size"]
    assert ends.max() <= room


def test_mean_of_random_sizes() -> None:
    load = loads.load("L1", "random", 1, 1024, "aligned", 1.0)
    draws = loads.draws(np.random.default_rng(7), load, loads.quick(), 1 << 14, 200_000)
    mean = loads.ranged("L1", 1, 1024).mean_bytes
    assert mean == pytest.approx(draws["size"].mean() + 0.5, rel=0.01)
    assert loads.ranged("L1", 1, 16).mean_bytes == round(16 / math.log(17), 4)


def test_a_copy_too_large_is_refused() -> None:
    with pytest.raises(UsageError, match="at most 64 MiB are replayed"):
        loads.quick().with_copies(distribution({(1 << 30, 0, 0): 1}, "t"))


def test_the_plans() -> None:
    quick, full, paper = loads.quick(), loads.full(), loads.paper()
    assert quick.seconds < 60 and 240 <= full.seconds <= 300
    assert len({load.id for load in full.loads}) == len(full.loads)
    assert {load.level for load in full.loads} == set(loads.LEVELS)
    assert {load.alignment for load in full.loads} >= set(loads.ALIGNMENTS)
    sizes = [load.most for load in quick.loads]
    assert (min(sizes), max(sizes)) == (1, 65536)
    assert paper.calls == 5_000_000 and paper.only == ("orig", "saito-oikawa")
    assert [load.least for load in paper.loads] == list(range(128, 2049, 64))
    assert {load.level for load in loads.judged().loads} == {"L1"}


def test_sizes_of_caches_from_files(tmp_path: Path) -> None:
    texts = ("1 Data 48K", "1 Instruction 64K", "2 Unified 2048K", "3 Unified x")
    for number, text in enumerate(texts):
        folder = tmp_path / f"index{number}"
        folder.mkdir()
        for name, word in zip(("level", "type", "size"), text.split(), strict=True):
            (folder / name).write_text(word + "\n")
    caches = loads.caches(tmp_path)
    assert (caches.l1, caches.l2, caches.guessed) == (48 << 10, 2 << 20, ("L3",))
    assert caches.region("L2") == 512 << 10
    assert caches.region("memory") >= 2 * caches.l3


def test_tasks_keep_rivals_together_and_pages_apart(tmp_path: Path) -> None:
    plan = replace(loads.quick(), loads=GRID[:4])
    both = [Contender(name, f"memcpy_{name}", None) for name in ("a", "b")]
    expected = loads.Caches(32768, 1 << 20, 1 << 24)
    tasks, again = (timing.tasks_of(both, plan, expected, 5, tmp_path) for _ in range(2))
    assert tasks == again
    timed = [task for task in tasks if task.lines]
    assert all({line.contender for line in task.lines} == {"a", "b"} for task in timed)
    words = next(t for t in timed if " 64 0 " in t.lines[0].text).lines[0].text.split()
    assert words[0] == "fixed" and words[3:6] == ["64", "0", "2048"]
    # The largest copies last no longer than others: 256 of 64 MiB took as long as one that hangs.
    largest = replace(loads.quick(), loads=()).with_copies(distribution({(64 << 20, 0, 0): 1}, ""))
    *_, task = timing.tasks_of(both, largest, expected, 5, tmp_path)
    assert task.lines[0].text.split()[:4:3] == ["drawn", "4"]
    # Of "behind" the source's low twelve bits are the target's less one.
    places = ((4096, "aligned"), (4096, "aliased"), (64, "behind"))
    assert [timing.page_distance(*place) for place in places] == [192, 0, 4095]


@pytest.mark.slow
def test_the_table_and_the_picture_say_the_same() -> None:
    bench = bench_of()
    text = terminal.text(tables.bench_parts(bench, Screen(100)), Screen(100))
    assert "wide is the fastest over all that was copied in L1" in text
    assert "failed: bad: died of SIGSEGV" in text
    svg = tables.picture(bench)
    assert svg.startswith("<svg") and "Fastest: 17 – 64 bytes: wide" in svg


@pytest.mark.slow
def test_copies_of_nothing_have_a_picture() -> None:
    nothing = loads.load("L1", "distribution", 0, 1, "recorded", 0.5)
    bench = bench_of(loads=[nothing], ns={"wide": {nothing.id: [1.0] * 8}})
    assert tables.picture(bench).startswith("<svg")


def test_sizes_in_words() -> None:
    spans = [tables.span(*ends) for ends in ((1, 16), (4096, 4096), (4097, 65536))]
    assert spans == ["1 – 16", "4 KiB", "4097 – 64 KiB"]
    assert tables.few(("a", "b", "c", "d")) == "a, b, c and 1 more"
