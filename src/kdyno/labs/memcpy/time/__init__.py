# SPDX-License-Identifier: MIT
"""How fast routines are."""
