# SPDX-License-Identifier: MIT
"""Memory routines: their files, what they assemble to, and whether they copy right."""
