# SPDX-License-Identifier: MIT
"""kdyno: a dynamometer for kernels."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

__version__ = "0.1.0"


def deferred(place: str) -> Callable[..., Any]:
    """The function or class at ``place``, MODULE:NAME, whose module is imported when it is called.
    The one way to load late: modules of verbs, the work of a verb whose options are declared apart,
    and what a run needs only after its last boot."""
    module, _, name = place.partition(":")

    def call(*words: Any, **more: Any) -> Any:
        return getattr(import_module(module), name)(*words, **more)

    return call
