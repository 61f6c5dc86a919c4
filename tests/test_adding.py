# SPDX-License-Identifier: MIT
"""CONTRIBUTING's first two recipes, followed in a copy of the project: one C file and one case,
one TOML file alone. Both are listed and measured without any other change.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kdyno.machines.guest import guest_digest
from kdyno.paths import data_root

ROOT = data_root()
# As the kdyno command, but for the lock: another kdyno that measures is nothing to wait for here.
KDYNO = """
from contextlib import nullcontext
from kdyno.measure import execution
from kdyno.cli.main import main
execution.measuring = lambda *_words, **_more: nullcontext()
raise SystemExit(main())
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    copy = tmp_path / "tree"
    for name in ("src", "guest", "kernel", "experiments", "published"):
        skipped = shutil.ignore_patterns("__pycache__", "build")
        shutil.copytree(ROOT / name, copy / name, ignore=skipped)
    return copy


def kdyno(tree: Path, *words: object) -> Any:
    """What the copy prints as JSON."""
    done = subprocess.run(
        [sys.executable, "-c", KDYNO, *map(str, words), "--json", "-"],
        cwd=tree.parent,
        env={
            **os.environ,
            "PYTHONPATH": str(tree / "src"),
            "KDYNO_CACHE": str(tree.parent / "cache"),
            "KDYNO_RUNS": str(tree.parent / "runs"),
        },
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def add_benchmark(tree: Path, native: str) -> None:
    text = (tree / "guest" / "bench" / "hello.c").read_text(encoding="utf-8")
    own = text.replace("BENCH(hello)", "BENCH(my_own)")
    assert own != text
    (tree / "guest" / "bench" / "my-own.c").write_text(own, encoding="utf-8")
    suite = tree / "src" / "kdyno" / "suites" / "catalogue" / "unixbench.toml"
    case = native.replace("[case.hello]", "[case.mine]").replace('"hello"', '"my-own"')
    suite.write_text(f"{suite.read_text(encoding='utf-8')}\n{case}", encoding="utf-8")


def add_program(tree: Path, program: str) -> None:
    head = 'name = "letters"\nhelp = "a suite of an existing program"\n\n'
    # hackbench may not be installed where this test runs; sh is.
    command = 'command = ["sh", "-c", "echo Time: 2.5"]'
    case, result = re.subn(r"^command *=.*$", command, program, flags=re.M)
    assert result == 1
    suite = tree / "src" / "kdyno" / "suites" / "catalogue" / "letters.toml"
    suite.write_text(head + case, encoding="utf-8")


def compile_guest(tree: Path, folder: Path) -> str:
    """The copy's own guest program, from the objects that are there: one file is compiled."""
    subprocess.run(
        ["make", "-C", str(tree / "guest"), f"OUT={folder}"],
        check=True,
        capture_output=True,
        env={**os.environ, "MAKEFLAGS": ""},
    )
    return subprocess.check_output([folder / "kdyno-guest-64", "list"], text=True)


@pytest.mark.uml  # measures on this host: not beside the other tests
def test_both_recipes_are_listed_and_measured(tree: Path, guest_build: Path) -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    native, program = re.findall(r"^```toml\n(.*?)^```", page, re.M | re.S)
    add_benchmark(tree, native)
    add_program(tree, program)
    folder = tree.parent / "cache" / "guest" / guest_digest(tree / "guest")
    shutil.copytree(guest_build, folder)
    assert "my-own" in compile_guest(tree, folder)

    results = {each["case"]: each for each in kdyno(tree, "list", "cases")["cases"]}
    assert results["unixbench/mine"]["unit"] == "adds/s"
    assert results["letters/messages"]["better"] == "lower"

    file = tree.parent / "own.toml"
    file.write_text(
        'name = "own"\n[machine]\nkind = "host"\n'
        '[[suite]]\nname = "unixbench"\ncases = ["mine"]\nseconds = 0.05\n'
        '[[suite]]\nname = "letters"\n'
    )
    verdict = kdyno(tree, "run", file, "--no-sandbox", "--max-boots", 1)
    values = {each["case"]: each["value"] for each in verdict["values"]}
    assert values["messages"] == 2.5
    assert values["mine"] > 1000

    (tree / "guest" / "bench" / "my-own.c").unlink()
    assert "my-own" not in compile_guest(tree, folder)
