# SPDX-License-Identifier: MIT
"""The host's word: what the machine is, what it was doing around a boot, which counters it has. A
few small reads of /proc and /sys. guest/counters.c counts; what is seen here costs nothing and is
said before anything begins, and a guest's first word is whether it was right."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from kdyno.errors import ToolError
from kdyno.experiment.model import HARDWARE_COUNTERS
from kdyno.kernels.cpu import this_cpu

Facts = dict[str, float | str]

_TICK_S = 1.0 / os.sysconf("SC_CLK_TCK")
CpuTimes = tuple[float, float]
"""Seconds since the host's start, of one CPU: busy (without steal), and steal."""


@dataclass(frozen=True)
class Moment:
    cpus: dict[int, CpuTimes]
    facts: Facts


def look(guest_cpus: frozenset[int]) -> Moment:
    cpus: dict[int, CpuTimes] = {}
    running = 0
    for line in Path("/proc/stat").read_text().splitlines():
        words = line.split()
        if len(words) >= 9 and words[0].startswith("cpu") and words[0][3:].isdigit():
            times = [int(word) * _TICK_S for word in words[1:9]]
            user, nice, system, _idle, _iowait, irq, softirq, steal = times
            cpus[int(words[0][3:])] = (user + nice + system + irq + softirq, steal)
        elif words[:1] == ["procs_running"]:
            running = int(words[1])
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
    return Moment(cpus, facts)


def between(before: Moment, after: Moment, guest_cpus: frozenset[int], guest_cpu_s: float) -> Facts:
    """What happened meanwhile: steal of a CPU of the guest's, and the CPU that was used by somebody
    else; nothing where no CPU was looked at. Ticks are 1/100 s, so a short boot's figures are
    coarse."""
    steal_s = guest_s = others_s = 0.0
    if not (both := before.cpus.keys() & after.cpus.keys()):
        return {}
    for cpu in both:
        busy_s = after.cpus[cpu][0] - before.cpus[cpu][0]
        steal_s += after.cpus[cpu][1] - before.cpus[cpu][1] if cpu in guest_cpus else 0.0
        guest_s += busy_s if cpu in guest_cpus else 0.0
        others_s += busy_s if cpu not in guest_cpus else 0.0
    return {
        "steal_s": round(steal_s / max(1, len(guest_cpus)), 3),
        "guest_cpus_busy_s": round(guest_s, 3),
        "guest_cpus_others_s": round(max(0.0, guest_s - guest_cpu_s), 3),
        "other_cpus_busy_s": round(others_s, 3),
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
    facts |= identity(_text(Path("/etc/machine-id")) or "")
    if boot := _text(Path("/proc/sys/kernel/random/boot_id")):
        facts["boot_id"] = boot[:8]
    if node := os.environ.get("SLURMD_NODENAME"):
        facts["node"] = node[:100]
    here = this_cpu()
    named = {"vendor": here.vendor, "model": here.model, "microcode": here.microcode}
    facts |= {f"cpu_{name}": value for name, value in named.items() if value}
    governor = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
    facts["governor"] = _text(governor) or "not readable"
    facts["kvm"] = "yes" if Path("/dev/kvm").exists() else "no"
    for file in sorted(Path("/sys/devices/system/cpu/vulnerabilities").glob("*")):
        facts[f"vulnerability_{file.name}"] = _text(file) or "not readable"
    return facts


def identity(machine_id: str) -> Facts:
    """Tells machines apart, and is no way back to the number, which is not for others. Nothing for
    what is no machine's number."""
    name = sha256(f"kdyno {machine_id}".encode()).hexdigest()[:8]
    return {"machine_id": name} if len(machine_id) >= 32 else {}


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None


def _number(path: Path) -> float | None:
    try:
        return float(_text(path) or "")
    except ValueError:
        return None


def available_bytes() -> int:
    """MemAvailable: free, with what the kernel would drop of its caches."""
    with suppress(OSError):
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) << 10
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


_PMUS = ("cpu", "cpu_core")
"""The first is a CPU's, the second of one that has fast and slow cores."""
_MOST_PARANOID = 1
"""Up to this an ordinary user counts what happens in the kernel."""


def why_no_pmu(root: Path = Path("/")) -> str:
    """Empty where the CPU's own counters can be reached."""
    devices = root / "sys/bus/event_source/devices"
    if any((devices / name).exists() for name in _PMUS):
        return ""
    what = "this CPU, or the virtual machine that it belongs to, shows no hardware counters"
    return f"{what} (no {_PMUS[0]} in {devices})"


def why_paranoid(root: Path = Path("/")) -> str:
    """Empty where a case, which has no rights of root's, may count in the kernel."""
    if (level := _number(root / "proc/sys/kernel/perf_event_paranoid")) is None:
        return "this kernel is without CONFIG_PERF_EVENTS"
    if level <= _MOST_PARANOID:
        return ""
    what = f"kernel.perf_event_paranoid is {level:g}, and counting in the kernel takes"
    return f"{what} {_MOST_PARANOID} or less: sudo sysctl kernel.perf_event_paranoid=1"


def hardware(names: Iterable[str]) -> list[str]:
    """Those of them that the CPU counts, and not the kernel."""
    return [name for name in names if name in HARDWARE_COUNTERS]


def check_counters(names: Sequence[str], *, here: bool, sandboxed: bool = True) -> None:
    """ToolError where one cannot be counted. here: cases run under this machine's own kernel."""
    own = hardware(names)
    refuse_counters(own, why_no_pmu() if own else "")
    if names and here and (sandboxed or os.geteuid() != 0):
        refuse_counters(names, why_paranoid())


def refuse_counters(names: Iterable[str], why: str) -> None:
    """ToolError where there is a reason: known beforehand, or a guest's that did nothing else."""
    if why:
        raise ToolError(f"[measure] counters, metric: {', '.join(names)}: {why}")
