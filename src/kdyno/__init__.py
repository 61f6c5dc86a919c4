# SPDX-License-Identifier: MIT
"""kdyno: a dynamometer for kernels."""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import import_module
from typing import Any

__version__ = "0.1.0"

# Read by numpy when it is loaded. Its threads wait for each other in a loop: beside other work a
# verdict took ten times the CPU's time, and a guest may be timed right after it.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def deferred(place: str) -> Callable[..., Any]:
    """The function or class at ``place``, MODULE:NAME, whose module is imported when it is called.
    The one way to load late: modules of verbs, the work of a verb whose options are declared apart,
    and what a run needs only after its last boot."""
    module, _, name = place.partition(":")

    def call(*words: Any, **more: Any) -> Any:
        return getattr(import_module(module), name)(*words, **more)

    return call
