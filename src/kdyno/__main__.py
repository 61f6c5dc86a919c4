# SPDX-License-Identifier: MIT
"""``python -m kdyno``."""

import sys

from kdyno.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
