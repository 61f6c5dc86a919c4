# SPDX-License-Identifier: MIT
"""One way to show a table: a grid of cells, and a renderer for each place where it is read."""
