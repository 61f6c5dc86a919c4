# SPDX-License-Identifier: MIT
"""Which clang a kernel is built with: one that its own tree takes."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from kdyno.errors import UsageError
from kdyno.kernels import compiler as compilers

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
            program = tmp_path / name
            program.write_text(f"#!/bin/sh\necho 'Toy clang version {version} (x)'\n")
            program.chmod(0o755)
        script = tmp_path / "tree" / "scripts" / "min-tool-version.sh"
        script.parent.mkdir(parents=True)
        script.write_text(WANTED)
        return tmp_path / "tree"

    monkeypatch.setattr(shutil, "which", only_ours)
    compilers.identify.cache_clear()
    yield tools
    compilers.identify.cache_clear()


INSTALL = "On Debian: apt-get install --no-install-recommends clang-19"


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
                + INSTALL
            )
    assert compilers.missing_clang() == lack
