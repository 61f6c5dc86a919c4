# SPDX-License-Identifier: MIT
"""kdyno memcpy …: the verbs of the memory-routine laboratory, one module each."""

from __future__ import annotations

from kdyno.labs.memcpy import bench, check, generate, histogram, tune

NAME = "memcpy"
HELP = "Memory routines: check, generate, time, count and choose them."
VERBS = (bench, check, generate, histogram, tune)
EXAMPLES = "Examples: kdyno memcpy check | kdyno memcpy bench --quick | kdyno memcpy --help"
