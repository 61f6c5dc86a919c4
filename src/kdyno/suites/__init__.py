# SPDX-License-Identifier: MIT
"""The catalogue of benchmarks, the job a guest is given, and what it answers."""
