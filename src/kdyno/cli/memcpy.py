# SPDX-License-Identifier: MIT
"""kdyno memcpy …: the verbs of the memory-routine laboratory, one module each."""

from __future__ import annotations

from kdyno.cli import memcpy_bench, memcpy_check, memcpy_generate, memcpy_histogram, memcpy_tune

NAME = "memcpy"
HELP = "Memory routines: check, generate, time, count and choose them."
VERBS = (memcpy_bench, memcpy_check, memcpy_generate, memcpy_histogram, memcpy_tune)
EXAMPLES = "Examples: kdyno memcpy check | kdyno memcpy bench --quick | kdyno memcpy --help"
