# SPDX-License-Identifier: MIT
"""The verbs: parse, call, print. No logic.

Nothing heavy is imported at the top of these modules: `kdyno --help` must be quick.
"""
