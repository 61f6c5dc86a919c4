# SPDX-License-Identifier: MIT
"""Configuration entries: a fragment's name, a file beside the experiment, or a line itself."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from kdyno.experiment.model import ConfigFragment
from kdyno.experiment.table import is_file
from kdyno.reading.mistakes import Mistakes, nearest, quoted, spelled
from kdyno.reading.position import KeyPath

_LINE = re.compile(r'CONFIG_(\w+)=(y|m|n|-?\d+|0[xX][0-9a-fA-F]+|"(?:\\.|[^"\\])*")', re.ASCII)
_UNSET = re.compile(r"# CONFIG_(\w+) is not set", re.ASCII)
_LINE_RULE = 'a line is CONFIG_X=y, =m, =n, =NUMBER, ="TEXT", or "# CONFIG_X is not set"'
_LARGEST_BYTES = 1 << 20


def normal_line(line: str) -> str | None:
    """The line as a .config has it; None when it is not a configuration line."""
    if match := _LINE.fullmatch(line):
        return line if match[2] != "n" else f"# CONFIG_{match[1]} is not set"
    return line if _UNSET.fullmatch(line) else None


def option_of(line: str) -> str:
    """``CONFIG_X`` of a normal line."""
    return line.split(" ", 2)[1] if line.startswith("#") else line.partition("=")[0]


def fragments(
    entries: Iterable[tuple[KeyPath, str]],
    folder: Path,
    fragment_dirs: Iterable[Path],
    machine: str,
    mistakes: Mistakes,
) -> tuple[ConfigFragment, ...]:
    """The fragments that the entries of a ``config`` key name, looked up in the experiment's
    ``folder`` and then in ``fragment_dirs``. Beside NAME.config may lie NAME.MACHINE.config: what
    kernels for that kind of machine need besides. Two that contradict each other are a mistake."""
    found: list[ConfigFragment] = []
    dirs = [folder, *fragment_dirs]
    for path, entry in entries:
        line = normal_line(entry)
        named: list[ConfigFragment] = []
        if line is not None:
            named = [ConfigFragment(spelled(path), (line,))]
        elif _is_meant_as_line(entry):
            mistakes.add(
                path, f"{quoted(entry)} is not a configuration line: {_LINE_RULE}", found=entry
            )
        else:
            named = _from_files(path, entry, dirs, machine, mistakes)
        for fragment in named:
            found.append(fragment)
            if text := contradiction(found):
                mistakes.add(path, text, found=entry)
    return tuple(found)


def contradiction(found: list[ConfigFragment]) -> str | None:
    """How the last fragment contradicts an earlier one, or None."""
    earlier = {option_of(line): (line, f.origin) for f in found[:-1] for line in f.lines}
    for line in found[-1].lines:
        other, origin = earlier.get(option_of(line), (line, ""))
        if other != line:
            return f"{line!r} (from {found[-1].origin}) contradicts {other!r} (from {origin})"
    return None


def layered(
    lower: tuple[ConfigFragment, ...], upper: tuple[ConfigFragment, ...]
) -> tuple[ConfigFragment, ...]:
    """``lower`` without the options that ``upper`` sets, then ``upper``."""
    set_above = {option_of(line) for fragment in upper for line in fragment.lines}
    kept = []
    for fragment in lower:
        lines = tuple(line for line in fragment.lines if option_of(line) not in set_above)
        if lines:
            kept.append(ConfigFragment(fragment.origin, lines))
    return (*kept, *upper)


def _is_meant_as_line(entry: str) -> bool:
    return "=" in entry or entry.startswith("#") or entry.upper().startswith("CONFIG_")


def _from_files(
    path: KeyPath, entry: str, dirs: list[Path], machine: str, mistakes: Mistakes
) -> list[ConfigFragment]:
    candidates = [folder / name for folder in dirs for name in (f"{entry}.config", entry)]
    file = next((candidate for candidate in candidates if is_file(candidate)), None)
    if file is None:
        names = sorted({f.stem for folder in dirs for f in _configs(folder) if "." not in f.stem})
        hint = nearest(entry.removesuffix(".config"), names)
        meant = f". Did you mean {quoted(hint)}?" if hint else ""
        mistakes.add(
            path,
            f"{quoted(entry)} is neither a fragment nor a file beside the experiment{meant}"
            + ("" if meant else ".")
            + f" Fragments: {', '.join(names) or 'none'}; or write CONFIG_X=y",
            found=entry,
        )
        return []
    besides = file.with_name(f"{file.stem}.{machine}.config")
    files = [file, *([besides] if file.suffix == ".config" and is_file(besides) else [])]
    read = (_from_file(path, entry, it, mistakes) for it in files)
    return [fragment for fragment in read if fragment is not None]


def _from_file(path: KeyPath, entry: str, file: Path, mistakes: Mistakes) -> ConfigFragment | None:
    try:
        if file.stat().st_size > _LARGEST_BYTES:
            mistakes.add(path, f"{file.name} is larger than 1 MB, so it is not a fragment")
            return None
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        mistakes.add(path, f"{file.name} cannot be read: {problem}", found=entry)
        return None
    return _read(path, file.name, text, mistakes)


def _read(path: KeyPath, name: str, text: str, mistakes: Mistakes) -> ConfigFragment:
    lines: dict[str, tuple[str, int]] = {}
    for number, raw in enumerate(text.splitlines(), start=1):
        stripped = raw.strip()
        line = normal_line(stripped)
        if line is None:
            if stripped and not stripped.startswith("#"):
                mistakes.add(
                    path,
                    f"{name}, line {number}: {quoted(stripped)} is not a configuration line: "
                    f"{_LINE_RULE}",
                    found=name,
                )
            continue
        earlier, at = lines.setdefault(option_of(line), (line, number))
        if earlier != line:
            mistakes.add(
                path,
                f"{name} contradicts itself: line {at} has {earlier!r}, line {number} {line!r}",
                found=name,
            )
    return ConfigFragment(name, tuple(line for line, _number in lines.values()))


def _configs(folder: Path) -> list[Path]:
    try:
        return list(folder.glob("*.config"))
    except OSError:
        return []
