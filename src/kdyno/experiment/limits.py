# SPDX-License-Identifier: MIT
"""The limits of an experiment file and the command line. Imports nothing, for pages of help."""

MOST_SECONDS = 3600
"""Of a case in a boot."""
MOST_BOOTS = 100_000
"""Of a variant."""
MOST_MINUTES = 60 * 24 * 365
"""Of measuring."""
MOST_MINUTES_OF_A_STEP = 60 * 24
"""Of measuring, in each step of a search."""
FEWEST_LINKS, MOST_LINKS = 6, 100
"""Of each kernel. An interval is over them, and below six there is none."""
LEAST_CONFIDENCE, MOST_CONFIDENCE = 0.5, 0.9999
"""As in a stored verdict."""
MOST_EXACT_BOOTS = 100
"""Of each kernel, after which counts that agree are exact."""
