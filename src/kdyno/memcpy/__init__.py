# SPDX-License-Identifier: MIT
"""The memory-routine laboratory: routines generated, checked, timed, counted and chosen."""
