# SPDX-License-Identifier: MIT
"""Files written by people, checked: every mistake with its line, and the nearest right word."""
