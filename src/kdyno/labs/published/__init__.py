# SPDX-License-Identifier: MIT
"""Published experiments: their claims, their figures, and today's beside them."""
