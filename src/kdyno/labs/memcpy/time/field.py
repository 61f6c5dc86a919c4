# SPDX-License-Identifier: MIT
"""Who takes part in a bench: the routines that this CPU has and that copy right, and the rivals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from kdyno.errors import ToolError, UsageError
from kdyno.experiment.layer import BEST
from kdyno.kernels import cpu
from kdyno.kernels.routines.best import best
from kdyno.kernels.routines.rack import Contender, kernels_own, routine_contender, standing
from kdyno.kernels.routines.routine import PLACE, Routine, find_routine, list_routines

STRING = "fsrm"
"""The routine that is nothing but rep movsb."""

Check = Callable[[Sequence[Routine]], dict[str, str]]
"""Routines → name of each that does not copy right, and what it did."""


@dataclass(frozen=True)
class Field:
    """Who is timed, and who is not and why."""

    contenders: tuple[Contender, ...]
    left_out: dict[str, str] = field(default_factory=dict)


def gather(
    names: Sequence[str],
    tree: Path | None,
    cache_root: Path,
    check: Check,
    only: Sequence[str] = (),
) -> Field:
    """The field for ``names`` (names or FILE.S; none: all of kernel/memcpy/) and the rivals.

    tree: a kernel source for memcpy_orig. only: what a plan wants, when no names are given.
    UsageError for an unknown name, or a named routine that this CPU cannot run.
    """
    left_out: dict[str, str] = {}
    routines: list[Routine] = []
    wanted = _named(names) if names else list_routines()
    for routine in wanted:
        if not names and only and routine.name not in only:
            continue
        lacking = cpu.missing(routine.requires)
        if lacking and names:
            raise UsageError(f"{routine.name}: this CPU has no {', '.join(lacking)}")
        if lacking:
            left_out[routine.name] = f"this CPU has no {', '.join(lacking)}"
        else:
            routines.append(routine)
    wrong = check(routines)
    left_out |= wrong
    found = [routine_contender(it, cache_root) for it in routines if it.name not in wrong]
    # The same two instructions twice would only be compared with themselves.
    found = [replace(it, rank="rival") if it.name == STRING else it for it in found]
    others = standing(cache_root)
    if any(it.name == STRING for it in found):
        others = [it for it in others if it.rank != "rival"]
    found += others
    if tree is not None:
        found.append(kernels_own(tree, cache_root))
    elif "orig" in only:
        raise UsageError(_NO_TREE)
    else:
        left_out["orig"] = _NO_TREE
    if only:
        chosen = {*only, *(it.name for it in found if it.name in names)}
        found = [it for it in found if it.name in chosen or it.name in {r.name for r in routines}]
    twice = {it.name for it in found if sum(it.name == other.name for other in found) > 1}
    if twice:
        raise UsageError(f"{', '.join(sorted(twice))}: two routines of one name; rename a file")
    return Field(tuple(found), left_out)


def _named(names: Sequence[str]) -> list[Routine]:
    """The routines, each once; ``best`` is the one that a variant of that name gets on this CPU."""
    plain = (best("memcpy", "um").routine if name == BEST else name for name in names)
    return [find_routine(name) for name in dict.fromkeys(plain)]


_NO_TREE = (
    "memcpy_orig is taken from a kernel source, and there is none in the cache: give --tree DIR, "
    "or build any kernel once, for example `kdyno build experiments/simd-memcpy.toml`"
)


def checked(routines: Sequence[Routine]) -> dict[str, str]:
    """Those that fail the check (checking.py), with what went wrong. Answers are kept."""
    from kdyno.kernels.routines.checking import check
    from kdyno.paths import cache_root

    found = [(it, check(it, cache_root())) for it in routines]
    return {
        routine.name: f"fails its check: {'; '.join(result.violations)}"
        for routine, result in found
        if not result.passed
    }


def tree_at_hand(cache_root: Path) -> Path | None:
    """The newest kernel source that lies unpacked in the cache; None without one."""
    found = [it for it in cache_root.glob("trees/*/tree") if (it / PLACE).is_file()]
    return max(found, key=lambda it: it.stat().st_mtime, default=None)


def require_some(field: Field) -> None:
    """ToolError where nothing would be compared."""
    if not any(it.rank == "routine" for it in field.contenders):
        why = "; ".join(f"{name}: {reason}" for name, reason in field.left_out.items())
        raise ToolError(f"no routine is left to time: {why}")
