# SPDX-License-Identifier: MIT
"""What is refused before a kernel under User Mode Linux is started."""

from __future__ import annotations

from pathlib import Path

import pytest

from kdyno.errors import UsageError
from kdyno.machines.cpus import place
from kdyno.machines.uml import UmlBoot, boot
from kdyno.suites.job import Job


@pytest.mark.parametrize("hidden", ["/dev/shm", "/run"])
def test_without_a_sandbox_the_guest_must_see_its_job(
    hidden: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own /dev or /run would lie over the folder, and it would say nothing."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(Path, "resolve", lambda self: hidden / self.relative_to("/"))
    request = UmlBoot(
        program=tmp_path / "guest",
        kernel=tmp_path / "linux",
        job=Job(),
        placement=place(1),
        sandboxed=False,
    )
    with pytest.raises(UsageError, match="such as /var/tmp") as refused:
        boot(request)
    assert str(refused.value).startswith(f"TMPDIR: {tmp_path}: a guest has a /{hidden[1:4]}")
    assert list(tmp_path.iterdir()) == []
