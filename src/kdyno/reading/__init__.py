# SPDX-License-Identifier: MIT
"""Files that somebody wrote, checked: every mistake with its line, and the nearest right word."""
