# SPDX-License-Identifier: MIT
"""The command line as a whole: help, exit statuses, streams, completion and list."""

from __future__ import annotations

import inspect
import json
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import sysconfig
from dataclasses import fields
from pathlib import Path

import pytest
from command_line import EXPERIMENT, Kdyno, experiment_file, stored, verdict
from serving import answer
from site_runs import small

from kdyno import __version__
from kdyno.cli.main import verbs
from kdyno.verbs.options import Extent, flat

PYTHON = [sys.executable, "-m", "kdyno"]


def shell(line: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """``line`` by bash, where $KDYNO is the command line."""
    command = ["bash", "-o", "pipefail", "-c", line]
    environment = {**os.environ, "KDYNO": shlex.join(PYTHON), **environment}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)


def test_no_word_is_answered_with_the_help_and_its_version_is_said(kdyno: Kdyno) -> None:
    message, nothing = kdyno("--help"), kdyno()
    assert (message.status, message.err, nothing.status, nothing.err) == (0, "", 2, message.out)
    assert kdyno("--version").out == f"kdyno {__version__}\n"


def test_a_dataclass_of_options_is_one_parameter() -> None:
    def verb(before: int = 1, *, extent: Extent, after: str = "x") -> int:
        return before if after == "y" and extent == Extent(quick=True, seed=7) else 0

    function = flat(verb)
    names = list(inspect.signature(function).parameters)
    assert names == ["before", *(field.name for field in fields(Extent)), "after"]
    given = {"before": 5, **vars(Extent(quick=True, seed=7)), "after": "y"}
    assert function(**given) == 5

    def twice(*, seed: int = 1, extent: Extent) -> int:
        return seed

    with pytest.raises(ValueError, match="duplicate parameter name: 'seed'"):
        flat(twice)


@pytest.mark.parametrize("verb", ["", "lab", "lab memcpy", *verbs()])
def test_help_is_in_whole_sentences_without_types_of_python_and_has_examples(
    kdyno: Kdyno, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    output = kdyno(*verb.split(), "--help")
    assert output.status == 0 and kdyno(*verb.split(), "-h").out == output.out
    text, _, examples = output.out.partition("Examples:\n")
    options = text.split("Options:\n")[1]
    cut = re.findall(r"^.*\.\.\.$", options, re.M)
    assert cut == [], "the first sentence of a verb's help fits a line of 80 characters"
    assert not re.search(r"<(?:str|int|float|list|path)\b", options), "metavar is missing"
    assert "<" not in text.partition("Arguments:\n")[2].partition("Options:\n")[0]
    if verb in verbs() or verb == "lab":
        assert "--json" in text or verb in ("lab", "lab memcpy generate")
        lines = examples.strip("\n").splitlines()
        assert lines and all(line.startswith(f"    kdyno {verb}") for line in lines)
        assert max(map(len, lines)) < 100


def test_list_as_json(kdyno: Kdyno, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    output = kdyno("list", "--json", "-")
    data = json.loads(output.out)
    assert output.err == "" and {"experiments", "cases", "routines", "fragments"} <= set(data)
    assert "unixbench/pipe" in [row["case"] for row in data["cases"]]
    assert all(row["help"] for kind in ("cases", "routines", "fragments") for row in data[kind])
    for folder in (tmp_path, Path(__file__).parent.parent):  # as they have to be typed there
        monkeypatch.chdir(folder)
        rows = json.loads(kdyno("list", "experiments", "--json", "-").out)["experiments"]
        assert "simd-memcpy.toml" in {Path(row["file"]).name for row in rows}
        assert all(Path(row["file"]).is_file() for row in rows)


@pytest.mark.slow
@pytest.mark.parametrize("words", ["list", "--help", "run --help"])
def test_a_reader_that_goes_away_is_no_error(words: str) -> None:
    # The reader is gone before the first byte: it opens its end and closes it again.
    output = shell(f"exec 3> >(exec <&-; :); wait $!; $KDYNO {words} >&3")
    assert (output.returncode, output.stderr) == (0, "")


@pytest.mark.slow
def test_a_closed_stdout_a_full_disk_and_a_locale_without_unicode(tmp_path: Path) -> None:
    stored(tmp_path, verdict(question="größer?"))
    assert shell("$KDYNO --version >&-").returncode == 0
    output = shell("$KDYNO --version >/dev/full")
    assert (output.returncode, output.stderr) == (1, "kdyno: No space left on device\n")
    output = shell(f"$KDYNO list runs --runs {tmp_path}", PYTHONIOENCODING="ascii")
    assert output.returncode == 0 and "tiny" in output.stdout
    output = shell(f"$KDYNO report last --json - --runs {tmp_path}", PYTHONIOENCODING="ascii")
    assert json.loads(output.stdout)["question"] == "größer?"  # exported data are UTF-8 always


@pytest.mark.slow
def test_streams_that_the_caller_closed_or_filled(tmp_path: Path) -> None:
    # Nobody hears the message; stdout has none of it, and the status is the same.
    for stderr in ("2>&-", "2>/dev/full", "2> >(exec <&-; :)"):
        output = shell(f"$KDYNO judge nothing --runs {tmp_path} {stderr}")
        assert (output.returncode, output.stdout, output.stderr) == (2, "", "")
    cross = ""
    for factor in "xy":
        levels = "".join(f"l{n} = {{ cmdline = '{factor}{n}' }}\n" for n in range(9))
        cross += f"[factor.{factor}]\n{levels}"
    text = EXPERIMENT.replace('"stock"', '"stock+l0+l0"').replace("[[suite]]", f"{cross}[[suite]]")
    output = shell(f"$KDYNO run {experiment_file(tmp_path, text)} --dry-run --no-sandbox <&-")
    assert output.returncode == 2 and "162 variants" in output.stderr


def test_a_folder_that_is_gone_and_a_file_that_may_not_be_read(
    kdyno: Kdyno, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = experiment_file(tmp_path, "not toml")
    with monkeypatch.context() as here:
        here.setattr(os, "access", lambda *_words, **_more: False)
        assert "tiny.toml:1: this is not TOML" in kdyno("check", file, "--no-sandbox").err
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    output = kdyno("check", "x.toml", "--no-sandbox")
    assert output.status == 1 and "does not exist any more: cd to another" in output.err


@pytest.mark.slow
def test_completion_scripts_for_three_shells() -> None:
    for name, word in (("bash", "complete -o"), ("zsh", "compdef"), ("fish", "complete --command")):
        output = shell("$KDYNO", _KDYNO_COMPLETE=f"source_{name}")
        assert output.returncode == 0 and word in output.stdout


def test_what_is_offered(
    kdyno: Kdyno,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    name = stored(tmp_path / "runs", verdict()).name
    (tmp_path / "below").mkdir()
    experiment_file(tmp_path)
    experiment_file(tmp_path / "below")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("_KDYNO_COMPLETE", "complete_fish")
    monkeypatch.setenv("_TYPER_COMPLETE_FISH_ACTION", "get-args")

    def offered(line: str) -> list[str]:
        monkeypatch.setenv("_TYPER_COMPLETE_ARGS", f"kdyno {line}")
        with pytest.raises(SystemExit) as end:
            kdyno()
        out, err = capsys.readouterr()
        assert end.value.code == 0 and err == ""
        return out.split()

    assert offered("run ") == ["below/tiny.toml", "tiny.toml"]
    assert offered("build b") == ["below/tiny.toml"]
    assert offered("report ") == ["last", name]
    assert offered("run --resume la") == ["last"]
    assert offered("run tiny.toml --variant ") == ["stock", "mine"]
    assert offered("run tiny.toml --case s") == ["syscall"]
    assert offered("report -f m") == ["markdown"]
    assert offered("run absent.toml --variant ") == []


TYPERS_OWN = """
def command():
    def call(**_):
        try:
            exec('raise KeyboardInterrupt')
        except KeyboardInterrupt:
            return 130
    return call
main.command = command
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "command", ["main.command = lambda: lambda **_: exec('raise KeyboardInterrupt')\n", TYPERS_OWN]
)
def test_an_interrupt_while_a_module_is_imported_ends_with_130_too(command: str) -> None:
    text = f"import sys\nfrom kdyno.cli import main\n{command}sys.exit(main.main())\n"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True)
    assert (done.returncode, done.stderr) == (130, b"kdyno: interrupted\n")


# The command as setup.sh installs it: a process, not a function.

KDYNO = Path(sysconfig.get_path("scripts")) / "kdyno"
RUNS = 21
"""More than one worker's share: what deadlocked before."""
LIMIT_S = 300.0
"""Far more than it takes on any machine; without it a deadlock would hold the tests for ever."""


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KDYNO_CACHE", str(tmp_path / "cache"))
    first = small(tmp_path / "runs")
    for number in range(1, RUNS):
        shutil.copytree(first.path, tmp_path / "runs" / f"{first.name}-{number:02d}")
    return tmp_path / "runs"


def test_a_worker_that_imports_the_command_does_not_run_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert KDYNO.is_file(), f"{KDYNO} is missing: ./setup.sh --python-only"
    monkeypatch.setattr(sys, "argv", [str(KDYNO), "--no-such-option"])
    # As multiprocessing's spawn does it in each worker; run, it would end in SystemExit.
    assert "main" in runpy.run_path(str(KDYNO), run_name="__mp_main__")
    assert "main" in runpy.run_module("kdyno.__main__", run_name="__mp_main__")


@pytest.mark.slow
@pytest.mark.parametrize("command", [[str(KDYNO)], [sys.executable, "-m", "kdyno"]])
def test_a_site_of_many_runs(runs: Path, tmp_path: Path, command: list[str]) -> None:
    words = ["report", "--all", "--runs", str(runs), "-o", str(tmp_path / "site")]
    done = subprocess.run([*command, *words], capture_output=True, text=True, timeout=LIMIT_S)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert done.stderr.endswith(f"index.html ({RUNS} of {RUNS} runs drawn again)\n")
    assert len(list((tmp_path / "site" / "runs").glob("*.html"))) == RUNS


@pytest.mark.slow
def test_many_runs_are_served(runs: Path) -> None:
    command = ["timeout", str(LIMIT_S), KDYNO, "serve", "--port", "0", "--runs", runs]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            lines = (re.match(r"http://127\.0\.0\.1:(\d+)/", line) for line in process.stderr)
            address = next(filter(None, lines))
            _, _, page = answer(int(address[1]), "/")
            assert len(re.findall(rb'href="runs/', page)) == RUNS
        finally:
            process.terminate()
