# SPDX-License-Identifier: MIT
"""What the memory-routine laboratory shows on its own: copies that were counted, a tuning."""
