# SPDX-License-Identifier: MIT
"""Laboratories beside the loop, each with its work, what it shows, and its verbs.

A laboratory may bring ``section.py`` to the page of a run, and ``export.py`` to its formats.
"""
