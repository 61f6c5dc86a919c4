# SPDX-License-Identifier: MIT
"""What the verbs are made of: their options, their output, progress, completion."""
