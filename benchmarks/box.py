# SPDX-License-Identifier: MIT
"""A boot of kdyno's by kexec beside the box's own reboot, on the box in QEMU that the tests have.

    python -m benchmarks.box [--boots N] [--json FILE]

By turns: `systemctl reboot` until the new boot is complete, and a boot of one empty case from the
order for kexec until its last record is here. Both begin with systemd's shutdown, and cases wait
for the end of booting too. A real machine's own boot takes its firmware's minute besides.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from statistics import median
from typing import Any

from benchmarks.figure import Figure, boots_of, main, run_of
from kdyno.paths import cache_root, data_root

sys.path.insert(0, str(data_root() / "tests" / "box"))
import bed

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
seconds = 0.05
[measure]
max_boots = 2
"""


def reboot_s(box: bed.Bed) -> float:
    """From the order until another boot answers, and has started its services."""
    own = "cat /proc/sys/kernel/random/boot_id"
    before, begin_s = box.ask(own), time.monotonic()
    box.ask("systemctl reboot")
    while box.ask(own, limit_s=15) in ("", before):
        time.sleep(0.2)
    box.ask("systemctl is-system-running --wait")
    return time.monotonic() - begin_s


def kexec(request: Any) -> Iterator[Figure]:
    own_s, kexec_s = list[float](), list[float]()
    with bed.running(cache_root(), request.folder) as box:
        os.environ["PATH"] = f"{box.ssh_folder}:{os.environ['PATH']}"
        os.environ["KDYNO_DESPITE_OTHERS"] = "1"
        text = EXPERIMENT.format(folder=box.disk.folder)
        while len(own_s) < request.boots:
            boots = boots_of(run_of(text, request.folder, "--max-minutes", "0.05"))
            hosts = [boot.host for boot in boots]
            assert all(boot.ok for boot in boots), hosts
            # From the order for kexec to the last record.
            kexec_s += [host.wall_s - host.before["before_kexec_s"] for host in hosts]
            own_s += [reboot_s(box), reboot_s(box)]
    ranges = " and ".join(f"{min(each):.0f} … {max(each):.0f}" for each in (kexec_s, own_s))
    own, ours = median(own_s), median(kexec_s)
    how = f"{ours:.1f} ÷ {own:.1f} s, medians of {len(own_s)} ({ranges})"
    yield Figure("kexec to the records ÷ own reboot", ours / own, "", 1.1, how=how)


if __name__ == "__main__":
    main(__doc__, kexec, boots=4)
