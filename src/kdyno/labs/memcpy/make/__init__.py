# SPDX-License-Identifier: MIT
"""Routines out of parameters."""
