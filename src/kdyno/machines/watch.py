# SPDX-License-Identifier: MIT
"""How long a guest may be silent, and how long it may live."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field


@dataclass
class Watch:
    """What ends a guest early: its deadlines, or anybody who sets ``stop``."""

    limit_s: float
    """Wall-clock seconds for the whole process, whatever happens; pauses do not count."""
    stop: str = ""
    """Kill now, for this reason."""
    began_s: float = field(default_factory=time.monotonic)
    _next_s: float = math.inf
    _paused_s: float | None = None

    def allow(self, seconds: float) -> None:
        """The guest must show the next sign of life within ``seconds`` from now."""
        self._next_s = time.monotonic() + seconds

    def due_s(self) -> float:
        """When the guest is killed for its silence or its length."""
        if self._paused_s is not None:
            return math.inf
        return min(self._next_s, self.began_s + self.limit_s)

    def pause(self) -> None:
        """Deadlines stand still from now on."""
        if self._paused_s is None:
            self._paused_s = time.monotonic()

    def resume(self) -> None:
        """They go on as far off as they were."""
        if self._paused_s is not None:
            gone_s = time.monotonic() - self._paused_s
            self._paused_s = None
            self._next_s += gone_s
            self.began_s += gone_s
