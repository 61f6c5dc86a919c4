# SPDX-License-Identifier: MIT
"""A run on many machines: jobs of an engine that exists, each of which measures some groups."""
