# SPDX-License-Identifier: MIT
"""kdyno's own speed, all of it: ``make bench`` (about an hour and a half on two cores).

    python -m benchmarks [PART …]

Nothing else should run on the machine meanwhile. Exit status 1 where a figure misses its target.
"""

from __future__ import annotations

import subprocess
import sys

PARTS = ("invented", "strata", "fleet", "speed", "counting", "turns")

if __name__ == "__main__":
    status = 0
    for part in sys.argv[1:] or PARTS:
        print(f"\n{part}:", flush=True)
        command = [sys.executable, "-m", f"benchmarks.{part}"]
        status |= subprocess.run(command, check=False).returncode
    sys.exit(status)
