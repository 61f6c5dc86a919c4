# SPDX-License-Identifier: MIT
"""Whatever names and texts are, nothing that a terminal obeys comes out of kdyno."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import sys
from pathlib import Path

import pytest
from command_line import EXPERIMENT, Kdyno, Said, effect, experiment_file, stored, verdict
from synthetic_run import record

from kdyno.errors import ToolError
from kdyno.paths import data_root
from kdyno.store.manifest import CaseInfo
from kdyno.store.run import open_run, write_run
from kdyno.store.verdict import CaseValue, FactorTable, Flag
from kdyno.verbs import output

EVIL = "\x1b]0;owned\x07\x1b[31mred\x9b1m\u202etxt\x08\x07\x00\r\u2028end"
"""A title, two colours, the writing turned round, a bell, a line that is written over."""
UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
PRINTERS = {"print", "typer.echo", "typer.secho", "sys.stdout.write", "sys.stderr.write"}
CALLS = re.compile(r"\b(?:print|echo|secho|write)\s*\(")
"""Whatever calls one of them has this in its text."""


def clean(message: Said) -> str:
    both = message.out + message.err
    assert UNSAFE.findall(both) == [], both
    assert "Traceback" not in both
    return both


@pytest.mark.slow
def test_one_place_prints() -> None:
    package = data_root() / "src" / "kdyno"
    results = {
        str(path.relative_to(package))
        for path in package.rglob("*.py")
        if CALLS.search(text := path.read_text("utf-8"))
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in PRINTERS
    }
    # The progress display draws itself; every text in it goes through report/plain.py.
    assert results == {"verbs/output.py"}


@pytest.fixture(autouse=True)
def guest_speaks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is fetched or built: where that would begin, a guest says its worst."""

    def refused(*_words: object, **_more: object) -> None:
        raise ToolError(f"the guest said: {EVIL}\n{EVIL}")

    for module in ("measure.builder", "measure.execution", "labs.profile.boots"):
        monkeypatch.setattr(f"kdyno.{module}.check", refused)
    monkeypatch.setattr("kdyno.kernels.source.fetch", refused)
    monkeypatch.setattr("kdyno.machines.guest.guest_program", refused)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run in which everything that may hold text holds the worst."""
    stock, mine = f"stock{EVIL}", f"mine{EVIL}"
    names = {"variant": mine, "unit": f"loops{EVIL}", "suite": f"unixbench{EVIL}"}
    bad = effect(f"pipe{EVIL}", "faster", 1.05, **names)
    lost = effect("lost", "failed", 1.0, reason=EVIL, ci=None, **names)
    texts = {"experiment": f"tiny{EVIL}", "question": EVIL, "answer": EVIL, "stopped": EVIL}
    boots = {stock: 12, mine: 12}
    failed = {f"other{EVIL}": f"three boots failed | console: {EVIL}"}
    flag = Flag(kind=f"evil{EVIL}", text=EVIL, variant=EVIL, suite=EVIL, case=EVIL)
    factors = FactorTable(factors={f"smp{EVIL}": (EVIL, "on")}, summary=(EVIL,), missing=(EVIL,))
    about = {"failed": failed, "flags": (flag,), "factors": factors}
    judged = verdict(bad, lost, baseline=stock, boots=boots, **about, **texts)
    path = stored(tmp_path / "runs", judged)
    with write_run(path) as writer:
        case = CaseInfo(suite=f"unixbench{EVIL}", case=f"pipe{EVIL}", unit="s", better="lower")
        own = {"experiment": EVIL, "baseline": stock, "cases": (case,), "stopped": EVIL}
        writer.save_manifest(open_run(path).manifest().model_copy(update=own))
    named = path.with_name(f"{path.name}-\x1b[31m\x07evil\n")
    path.rename(named)
    return named


@pytest.mark.parametrize("compares", [True, False])
@pytest.mark.parametrize(
    "words",
    [
        ("list", "runs"),
        ("report", "last"),
        ("report", "last", "--scoring", "kdyno"),
        *(("report", "last", "-f", name) for name in ("markdown", "csv", "json", "junit", "svg")),
        *(("report", "last", "-f", name) for name in ("html", "benchstat")),
        ("report", "last", "--json", "-"),
        ("report", "last", "--fail-on", f"slower:{EVIL[:5]}"),
        ("list", "runs", "--json", "-"),
        ("judge", "last"),
        ("compare", "last", "last"),
        ("compare", "published:athlon64x2", "last"),
        ("profile", "last", "--show"),
        ("run", "--resume", "last"),
    ],
    ids=" ".join,
)
def test_a_hostile_run(kdyno: Kdyno, run: Path, words: tuple[str, ...], compares: bool) -> None:
    judged = open_run(run).verdict()
    if judged is not None and not compares:
        about = {"suite": EVIL, "case": EVIL, "unit": EVIL, "better": "lower", "reason": EVIL}
        value = CaseValue.model_validate({**about, "value": None, "repetitions": 0})
        with write_run(run) as writer:
            writer.save_verdict(judged.model_copy(update={"effects": (), "values": (value,)}))
    printed = kdyno(*words)
    assert printed.out or printed.err
    clean(printed)


def test_json_says_the_same_in_other_letters(kdyno: Kdyno, run: Path, tmp_path: Path) -> None:
    (row,) = json.loads(kdyno("list", "runs", "--json", "-").out)["runs"]
    assert row["run"] == run.name
    data = json.loads(kdyno("report", "last", "--json", "-").out)
    assert data == json.loads((run / "verdict.json").read_text())
    kdyno("report", "last", "--json", tmp_path / "out.json")
    assert json.loads((tmp_path / "out.json").read_text()) == data


@pytest.mark.slow
def test_a_folder_whose_name_is_no_utf8(kdyno: Kdyno, tmp_path: Path) -> None:
    path = stored(tmp_path / "runs", verdict(effect("pipe", "faster", 1.05)))
    name = os.fsdecode(b"2026-\xff\xfe-run")
    path.rename(path.with_name(name))
    printed = kdyno("list", "runs", "--json", "-")
    assert json.loads(printed.out)["runs"][0]["run"] == name and printed.out.isascii()
    assert "2026-" in clean(kdyno("list", "runs"))
    for words in (("report", name), ("report", "last", "-f", "html"), ("run", "--resume", name)):
        clean(kdyno(*words))
    for format in ("html", "md", "csv", "junit.xml", "svg"):
        done = kdyno("report", "last", "-o", tmp_path / f"out.{format}")
        assert done.status == 0, clean(done)
    done = kdyno("report", "--all", "-o", tmp_path / "site")
    assert done.status == 0, clean(done)


HOSTILE_TOML = (
    'name = "x\\u001b[31m\\u202e"\n',
    '"\\u001b[31m\\u0007key" = 1\n',
    EXPERIMENT.replace('"tiny"', '"tiny\\u001b]0;x\\u0007"').replace("pipe", "\\u001b[31m"),
    EXPERIMENT.replace("[variant.mine]", '[variant."\\u001b[31m\\u202e"]'),
    EXPERIMENT.replace("-O3", "\\u009b31m\\u202e"),
    EXPERIMENT.replace("debian:linux-source-7.3", "path:/\\u001b[31m\\u202e"),
    EXPERIMENT.replace('baseline = "stock"', 'baseline = "\\u001b[31m"'),
    EXPERIMENT + '[machine]\nkind = "\\u001b[31m"\n',
    EXPERIMENT + "bad \x1b[31m = \x07\n",
    EXPERIMENT + '[variant.p]\npatches = ["\\u001b[31m.patch"]\n',
)


@pytest.mark.parametrize("text", HOSTILE_TOML, ids=range(len(HOSTILE_TOML)))
@pytest.mark.parametrize("verb", ["build", "run", "check", "profile"])
def test_a_hostile_experiment(kdyno: Kdyno, tmp_path: Path, verb: str, text: str) -> None:
    printed = kdyno(verb, experiment_file(tmp_path, text))
    assert printed.status in (1, 2)
    assert "kdyno: " in clean(printed)


@pytest.mark.parametrize(
    "words",
    [
        ("\x1b[31mverb",),
        ("list", "\x1b[31m\u202e"),
        ("run", "--\x1b[31m"),
        ("run", "/nowhere/\x1b[31m.toml"),
        ("run", "--precision", "\x1b[31m"),
        ("try", "-k", "\x1b[31m", "--", "true"),
        ("report", "\x1b[31m"),
        ("report", "last", "-f", "\x1b[31m"),
        ("compare", "published:\x1b[31m"),
        ("serve", "--bind", "\x1b[31m"),
        ("serve", "--runs", "/nowhere/\x1b[31m"),
        ("lab", "vectorize", "\x1b[31m"),
        ("doctor", "--json", "/nowhere/\x1b[31m"),
        ("lab", "memcpy", "check", "\x1b[31m"),
        ("lab", "memcpy", "generate", "--name", "\x1b[31m"),
        ("lab", "memcpy", "tune", "--copies", "\x1b[31m"),
        ("lab", "memcpy", "bench", "--copies", "\x1b[31m"),
        ("lab", "memcpy", "histogram", "\x1b[31m"),
    ],
    ids=lambda words: " ".join(words).encode("unicode_escape").decode(),
)
def test_a_hostile_command_line(kdyno: Kdyno, words: tuple[str, ...]) -> None:
    printed = kdyno(*words)
    assert printed.status in (1, 2)
    clean(printed)


def test_a_line_that_is_drawn_over_itself(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    line = output.Line()
    line.show(f"building {EVIL}", force=True)
    line.end(EVIL)
    output.say(EVIL)
    output.show(f"a\tb\n  {EVIL}")
    message = capsys.readouterr()
    assert UNSAFE.findall(message.out + message.err) == []
    assert message.out == "a\tb\n  redtxt  end\n"
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    line = output.Line()
    line.show(EVIL, force=True)
    line.end()
    assert capsys.readouterr().err == "\r\x1b[Kredtxt end\r\x1b[K"


def test_a_very_long_line_is_cut(capsys: pytest.CaptureFixture[str]) -> None:
    output.say("k" * 100_000)
    assert len(capsys.readouterr().err) == 4002


def test_an_export_to_a_terminal_is_as_safe(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    output.write(EVIL, "-")
    assert capsys.readouterr().out == f"{EVIL}\n"  # a program reads it: as it is
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    output.write(EVIL, "-")
    assert capsys.readouterr().out == "redtxt  end\n"


def test_the_list_of_a_boot_that_died(kdyno: Kdyno, tmp_path: Path) -> None:
    """A run that was interrupted by what a guest said last."""
    stopped = f"interrupted: {EVIL}"
    path = record(tmp_path / "runs", state="interrupted", stopped=stopped).path
    assert "interrupted: redtxt end" in clean(kdyno("list", "runs"))
    shutil.rmtree(path / "boots")
    (path / "manifest.json").write_text(f'{{"{EVIL.encode("unicode_escape").decode()}": ')
    assert "damaged" in clean(kdyno("list", "runs"))
    clean(kdyno("report", "last"))
