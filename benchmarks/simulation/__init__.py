# SPDX-License-Identifier: MIT
"""kdyno's rule and others' on synthetic noise: docs/research/statistics.md."""
