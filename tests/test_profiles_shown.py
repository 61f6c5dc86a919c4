# SPDX-License-Identifier: MIT
"""Profiles: on disk, the differences of two, on the terminal, in JSON, on the page, and what
`kdyno profile` refuses."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from command_line import Kdyno
from hypothesis import given, strategies as st
from site_runs import evidence_of
from synthetic_run import DEMO, Shape, make

from kdyno import labs
from kdyno.errors import ToolError, UsageError
from kdyno.experiment.model import ConfigFragment, Experiment, Machine, SuiteUse, Variant
from kdyno.kernels.recipe import Recipe
from kdyno.labs.profile import boots as profiling, record, tables
from kdyno.labs.profile.boots import Profiler
from kdyno.labs.profile.record import FunctionTime, Profile, ProfiledBoot, Stack, to_json
from kdyno.labs.profile.tables import difference, rows, total
from kdyno.measure.bench import Bench
from kdyno.measure.builder import Recipes
from kdyno.measure.execution import Options, asked_of
from kdyno.report.page import page
from kdyno.report.show import terminal
from kdyno.stats.effect import difference_of, mean_of, relative
from kdyno.store.run import Run, write_run
from kdyno.suites.catalogue import load as load_catalogue

SHORT = replace(DEMO, blocks=6)
MEMCPY = (0.40, 0.42, 0.38, 0.41, 0.39, 0.40)


def profile(
    name: str, part: float = 1.0, function: str = "memcpy", saved_s: float = 0.0
) -> Profile:
    """memcpy takes ``part`` of its seconds; the host counted ``saved_s`` less in all."""
    boots = tuple(
        ProfiledBoot(
            block,
            5.0 - saved_s,
            (
                FunctionTime("kernel", function, part * seconds),
                FunctionTime("kernel", "vfs_read", 0.1, 12345),
                FunctionTime("host", "futex", 0.5),
            ),
        )
        for block, seconds in enumerate(MEMCPY)
    )
    stacks = (
        Stack("kernel", ("UML kernel", "vfs_read", function), part * 0.4),
        Stack("host", ("UML kernel", "futex"), 0.5),
    )
    return Profile(name, "perf", "cpu-clock", "", {"a/b": 5}, boots, stacks, ("no counters",))


STOCK, HALF = profile("stock"), profile("mine", 0.5, saved_s=0.3)


def test_json_and_back(tmp_path: Path) -> None:
    file = tmp_path / "stock.json"
    file.write_text(to_json(STOCK))
    assert record.read_profile(file) == STOCK
    assert json.loads(file.read_text())["schema"] == 1
    with pytest.raises(ToolError, match="No such file"):
        record.read_profile(tmp_path / "none.json")


@pytest.mark.parametrize(
    ("before", "after", "word"),
    [
        ('"schema": 1', '"schema": 2', "schema"),
        ('"perf"', '"top"', "method"),
        ('"where": "kernel"', '"where": "moon"', "where"),
        ('"seconds": 0.4', '"seconds": -1', "seconds"),
        ('"seconds": 0.4', '"seconds": NaN', ""),
        ('"block": 1', '"block": 0', "twice"),
        ('"calls": 12345', '"calls": 1.5', "calls"),
    ],
)
def test_damage_is_told_with_its_place(before: str, after: str, word: str) -> None:
    text = to_json(STOCK)
    assert before in text
    with pytest.raises(ToolError, match=rf"p\.json: damaged.*{word}"):
        record.from_bytes(text.replace(before, after).encode(), Path("p.json"))


@given(st.integers(0, 4000), st.binary(max_size=4))
def test_any_damage_is_read_or_refused(at: int, garbage: bytes) -> None:
    data = to_json(STOCK).encode()
    try:
        record.from_bytes(data[:at] + garbage + data[at + len(garbage) :], Path("p.json"))
    except ToolError as problem:
        assert "p.json" in str(problem)


def test_seconds_share_and_interval() -> None:
    table = {row.function: row for row in rows(STOCK)}
    assert list(table) == ["futex", "memcpy", "vfs_read"]
    assert table["memcpy"].seconds.mean == pytest.approx(0.4)
    assert table["memcpy"].share == pytest.approx(0.4)
    # Student's t with 5 degrees of freedom at 97.5 %: 2.5706.
    half = 2.570582 * math.sqrt(0.001 / 5) / math.sqrt(6)
    assert table["memcpy"].seconds.ci == pytest.approx((0.4 - half, 0.4 + half), rel=1e-5)
    assert table["vfs_read"].calls == 12345 and table["memcpy"].calls is None
    assert table["vfs_read"].seconds.ci is None  # no spread, nothing to judge by
    assert total(STOCK).mean == pytest.approx(1.0)


def test_a_difference_adds_up() -> None:
    changes = difference(STOCK, HALF)
    first = changes.changes[0]
    assert (first.where, first.function) == ("kernel", "memcpy")
    assert first.delta_s.mean == pytest.approx(-0.2) and first.delta_s.clear
    assert first.relative is not None and first.relative.mean == pytest.approx(-0.5)
    whole = sum(change.delta_s.mean for change in changes.changes)
    assert changes.sampled.delta_s.mean == pytest.approx(-0.2)
    assert changes.sampled.delta_s.mean == pytest.approx(whole)
    assert changes.measured is not None and changes.measured.delta_s.mean == pytest.approx(-0.3)
    assert changes.unexplained_s == pytest.approx(-0.1)
    # Seconds of cycles are made to add up.
    cycles = difference(replace(STOCK, event="cycles"), replace(HALF, event="cycles"))
    assert cycles.measured == changes.measured and cycles.unexplained_s is None
    by_where = {change.where: change.delta_s.mean for change in changes.by_where}
    assert by_where == {"kernel": pytest.approx(-0.2), "host": pytest.approx(0.0)}
    # A function in one kernel only counts as none in the other.
    bare = Profile("bare", "perf", "cpu-clock", "", {"a/b": 5}, (ProfiledBoot(0, None, ()),))
    changes = difference(STOCK, bare)
    assert changes.measured is None and changes.unexplained_s is None
    memcpy = next(change for change in changes.changes if change.function == "memcpy")
    assert memcpy.variant_s == 0 and memcpy.delta_s.n == 1 and memcpy.delta_s.ci is None
    for other in (replace(HALF, operations={"a/b": 6}), replace(HALF, method="gprof")):
        with pytest.raises(UsageError, match="work" if other.method == "perf" else "method"):
            difference(STOCK, other)


def test_additive_estimates() -> None:
    assert mean_of([]).n == 0
    assert mean_of([1.0] * 5).ci is None
    with pytest.raises(ValueError, match="finite"):
        mean_of([1.0, math.nan])
    # Only blocks that both have.
    estimate = difference_of({0: 1.0, 1: 2.0, 7: 9.0}, {0: 1.5, 1: 2.5})
    assert estimate.n == 2 and estimate.mean == pytest.approx(0.5)
    assert relative({0: 0.0}, {0: 1.0}) is None


@pytest.mark.slow
@given(st.lists(st.floats(0, 1e6), min_size=6, max_size=30))
def test_the_interval_holds_the_mean(values: list[float]) -> None:
    estimate = mean_of(values)
    if estimate.ci is not None:
        assert estimate.ci[0] <= estimate.mean <= estimate.ci[1]


def profiled(runs: Path, *profiles: Profile, shape: Shape = SHORT) -> Run:
    run = make(runs, shape)
    with write_run(run.path) as writer:
        for own in profiles:
            writer.save_file(f"{own.variant}.json", to_json(own).encode(), "profile")
    return run


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return profiled(tmp_path / "runs", STOCK, profile("mine", 0.5, saved_s=0.2))


def page_of(run: Run) -> str:
    return page(replace(evidence_of(run), sections=labs.reports()), home="../index.html")


@pytest.mark.slow
def test_the_terminal_shows_tables_differences_and_the_rest(run: Run) -> None:
    text = terminal.text(tables.parts(record.stored_profiles(run), "stock", 2))
    assert "stock: perf (cpu-clock), 6 boots, 1.000 s a boot seen of 5.000 s CPU" in text
    assert "others: 1" in text and "note: no counters" in text
    line = next(row for row in text.splitlines() if "memcpy" in row and "*" in row)
    assert line.split()[2:6] == ["memcpy", "0.400", "0.200", "−0.200"]
    assert "−50.0 %" in line
    assert "CPU time, measured" in text
    assert "unexplained: 0.000 s" in text


@pytest.mark.slow
def test_the_verb_shows_what_a_run_has(kdyno: Kdyno, run: Run, tmp_path: Path) -> None:
    folded = tmp_path / "out.folded"
    result = kdyno("profile", run.path, "--show", "--folded", folded, "--json", "-")
    assert result.status == 0, result.err
    data = json.loads(result.out)
    (delta,) = data["differences"]
    assert (data["baseline"], delta["variant"]) == ("stock", "mine")
    assert delta["functions"][0]["function"] == "memcpy"
    assert delta["functions"][0]["delta_s"]["mean"] == pytest.approx(-0.2)
    assert [own["variant"] for own in data["profiles"]] == ["stock", "mine"]
    assert "mine (perf);UML kernel;vfs_read;memcpy 200000" in folded.read_text()
    assert kdyno("report", run.path, "-f", "folded").out == folded.read_text()
    stacks = kdyno("profile", run.path, "--show", "--folded", "-")
    assert stacks.out == folded.read_text()


@pytest.mark.slow
def test_the_page_has_differences_functions_and_a_flame_graph(kdyno: Kdyno, run: Run) -> None:
    text = page_of(run)
    assert '<section id="profile"' in text and "Where the time goes" in text
    assert "Seconds of mine minus the baseline" in text
    assert 'id="flame-data"' in text and "−0.200" in text
    assert text.count("<h3>Flame graph</h3>") == 1
    (run.path / "profile" / "mine.json").write_text("{")
    assert "The profile cannot be shown" in page_of(run)
    result = kdyno("profile", run.path, "--show")
    assert result.status == 1 and "mine.json: damaged" in result.err


@pytest.mark.slow
def test_replace_asks_nothing_of_what_it_replaces(run: Run) -> None:
    (run.path / "profile" / "mine.json").write_text("{")
    request = profiling.Request("perf", 1, 1.0, False, True)
    with write_run(run.path) as writer:
        bench, profiler = cast(Bench, None), cast(Profiler, None)
        assert profiling._earlier(writer, bench, profiler, request) == {}


def experiment(*variants: Variant, kind: str = "uml") -> Experiment:
    uses = (SuiteUse("unixbench", ("pipe",)),)
    return Experiment("x", "?", "stock", variants, uses, Machine(kind))


def test_what_cannot_be_profiled_is_refused_before_anything_is_built() -> None:
    stock = Variant("stock", "debian:linux-source-7.3")
    smp = replace(stock, name="smp", config=(ConfigFragment("smp.config", ("CONFIG_SMP=y",)),))
    for request, method, message in (
        (experiment(stock), "oprofile", "there are perf, gprof, count"),
        (experiment(stock, kind="host"), "gprof", "kind is 'host'"),
        (experiment(stock, smp), "gprof", r"'smp' has CONFIG_SMP=y \(from smp.config\)"),
    ):
        with pytest.raises(UsageError, match=message):
            profiling.require(request, method)


def test_a_sibling_has_one_fragment_more() -> None:
    stock = Variant("stock", "debian:linux-source-7.3", cpus=2)
    (variant,) = profiling.with_fragment(experiment(stock), profiling.GPROF).variants
    assert "CONFIG_GPROF=y" in variant.config[-1].lines
    assert "# CONFIG_SMP is not set" in variant.config[-1].lines
    assert variant.cpus is None
    (variant,) = profiling.with_fragment(experiment(stock), profiling.FRAMES).variants
    assert variant.cpus == 2


def test_what_a_profiled_run_was_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = cast(Recipe, SimpleNamespace(digest="d"))
    recipes = Recipes({"stock": recipe, "mine": recipe}, {"other": "no such patch"})
    monkeypatch.setattr(profiling, "check", lambda *_, **_more: recipes)
    variants = (Variant("stock", ""), Variant("mine", "", cpus=1), Variant("other", ""))
    request = replace(experiment(*variants), machine=Machine("uml", memory_bytes=1 << 28))
    options = Options(tmp_path, tmp_path / "runs")
    manifest = profiling.begin(request, load_catalogue(), options).manifest()
    assert manifest.asked == asked_of(request)["asked"] and manifest.asked.question == "?"
    assert manifest.machine is not None and manifest.machine.memory_bytes == 1 << 28
    cpus = {name: variant.cpus for name, variant in manifest.variants.items()}
    assert cpus == {"stock": None, "mine": 1, "other": None}
    assert (manifest.state, manifest.stopped) == ("interrupted", "profiled, not measured")
    assert manifest.images == {"stock": "d", "mine": "d"}
    assert manifest.failed == {"other": "no such patch"}


def test_a_run_without_a_profile(kdyno: Kdyno, tmp_path: Path) -> None:
    run = make(tmp_path / "runs", replace(DEMO, blocks=1)).path
    result = kdyno("report", run, "-f", "folded")
    assert result.status == 2 and "has no profile" in result.err
    (moved := tmp_path / "elsewhere").mkdir()
    run = run.rename(moved / run.name)
    for words in (("profile", "--show", run), ("lab", "vectorize", "--profile", run)):
        assert f"`kdyno profile {run.name} --runs {moved}` makes one" in kdyno(*words).err
