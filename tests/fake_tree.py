# SPDX-License-Identifier: MIT
"""A folder that looks like kernel source and is made in milliseconds, for tests."""

from __future__ import annotations

import subprocess
from pathlib import Path

FILES = {
    "Makefile": (
        "# SPDX-License-Identifier: GPL-2.0\nVERSION = 7\nPATCHLEVEL = 3\nSUBLEVEL = 4\n"
        "EXTRAVERSION = -rc2\nNAME = Toy\n"
    ),
    "Kbuild": "obj-y += init/ lib/\n",
    "Kconfig": 'mainmenu "Toy"\nsource "arch/$(SRCARCH)/Kconfig"\n',
    "arch/um/Kconfig": 'config UML\n\tbool\n\tdefault y\nconfig SMP\n\tbool "SMP"\n',
    "arch/um/Makefile": "ELF_ARCH := x86_64\n",
    "arch/um/configs/x86_64_defconfig": "CONFIG_SMP=y\n",
    "init/main.c": "int main(void)\n{\n\treturn 0;\n}\n",
    "lib/sort.c": "int sort(void)\n{\n\treturn 1;\n}\n",
    "lib/Makefile": "obj-y += sort.o\n",
    "scripts/run.sh": "#!/bin/sh\nexit 0\n",
}


def make_tree(folder: Path, version: str = "7.3.4") -> Path:
    """The toy kernel in ``folder``: FILES, one executable, one link, one empty file."""
    for name, text in FILES.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    major, minor, patch = version.split(".")
    makefile = FILES["Makefile"].replace("= 7", f"= {major}").replace("= 3", f"= {minor}")
    (folder / "Makefile").write_text(makefile.replace("= 4", f"= {patch}").replace("-rc2", ""))
    (folder / "scripts" / "run.sh").chmod(0o755)
    (folder / "lib" / "empty.h").touch()
    (folder / "lib" / "link.h").symlink_to("../lib/empty.h")
    return folder


def make_tar(tree: Path, target: Path, *options: str) -> Path:
    """``target`` holds ``tree`` under its own name; packed by what the name ends with."""
    subprocess.run(
        ["tar", "-C", str(tree.parent), "-caf", str(target), *options, tree.name], check=True
    )
    return target


def git(folder: Path, *words: str) -> str:
    """What git prints, in a repository of nobody's settings."""
    own = ["-c", "user.name=T", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]
    argv = ["git", "-C", str(folder), *own, *words]
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip()


def commit(folder: Path, title: str) -> str:
    """Everything that lies there; the commit's hash."""
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", title)
    return git(folder, "rev-parse", "HEAD")


def make_repository(tree: Path) -> str:
    """A git repository of ``tree`` with one commit, tagged v7.3.4; the commit's hash."""
    git(tree, "init", "-q", "-b", "main")
    result = commit(tree, "toy")
    git(tree, "tag", "v7.3.4")
    return result
