# SPDX-License-Identifier: MIT
"""An architecture added to those that are there: what it is asked to build and which file boots."""

from __future__ import annotations

from pathlib import Path

import pytest
from toy_kernel import Toy, variant

from kdyno.errors import UsageError
from kdyno.kernels import config as archs
from kdyno.kernels.config import Arch
from kdyno.kernels.routines.routine import list_routines

ROUTINE = next(routine.name for routine in list_routines() if routine.archs == ("um",))


@pytest.fixture
def other(monkeypatch: pytest.MonkeyPatch) -> Arch:
    """Built by the goal of the toy, but its image is another file, as a bzImage is."""
    added = Arch("other", ("ARCH=other",), "linux", "boot/packed", 64, (64,), {"CONFIG_64BIT": "y"})
    monkeypatch.setattr(archs, "ARCHS", {**archs.ARCHS, added.name: added})
    return added


@pytest.mark.slow
def test_the_image_may_lie_elsewhere_than_what_make_is_asked_for(
    other: Arch, tmp_path: Path
) -> None:
    pack = "linux: boot/packed\nboot/packed:\n\t@mkdir -p boot; echo packed > $@\n"
    toy = Toy(tmp_path, {"scripts/extra.mk": pack}, sandboxed=False)
    assert toy.build(variant(arch=other.name)).kernel.read_text() == "packed\n"


def test_a_routine_of_another_arch_is_refused(other: Arch, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot go into a kernel of arch 'other', only into um"):
        Toy(tmp_path).recipe(variant("mine", memcpy=ROUTINE, arch=other.name))
