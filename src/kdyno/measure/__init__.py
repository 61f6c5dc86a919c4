# SPDX-License-Identifier: MIT
"""From images to a run on disk: what is booted, in which order, how often, and what is kept."""
