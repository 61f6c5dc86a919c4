# SPDX-License-Identifier: MIT
"""kdyno lab memcpy …: the verbs of the memory-routine laboratory, one module each."""

from __future__ import annotations

from kdyno.labs.memcpy import bench, check, generate, histogram, tune

VERBS = tuple(verb for each in (bench, check, generate, histogram, tune) for verb in each.VERBS)
