# SPDX-License-Identifier: MIT
"""Where an image boots. One seam: boot(image, job) gives a boot record."""
