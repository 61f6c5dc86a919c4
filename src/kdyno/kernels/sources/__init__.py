# SPDX-License-Identifier: MIT
"""One module per kind of kernel source, and the trees in the cache that they become."""
