# SPDX-License-Identifier: MIT
"""Texts of others that a page, a shell or two readers of one file would take for something else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import FASTER, SLOWER, Kdyno, kdyno, stored, verdict

from kdyno.errors import KdynoError
from kdyno.reading.checked import values
from kdyno.report.show.html import element
from kdyno.store.run import open_run

__all__ = ["kdyno"]
EVIL = "\x1b]0;x\x07\x9b31m\u202eeslaf\x00"


@pytest.mark.slow
def test_no_control_character_of_a_run_is_in_its_page(kdyno: Kdyno, tmp_path: Path) -> None:
    run = stored(tmp_path / "runs", verdict(FASTER))
    about = json.loads((run / "manifest.json").read_text())
    for key in ("tool", "created", "stopped", "origin"):
        about[key] = f"{about[key]}{EVIL}"
    (run / "manifest.json").write_text(json.dumps(about))
    output = kdyno("report", "last", "-o", tmp_path / "page.html")
    assert output.status == 0, output
    page = (tmp_path / "page.html").read_text()
    assert "measured by kdyno 0.1.0" in page and not set(page) & set(EVIL) - set("0;x]31meslaf")
    assert element('<p title="{}">{}</p>', EVIL, EVIL).isprintable()


@pytest.mark.parametrize(
    "name",
    ["a;touch mark", "a$(touch mark)", "a`touch mark`", "a b", "a'b", "a|b", "-x", "~x", "a\nb"],
)
def test_no_word_is_offered_that_a_shell_would_execute(
    kdyno: Kdyno,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
) -> None:
    run = stored(tmp_path / "runs", verdict(FASTER))
    run.rename(run.with_name(name))
    stored(tmp_path / "runs", verdict(FASTER))
    monkeypatch.setenv("_KDYNO_COMPLETE", "complete_fish")
    monkeypatch.setenv("_TYPER_COMPLETE_FISH_ACTION", "get-args")
    monkeypatch.setenv("_TYPER_COMPLETE_ARGS", "kdyno report ")
    capsys.readouterr()
    with pytest.raises(SystemExit):
        kdyno()
    offers = capsys.readouterr().out.split("\n")
    assert "last" in offers and not any(offer and offer in name for offer in offers), offers


@pytest.mark.parametrize("text", ['{"a": 1, "a": 1}', '[{"b": {"a": 1, "\\u0061": 2}}]'])
def test_a_key_that_is_there_twice_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="'a' is there twice"):
        values(text)


@pytest.mark.parametrize(
    "name", ["manifest.json", "verdict.json", "boots/0000-stock/job.json", "images/stock.json"]
)
def test_no_file_of_a_run_says_two_things(tmp_path: Path, name: str) -> None:
    run = open_run(stored(tmp_path, verdict(FASTER, SLOWER)))
    file = run.path / name
    file.parent.mkdir(parents=True, exist_ok=True)
    if not file.exists():
        file.write_text('{"index": 0, "block": 0, "variant": "stock"}')
        (file.parent / "host.json").write_text('{"status": "ok"}')
        (file.parent / "samples.jsonl").write_text("")
    file.write_text(file.read_text().rstrip()[:-1] + ', "variant": "a", "variant": "b"}')

    def read() -> object:
        if name.startswith("boots"):
            (boot,) = run.boots()
            raise KdynoError(getattr(boot, "reason", "read"))
        if name.startswith("images"):
            return run.image("stock")
        return run.verdict() if "verdict" in name else run.manifest()

    with pytest.raises(KdynoError, match="'variant' is there twice"):
        read()
