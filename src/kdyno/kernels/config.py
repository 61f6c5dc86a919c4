# SPDX-License-Identifier: MIT
"""A kernel configuration: what was asked for, what olddefconfig made of it, what got lost."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from pathlib import Path, PurePosixPath

from kdyno.experiment.model import ConfigFragment
from kdyno.kernels.changes import Changes
from kdyno.reading.mistakes import meant

_SET = re.compile(r"^(CONFIG_\w+)=(.*)$")
_UNSET = re.compile(r"^# (CONFIG_\w+) is not set$")


@dataclass(frozen=True)
class Wish:
    """One option that somebody asked for; value ``n`` means not set."""

    option: str
    value: str
    origin: str

    @property
    def line(self) -> str:
        return f"# {self.option} is not set" if self.value == "n" else f"{self.option}={self.value}"


def parse_line(line: str) -> tuple[str, str] | None:
    """(option, value) of a configuration line, value ``n`` for "is not set"; None for others."""
    if match := _SET.match(line):
        return match[1], match[2]
    if match := _UNSET.match(line):
        return match[1], "n"
    return None


def wishes(fragments: Iterable[ConfigFragment]) -> tuple[Wish, ...]:
    """All wishes, sorted by option; a later fragment overrides an earlier one."""
    asked: dict[str, Wish] = {}
    for fragment in fragments:
        for line in fragment.lines:
            parsed = parse_line(line)
            if parsed is not None:
                asked[parsed[0]] = Wish(parsed[0], parsed[1], fragment.origin)
    return tuple(asked[option] for option in sorted(asked))


def unmet(asked: Iterable[Wish], dotconfig: str) -> list[tuple[Wish, str]]:
    """Wishes that the final .config does not honour, each with the value it has instead."""
    final = dict(filter(None, map(parse_line, dotconfig.splitlines())))
    return [
        (wish, final.get(wish.option, "n"))
        for wish in asked
        if final.get(wish.option, "n") != wish.value
    ]


def known_options(tree: Path, changes: Changes) -> set[str]:
    """Every option that the changed tree's Kconfig files declare (slow: reads them all)."""
    declared = re.compile(r"^\s*(?:menu)?config\s+(\w+)", re.MULTILINE)
    changed = (
        (content or b"").decode("utf-8", "replace")
        for path, content in changes.files.items()
        if PurePosixPath(path).name.startswith("Kconfig")
    )
    files = (it for it in tree.rglob("Kconfig*") if it.is_file())
    texts = chain(changed, (file.read_text("utf-8", "replace") for file in files))
    return {f"CONFIG_{name}" for text in texts for name in declared.findall(text)}


def explain_unmet(lost: list[tuple[Wish, str]], tree: Path, changes: Changes) -> str:
    """A message that lists each lost option, where it was asked for, and why it may be lost."""
    declared = known_options(tree, changes)
    lines = []
    for wish, got in lost:
        text = f"  {wish.line}   (from {wish.origin}) became {wish.option}={got}"
        if wish.option not in declared:
            # Without the prefix, which would make every short name look near.
            names = [option.removeprefix("CONFIG_") for option in sorted(declared)]
            hint = meant(wish.option.removeprefix("CONFIG_"), names, "; nearest: CONFIG_{}")
            text += f": this kernel has no such option{hint}"
        else:
            text += ": something it depends on is missing, or something selects it"
        lines.append(text)
    return "these requested options did not survive `make olddefconfig`:\n" + "\n".join(lines)
