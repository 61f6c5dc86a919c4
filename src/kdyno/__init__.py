# SPDX-License-Identifier: MIT
"""kdyno: a dynamometer for kernels."""

__version__ = "0.1.0"
