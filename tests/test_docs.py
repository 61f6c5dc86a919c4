# SPDX-License-Identifier: MIT
"""The pages say what is there: commands that parse, options, fields, files, packages."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from pydantic import BaseModel

import kdyno.cli.main
from benchmarks.pages import DEMO, PART, demo, made
from kdyno import labs
from kdyno.experiment.loader import parse
from kdyno.measure.vocabulary import vocabulary
from kdyno.report.exporters import exporters
from kdyno.store import verdict
from kdyno.suites.catalogue import load

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
COMMAND: Any = typer.main.get_command(kdyno.cli.main.app)
GROUPS: dict[str, Any] = {
    name: verb for name, verb in COMMAND.commands.items() if hasattr(verb, "commands")
}
"""A verb of verbs: `kdyno memcpy check`."""
VERBS: dict[str, Any] = {
    **{name: verb for name, verb in COMMAND.commands.items() if name not in GROUPS},
    **{f"{name} {of}": it for name, verb in GROUPS.items() for of, it in verb.commands.items()},
}
TARGET = r"\]\(([^)#\s]+)(#[^)]*)?\)"
ANYWHERE = r"\]\(([^)#\s]*)(#[^)]*)?\)"
"""The same, within a page too."""


def blocks(text: str) -> Iterator[str]:
    """Lines of fenced shell blocks, and `commands` within sentences."""
    for language, block in re.findall(r"^```(\w*)\n(.*?)^```$", text, re.M | re.S):
        if language in ("", "sh"):
            yield from block.splitlines()
    yield from re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S))


def commands() -> list[tuple[str, str]]:
    """(page, words after ``kdyno``) of every whole example."""
    found = []
    for page in PAGES:
        for line in blocks(page.read_text(encoding="utf-8")):
            match = re.match(r"(?:[A-Z_]+=\S+ )*(?:\S*/)?kdyno (.+)", line.strip())
            # VERB, RUN and the like stand for something: an outline, no example.
            if match and not re.search(r"\b[A-Z]{3,}\b", match[1]):
                found.append((page.name, match[1]))
    return found


def parsed(words: list[str]) -> Any:
    """The context of a command line after kdyno's own parser took it; raises when it does not."""
    if words[0].startswith("-"):
        return COMMAND.make_context("kdyno", list(words), resilient_parsing=True)
    if words in ([name] for name in GROUPS):
        return COMMAND.make_context("kdyno", list(words), resilient_parsing=True)
    length = 2 if words[0] in GROUPS else 1
    name, rest = " ".join(words[:length]), words[length:]
    assert name in VERBS, f"no such verb: {name}"
    # A verb alone is mostly a mention of it.
    return VERBS[name].make_context(name, rest, resilient_parsing=not rest)


@pytest.mark.parametrize(("page", "line"), commands())
def test_every_command_of_the_pages_parses(page: str, line: str) -> None:
    parsed(shlex.split(line, comments=True))


def outlines() -> list[tuple[str, str]]:
    """(page, words after ``kdyno``) where words such as RUN stand for something."""
    found = []
    for page in PAGES:
        for line in blocks(page.read_text(encoding="utf-8")):
            match = re.match(r"(?:[A-Z_]+=\S+ )*(?:\S*/)?kdyno (.+)", line.strip())
            if match and re.search(r"\b[A-Z]{3,}\b", match[1]):
                found.append((page.name, match[1]))
    return found


@pytest.mark.parametrize(("page", "line"), outlines())
def test_every_option_of_an_outline_is_its_verbs(page: str, line: str) -> None:
    words = re.split(r"[\s|\[\]…]+", line.split(" -- ")[0])
    if words[0] == "VERB":
        return
    length = 2 if words[0] in GROUPS else 1
    name = " ".join(words[:length])
    assert name in VERBS, f"no such verb: {name}"
    known = {opt for it in VERBS[name].params for opt in (*it.opts, *it.secondary_opts)}
    assert {it.split("=")[0] for it in words if it.startswith("-")} <= {*known, "--help", "-"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_benchmark_that_is_named_is_there_with_its_options(page: Path) -> None:
    text = page.read_text(encoding="utf-8").replace("\\_", "_")
    for name, rest in re.findall(r"python -m benchmarks\.([\w.]+)((?: [^\s`|)]+)*)", text):
        file = ROOT / "benchmarks" / f"{name.replace('.', '/')}.py"
        assert file.is_file(), f"benchmarks.{name}"
        for option in re.findall(r" (--[a-z-]+)", rest):
            assert f'"{option}"' in file.read_text(encoding="utf-8"), f"{name} {option}"


def test_commands_were_found() -> None:
    assert {"README.md", "verbs.md"} <= {page for page, _ in commands()}
    assert len(commands()) > 30


@pytest.mark.parametrize("verb", VERBS)
def test_every_example_of_the_help_parses(verb: str) -> None:
    lines = VERBS[verb].epilog.split("Examples:\n")[1].splitlines()
    for line in lines:
        name, *words = shlex.split(line)
        assert name == "kdyno" and " ".join(words).startswith(verb)
        parsed(words)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_is_made_of_a_page_is_current(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    if PART.search(text):
        assert made(text) == text, "write it again: make docs"


def test_every_verb_is_in_the_page_of_verbs() -> None:
    text = (ROOT / "docs" / "verbs.md").read_text(encoding="utf-8")
    assert re.findall(r"^## ([a-z].*)$", text, re.M) == list(VERBS)


def test_the_readmes_table_is_a_reports() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    [shown] = [match[0].split("```text\n")[1] for match in DEMO.finditer(text)]
    report = f"question\nanswer\n\n{shown.split(chr(10) * 2)[0]}\n\nsteal  x\n≈  y\n"
    assert demo(report) == f"{shown.split(chr(10) * 2)[0]}\n\n≈  y"


def test_every_format_is_in_the_page_of_reports() -> None:
    text = (ROOT / "docs" / "report.md").read_text(encoding="utf-8")
    assert [name for name in exporters(labs.formats()) if f"`{name}`" not in text] == []


def records() -> list[type[BaseModel]]:
    found = [it for it in vars(verdict).values() if isinstance(it, type)]
    return [it for it in found if issubclass(it, BaseModel) and it is not BaseModel]


@pytest.mark.parametrize("record", records(), ids=lambda it: it.__name__)
def test_every_field_of_a_verdict_is_explained(record: type[BaseModel]) -> None:
    text = (ROOT / "docs" / "reading-a-verdict.md").read_text(encoding="utf-8")
    names = [name.rstrip("_") for name in record.model_fields]
    assert names and [name for name in names if f"`{name}`" not in text] == []


def test_every_word_and_flag_kind_is_explained() -> None:
    text = (ROOT / "docs" / "reading-a-verdict.md").read_text(encoding="utf-8")
    source = "".join(
        path.read_text(encoding="utf-8")
        for folder in ("judge", "measure", "machines")
        for path in sorted((ROOT / "src/kdyno" / folder).glob("*.py"))
    )
    kinds = set(re.findall(r'[fF]lag\(\s*(?:kind=)?"([a-z-]+)"', source))
    assert {"control-moved", "drift", "damaged"} <= kinds
    assert sorted(kind for kind in kinds if f"`{kind}`" not in text) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for target, place in re.findall(ANYWHERE, text):
        if "://" in target:
            continue
        found = page.parent / target if target else page
        assert found.exists(), target
        if place:
            assert place[1:] in anchors(found), f"{target}{place}"


def anchors(page: Path) -> set[str]:
    """What a heading is linked by: its letters, digits, `_` and `-`, with `-` for a space."""
    heads = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.M)
    return {re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in heads}


def test_every_page_can_be_reached_from_the_readme() -> None:
    seen: set[Path] = set()
    waiting = [ROOT / "README.md"]
    while waiting:
        page = waiting.pop().resolve()
        if page.is_dir() and page != ROOT / "docs":
            waiting += page.glob("*.md")
        if page in seen or page.suffix != ".md" or not page.is_file():
            continue
        seen.add(page)
        links = re.findall(TARGET, page.read_text(encoding="utf-8"))
        waiting += [page.parent / target for target, _ in links]
    assert [page.name for page in PAGES if page.resolve() not in seen] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_and_targets_that_are_named_are_there(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"(?:^|`)make ([a-z][a-z-]*)\b(?=[`\s]*(?:#|$|`))", text, re.M):
        assert re.search(rf"^{target}:", makefile, re.M), f"make {target}"
    for name in re.findall(r"`((?:src|guest|kernel|tests|docs|experiments)/[^`\s]+)`", text):
        assert "NAME" in name or list(ROOT.glob(name)), name


def toml(page: str) -> list[str]:
    text = (ROOT / page).read_text(encoding="utf-8")
    found = re.findall(r"^```toml\n(.*?)^```", text, re.M | re.S)
    assert found
    return found


@pytest.mark.parametrize("text", toml("README.md"))
def test_the_readmes_experiment_is_one(text: str, tmp_path: Path) -> None:
    patch = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n"
    (tmp_path / "mine.patch").write_text(patch)
    experiment = parse(text, "mine.toml", tmp_path, vocabulary(load()))
    assert [variant.name for variant in experiment.variants] == ["stock", "patched"]


@pytest.mark.parametrize("text", toml("CONTRIBUTING.md"))
def test_contributings_cases_are_cases(text: str, tmp_path: Path) -> None:
    file = tmp_path / "new.toml"
    file.write_text(f'name = "new"\nhelp = "new"\n\n{text}')
    (case,) = load([file])["new"].cases
    assert case.help and case.unit and case.better


def test_contributing_is_one_page() -> None:
    assert len((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").splitlines()) <= 120


NAMED = re.compile(r"docs/[\w./-]*\w\.(?:md|toml|sh|yml)")
"""A page that code or a message names."""


def test_pages_that_code_names_are_there() -> None:
    missing = []
    for folder in ("src", "experiments", "guest", "kernel", "published", "benchmarks", ".ci"):
        for file in (ROOT / folder).rglob("*"):
            if file.suffix not in (".py", ".toml", ".c", ".h", ".S", ".md", ".sh", ".in"):
                continue
            text = file.read_text(encoding="utf-8")
            missing += [f"{file}: {it}" for it in NAMED.findall(text) if not (ROOT / it).exists()]
    assert missing == []
