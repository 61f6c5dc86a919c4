# SPDX-License-Identifier: MIT
"""The verbs. Each module is imported when its verb is called; options whose help must be quick
stand apart from the work (``run.py``, ``measuring.py``)."""
