# SPDX-License-Identifier: MIT
"""What a run says, shown: terminal tables, Markdown, exporters (one module each)."""
