# SPDX-License-Identifier: MIT
"""The examples of the help that need no kernel are run; tests/uml/test_examples.py has those
that do."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from command_line import Kdyno
from synthetic_run import Shape, make
from test_docs import VERBS as COMMANDS
from test_memcpy_bench import bench_of
from test_profiles_shown import HALF, STOCK

from kdyno.kernels.cpu import missing
from kdyno.labs.memcpy.results import to_json as bench_json
from kdyno.labs.profile.record import to_json
from kdyno.store.manifest import CaseInfo
from kdyno.store.run import write_run

VERBS = (
    *("doctor", "list", "compare", "report", "profile"),
    *("lab memcpy generate", "lab memcpy check", "lab memcpy bench"),
)
ONLY = {"profile": "--show", "lab memcpy bench": "--from"}
"""Verb → the word of its examples that measure nothing."""
ENDS = {"kdyno report last --fail-on slower": 10}
"""Examples that are to end with another status than 0."""


def examples(verb: str) -> list[str]:
    text = COMMANDS[verb].epilog.split("Examples:\n")[1]
    return [line.strip() for line in text.splitlines()]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two finished runs with profiles, which end as those of the examples do."""
    folder = tmp_path_factory.mktemp("runs")
    cases = tuple(
        CaseInfo(suite="unixbench", case=name, unit="loops/s", better="higher")
        for name in ("pipe", "context1", "syscall")
    )
    for name in ("3f2a", "81bc"):
        path = make(folder, Shape(cases, {"mine": 0.96}, blocks=8, experiment=f"run{name}")).path
        with write_run(path) as writer:
            for own in (STOCK, HALF):
                writer.save_file(f"{own.variant}.json", to_json(own).encode(), "profile")
        path.rename(path.with_name(f"{path.name[:-4]}{name}"))
    return folder


def quickly(verb: str) -> list[Any]:
    """The examples without those that build a kernel, ask a cluster or a box, or need a file of
    the reader's; of a check a part of the sizes will do."""
    other = ("--kernel", "--on", "--kvm", "--box", "--attribute", "--join", "./mine.S")
    lines = [line for line in examples(verb) if not any(word in line.split() for word in other)]
    lines = [line for line in lines if ONLY.get(verb, "") in line]
    if verb != "lab memcpy check":
        return list(lines)
    return [pytest.param(f"{line} --quick", marks=pytest.mark.slow) for line in lines]


@pytest.mark.slow
@pytest.mark.parametrize("line", [line for verb in VERBS for line in quickly(verb)])
def test_example(
    line: str, runs: Path, kdyno: Kdyno, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KDYNO_RUNS", str(runs))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bench.json").write_text(json.dumps(bench_json(bench_of())))
    words = shlex.split(line, comments=True)[1:]
    if words[:3] == ["lab", "memcpy", "check"] and missing(("avx2",)) and len(words) > 3:
        pytest.skip("this CPU has no AVX2")
    output = kdyno(*words)
    assert output.status == ENDS.get(line, 0), output.err
    if "-o" in words:
        assert (tmp_path / words[words.index("-o") + 1]).stat().st_size > 100
    else:
        assert output.out.strip()
