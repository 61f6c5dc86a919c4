# SPDX-License-Identifier: MIT
"""kdyno memcpy …: the verbs of the memory-routine laboratory, one module each."""

from __future__ import annotations

from kdyno.labs.memcpy.check import verb as check
from kdyno.labs.memcpy.count import verb as histogram
from kdyno.labs.memcpy.make import verb as generate
from kdyno.labs.memcpy.time import verb as bench
from kdyno.labs.memcpy.tune import verb as tune

NAME = "memcpy"
HELP = "Memory routines: check, generate, time, count and choose them."
VERBS = (bench, check, generate, histogram, tune)
EXAMPLES = "Examples: kdyno memcpy check | kdyno memcpy bench --quick | kdyno memcpy --help"
