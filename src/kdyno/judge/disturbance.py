# SPDX-License-Identifier: MIT
"""Which boots were disturbed, by the host's word. They are flagged and kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from kdyno.store.boot import BootFlag, BootHost, BootRecord
from kdyno.store.run import Damaged
from kdyno.store.verdict import Flag

STEAL_SHARE = 0.01
"""Of the boot's wall time: the hypervisor ran somebody else."""
INTRUDER_SHARE = 0.03
"""CPU seconds of others on the guest's own CPUs, in relation to the boot's wall time."""
NEIGHBOUR_SHARE = 0.35
"""Busy seconds of the other CPUs in relation to the wall time; kdyno itself needs far less."""
CLOCK_SHARE = 0.01
"""Difference of the guest's clock from the host's over the same span, once beyond 50 ms."""
# /proc/stat counts in ticks of 10 ms: below this a share means nothing.
_LEAST_S = 0.03

_MEANING = {
    "steal": "CPU time was stolen by the hypervisor",
    "intruder": "other programs ran on the guest's CPU",
    "neighbour": "other CPUs were busy with something else",
    "clock": "the guest's clock and the host's disagree",
    "kernel-warning": "the kernel printed warnings",
    "low-parallelism": "parallelism fell below half of -j for a tenth of a case or more",
    "pages-in-order": "free pages could not be put at drawn places",
    "asleep": "a frozen command mostly slept, which goes on in the others' turns,",
    "guest-channel": "the guest printed something other than results where results are due",
}


def flags_of(host: BootHost) -> tuple[BootFlag, ...]:
    """Disturbances that one boot's record shows."""
    wall_s = host.wall_s or 0.0

    def seconds(name: str) -> float:
        value = host.after.get(name)
        return float(value) if isinstance(value, int | float) else 0.0

    found = []
    for kind, name, share in (
        ("steal", "steal_s", STEAL_SHARE),
        ("intruder", "guest_cpus_others_s", INTRUDER_SHARE),
        ("neighbour", "other_cpus_busy_s", NEIGHBOUR_SHARE),
    ):
        spent_s = seconds(name)
        if spent_s > max(_LEAST_S, share * wall_s):
            text = f"{_MEANING[kind]}: {spent_s:.2f} s of {wall_s:.2f} s"
            found.append(BootFlag(kind=kind, text=text))
    if host.guest_clock_s is not None and host.host_clock_s is not None:
        apart_s = abs(host.guest_clock_s - host.host_clock_s)
        if apart_s > max(0.05, CLOCK_SHARE * host.host_clock_s):
            text = f"{_MEANING['clock']}: {host.guest_clock_s:.3f} s, {host.host_clock_s:.3f} s"
            found.append(BootFlag(kind="clock", text=text))
    return tuple(found)


class Tally:
    """How many boots of a run each kind of disturbance concerns, counted as they go by."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._total = 0

    def watch(self, boots: Iterable[BootRecord | Damaged]) -> Iterator[BootRecord | Damaged]:
        """The same boots; only the readable ones count."""
        for boot in boots:
            if isinstance(boot, BootRecord):
                self._total += 1
                self._counts.update({flag.kind for flag in boot.host.flags})
            yield boot

    def flags(self) -> tuple[Flag, ...]:
        """One for each kind that was seen."""
        return tuple(
            Flag(
                kind=kind,
                text=f"{_MEANING.get(kind, kind)} in {count} of {self._total} boots (kept)",
            )
            for kind, count in sorted(self._counts.items())
        )
