# SPDX-License-Identifier: MIT
"""What figures of a machine do not say; kept with every run and shown with every verdict."""

from __future__ import annotations

from kdyno.store.verdict import Flag

CAVEATS = {
    "uml": (
        Flag(
            kind="machine",
            text="measured under User Mode Linux: comparisons of kernel code carry over, absolute "
            "figures and the cost of entering the kernel do not",
        ),
    ),
    "host": (
        Flag(
            kind="not-rebooted",
            text="every repetition ran on one and the same boot of the host's kernel: the spread "
            "between boots is not in these intervals",
        ),
    ),
}
"""By kind of machine."""
