# SPDX-License-Identifier: MIT
"""What a faster routine should give in the kernel: the share of time that it has, and Amdahl.

time after ÷ time before = 1 − share × (1 − ratio), with ratio = time of the new routine ÷ time of
the old one on the same copies. It holds as far as the replay resembles the kernel: caches as warm,
copies as they were recorded.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from kdyno.errors import UsageError
from kdyno.labs.profile.record import Profile, read_profile
from kdyno.stats.effect import PairedEffect

FUNCTIONS = ("memcpy_orig", "memcpy", "__memcpy")
"""What memcpy is called in a kernel's symbol table."""


@dataclass(frozen=True)
class Share:
    """Part of the time that copying takes, 0 to 1, and of which time."""

    value: float
    of: str


@dataclass(frozen=True)
class Prediction:
    """Time after ÷ time before, below 1 is faster; ``ends`` from the interval of the ratio."""

    ratio: float
    ends: tuple[float, float] | None
    share: Share

    @property
    def bound(self) -> float:
        """The same for a memcpy that costs nothing."""
        return 1.0 - self.share.value


def predict(share: Share, ratio: PairedEffect) -> Prediction | None:
    """None where the ratio of the routines is not known."""
    if ratio.ratio is None:
        return None
    ends = None
    if ratio.lo is not None and ratio.hi is not None:
        ends = (_after(share.value, ratio.lo), _after(share.value, ratio.hi))
    return Prediction(_after(share.value, ratio.ratio), ends, share)


def _after(share: float, ratio: float) -> float:
    return 1.0 - share * (1.0 - ratio)


def given_share(text: str) -> Share:
    """A share as written: ``0.35`` or ``35%``. UsageError outside 0 … 1."""
    try:
        value = float(text.strip().removesuffix("%")) / (100 if "%" in text else 1)
    except ValueError:
        value = -1.0
    if not 0 < value < 1:
        raise UsageError(f'--share {text!r}: give a share between 0 and 1, such as 0.35 or "35%"')
    return Share(value, "the time that was given")


def profiled_share(path: Path) -> Share:
    """memcpy's share in a profile. UsageError where no function of that name was seen."""
    return share_of(read_profile(path), str(path))


def share_of(profile: Profile, origin: str) -> Share:
    """Mean over boots of memcpy's seconds ÷ all seconds that the profile knows."""
    shares = []
    for boot in profile.boots:
        whole = boot.sampled_s
        own = sum(
            it.seconds for it in boot.functions if it.where == "kernel" and it.function in FUNCTIONS
        )
        if whole > 0:
            shares.append(own / whole)
    value = fmean(shares) if shares else 0.0
    if not 0 < value < 1:
        raise UsageError(
            f"{origin}: no time in {', '.join(FUNCTIONS)} was seen in it; give --share, or the "
            "profile of a kernel with its own memcpy"
        )
    of = "the kernel's own time" if profile.method == "gprof" else "all sampled time"
    return Share(value, of)
