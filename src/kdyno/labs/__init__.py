# SPDX-License-Identifier: MIT
"""Laboratories beside the loop: what each shows of its work."""
