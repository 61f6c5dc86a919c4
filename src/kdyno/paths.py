# SPDX-License-Identifier: MIT
"""Where things lie: the project's own data, the cache, the runs."""

from __future__ import annotations

import os
from pathlib import Path


def data_root() -> Path:
    """Folder that holds ``guest/``, ``kernel/``, ``experiments/`` and ``published/``. In a checkout
    that is the checkout itself; in an installed wheel, a folder of the package."""
    package = Path(__file__).resolve().parent
    packed = package / "_data"
    return packed if packed.is_dir() else package.parent.parent


def _xdg(variable: str, fallback: str) -> Path:
    value = Path(os.environ.get(variable, ""))
    # The XDG specification says that a relative path is to be ignored.
    return value if value.is_absolute() else Path.home() / fallback


def cache_root() -> Path:
    """Sources, trees and images: ``$KDYNO_CACHE``, else ``$XDG_CACHE_HOME/kdyno``."""
    own = os.environ.get("KDYNO_CACHE")
    return Path(own).absolute() if own else _xdg("XDG_CACHE_HOME", ".cache") / "kdyno"


def config_root() -> Path:
    """What a person sets once: ``$XDG_CONFIG_HOME/kdyno``."""
    return _xdg("XDG_CONFIG_HOME", ".config") / "kdyno"


def state_root() -> Path:
    """What kdyno keeps of a person's own doings: ``$XDG_STATE_HOME/kdyno``."""
    return _xdg("XDG_STATE_HOME", ".local/state") / "kdyno"


def runs_root() -> Path:
    """Runs: ``$KDYNO_RUNS``, else ``$XDG_DATA_HOME/kdyno/runs``."""
    own = os.environ.get("KDYNO_RUNS")
    return Path(own).absolute() if own else _xdg("XDG_DATA_HOME", ".local/share") / "kdyno" / "runs"
