# SPDX-License-Identifier: MIT
"""``python -m kdyno``."""

import sys

from kdyno.cli.main import main

sys.exit(main())
