# SPDX-License-Identifier: MIT
"""Inputs that are small to send and huge to read: they are refused by their size, unread."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from fake_tree import make_tree

from kdyno.errors import UsageError
from kdyno.experiment.loader import parse as read_experiment
from kdyno.kernels.source import fetch, parse
from kdyno.kernels.sources import manifest
from kdyno.measure.vocabulary import vocabulary
from kdyno.suites.catalogue import load

HEAD = 'name = "x"\nquestion = "?"\nbaseline = "a"\n[kernel]\nsource = "debian:linux-source-7.3"\n'
LONG = "K" * 100_000


def sparse_tree(folder: Path) -> Path:
    tree = make_tree(folder / "linux")
    with (tree / "lib/hole.c").open("wb") as file:
        file.truncate(200 << 30)
    return tree


@pytest.fixture
def unread(monkeypatch: pytest.MonkeyPatch) -> None:
    read = manifest.content_hash

    def watched(path: str, mode: int, size_bytes: int) -> str:
        assert size_bytes < 1 << 20, f"{path} is read"
        return read(path, mode, size_bytes)

    monkeypatch.setattr(manifest, "content_hash", watched)


@pytest.mark.parametrize("kind", ["tar", "path"])
def test_a_sparse_file_of_200_gb_is_refused_by_its_size(
    tmp_path: Path, unread: None, kind: str
) -> None:
    place = tree = sparse_tree(tmp_path)
    if kind == "tar":
        place = tmp_path / "linux.tar"
        subprocess.run(
            ["tar", "--sparse", "-C", str(tmp_path), "-cf", str(place), tree.name], check=True
        )
        assert place.stat().st_size < 1 << 20
    with pytest.raises(UsageError, match=r"'lib/hole.c' has 214\.7 GB; .* has 4 GB at most"):
        fetch(parse(f"{kind}:{place}"), tmp_path / "cache", lambda _text, _part: None)
    assert not list((tmp_path / "cache").glob("trees/*"))


def test_many_files_are_refused_by_their_sum(
    tmp_path: Path, unread: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(manifest, "MOST_BYTES", 300)
    tree = make_tree(tmp_path / "linux")
    with pytest.raises(UsageError, match=r"its files have 0\.0 GB together"):
        fetch(parse(f"path:{tree}"), tmp_path / "cache", lambda _text, _part: None)


@pytest.mark.parametrize(
    "text",
    [
        f"{LONG} = 1\n{HEAD}[variant.a]\n",
        f"{HEAD}{LONG} = 1\n[variant.a]\n",
        f"{HEAD}[variant.{LONG}]\n",
        f"{HEAD}[variant.a]\n[{LONG}.{LONG}]\nx = 1\n",
        f'{HEAD}[variant.a]\n"{LONG}" = 1\n',
        f'{HEAD}[variant.a]\nconfig = ["{LONG}"]\n',
        f'{HEAD}[variant.a]\nconfig = ["CONFIG_{LONG}=y", "CONFIG_{LONG}=n"]\n',
        f'{HEAD}[variant.a]\nmemcpy = "{LONG}.S"\n',
        f'{HEAD}[variant.a]\npatches = ["{LONG}.patch"]\n',
        f"{HEAD}[variant.a]\nsysctl = {{ {LONG} = [] }}\n",
        f"{HEAD}[variant.a]\n[factor.{LONG}]\non = {{}}\n",
        f"{HEAD}[variant.a]\n[measure]\n{LONG} = 1\n{LONG} = 2\n",
    ],
)
def test_a_key_of_100_000_characters_is_not_echoed_whole(tmp_path: Path, text: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_experiment(text, "x.toml", tmp_path, vocabulary(load()))
    assert len(str(caught.value)) < 5000
