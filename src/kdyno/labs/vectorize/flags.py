# SPDX-License-Identifier: MIT
"""The sets of compiler flags that a survey compares."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from kdyno.errors import UsageError
from kdyno.reading.mistakes import meant


@dataclass(frozen=True)
class FlagSet:
    """Flags that come after the kernel's own, which forbid vector registers."""

    name: str
    cflags: str
    needs: tuple[str, ...] = ()
    """CPU features, as in /proc/cpuinfo, without which such a kernel dies at its first vector."""


_SSE2 = "-O3 -msse -msse2"
_AVX2 = f"{_SSE2} -mavx -mavx2"
_AVX512 = f"{_AVX2} -mavx512f -mavx512bw -mavx512dq -mavx512vl -mprefer-vector-width=512"
KNOWN: Mapping[str, FlagSet] = MappingProxyType(
    {
        each.name: each
        for each in (
            FlagSet("o3", "-O3"),
            FlagSet("sse2", _SSE2, ("sse2",)),
            FlagSet("avx2", _AVX2, ("avx2",)),
            FlagSet("avx512", _AVX512, ("avx512f", "avx512bw", "avx512dq", "avx512vl")),
        )
    }
)
DEFAULT = ("avx2",)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,30}")


def flag_set(text: str) -> FlagSet:
    """``avx2``, or ``NAME=FLAGS`` for flags of one's own. UsageError says what is allowed."""
    name, equals, cflags = text.partition("=")
    if not equals:
        if text in KNOWN:
            return KNOWN[text]
        hint = meant(text, KNOWN, " Did you mean {}?")
        raise UsageError(
            f"--flags {text!r}: no such set of flags.{hint} Known: {', '.join(KNOWN)}; "
            'or NAME="FLAGS", such as mine="-O2 -ftree-vectorize -msse2"'
        )
    if not _NAME.fullmatch(name) or name in KNOWN:
        raise UsageError(
            f"--flags {text!r}: {name!r} is {'taken' if name in KNOWN else 'no name'}; "
            'write NAME="FLAGS" with a short name of your own'
        )
    words = cflags.split()
    if not words or not all(word.startswith("-") and _FLAG.fullmatch(word) for word in words):
        raise UsageError(
            f'--flags {text!r}: {cflags!r} is not a list of compiler flags, such as "-O3 -msse2"'
        )
    return FlagSet(name, " ".join(words))


_FLAG = re.compile(r"[A-Za-z0-9_=+,./:-]+")


def flag_sets(texts: tuple[str, ...]) -> tuple[FlagSet, ...]:
    """All of them, none twice."""
    found = tuple(flag_set(text) for text in texts or DEFAULT)
    names = [each.name for each in found]
    if len(set(names)) < len(names):
        raise UsageError(f"--flags: {', '.join(names)}: each set once")
    return found
