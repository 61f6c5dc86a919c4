# SPDX-License-Identifier: MIT
"""A run's profiles on the terminal, in JSON, on the page, and what `kdyno profile` refuses."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from command_line import Kdyno, kdyno
from synthetic_run import DEMO, HOSTILE, make
from test_docs_examples import examples

from kdyno import labs
from kdyno.errors import UsageError
from kdyno.experiment.model import ConfigFragment, Experiment, Machine, SuiteUse, Variant
from kdyno.kernels.recipe import Recipe
from kdyno.labs.profile import boots as profiling
from kdyno.labs.profile import tables as shown
from kdyno.labs.profile.record import (
    FunctionTime,
    Profile,
    ProfiledBoot,
    Stack,
    stored_profiles,
    to_json,
)
from kdyno.labs.published.article import load as load_article
from kdyno.measure.builder import Recipes
from kdyno.measure.execution import Options, asked_of
from kdyno.report.evidence import gather
from kdyno.report.page import page
from kdyno.report.show import terminal
from kdyno.store.run import Run, write_run
from kdyno.suites.catalogue import load as load_catalogue

__all__ = ["kdyno"]

SECONDS = (0.40, 0.42, 0.38, 0.41, 0.39, 0.40)


def profile(name: str, part: float, function: str = "memcpy") -> Profile:
    boots = tuple(
        ProfiledBoot(
            number,
            5.0 - 0.4 * (1 - part),
            (
                FunctionTime("kernel", function, part * it),
                FunctionTime("kernel", "vfs_read", 0.1 + 0.01 * number, 7),
                FunctionTime("host", "futex", 0.5),
            ),
        )
        for number, it in enumerate(SECONDS)
    )
    stacks = (
        Stack("kernel", ("UML kernel", "vfs_read", function), part * 0.4),
        Stack("host", ("UML kernel", "futex"), 0.5),
    )
    return Profile(name, "perf", "cpu-clock", "", {"a/b": 5}, boots, stacks, ("no counters",))


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    made = make(tmp_path / "runs", replace(DEMO, blocks=6), monkeypatch)
    with write_run(made.path) as writer:
        for name, part in (("stock", 1.0), ("mine", 0.5)):
            writer.save_file(f"{name}.json", to_json(profile(name, part)).encode(), "profile")
    return made


def test_the_terminal_shows_tables_differences_and_the_rest(run: Run) -> None:
    text = terminal.text(shown.parts(stored_profiles(run), "stock", 2))
    assert "stock: perf (cpu-clock), 6 boots, 1.025 s a boot seen of 5.000 s CPU" in text
    assert "others: 1" in text and "note: no counters" in text
    line = next(it for it in text.splitlines() if "memcpy" in it and "*" in it)
    assert line.split()[2:6] == ["memcpy", "0.400", "0.200", "−0.200"]
    assert "−50.0 %" in line
    assert "CPU time, measured" in text
    assert "unexplained: 0.000 s" in text


def test_theirs_stands_beside(run: Run) -> None:
    article = load_article("simd-in-the-kernel")
    text = terminal.text(shown.beside(article, stored_profiles(run), "stock"))
    assert "12.960 s  8.36 %" in text and "not seen" in text
    assert "theirs, memcpy: −32.5 %" in text and "theirs, total: −4.23 %" in text
    assert "today, mine, memcpy: −50.0 % (" in text
    other = load_article("snow-leopard")
    assert "no profile" in terminal.text(shown.beside(other, stored_profiles(run), "stock"))


def test_json_has_what_the_tables_have(run: Run) -> None:
    found = json.loads(json.dumps(shown.as_json(stored_profiles(run), "stock")))
    (delta,) = found["differences"]
    assert delta["variant"] == "mine"
    assert delta["functions"][0]["function"] == "memcpy"
    assert delta["functions"][0]["delta_s"]["mean"] == pytest.approx(-0.2)
    assert [it["variant"] for it in found["profiles"]] == ["stock", "mine"]


def test_the_verb_shows_what_a_run_has(kdyno: Kdyno, run: Run, tmp_path: Path) -> None:
    folded, scope = tmp_path / "out.folded", tmp_path / "out.speedscope.json"
    done = kdyno(
        *("profile", str(run.path), "--show", "--folded", str(folded)),
        *("--speedscope", str(scope), "--json", "-"),
    )
    assert done.status == 0, done.err
    assert json.loads(done.out)["baseline"] == "stock"
    assert "mine;UML kernel;vfs_read;memcpy 200000" in folded.read_text()
    assert len(json.loads(scope.read_text())["profiles"]) == 2
    again = kdyno("report", str(run.path), "-f", "speedscope")
    assert json.loads(again.out) == json.loads(scope.read_text())


@pytest.mark.parametrize("line", [it for it in examples("profile") if "--show" in it])
def test_the_documented_example(
    line: str, kdyno: Kdyno, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    said = kdyno(*shlex.split(line, comments=True)[1:])
    assert said.status == 0, said.err
    assert "memcpy" in said.out
    assert [it["name"] for it in json.loads(Path("out.speedscope.json").read_text())["profiles"]]


def test_the_page_has_bars_a_table_and_a_flame_graph(run: Run) -> None:
    verdict = run.verdict()
    assert verdict is not None
    text = page(replace(gather(run, verdict), sections=labs.sections()), light=True)
    assert '<section id="profile"' in text and "Where the time goes" in text
    assert "Seconds of mine minus the baseline" in text
    assert 'id="flame-data"' in text and "−0.200 s" in text
    assert text.count("<h3>Flame graph</h3>") == 1


def test_names_from_kernels_stay_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = make(tmp_path / "runs", replace(DEMO, blocks=6), monkeypatch)
    with write_run(made.path) as writer:
        hostile = [profile("stock", 1.0, HOSTILE[0]), profile("mine", 0.5, HOSTILE[1])]
        for it in hostile:
            writer.save_file(f"{it.variant}.json", to_json(it).encode(), "profile")
    verdict = made.verdict()
    assert verdict is not None
    text = page(replace(gather(made, verdict), sections=labs.sections()), light=True)
    assert "<script>alert" not in text and "<img src=x" not in text
    assert "\x1b" not in terminal.text(shown.parts(stored_profiles(made), "stock"))


def test_a_damaged_profile_is_told_on_the_page(kdyno: Kdyno, run: Run) -> None:
    (run.path / "profile" / "mine.json").write_text("{")
    verdict = run.verdict()
    assert verdict is not None
    found = replace(gather(run, verdict), sections=labs.sections())
    assert "The profile cannot be shown" in page(found, light=True)
    done = kdyno("profile", str(run.path), "--show")
    assert done.status == 1 and "mine.json: damaged" in done.err


def test_a_run_without_a_profile_says_so(
    kdyno: Kdyno, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = make(tmp_path / "runs", replace(DEMO, blocks=1), monkeypatch)
    done = kdyno("profile", str(made.path), "--show")
    assert done.status == 2 and "has no profile" in done.err
    done = kdyno("report", str(made.path), "-f", "speedscope")
    assert done.status == 2 and "has no profile" in done.err


def experiment(*variants: Variant, kind: str = "uml") -> Experiment:
    uses = (SuiteUse("unixbench", ("pipe",)),)
    return Experiment("x", "?", "stock", variants, uses, Machine(kind))


def test_what_cannot_be_profiled_is_refused_before_anything_is_built() -> None:
    stock = Variant("stock", "debian:linux-source-7.3")
    with pytest.raises(UsageError, match="there are perf, gprof, count"):
        profiling.require(experiment(stock), "oprofile")
    with pytest.raises(UsageError, match=r"kind is 'host'"):
        profiling.require(experiment(stock, kind="host"), "gprof")
    smp = replace(stock, name="smp", config=(ConfigFragment("smp.config", ("CONFIG_SMP=y",)),))
    with pytest.raises(UsageError, match=r"'smp' has CONFIG_SMP=y \(from smp.config\)"):
        profiling.require(experiment(stock, smp), "gprof")


def test_a_run_that_is_only_profiled_says_what_it_was_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = cast(Recipe, SimpleNamespace(digest="d"))
    recipes = Recipes({"stock": recipe, "mine": recipe}, {"other": "no such patch"})
    monkeypatch.setattr(profiling, "check", lambda *_, **_more: recipes)
    variants = (Variant("stock", ""), Variant("mine", "", cpus=1), Variant("other", ""))
    asked = replace(experiment(*variants), machine=Machine("uml", memory_bytes=1 << 28))
    options = Options(tmp_path, tmp_path / "runs")
    made = profiling.begin(asked, load_catalogue(), options).manifest()
    assert made.asked == asked_of(asked)["asked"] and made.asked.question == "?"
    assert made.machine is not None and made.machine.memory_bytes == 1 << 28
    cpus = {name: it.cpus for name, it in made.variants.items()}
    assert cpus == {"stock": None, "mine": 1, "other": None}
    assert (made.state, made.stopped) == ("interrupted", "profiled, not measured")
    assert made.images == {"stock": "d", "mine": "d"}
    assert made.failed == {"other": "no such patch"}


def test_a_sibling_has_one_fragment_more() -> None:
    stock = Variant("stock", "debian:linux-source-7.3", cpus=2)
    (found,) = profiling.with_fragment(experiment(stock), profiling.GPROF).variants
    assert "CONFIG_GPROF=y" in found.config[-1].lines
    assert "# CONFIG_SMP is not set" in found.config[-1].lines
    assert found.cpus is None


def test_the_verb_refuses_nonsense(kdyno: Kdyno, tmp_path: Path) -> None:
    file = tmp_path / "x.toml"
    assert kdyno("profile", str(file)).status == 2
    done = kdyno("profile", str(file), "--show")
    assert done.status == 2 and "--show goes with a run" in done.err
    done = kdyno("profile", "last", "--published", "nonsense", "--runs", str(tmp_path))
    assert done.status == 2 and "no such article" in done.err
