# SPDX-License-Identifier: MIT
"""A boot of kdyno's by kexec beside the box's own reboot, on the box in QEMU that the tests have.

    python -m benchmarks.box [--boots N] [--json FILE]

By turns: `systemctl reboot` until ssh answers from the new boot, and a boot of one empty case from
the order for kexec until its records are here. Both begin with systemd's shutdown. A real machine's
own boot takes its firmware's minute besides.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.speed import Figure, finish, options, quiet
from kdyno.paths import cache_root, data_root
from kdyno.store.boot import BootRecord
from kdyno.store.run import list_runs

sys.path.insert(0, str(data_root() / "tests" / "box"))
import bed

MOST = 1.1
EXPERIMENT = """
name = "box-boot"
baseline = "own"
[machine]
kind = "box"
host = "box"
[variant.own]
image = "deb:{folder}/own.deb"
[variant.same]
image = "deb:{folder}/own.deb"
cmdline = "kdyno.same"
[[suite]]
name = "run"
cases = ["empty"]
command = ["true"]
[measure]
max_boots = 2
"""


def reboot_s(box: bed.Bed) -> float:
    """From the order until ssh answers in another boot."""
    own = "cat /proc/sys/kernel/random/boot_id"
    before, begin_s = box.ask(own), time.monotonic()
    box.ask("systemctl reboot")
    while box.ask(own, limit_s=15) in ("", before):
        time.sleep(0.2)
    return time.monotonic() - begin_s


def kexecs_s(box: bed.Bed, folder: Path) -> list[float]:
    """Of the boots of one block: from the order until the last record is here."""
    file = folder / "box.toml"
    file.write_text(EXPERIMENT.format(folder=box.disk.folder), encoding="utf-8")
    runs = Path(tempfile.mkdtemp(dir=folder))
    quiet("run", str(file), "--runs", str(runs), "--max-minutes", "0.05")
    (run,) = list_runs(runs)
    boots = [boot for boot in run.boots() if isinstance(boot, BootRecord)]
    assert all(boot.ok for boot in boots), [boot.host for boot in boots]
    return [boot.host.wall_s for boot in boots]


def main() -> int:
    given = options(__doc__, boots=4)
    with tempfile.TemporaryDirectory(prefix="kdyno-box-") as name:
        folder = Path(name)
        with bed.running(cache_root(), folder) as box:
            os.environ["PATH"] = f"{box.ssh_folder}:{os.environ['PATH']}"
            os.environ["KDYNO_DESPITE_OTHERS"] = "1"
            own_s, kexec_s = list[float](), list[float]()
            while len(own_s) < given.boots:
                kexec_s += kexecs_s(box, folder)
                own_s += [reboot_s(box), reboot_s(box)]
    own, kexec = statistics.median(own_s), statistics.median(kexec_s)
    ranges = " and ".join(f"{min(each):.0f} … {max(each):.0f}" for each in (kexec_s, own_s))
    how = f"{kexec:.1f} ÷ {own:.1f} s, medians of {len(own_s)} ({ranges})"
    return finish(
        [Figure("kexec to the records ÷ own reboot", kexec / own, "", MOST, how=how)], given.json
    )


if __name__ == "__main__":
    sys.exit(main())
