# SPDX-License-Identifier: MIT
"""An experiment as values, after the file was checked. See docs/experiment-file.md."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from kdyno.reading.mistakes import Mistakes
from kdyno.reading.position import Positions

PROGRAMS = {"32-bit": 32, "64-bit": 64}
"""What ``programs`` of a variant may say."""

NATIVE_COPIES: Mapping[str, tuple[str, ...]] = {"erms": ("fsrm",), "plain": ("fsrm", "erms")}
"""``memcpy`` of a native kernel that is told to see less of its CPU → the features that its
alternatives are not to see. It is the same image, with other words on its command line."""


@dataclass(frozen=True)
class Variant:
    """One kernel under test. Everything that may differ between two kernels is here."""

    name: str
    source: str
    """As written: ``debian:NAME``, ``path:DIR``, ``tar:FILE``, ``git:DIR_OR_URL#REF``,
    ``kernel.org:VERSION``; relative paths already resolved against the experiment's folder."""
    arch: str = "um"
    config: tuple[ConfigFragment, ...] = ()
    patches: tuple[Path, ...] = ()
    cflags: str = ""
    file_cflags: tuple[tuple[str, str], ...] = ()
    """(path of a .c file in the tree, flags) pairs, sorted by path."""
    compiler: str = "gcc"
    cmdline: str = ""
    sysctl: tuple[tuple[str, str], ...] = ()
    memcpy: str | None = None
    """Name of a routine, one of NATIVE_COPIES, or the path of a person's own file."""
    routines: tuple[tuple[str, str], ...] = ()
    """(function, routine) pairs for memmove, memset, copy_page and clear_page, sorted."""
    best: tuple[tuple[str, str], ...] = ()
    """(function, why it is this routine) pairs of those that were asked for as the best."""
    scheduler: str | None = None
    """Name of a scheduler that is loaded as a program, or the path of a person's own file.

    None: the kernel's own."""
    cpus: int | None = None
    """CPUs of its machine; None: as [machine] says."""
    program_bits: int | None = None
    """Word size of the programs that it runs; None: the kernel's own."""
    levels: tuple[tuple[str, str], ...] = ()
    """(factor, level) pairs when the variant is a cell of a cross."""

    @property
    def all_routines(self) -> dict[str, str]:
        """Function → routine, memcpy's among them."""
        return {**({"memcpy": self.memcpy} if self.memcpy else {}), **dict(self.routines)}


@dataclass(frozen=True)
class ConfigFragment:
    """Lines of a kernel configuration and where they come from, for messages."""

    origin: str
    """A fragment's file name, or the key of the experiment file that holds the line."""
    lines: tuple[str, ...]
    """Only ``CONFIG_X=value`` and ``# CONFIG_X is not set`` lines; comments removed."""


@dataclass(frozen=True)
class SuiteUse:
    """A suite of an experiment: which of its cases, and for how long each per boot."""

    name: str
    cases: tuple[str, ...]
    seconds: float = 0.5
    operations: int | None = None
    """Fixed work instead of fixed time, for profiles."""
    command: tuple[str, ...] = ()
    """Only for the suite ``run``: the command line to time."""
    figure: str | None = None
    """Only for the suite ``run``: regular expression for the figure in what the command prints."""
    unit: str = ""
    better: str = ""
    quick: bool = False
    """The cases' own settings for a first impression hold."""
    settings: tuple[tuple[str, str], ...] = ()
    """(name, value): what fills ``{name}`` in the cases' arguments."""
    levels: tuple[tuple[str, str], ...] = ()
    """(factor, level) pairs when its cases are cells of a cross."""
    family: str = ""
    """What the cases of several levels are called together; empty: the case's own name."""

    def name_in_run(self, case: str) -> str:
        """``whole@4``: a case's name with its levels, where these fill its arguments."""
        if not self.settings:
            return case
        return f"{case}@{'+'.join(level for _factor, level in self.levels)}"


@dataclass(frozen=True)
class Machine:
    kind: str = "uml"
    cpus: int = 1
    memory_bytes: int = 1 << 30
    timeout_s: float | None = None
    """Wall-clock limit per boot; None derives it from the cases' own limits."""
    accel: str = "auto"
    """How a machine that emulates runs its guests: one of ACCELS."""

    @property
    def own_clock(self) -> bool:
        """Time goes on with what is executed, whatever else the host does."""
        return self.accel == "icount"


ACCELS = ("auto", "kvm", "tcg", "icount")
METRICS = ("time", "instructions")
INTERLEAVES = ("auto", "turns", "boots")
FEWEST_LINKS, MOST_LINKS = 6, 100
"""Of each kernel. An interval is over them, and below six there is none."""


@dataclass(frozen=True)
class Measure:
    precision: float = 0.005
    """Half-width of an effect's interval, as a fraction, at which measuring stops."""
    max_boots: int = 60
    min_boots: int = 10
    max_minutes: float | None = None
    equivalent: float = 0.01
    confidence: float = 0.95
    profile: str = "none"
    seed: int | None = None
    calibrate: bool = False
    interleave: str = "auto"
    """How the variants of a block alternate: one of INTERLEAVES."""
    metric: str = "time"
    """What is compared: one of METRICS."""
    exact_boots: int = 3
    """Boots of each kernel after which counts that agree are exact."""
    insist: bool = False
    """Measure by the metric also what it does not decide; the verdict says so."""
    apart: bool = False
    """Instructions of programs and of the kernel are counted apart as well."""
    layouts: int = 0
    """Links of each kernel, its functions in orders that are drawn; 0: one, the linker's own."""


@dataclass(frozen=True)
class Experiment:
    name: str
    question: str
    baseline: str
    variants: tuple[Variant, ...]
    suites: tuple[SuiteUse, ...]
    machine: Machine = field(default_factory=Machine)
    measure: Measure = field(default_factory=Measure)
    skip_unsupported: bool = False
    """Variants whose CPU features this machine lacks are skipped with the reason, not refused."""
    path: Path | None = None
    text: str = ""
    """The file as given, for the run folder."""
    mistakes: Callable[[], Mistakes] = field(
        default=lambda: Mistakes("experiment", Positions("")), compare=False
    )
    """An empty list for what is found to be wrong later, which knows the file's lines."""

    @property
    def cpus(self) -> int:
        """CPUs that the largest of its machines has."""
        return max([self.machine.cpus, *(variant.cpus or 0 for variant in self.variants)])
