# SPDX-License-Identifier: MIT
"""The key ``scheduler``: which program decides in a variant's kernel who runs."""

from __future__ import annotations

import os.path
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from kdyno.experiment.model import Variant
from kdyno.experiment.table import Table, is_file
from kdyno.experiment.vocabulary import Vocabulary
from kdyno.reading.mistakes import Mistakes, quoted

OWN_SCHEDULER = "fair"
"""``scheduler = "fair"``: the kernel's own, to undo what [kernel] asks for."""

SUFFIX = ".bpf.c"
"""Of a scheduler's file."""

ARCHS: Mapping[str, str] = {
    "um": "a kernel for User Mode Linux has no compiler for such programs",
    "um32": "a kernel for User Mode Linux has no compiler for such programs",
    "i386": "a 32-bit kernel does not call such programs",
}
"""Architecture → why its kernels take no scheduler that is a program."""

_NAME = re.compile(r"[A-Za-z0-9_]{1,40}")


def is_file_name(name: str) -> bool:
    """Whether ``name`` means a file of the person's own and no scheduler of the project."""
    return "/" in name or name.endswith(SUFFIX)


def called(scheduler: str) -> str:
    """What a scheduler calls itself, of its name or its file's path."""
    return Path(scheduler).name.removesuffix(SUFFIX)


def read_scheduler(table: Table, folder: Path, vocabulary: Vocabulary) -> str | None:
    """One of the project's by its name, or a file as an absolute path; relative ones begin at the
    experiment's folder."""
    name = table.raw("scheduler")
    if not (isinstance(name, str) and is_file_name(name)):
        known = tuple(dict.fromkeys((OWN_SCHEDULER, *vocabulary.schedulers)))
        return table.word("scheduler", known, "") or None
    place = Path(os.path.normpath(folder / Path(name).expanduser()))
    wrong = ""
    if not name.endswith(SUFFIX):
        wrong = f"a scheduler's file is named NAME{SUFFIX}"
    elif not _NAME.fullmatch(called(name)):
        wrong = "its name is what the kernel calls it: letters, digits and _"
    elif not is_file(place):
        wrong = f"no file {place}"
    if wrong:
        table.mistakes.add(table.at("scheduler"), f"{quoted(name)}: {wrong}", found=name)
        return None
    return str(place)


def check_schedulers(variants: Iterable[Variant], mistakes: Mistakes) -> None:
    """A scheduler needs a kernel that can be given one."""
    for variant in variants:
        if variant.scheduler and variant.arch in ARCHS:
            mistakes.add(
                ("variant", variant.name),
                f"scheduler = {quoted(called(variant.scheduler))} and arch = "
                f"{quoted(variant.arch)}: {ARCHS[variant.arch]}. "
                'Allowed: arch = "x86_64" on [machine] kind = "qemu"',
            )
