# SPDX-License-Identifier: MIT
"""kdyno's rule and others', held against noise that was made up: what docs/statistics.md says."""
