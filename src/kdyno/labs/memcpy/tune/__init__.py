# SPDX-License-Identifier: MIT
"""The best routine for what a kernel copies."""
