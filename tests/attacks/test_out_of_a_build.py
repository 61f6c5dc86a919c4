# SPDX-License-Identifier: MIT
"""Patches whose Makefile wants out of a kernel's build: `kdyno build` as root and as another user.

The build is a toy kernel's, with the real make, gcc and sandbox.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from arms import Arm, both

from kdyno.sandbox import BUILD

pytestmark = pytest.mark.needs("sandbox", "gcc")
LIMIT_S = 120
BUILDER = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from toy_kernel import Toy, variant
from kdyno.errors import KdynoError
toy = Toy(Path(sys.argv[2]))
old, new = sys.argv[3:]
patch = toy.edit("hostile", "scripts/toy.mk", old, new)
try:
    image = toy.build(variant("hostile", patches=(patch,)))
    print("image", image.folder)
    print((image.folder / "build.log").read_text())
except KdynoError as problem:
    print("refused", problem)
print("tree", (toy.tree.path / "Makefile").read_text())
"""
TESTS = Path(__file__).parents[1]


def built(arm: Arm, folder: Path, old: str, new: str) -> str:
    """What came of a build whose makefile has ``new`` for ``old``."""
    words = (str(TESTS), str(folder / "toy"), old, new)
    done = subprocess.run(
        arm.python("-c", BUILDER, *words),
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
        env={"PATH": os.environ["PATH"], "HOME": "/nonexistent", "LC_ALL": "C.UTF-8"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
@both
def test_a_makefile_cannot_make_the_host_writable(arm: Arm) -> None:
    with arm.place() as folder:
        mark = folder / "mark"
        out = built(
            arm,
            folder,
            "settle = ",
            f"$(info did $(shell mount -o remount,bind,rw / 2>&1 && echo x > {mark} && echo it))\n"
            "$(info did $(shell mount -o remount,bind,rw /tmp/kdyno/src 2>&1"
            " && echo x >> /tmp/kdyno/src/Makefile && echo it))\n"
            "$(info user $(shell id -u) $(shell id -G))\nsettle = ",
        )
        assert "must be superuser" in out and "did it" not in out, out
        assert f"user {BUILD.uid} {BUILD.uid}" in out, out
        assert not mark.exists()
        assert out.rpartition("tree")[2].count("\nx\n") == 0


@pytest.mark.slow
@both
def test_kdyno_follows_no_link_that_a_build_has_laid(arm: Arm) -> None:
    with arm.place() as folder:
        secret, victim = folder / "secret", folder / "victim"
        secret.write_text("CONFIG_SECRET=y\n")
        victim.write_text("as it was\n")
        for file in (secret, victim):
            file.chmod(0o600)
            os.chown(file, arm.uid, arm.uid)
        # After Kconfig the wishes are added to .config; at the end it is kept beside the image.
        for name in (secret, victim):
            kconfig = "mv .config.new .config"
            out = built(arm, folder, kconfig, f"{kconfig}; rm .config; ln -s {name} .config")
            shutil.rmtree(folder / "toy")
            assert out.startswith("refused"), out
            assert "SECRET" not in out and "no ordinary file in the place of .config" in out
        assert victim.read_text() == "as it was\n"
        assert secret.read_text() == "CONFIG_SECRET=y\n"


@pytest.mark.slow
@both
def test_a_link_in_place_of_the_kernel_is_no_image(arm: Arm) -> None:
    with arm.place() as folder:
        link = "-o linux $(objects)"
        out = built(arm, folder, link, f"{link}; rm linux; ln -s /etc/passwd linux")
        assert out.startswith("refused"), out
        assert "no ordinary file in the place of linux" in out


@pytest.mark.slow
@both
def test_the_modes_of_an_image_are_kdynos(arm: Arm) -> None:
    with arm.place() as folder:
        link = "-o linux $(objects)"
        out = built(arm, folder, link, f"{link}; chmod 6777 linux")
        image = Path(out.splitlines()[0].removeprefix("image "))
        assert (image / "linux").stat().st_mode & 0o7777 == 0o755
