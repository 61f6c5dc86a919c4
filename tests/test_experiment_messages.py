# SPDX-License-Identifier: MIT
"""Every mistake of an experiment file is told, in the words that are recorded beside the file.

After a wanted change of the words: ``KDYNO_GOLDEN=write``, as CONTRIBUTING.md has it.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from held import held

from kdyno.errors import UsageError
from kdyno.experiment.loader import load, parse
from kdyno.experiment.model import Vocabulary

DATA = Path(__file__).parent / "data" / "experiments"
VOCABULARY = Vocabulary(
    suites={"unixbench": ("pipe", "context1", "fscopy-256", "fscopy-1024"), "simd": ("fill",)},
    routines=("avx512", "fsrm"),
    fragment_dirs=(DATA / "fragments",),
    machines={"uml": ("um", "um32"), "qemu": ("x86_64",), "host": ()},
)
VALID = ("valid-cross", "minimal")


@pytest.mark.parametrize(
    "file",
    [file for file in sorted(DATA.glob("*.toml")) if file.stem not in VALID],
    ids=lambda file: file.stem,
)
def test_mistakes_are_told_in_the_recorded_words(file: Path) -> None:
    with pytest.raises(UsageError) as caught:
        parse(file.read_text(), file.name, DATA, VOCABULARY)
    told = str(caught.value).replace(str(DATA), "FOLDER") + "\n"
    held(file.with_suffix(".expected"), told)


def test_a_folder_a_missing_file_and_a_wrong_name(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is a folder, not an experiment file"):
        load(tmp_path, VOCABULARY)
    (tmp_path / "mine.toml").write_text("")
    with pytest.raises(UsageError, match=r"does not exist. Did you mean .*mine\.toml\?"):
        load(tmp_path / "mien.toml", VOCABULARY)


def test_a_file_that_is_no_utf8_names_line_and_byte(tmp_path: Path) -> None:
    file = tmp_path / "x.toml"
    file.write_bytes(b'name = "x"\nquestion = "caf\xe9"\n')
    with pytest.raises(UsageError, match=r"x\.toml:2: byte 0xe9 is not UTF-8"):
        load(file, VOCABULARY)


def test_a_file_of_10_mb_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "x.toml"
    file.write_bytes(b"# \n" * (10 * 2**20 // 3))
    with pytest.raises(UsageError, match="larger than 1 MB"):
        load(file, VOCABULARY)


def test_a_check_of_sources_from_outside_is_told_at_the_key() -> None:
    def refuse(source: str) -> None:
        raise UsageError(f"no mirror for {source}")

    vocabulary = Vocabulary(suites=VOCABULARY.suites, check_source=refuse)
    text = (DATA / "minimal.toml").read_text()
    with pytest.raises(UsageError, match=r"x:4: kernel\.source: no mirror for debian:linux-"):
        parse(text, "x", DATA, vocabulary)
