# SPDX-License-Identifier: MIT
"""What guests that are alive together may use of the host's memory."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def available_bytes() -> int:
    """MemAvailable: free, with what the kernel would drop of its caches."""
    with suppress(OSError):
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) << 10
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
