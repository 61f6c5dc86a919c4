# SPDX-License-Identifier: MIT
"""What a faster routine should give in the kernel, and the experiment that verifies it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from kdyno.errors import UsageError
from kdyno.labs.profile.record import Profile, read_profile
from kdyno.stats.effect import PairedEffect

FUNCTIONS = ("memcpy_orig", "memcpy", "__memcpy")
"""What memcpy is called in a kernel's symbol table."""
SUITE, VARIANT = "unixbench", "tuned"
CASES = ("fscopy-256", "fscopy-1024", "fscopy-4096", "pipe", "dhry2reg")


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


def predict(share: Share | None, ratio: PairedEffect | None) -> Prediction | None:
    """What a faster routine should give in the kernel, by Amdahl: time after ÷ time before = 1 −
    share × (1 − ratio), with ratio = time of the new routine ÷ time of the old one on the same
    copies. It holds as far as the replay resembles the kernel: caches as warm, copies as they were
    recorded. None where the share or the ratio is not known."""
    if share is None or ratio is None or ratio.ratio is None:
        return None
    after, *ends = (
        None if value is None else 1.0 - share.value * (1.0 - value)
        for value in (ratio.ratio, ratio.lo, ratio.hi)
    )
    assert after is not None
    low, high = ends
    return Prediction(after, (low, high) if low is not None and high is not None else None, share)


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
        own = sum(
            row.seconds
            for row in boot.functions
            if row.where == "kernel" and row.function in FUNCTIONS
        )
        if boot.sampled_s > 0:
            shares.append(own / boot.sampled_s)
    value = fmean(shares) if shares else 0.0
    if not 0 < value < 1:
        raise UsageError(
            f"{origin}: no time in {', '.join(FUNCTIONS)} was seen in it; give --share, or the "
            "profile of a kernel with its own memcpy"
        )
    return Share(
        value, "the kernel's own time" if profile.method == "gprof" else "all sampled time"
    )


def verifying(routine: Path, source: str, cases: Sequence[str] = ()) -> str:
    """A whole experiment file, to lie beside ``routine`` (FILE.S): it against the stock kernel.

    cases: ``CASE`` or ``SUITE/CASE``; UsageError for an empty part.
    """
    suites: dict[str, list[str]] = {}
    for each in cases or CASES:
        suite, slash, case = each.rpartition("/")
        if not case or (slash and not suite):
            raise UsageError(f"--case {each!r}: give CASE of {SUITE}, or SUITE/CASE")
        suites.setdefault(suite or SUITE, []).append(case)
    blocks = "".join(
        f"[[suite]]\nname = {json.dumps(suite)}\ncases = {json.dumps(names)}\nseconds = 0.25\n\n"
        for suite, names in suites.items()
    )
    template = Path(__file__).with_name("verify.toml").read_text("utf-8")
    return template.format(
        name=json.dumps("verify-" + routine.stem[:40]),
        source=json.dumps(source),
        variant=VARIANT,
        routine=json.dumps(routine.name),
        suites=blocks,
    )
