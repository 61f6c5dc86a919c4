# SPDX-License-Identifier: MIT
"""The name of an image: everything that goes into it changes it, and nothing else does."""

from __future__ import annotations

import dataclasses
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from test_host_scripts import tool
from toy_kernel import Toy, make_source, make_tree, variant, write_files

from kdyno.errors import UsageError
from kdyno.experiment.model import ConfigFragment, Variant
from kdyno.kernels import compiler as compilers, cpu
from kdyno.kernels.recipe import recipe_of
from kdyno.kernels.routines.routine import list_routines

ROUTINE, OTHER_ROUTINE = [routine.name for routine in list_routines() if "um" in routine.archs][:2]


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Toy:
    return Toy(tmp_path_factory.mktemp("digest"))


def digest(toy: Toy, request: Variant) -> str:
    return toy.recipe(request).digest


@pytest.mark.slow
def test_every_input_has_its_part_in_the_name(toy: Toy) -> None:
    edit = toy.edit("steps", "lib/sort.c", "steps = 1", "steps = 2")
    other = toy.edit("steps-3", "lib/sort.c", "steps = 1", "steps = 3")
    header = toy.edit("limit", "include/toy.h", "10", "11")
    script = toy.folder / "mode.patch"
    script.write_text(
        "diff --git a/scripts/run.sh b/scripts/run.sh\nnew file mode 100755\n"
        "--- /dev/null\n+++ b/scripts/run.sh\n@@ -0,0 +1 @@\n+exit 0\n"
    )
    plain = toy.folder / "no-mode.patch"
    plain.write_text(script.read_text().replace("100755", "100644"))
    request = {
        "stock": variant(),
        "option": variant("x", "CONFIG_NET=y"),
        "value": variant("x", "CONFIG_HZ=250"),
        "unset": variant("x", "# CONFIG_SORT is not set"),
        "patch": variant(patches=(edit,)),
        "patch content": variant(patches=(other,)),
        "two patches": variant(patches=(edit, header)),
        "mode": variant(patches=(script,)),
        "no mode": variant(patches=(plain,)),
        "flags": variant(cflags="-O3"),
        "other flags": variant(cflags="-O3 -g"),
        "file flags": variant(file_cflags=(("lib/sort.c", "-O3"),)),
        "flags of another file": variant(file_cflags=(("lib/string.c", "-O3"),)),
        "routine": variant(memcpy=ROUTINE),
        "other routine": variant(memcpy=OTHER_ROUTINE),
        "arch": variant(arch="um32"),
    }
    assert digest(toy, variant("x", "CONFIG_SORT=n")) == digest(toy, request["unset"])
    assert digest(toy, variant("x", "CONFIG_64BIT=y")) == digest(toy, request["stock"])
    digests = {what: digest(toy, one) for what, one in request.items()}
    assert len(set(digests.values())) == len(digests), digests


def test_the_source_has_its_part_in_the_name(toy: Toy, tmp_path: Path) -> None:
    changed = make_source(tmp_path / "other", {"include/toy.h": "#define TOY_LIMIT 3\n"})
    other = make_tree(toy.cache, changed)
    assert recipe_of(variant(), other).digest != digest(toy, variant())
    same = make_tree(toy.cache, make_source(tmp_path / "same"))
    assert recipe_of(variant(), same).digest == digest(toy, variant())


def test_what_does_not_go_into_an_image_leaves_its_name(toy: Toy, tmp_path: Path) -> None:
    edit = toy.edit("once", "lib/sort.c", "steps = 1", "steps = 2")
    again = tmp_path / "renamed.patch"
    again.write_text("Somebody's remark.\n\n" + edit.read_text())
    request = variant("first", "CONFIG_NET=y", "CONFIG_HZ=250", cflags="-O3 -g", patches=(edit,))
    same = dataclasses.replace(
        request,
        name="second",
        source="path:elsewhere",
        config=(
            ConfigFragment("a.config", ("CONFIG_HZ=1000", "CONFIG_NET=y")),
            ConfigFragment("b.config", ("CONFIG_HZ=250",)),
        ),
        patches=(again,),
        cflags="  -O3   -g ",
        cmdline="quiet",
        sysctl=(("vm.swappiness", "10"),),
        levels=(("smp", "on"),),
    )
    assert digest(toy, same) == digest(toy, request)


def test_a_patch_that_takes_itself_back_is_no_change(toy: Toy) -> None:
    edit = toy.edit("there", "lib/sort.c", "steps = 1", "steps = 2")
    back = toy.folder / "back.patch"
    swapped = edit.read_text().replace("-\tint steps = 1", "-\tint steps = 2")
    back.write_text(swapped.replace("+\tint steps = 2", "+\tint steps = 1"))
    assert digest(toy, variant(patches=(edit, back))) == digest(toy, variant())


@pytest.mark.slow
def test_the_compilers_version_has_its_part(
    toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    seen = []
    for version in ("9.4.0", "9.5.0"):
        tool(tmp_path, "gcc-9", f"echo 'gcc-9 (Toy) {version}'\necho more")
        compilers.identify.cache_clear()
        seen.append(digest(toy, variant(compiler="gcc-9")))
        assert compilers.identify("gcc-9").version.startswith(f"gcc-9 (Toy) {version} (")
    compilers.identify.cache_clear()
    assert len({*seen, digest(toy, variant())}) == 3


@pytest.mark.slow
@pytest.mark.parametrize("named", ["by its path", "on the path"])
def test_a_compiler_of_ones_own_that_calls_itself_the_same_is_another(
    toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: str
) -> None:
    seen = []
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    own, cc1 = tmp_path / "mycc", tmp_path / "cc1"
    for flags, text in (("", "1"), ("-fno-inline", "1"), ("-fno-inline", "2")):
        tool(tmp_path, "cc1", text)
        answer = f"case $1 in -print-prog-name=cc1) echo {cc1} ;; *) gcc {flags} $1 ;; esac"
        tool(tmp_path, "mycc", answer)
        compilers.identify.cache_clear()
        name = str(own) if named == "by its path" else own.name
        seen.append(digest(toy, variant(compiler=name)))
    compilers.identify.cache_clear()
    assert len(set(seen)) == 3


def test_a_file_that_a_flag_or_an_option_names_has_its_content_in_the_name(
    toy: Toy, tmp_path: Path
) -> None:
    file = tmp_path / "plugin.so"
    for request in (
        variant(cflags=f"-fplugin={file}"),
        variant(file_cflags=(("lib/sort.c", f"-fprofile-use={file}"),)),
        variant("x", f'CONFIG_INITRAMFS_SOURCE="{file}"'),
        variant(
            "x", f'CONFIG_EXTRA_FIRMWARE="{file.name}"', f'CONFIG_EXTRA_FIRMWARE_DIR="{tmp_path}"'
        ),
    ):
        seen = []
        for content in ("1", "2"):
            file.write_text(content)
            recipe = toy.recipe(request)
            seen += [recipe.digest, recipe.namesakes]
        assert len(set(seen)) == 4, request
    listed, folder = tmp_path / "list", tmp_path / "root"
    folder.mkdir()
    listed.write_text(f"dir /x 755 0 0\nfile /init {file} 755 0 0\n")
    for request, place in (
        (variant("x", f'CONFIG_INITRAMFS_SOURCE="{listed}"'), file),
        (variant("x", f'CONFIG_INITRAMFS_SOURCE="{folder}"'), folder / "init"),
        (variant("x", f'CONFIG_SYSTEM_TRUSTED_KEYS="{file}"'), file),
    ):
        digests = []
        for content in ("1", "2"):
            place.write_text(content)
            digests.append(toy.recipe(request).digest)
        assert len(set(digests)) == 2, request
    relative = variant("x", 'CONFIG_MODULE_SIG_KEY="certs/signing_key.pem"')
    assert toy.recipe(relative).around == {}
    # Nothing that has no end is read, and what is no file is no matter.
    for path in ("/dev/zero", "/proc/kmsg", "/proc/kcore", "/nosuch", "/" + "a" * 300):
        assert toy.recipe(variant(cflags=f"-include {path}")).around == {}


@pytest.mark.parametrize(
    "request_", [variant(cflags="-march=native"), variant("x", "CONFIG_X86_NATIVE_CPU=y")]
)
def test_a_kernel_for_the_cpu_that_compiles_it_has_that_in_its_name(
    toy: Toy, monkeypatch: pytest.MonkeyPatch, request_: Variant
) -> None:
    fixed = variant(cflags="-march=haswell")
    here, there = digest(toy, request_), digest(toy, fixed)
    monkeypatch.setattr(cpu, "flags", lambda: frozenset(("fpu",)))
    assert digest(toy, request_) != here and digest(toy, fixed) == there


@pytest.mark.parametrize(
    ("own", "message"),
    [
        (variant(compiler="gcc-3.3"), r"compiler 'gcc-3\.3' is not on this machine .*gcc"),
        (variant(compiler="gcc; true"), "not on this machine"),
        (variant("old", memcpy=ROUTINE, arch="um32"), "variant 'old': memory routines are for 64-"),
        (variant("odd", "CONFIG_64BIT=n"), r"CONFIG_64BIT.*toy\.config.*arch 'um'"),
        (variant(arch="mips"), r"arch 'mips' .*um, um32"),
    ],
)
def test_what_no_kernel_can_be_made_of_is_refused(toy: Toy, own: Variant, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        toy.recipe(own)


def test_the_configuration_is_shared_by_variants_that_kconfig_cannot_tell_apart(toy: Toy) -> None:
    edit = toy.edit("deep", "lib/sort.c", "steps = 1", "steps = 9")
    stock = toy.recipe(variant()).config_digest
    assert toy.recipe(variant(patches=(edit,))).config_digest == stock
    assert toy.recipe(variant(cflags="-O3")).config_digest == stock
    assert toy.recipe(variant(memcpy=ROUTINE)).config_digest == stock
    assert toy.recipe(variant("x", "CONFIG_NET=y")).config_digest != stock
    option = toy.edit("option", "Kconfig", "default 100", "default 300")
    assert toy.recipe(variant(patches=(option,))).config_digest != stock


# Which clang a kernel is built with: one that its own tree takes.


WANTED = """\
case "$1" in
gcc)
	echo 8.1.0
	;;
llvm)
	if [ "$SRCARCH" = loongarch ]; then
		echo 18.0.0
	else
		echo 17.0.1
	fi
	;;
rustc)
	echo 1.85.0
	;;
esac
"""
Made = Callable[..., Path]


@pytest.fixture
def clangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Made]:
    """These clangs and no other, and a tree that wants 17.0.1."""
    real = shutil.which

    def only_ours(name: str, *rest: object, **more: object) -> str | None:
        ours = {"path": str(tmp_path)} if name.startswith("clang") else {}
        return real(name, *rest, **{**more, **ours})  # type: ignore[call-overload, no-any-return]

    def tools(versions: Mapping[str, str]) -> Path:
        for name, version in versions.items():
            tool(tmp_path, name, f"echo 'Toy clang version {version} (x)'")
        return write_files(tmp_path / "tree", {"scripts/min-tool-version.sh": WANTED})

    monkeypatch.setattr(shutil, "which", only_ours)
    monkeypatch.setattr(compilers, "_PACKAGED", "/")  # names without a digest
    compilers.identify.cache_clear()
    yield tools
    compilers.identify.cache_clear()


@pytest.mark.parametrize(
    ("versions", "names", "lack"),
    [
        (
            {"clang": "14.0.6", "clang-16": "16.0.6", "clang-18": "18.1.8", "clang-19": "19.1.7"},
            {"clang": "clang-19", "clang-18": "clang-18"},
            None,
        ),
        ({"clang": "17.0.6", "clang-19": "19.1.7"}, {"clang": "clang"}, None),
        (
            {"clang": "14.0.6", "clang-16": "16.0.6"},
            {"clang": "Toy clang version 14.0.6 (x)", "clang-16": "Toy clang version 16.0.6 (x)"},
            "Toy clang version 16.0.6 (x), and Linux 7 wants 17 or later",
        ),
        ({}, {"clang": "no clang on PATH"}, "no clang on PATH"),
    ],
)
def test_a_clang_that_the_tree_takes_or_the_way_out(
    clangs: Made, versions: dict[str, str], names: dict[str, str], lack: str | None
) -> None:
    """names: by that of the experiment, the name of the compiler taken, or what there is."""
    tree = clangs(versions)
    for name, expected in names.items():
        if lack is None:
            compiler = compilers.for_tree(name, tree)
            assert compiler.name == expected
            assert {f"CC={expected}", f"HOSTCC={expected}"} <= set(compiler.make_arguments(None))
            assert compilers.for_tree(name, tree / "says nothing").name == name
        else:
            with pytest.raises(UsageError) as refused:
                compilers.for_tree(name, tree)
            assert str(refused.value) == (
                f"compiler {name!r}: this kernel wants clang 17.0.1 or later; here: {expected}. "
                "On Debian: apt-get install --no-install-recommends clang-19"
            )
    assert compilers.missing_clang() == lack
