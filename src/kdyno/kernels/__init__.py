# SPDX-License-Identifier: MIT
"""From source to bootable image: source, tree, config, build, the image cache."""
