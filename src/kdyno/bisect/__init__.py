# SPDX-License-Identifier: MIT
"""Which commit, patch or option a difference comes from."""
