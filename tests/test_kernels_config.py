# SPDX-License-Identifier: MIT
"""Options: what was asked for, what olddefconfig made of it, and what is said of the difference."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from held import held
from hypothesis import given, strategies as st
from toy_kernel import FILES, Toy, variant

from kdyno import command, sandbox
from kdyno.errors import BuildError, UsageError
from kdyno.experiment import loader
from kdyno.experiment.model import ConfigFragment, Experiment, Variant
from kdyno.kernels import config
from kdyno.kernels.config import Arch, Wish, parse_line, unmet, wishes
from kdyno.kernels.routines.routine import list_routines
from kdyno.measure import builder
from kdyno.measure.builder import Built, Recipes, build_all
from kdyno.measure.vocabulary import vocabulary
from kdyno.paths import data_root
from kdyno.suites.catalogue import load


@pytest.fixture
def toy(tmp_path: Path) -> Toy:
    return Toy(tmp_path, sandboxed=sandbox.unusable() is None)


def settle(toy: Toy, request: Variant) -> str:
    recipe = toy.recipe(request)
    toy.configure(recipe, request.name)
    return (toy.cache / "configs" / f"{recipe.config_digest}.config").read_text()


@pytest.mark.parametrize(
    ("line", "parsed"),
    [
        ("CONFIG_A=y", ("CONFIG_A", "y")),
        ("CONFIG_A=n", ("CONFIG_A", "n")),
        ("# CONFIG_A is not set", ("CONFIG_A", "n")),
        ('CONFIG_A="x y=z"', ("CONFIG_A", '"x y=z"')),
        ("CONFIG_64BIT=0x10", ("CONFIG_64BIT", "0x10")),
        ("# CONFIG_A was not set", None),
        ("# remark", None),
        ("", None),
    ],
)
def test_lines_of_a_configuration(line: str, parsed: tuple[str, str] | None) -> None:
    assert parse_line(line) == parsed


_VALUES = st.sampled_from(["y", "n", "m", "1", '"text"'])
_OPTIONS = st.dictionaries(st.sampled_from([f"CONFIG_{c}" for c in "ABCDEF"]), _VALUES)


@pytest.mark.slow
@given(options=_OPTIONS, final=_OPTIONS)
def test_unmet_is_exactly_what_differs(options: dict[str, str], final: dict[str, str]) -> None:
    wanted = [Wish(option, value, "x") for option, value in options.items()]
    text = "\n".join(Wish(option, value, "").line for option, value in final.items())
    expected = {o: final.get(o, "n") for o, v in options.items() if final.get(o, "n") != v}
    assert {wish.option: got for wish, got in unmet(wanted, text)} == expected


@pytest.mark.slow
def test_the_final_configuration_is_kept_and_used_again(toy: Toy) -> None:
    text = settle(toy, variant("x", "CONFIG_NET=y", "CONFIG_SMP=y", "CONFIG_HZ=250"))
    assert {"CONFIG_SMP=y", "CONFIG_HZ=250", "CONFIG_64BIT=y"} <= set(text.splitlines())
    assert toy.leftovers() == []
    place = toy.cache / "configs"
    stamp = next(place.iterdir()).stat().st_mtime_ns
    settle(toy, variant("x", "CONFIG_NET=y", "CONFIG_SMP=y", "CONFIG_HZ=250", cflags="-O2"))
    assert [file.stat().st_mtime_ns for file in place.iterdir()] == [stamp]


@pytest.mark.slow
def test_kconfigs_program_is_made_once_for_each_kconfig(
    toy: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    goals: list[str] = []

    def stream(argv: list[str], **more: Any) -> int:
        goals.extend(word for word in argv if word in ("tinyconfig", "olddefconfig"))
        return command.stream(argv, **more)

    monkeypatch.setattr("kdyno.kernels.build.stream", stream)
    settle(toy, variant("x", "CONFIG_HZ=250"))
    assert "CONFIG_HZ=300" in settle(toy, variant("y", "CONFIG_HZ=300"))
    assert goals == ["tinyconfig", "olddefconfig", "olddefconfig"]
    other = toy.edit("other", "Kconfig", "default 100", "default 200")
    assert "CONFIG_HZ=200" in settle(toy, variant("z", "CONFIG_NET=y", patches=(other,)))
    assert goals[3:] == ["tinyconfig", "olddefconfig"]


@pytest.mark.slow
def test_kconfigs_program_of_a_month_ago_goes_whole(
    toy: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever removes it may be killed before all of it is gone."""

    def killed(folder: Path, **_how: object) -> None:
        Path(folder, ".config").unlink(missing_ok=True)

    settle(toy, variant("x", "CONFIG_HZ=250"))
    (old,) = (toy.cache / "kconfig").iterdir()
    os.utime(old, (0, 0))
    monkeypatch.setattr("shutil.rmtree", killed)
    assert "CONFIG_HZ=300" in settle(toy, variant("y", "CONFIG_HZ=300"))


@pytest.mark.slow
def test_options_that_are_lost_are_listed_with_origin_and_nearest(toy: Toy) -> None:
    request = Variant(
        "mine",
        "path:toy",
        config=(
            ConfigFragment("smp.config", ("CONFIG_SMP=y", "CONFIG_HZ=250")),
            ConfigFragment("variant.mine.config", ("CONFIG_PREEMTP=y", "CONFIG_QQQ=y")),
        ),
    )
    with pytest.raises(UsageError) as caught:
        settle(toy, request)
    lines = str(caught.value).splitlines()
    assert lines == [
        "variant 'mine': these requested options did not survive `make olddefconfig`:",
        "  CONFIG_PREEMTP=y   (from variant.mine.config): a kernel of arch um has no such option; "
        "nearest: CONFIG_PREEMPT",
        "  CONFIG_QQQ=y   (from variant.mine.config): a kernel of arch um has no such option",
        "  CONFIG_SMP=y   (from smp.config): it became n; it depends on NET, and here NET=n",
    ]
    assert not list((toy.cache / "configs").glob("*")) and toy.leftovers() == []


@pytest.mark.slow
def test_an_option_that_a_patch_adds_is_known(toy: Toy) -> None:
    text = FILES["Kconfig"] + 'config TURBO\n\tbool "Turbo"\n\tdepends on NET\n'
    patch = toy.patch("turbo", {"Kconfig": text})
    with pytest.raises(UsageError, match=r"CONFIG_TURBO=y .*: it became n; it depends on NET,"):
        settle(toy, variant("x", "CONFIG_TURBO=y", patches=(patch,)))
    result = settle(toy, variant("x", "CONFIG_TURBO=y", "CONFIG_NET=y", patches=(patch,)))
    assert "CONFIG_TURBO=y" in result


@pytest.mark.slow
@pytest.mark.needs("gcc")
def test_a_variant_that_does_not_configure_or_compile_fails_alone(toy: Toy) -> None:
    broken = toy.edit("broken", "lib/sort.c", "return steps;", "return stairs;")
    unconfigured = toy.edit("unconfigured", "scripts/settle.awk", "END {", "END { {")
    variants = {
        "config": variant("config", patches=(unconfigured,)),
        "compile": variant("compile", patches=(broken,)),
        "good": variant("good", "CONFIG_HZ=250"),
        "stock": variant("stock"),
        "lost": variant("lost", "CONFIG_SMP=y"),
    }
    reports: list[str] = []

    def built(baseline: str, *names: str) -> Built:
        chosen = tuple(variants[name] for name in names)
        skipped = {"simd": "skipped: no avx2"}
        recipes = Recipes({each.name: toy.recipe(each) for each in chosen}, skipped)
        experiment = Experiment("toy", "?", baseline, chosen, ())
        return build_all(experiment, recipes, toy.cache, notify=reports.append)

    with pytest.raises(UsageError, match="variant 'lost'"):
        built("stock", "stock", "lost")
    with pytest.raises(BuildError, match=r"variant 'compile' did not build"):
        built("compile", "compile", "good")
    assert not list((toy.cache / "images").glob("*/linux"))
    result = built("stock", "config", "compile", "good", "stock")
    assert list(result.images) == ["stock", "good"]
    assert result.failed.keys() == {"simd", "config", "compile"}
    assert "make tinyconfig failed" in result.failed["config"] and "awk" in result.failed["config"]
    assert "'stairs' undeclared" in result.failed["compile"]
    assert reports == [result.failed["config"], result.failed["compile"]]


def parsed(text: str, folder: Path) -> Experiment:
    return loader.parse(text, "x.toml", folder, vocabulary(load()))


def test_bench_is_the_same_under_uml_as_when_it_was_one_file() -> None:
    """The lines are in every image's name: a kernel built before is still the same kernel."""
    shipped = data_root() / "experiments" / "simd-memcpy.toml"
    stock = loader.load(shipped, vocabulary(load())).variants[0]
    assert [fragment.origin for fragment in stock.config] == ["bench.config", "bench.uml.config"]
    lines = "".join(f"{wish.line}\n" for wish in wishes(stock.config))
    held(Path(__file__).parent / "golden" / "bench-uml.config.txt", lines)


def test_small_is_bench_without_some_options() -> None:
    """But for 9P's own needs, which bench has anyway, and for what it leaves out."""
    folder = data_root() / "kernel" / "config"
    for machine in ("", ".uml", ".qemu"):
        bench, small = (
            {line for line in (folder / f"{name}{machine}.config").read_text().splitlines()
             if line.startswith("CONFIG_")} for name in ("bench", "small")
        )  # fmt: skip
        added = {line for line in small - bench if not line.endswith("=n")}
        assert added <= {"CONFIG_NET=y"} and len(small & bench) > 2 and bench - small, machine


def test_a_fragment_brings_what_its_machine_needs_besides(tmp_path: Path) -> None:
    (tmp_path / "mine.config").write_text("CONFIG_EXPERT=y\n")
    (tmp_path / "mine.uml.config").write_text("CONFIG_HOSTFS=y\n")
    (tmp_path / "mine.qemu.config").write_text("CONFIG_PVH=y\n")
    text = (
        'name = "x"\nquestion = "Is it?"\n[kernel]\nsource = "debian:linux-source-7.3"\n'
        'config = ["mine"{}]\n[variant.stock]\n[measure]\ncalibrate = true\n'
        '[[suite]]\nname = "unixbench"\ncases = ["pipe"]\n'
    )
    (only,) = parsed(text.format(""), tmp_path).variants
    assert [(each.origin, each.lines) for each in only.config] == [
        ("mine.config", ("CONFIG_EXPERT=y",)),
        ("mine.uml.config", ("CONFIG_HOSTFS=y",)),
    ]
    with pytest.raises(UsageError, match=r"contradicts 'CONFIG_HOSTFS=y' \(from mine\.uml\.config"):
        parsed(text.format(', "CONFIG_HOSTFS=n"'), tmp_path)
    # A program may have a fragment's name.
    (tmp_path / "smp").write_text("#!/bin/sh\n")
    (only,) = parsed(text.format(', "smp"'), tmp_path).variants
    assert "CONFIG_SMP=y" in [line for each in only.config for line in each.lines]


ROUTINE = next(routine.name for routine in list_routines() if routine.archs == ("um",))


@pytest.fixture
def other(monkeypatch: pytest.MonkeyPatch) -> Arch:
    """Built by the goal of the toy, but its image is another file, as a bzImage is."""
    added = Arch("other", ("ARCH=other",), "linux", "boot/packed", 64, (64,), {"CONFIG_64BIT": "y"})
    monkeypatch.setattr(config, "ARCHS", {**config.ARCHS, added.name: added})
    return added


@pytest.mark.slow
def test_the_image_may_lie_elsewhere_than_what_make_is_asked_for(
    other: Arch, tmp_path: Path
) -> None:
    pack = "linux: boot/packed\nboot/packed:\n\t@mkdir -p boot; echo packed > $@\n"
    toy = Toy(tmp_path, {"scripts/extra.mk": pack}, sandboxed=False)
    assert toy.build(variant(arch=other.name)).kernel.read_text() == "packed\n"


def test_a_routine_of_another_arch_is_refused(other: Arch, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot go into a kernel of arch 'other', only into um"):
        Toy(tmp_path).recipe(variant("mine", memcpy=ROUTINE, arch=other.name))


def test_registers_of_amx_have_no_place_in_earlier_user_mode_linux_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offsets = {"arch/x86/um/user-offsets.c": "DEFINE(HOST_FP_SIZE, 2696);\n"}
    requested = variant("stock")
    recipe = Toy(tmp_path, {**FILES, **offsets}).recipe(requested)
    monkeypatch.setattr(builder.cpu, "flags", lambda: frozenset(("amx_tile",)))
    with pytest.raises(UsageError, match="cannot run on a CPU with AMX"):
        builder._refuse_small_xstate(requested, recipe)
    builder._refuse_small_xstate(replace(requested, arch="x86_64"), recipe)
