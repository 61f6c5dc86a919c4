# SPDX-License-Identifier: MIT
"""What this machine has and lacks."""
