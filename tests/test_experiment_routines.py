# SPDX-License-Identifier: MIT
"""The keys ``memcpy`` and ``routines``: names, files and lists of them, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from kdyno.errors import UsageError
from kdyno.experiment.loader import parse
from kdyno.experiment.model import Variant, Vocabulary

WORDS = Vocabulary(
    suites={"unixbench": ("pipe",)},
    routines=("fsrm", "avx2"),
    function_routines={"memset": ("sse", "avx2"), "copy_page": ("sse",)},
    runs_here=lambda stem: "avx2" not in stem,
)


def variants(tmp_path: Path, keys: str, kernel: str = "") -> tuple[Variant, ...]:
    (tmp_path / "src").mkdir(exist_ok=True)
    text = (
        f'name = "x"\nquestion = "?"\nbaseline = "a"\n[kernel]\nsource = "path:src"\n{kernel}\n'
        f'[variant.a]\n[variant.b]\n{keys}\n[[suite]]\nname = "unixbench"\n'
    )
    return parse(text, "x.toml", tmp_path, WORDS).variants


def test_routines_by_function(tmp_path: Path) -> None:
    stock, mine = variants(tmp_path, 'routines = { memset = "sse", copy_page = ["sse"] }')
    assert stock.routines == ()
    assert mine.routines == (("copy_page", "sse"), ("memset", "sse"))
    assert mine.memcpy is None


def test_of_several_the_first_that_runs_here(tmp_path: Path) -> None:
    _, mine = variants(tmp_path, 'routines = { memset = ["avx2", "sse"] }')
    assert mine.routines == (("memset", "sse"),)
    _, mine = variants(tmp_path, 'routines.memset = ["avx2"]')
    assert mine.routines == (("memset", "avx2"),)


def test_a_variant_replaces_what_the_kernel_says(tmp_path: Path) -> None:
    below = 'routines = { memset = "sse", copy_page = "sse" }'
    stock, mine = variants(tmp_path, 'routines = { memset = "stock" }', below)
    assert dict(stock.routines) == {"memset": "sse", "copy_page": "sse"}
    assert mine.routines == ()


def test_a_file_goes_by_its_path_from_the_experiments_folder(tmp_path: Path) -> None:
    (tmp_path / "mine.S").write_text("")
    (tmp_path / "memset-mine.S").write_text("")
    _, mine = variants(tmp_path, 'memcpy = "mine.S"\nroutines.memset = "./memset-mine.S"')
    assert mine.memcpy == str(tmp_path / "mine.S")
    assert mine.routines == (("memset", str(tmp_path / "memset-mine.S")),)
    _, mine = variants(tmp_path, 'memcpy = ["avx2", "mine.S", "fsrm"]')
    assert mine.memcpy == str(tmp_path / "mine.S")


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ('memcpy = "gone.S"', "gone.S"),
        ('memcpy = "./mine.txt"', "file is named FILE.S"),
        ('memcpy = ["fsrm", "fsmr"]', 'Did you mean "fsrm"'),
        ('routines = "sse"', "a table like"),
        ('routines = { memst = "sse" }', 'Did you mean "memset"'),
        ('routines = { memcpy = "avx2" }', "unknown key"),
        ('routines = { memset = "avx3" }', 'Did you mean "avx2"'),
        ("routines = { memset = 3 }", "memset: 3, an integer"),
        ('routines = { memset = ["sse", "gone/x.S"] }', "gone/x.S"),
    ],
)
def test_what_is_wrong_is_refused(keys: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as refused:
        variants(tmp_path, keys)
    assert said in str(refused.value)
    assert "x.toml:" in str(refused.value)
