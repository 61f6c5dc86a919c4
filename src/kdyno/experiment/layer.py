# SPDX-License-Identifier: MIT
"""One level of kernel keys: [kernel], a [variant.NAME], or a level of a factor."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from kdyno.errors import UsageError
from kdyno.experiment.fragment import fragments
from kdyno.experiment.keys import KERNEL_KEYS
from kdyno.experiment.model import PROGRAMS, ConfigFragment
from kdyno.experiment.routines import read_memcpy, read_routines
from kdyno.experiment.schedulers import read_scheduler
from kdyno.experiment.table import Table, is_file
from kdyno.experiment.vocabulary import Vocabulary
from kdyno.reading.mistakes import Mistakes, nearest, quoted
from kdyno.reading.position import KeyPath

REPLACING = (
    *("source", "arch", "cflags", "compiler", "memcpy", "routines", "scheduler"),
    *("cpus", "programs"),
)

# These strings pass through make and a shell on their way to the compiler.
_FLAGS = re.compile(r"-[A-Za-z0-9_=,.+:/@%~ -]*")
_FLAGS_RULE = "flags begin with - and hold letters, digits, spaces and _ = , . + : / @ % ~ - only"
_COMPILER = re.compile(r"[A-Za-z0-9_/][A-Za-z0-9._+/-]{0,200}")
_C_FILE = re.compile(r"[A-Za-z0-9_.+-]+(/[A-Za-z0-9_.+-]+)*\.c")
_SYSCTL = re.compile(r"[A-Za-z0-9_-]+([./][A-Za-z0-9_:-]+)+")
_GIT_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://|[^/:]+@[^/:]+:.|-|.*::")
_LARGEST_PATCH_BYTES = 16 << 20


@dataclass(frozen=True)
class Layer:
    """The keys of one level; None or empty where the level does not have the key."""

    path: KeyPath
    source: str | None = None
    arch: str | None = None
    config: tuple[ConfigFragment, ...] = ()
    patches: tuple[Path, ...] = ()
    cflags: str | None = None
    file_cflags: tuple[tuple[str, str], ...] = ()
    compiler: str | None = None
    cmdline: str = ""
    sysctl: tuple[tuple[str, str], ...] = ()
    memcpy: str | None = None
    routines: tuple[tuple[str, str], ...] | None = None
    scheduler: str | None = None
    cpus: int | None = None
    programs: str | None = None


def read_layer(
    data: object,
    path: KeyPath,
    folder: Path,
    vocabulary: Vocabulary,
    machine: str,
    mistakes: Mistakes,
    keys: tuple[str, ...] = KERNEL_KEYS,
) -> Layer:
    """The layer in ``data``; files are looked for in the experiment's ``folder``, and fragments
    bring what kernels for this kind of ``machine`` need besides."""
    table = Table(data, path, mistakes, keys)
    flags, file_flags = _cflags(table)
    return Layer(
        path=path,
        source=_source(table, folder, vocabulary),
        arch=table.word("arch", vocabulary.archs, "") or None,
        config=fragments(
            table.texts("config"), folder, vocabulary.fragment_dirs, machine, mistakes
        ),
        patches=_patches(table, folder, vocabulary),
        cflags=flags,
        file_cflags=file_flags,
        compiler=_compiler(table),
        cmdline=table.text("cmdline").strip(),
        sysctl=_sysctl(table),
        memcpy=read_memcpy(table, folder, vocabulary),
        routines=read_routines(table, folder, vocabulary),
        scheduler=read_scheduler(table, folder, vocabulary),
        cpus=table.integer("cpus", 0, 1, 1024) or None,
        programs=table.word("programs", PROGRAMS, "") or None,
    )


def _source(table: Table, folder: Path, vocabulary: Vocabulary) -> str | None:
    """The source, paths resolved; "" for one that is wrong, None where there is none."""
    if "source" not in table:
        return None
    text = table.text("source").strip()
    if not isinstance(table.raw("source"), str):
        return ""
    kind, colon, rest = text.partition(":")
    forms = [f"{kind}:…" for kind in vocabulary.source_kinds]
    if not colon or kind not in vocabulary.source_kinds or not rest:
        problem = "has nothing after the colon" if colon and not rest else "is not a source"
        table.mistakes.add(
            table.at("source"), f"{quoted(text)} {problem}", allowed=forms, near=f"{kind}:…"
        )
        return ""
    if kind in ("path", "tar"):
        place = _below(folder, rest)
        wanted = "folder" if kind == "path" else "file"
        if not (_is_folder(place) if kind == "path" else is_file(place)):
            table.mistakes.add(table.at("source"), f"{quoted(text)}: there is no {wanted} {place}")
            return ""
        text = f"{kind}:{place}"
    elif kind == "git" and not _GIT_URL.match(rest):
        place_text, mark, ref = rest.rpartition("#") if "#" in rest else (rest, "", "")
        text = f"git:{_below(folder, place_text)}{mark}{ref}"
    if vocabulary.check_source is not None:
        try:
            vocabulary.check_source(text)
        except UsageError as problem:
            table.mistakes.add(table.at("source"), str(problem))
            return ""
    return text


def _patches(table: Table, folder: Path, vocabulary: Vocabulary) -> tuple[Path, ...]:
    found = []
    for path, name in table.texts("patches"):
        candidates = [_below(place, name) for place in (folder, *vocabulary.patch_dirs)]
        file = next((candidate for candidate in candidates if is_file(candidate)), None)
        if file is None:
            own = sorted(entry.name for entry in _patch_files(folder))
            shipped = [it.name for place in vocabulary.patch_dirs for it in _patch_files(place)]
            what = f"there is no patch {quoted(name)} in {folder}"
            if not own:
                what += ", and no other *.patch or *.diff"
            # All end alike, so that less is like a person's own name of a file.
            if hint := nearest(name, [*own, *shipped], 0.8):
                what += f". Did you mean {quoted(hint)}?"
            table.mistakes.add(path, what, allowed=own, found=name)
        elif problem := _no_patch(file):
            table.mistakes.add(path, f"{quoted(name)} {problem}", found=name)
        elif file in found:
            table.mistakes.add(path, f"{quoted(name)} is listed twice", found=name)
        else:
            found.append(file)
    return tuple(found)


def _no_patch(file: Path) -> str | None:
    try:
        if file.stat().st_size > _LARGEST_PATCH_BYTES:
            return "is larger than 16 MB, so it is not a patch"
        content = file.read_bytes()
    except OSError as problem:
        return f"cannot be read: {problem.strerror}"
    if b"\n@@ " not in content and b"\nGIT binary patch" not in content:
        return "is not a patch: it has no hunk (a line beginning with @@). Use diff -u or git"
    return None


def _cflags(table: Table) -> tuple[str | None, tuple[tuple[str, str], ...]]:
    raw = table.raw("cflags")
    if raw is None:
        return None, ()
    if isinstance(raw, str):
        text = table.text("cflags").strip()
        return _checked_flags(table, table.at("cflags"), text), ()
    if not isinstance(raw, dict):
        wanted = 'text like "-O3" or a table like { "lib/sort.c" = "-O3", "*" = "-O2" }'
        table.wrong_type(table.at("cflags"), raw, wanted)
        return None, ()
    whole: str = ""
    files: dict[str, str] = {}
    for name, value in raw.items():
        path = (*table.at("cflags"), name)
        if not isinstance(value, str):
            table.wrong_type(path, value, 'text like "-O3"')
            continue
        flags = _checked_flags(table, path, value.strip())
        if name == "*":
            whole = flags
        elif not _C_FILE.fullmatch(name) or ".." in name.split("/"):
            table.mistakes.add(
                path,
                f'{quoted(name)} is not a .c file of a kernel tree, like "lib/sort.c", and not "*"',
            )
        else:
            files[name] = flags
    return whole, tuple(sorted(files.items()))


def _checked_flags(table: Table, path: KeyPath, text: str) -> str:
    if text and not _FLAGS.fullmatch(text):
        table.mistakes.add(path, f"{quoted(text)} is not accepted: {_FLAGS_RULE}", found=text)
        return ""
    return text


def _compiler(table: Table) -> str | None:
    text = table.text("compiler").strip()
    if "compiler" not in table or not isinstance(table.raw("compiler"), str):
        return None
    if not _COMPILER.fullmatch(text):
        table.mistakes.add(
            table.at("compiler"),
            f'{quoted(text)} is not a compiler. Allowed: one program, like "gcc-12" or a path; '
            "flags go into cflags",
        )
        return None
    return text


def _sysctl(table: Table) -> tuple[tuple[str, str], ...]:
    raw = table.raw("sysctl")
    if raw is None:
        return ()
    if not isinstance(raw, dict):
        table.wrong_type(table.at("sysctl"), raw, 'a table like { "vm.swappiness" = 10 }')
        return ()
    found: dict[str, str] = {}
    for name, value in _flattened(raw):
        path = (*table.at("sysctl"), name)
        if not _SYSCTL.fullmatch(name):
            table.mistakes.add(path, f"{quoted(name)} is not a sysctl, like vm.swappiness")
        elif isinstance(value, str) and value and value.isprintable():
            found[name.replace("/", ".")] = value
        elif isinstance(value, int) and abs(value) < 1 << 64:
            found[name.replace("/", ".")] = str(int(value))
        else:
            table.wrong_type(path, value, "an integer of 64 bits or one line of text")
    return tuple(sorted(found.items()))


def _flattened(table: dict[str, object], above: str = "") -> list[tuple[str, object]]:
    """``vm.swappiness = 10`` without quotes is a table in a table in TOML: take it as meant."""
    flat: list[tuple[str, object]] = []
    for name, value in table.items():
        if isinstance(value, dict) and value and above.count(".") < 8:
            flat += _flattened(value, f"{above}{name}.")
        else:
            flat.append((above + name, value))
    return flat


def _below(folder: Path, name: str) -> Path:
    path = Path(name)
    with suppress(RuntimeError):  # ~somebody who does not exist
        path = path.expanduser()
    return Path(*(folder / path).parts) if path.is_absolute() else _tidy(folder, path)


def _tidy(folder: Path, path: Path) -> Path:
    """``folder/path`` without ``.`` and leading ``..``, so that a path is written one way."""
    import os.path

    return Path(os.path.normpath(folder / path))


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def _patch_files(folder: Path) -> list[Path]:
    try:
        return [*folder.glob("*.patch"), *folder.glob("*.diff")]
    except OSError:
        return []
