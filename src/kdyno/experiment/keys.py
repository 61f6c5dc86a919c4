# SPDX-License-Identifier: MIT
"""Every key of an experiment file: the loader's list, and that of docs/experiment-file.md."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

KERNEL_KEYS = (
    "source",
    "arch",
    "config",
    "patches",
    "cflags",
    "compiler",
    "cmdline",
    "sysctl",
    "memcpy",
    "routines",
    "scheduler",
)

VARIANT_KEYS = (*KERNEL_KEYS, "cpus", "programs")
LEVEL_KEYS = (*VARIANT_KEYS, "set", "case")

TABLES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "": (
            "name",
            "question",
            "baseline",
            "skip-unsupported",
            "kernel",
            "variant",
            "factor",
            "machine",
            "suite",
            "measure",
            "layout",
            "matrix",
        ),
        "layout": ("draws",),
        "matrix": ("refs",),
        "kernel": KERNEL_KEYS,
        "machine": ("kind", "cpus", "memory", "timeout", "accel"),
        "variant": VARIANT_KEYS,
        "factor": LEVEL_KEYS,
        "suite": ("name", "cases", "seconds", "operations", "command", "figure", "unit", "better"),
        "measure": (
            "precision",
            "max_boots",
            "min_boots",
            "max_minutes",
            "equivalent",
            "confidence",
            "profile",
            "seed",
            "calibrate",
            "interleave",
            "metric",
            "exact_boots",
            "insist",
            "apart",
        ),
    }
)
"""Table → keys. ``variant`` stands for each [variant.NAME], ``factor`` for each level."""


def home_of(key: str) -> str | None:
    """The table that has ``key``, as it is written in the file; None when none has."""
    for table, keys in TABLES.items():
        if key in keys:
            return {"": "the top of the file", "suite": "[[suite]]"}.get(table, f"[{table}]")
    return None
