# SPDX-License-Identifier: MIT
"""The slow option of two configurations, searched on real kernels by count. Under User Mode Linux
the option makes a fork a tenth slower, too little to be seen beside other tests."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from real_kernels import built_kernels

# Also `uml`: real kernels, one test at a time.
pytestmark = [pytest.mark.qemu, pytest.mark.uml, pytest.mark.needs("qemu-system-x86_64")]
KNOWN = Path(__file__).with_name("known.toml")
OPTIONS = {
    'CONFIG_DEFAULT_HOSTNAME="(none)"': 'CONFIG_DEFAULT_HOSTNAME="dyno"',
    "CONFIG_LOG_BUF_SHIFT=17": "CONFIG_LOG_BUF_SHIFT=15",
    "# CONFIG_CONFIGFS_FS is not set": "CONFIG_CONFIGFS_FS=y",
    "# CONFIG_SLUB_DEBUG_ON is not set": "CONFIG_SLUB_DEBUG_ON=y",
    "# CONFIG_PANIC_ON_OOPS is not set": "CONFIG_PANIC_ON_OOPS=y",
    "# CONFIG_DEBUG_NOTIFIERS is not set": "CONFIG_DEBUG_NOTIFIERS=y",
}
"""Each is compiled in few files. SLUB_DEBUG_ON checks all small memory that is taken and freed."""


def test_the_slow_option_is_found_between_two_whole_configurations(tmp_path: Path) -> None:
    # All these kernels begin at its objects.
    text = built_kernels(KNOWN).images["stock"].config.read_text()
    before, after = tmp_path / "before.config", tmp_path / "after.config"
    before.write_text(text)
    for line, other in OPTIONS.items():
        assert f"\n{line}\n" in text
        text = text.replace(f"\n{line}\n", f"\n{other}\n")
    after.write_text(text)
    result = tmp_path / "answer.json"
    words: list[str | Path] = [*("--between", before, after), *("--machine", "qemu")]
    words += ["--metric", "instructions", "--case", "unixbench/spawn", "--json", result]
    argv = [sys.executable, "-m", "kdyno", "bisect", *words, "--runs", tmp_path / "runs"]
    ended = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr[-3000:]
    assert "of 6 options that differ, 6 can be set here" in ended.stderr
    data = json.loads(result.read_text())
    (step,) = data["steps"]
    assert data["answer"] == "found" and step["verified"]
    assert step["point"]["title"] == "CONFIG_SLUB_DEBUG_ON=y"
    assert step["difference"]["ratio"] > 1.1
    # Kconfig selects that one.
    assert step["along"] == ["CONFIG_STACKDEPOT_ALWAYS_INIT=y"]
    assert "with it   CONFIG_STACKDEPOT_ALWAYS_INIT=y" in ended.stdout
