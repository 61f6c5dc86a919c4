# SPDX-License-Identifier: MIT
"""What a bench of memory routines says: replay, ceilings, ratios, goals, files, the page."""

from __future__ import annotations

import csv
import io
import json
import math
import shlex
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from command_line import Kdyno, kdyno
from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic_run import Shape, case, make
from test_docs_examples import examples

from kdyno.errors import UsageError
from kdyno.kernels.routines.checking import Contender
from kdyno.labs.memcpy import loads, results, section, tables, timing
from kdyno.labs.memcpy.copies import Copy, distribution
from kdyno.labs.memcpy.results import Bench, goals, parse_bench, read_bench, to_json
from kdyno.report.show import terminal
from kdyno.report.show.terminal import Screen

__all__ = ["kdyno"]

GRID = (
    loads.fixed("L1", 64, "aligned"),
    loads.fixed("L1", 1024, "aligned"),
    loads.fixed("L1", 4096, "aligned"),
    loads.fixed("memory", 4096, "aligned"),
    loads.load("L1", "distribution", 8, 4096, "recorded", 500.0),
)


def bench_of(**changed: object) -> Bench:
    """Eight blocks; ``wide`` takes half the time of fsrm, orig twice as long as that."""
    base = {load.id: 1.0 + load.mean_bytes / 64 for load in GRID}
    factors = {"wide": 0.5, "narrow": 0.9, "fsrm": 1.0, "orig": 2.0, "glibc": 0.6, "nothing": 0.1}
    ns = {
        name: {
            load: [value * factor * (1 + 0.001 * block) for block in range(8)]
            for load, value in base.items()
        }
        for name, factor in factors.items()
    }
    ranks = {"fsrm": "rival", "orig": "rival", "glibc": "other", "nothing": "bound"}
    bench = {
        "plan": "quick",
        "created": "2026-11-21T12:00:00+00:00",
        "cpu": "Test CPU",
        "seed": 1,
        "blocks": 8,
        "seconds": 10.0,
        "clock": {"tsc_ghz": 2.5, "core_ghz": 4.0},
        "contenders": [
            {"name": name, "help": "h", "rank": ranks.get(name, "routine")} for name in factors
        ],
        "loads": list(GRID),
        "ns": ns,
        "ghz": {load.id: 4.0 for load in GRID},
        "ceilings": {
            "L1": {"bytes_per_ns": 256.0, "how": "stores"},
            "memory": {"bytes_per_ns": 16.0, "how": "copies"},
        },
        "caches": {"L1": 32768, "L2": 1 << 20, "L3": 1 << 24},
        "failed": {"bad": "died of SIGSEGV"},
        "left_out": {"mine": "fails its check: <b>bytes</b>"},
        "remarks": [],
    }
    return Bench.model_validate({**bench, **changed})


def test_shares_and_cycles_are_those_of_the_ceiling() -> None:
    bench, load = bench_of(), GRID[2]
    ns = 0.5 * (1 + 4096 / 64) * 1.0035
    assert results.ns(bench, "wide", load) == pytest.approx(ns)
    (row,) = [it for it in results.timings(bench, [load]) if it.contender == "wide"]
    assert row.bytes_per_cycle == pytest.approx(4096 / (ns * 4.0))
    assert results.ceiling_ns(bench, load) == pytest.approx(16.0)
    assert results.share(bench, "wide", load) == pytest.approx(16.0 / ns)
    assert results.ceiling_ns(bench, GRID[3]) == pytest.approx(256.0)


def test_what_does_not_fit_is_held_against_the_next_level() -> None:
    bench = bench_of(
        ceilings={
            level: {"bytes_per_ns": most, "how": ""}
            for level, most in (("L1", 256.0), ("L2", 64.0))
        }
    )
    assert results.ceiling_ns(bench, loads.fixed("L1", 16384, "aligned")) == pytest.approx(64.0)
    assert results.ceiling_ns(bench, loads.fixed("L1", 16385, "aligned")) == pytest.approx(
        16385 / 64
    )
    assert results.ceiling_ns(bench, loads.fixed("memory", 64, "aligned")) is None


def test_the_rival_is_the_faster_one_and_ratios_are_paired() -> None:
    bench = bench_of()
    assert results.rival(bench, GRID[0]) == "fsrm"
    effect = results.against(bench, "wide", "fsrm", GRID[0])
    # The drift within blocks is common to both, so it cancels.
    assert effect.ratio == pytest.approx(0.5) and effect.lo == pytest.approx(0.5)
    (band,) = [it for it in results.bands(bench, "L1", "fixed", "aligned") if it.least == 1025]
    assert (band.name, band.others) == ("wide", ())
    assert band.ratio is not None and band.ratio.hi == pytest.approx(0.5)


def test_recorded_copies_are_one_band() -> None:
    (only,) = results.bands(bench_of(), "L1", "distribution", "recorded")
    assert (only.least, only.most, only.name) == (8, 4096, "wide")


def test_the_bound_never_wins_and_equal_ones_are_named() -> None:
    bench = bench_of()
    bench = bench_of(ns={**bench.ns, "narrow": bench.ns["wide"]})
    winner = results.best(bench, GRID[:3], 1, 4096)
    assert winner is not None and winner.name == "wide" and winner.others == ("narrow",)


def test_the_mildest_worst_case() -> None:
    bench = bench_of()
    slow = {**bench.ns["wide"], GRID[1].id: [30.0 + block for block in range(8)]}
    found = results.steadiest(bench_of(ns={**bench.ns, "wide": slow}), GRID[:3])
    assert found is not None and found.name == "narrow"
    assert found.ratio.ratio == pytest.approx(0.9)


def test_goals_compare_with_the_right_ones() -> None:
    worst, share, glibc, rival = goals(bench_of(), "wide")
    assert worst.value == pytest.approx(0.5) and worst.met
    assert share.value == pytest.approx(16.0 / (0.5 * 65 * 1.0035)) and not share.met
    assert glibc.value == pytest.approx(1.2) and glibc.met
    assert rival.value == pytest.approx(2.0) and "fsrm" in rival.name and rival.met
    assert not goals(bench_of(), "orig")[0].met


@pytest.mark.parametrize("line", [it for it in examples("lab memcpy bench") if "--from" in it])
def test_the_documented_example(
    line: str, kdyno: Kdyno, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bench.json").write_text(json.dumps(to_json(bench_of())))
    said = kdyno(*shlex.split(line, comments=True)[1:])
    assert said.status == 0, said.err
    rows = list(csv.DictReader(io.StringIO(said.out)))
    assert {"wide", "narrow", "fsrm"} <= {value for row in rows for value in row.values()}


def test_a_bench_survives_its_file() -> None:
    bench = bench_of()
    again = parse_bench(json.dumps(to_json(bench)).encode(), "x")
    assert again.loads == bench.loads and again.failed == bench.failed
    assert again.ns["wide"][GRID[0].id][0] == pytest.approx(1.0)
    assert to_json(again) == to_json(bench)


@pytest.mark.slow
def test_a_run_keeps_a_bench_and_shows_it(
    kdyno: Kdyno, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make(tmp_path / "runs", Shape(cases=(case(0),), variants={"mine": 1.1}), monkeypatch)
    source = tmp_path / "bench.json"
    source.write_text(json.dumps(to_json(bench_of())))
    words = (
        "lab",
        "memcpy",
        "bench",
        "--from",
        str(source),
        "--runs",
        str(run.path.parent),
        "--into",
    )
    assert kdyno(*words, "no-such-run").status == 2
    said = kdyno(*words, run.path.name)
    assert said.status == 0 and run.path.name in said.err
    kept = read_bench(run.path / "memcpy" / "bench.json")
    assert to_json(kept) == to_json(bench_of())
    shown = kdyno("report", str(run.path), "-f", "html", "-o", "-")
    assert "Memory routines" in shown.out


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda it: it.pop("ns"), "ns: is missing; `kdyno lab memcpy bench --json FILE` writes"),
        (lambda it: it["ns"]["wide"].popitem(), "do not belong"),
        (lambda it: it["ns"]["wide"].update({GRID[0].id: [1.0]}), "do not have 8 blocks"),
        (
            lambda it: it["ns"]["wide"].update({GRID[0].id: [-1.0] * 8}),
            r"-1\.0 should be greater than",
        ),
        (
            lambda it: it["ns"]["wide"].update({GRID[0].id: ["1"] * 8}),
            '"1", text, is given, but',
        ),
        (lambda it: it["loads"][0].update(id="L1/fixed/65/aligned"), "is 'L1/fixed/64/aligned'"),
        (
            lambda it: it["contenders"][0].update(rank="rivl"),
            r'rank: "rivl" .* "rival"',
        ),
        (lambda it: it.update(blocks=True), "blocks: true, true or false, is given"),
        (lambda it: it.update(kind="copies"), 'no "kind": "memcpy-bench"'),
    ],
)
def test_a_damaged_file_is_refused(change: object, message: str) -> None:
    data = json.loads(json.dumps(to_json(bench_of())))
    change(data)  # type: ignore[operator]
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
    ).map(lambda it: json.dumps({**to_json(bench_of()), "loads": it, "ns": it}).encode())
)
def test_garbage_is_refused_in_words(content: bytes) -> None:
    with pytest.raises(UsageError, match=r"^file: "):
        parse_bench(content, "file")


def pool(
    mode: str,
    least: int,
    most: int,
    room: int,
    *,
    alignment: str = "aligned",
    copies: dict[tuple[int, int, int], int] | None = None,
    trace: tuple[Copy, ...] = (),
    count: int = loads.POOL,
    seed: int = 1,
) -> loads.Draws:
    load = loads.load("L1", mode, least, most, alignment, 1.0)
    recorded = distribution(copies, "t") if copies else None
    material = loads.Material(loads.quick(), recorded, trace)
    return loads.draws(np.random.default_rng(seed), load, material, room, count)


def test_replay_reproduces_the_weights() -> None:
    copies = {(8, 0, 8): 600, (64, 5, 0): 300, (4096, 0, 0): 100, (1, 0, 0): 0}
    drawn = pool("distribution", 1, 4096, 16384, copies=copies)
    sizes, counts = np.unique(drawn["size"], return_counts=True)
    assert sizes.tolist() == [8, 64, 4096]
    assert counts / len(drawn) == pytest.approx([0.6, 0.3, 0.1], abs=0.01)
    assert set(drawn["src"][drawn["size"] == 8] % 64) == {8}
    assert set(drawn["dst"][drawn["size"] == 64] % 64) == {5}


def test_a_trace_keeps_its_order() -> None:
    trace = tuple(Copy(size, size % 64, 3) for size in (5, 700, 64, 1))
    drawn = pool("trace", 1, 700, 16384, trace=trace, count=10)
    assert drawn["size"].tolist() == [5, 700, 64, 1, 5, 700, 64, 1, 5, 700]
    assert (drawn["dst"] % 64).tolist()[:4] == [5, 60, 0, 1]


@given(st.integers(1, 5000), st.integers(0, 60000), st.integers(0, 1 << 32), st.sampled_from("rcw"))
@settings(max_examples=40, deadline=None)
def test_no_draw_leaves_its_room(least: int, more: int, seed: int, kind: str) -> None:
    most = least + more
    room = loads.room_for(most, 1 << 18, "L1")
    if kind == "r":
        drawn = pool("random", least, most, room, count=500, seed=seed)
        assert drawn["size"].min() >= least and drawn["size"].max() <= most
    elif kind == "c":
        drawn = pool("fixed", most, most, room, alignment="both", count=500, seed=seed)
    else:
        copies = {(most, 63, 0): 1}
        drawn = pool("distribution", most, most, room, copies=copies, count=500, seed=seed)
    ends = np.maximum(drawn["dst"], drawn["src"]).astype(np.int64) + drawn["size"]
    assert ends.max() <= room


def test_mean_of_random_sizes() -> None:
    drawn = pool("random", 1, 1024, 1 << 14, count=200_000, seed=7)
    mean = loads.ranged("L1", 1, 1024).mean_bytes
    assert mean == pytest.approx(drawn["size"].mean() + 0.5, rel=0.01)
    assert loads.ranged("L1", 1, 16).mean_bytes == round(16 / math.log(17), 4)


def test_a_copy_too_large_for_its_room_is_refused() -> None:
    with pytest.raises(UsageError, match="100000 bytes does not fit"):
        pool("fixed", 100_000, 100_000, 4096, count=10)
    with pytest.raises(UsageError, match="at most 64 MiB are replayed"):
        loads.with_copies(loads.quick(), distribution({(1 << 30, 0, 0): 1}, "t"))


def test_the_plans() -> None:
    quick, full, paper = loads.quick(), loads.full(), loads.paper()
    assert quick.seconds < 60 and 240 <= full.seconds <= 300
    assert len({it.id for it in full.loads}) == len(full.loads)
    assert {it.level for it in full.loads} == set(loads.LEVELS)
    assert {it.alignment for it in full.loads} >= set(loads.ALIGNMENTS)
    assert min(it.least for it in quick.loads) == 1 and max(it.most for it in quick.loads) == 65536
    assert paper.calls == 5_000_000 and paper.only == ("orig", "saito-oikawa")
    sizes = [it.least for it in paper.loads]
    assert (sizes[0], sizes[-1]) == (128, 2048) and 512 in sizes and 576 in sizes
    assert loads.judged().loads[0].level == "L1"


def test_sizes_of_caches_from_files(tmp_path: Path) -> None:
    for number, (level, kind, size) in enumerate(
        [
            ("1", "Data", "48K"),
            ("1", "Instruction", "64K"),
            ("2", "Unified", "2048K"),
            ("3", "", "x"),
        ]
    ):
        folder = tmp_path / f"index{number}"
        folder.mkdir()
        for name, text in (("level", level), ("type", kind), ("size", size)):
            (folder / name).write_text(text + "\n")
    found = loads.caches(tmp_path)
    assert (found.l1, found.l2, found.guessed) == (48 << 10, 2 << 20, ("L3",))
    assert found.region("L2") == 512 << 10
    assert found.region("memory") >= 2 * found.l3


def test_tasks_keep_rivals_together_and_pages_apart(tmp_path: Path) -> None:
    plan = replace(loads.quick(), loads=GRID[:4])
    both = [Contender(name, f"memcpy_{name}", None, "") for name in ("a", "b")]
    known = loads.Caches(32768, 1 << 20, 1 << 24)
    tasks = timing.tasks_of(both, loads.Material(plan), known, 5, tmp_path)
    again = timing.tasks_of(both, loads.Material(plan), known, 5, tmp_path)
    assert tasks == again
    timed = [task for task in tasks if task.lines]
    assert all({line.contender for line in task.lines} == {"a", "b"} for task in timed)
    words = next(t for t in timed if " 64 0 " in t.lines[0].text).lines[0].text.split()
    assert words[0] == "fixed" and words[3:6] == ["64", "0", "2048"]
    assert timing.page_distance(4096, "aligned") == 192
    assert timing.page_distance(4096, "aliased") == 0
    # The source's low twelve bits are the target's less one.
    assert timing.page_distance(64, "behind") == 4096 - 1


@pytest.mark.slow
def test_the_table_the_csv_and_the_page_say_the_same() -> None:
    bench = bench_of()
    text = terminal.text(tables.bench_parts(bench, Screen(100)), Screen(100))
    assert "wide is the fastest over all that was copied in L1" in text
    assert "failed: bad: died of SIGSEGV" in text
    rows = list(csv.DictReader(io.StringIO(tables.bench_csv(bench))))
    assert len(rows) == 6 * len(GRID) and len(rows[0]) == 16
    first = next(it for it in rows if it["contender"] == "wide")
    assert float(first["time_ratio"]) == pytest.approx(0.5) and first["rival"] == "fsrm"
    html, svg = section.page(bench), section.picture(bench)
    assert "&lt;b&gt;bytes" in html and "<b>bytes" not in html
    assert "http://" not in html.replace("http://www.w3.org", "") and 'role="img"' in html
    assert svg.startswith("<svg") and "Fastest: 17 – 64 bytes: wide" in svg


def test_sizes_in_words() -> None:
    assert tables.span(1, 16) == "1 – 16"
    assert tables.span(4096, 4096) == "4 KiB"
    assert tables.span(4097, 65536) == "4097 – 64 KiB"
    assert tables.few(("a", "b", "c", "d")) == "a, b, c and 1 more"
