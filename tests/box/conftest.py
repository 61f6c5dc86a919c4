# SPDX-License-Identifier: MIT
"""One box for all tests, with an ssh in front of all others that knows it as ``box``."""

from __future__ import annotations

from collections.abc import Iterator

import bed
import needed
import pytest

from kdyno.paths import cache_root


@pytest.fixture(scope="session")
def _box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[bed.Bed]:
    needed.need("mmdebstrap", "fakeroot", "qemu-system-x86_64", "ssh")
    with bed.running(cache_root(), tmp_path_factory.mktemp("bed")) as box:
        yield box


@pytest.fixture
def box(_box: bed.Bed, monkeypatch: pytest.MonkeyPatch) -> bed.Bed:
    monkeypatch.setenv("PATH", str(_box.ssh_folder), prepend=":")
    return _box
