# SPDX-License-Identifier: MIT
"""Settings where a tool looks for them: the caller's environment, its home, the source, a cache.

Each would change what a build or a profile is, or run a program. An attack that could be tried
without the sandbox is tried without it first, so that it is known to be one.
"""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from toy_kernel import FILES, Toy, says, variant

from kdyno.command import capture
from kdyno.errors import BuildError, UsageError
from kdyno.experiment.loader import parse as read_experiment
from kdyno.kernels.changes import BUILD_SOURCE
from kdyno.kernels.recipe import compile_cache
from kdyno.labs.profile import perf
from kdyno.machines import emulator
from kdyno.machines.emulator import Emulator
from kdyno.machines.guest import _compile
from kdyno.machines.process import ENVIRONMENT
from kdyno.measure.vocabulary import vocabulary
from kdyno.suites.catalogue import load

pytestmark = pytest.mark.needs("sandbox", "gcc")
inside_or_not = pytest.mark.parametrize(
    "sandboxed",
    [pytest.param(True, id="inside"), pytest.param(False, id="plainly", marks=pytest.mark.slow)],
)


def first_fast(ways: Iterable[str]) -> list[Any]:
    """A build each: `make check` tries the first of them."""
    return [
        pytest.param(way, marks=[pytest.mark.slow] if at else []) for at, way in enumerate(ways)
    ]


TELLS = "linux: tells\ntells:\n\t@env -0 | tr '\\n\\0' '\\1\\n' | sed 's/^/told /'\n"
OURS = {"PATH", "LC_ALL", "HOME", "CCACHE_DIR", "CCACHE_MAXSIZE", "CCACHE_CONFIGPATH",
        "CCACHE_TEMPDIR", "CCACHE_READONLY", "CCACHE_NOSTATS", "CCACHE_DEPEND",
        "CCACHE_NAMESPACE"}  # fmt: skip
SANDBOXS = {"TMPDIR", "PWD"}
MAKES = {"MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "MAKE_TERMOUT", "MAKE_TERMERR"}
TOYS = {"srctree", "O", "CC", "KBUILD_BUILD_TIMESTAMP", "KBUILD_BUILD_USER", "KBUILD_BUILD_HOST",
        "KBUILD_BUILD_VERSION", "LOCALVERSION", "ARCH", "SUBARCH", "HOSTCC", "KCFLAGS", "SHLVL",
        "OLDPWD", "_"}  # fmt: skip


@pytest.mark.slow
@inside_or_not
def test_a_build_is_told_nothing_of_the_callers_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sandboxed: bool
) -> None:
    evil = tmp_path / "evil.mk"
    evil.write_text(f"$(shell echo ran > {tmp_path}/mark)\n")
    own = str(tmp_path)
    hostile = {
        **{f"KCONFIG_{each}": f"{own}/other" for each in ("CONFIG", "ALLCONFIG", "AUTOCONFIG")},
        **{"KCONFIG_OVERWRITECONFIG": "1", "KCONFIG_SEED": "1", "KBUILD_EXTMOD": own},
        **{"KBUILD_KCONFIG": f"{own}/Kconfig", "KCFLAGS": "-DKCFLAGS=1", "MAKEFILES": str(evil)},
        **dict.fromkeys(("MAKEFLAGS", "GNUMAKEFLAGS"), f"--eval=include\\ {evil}"),
        **{"CC": "false", "CPATH": own, "COMPILER_PATH": own, "GCC_EXEC_PREFIX": f"{own}/"},
        **{"CCACHE_PREFIX": "false", "CCACHE_DISABLE": "1", "BASH_ENV": str(evil)},
        "ENV": str(evil),
    }
    for name, value in hostile.items():
        monkeypatch.setenv(name, value)
    toy = Toy(tmp_path, {"scripts/extra.mk": TELLS}, sandboxed=sandboxed)
    image = toy.build(variant())
    log = (image.folder / "build.log").read_text()
    messages = {line.removeprefix("told ").split("=")[0]: line for line in log.splitlines()
            if line.startswith("told ")}  # fmt: skip
    assert messages.keys() >= {"PATH", "MAKEFLAGS", "CCACHE_CONFIGPATH"}
    assert messages.keys() - OURS - SANDBOXS - MAKES - TOYS == set()
    assert not any(str(evil) in line for line in messages.values())
    assert not (tmp_path / "mark").exists()
    assert says(image) == "limit 10, hz 100, sort 1, place " + says(image).rpartition(" ")[2]


def test_the_guest_program_is_built_as_its_makefile_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by `make CFLAGS=-O0 test`, whose flags reach every make below it."""
    evil = tmp_path / "evil.mk"
    evil.write_text("CFLAGS := -O0\n")
    hostile = {"MAKEFLAGS": " -- CFLAGS=-O0", "MAKEFILES": str(evil), "MAKEOVERRIDES": "CFLAGS=-O0",
               "CFLAGS": "-O0", "CC": "false", "CPATH": str(tmp_path), "LD_PRELOAD": "",
               "LIBRARY_PATH": str(tmp_path), "C_INCLUDE_PATH": str(tmp_path)}  # fmt: skip
    for name, value in hostile.items():
        monkeypatch.setenv(name, value)
    source = tmp_path / "guest"
    source.mkdir()
    lines = "CFLAGS := -O2\nall:\n\t@mkdir -p $(OUT) && env > $(OUT)/told\n"
    (source / "Makefile").write_text(f"{lines}\t@echo flags $(CFLAGS) >> $(OUT)/told\n")
    _compile(source, tmp_path / "made")
    messages = (tmp_path / "made" / "told").read_text().splitlines()
    assert "flags -O2" in messages
    names = {line.split("=")[0] for line in messages if "=" in line}
    assert not names & (hostile.keys() - {"MAKEFLAGS", "MAKEOVERRIDES"})


@pytest.mark.slow
def test_a_plugin_is_built_from_its_own_headers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("C_INCLUDE_PATH", str(tmp_path))
    (tmp_path / "stdlib.h").write_text("#error hostile\n")
    qemu = Emulator("qemu", "7.2.22")
    assert emulator.library.__wrapped__(emulator.TALLY, tmp_path, qemu).is_file()


HEAD = 'name = "x"\nquestion = "?"\nbaseline = "a"\n[kernel]\nsource = "debian:linux-source-7.3"\n'


@pytest.mark.parametrize(
    "line",
    [
        "KCONFIG_ALLCONFIG=/x",
        "KCONFIG_CONFIG=/x",
        "CONFIG_HZ=100\\nKCONFIG_CONFIG=/x",
        'CONFIG_HZ=100\\nsource \\"/x\\"',
        "MAKEFILES=/x",
    ],
)
def test_an_experiment_sets_options_only(tmp_path: Path, line: str) -> None:
    text = f'{HEAD}[variant.a]\nconfig = ["{line}"]\n'
    with pytest.raises(UsageError, match="config"):
        read_experiment(text, "x.toml", tmp_path, vocabulary(load()))


@pytest.mark.slow
def test_flags_are_one_word_of_makes(tmp_path: Path) -> None:
    toy = Toy(tmp_path)
    flags = "-DX=1 KCONFIG_CONFIG=/x MAKEFILES=/x"
    with pytest.raises(BuildError):  # they are files that gcc does not find
        toy.build(variant("x", cflags=flags))
    (log,) = (toy.cache / "failed").glob("*.log")
    (call, *_) = [line for line in log.read_text().splitlines() if "KCFLAGS" in line]
    assert f"KCFLAGS={flags}" in shlex.split(call)


MAIN = FILES["init/main.c"].replace("{\n", "{\n#ifdef EVIL\n\tputs(EVIL);\n#endif\n", 1)
WRAPPER = '#!/bin/sh\nexec "$@" -DEVIL=\\"evil\\"\n'


@pytest.mark.slow
@pytest.mark.needs("ccache")
@inside_or_not
@pytest.mark.parametrize("place", first_fast(["cache", "home", "settings", "source"]))
def test_a_compile_cache_obeys_no_settings_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, sandboxed: bool
) -> None:
    wrapper = tmp_path / "toy" / "scripts" / "wrap.sh"
    seen = f"{BUILD_SOURCE}/scripts/wrap.sh" if sandboxed else str(wrapper)
    ccache = f"prefix_command = sh {seen}\nprefix_command_cpp = sh {seen}\n"
    toy = Toy(
        tmp_path,
        {
            "init/main.c": MAIN,
            "scripts/wrap.sh": WRAPPER,
            "ccache.conf": ccache,
            ".ccache/ccache.conf": ccache,
        },
        sandboxed=sandboxed,
        trusted=False,
    )
    home = tmp_path / "home"
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "settings"))
    shared, own = compile_cache(toy.cache, toy.recipe(variant()).foreign)
    assert own
    places = {
        "cache": shared / "ccache.conf",
        "home": home / ".ccache" / "ccache.conf",
        "settings": home / "settings" / "ccache" / "ccache.conf",
        "source": toy.source / "ccache.conf",
    }
    places[place].parent.mkdir(parents=True, exist_ok=True)
    places[place].write_text(ccache)
    assert "evil" not in says(toy.build(variant()))


INCLUDED = "EVIL := yes\n$(shell echo ran >> {mark})\nCFLAGS_evil := -DTOLD\n"
WAYS = {
    "absolute": "-include {outside}/more.mk\n",
    "required": "include {outside}/more.mk\n",
    "by-a-link": "$(shell ln -sf {outside}/more.mk linked.mk)\n-include linked.mk\n",
    "upwards": "-include $(srctree)/../outside/more.mk $(O)/../outside/more.mk\n",
    "a-file-read": "$(info told $(file <{outside}/secret))\n",
    "all-of-a-folder": "-include $(wildcard {outside}/*.mk)\n",
}


@pytest.mark.slow
@pytest.mark.parametrize("way", first_fast(WAYS))
@inside_or_not
def test_a_makefile_includes_nothing_from_outside(
    tmp_path: Path, way: str, sandboxed: bool
) -> None:
    outside, mark = tmp_path / "outside", tmp_path / "outside" / "mark"
    outside.mkdir()
    (outside / "secret").write_text("a secret\n")
    (outside / "more.mk").write_text(INCLUDED.format(mark=mark) + "$(info told a secret)\n")
    text = WAYS[way].format(outside=outside)
    toy = Toy(tmp_path, {"scripts/extra.mk": text}, sandboxed=sandboxed)
    try:
        log = (toy.build(variant()).folder / "build.log").read_text()
    except BuildError:
        assert way == "required" and sandboxed
    else:
        # Without a sandbox each is an attack, but for the way up: sources lie in the cache.
        assert ("told a secret" in log) == (not sandboxed and way != "upwards")
        assert mark.exists() == (not sandboxed and way not in ("upwards", "a-file-read"))


PERF = "[call-graph]\n\trecord-mode = rubbish\n"


@pytest.mark.slow
@pytest.mark.needs("perf")
@pytest.mark.parametrize("place", ["home", "named", "here"])
def test_a_profiler_obeys_no_settings_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    (tmp_path / ".perfconfig").write_text(PERF)
    (tmp_path / "perfconfig").write_text(PERF)
    environment = dict(ENVIRONMENT)
    if place == "home":
        environment["HOME"] = str(tmp_path)
    elif place == "named":
        environment["PERF_CONFIG"] = str(tmp_path / "perfconfig")
    monkeypatch.chdir(tmp_path)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    data = tmp_path / "perf.data"
    plain = ["perf", "record", "--quiet", "--output", str(data), "--call-graph", "fp", "true"]
    output = subprocess.run(plain, env=environment, capture_output=True, text=True, check=False)
    assert ("record-mode=rubbish" in output.stderr) == (place != "here"), output.stderr
    done = capture([*perf.record(data, perf.SOFTWARE), "true"], env=environment)
    assert (done.status, done.output) == (0, "")
    assert perf.script(data)
