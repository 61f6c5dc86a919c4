# SPDX-License-Identifier: MIT
"""What today's answers are made of: verdicts and profiles of runs, and files of other verbs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Generic, Literal, TypeVar

from pydantic import Field

from kdyno.errors import UsageError
from kdyno.labs.memcpy.count import distribution
from kdyno.labs.memcpy.time import results
from kdyno.labs.profile.record import Profile, stored_profiles
from kdyno.machines.kinds import KINDS
from kdyno.reading.checked import FromTool, check_json, values
from kdyno.report import plain
from kdyno.report.html.sections.again import run_command
from kdyno.store.earlier import whole_manifest
from kdyno.store.manifest import Manifest
from kdyno.store.reading import content
from kdyno.store.run import Run
from kdyno.store.verdict import Verdict

OTHERS = "all others"
"""In a profile that was shortened: what stands for the functions that are not named."""
SURVEY, FORMS = "vectorization", "simd-forms"
_MOST_BYTES = 256 << 20


@dataclass(frozen=True)
class Source:
    """Where figures come from, in words."""

    name: str
    machine: str
    day: str
    """As 2026-11-22; empty: not known."""
    extent: str
    """How much was measured."""
    command: str = ""


@dataclass(frozen=True)
class OfRun:
    """What a run has: a verdict, profiles, or both."""

    source: Source
    baseline: str
    verdict: Verdict | None
    profiles: Mapping[str, Profile]


T = TypeVar("T")


@dataclass(frozen=True)
class OfFile(Generic[T]):
    """What a verb wrote into a file."""

    source: Source
    value: T


@dataclass(frozen=True)
class Form:
    """A job by one form of its code: nanoseconds of a call over so many bytes."""

    job: str
    form: str
    bytes: int
    ns: float


@dataclass(frozen=True)
class Side:
    """What a compiler made of a kernel's loops with one set of flags, in places of the source."""

    flags: str
    places: int
    missed: int
    reasons: Mapping[str, int]


@dataclass(frozen=True)
class Evidence:
    """All that was given. Lists have the newest first."""

    runs: Mapping[str, tuple[OfRun, ...]] = field(default_factory=dict)
    """Experiment → its runs."""
    benches: tuple[OfFile[results.Bench], ...] = ()
    copies: tuple[OfFile[distribution.Distribution], ...] = ()
    surveys: tuple[OfFile[tuple[Side, ...]], ...] = ()
    forms: tuple[OfFile[tuple[Form, ...]], ...] = ()

    @property
    def sources(self) -> tuple[Source, ...]:
        """Of all that was given, by name."""
        found = [it.source for each in self.runs.values() for it in each]
        for files in (self.benches, self.copies, self.surveys, self.forms):
            found += [it.source for it in files]
        return tuple(sorted(found, key=lambda it: (it.name, it.day)))


def collect(paths: Iterable[Path]) -> Evidence:
    """Of folders of runs and of files. UsageError names what is neither."""
    runs: dict[str, list[tuple[str, OfRun]]] = {}
    benches, copies, surveys, forms = [], [], [], []
    for path in paths:
        if path.is_dir():
            manifest, found = of_run(Run(path))
            runs.setdefault(manifest.experiment, []).append((manifest.created, found))
            continue
        data = content(path, _MOST_BYTES, "result")
        kind = _kind(data, path)
        if kind == results.KIND:
            benches.append(_bench(data, path))
        elif kind == distribution.KIND:
            copies.append(_copies(data, path))
        elif kind == SURVEY:
            surveys.append(_survey(data, path))
        else:
            forms.append(_forms(data, path))
    newest = {
        name: tuple(it for _, it in sorted(found, key=lambda pair: pair[0], reverse=True))
        for name, found in runs.items()
    }
    return Evidence(newest, tuple(benches), tuple(copies), tuple(surveys), tuple(forms))


def of_run(run: Run) -> tuple[Manifest, OfRun]:
    """The run's whole manifest, and what it says. Errors as of a run that cannot be read."""
    manifest, verdict = run.manifest(), run.verdict()
    if manifest.machine is None:
        manifest = whole_manifest(run)
    profiles = stored_profiles(run)
    kind = manifest.machine.kind if manifest.machine else "uml"
    asked = manifest.asked.metric if manifest.asked else "time"
    counted = ", counting instructions" if asked == "instructions" else ""
    machine = (KINDS[kind].label if kind in KINDS else kind) + counted
    source = Source(
        manifest.experiment,
        f"{machine}, on {_cpu(manifest)}",
        manifest.created[:10],
        _extent(manifest, verdict, profiles),
        _command(manifest, verdict is None),
    )
    return manifest, OfRun(source, manifest.baseline, verdict, profiles)


def _cpu(manifest: Manifest) -> str:
    model = plain.short(str(manifest.host.get("cpu_model", "an unknown CPU")))
    count = manifest.host.get("cpus")
    return f"{model}, {count:g} CPUs" if isinstance(count, int | float) else model


def _extent(manifest: Manifest, verdict: Verdict | None, profiles: Mapping[str, Profile]) -> str:
    parts = []
    if verdict is not None:
        how = "by turns" if manifest.interleave == "turns" else "by whole boots"
        counts = sorted(set(verdict.boots.values()))
        boots = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
        parts.append(f"{boots} boots of each kernel, {how}" if counts else how)
    if profiles:
        boots = str(min(len(it.boots) for it in profiles.values()))
        method = next(iter(profiles.values())).method
        parts.append(f"{boots} boots of each kernel under {method}")
    return "; ".join(parts)


def _command(manifest: Manifest, profiled: bool) -> str:
    file = f"experiments/{plain.short(manifest.experiment)}.toml"
    words = run_command(file, manifest.overrides, manifest.seed).partition(" --seed ")[0]
    return words.replace("kdyno run", "kdyno profile", 1) if profiled else words


def _kind(data: bytes, path: Path) -> str:
    try:
        value = values(data)
    except (ValueError, RecursionError) as problem:
        raise UsageError(f"{path}: neither a run's folder nor JSON ({problem})") from None
    kind = value.get("kind") if isinstance(value, dict) else None
    known = (results.KIND, distribution.KIND, SURVEY, FORMS)
    if kind not in known:
        raise UsageError(
            f'{path}: "kind" is {str(kind)[:60]!r}; files are taken of the kinds {", ".join(known)}'
        )
    return str(kind)


def _bench(data: bytes, path: Path) -> OfFile[results.Bench]:
    bench = results.parse_bench(data, str(path))
    source = Source(
        "memcpy bench",
        f"user space, on {plain.short(bench.cpu)}",
        bench.created[:10],
        f"{bench.blocks} blocks of every size",
        "kdyno memcpy bench" + " --paper" * (bench.plan == "paper"),
    )
    return OfFile(source, bench)


def _copies(data: bytes, path: Path) -> OfFile[distribution.Distribution]:
    copies = distribution.parse_distribution(data, str(path))
    extent = f"{copies.calls / 1e6:.1f} million copies counted"
    source = Source(
        "memcpy histogram",
        f"User Mode Linux: {plain.short(copies.source)}",
        "",
        extent,
        "kdyno memcpy histogram",
    )
    return OfFile(source, copies)


class _Places(FromTool):
    places: Annotated[int, Field(ge=0)]


class _Missed(_Places):
    reasons: dict[str, Annotated[int, Field(ge=0)]]


class _Side(FromTool):
    flags: str
    vectorized: _Places
    missed: _Missed


class _Survey(FromTool):
    version: str
    compiler: str
    sides: list[_Side]


def _survey(data: bytes, path: Path) -> OfFile[tuple[Side, ...]]:
    way = "`kdyno vectorize --json FILE` writes such files"
    file = check_json(_Survey, data, str(path), SURVEY, way)
    sides = tuple(
        Side(it.flags, it.vectorized.places, it.missed.places, it.missed.reasons)
        for it in file.sides
    )
    flags = " ".join(f"--flags {plain.short(it.flags)}" for it in sides)
    source = Source(
        "vectorize",
        f"Linux {plain.short(file.version)} for User Mode Linux, {plain.short(file.compiler)}",
        "",
        "every loop of the kernel, as the compiler tells it",
        f"kdyno vectorize {flags}",
    )
    return OfFile(source, sides)


class _Form(FromTool):
    candidate: str
    form: str
    bytes: Annotated[int, Field(gt=0)]
    ns: Annotated[float, Field(gt=0)]


class _Forms(FromTool):
    schema_: Literal[1] = Field(alias="schema")
    cpu: str
    created: str
    forms: list[_Form]


def _forms(data: bytes, path: Path) -> OfFile[tuple[Form, ...]]:
    way = "`python -m benchmarks.simd_candidates --json FILE` writes such files"
    file = check_json(_Forms, data, str(path), FORMS, way)
    source = Source(
        "simd_candidates",
        f"user space, on {plain.short(file.cpu)}",
        file.created[:10],
        "medians of repeated calls; no interval",
        "python -m benchmarks.simd_candidates",
    )
    forms = tuple(Form(it.candidate, it.form, it.bytes, it.ns) for it in file.forms)
    return OfFile(source, forms)
