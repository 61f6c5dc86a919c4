# SPDX-License-Identifier: MIT
"""A run on disk to its verdict: pure, and the same again at any time."""
