# SPDX-License-Identifier: MIT
"""A folder that looks like kernel source, made in milliseconds; packages, and who offers them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from toy_kernel import write_files

from kdyno.kernels.sources import debian

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
    write_files(folder, FILES)
    major, minor, patch = version.split(".")
    makefile = FILES["Makefile"].replace("= 7", f"= {major}").replace("= 3", f"= {minor}")
    (folder / "Makefile").write_text(makefile.replace("= 4", f"= {patch}").replace("-rc2", ""))
    (folder / "scripts" / "run.sh").chmod(0o755)
    (folder / "lib" / "empty.h").touch()
    (folder / "lib" / "link.h").symlink_to("../lib/empty.h")
    return folder


def make_tar(tree: Path, target: Path) -> Path:
    """``target`` holds ``tree`` under its own name; packed by what the name ends with."""
    argv = ["tar", "-C", str(tree.parent), "-caf", str(target), tree.name]
    subprocess.run(argv, check=True)
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


def make_deb(root: Path, name: str, version: str) -> Path:
    """A package of what lies in ``root``, beside it; packed by dpkg-deb."""
    (root / "DEBIAN").mkdir()
    (root / "DEBIAN/control").write_text(
        f"Package: {name}\nVersion: {version}\nArchitecture: amd64\n"
        "Maintainer: T <t@example.org>\nDescription: toy\n"
    )
    file = root.parent / f"{name}_{version}_amd64.deb"
    argv = ["dpkg-deb", "--root-owner-group", "-Zgzip", "-b", str(root), str(file)]
    subprocess.run(argv, check=True, capture_output=True)
    return file


class FakeApt:
    """An archive's one suite: package → its versions, the newest first; each is the same file.

    leads_to: the package of the kernel itself, on which linux-image-amd64 depends.
    """

    suites = "fake"

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        deb: Path,
        packages: dict[str, list[str]],
        leads_to: str = "",
    ) -> None:
        self.deb, self.packages, self.leads_to = deb, packages, leads_to
        self.updates = 0
        self.downloads: list[str] = []
        monkeypatch.setattr(debian, "read_entries", lambda: [])
        monkeypatch.setattr(debian, "groups", lambda _entries, _codename: [()])
        monkeypatch.setattr(debian, "PrivateApt", lambda _home, _group: self)

    def update(self, _progress: object) -> None:
        self.updates += 1

    def newest(self, package: str) -> str | None:
        return next(iter(self.packages.get(package, [])), None)

    def versions(self, package: str) -> list[str]:
        return self.packages[package]

    def depends(self, package: str, version: str) -> str:
        own = f"initramfs-tools (>= 0.120) | linux-initramfs-tool, {self.leads_to} (= {version})"
        return own if package == "linux-image-amd64" else "kmod, linux-base (>= 4.3~)"

    def names(self, _start: str) -> list[str]:
        return [*self.packages]

    def download(self, package: str, version: str, into: Path, _progress: object) -> Path:
        self.downloads.append(f"{package} {version}")
        target = into / self.deb.name
        target.write_bytes(self.deb.read_bytes())
        return target
