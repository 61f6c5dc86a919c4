# SPDX-License-Identifier: MIT
"""Wrong inputs, one a row: each gets a clear message with file, line or option, status 2 and no
traceback. They are in data/wrong-inputs.toml, messages in golden/wrong-inputs.toml; more mistakes
at once are in data/experiments.

After a wanted change of the words: ``KDYNO_GOLDEN=write``, as CONTRIBUTING.md has it.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from command_line import FASTER, Kdyno, stored, verdict
from fake_tree import commit, git
from toy_kernel import make_source

from kdyno import sandbox

GOLDEN = Path(__file__).parent / "golden" / "wrong-inputs.toml"
SHOWN = 240
"""Characters of a message that are held: lists of what is allowed grow with the catalogue."""

VALID = """\
name = "x"
baseline = "stock"
[kernel]
source = "debian:linux-source-7.3"
[variant.stock]
[variant.mine]
cflags = "-O3"
[machine]
memory = "512M"
[[suite]]
name = "unixbench"
cases = ["pipe"]
[measure]
max_boots = 20
"""

WRONG = tomllib.loads((Path(__file__).parent / "data" / "wrong-inputs.toml").read_text("utf-8"))


def held_words(name: str, text: str) -> None:
    """``text`` is what the golden file has under ``name``."""
    expected = tomllib.loads(GOLDEN.read_text(encoding="utf-8")) if GOLDEN.exists() else {}
    if os.environ.get("KDYNO_GOLDEN") == "write":
        expected[name] = text
        lines = [
            f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in expected.items()
        ]
        head = "# SPDX-License-Identifier: MIT\n"
        GOLDEN.write_text(head + "\n".join(sorted(lines)) + "\n", encoding="utf-8")
    assert expected.get(name) == text


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sandbox, "require", lambda: True)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.toml").write_text(VALID, encoding="utf-8")
    (tmp_path / "no-hunk.patch").write_text("--- a/x\n+++ b/x\n", encoding="utf-8")
    return tmp_path


def refused(kdyno: Kdyno, folder: Path, *words: str) -> str:
    """What the command line says, in one style: status 2, nothing on stdout."""
    output = kdyno(*words)
    assert output.status == 2 and output.out == ""
    assert output.err.startswith("kdyno: ") and "Traceback" not in output.err
    assert "Error:" not in output.err and "Usage:" not in output.err
    return output.err.replace(f"{folder}/", "FOLDER/").replace(str(folder), "FOLDER")


def test_there_are_120_of_them_and_the_valid_file_is_valid(kdyno: Kdyno, folder: Path) -> None:
    assert sum(map(len, WRONG.values())) >= 120
    assert kdyno("run", "x.toml", "--fail-on", "x").err.startswith("kdyno: --fail-on")


@pytest.mark.parametrize("name", WRONG["files"])
def test_a_wrong_file(kdyno: Kdyno, folder: Path, name: str) -> None:
    old, new = WRONG["files"][name]
    assert VALID.count(old) == 1
    text = VALID.replace(old, new.replace("HUGE", "9" * 5000))
    (folder / "x.toml").write_text(text, encoding="utf-8")
    message = refused(kdyno, folder, "check", "x.toml", "--no-sandbox")
    assert re.search(r"x\.toml(:\d+)?: ", message)
    held_words(name, message[:SHOWN])


@pytest.mark.parametrize("name", WRONG["lines"])
def test_a_wrong_command_line(kdyno: Kdyno, folder: Path, name: str) -> None:
    stored(folder / "runs", verdict(FASTER))
    message = refused(kdyno, folder, *WRONG["lines"][name].split())
    assert [path.name for path in folder.iterdir() if path.name in ("runs", "cache")] == ["runs"]
    assert len(list((folder / "runs").glob("2*"))) == 1  # nothing was begun
    held_words(name, message[:SHOWN])


@pytest.mark.slow
@pytest.mark.needs("gcc", "git")
@pytest.mark.parametrize("row", WRONG["tree"], ids=lambda row: row["line"])
def test_what_only_the_source_tells(kdyno: Kdyno, folder: Path, row: dict[str, Any]) -> None:
    swappiness = 'struct x t = { .procname = "swappiness" };\n'
    toy = make_source(folder / "toy", {"kernel/sysctl.c": swappiness})
    git(toy, "init", "-q")
    commit(toy, "toy")
    git(toy, "tag", "v7.3")
    (folder / "broken.tar.xz").write_bytes(b"\xfd7zXZ\0 and no more")
    (folder / "other.patch").write_text(
        "--- a/lib/sort.c\n+++ b/lib/sort.c\n@@ -1,1 +1,1 @@\n-nothing like it\n+something\n"
    )
    text = VALID.replace("debian:linux-source-7.3", "path:toy")
    text = text.replace('cflags = "-O3"', row["line"])
    (folder / "x.toml").write_text(text, encoding="utf-8")
    for verb in (["check", "x.toml"], ["build", "x.toml", "--dry-run"]):
        output = kdyno(*verb)
        assert output.status == 2 and output.out == ""
        assert "mistakes" not in output.err and "partial" not in output.err
        assert all(part in output.err for part in row["parts"]), output.err
    assert not (folder / "cache" / "images").exists()
