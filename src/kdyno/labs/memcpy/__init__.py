# SPDX-License-Identifier: MIT
"""The memory-routine laboratory: routines made, checked, timed, counted and chosen."""
