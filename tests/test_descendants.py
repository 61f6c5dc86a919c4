# SPDX-License-Identifier: MIT
"""Which processes a test takes for its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from descendants import below

GUEST = [sys.executable, "-c", "input()", "kdyno.job=/tmp/x"]
LOOK = """\
import os, subprocess, sys
sys.path.insert(0, sys.argv[1])
from descendants import adopt, descendants
adopt()
print(len(descendants(b"kdyno.job=/tmp")), flush=True)
code = "import subprocess, sys; print(subprocess.Popen(sys.argv[1:], stdout=-3, stderr=-3).pid)"
closed, _ = os.pipe()
orphan = subprocess.run([sys.executable, "-c", code, *sys.argv[2:]], stdin=closed,
    stdout=subprocess.PIPE, timeout=60)
print(descendants(b"kdyno.job=/tmp") == [int(orphan.stdout)])
"""


def test_children_of_children_and_nobody_else() -> None:
    assert below(10, {10: 1, 11: 10, 12: 11, 13: 1, 14: 13, 1: 0}) == {11, 12}


def test_an_orphan_is_ones_own_and_anothers_guest_is_not() -> None:
    with subprocess.Popen(GUEST, stdin=subprocess.PIPE) as other:
        look = Path(__file__).parent
        done = subprocess.run(
            [sys.executable, "-c", LOOK, look, *GUEST], capture_output=True, text=True, timeout=60
        )
        assert other.poll() is None
        other.communicate(b"\n")
    assert done.stdout.split() == ["0", "True"], done.stderr
