# SPDX-License-Identifier: MIT
"""Runs in a database: the index of a folder in SQLite, and the store that a team shares."""
