# SPDX-License-Identifier: MIT
"""The words that an experiment file may use, given by the rooms that own them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from kdyno.errors import UsageError

RUN_SUITE = "run"
"""The suite that times a command line of the user's; always known."""


def _no_best(function: str, _arch: str) -> tuple[str, str]:
    raise UsageError(f"no table says which {function} is best")


@dataclass(frozen=True)
class Vocabulary:
    """What exists in this installation of kdyno."""

    suites: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Suite → its cases, in the suite's order."""
    settings: Mapping[str, Mapping[str, tuple[str, ...]]] = field(default_factory=dict)
    """Suite → case → the ``{name}``s that its arguments leave to a factor."""
    routines: tuple[str, ...] = ()
    """Names of memory routines that ``memcpy`` may ask for."""
    function_routines: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Function other than memcpy → names of its routines, which ``routines`` may ask for."""
    schedulers: tuple[str, ...] = ()
    """Names that ``scheduler`` may ask for, beside the kernel's own."""
    runs_here: Callable[[str], bool] = lambda _routine: True
    """Whether this machine's CPU can run a routine; ``memset-avx2`` is avx2 of memset."""
    best: Callable[[str, str], tuple[str, str]] = _no_best
    """(function, architecture) → the routine that is best on this machine's CPU, and why;
    UsageError where there is none."""
    fragment_dirs: tuple[Path, ...] = ()
    """Where ``NAME.config`` is looked up after the experiment's own folder."""
    patch_dirs: tuple[Path, ...] = ()
    """Where a patch is looked up after the experiment's own folder."""
    machines: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: {"uml": ("um", "um32")})
    """Kind of machine → architectures that it boots, its default first. None: it boots nothing,
    and its one variant is the kernel that runs."""
    source_kinds: tuple[str, ...] = ("debian", "path", "tar", "git", "kernel.org")
    check_source: Callable[[str], object] | None = None
    """Called with each source, paths resolved; raises UsageError for one that cannot be."""

    @property
    def archs(self) -> tuple[str, ...]:
        """Of all machines."""
        return tuple(dict.fromkeys(arch for archs in self.machines.values() for arch in archs))
