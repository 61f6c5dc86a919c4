# SPDX-License-Identifier: MIT
"""The verbs: parse, call, print. No logic."""
