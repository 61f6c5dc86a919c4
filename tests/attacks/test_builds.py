# SPDX-License-Identifier: MIT
"""What code that runs in a build leaves behind: it reaches no host file and no other build."""

from __future__ import annotations

import os
import shlex
import shutil
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from test_layouts import LINKED
from toy_kernel import FILES, Toy, make_source, make_tree, says, variant

from kdyno.errors import BuildError, KdynoError
from kdyno.experiment.model import Variant
from kdyno.kernels import image as trunks, leavings, scheduler
from kdyno.kernels.compiler import Compiler
from kdyno.kernels.recipe import Recipe, compile_cache
from kdyno.kernels.routines.routine import routines_folder
from kdyno.kernels.source import SourceSpec, Tree, origin_of
from kdyno.labs.vectorize.survey import EXTRACT, records_of

pytestmark = pytest.mark.needs("sandbox", "gcc")


@pytest.fixture
def toy(tmp_path: Path) -> Toy:
    return Toy(tmp_path, trusted=False)


def doing(toy: Toy, name: str, after: str) -> Variant:
    """A variant whose patch has the build run the shell lines ``after`` when all is linked."""
    rest = f"\t@cd $(O) && sh $(srctree)/scripts/{name}.sh\n\n.PHONY: tiny"
    makefile = FILES["Makefile"].replace("\n.PHONY: tiny", rest)
    assert makefile != FILES["Makefile"]
    script = f"[ -e linux ] || exit 0\n{after}true\n"
    texts = {"Makefile": makefile, f"scripts/{name}.sh": script}
    return variant(name, patches=(toy.patch(name, texts),))


def settling(toy: Toy, name: str, script: str) -> Variant:
    """One whose patch has Kconfig's program leave what ``script`` does instead of a .config."""
    rules = FILES["scripts/toy.mk"].replace(
        "tinyconfig:\n\t@$(call settle,/dev/null)",
        f"tinyconfig:\n\t@$(call settle,/dev/null); sh $(srctree)/scripts/{name}.sh",
    )
    assert rules != FILES["scripts/toy.mk"]
    texts = {"scripts/toy.mk": rules, f"scripts/{name}.sh": script}
    return variant(name, "CONFIG_HZ=250", patches=(toy.patch(name, texts),))


@pytest.fixture
def precious(tmp_path: Path) -> Path:
    file = tmp_path / "precious"
    file.write_text("as it was\n")
    file.chmod(0o600)
    return file


def as_it_was(file: Path) -> bool:
    return file.read_text() == "as it was\n" and file.stat().st_mode & 0o777 == 0o600


@pytest.mark.slow
@pytest.mark.parametrize("put", ["ln -s {}", "mkfifo"])
def test_a_configuration_that_is_a_link_or_a_pipe_is_refused(
    toy: Toy, precious: Path, put: str
) -> None:
    request = settling(toy, "odd", f"rm .config; {put.format(precious)} .config\n")
    with pytest.raises(KdynoError, match=r"no ordinary file in the place of \.config"):
        toy.configure(toy.recipe(request), "odd")
    with pytest.raises(KdynoError, match=r"no ordinary file in the place of \.config"):
        toy.build(request)
    assert as_it_was(precious)


@pytest.mark.slow
@pytest.mark.parametrize(
    "lines",
    [
        "rm linux; ln -s {it} linux\n",
        "rm .config; ln -s {it} .config\n",
        "rm linux; mkfifo linux\n",
        "rm linux; mkdir linux\n",
        "truncate -s 1T linux\n",
    ],
)
def test_an_image_that_is_no_ordinary_file_is_none(toy: Toy, precious: Path, lines: str) -> None:
    with pytest.raises(BuildError, match="no ordinary file in the place of"):
        toy.build(doing(toy, "odd", lines.format(it=shlex.quote(str(precious)))))
    assert as_it_was(precious)
    assert not list((toy.cache / "images").glob("*/*"))


@pytest.mark.slow
def test_a_kept_configuration_is_not_written_through_a_trunks_link(
    toy: Toy, precious: Path
) -> None:
    stock = toy.build(variant())
    trunk = next(toy.cache.glob("trunks/*/obj"))
    (trunk / ".config").unlink()
    (trunk / ".config").symlink_to(precious)
    shutil.rmtree(stock.folder)
    with pytest.raises(KdynoError):
        toy.build(variant())
    assert as_it_was(precious)


@pytest.mark.slow
def test_no_order_of_functions_is_written_through_a_link(tmp_path: Path, precious: Path) -> None:
    lays = f"mv arch/um/kernel arch/um/was; ln -s {precious.parent}/out arch/um/kernel"
    own = LINKED["scripts/extra.mk"]
    hostile = own.replace("$(objects)\n", f"$(objects); [ ! -e once ] || {{ {lays}; }}; >once\n")
    toy = Toy(tmp_path, {"scripts/extra.mk": hostile}, trusted=False)
    (tmp_path / "out").mkdir()
    with pytest.raises(BuildError, match=r"no ordinary file in the place of vmlinux\.lds"):
        toy.build(variant(cflags=leavings.FLAG), links=1)
    assert not list((tmp_path / "out").iterdir())


def test_no_types_of_a_kernel_are_written_through_a_link(
    tmp_path: Path, precious: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tree brings the library of the loader that prints them, and so runs what it likes."""
    loader, work = tmp_path / "loader", tmp_path / "work"
    loader.mkdir()
    script = f'#!/bin/sh\nfor work in {work}/*/in; do ln -sf {precious} "$work/vmlinux.h"; done\n'
    (loader / "loader").write_text(f"{script}echo typedef int u32\n")
    (loader / "loader").chmod(0o755)
    clang = Compiler("clang", "/bin/true", "clang version 19.1.0", True)
    monkeypatch.setattr(scheduler, "for_tree", lambda _name, _tree: clang)
    monkeypatch.setattr(scheduler, "_loader", lambda _tree, _cache: loader)
    tree = Tree(tmp_path, "digest", "toy", "7.3.4")
    with pytest.raises(FileNotFoundError, match=r"ule\.bpf\.o"):
        scheduler.build("ule", tree, loader / "loader", "image", tmp_path)
    assert as_it_was(precious)


@pytest.mark.slow
def test_a_record_of_loops_is_not_written_through_a_link(toy: Toy, precious: Path) -> None:
    absent = precious.with_name("absent")
    for place, name in ((precious, "there"), (absent, "absent")):
        recipe = toy.recipe(doing(toy, name, f"ln -sf {place} .kdyno-gcc-loops.json.gz\n"))
        with suppress(KdynoError):
            toy.build_recipe(recipe, extract=EXTRACT)
    assert as_it_was(precious) and not absent.exists()


def test_a_dump_that_is_a_pipe_or_a_link_is_damage(tmp_path: Path, precious: Path) -> None:
    tree = tmp_path / "obj"
    tree.mkdir()
    os.mkfifo(tree / "a.c.165t.vect")
    (tree / "b.c.165t.vect").symlink_to(precious)
    results = {record.object: record.damage for record in records_of(tree).objects}
    assert results.keys() == {"a.o", "b.o"} and all(results.values())
    assert as_it_was(precious)


@pytest.mark.slow
def test_nothing_that_is_kept_runs_with_its_owners_rights(toy: Toy) -> None:
    script = "cp /bin/true lib/shell; chmod 6755 lib/shell linux .config\n"
    image = toy.build(doing(toy, "rights", script))
    kept = [*toy.cache.glob("trunks/*/obj/lib/shell"), image.kernel, image.config]
    assert len(kept) == 3
    assert all(file.stat().st_mode & 0o7000 == 0 for file in kept)


@pytest.mark.parametrize("linked", ["boot", "boot/precious"])
def test_an_image_behind_a_link_is_none(tmp_path: Path, precious: Path, linked: str) -> None:
    tree = tmp_path / "obj"
    (tree / linked).parent.mkdir(parents=True)
    (tree / linked).symlink_to(precious.parent if linked == "boot" else precious)
    for take in (leavings.require_file, leavings.read):
        with pytest.raises(BuildError, match="no ordinary file in the place of precious"):
            take(tree, "boot/precious")
    assert as_it_was(precious)


POISON = "sed -i s/.*/poisoned/ /tmp/kdyno/ccache/planted; echo x > /tmp/kdyno/ccache/mine; true\n"


@pytest.mark.slow
def test_a_patch_writes_into_no_shared_compile_cache(toy: Toy) -> None:
    toy.build(variant())
    shared, _ = compile_cache(toy.cache, toy.recipe(variant()).foreign)
    (shared / "planted").write_text("honest")
    toy.build(doing(toy, "writes", POISON))
    assert (shared / "planted").read_text() == "honest"
    assert not list(toy.cache.glob("ccache/*/mine"))


@pytest.mark.slow
def test_a_source_writes_only_into_a_compile_cache_of_its_own(tmp_path: Path) -> None:
    extra = {"scripts/extra.mk": "linux: writes\nwrites:\n\t@sh $(srctree)/scripts/writes.sh\n"}
    toy = Toy(tmp_path, {**extra, "scripts/writes.sh": POISON}, trusted=False)
    signed = toy.cache / "ccache" / "signed"
    signed.mkdir(parents=True)
    (signed / "planted").write_text("honest")
    toy.build(variant())
    assert (signed / "planted").read_text() == "honest"
    (mine,) = toy.cache.glob("ccache/*/mine")
    assert mine.parent != signed


def poisoning(toy: Toy) -> Variant:
    """Leaves another object in the place of one whose source it does not touch."""
    script = (
        "echo 'int toy_sort(void) { return 666; }' > /tmp/x.c\n"
        "gcc -c -o lib/sort.o /tmp/x.c && touch -d '2030-01-01' lib/sort.o\n"
    )
    return doing(toy, "poison", script)


@pytest.mark.parametrize(
    "again",
    [
        "stock",
        *(
            pytest.param(each, marks=pytest.mark.slow)
            for each in ("other patch", "option", "flags")
        ),
    ],
)
def test_objects_of_a_hostile_patch_are_no_start_for_others(toy: Toy, again: str) -> None:
    toy.build(poisoning(toy))
    assert list(toy.cache.glob("trunks/*/obj/lib/sort.o"))
    edit = toy.edit("mine", "lib/string.c", "return __FILE__", 'return "mine"')
    request = {
        "stock": variant(),
        "other patch": variant("mine", patches=(edit,)),
        "option": variant("hz", "CONFIG_HZ=250"),
        "flags": variant("o2", cflags="-O2"),
    }[again]
    image = toy.build(request)
    assert not image.build["from_trunk"]
    assert ", sort 1," in says(image)


@pytest.mark.slow
def test_objects_of_the_baseline_are_a_start_for_its_variants(toy: Toy) -> None:
    toy.build(variant())
    edit = toy.edit("mine", "lib/string.c", "return __FILE__", 'return "mine"')
    image = toy.build(variant("mine", "CONFIG_HZ=250", patches=(edit,)))
    assert image.build["from_trunk"]
    assert toy.compiled == {"lib/string.o", "kernel/time.o"}
    # And those of the patched one for its own further variants.
    recipe = toy.recipe(variant("o2", cflags="-O2", patches=(edit,)))
    trunks.keep(toy.cache, toy.recipe(variant("mine", patches=(edit,))), _objects(toy))
    start = trunks.choose(toy.cache, recipe)
    assert start.objects is not None and start.fresh == frozenset()


def _objects(toy: Toy) -> Path:
    folder = toy.folder / "some" / "obj"
    folder.mkdir(parents=True)
    (folder / ".config").write_text("CONFIG_SORT=y\n")
    return folder


@pytest.mark.slow
def test_an_image_of_one_source_is_not_taken_for_anothers(toy: Toy, tmp_path: Path) -> None:
    # Equal content today: what the other folder held before may have left something in its caches.
    first = toy.build(variant())
    same = make_tree(toy.cache, make_source(tmp_path / "same"))
    assert same.path == toy.tree.path
    toy.tree = same
    second = toy.build(variant())
    assert second.digest == first.digest and second.folder != first.folder
    assert not second.build["from_trunk"]


@pytest.mark.slow
def test_a_configuration_by_a_hostile_kconfig_is_not_the_baselines(toy: Toy) -> None:
    # Only a program's source differs, which is not a part of the configuration's name.
    recipe = toy.recipe(settling(toy, "lying", "true\n"))
    lying = replace(recipe, changes=recipe.changes.only([]))
    stock = toy.recipe(variant("x", "CONFIG_HZ=250"))
    assert lying.config_digest == stock.config_digest
    saved = toy.cache / "configs"
    toy.configure(lying, "lying")
    (file,) = saved.iterdir()
    file.write_text(file.read_text() + "CONFIG_POISON=y\n")
    toy.configure(stock, "stock")
    assert len(list(saved.iterdir())) == 2
    assert "POISON" not in toy.build_recipe(stock).config.read_text()


def foreign(toy: Toy, **fields: object) -> set[str]:
    request: Recipe = toy.recipe(variant("x", **fields))  # type: ignore[arg-type]
    return {part.split(" ")[0] for part in request.foreign}


@pytest.mark.slow
def test_what_counts_as_foreign(toy: Toy, tmp_path: Path) -> None:
    assert foreign(toy) == {"source"}
    toy.tree = replace(toy.tree, origin="")
    plain = "-O3 -march=x86-64-v3 -mtune=native -fno-tree-vectorize -DX=1 -Wno-error=format -g"
    assert foreign(toy, cflags=plain, compiler="gcc-12") == set()
    edit = toy.edit("edit", "lib/sort.c", "steps = 1", "steps = 2")
    assert foreign(toy, patches=(edit,)) == {"patch"}
    assert foreign(toy, memcpy="fsrm") == set()
    own = tmp_path / "fsrm.S"
    own.write_text((routines_folder() / "fsrm.S").read_text())
    assert foreign(toy, memcpy=str(own)) == {"routine"}
    assert foreign(toy, file_cflags=(("lib/sort.c", "-include /x"),)) == {"flag"}
    for flags in (
        *("-fplugin=/x.so", "-B/x", "-wrapper sh", "-specs=/x", "-include /x", "@/x", "-Wl,-x"),
        *("$(shell id)", "-DX=`id`", "-mllvm -load=/x", "-fpass-plugin=/x", "-Xclang -load"),
        *("-fprofile-use=/x", "-fdump-tree-all", "-save-temps", "-o /x", "-DX=$(id)", "-I/x"),
    ):
        assert foreign(toy, cflags=flags) == {"flag"}, flags


@pytest.mark.parametrize("value", ['"$(shell id)"', '"`id`"', '"/x y"', '"a;b"', "$(x)"])
def test_an_option_whose_text_could_run_is_foreign(toy: Toy, value: str) -> None:
    toy.tree = replace(toy.tree, origin="")
    recipe = toy.recipe(variant("x", f"CONFIG_NAME={value}", "CONFIG_HZ=250", 'CONFIG_T="a-b"'))
    assert recipe.foreign == {f"option CONFIG_NAME={value}"}


def test_only_signed_kinds_of_source_are_trusted(tmp_path: Path) -> None:
    assert origin_of(SourceSpec("debian", "linux-source-7.3")) == ""
    assert origin_of(SourceSpec("kernel.org", "7.3.4")) == ""
    assert origin_of(SourceSpec("git", "https://e.org/x.git", "v1")) == "git:https://e.org/x.git"
    assert origin_of(SourceSpec("path", str(tmp_path))) == f"path:{tmp_path}"
    assert Tree(tmp_path, "d", "t", "7.3.4").origin == "unknown"
