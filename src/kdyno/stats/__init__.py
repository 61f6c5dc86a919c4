# SPDX-License-Identifier: MIT
"""Pure functions on arrays. No I/O, and no imports from other rooms."""
