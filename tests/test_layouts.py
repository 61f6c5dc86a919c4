# SPDX-License-Identifier: MIT
"""Several links of each kernel: how they are made, which is booted when, what they tell."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from toy_kernel import OBJECTS, Toy, says, variant

from kdyno.errors import BuildError
from kdyno.kernels import layout
from kdyno.kernels import trunk as trunks
from kdyno.kernels.build import build
from kdyno.kernels.image import Image

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


def test_a_draw_depends_on_names_alone() -> None:
    first, second = (layout.drawn(SCRIPT, SECTIONS, seed) for seed in (1, 2))
    assert layout.drawn(SCRIPT, dict(reversed(SECTIONS.items())), 1) == first != second
    fewer = {path: names[:2] for path, names in SECTIONS.items() if path != "fs/open.o"}
    gone = {"(.text.do_open)", "(.text.do_close)", "(.text.pipe_poll)"}
    assert order(layout.drawn(SCRIPT, fewer, 1)) == [it for it in order(first) if it not in gone]


def test_functions_of_an_object_stay_together_and_nothing_else_moves() -> None:
    for seed in range(1, 30):
        script = layout.drawn(SCRIPT, SECTIONS, seed)
        placed = order(script)
        functions = {"(.text.pipe_read)", "(.text.pipe_write)", "(.text.pipe_poll)"}
        places = sorted(placed.index(name) for name in functions)
        assert places[2] - places[0] == 2
        assert "arch/x86/lib/copy.o(.text)" in placed
        assert script.index("*(.text.do_open)") < script.index("*(.text .text.[")
        drawn = r"(\. = \. \+ \d+;\n)?\*(\(\.text\.(pipe|do|wake)\w+\)|\S+\.o\(\S+\))\n"
        assert re.sub(drawn, "", script) == SCRIPT
        begin = script.index("__sched_text_start")
        assert (
            begin
            < script.index("*kernel/sched/core.o(.sched.text)")
            < script.index("__sched_text_end")
        )


def test_seeds_draw_every_order_and_padding_stays_small() -> None:
    seen = {tuple(order(layout.drawn(SCRIPT, SECTIONS, seed))) for seed in range(1, 200)}
    assert len(seen) > 100
    steps = re.findall(
        r"\+ (\d+);", "".join(layout.drawn(SCRIPT, SECTIONS, it) for it in range(99))
    )
    assert {int(it) for it in steps} == {16, 32, 48, 64}


def test_a_script_without_a_place_for_code_is_refused() -> None:
    with pytest.raises(BuildError, match="no statement for"):
        layout.drawn("SECTIONS { .data : { *(.data) } }", SECTIONS, 1)


@pytest.fixture(name="toy")
def _toy(tmp_path: Path) -> Toy:
    return Toy(tmp_path, LINKED)


def addresses(image: Image) -> dict[str, int]:
    """Function → address, of the toy's own."""
    said = subprocess.run(["nm", image.kernel], capture_output=True, text=True, check=True).stdout
    found = (line.split() for line in said.splitlines() if len(line.split()) == 3)
    return {name: int(at, 16) for at, kind, name in found if kind in "tT" and "toy" in name}


def test_links_are_made_of_objects_that_were_compiled_once(toy: Toy) -> None:
    asked = variant(cflags=layout.FLAG)
    image = toy.build(asked, links=3)
    assert toy.compiled == OBJECTS and len([it for it in toy.steps if it.objects > 5]) == 0
    assert len({it.digest for it in (image, *image.links)}) == 4
    found = [addresses(it) for it in (image, *image.links)]
    assert len({tuple(it.items()) for it in found}) == 4
    assert len({frozenset(it) for it in found}) == 1
    assert {says(it) for it in image.links} == {says(image)}
    assert [it.build["objects"] for it in (image, *image.links)] == [5, 0, 0, 0]
    assert [it.build["inputs"].get("layout") for it in (image, *image.links)] == [None, 1, 2, 3]
    assert [image.link(block) for block in range(5)] == [
        *image.links,
        image.links[0],
        image.links[1],
    ]
    assert image.links[0].link(7) is image.links[0]


def test_more_links_of_what_was_built_compile_nothing(
    toy: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = variant(cflags=layout.FLAG)
    two = toy.build(asked, links=2)
    five = toy.build(asked, links=5)
    assert toy.compiled == set()
    assert five.links[:2] == two.links and five.folder == two.folder
    monkeypatch.setattr("kdyno.kernels.build._run", lambda _job: pytest.fail("built again"))
    assert toy.build(asked, links=4).links == five.links[:4]


def test_a_build_that_starts_from_the_objects_is_linked_as_ever(toy: Toy) -> None:
    toy.build(variant(cflags=layout.FLAG), links=2)
    edit = toy.edit("edit", "lib/sort.c", "steps = 1", "steps = 7")
    asked = variant("edit", patches=(edit,), cflags=layout.FLAG)
    assert trunks.choose(toy.cache, toy.recipe(asked)).same_flags
    image = toy.build(asked, links=1)
    assert toy.compiled == {"lib/sort.o"}
    alone = build(toy.recipe(asked), toy.folder / "else", name="alone", links=1, from_scratch=True)
    for one, other in ((image, alone), (image.links[0], alone.links[0])):
        assert one.kernel.read_bytes() == other.kernel.read_bytes()


def test_kernels_have_their_common_code_in_one_order(toy: Toy) -> None:
    added = toy.edit(
        "added", "lib/sort.c", "int toy_sort", "int toy_a(void) { return 2; }\nint toy_sort"
    )
    kernels = [
        toy.build(variant("x", patches=it, cflags=layout.FLAG), links=4) for it in ((), (added,))
    ]
    for own, other in zip(kernels[0].links, kernels[1].links, strict=True):
        ours, theirs = addresses(own), addresses(other)
        assert theirs.keys() - ours.keys() == {"toy_a"}
        assert sorted(ours, key=ours.__getitem__) == [
            name for name in sorted(theirs, key=theirs.__getitem__) if name != "toy_a"
        ]
