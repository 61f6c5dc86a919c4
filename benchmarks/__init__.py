# SPDX-License-Identifier: MIT
"""Commands that make figures for the docs; run them as modules from the project folder."""
