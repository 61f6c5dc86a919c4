# SPDX-License-Identifier: MIT
"""A vectorisation survey, shown."""
