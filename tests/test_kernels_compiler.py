# SPDX-License-Identifier: MIT
"""Which clang a kernel is built with: one that its own tree takes."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
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

    def made(**versions: str) -> Path:
        for name, version in versions.items():
            program = tmp_path / name.replace("_", "-")
            program.write_text(f"#!/bin/sh\necho 'Toy clang version {version} (x)'\n")
            program.chmod(0o755)
        script = tmp_path / "tree" / "scripts" / "min-tool-version.sh"
        script.parent.mkdir(parents=True)
        script.write_text(WANTED)
        return tmp_path / "tree"

    monkeypatch.setattr(shutil, "which", only_ours)
    compilers.identify.cache_clear()
    yield made
    compilers.identify.cache_clear()


def test_clang_is_the_newest_that_there_is_where_the_plain_one_is_too_old(clangs: Made) -> None:
    tree = clangs(clang="14.0.6", clang_16="16.0.6", clang_18="18.1.8", clang_19="19.1.7")
    found = compilers.for_tree("clang", tree)
    assert (found.name, found.version) == ("clang-19", "Toy clang version 19.1.7 (x)")
    assert {"CC=clang-19", "HOSTCC=clang-19"} <= set(found.make_arguments(None))
    assert compilers.for_tree("clang-18", tree).name == "clang-18"
    assert compilers.for_tree("clang", tree / "says nothing").name == "clang"
    assert compilers.missing_clang() is None


def test_plain_clang_is_taken_where_it_will_do(clangs: Made) -> None:
    tree = clangs(clang="17.0.6", clang_19="19.1.7")
    assert compilers.for_tree("clang", tree).name == "clang"


def test_a_clang_that_is_too_old_is_refused_with_the_way_out(clangs: Made) -> None:
    tree = clangs(clang="14.0.6", clang_16="16.0.6")
    for name, version in (("clang", "14.0.6"), ("clang-16", "16.0.6")):
        with pytest.raises(UsageError) as refused:
            compilers.for_tree(name, tree)
        assert str(refused.value) == (
            f"compiler {name!r}: this kernel wants clang 17.0.1 or later; here: Toy clang version "
            f"{version} (x). On Debian: apt-get install --no-install-recommends clang-19"
        )
    assert compilers.missing_clang() == (
        "Toy clang version 16.0.6 (x), and Linux 7 wants 17 or later"
    )


def test_without_any_clang_the_same_is_said(clangs: Made) -> None:
    tree = clangs()
    with pytest.raises(UsageError, match=r"here: no clang on PATH\. On Debian: apt-get install"):
        compilers.for_tree("clang", tree)
    assert compilers.missing_clang() == "no clang on PATH"
