# SPDX-License-Identifier: MIT
"""The auto-vectorisation survey: what a compiler vectorises in a whole kernel, and what not."""
