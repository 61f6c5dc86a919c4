# SPDX-License-Identifier: MIT
"""All runs as one folder of pages: a list, every report, history."""
