# SPDX-License-Identifier: MIT
"""Charts as SVG: what is seen, without where it is shown."""
