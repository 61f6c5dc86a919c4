# SPDX-License-Identifier: MIT
"""Boot a kernel that counts its copies, run the cases in it, and read the counts with distrust.

A kernel with count-copies.patch leaves a file at power-off: one header, the used slots of a hash
table, and a list of the first copies, which is empty here. Each copy is one 64-bit key: from the
top 27 bits of the return address's offset in the kernel, 25 bits of size, 6 of the target and 6 of
the source address modulo 64."""

from __future__ import annotations

import itertools
import re
import struct
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path

from pydantic import ValidationError

from kdyno import whole
from kdyno.errors import ToolError, UsageError
from kdyno.experiment import loader
from kdyno.experiment.model import NAME, RUN_SUITE, Experiment, SuiteUse
from kdyno.labs.memcpy.copies import Copy, Distribution, Site, distribution
from kdyno.labs.profile.symbols import Symbols
from kdyno.machines.kinds import KINDS
from kdyno.measure.bench import Bench, plan_of
from kdyno.measure.boot import boot, samples_of
from kdyno.measure.commands import DEFAULT_SOURCE, STOCK, in_guest
from kdyno.measure.vocabulary import vocabulary
from kdyno.paths import data_root
from kdyno.reading.mistakes import meant
from kdyno.suites.catalogue import Catalogue

PATCH = "count-copies.patch"
FILE = "kdyno-copies"
"""Name of the file in the folder of the kernel's process."""

_MAGIC = b"kdyno copies 1\n\0"
_HEADER = struct.Struct("<16s8Q")
_SLOT = struct.Struct("<QQ")
_MOST_SLOTS = 1 << 20
_MOST_CALLS = 1 << 62
# What GCC appends to a function that it made a version of.
_VERSION = re.compile(r"(?:\.(?:constprop|isra|part|cold)(?:\.\d+)?)+$")


@dataclass(frozen=True)
class Counted:
    """What one boot copied while its cases ran."""

    calls: Mapping[tuple[int, Copy], int]
    """(return address, copy) → how often."""
    lost: int = 0
    """Copies that found no slot in the table: their sizes and sites are not known."""
    oversize: int = 0
    """Copies of 32 MiB and more, or called from outside the kernel: they are not in ``calls``."""
    cases: tuple[str, ...] = ()
    """suite/case of those that ran to their end."""
    failed: tuple[str, ...] = ()
    """suite/case: why, of the others. Their copies are in the counts as far as they went."""

    @property
    def total(self) -> int:
        return sum(self.calls.values())


def counting_experiment(experiment: Experiment) -> Experiment:
    """Only the baseline, counting its copies.

    Its memory routine goes: who copies what does not depend on how it is copied, and the counts
    are taken where it would be. UsageError for machines and kernels that cannot count copies."""
    if why_not := KINDS[experiment.machine.kind].can.change:
        raise UsageError(
            f'{experiment.name}: {why_not}; copies are counted in a kernel of kind = "uml"'
        )
    (variant,) = (each for each in experiment.variants if each.name == experiment.baseline)
    if variant.arch != "um":
        raise UsageError(
            f"variant {variant.name!r} has arch {variant.arch!r}: copies are counted in 64-bit "
            'User Mode Linux, arch = "um"'
        )
    patches = (*variant.patches, data_root() / "kernel" / "patches" / PATCH)
    counting = replace(variant, patches=tuple(dict.fromkeys(patches)), memcpy=None)
    measure = replace(experiment.measure, calibrate=False, profile="none")
    return replace(experiment, variants=(counting,), measure=measure)


def in_stock(uses: Sequence[SuiteUse], suites: Catalogue) -> Experiment:
    keys = {"source": DEFAULT_SOURCE, "config": ["bench"]}
    kernel = loader.variant(STOCK, keys, "histogram", Path.cwd(), vocabulary(suites))
    return Experiment("histogram", "What is copied?", STOCK, (kernel,), tuple(uses))


def of_cases(patterns: Sequence[str], suites: Catalogue) -> Experiment:
    """Cases of the catalogue: ``suite/case``, with patterns. UsageError for one that means none."""
    names = [f"{suite.name}/{case.name}" for suite in suites.values() for case in suite.cases]
    uses: dict[str, dict[str, None]] = {}
    for pattern in patterns:
        chosen = [name for name in names if fnmatchcase(name, pattern)]
        if not chosen:
            hint = meant(pattern, names, " Did you mean {}?")
            raise UsageError(
                f"--case {pattern}: no such case.{hint} `kdyno list cases` shows them all; "
                "write SUITE/CASE, patterns are allowed"
            )
        for name in chosen:
            suite, _, case = name.partition("/")
            uses.setdefault(suite, {})[case] = None
    return in_stock([SuiteUse(suite, tuple(cases)) for suite, cases in uses.items()], suites)


def of_command(command: tuple[str, ...], folder: Path, suites: Catalogue) -> Experiment:
    """Any command line, run in ``folder``; UsageError where a guest would not find it."""
    program = Path(command[0]).name
    name = program if NAME.fullmatch(program) else "command"
    use = SuiteUse(RUN_SUITE, (name,), command=in_guest(command, folder))
    return in_stock([use], suites)


def count(bench: Bench, began: Callable[[str, int, int], None]) -> Counted:
    """Boot once and count. ToolError when the guest died or left nothing that can be believed.

    began: called where a case begins, with its name, its number and how many there are."""
    plan = plan_of(bench, bench.experiment.baseline)
    numbers = itertools.count(1)

    def listener(case: str) -> None:
        began(case, next(numbers), len(plan.job.cases))

    with whole.scratch("copies") as folder:
        file = folder / FILE
        counting = replace(plan, left=((FILE, file),))
        outcome = boot(bench, counting, listener)
        content = file.read_bytes() if file.is_file() else b""
    if outcome.host.status != "ok":
        raise ToolError(
            f"the counting kernel failed ({outcome.host.reason}): {outcome.host.text}\n"
            f"{outcome.host.console_tail}"
        )
    cases, failed = [], []
    for sample in samples_of(bench.cases, outcome.transcript, bench.equipment.lacking):
        case = f"{sample.suite}/{sample.case}"
        if sample.status == "ok":
            cases.append(case)
        else:
            failed.append(f"{case}: {sample.text}")
    if failed and not cases:
        raise ToolError(f"not one case ran: {'; '.join(failed)}")
    return replace(read_dump(content), cases=tuple(cases), failed=tuple(failed))


def read_dump(content: bytes) -> Counted:
    """The counts in ``content``; ToolError with what is wrong when they cannot be believed."""
    if not content:
        raise ToolError("the kernel left no counts: it did not reach its power-off")
    if len(content) < _HEADER.size:
        raise _unbelievable("they end within the header")
    magic, base, slots, lost, oversize, *listed, _spans, check = _HEADER.unpack_from(content)
    if magic != _MAGIC:
        raise _unbelievable("they begin with something else")
    if slots > _MOST_SLOTS or any(listed):
        raise _unbelievable(f"{slots} slots and a list of {max(listed)} are more than there can be")
    size = _HEADER.size + slots * _SLOT.size
    if len(content) != size:
        raise _unbelievable(f"{len(content)} bytes are there, and {size} were announced")
    calls: dict[tuple[int, Copy], int] = {}
    total = 0
    for key, number in _SLOT.iter_unpack(content[_HEADER.size :]):
        # A slot that was taken in the last moment may not have been counted up yet.
        if not key or number > _MOST_CALLS:
            raise _unbelievable(f"a slot says {number} calls of {key:#x}")
        copy = base + (key >> 37), Copy(key >> 12 & (1 << 25) - 1, key >> 6 & 63, key & 63)
        if copy in calls:
            raise _unbelievable(f"{key:#x} is there twice")
        total += number
        if number:
            calls[copy] = number
    if total % (1 << 64) != check:
        raise _unbelievable(f"the slots add up to {total}, and the sum is given as {check}")
    return Counted(calls, lost, oversize)


def _unbelievable(why: str) -> ToolError:
    return ToolError(f"the counts that the kernel left make no sense: {why}")


def call_site(symbols: Symbols, address: int) -> str:
    """The function that a return address lies in."""
    # A call may be the last instruction of a function: the address before belongs to it for sure.
    return _VERSION.sub("", symbols.name(address - 1) or "unknown")


def distribution_of(counted: Counted, source: str, symbols: Symbols) -> Distribution:
    """ToolError where the counts are more than a distribution can hold."""
    cells: Counter[tuple[int, int, int]] = Counter()
    calls: Counter[str] = Counter()
    volume: Counter[str] = Counter()
    for (address, copy), number in counted.calls.items():
        site = call_site(symbols, address)
        cells[copy] += number
        calls[site] += number
        volume[site] += number * copy.size
    rows = (Site(site=name, calls=calls[name], bytes=volume[name]) for name in calls)
    try:
        return distribution(cells, source, rows)
    except ValidationError:
        raise _unbelievable("they add up to more than 2^62 calls or bytes") from None


def notes(counted: Counted) -> list[str]:
    """What is not in the counts."""
    lines = [f"did not end: {why}; what was copied until then is counted" for why in counted.failed]
    if counted.lost:
        share = 100 * counted.lost / (counted.total + counted.lost)
        lines.append(f"{counted.lost} copies ({share:.2g} %) found the table full: not in here")
    if counted.oversize:
        lines.append(f"{counted.oversize} copies of 32 MiB or more, or from outside: not in here")
    return [*lines, "Only calls of memcpy are counted, not inlined copies, memmove or memset."]
