# SPDX-License-Identifier: MIT
"""Runs on disk: whole or absent."""
