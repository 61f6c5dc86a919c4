# SPDX-License-Identifier: MIT
"""Where the time goes: profiles of kernels at fixed work, and what differs between two."""
