# SPDX-License-Identifier: MIT
"""Kconfig runs programs while it reads (`$(shell,…)`): those of a patch run inside, too."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

# Kconfig itself is the real kernel's; its source is fetched where it is not in the cache.
pytestmark = [pytest.mark.uml, pytest.mark.needs("sandbox", "gcc", "flex", "bison")]

EXPERIMENT = """\
name     = "shell"
question = "Does Kconfig leave its sandbox?"
baseline = "stock"

[kernel]
source = "debian:linux-source-7.3"
config = ["small"]

[variant.stock]

[variant.hostile]
patches = ["hostile.patch"]
config  = ["CONFIG_ATTACK_RAN=y", "CONFIG_ATTACK_ESCAPED=n"]

[[suite]]
name  = "unixbench"
cases = ["pipe"]
"""

# Configuring fails unless every option of the file survives: that the shell ran inside is seen by
# CONFIG_ATTACK_RAN, which is yes where it could write in the sandbox's own /tmp.
PATCH = """\
--- a/init/Kconfig
+++ b/init/Kconfig
@@ -1,3 +1,7 @@
 # SPDX-License-Identifier: GPL-2.0-only
+config ATTACK_RAN
+\tdef_bool $(success,touch /tmp/inside)
+config ATTACK_ESCAPED
+\tdef_bool $(success,touch {mark} || cat {secret})
 config CC_VERSION_TEXT
 \tstring
"""


@pytest.mark.parametrize("words", [("build", "--dry-run"), ("check",)])
def test_a_shell_of_kconfig_reaches_nothing_of_the_host(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    mark, secret = tmp_path / "mark", tmp_path / "elsewhere" / "secret"
    secret.parent.mkdir()
    secret.write_text("a secret of the host\n")
    folder = tmp_path / "experiment"
    folder.mkdir()
    (folder / "hostile.patch").write_text(PATCH.format(mark=mark, secret=secret))
    (folder / "shell.toml").write_text(EXPERIMENT)
    tmp_path.chmod(0o755)
    verb, *options = words
    result = subprocess.run(
        [sys.executable, "-m", "kdyno", verb, folder / "shell.toml", *options],
        capture_output=True,
        text=True,
        env={**os.environ, "KDYNO_DESPITE_OTHERS": "1"},
    )
    assert result.returncode == 0, result.stderr
    assert not mark.exists()
    assert "a secret" not in result.stdout + result.stderr
