# SPDX-License-Identifier: MIT
"""kdyno's own speed, all of it: ``make bench`` (about two hours on two cores).

    python -m benchmarks [PART …]

Runs the parts one after another and keeps their figures in published/speed.json, from which
`make docs` makes docs/research/speed.md. A part that is not run keeps the figures of its last run.
Nothing else should run on the machine meanwhile.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks import pages
from kdyno.machines.facts import machine

PARTS = (
    *("boots", "site", "store", "strata", "fleet", "survey"),
    *("memcpy", "kernels", "speed", "counting", "turns"),
)
WITHOUT_FIGURES = ("memcpy",)
"""Prints tables of its own; docs/research/memcpy.md has them."""


def measure(part: str) -> tuple[int, list[dict[str, Any]]]:
    """Exit status and figures of one part; none where it ended without them."""
    print(f"\n{part}:", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "figures.json"
        words = [] if part in WITHOUT_FIGURES else ["--json", str(file)]
        command = [sys.executable, "-m", f"benchmarks.{part}", *words]
        status = subprocess.run(command, check=False).returncode
        return status, json.loads(file.read_text(encoding="utf-8")) if file.exists() else []


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], metavar="PART")
    parts = parser.parse_args().parts or PARTS
    kept = json.loads(pages.SPEED.read_text(encoding="utf-8")) if pages.SPEED.exists() else {}
    failed = 0
    for part in parts:
        status, figures = measure(part)
        failed |= status
        if figures:
            facts = machine()
            conditions = {key: facts[key] for key in ("cpu_model", "cpus")}
            date = datetime.now(UTC).date().isoformat()
            kept[part] = {"date": date, **conditions, "figures": figures}
            pages.SPEED.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    pages.write()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
