# SPDX-License-Identifier: MIT
"""Several links of each kernel: how they are made, which is booted when, what they tell."""

from __future__ import annotations

import math
import re
import subprocess
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from fake_run import asking, bench, boots_of, measured, steady
from toy_kernel import OBJECTS, Toy, says, variant

from kdyno.errors import BuildError, UsageError
from kdyno.experiment import loader
from kdyno.experiment.loader import Overrides, apply
from kdyno.judge import flags, judging
from kdyno.judge.judging import judged_all, look, verdict_of
from kdyno.judge.pairs import Judged, Pair
from kdyno.kernels import image as trunks, leavings
from kdyno.kernels.build import build
from kdyno.kernels.image import Image
from kdyno.measure.bench import check_machine
from kdyno.measure.vocabulary import vocabulary
from kdyno.stats.effect import Floats
from kdyno.store.manifest import CaseInfo
from kdyno.store.samples import Samples
from kdyno.suites.catalogue import load as load_suites

SECTIONS = {
    "fs/pipe.o": (".text.pipe_read", ".text.pipe_write", ".text.pipe_poll"),
    "fs/open.o": (".text.do_open", ".text.do_close"),
    "kernel/sched/core.o": (".sched.text", ".text.wake_up"),
    "arch/x86/lib/copy.o": (".text",),
}
SCRIPT = """SECTIONS
{
  .text : {
    *(.text.hot .text.hot.*)
    *(.text .text.[_0-9A-Za-z]* .text.fixup)
    __sched_text_start = .; *(.sched.text) __sched_text_end = .;
  }
  .init.text : { *(.init.text .text.startup) }
}
"""
LINKED = {
    "scripts/extra.mk": "link = $(CC) -Wl,--build-id=none -Wl,-T,arch/um/kernel/vmlinux.lds "
    "-o linux $(objects)\n"
    "linux: arch/um/kernel/vmlinux.lds\n"
    "arch/um/kernel/vmlinux.lds:\n"
    "\t@mkdir -p $(@D) && ld -pie --verbose | sed '1,/^====/d;/^====/,$$d' > $@\n"
}
"""A toy that is linked by a script of its own, as Linux is."""


def order(script: str) -> list[str]:
    return re.findall(r"\*([^ ()]*\([^ ()]*\))", script)


def test_an_order_depends_on_names_alone_and_padding_stays_small() -> None:
    first, second = (leavings.reordered(SCRIPT, SECTIONS, seed) for seed in (1, 2))
    assert leavings.reordered(SCRIPT, dict(reversed(SECTIONS.items())), 1) == first != second
    fewer = {path: names[:2] for path, names in SECTIONS.items() if path != "fs/open.o"}
    gone = {"(.text.do_open)", "(.text.do_close)", "(.text.pipe_poll)"}
    rest = [each for each in order(first) if each not in gone]
    assert order(leavings.reordered(SCRIPT, fewer, 1)) == rest
    scripts = [leavings.reordered(SCRIPT, SECTIONS, seed) for seed in range(1, 200)]
    assert len({tuple(order(script)) for script in scripts}) > 100
    steps = re.findall(r"\+ (\d+);", "".join(scripts))
    assert {int(step) for step in steps} == {16, 32, 48, 64}
    with pytest.raises(BuildError, match="no statement for"):
        leavings.reordered("SECTIONS { .data : { *(.data) } }", SECTIONS, 1)


def test_functions_of_an_object_stay_together_and_nothing_else_moves() -> None:
    for seed in range(1, 30):
        script = leavings.reordered(SCRIPT, SECTIONS, seed)
        placed = order(script)
        functions = {"(.text.pipe_read)", "(.text.pipe_write)", "(.text.pipe_poll)"}
        places = sorted(placed.index(name) for name in functions)
        assert places[2] - places[0] == 2
        assert "arch/x86/lib/copy.o(.text)" in placed
        assert script.index("*(.text.do_open)") < script.index("*(.text .text.[")
        drawn = r"(\. = \. \+ \d+;\n)?\*(\(\.text\.(pipe|do|wake)\w+\)|\S+\.o\(\S+\))\n"
        assert re.sub(drawn, "", script) == SCRIPT
        begin, end = script.index("__sched_text_start"), script.index("__sched_text_end")
        assert begin < script.index("*kernel/sched/core.o(.sched.text)") < end


@pytest.fixture(name="toy")
def _toy(tmp_path: Path) -> Toy:
    return Toy(tmp_path, LINKED)


def addresses(image: Image) -> dict[str, int]:
    """Function → address, of the toy's own."""
    output = subprocess.run(["nm", image.kernel], capture_output=True, text=True, check=True).stdout
    result = (line.split() for line in output.splitlines() if len(line.split()) == 3)
    return {name: int(at, 16) for at, kind, name in result if kind in "tT" and "toy" in name}


@pytest.mark.slow
def test_links_are_made_of_objects_that_were_compiled_once(
    toy: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = variant(cflags=leavings.FLAG)
    image = toy.build(request, links=3)
    assert toy.compiled == OBJECTS and len([step for step in toy.steps if step.objects > 5]) == 0
    assert len({linked.digest for linked in (image, *image.links)}) == 4
    results = [addresses(linked) for linked in (image, *image.links)]
    assert len({tuple(each.items()) for each in results}) == 4
    assert len({frozenset(each) for each in results}) == 1
    assert {says(link) for link in image.links} == {says(image)}
    assert [linked.build["objects"] for linked in (image, *image.links)] == [5, 0, 0, 0]
    layouts = [linked.build["inputs"].get("layout") for linked in (image, *image.links)]
    assert layouts == [None, 1, 2, 3]
    places = [image.links.index(image.link(block)) for block in range(5)]
    assert places == [0, 1, 2, 0, 1] and image.links[0].link(7) is image.links[0]
    # More links of what was built compile nothing.
    five = toy.build(request, links=5)
    assert toy.compiled == set()
    assert five.links[:3] == image.links and five.folder == image.folder
    monkeypatch.setattr("kdyno.kernels.build._run", lambda _job: pytest.fail("built again"))
    assert toy.build(request, links=4).links == five.links[:4]


@pytest.mark.slow
def test_a_build_that_starts_from_the_objects_is_linked_as_ever(toy: Toy) -> None:
    toy.build(variant(cflags=leavings.FLAG), links=2)
    edit = toy.edit("edit", "lib/sort.c", "steps = 1", "steps = 7")
    request = variant("edit", patches=(edit,), cflags=leavings.FLAG)
    assert trunks.choose(toy.cache, toy.recipe(request)).same_flags
    image = toy.build(request, links=1)
    assert toy.compiled == {"lib/sort.o"}
    recipe, cache = toy.recipe(request), toy.folder / "else"
    alone = build(recipe, cache, name="alone", links=1, from_scratch=True)
    for one, other in ((image, alone), (image.links[0], alone.links[0])):
        assert one.kernel.read_bytes() == other.kernel.read_bytes()


@pytest.mark.slow
def test_kernels_have_their_common_code_in_one_order(toy: Toy) -> None:
    two = "int toy_a(void) { return 2; }\nint toy_sort"
    added = toy.edit("added", "lib/sort.c", "int toy_sort", two)
    requests = [variant("x", patches=each, cflags=leavings.FLAG) for each in ((), (added,))]
    kernels = [toy.build(request, links=4) for request in requests]
    for own, other in zip(kernels[0].links, kernels[1].links, strict=True):
        ours, theirs = addresses(own), addresses(other)
        assert theirs.keys() - ours.keys() == {"toy_a"}
        assert sorted(ours, key=ours.__getitem__) == [
            name for name in sorted(theirs, key=theirs.__getitem__) if name != "toy_a"
        ]


CASE = CaseInfo(suite="s", case="c", unit="ops/s", better="higher", scale=1.0)
MANIFEST = asking([CASE])


def pair_of(values: Floats, links: int, suite: str = "s") -> Pair:
    """Of a run whose blocks have these log ratios, and boot the links by turns."""
    scores = {(suite, "c", "stock"): dict.fromkeys(range(len(values)), 100.0)}
    scores[suite, "c", "mine"] = {at: 100 * math.exp(value) for at, value in enumerate(values)}
    placed = {at: at % links + 1 for at in range(len(values))} if links else {}
    case = CASE.model_copy(update={"suite": suite})
    return Pair(Samples(scores=scores, links=placed, blocks=len(values)), MANIFEST, case, "mine")


def values_of(rng: np.random.Generator, links: int, blocks: int, layout: float) -> Floats:
    """Of kernels that differ in nothing: each link by its accident, each boot by one of its own."""
    return rng.normal(0, layout, links)[np.arange(blocks) % links] + rng.normal(0, 0.004, blocks)


@pytest.mark.slow
@pytest.mark.parametrize("layout_sd", [0.0, 0.004, 0.02])
@pytest.mark.parametrize(("links", "blocks"), [(6, 18), (8, 20), (8, 24), (12, 12)])
def test_an_interval_over_links_covers_whatever_the_share_of_layout(
    layout_sd: float, links: int, blocks: int
) -> None:
    rng = np.random.default_rng(links * 1000 + blocks)
    draws = [values_of(rng, links, blocks, layout_sd) for _ in range(600)]
    effects = [pair_of(values, links).effect() for values in draws]
    covered = [effect.ci[0] <= 1 <= effect.ci[1] for effect in effects if effect.ci]
    assert len(covered) == 600 and np.mean(covered) >= 0.93


def test_means_of_links_that_are_alike_by_chance_end_no_run() -> None:
    """Blocks of one link 10 % apart, whose means are the same."""
    signs, little = np.repeat([1.0, -1.0], 8), np.random.default_rng(8).normal(0, 1e-4, 16)
    for apart, done in ((0.05, False), (1e-4, True)):
        pair = pair_of(apart * signs + little, 8)
        _, progress = look(pair.data, MANIFEST, 16, 0.01, 10, links=8)
        assert progress.enough is done


@pytest.mark.slow
def test_groups_of_one_link_are_not_independent() -> None:
    """What is wrong with counting them: every second interval leaves out the truth."""
    rng = np.random.default_rng(7)
    effects = [pair_of(values_of(rng, 8, 24, 0.02), 0).effect() for _ in range(200)]
    covered = [effect.ci[0] <= 1 <= effect.ci[1] for effect in effects if effect.ci]
    assert np.mean(covered) < 0.8


@pytest.mark.slow
def test_the_variance_is_shared_out_as_it_was_made() -> None:
    rng = np.random.default_rng(3)
    results = [pair_of(values_of(rng, 8, 32, 0.01), 8).links for _ in range(300)]
    spreads = [each for each in results if each is not None]
    assert np.mean([spread.layout**2 for spread in spreads]) ** 0.5 == pytest.approx(0.01, rel=0.06)
    boot = np.mean([(spread.boot or 0) ** 2 for spread in spreads]) ** 0.5
    assert boot == pytest.approx(0.004, rel=0.06)
    outside = [abs(rng.normal(0, 0.01)) > math.log1p(spread.one_link or 0) for spread in spreads]
    assert 0.01 < np.mean(outside) < 0.10
    whole = pair_of(values_of(rng, 8, 8, 0.01), 8).links
    assert whole is not None and whole.boot is None and not whole.worst_alone
    assert pair_of(values_of(rng, 8, 8, 0.01), 0).links is None


def judged(pair: Pair) -> list[Judged]:
    return judged_all([pair], [pair.claim()], MANIFEST)[0]


def test_a_slow_down_of_one_link_is_called_by_layout() -> None:
    values = np.tile([0.0, 0.001, -0.03, 0.002, -0.001, 0.0, 0.001, -0.002], 4)
    values = values + np.repeat([0.0005, -0.0005, 0.0002, -0.0002], 8)
    (row,) = judged(pair_of(values, 8))
    judgement = row.judgement
    assert judgement.word == "inconclusive" and judgement.effect.n == 8
    flagged = flags.layouts([row])
    assert [each.kind for each in flagged] == ["layouts", "by-layout"]
    assert flagged[0].text == (
        "8 links of each kernel, and intervals are over them; the variance of one boot is "
        "100 % layout, 0 % boot. A difference between one link of either says nothing up to: "
        "c 2.6 %"
    )
    assert flagged[1].text == (
        "c: one of 8 links of mine is slower than the baseline's by 3 %, and all together are not: "
        "where its code lies does that, and not what it does"
    )
    # Of another suite's case of the same name it is another.
    both = flags.layouts([row, *judged(pair_of(values / 2, 8, "t"))])[0].text
    assert both.endswith("up to: s/c 2.6 %, t/c 1.3 %"), both
    slow = judged(pair_of(values - 0.05, 8))
    assert [layout.kind for layout in flags.layouts(slow)] == ["layouts"]


def test_boots_that_fail_are_a_share_of_boots_and_not_of_links() -> None:
    values = np.random.default_rng(2).normal(0.0, 0.001, 45)
    for links in (0, 8):
        for lost, word in ((3, "equivalent"), (9, "failed")):
            pair = pair_of(values, links)
            pair.data.failures["mine"] = Counter({"panic": lost})
            (row,) = judged(pair)
            effect = judging._effect(row, MANIFEST, None, None)
            assert effect.verdict == word, (links, lost)


@pytest.mark.slow
@pytest.mark.parametrize("way", ["boots", "turns"])
def test_blocks_go_round_over_the_links(tmp_path: Path, way: str) -> None:
    setup = bench(steady({"stock": 1.0, "mine": 1.03}), ("stock", "mine"), max_boots=14, layouts=6)
    run, _ = measured(setup, tmp_path, way)
    booted = {(each.block, each.job.layout) for each in boots_of(run)}
    # From the one that the seed 7 says.
    assert sorted(booted) == [(block, (7 + block) % 6 + 1) for block in range(14)]
    verdict = verdict_of(run, run.manifest(), "")
    (effect,) = verdict.effects
    assert (effect.blocks, effect.verdict, effect.links and effect.links.links) == (6, "faster", 6)
    assert verdict.boots == {"stock": 14, "mine": 14} and effect.predicted_blocks is None
    # No run ends before every link was booted, and it may when they are fewer than the blocks.
    for links, least in ((9, 2), (8, 10)):
        kinds = {"layouts": links, "precision": 0.1, "min_boots": least, "max_boots": 30}
        setup = bench(steady({"mine": 1.03}), ("stock", "mine"), **kinds)
        run, why = measured(setup, tmp_path / str(links), way)
        assert why == "precision reached" and len(boots_of(run)) == 2 * 10
        assert {boot.job.layout for boot in boots_of(run)} == set(range(1, links + 1))


def test_what_the_file_and_the_command_line_ask_for(tmp_path: Path) -> None:
    head = 'name = "one"\nquestion = "?"\n'
    suite = '[[suite]]\nname = "unixbench"\ncases = ["pipe"]\n'
    alone = f'{head}[kernel]\nsource = "path:."\n[variant.stock]\n{suite}'
    words = vocabulary(load_suites())
    (tmp_path / "Makefile").touch()
    experiment = loader.parse(f"{alone}[layout]\ndraws = 12\n", "e.toml", tmp_path, words)
    assert (experiment.measure.layouts, experiment.measure.calibrate) == (12, False)
    measure = apply(Overrides(), experiment).measure
    assert (measure.layouts, measure.calibrate) == (12, True)
    assert apply(Overrides(layouts=7), experiment).measure.layouts == 7
    assert Overrides(**Overrides(layouts=7).to_json()).layouts == 7
    own = f'{head}[variant.running]\n{suite}[machine]\nkind = "host"\n[layout]\n'
    host = loader.parse(own, "e.toml", tmp_path, words)
    assert host.measure.layouts == 8
    with pytest.raises(UsageError, match="builds none"):
        check_machine(host)
