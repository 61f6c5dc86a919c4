# SPDX-License-Identifier: MIT
"""docs/ci: the jobs are YAML, their commands are kdyno's, and a status means what they say."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from test_docs import parsed

from kdyno.experiment.loader import parse
from kdyno.measure.vocabulary import vocabulary
from kdyno.suites.catalogue import load

FOLDER = Path(__file__).parent.parent / "docs" / "ci"
JOBS = sorted(FOLDER.glob("*.yml"))


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def scripts(value: Any) -> Iterator[str]:
    """Every command of a job, in either system's words."""
    if isinstance(value, dict):
        for key, each in value.items():
            if key in ("run", "script", "before_script"):
                yield from each if isinstance(each, list) else [each]
            else:
                yield from scripts(each)
    elif isinstance(value, list):
        for each in value:
            yield from scripts(each)


@pytest.mark.parametrize("path", JOBS, ids=lambda path: path.name)
def test_a_jobs_commands_are_a_shells_and_kdynos_and_its_files_are_there(path: Path) -> None:
    for text in scripts(read(path)):
        plain = re.sub(r"\$\{\{.*?\}\}", "x", text)
        subprocess.run(["sh", "-n"], input=plain, text=True, check=True)
    lines = [line.strip() for text in scripts(read(path)) for line in text.splitlines()]
    ours = [shlex.split(line)[1:] for line in lines if line.startswith("kdyno ")]
    assert [words[0] for words in ours] == ["run", "report", "report", "report"]
    assert not any("--fail-on" in words for words in ours), "errors and regressions, one status"
    [gate] = [shlex.split(line) for line in lines if "gate.sh" in line]
    for words in (*ours, ["report", *gate[1:]]):
        parsed(words)
    text = path.read_text(encoding="utf-8")
    assert "KDYNO_EXPERIMENT: speed # or count" in text
    for experiment in ("speed", "count"):
        filled = text.replace("$KDYNO_EXPERIMENT", experiment)
        names = re.findall(r"\.kdyno/tool/((?:docs|setup)[\w./-]*)", filled)
        assert len(names) == 3 and all((FOLDER.parent.parent / name).is_file() for name in names)


@pytest.mark.parametrize("path", JOBS, ids=lambda path: path.name)
@pytest.mark.parametrize("experiment", ["speed", "count"])
def test_the_experiment_that_is_asked_for_is_run(
    path: Path, experiment: str, tmp_path: Path
) -> None:
    """In a repository that has a speed.toml of its own, which decides nothing about the other."""
    (tmp_path / ".kdyno").mkdir()
    (tmp_path / ".kdyno" / "tool").symlink_to(FOLDER.parent.parent)
    (tmp_path / "speed.toml").write_text("own")
    (tmp_path / "kdyno").write_text('#!/bin/sh\necho "$1 $2" >>ran\n')
    (tmp_path / "kdyno").chmod(0o755)
    lines = [line.strip() for text in scripts(read(path)) for line in text.splitlines()]
    [at] = [at for at, line in enumerate(lines) if line.startswith("kdyno run ")]
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "KDYNO_EXPERIMENT": experiment}
    script = "\n".join(["set -e", *lines[at - 1 : at + 1]])
    subprocess.run(["sh", "-c", script], cwd=tmp_path, env=environment, check=True)
    assert (tmp_path / "ran").read_text() == f"run {experiment}.toml\n"
    assert (tmp_path / "speed.toml").read_text() == "own"
    if experiment == "count":
        assert (tmp_path / "count.toml").read_bytes() == (FOLDER / "count.toml").read_bytes()


def test_github_gates_last_and_caches_images_and_gitlab_retries_errors_only() -> None:
    steps = read(FOLDER / "github.yml")["jobs"]["speed"]["steps"]
    assert steps[-1]["name"] == "Gate" and "if" not in steps[-1]
    [cached] = [step for step in steps if str(step.get("uses", "")).startswith("actions/cache@")]
    assert ".kdyno/cache/images" in cached["with"]["path"].split()
    job = read(FOLDER / "gitlab.yml")["speed"]
    assert (job["retry"]["exit_codes"], job["allow_failure"]["exit_codes"]) == (1, 11)
    assert "gate.sh" in job["script"][-1]


@pytest.mark.parametrize(
    ("name", "metric", "machine"), [("speed", "time", "uml"), ("count", "instructions", "qemu")]
)
def test_the_experiment_is_one(name: str, metric: str, machine: str) -> None:
    text = (FOLDER / f"{name}.toml").read_text(encoding="utf-8")
    experiment = parse(text, f"{name}.toml", FOLDER, vocabulary(load()))
    assert (experiment.measure.metric, experiment.machine.kind) == (metric, machine)
    commits = [variant.source.partition("#")[2] for variant in experiment.variants]
    assert commits == ["HEAD^1", "HEAD"]


@pytest.mark.parametrize(
    ("status", "message"),
    [(0, "no watched case"), (10, "SLOWER"), (11, "undecided"), (1, "NO ANSWER (status 1)"),
     (2, "NO ANSWER"), (130, "NO ANSWER"), (137, "NO ANSWER (status 137)")],
)  # fmt: skip
def test_the_gate_ends_with_kdynos_status(tmp_path: Path, status: int, message: str) -> None:
    fake = tmp_path / "kdyno"
    fake.write_text(f'#!/bin/sh\necho "$@" >"{tmp_path}/words"\nexit {status}\n')
    fake.chmod(0o755)
    command = [FOLDER / "gate.sh", "last", "--fail-on", "slower:pipe"]
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (status, "") and message in done.stderr
    assert (tmp_path / "words").read_text() == "report last --fail-on slower:pipe\n"
