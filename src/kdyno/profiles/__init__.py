# SPDX-License-Identifier: MIT
"""Where a kernel's time goes: perf and gprof into one table per kernel, and differences of two."""
