# SPDX-License-Identifier: MIT
"""The pages say what is there: commands that parse, options, fields, files, links."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from benchmarks.pages import DEMO, PART, demo, filled
from kdyno import labs
from kdyno.cli.main import command, verbs
from kdyno.experiment.loader import parse
from kdyno.measure.vocabulary import vocabulary
from kdyno.report.exporters import exporters
from kdyno.store import verdict
from kdyno.suites.catalogue import load, load_file

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
COMMAND: Any = command()
VERBS: dict[str, Any] = verbs()
LINK = re.compile(r"\]\(([^)#\s]*)(#[^)]*)?\)")


def command_lines() -> list[tuple[str, str, bool]]:
    """(page, words after ``kdyno``, outline?) of every line of a shell block and every `command`
    in a sentence. An outline has words such as RUN that stand for something."""
    lines = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        blocks = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.M | re.S)
        candidates = [
            line for tag, each in blocks if tag in ("", "sh") for line in each.splitlines()
        ]
        prose = re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)
        for line in [*candidates, *re.findall(r"`([^`\n]+)`", prose)]:
            if match := re.match(r"(?:[A-Z_]+=\S+ )*(?:\S*/)?kdyno (.+)", line.strip()):
                outline = re.search(r"\b[A-Z]{3,}\b", match[1]) is not None
                lines.append((page.name, match[1], outline))
    return lines


EXAMPLES = [(page, line) for page, line, outline in command_lines() if not outline]
OUTLINES = [(page, line) for page, line, outline in command_lines() if outline]


def verb_of(words: list[str]) -> tuple[str, list[str]]:
    """The longest name of a verb that the words begin with, and the rest."""
    for length in (3, 2, 1):
        if (name := " ".join(words[:length])) in VERBS:
            return name, words[length:]
    raise AssertionError(f"no such verb: {' '.join(words)}")


def parsed(words: list[str]) -> Any:
    """The context of a command line after kdyno's own parser took it; raises when it does not."""
    group = any(name.startswith(f"{' '.join(words)} ") for name in VERBS)
    if words[0].startswith("-") or group:
        return COMMAND.make_context("kdyno", list(words), resilient_parsing=True)
    name, rest = verb_of(words)
    # A verb alone is mostly a mention of it.
    return VERBS[name].make_context(name, rest, resilient_parsing=not rest)


@pytest.mark.parametrize(("page", "line"), EXAMPLES)
def test_every_command_of_the_pages_parses(page: str, line: str) -> None:
    parsed(shlex.split(line, comments=True))


@pytest.mark.parametrize(("page", "line"), OUTLINES)
def test_every_option_of_an_outline_is_its_verbs(page: str, line: str) -> None:
    words = re.split(r"[\s|\[\]…]+", line.split(" -- ")[0])
    if words[0] == "VERB":
        return
    name, rest = verb_of(words)
    options = {
        name for param in VERBS[name].params for name in (*param.opts, *param.secondary_opts)
    }
    used = {word.split("=")[0] for word in rest if word.startswith("-")}
    assert used <= {*options, "--help", "-"}


def test_cases_of_command_lines_are_cases() -> None:
    cases = {f"{suite.name}/{case.name}" for suite in load().values() for case in suite.cases}
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    named = set(re.findall(r"--case ([a-z]\S*/[\w.@-]+)(?=[\s`])", text))
    assert {"unixbench/pipe", "hackbench/pipes"} <= named <= cases, named - cases


def test_commands_were_found() -> None:
    assert {"README.md", "verbs.md"} <= {page for page, _ in EXAMPLES}
    assert len(EXAMPLES) > 30 and OUTLINES


def anchors(page: Path) -> set[str]:
    """What a heading is linked by: its letters, digits, `_` and `-`, with `-` for a space."""
    heads = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.M)
    return {re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_a_page_names_is_there_and_what_is_made_in_it_is_current(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    if PART.search(text):
        assert filled(text) == text, "write it again: make docs"
    for target, place in LINK.findall(text):
        if "://" not in target:
            file = page.parent / target if target else page
            assert file.exists(), target
            assert not place or place[1:] in anchors(file), f"{target}{place}"
    text = text.replace("\\_", "_")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"(?:^|`)make ([a-z][a-z-]*)\b(?=[`\s]*(?:#|$|`))", text, re.M):
        assert re.search(rf"^{target}:", makefile, re.M), f"make {target}"
    for name in re.findall(r"`((?:src|guest|kernel|tests|docs|experiments)/[^`\s]+)`", text):
        assert "NAME" in name or list(ROOT.glob(name)), name
    for name, rest in re.findall(r"python -m benchmarks\.([\w.]+)((?: [^\s`|)]+)*)", text):
        file = ROOT / "benchmarks" / f"{name.replace('.', '/')}.py"
        assert file.is_file(), f"benchmarks.{name}"
        for option in re.findall(r" (--[a-z-]+)", rest):
            assert f'"{option}"' in file.read_text(encoding="utf-8"), f"{name} {option}"


@pytest.mark.parametrize("verb", VERBS)
def test_every_example_of_the_help_parses(verb: str) -> None:
    lines = VERBS[verb].epilog.split("Examples:\n")[1].splitlines()
    for line in lines:
        name, *words = shlex.split(line)
        assert name == "kdyno" and " ".join(words).startswith(verb)
        parsed(words)


def test_every_verb_and_format_has_its_place_in_a_page() -> None:
    text = (ROOT / "docs" / "verbs.md").read_text(encoding="utf-8")
    assert re.findall(r"^## ([a-z].*)$", text, re.M) == list(VERBS)
    text = (ROOT / "docs" / "report.md").read_text(encoding="utf-8")
    assert [name for name in exporters(labs.reports()) if f"`{name}`" not in text] == []


def test_the_readmes_table_is_a_reports() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    [tables] = [match[0].split("```text\n")[1] for match in DEMO.finditer(text)]
    report = f"question\nanswer\n\n{tables.split(chr(10) * 2)[0]}\n\nsteal  x\n≈  y\n"
    assert demo(report) == f"{tables.split(chr(10) * 2)[0]}\n\n≈  y"


RECORDS = [
    record
    for record in vars(verdict).values()
    if isinstance(record, type) and issubclass(record, BaseModel) and record.model_fields
]


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.__name__)
def test_every_field_of_a_verdict_is_explained(record: type[BaseModel]) -> None:
    text = (ROOT / "docs" / "reading-a-verdict.md").read_text(encoding="utf-8")
    names = [name.rstrip("_") for name in record.model_fields]
    assert [name for name in names if f"`{name}`" not in text] == []


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


def test_every_page_can_be_reached_from_the_readme() -> None:
    reached: set[Path] = set()
    waiting = [ROOT / "README.md"]
    while waiting:
        page = waiting.pop().resolve()
        if page not in reached and page.suffix == ".md" and page.is_file():
            reached.add(page)
            links = LINK.findall(page.read_text(encoding="utf-8"))
            waiting += [page.parent / target for target, _ in links if target]
    assert [page.name for page in PAGES if page.resolve() not in reached] == []


def block(page: str, language: str = "toml") -> list[str]:
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.M | re.S)


@pytest.mark.parametrize("text", block("README.md"))
def test_the_readmes_experiment_is_one(text: str, tmp_path: Path) -> None:
    patch = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n"
    (tmp_path / "mine.patch").write_text(patch)
    experiment = parse(text, "mine.toml", tmp_path, vocabulary(load()))
    assert [variant.name for variant in experiment.variants] == ["stock", "patched"]


@pytest.mark.parametrize("text", block("CONTRIBUTING.md"))
def test_contributings_cases_are_cases(text: str, tmp_path: Path) -> None:
    file = tmp_path / "new.toml"
    file.write_text(f'name = "new"\nhelp = "new"\n\n{text}')
    (case,) = load_file(file).cases
    assert case.help and case.unit and case.better


def test_the_tutorial_shows_the_files_beside_it() -> None:
    page = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
    patch = (ROOT / "kernel" / "patches" / "checksum.patch").read_text(encoding="utf-8")
    assert [patch.endswith("\n\n" + each) for each in block("docs/tutorial.md", "diff")] == [True]
    added = [line for line in patch.splitlines() if re.match(r"\+(?!\+\+)", line)]
    assert len(added) == 6 and "patch is six lines" in page
    path = ROOT / "docs" / "tutorial" / "checksum.toml"
    text = path.read_text(encoding="utf-8")
    assert [text.endswith("\n" + each) for each in block("docs/tutorial.md")] == [True]
    experiment = parse(text, str(path), path.parent, vocabulary(load()))
    assert [variant.name for variant in experiment.variants] == ["stock", "checksum"]
    steps = [int(number) for number in re.findall(r"^## (\d+)\. ", page, re.M)]
    assert steps == list(range(1, 9))


def test_what_a_newcomer_reads_is_short() -> None:
    assert len((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").splitlines()) <= 160
    assert len((ROOT / "README.md").read_text(encoding="utf-8").split()) <= 1000
    assert len(list((ROOT / "docs").glob("*.md"))) <= 14


NAMED = re.compile(r"docs/[\w./-]*\w\.(?:md|toml|sh|yml)")
"""A page that code or a message names."""


def test_pages_that_code_names_are_there() -> None:
    missing = []
    for folder in ("src", "experiments", "guest", "kernel", "published", "benchmarks", ".ci"):
        for file in (ROOT / folder).rglob("*"):
            if re.search(r"\.(py|toml|[chS]|md|sh|in|jinja|html|json)$", file.name):
                pages = NAMED.findall(file.read_text(encoding="utf-8"))
                missing += [f"{file}: {page}" for page in pages if not (ROOT / page).exists()]
    assert missing == []
