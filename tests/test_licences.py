# SPDX-License-Identifier: MIT
"""Every file says its licence: GPL-2.0-only in kernel/, MIT elsewhere."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
KNOWN = re.compile(r"\.(S|c|config|css|fio|h|html|js|md|patch|py|sh|toml)$")
NAMES = {"Makefile", "run", ".clang-format"}
# Recorded output and data: a line of ours would be part of what is tested, or break the format.
DATA = ("tests/golden/", "tests/data/")
FIRST_LINES = 6


def tracked() -> list[Path]:
    """The files of the project: tracked by git, or new and not ignored."""
    command = ["git", "-C", str(ROOT), "ls-files", "-z", "-co", "--exclude-standard"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a git checkout: which files belong to the project is not known")
    files = [Path(name) for name in done.stdout.split("\0") if name]
    return [file for file in files if (ROOT / file).is_file()]


def is_known(file: Path) -> bool:
    if str(file).startswith(DATA) and file.suffix not in (".py", ".toml", ".config"):
        return False
    return KNOWN.search(file.name) is not None or file.name in NAMES


def test_every_file_has_the_licence_of_its_folder() -> None:
    files = [file for file in tracked() if is_known(file)]
    assert len(files) > 100
    wrong = []
    for file in files:
        wanted = "GPL-2.0-only" if file.parts[0] == "kernel" else "MIT"
        head = (ROOT / file).read_text(encoding="utf-8").splitlines()[:FIRST_LINES]
        texts = [line.split("SPDX-License-Identifier:")[1] for line in head if "SPDX-Lic" in line]
        licences = [
            text.removesuffix("*/").removesuffix("-->").removesuffix("-#}").strip()
            for text in texts
        ]
        if licences != [wanted]:
            wrong.append(f"{file}: {licences or 'no line'}, not {wanted}")
    assert not wrong, "\n".join(wrong)


def test_both_licences_are_there_in_full() -> None:
    texts = {file.stem: file.read_text() for file in (ROOT / "LICENSES").glob("*.txt")}
    assert set(texts) == {"GPL-2.0-only", "MIT"}
    assert "Version 2, June 1991" in texts["GPL-2.0-only"]
    assert "END OF TERMS AND CONDITIONS" in texts["GPL-2.0-only"]
    assert "Permission is hereby granted, free of charge" in texts["MIT"]
    message = (ROOT / "LICENSE").read_text()
    assert all(name in message for name in texts)
