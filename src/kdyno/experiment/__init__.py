# SPDX-License-Identifier: MIT
"""The experiment file, read and checked."""
