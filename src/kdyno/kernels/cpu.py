# SPDX-License-Identifier: MIT
"""What the CPU of this machine can do, from /proc/cpuinfo."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")


@dataclass(frozen=True)
class Cpu:
    """The first processor that /proc/cpuinfo lists; strings are empty where it says nothing."""

    model: str
    microcode: str
    flags: frozenset[str]
    vendor: str = ""
    family: int = 0
    number: int = 0
    """Of the model within its family."""


def parse_cpuinfo(text: str) -> Cpu:
    """``text``: the content of /proc/cpuinfo. Only the first processor is read."""
    lines = (line.partition(":") for line in text.strip().split("\n\n", 1)[0].splitlines())
    fields = {key.strip(): value.strip() for key, colon, value in lines if colon}
    family, number = (fields.get(key, "") for key in ("cpu family", "model"))
    return Cpu(
        model=fields.get("model name", ""),
        microcode=fields.get("microcode", ""),
        flags=frozenset(fields.get("flags", "").split()),
        vendor=fields.get("vendor_id", ""),
        family=int(family) if family.isdecimal() else 0,
        number=int(number) if number.isdecimal() else 0,
    )


@cache
def this_cpu() -> Cpu:
    """The CPU that this program runs on; all empty where /proc/cpuinfo cannot be read."""
    try:
        return parse_cpuinfo(CPUINFO.read_text("utf-8", "replace"))
    except OSError:
        return Cpu("", "", frozenset())


def flags() -> frozenset[str]:
    """Feature names as the kernel spells them: ``avx2``, ``fsrm`` …"""
    return this_cpu().flags


def missing(requires: Iterable[str]) -> tuple[str, ...]:
    """Those of ``requires`` that this CPU lacks, in the order given."""
    return tuple(feature for feature in requires if feature not in flags())


# A compiler's -mX and the feature in /proc/cpuinfo that the code then needs.
_MACHINE_FLAGS = {
    **{f"-m{name}": name for name in ("avx", "avx2", "fma", "bmi1", "bmi2", "ssse3", "sse2")},
    **{f"-mavx512{name}": f"avx512{name}" for name in ("f", "bw", "dq", "vl", "cd")},
    "-msse4.1": "sse4_1",
    "-msse4.2": "sse4_2",
}


def needed_by(cflags: str) -> tuple[str, ...]:
    """Features without which code that was compiled with these flags may die: ``-mavx2`` …"""
    return tuple(_MACHINE_FLAGS[flag] for flag in cflags.split() if flag in _MACHINE_FLAGS)
