# SPDX-License-Identifier: MIT
"""The experiment file, read and checked: ``load`` and ``parse`` are in ``loader``."""
