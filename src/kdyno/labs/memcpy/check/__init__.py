# SPDX-License-Identifier: MIT
"""Routines held against what memcpy must do."""
