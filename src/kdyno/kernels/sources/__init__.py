# SPDX-License-Identifier: MIT
"""One module per kind of kernel source, and what they share: shelf, manifest, archive, tool."""
