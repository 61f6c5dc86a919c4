# SPDX-License-Identifier: MIT
"""Two shipped kernels that differ in one option: all of the difference is the configuration's."""

from __future__ import annotations

import gzip
import json
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from real_kernels import built_kernels

from kdyno.kernels.image import Image

EXPERIMENT = Path(__file__).with_name("shipped.toml")
SOURCE = "debian:linux-source-7.3"
# Also `uml`: real kernels, one test at a time.
pytestmark = [
    pytest.mark.qemu,
    pytest.mark.uml,
    pytest.mark.needs("qemu-system-x86_64", "dpkg-deb"),
]


def package(image: Image, folder: Path) -> Path:
    """The image as a distribution ships one: a bzImage and its configuration in a .deb."""
    root, version = folder / "root", "7.3.0-test"
    (root / "DEBIAN").mkdir(parents=True)
    (root / "boot").mkdir()
    control = f"Package: {folder.name}\nVersion: 1\nArchitecture: amd64\nMaintainer: nobody\n"
    (root / "DEBIAN/control").write_text(f"{control}Description: a test\n")
    (root / "boot" / f"config-{version}").write_bytes(image.config.read_bytes())
    payload = gzip.compress(image.kernel.read_bytes(), 1)
    head = bytearray(1024)  # Documentation/arch/x86/boot.rst: one sector of set-up
    head[0x1F1], head[0x202:0x206] = 1, b"HdrS"
    struct.pack_into("<II", head, 0x248, 0, len(payload))
    (root / "boot" / f"vmlinuz-{version}").write_bytes(bytes(head) + payload)
    file = folder.with_suffix(".deb")
    subprocess.run(["dpkg-deb", "--build", str(root), str(file)], check=True, capture_output=True)
    return file


def compared(*words: str, runs: Path) -> str:
    """What `kdyno compare --attribute` shows."""
    argv = [sys.executable, "-m", "kdyno", "compare", "--attribute", *words, "--runs", str(runs)]
    ended = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr[-3000:]
    return ended.stdout


def test_a_difference_of_one_option_is_the_configurations(tmp_path: Path) -> None:
    # Where another process builds the same kernel but for a patch, wait for it and begin at its
    # objects: both from nothing at once cost ten minutes.
    built_kernels(EXPERIMENT.with_name("known.toml"))
    images, runs = built_kernels(EXPERIMENT).images, tmp_path / "runs"
    debs = [f"deb:{package(images[name], tmp_path / name)}" for name in ("without", "with")]
    words = ["--source", SOURCE, "--source", SOURCE, "--json", str(tmp_path / "answer.json")]
    words += ["--case", "unixbench/syscall", "--case", "unixbench/pipe"]
    text = compared(*debs, *words, runs=runs)
    answer = json.loads((tmp_path / "answer.json").read_text())
    cases = {case["case"]: case for case in answer["cases"]}
    syscall = cases["syscall"]  # with a close(), which looks who watches the file
    assert syscall["exact"]
    assert list(syscall["shares"]) == ["config"]
    # What the option adds, and all of it again in kernels built from the packages' configurations.
    assert syscall["total"] > 1
    assert syscall["shares"]["config"] == pytest.approx(syscall["total"], abs=0.5)
    assert cases["pipe"]["total"] == pytest.approx(0, abs=0.5)
    assert compared("last", runs=runs) == text
