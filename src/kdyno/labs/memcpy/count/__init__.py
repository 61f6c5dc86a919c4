# SPDX-License-Identifier: MIT
"""What kernels copy."""
