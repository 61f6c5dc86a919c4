# SPDX-License-Identifier: MIT
"""The host's word: what the machine was doing around a boot. A few small reads of /proc."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

Facts = dict[str, float | str]

_TICK_S = 1.0 / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class CpuTimes:
    """Seconds since the host's start, for one CPU: busy (without steal), steal, idle."""

    busy_s: float
    steal_s: float
    idle_s: float


@dataclass(frozen=True)
class Moment:
    """The machine at one moment."""

    cpus: dict[int, CpuTimes]
    running: int
    facts: Facts


def times(stat: str) -> tuple[dict[int, CpuTimes], int]:
    """(times of each CPU, tasks that want one) by /proc/stat."""
    cpus: dict[int, CpuTimes] = {}
    running = 0
    for line in stat.splitlines():
        words = line.split()
        if len(words) >= 9 and words[0].startswith("cpu") and words[0][3:].isdigit():
            times = [int(word) * _TICK_S for word in words[1:9]]
            user, nice, system, idle, iowait, irq, softirq, steal = times
            busy = user + nice + system + irq + softirq
            cpus[int(words[0][3:])] = CpuTimes(busy, steal, idle + iowait)
        elif words[:1] == ["procs_running"]:
            running = int(words[1])
    return cpus, running


def look(guest_cpus: frozenset[int]) -> Moment:
    """Read the machine now."""
    cpus, running = times(Path("/proc/stat").read_text())
    facts: Facts = {"runnable_tasks": float(running), "load_1min": os.getloadavg()[0]}
    for cpu in sorted(guest_cpus):
        khz = _number(Path(f"/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_cur_freq"))
        if khz is not None:
            facts[f"cpu{cpu}_khz"] = khz
    hottest = [
        celsius / 1000
        for zone in Path("/sys/class/thermal").glob("thermal_zone*/temp")
        if (celsius := _number(zone)) is not None
    ]
    if hottest:
        facts["hottest_celsius"] = max(hottest)
    return Moment(cpus, running, facts)


def between(before: Moment, after: Moment, guest_cpus: frozenset[int], guest_cpu_s: float) -> Facts:
    """What happened meanwhile: steal, and the CPU that was used by somebody else.

    Ticks are 1/100 s, so a short boot's figures are coarse.
    """

    def gone(cpus: frozenset[int], name: str) -> float:
        return sum(
            float(getattr(after.cpus[cpu], name) - getattr(before.cpus[cpu], name))
            for cpu in cpus
            if cpu in before.cpus and cpu in after.cpus
        )

    others = frozenset(after.cpus) - guest_cpus
    return {
        "steal_s": round(gone(frozenset(after.cpus), "steal_s"), 3),
        "guest_cpus_busy_s": round(gone(guest_cpus, "busy_s"), 3),
        "guest_cpus_others_s": round(max(0.0, gone(guest_cpus, "busy_s") - guest_cpu_s), 3),
        "other_cpus_busy_s": round(gone(others, "busy_s"), 3),
    }


def machine() -> Facts:
    """What this machine is, once for a run."""
    facts: Facts = {
        "host_kernel": os.uname().release,
        "host_arch": os.uname().machine,
        "cpus": float(os.cpu_count() or 0),
        "memory_bytes": float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")),
        "page_bytes": float(os.sysconf("SC_PAGE_SIZE")),
    }
    if (own := _text(Path("/etc/machine-id"))) is not None and len(own) >= 32:
        facts["machine_id"] = machine_name(own)
    if node := os.environ.get("SLURMD_NODENAME"):
        facts["node"] = node[:100]
    wanted = {"model name": "cpu_model", "microcode": "cpu_microcode", "vendor_id": "cpu_vendor"}
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        key, _, value = line.partition(":")
        if key.strip() in wanted:
            facts.setdefault(wanted[key.strip()], value.strip())
    governor = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
    facts["governor"] = _text(governor) or "not readable"
    facts["kvm"] = "yes" if Path("/dev/kvm").exists() else "no"
    folder = Path("/sys/devices/system/cpu/vulnerabilities")
    for file in sorted(folder.glob("*")):
        facts[f"vulnerability_{file.name}"] = _text(file) or "not readable"
    return facts


def machine_name(machine_id: str) -> str:
    """Tells machines apart, and is no way back to the number, which is not for others."""
    return sha256(f"kdyno {machine_id}".encode()).hexdigest()[:8]


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None


def _number(path: Path) -> float | None:
    try:
        return float(path.read_text())
    except (OSError, ValueError):
        return None


def available_bytes() -> int:
    """MemAvailable: free, with what the kernel would drop of its caches."""
    with suppress(OSError):
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) << 10
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
