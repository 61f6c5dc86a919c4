# SPDX-License-Identifier: MIT
"""Builds that start from an earlier build's objects compile what differs and nothing else."""

from __future__ import annotations

import fcntl
import math
import os
import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from toy_kernel import FILES, OBJECTS, Toy, make_source, make_tree, says, variant

from kdyno import whole
from kdyno.errors import BuildError
from kdyno.experiment.model import Variant
from kdyno.kernels import build as builds, image as trunks
from kdyno.kernels.image import Image
from kdyno.kernels.recipe import Recipe
from kdyno.kernels.sources import tree as trees

# Builds at one path need the sandbox.
pytestmark = [pytest.mark.slow, pytest.mark.needs("sandbox", "gcc")]
ADDED = {
    "lib/extra.c": "#include <toy.h>\nint toy_extra(void) { return TOY_SIZE; }\n",
    "lib/Makefile": FILES["lib/Makefile"] + "obj-y += extra.o\n",
}
DELETED = {"lib/sort.c": None, "lib/Makefile": "obj-y += string.o\n"}
MAIN, MEMCPY = "init/main.c", "arch/x86/lib/memcpy_64.S"


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Toy:
    return Toy(tmp_path_factory.mktemp("incremental"))


@pytest.fixture
def own(tmp_path: Path) -> Toy:
    return Toy(tmp_path)


def requests(toy: Toy) -> dict[str, Variant]:
    """Variants that differ in each way in which two variants can."""
    edit = toy.edit("edit", "lib/sort.c", "steps = 1", "steps = 2")
    header = toy.edit("header", "include/toy.h", "TOY_LIMIT 10", "TOY_LIMIT 20")
    added = toy.patch("added", ADDED)
    deleted = toy.patch("deleted", DELETED)
    return {
        "stock": variant("stock"),
        "edit": variant("edit", patches=(edit,)),
        "header and added": variant("header and added", patches=(header, added)),
        "deleted": variant("deleted", "CONFIG_SORT=n", patches=(deleted,)),
        "config": variant("config", "CONFIG_HZ=250", "CONFIG_PREEMPT=y"),
        "file flags": variant("file flags", file_cflags=(("lib/string.c", "-O2 -DX=1"),)),
        "flags": variant("flags", cflags="-O2"),
    }


def test_a_first_build_compiles_everything_and_the_same_variant_again_nothing(
    own: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = own.build(variant())
    log = (image.folder / "build.log").read_text().splitlines()
    lines = [line.split()[-1] for line in log if line.startswith(("  CC ", "  AS "))]
    assert own.compiled == OBJECTS == set(lines)
    assert says(image) == "limit 10, hz 100, sort 1, place /tmp/kdyno/src/lib/string.c"
    assert image.build["objects"] == len(OBJECTS) and not image.build["from_trunk"]
    assert own.steps[0].phase == "copy"
    assert [step.phase for step in own.steps][-3:] == ["link", "install", "done"]
    assert own.leftovers() == []
    monkeypatch.setattr("kdyno.kernels.build.stream", None)
    second = own.build(variant("by another name", cmdline="quiet"))
    assert (second.digest, second.kernel) == (image.digest, image.kernel)
    assert own.steps == []


@pytest.mark.parametrize(
    ("change", "objects"),
    [
        ({"lib/sort.c": FILES["lib/sort.c"] + "\n"}, {"lib/sort.o"}),
        ({"include/toy.h": FILES["include/toy.h"] + "\n"}, {"init/main.o", "kernel/time.o"}),
        ({**ADDED}, {"lib/extra.o"}),
        ({MEMCPY: FILES[MEMCPY] + "\n"}, {"arch/x86/lib/memcpy_64.o"}),
        ({"lib/unused.c": "int used;\n"}, set()),
        ({"docs/new.txt": "x\n"}, set()),
        (variant("fast", "CONFIG_HZ=1000"), {"kernel/time.o"}),
        (variant(file_cflags=(("lib/sort.c", "-DX=1  -O3"),)), {"lib/sort.o"}),
    ],
)
def test_a_change_compiles_again_what_depends_on_it(
    toy: Toy, change: dict[str, str | None] | Variant, objects: set[str]
) -> None:
    toy.build(variant())
    if isinstance(change, Variant):
        image = toy.build(change)
        files = ["lib/Makefile"] if change.file_cflags else []
    else:
        name = f"only-{next(iter(change)).replace('/', '-')}"
        image, files = toy.build(variant(patches=(toy.patch(name, change),))), sorted(change)
    assert toy.compiled == objects
    assert image.build["from_trunk"] and image.build["changed_files"] == files
    assert ("hz 1000" in says(image)) == (change == variant("fast", "CONFIG_HZ=1000"))


def test_what_a_trunk_had_changed_is_compiled_back(own: Toy) -> None:
    both = {"lib/sort.c": FILES["lib/sort.c"].replace("1", "2", 1), MAIN: FILES[MAIN] + "\n"}
    changed = own.build(variant("changed", patches=(own.patch("both", both),)))
    assert ", sort 2," in says(changed) and own.compiled == OBJECTS
    stock = own.build(variant())
    assert own.compiled == {"lib/sort.o", "init/main.o"}
    assert ", sort 1," in says(stock)


def test_every_way_from_trunk_to_variant_ends_in_the_bytes_of_a_whole_build(toy: Toy) -> None:
    variants = requests(toy)
    whole = {
        name: toy.build(one, from_scratch=True).kernel.read_bytes()
        for name, one in variants.items()
    }
    assert len(set(whole.values())) >= len(variants) - 1  # PREEMPT is named by no file
    for start in variants:
        for folder in ("images", "trunks"):
            shutil.rmtree(toy.cache / folder)
        # Other flags compile everything again: one way there and one back are enough.
        others = variants if start == "stock" else variants.keys() - {"flags"}
        others = {"stock": None} if start == "flags" else others
        for name in (start, *(name for name in others if name != start)):
            image = toy.build(variants[name])
            assert image.kernel.read_bytes() == whole[name], f"{start} -> {name}"
            assert image.build["from_trunk"] == (name != start), f"{start} -> {name}"


def test_a_newer_source_starts_from_the_older_ones_objects(own: Toy, tmp_path: Path) -> None:
    own.build(variant())
    changed = {"lib/sort.c": "int toy_sort(void) { return 4; }\n", "lib/new.h": "\n"}
    newer = make_source(tmp_path / "newer", changed)
    (newer / "lib" / "unused.c").unlink()
    older, own.tree = own.tree, make_tree(own.cache, newer)
    image = own.build(variant())
    assert own.compiled == {"lib/sort.o"} and ", sort 4," in says(image)
    own.tree = older
    edit = own.edit("old", "lib/string.c", "return __FILE__", 'return "old"')
    assert says(own.build(variant(patches=(edit,)))).endswith("sort 1, place old")
    assert own.compiled == {"lib/string.o"}


def test_an_object_whose_source_is_gone_is_none_to_start_from(own: Toy, tmp_path: Path) -> None:
    own.build(variant())
    patch = own.patch("removed", {"lib/sort.c": None})
    with pytest.raises(BuildError, match="sort"):
        own.build(variant("removed", patches=(patch,)))
    newer = make_source(tmp_path / "newer")
    (newer / "lib" / "sort.c").unlink()
    own.tree = make_tree(own.cache, newer)
    with pytest.raises(BuildError, match="sort"):
        own.build(variant())


def test_a_header_that_hides_another_is_read(tmp_path: Path) -> None:
    # Make's records name the header that was read, and that one is as it was.
    place = FILES["lib/string.c"].replace("__FILE__", "PLACE")
    files = {"include/uapi/linux/place.h": '#define PLACE "far"\n'}
    toy = Toy(tmp_path, {**files, "lib/string.c": f"#include <linux/place.h>\n{place}"})
    assert says(toy.build(variant())).endswith("place far")
    patch = toy.patch("near", {"include/linux/place.h": '#define PLACE "near"\n'})
    assert says(toy.build(variant("near", patches=(patch,)))).endswith("place near")


@pytest.mark.needs("ccache")
def test_a_file_that_an_object_only_embeds_is_that_of_the_variant(tmp_path: Path) -> None:
    # ccache does not see it, nor does make.
    routine = f'{FILES["arch/x86/lib/memcpy_64.S"]}.section .rodata\n.incbin "payload.txt"\n'
    files = {"include/payload.txt": "of the source\n", "arch/x86/lib/memcpy_64.S": routine}
    toy = Toy(tmp_path, files)
    assert b"of the source\n" in toy.build(variant()).kernel.read_bytes()
    patch = toy.edit("two", "include/payload.txt", "source", "patch")
    for from_scratch in (True, False):
        shutil.rmtree(toy.cache / "images")
        image = toy.build(variant("two", patches=(patch,)), from_scratch=from_scratch)
        assert b"of the patch\n" in image.kernel.read_bytes()


def test_an_image_is_told_by_the_commit_that_was_asked_for(own: Toy) -> None:
    own.build(variant())
    own.tree = replace(own.tree, description="commit 2 of the same files")
    assert own.build(variant()).build["source"] == "commit 2 of the same files"


def test_a_trunk_of_the_future_is_nothing_to_start_from(own: Toy) -> None:
    """A clock was set back: what is changed now looks older than its objects."""
    image = own.build(variant())
    os.utime(own.cache / "trunks" / image.digest / "trunk.json", (time.time() + 3600,) * 2)
    patch = own.edit("now", "include/toy.h", "10", "30")
    assert not own.build(variant("now", patches=(patch,))).build["from_trunk"]


@pytest.mark.parametrize("folder", ["include", "arch/x86/um", "arch/um/include/shared/skas"])
def test_each_folder_of_headers_may_hide_another(toy: Toy, folder: str) -> None:
    patches = [
        toy.patch(f"{i}-{len(folder)}", {path: "\n"})
        for i, path in enumerate(
            ("arch/x86/include/asm/two.h", f"{folder}/asm/two.h", f"{folder}/asm/three.h")
        )
    ]
    one, two, other = (
        toy.recipe(variant(patches=tuple(patches[at] for at in which))).namesakes
        for which in ((0,), (0, 1), (0, 2))
    )
    assert one == other != two


def test_a_source_of_fewer_files_starts_from_the_objects_of_one_of_many(
    own: Toy, tmp_path: Path
) -> None:
    small = own.tree
    docs = {f"docs/{number}.txt": "" for number in range(trunks.MOST_FILES + 1)}
    own.tree = make_tree(own.cache, make_source(tmp_path / "large", docs))
    own.build(variant())
    own.tree = small
    assert own.build(variant("o1", cflags="-O1")).build["from_trunk"]


def test_the_trunk_that_leaves_least_to_do_is_taken(own: Toy) -> None:
    edit = own.edit("far", "include/toy.h", "10", "30")
    for one in (variant(), variant("o2", cflags="-O2"), variant("far", patches=(edit,))):
        own.build(one, from_scratch=True)
    near = own.recipe(variant("near", "CONFIG_HZ=300", patches=(edit,)))
    start = trunks.choose(own.cache, near)
    assert start.objects is not None
    assert start.objects.parent.name == own.recipe(variant(patches=(edit,))).digest
    assert (start.fresh, start.restored, start.same_flags) == (frozenset(), frozenset(), True)
    flags = trunks.choose(own.cache, own.recipe(variant("z", cflags="-O2", patches=(edit,))))
    assert flags.fresh == {"include/toy.h"} and flags.same_flags
    other = trunks.choose(own.cache, own.recipe(variant("z", cflags="-O3")))
    assert not other.same_flags and other.objects is not None


def test_an_option_that_no_object_reads_costs_nothing_to_change(own: Toy) -> None:
    many = ("CONFIG_PREEMPT=y", "CONFIG_SORT=y")
    for one in (variant("hz", "CONFIG_HZ=300"), variant("many", *many)):
        own.build(one, from_scratch=True)
    wanted = own.recipe(variant("both", *many, "CONFIG_HZ=300"))
    final = "CONFIG_64BIT=y\nCONFIG_SORT=y\nCONFIG_HZ=300\nCONFIG_PREEMPT=y\n"
    start = trunks.choose(own.cache, wanted, final)
    assert start.objects is not None
    assert start.objects.parent.name == own.recipe(variant("hz", "CONFIG_HZ=300")).digest
    # What a compiler leaves for every object would be there for those that this kernel lacks.
    assert trunks.choose(own.cache, wanted, final, same_objects=True).objects is None
    own.configure(wanted)
    image = own.build_recipe(wanted)
    assert image.build["from_trunk"] and not own.compiled
    same = own.recipe(variant("hz", "CONFIG_HZ=300"))
    final = own.build(variant("hz", "CONFIG_HZ=300")).config.read_text()
    assert trunks.choose(own.cache, same, final, same_objects=True).objects is not None


def test_how_many_objects_a_build_will_compile(tmp_path: Path) -> None:
    toy = Toy(tmp_path, {"scripts/Makefile.debug": "debug-flags-$(CONFIG_PREEMPT) := -g\n"})

    def stale(*settings: str, **fields: object) -> list[float]:
        recipes = (toy.recipe(variant("stock", *each.split(), **fields)) for each in settings)
        finals = (
            f"CONFIG_64BIT=y\nCONFIG_SORT=y\n{each}\n".replace(" ", "\n") for each in settings
        )
        return list(trunks.stale_objects(toy.cache, zip(recipes, finals, strict=True)))

    hz, other_hz, flags = "CONFIG_HZ=300", "CONFIG_HZ=250", "CONFIG_HZ=300 CONFIG_PREEMPT=y"
    # Before anything was built, an option is taken for one that a few objects read.
    assert stale(hz, hz, other_hz) == [math.inf, 0, 40]
    toy.configure(toy.recipe(variant("stock", hz)))
    toy.build(variant("stock", hz), from_scratch=True)
    assert stale(hz, other_hz) == [0, 1]
    # No object reads by which flags all are compiled.
    assert stale(flags, flags, hz) == [math.inf, 0, 0]
    assert stale(hz, cflags="-O3") == [math.inf]
    # Then how many there will be is known while it builds; of an option alone, nobody knows.
    for settings, counted in ((other_hz, False), (flags, True)):
        recipe = toy.recipe(variant("stock", *settings.split()))
        toy.configure(recipe)
        assert toy.build_recipe(recipe).build["from_trunk"]
        assert counted == any(step.total for step in toy.steps if step.phase == "compile")


def test_a_damaged_trunk_or_image_is_made_again(own: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    image = own.build(variant())
    record = own.cache / "trunks" / image.digest / "trunk.json"
    record.write_text('{"source": 3')
    with monkeypatch.context() as killed:  # in the middle of removing it
        killed.setattr("shutil.rmtree", lambda *_, **__: None)
        own.build(variant("x", "CONFIG_HZ=250"))
    assert own.compiled == OBJECTS
    assert not record.exists()
    (image.folder / "build.json").write_text("{")
    again = own.build(variant())
    assert again.folder == image.folder and says(again) == says(image)
    image.kernel.unlink()
    assert says(own.build(variant()))
    assert own.leftovers() == []


def test_two_nodes_whose_locks_do_not_hold_make_one_whole_image(
    own: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a network file system: both build, and the second leaves what is there."""
    both, nodes, install = threading.Barrier(2, timeout=60), threading.local(), builds._install
    monkeypatch.setattr(fcntl, "flock", lambda *_: None)
    monkeypatch.setattr(whole, "here", lambda: nodes.name)

    def together(job: builds._Build, recipe: Recipe) -> Image:
        both.wait()
        return install(job, recipe)

    monkeypatch.setattr(builds, "_install", together)

    def node(name: str) -> tuple[Image, int]:
        nodes.name = name
        image = own.build(variant())
        return image, image.folder.stat().st_ino

    with ThreadPoolExecutor(2) as pool:
        (one, first), (other, second) = pool.map(node, ("n1", "n2"))
    assert one.digest == other.digest and first == second
    assert says(one) == "limit 10, hz 100, sort 1, place /tmp/kdyno/src/lib/string.c"
    names = [path.name for path in one.folder.parent.iterdir() if path.name[0] != "."]
    assert names == [one.digest]
    files = ["build.json", "build.log", "config", "linux"]
    assert sorted(path.name for path in one.folder.iterdir()) == files
    assert len(list((own.cache / "trunks").iterdir())) == 1
    assert own.leftovers() == []


def test_trunks_of_the_last_hour_stay_and_older_ones_go(own: Toy) -> None:
    first = own.build(variant())
    trunk = own.cache / "trunks" / first.digest
    for number in range(trunks.KEEP):
        shutil.copytree(trunk, trunk.parent / f"copy-{number}")
    oldest = trunk.parent / "copy-0"
    record = (oldest / "trunk.json").read_text()  # made of no use to the next
    (oldest / "trunk.json").write_text(record.replace('"compiler":"', '"compiler":"x'))
    os.utime(oldest, (0, 0))
    own.build(variant("o2", cflags="-O2"))
    names = {path.name for path in trunk.parent.iterdir()}
    assert "copy-0" not in names and first.digest in names
    assert len(names) == trunks.KEEP + 1


def test_trunks_that_another_build_drops_meanwhile_are_nothing_to_start_from(
    own: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    own.build(variant())
    listed = [*trunks._trunks(own.cache)]
    shutil.rmtree(own.cache / "trunks")
    monkeypatch.setattr(trunks, "_trunks", lambda _cache: listed)
    assert listed and not own.build(variant("o2", cflags="-O2")).build["from_trunk"]


def test_the_pristine_tree_is_as_it_was_after_all_of_this(toy: Toy) -> None:
    toy.build(variant("last", patches=(toy.patch("last", {**ADDED, "lib/unused.c": None}),)))
    root = toy.tree.path
    assert {path for path, _ in trees.walk(str(root))} == toy.tree.manifest().keys() == FILES.keys()
    for path, state in trees.walk(str(root)):
        digest = trees.content_hash(str(root / path), state.st_mode)
        assert toy.tree.manifest()[path] == f"{digest} {trees.short_mode(state.st_mode)}"
        assert state.st_mtime == trees.CANONICAL_MTIME_S
        assert state.st_nlink == 1, f"{path} is linked from elsewhere"
