# SPDX-License-Identifier: MIT
"""From a checked experiment to what all its boots have in common: what is asked is possible, what
its cases need beside a kernel is there, the machine is ready."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress
from pathlib import Path

from kdyno import deferred, whole
from kdyno.command import stream
from kdyno.errors import ToolError, UsageError
from kdyno.experiment.model import Box, Experiment, Variant, userland_of
from kdyno.kernels.compiler import identify
from kdyno.kernels.image import Image
from kdyno.kernels.source import Progress
from kdyno.machines.cpus import Placement
from kdyno.machines.guest import guest_program, programs_folder
from kdyno.machines.kinds import KINDS
from kdyno.machines.machine import Machine, Method, Plan, Setup, Userland
from kdyno.machines.process import ENVIRONMENT
from kdyno.measure.builder import Recipes
from kdyno.reading.mistakes import Mistakes
from kdyno.sandbox import PREPARE, Sandbox, hand_over, named
from kdyno.store.manifest import CaseInfo, work_digest
from kdyno.store.verdict import Flag
from kdyno.suites.catalogue import Case, Catalogue, by_counter, counted, in_words, why_uncounted
from kdyno.suites.job import OF_THE_HOST, CaseJob, Job, cases_of, jobs_of

_userland: Callable[..., Userland] = deferred("kdyno.machines.userland:userland")
_check_userland = deferred("kdyno.machines.userland:check_cases")
COPY_SUFFIX = ".copy"
"""Name of the baseline's identical copy: the baseline's name and this."""
MOST_SUITES = 1000
COUNT_S = 0.02
"""Of a case, by a clock of one instruction a nanosecond: 20 million of them."""
PARTS = 400
"""As COUNTED_PARTS in the guest's harness.c, which takes the reading of the clock off each. Of
parts with 50,000 instructions few have a tick (one in 10 million, or 1), or a list's refill."""
_TICKED = 1 / 3
"""Share of parts with a tick beyond which most may agree in one and not in none."""
_HZ = re.compile(r"^CONFIG_HZ=(\d+)$", re.MULTILINE)
_COPIES = (
    "a string instruction counts once for each byte that it moves, and a vector instruction once "
    "for 64 of them"
)
_CPUS = (
    "a count is of one CPU; several run one after the other then, and what they cost each other is "
    "time"
)
_MOST_NAMED = 6
_PROGRAMS = "{programs}/"


@dataclass(frozen=True)
class Equipment:
    """What the cases of a run need beside a kernel; the same for every boot of a run."""

    lacking: Mapping[str, str] = field(default_factory=dict)
    """suite/case → why it cannot run on this machine."""
    shared: tuple[tuple[Path, str], ...] = ()
    """(folder, name): what a machine shows its cases, read-only."""
    disk_bytes: int = 0
    disk_parent: Path = Path("/var/tmp")


@dataclass(frozen=True)
class Bench:
    """What every boot of a run has in common."""

    experiment: Experiment
    machine: Machine
    variants: Mapping[str, Variant]
    """By the name it has in the run; the baseline's copy stands here as well."""
    cases: tuple[Case, ...]
    jobs: tuple[CaseJob, ...]
    """As ``cases``, in the same order."""
    placement: Placement
    equipment: Equipment = field(default_factory=Equipment)
    images: Mapping[str, Image] = field(default_factory=dict)
    """By variant, where kernels were built."""

    @property
    def counts(self) -> bool:
        """What is executed is counted exactly."""
        return metric_of(self.experiment).metric != "time"

    @property
    def undisturbed(self) -> bool:
        """What else the host does changes nothing."""
        # There time goes on with what is executed.
        return self.counts or self.experiment.machine.accel == "icount"

    @property
    def digests(self) -> dict[str, str]:
        """Variant → digest of the kernel that it boots."""
        return {name: self.machine.identity(name) for name in self.variants}

    @property
    def runnable_cases(self) -> list[tuple[Case, CaseJob]]:
        """Those that can run on this machine, with their jobs."""
        every = zip(self.cases, self.jobs, strict=True)
        return [(case, job) for case, job in every if _name(case) not in self.equipment.lacking]

    @property
    def runnable(self) -> tuple[CaseJob, ...]:
        return tuple(job for _, job in self.runnable_cases)

    @property
    def infos(self) -> tuple[CaseInfo, ...]:
        return tuple(info(case, job) for case, job in zip(self.cases, self.jobs, strict=True))

    def caveats(self) -> tuple[Flag, ...]:
        """What its figures do not say. After the machine was probed."""
        twins = same_kernels(self.images, self.experiment.baseline)
        return (*self.machine.caveats(), *flags_of(self.experiment, self.cases), *twins)

    def without(self, settled: Collection[tuple[str, str]]) -> Bench:
        """The same less the cases that need no more boots, by (suite, case)."""
        kept = [(case.suite, case.name) not in settled for case in self.cases]
        cases, jobs = tuple(compress(self.cases, kept)), tuple(compress(self.jobs, kept))
        return replace(self, cases=cases, jobs=jobs)


def _name(case: Case) -> str:
    return f"{case.suite}/{case.name}"


def info(case: Case, job: CaseJob | None = None) -> CaseInfo:
    """What the manifest says of a case, and of its work."""
    same = ("suite", "unit", "better", "scale", "control", "of")
    return CaseInfo(
        case=case.name,
        **{name: getattr(case, name) for name in same},
        levels=dict(case.levels),
        seconds=job.seconds if job else None,
        operations=job.operations if job else None,
        work=work_digest(job.bench, job.operations, job.args) if job else "",
    )


def plan_of(
    bench: Bench,
    name: str,
    cases: tuple[CaseJob, ...] | None = None,
    *,
    turns: bool = False,
    draw: int = 0,
    layout: int = 0,
    block: int = 0,
) -> Plan:
    """The start of variant ``name`` with these cases, or with all that can run."""
    chosen = bench.runnable if cases is None else cases
    method = metric_of(bench.experiment)
    return Plan(
        variant=name,
        job=Job(chosen, bench.variants[name].sysctl, turns, method.counters, method.counter),
        shared=bench.equipment.shared,
        disk_bytes=bench.equipment.disk_bytes,
        disk_parent=bench.equipment.disk_parent,
        draw=draw,
        layout=layout,
        block=block,
    )


# What the machine cannot do, and what a count of instructions does not decide.


def metric_of(experiment: Experiment) -> Method:
    """How it wants its figures, for the machine."""
    measure, can = experiment.measure, KINDS[experiment.machine.kind].can
    # The CPU's own counters, where nothing counts exactly.
    counter = measure.metric if measure.metric != "time" and can.count and not can.counters else ""
    return Method(
        "time" if counter else measure.metric,
        experiment.machine.accel,
        measure.apart,
        experiment.machine.userland,
        counters=measure.counters,
        counter=counter,
    )


def check_machine(experiment: Experiment, cases: Sequence[Case] = ()) -> None:
    """UsageError or ToolError where the machine cannot measure what is asked, or where the metric
    does not decide it and nobody insists."""
    kind = KINDS[experiment.machine.kind]
    if experiment.measure.layouts and not kind.builds:
        raise UsageError(
            f"[layout] (--layouts) links kernels that kdyno builds; on {kind.label} it builds none"
        )
    mistakes, machine = experiment.mistakes(), experiment.machine
    key = "hosts" if machine.hosts else "host"
    named = machine.host or machine.hosts
    if kind.remote and not named:
        mistakes.add(("machine", "kind"), f"{kind.label} needs host: its name, as ssh knows it")
    elif machine.host and machine.hosts:
        mistakes.add(("machine", "hosts"), "host is one machine and hosts are several: leave one")
    elif named and not kind.remote:
        mistakes.add(("machine", key), f'{key} goes with kind = "box"')
    elif experiment.box != Box() and not kind.remote:
        mistakes.add(("box",), '[box] goes with [machine] kind = "box"')
    if experiment.measure.interleave == "turns" and kind.can.turns:
        mistakes.add(("measure", "interleave"), f'"turns" cannot be: {kind.can.turns}')
    if kind.remote:
        _check_elsewhere(experiment, mistakes)
    mistakes.raise_any()
    kind.check(metric_of(experiment))
    refuse_undecided(experiment, cases)


def _check_elsewhere(experiment: Experiment, mistakes: Mistakes) -> None:
    """What guests of this machine are given, and a machine elsewhere would not notice."""
    if experiment.measure.layouts:
        what = "several links of each kernel ([layout], --layouts) are booted as guests alone: "
        mistakes.add(("layout",), f"{what}leave it out")
    if mistakes.positions.has(("machine", "memory")):
        what = "a box has its own memory: leave it out; mem=SIZE in cmdline gives a kernel less"
        mistakes.add(("machine", "memory"), what)
    for variant in experiment.variants:
        for given, what in (
            (variant.scheduler, "scheduler is loaded by a guest's first process: leave it out"),
            (variant.program_bits == 32, 'programs = "32-bit": a box runs its own: leave it out'),
            (variant.best, '"best" is a routine for the CPU of this machine: name one'),
        ):
            if given:
                mistakes.add(("variant", variant.name), f'{what}, or take kind = "qemu"')


def refuse_undecided(experiment: Experiment, cases: Sequence[Case]) -> None:
    """UsageError with every reason, unless the experiment insists."""
    if not experiment.measure.insist and (reasons := _undecided(experiment, cases)):
        raise UsageError(
            f'[measure] metric = "{experiment.measure.metric}" does not decide '
            f'{"; nor ".join(reasons)}. metric = "time" does; --case and cases = [...] leave cases '
            "out; [measure] insist = true counts all the same, and the verdict says so"
        )


def flags_of(experiment: Experiment, cases: Sequence[Case]) -> tuple[Flag, ...]:
    """For the verdict, where somebody insists."""
    text = "counted as was asked for, and decides nothing: "
    return tuple(Flag(kind="not-decided", text=text + why) for why in _undecided(experiment, cases))


def _undecided(experiment: Experiment, cases: Sequence[Case]) -> list[str]:
    """What is asked and the experiment's metric does not decide, with the reasons."""
    metric = metric_of(experiment).metric
    if metric == "time":
        return []
    names: dict[str, list[str]] = {}
    if experiment.cpus > 1:
        names[_CPUS] = [f"cpus = {experiment.cpus}"]
    routines = {(variant.memcpy, variant.routines) for variant in experiment.variants}
    if metric == "instructions" and len(routines) > 1:
        names[_COPIES] = ["memory routines"]
    for case in cases:
        if why := why_uncounted(case):
            names.setdefault(why, []).append(_name(case))
    return [
        ", ".join(own[:_MOST_NAMED])
        + (f" and {len(own) - _MOST_NAMED} more" if len(own) > _MOST_NAMED else "")
        + f": {why}"
        for why, own in names.items()
    ]


def same_kernels(images: Mapping[str, Image], baseline: str) -> tuple[Flag, ...]:
    """Kernels that were to differ from the baseline in what is compiled, and do not."""
    first = images.get(baseline)
    names = ", ".join(
        name
        for name, image in images.items()
        if first and image.digest != first.digest and image.content == first.content
    )
    text = f"the same kernel as {baseline}, byte for byte: nothing that is compiled differs"
    return (Flag(kind="same-kernel", text=f"{names}: {text}"),) if names else ()


def ticks_of(images: Mapping[str, Image], jobs: Sequence[CaseJob]) -> tuple[Flag, ...]:
    """Kernels whose ticks come so often that counted parts without any are few, in these jobs: one
    long operation is a part of its own."""
    matches = {
        name: _HZ.search(image.config.read_text(encoding="utf-8")) for name, image in images.items()
    }
    hertz = {name: int(match[1]) for name, match in matches.items() if match}
    most = max(hertz.values(), default=0)
    often = ", ".join(
        job.case
        for job in jobs
        if job.operations and most * COUNT_S / min(PARTS, job.operations) > _TICKED
    )
    names = ", ".join(name for name, hz in hertz.items() if hz == most)
    text = (
        f"{often}: one operation is so long that most have a tick of {names} (HZ = {most}), so a "
        "count is of both, and may be of one tick more or less"
    )
    return (Flag(kind="ticks", text=text),) if often else ()


# What the cases need beside a kernel: programs, a kernel source, a disk.


def check_cases(
    experiment: Experiment, suites: Catalogue, cache: Path, recipes: Recipes
) -> tuple[str, ...]:
    """Cases that cannot run on this machine, and why: a run leaves them out. UsageError for a
    command of the user's whose program is not there, ToolError when not one case can run."""
    if experiment.machine.userland:
        _check_word_sizes(experiment, suites)
        _check_userland(cases_of(experiment, suites))
        return ()
    mistakes, path = experiment.mistakes(), ENVIRONMENT["PATH"]
    root = None if KINDS[experiment.machine.kind].remote else Path("/")
    commands = list(dict.fromkeys(use.command for use in experiment.suites if use.command))
    keys = [("suite", index, "command") for index in range(MOST_SUITES)]
    given = [key for key in keys if mistakes.positions.has(key)]
    for (program, *_), key in zip(commands, given or keys, strict=False):
        if root and not {"/", "{"} & set(program) and shutil.which(program, path=path) is None:
            mistakes.add(key, f"no program {program!r} in {path}, where a case looks for it")
    mistakes.raise_any()
    if root:
        _check_word_sizes(experiment, suites)
    # A source that is not fetched yet will be.
    source = any(variant.source for variant in experiment.variants)
    tree = tree_of(experiment, recipes) or (Path("/") if source else None)
    programs = programs_folder(guest_program(cache, 64))
    lacking = _lacking(cases_of(experiment, suites), programs, tree, root)
    return tuple(f"{name} cannot run here: {why}" for name, why in lacking.items())


def _check_word_sizes(experiment: Experiment, suites: Catalogue) -> None:
    """UsageError where cases would run programs of another size than a variant asks for: kdyno's
    own come in both, those of this machine and of a userland in one."""
    userland = experiment.machine.userland
    bits = userland_of(userland)[-1] if userland else 64
    others = [own.name for own in experiment.variants if own.program_bits not in (None, bits)]
    starting = [job.case for job in jobs_of(experiment, suites) if job.bench in OF_THE_HOST]
    if others and starting:
        raise UsageError(
            f"programs of {', '.join(others)}: {', '.join(starting)} would start programs of "
            f"{bits} bits all the same; [machine] userland has others"
        )


def tree_of(experiment: Experiment, recipes: Recipes) -> Path | None:
    """The baseline's source, which cases that compile a kernel compile in every variant."""
    recipe = recipes.of.get(experiment.baseline)
    return recipe.tree.path if recipe is not None else None


def equip(
    cases: Sequence[Case],
    program: Path,
    tree: Path | None,
    cache: Path,
    places: Mapping[str, str] | None,
    notify: Callable[[str], None],
    root: Path | None = Path("/"),
) -> Equipment:
    """Look everything up, and prepare what is to be prepared once. program: the guest program.
    root: whose programs its cases start; None: another machine's, where nothing can be looked up.
    tree: a kernel source, if any. places: where the machine shows its cases what they ask for; None
    where that is not the same in every boot, and then every boot prepares for itself. ToolError
    when not one case can run."""
    programs = programs_folder(program)
    lacking = _lacking(cases, programs, tree, root)
    words = (word for case in cases for word in (*case.program, *case.prepare))
    used = programs.is_dir() and any("{programs}" in word for word in words)
    shared = [(programs, "programs")] if used else []
    if tree is not None and any(case.tree for case in cases):
        shared.append((tree, "tree"))
    runnable = [case for case in cases if _name(case) not in lacking]
    first = next((case for case in runnable if case.prepare), None)
    if first is not None and places is not None:
        shared.append((_prepared(first, tuple(shared), places, cache, notify), "prepared"))
    disk_bytes = max((case.disk_bytes for case in runnable), default=0)
    return Equipment(lacking, tuple(shared), disk_bytes, cache / "disks")


def _lacking(
    cases: Sequence[Case], programs: Path, tree: Path | None, root: Path | None
) -> dict[str, str]:
    """suite/case → why it cannot run on this machine. ToolError when not one can."""
    reasons: dict[str, str] = {}
    for case in cases:
        needs = [need for need in case.needs if not _exists(need, programs, root)]
        if needs:
            names = ", ".join(each.removeprefix(_PROGRAMS).replace("|", " or ") for each in needs)
            how = f": apt-get install {case.install}" if case.install else ""
            be = "is" if len(needs) == 1 else "are"
            reasons[_name(case)] = f"{names} {be} not installed{how}"
        elif case.tree and tree is None:
            source = '[kernel] source = "debian:linux-source-7.3"'
            reasons[_name(case)] = f"it compiles a kernel source: give {source}"
    if cases and all(_name(case) in reasons for case in cases):
        raise ToolError(f"no case can run here: {'; '.join(dict.fromkeys(reasons.values()))}")
    return reasons


def _exists(need: str, programs: Path, root: Path | None) -> bool:
    if need.startswith(_PROGRAMS):
        return (programs / need.removeprefix(_PROGRAMS)).is_file()
    if root is None:
        return True
    # apache2|httpd: distributions disagree about the name, and one is enough.
    # A link may lead elsewhere on this machine than in its own root.
    folders = [root / folder[1:] for folder in ENVIRONMENT["PATH"].split(":")]
    return any(os.path.lexists(folder / name) for folder in folders for name in need.split("|"))


def _prepared(
    case: Case,
    shared: tuple[tuple[Path, str], ...],
    places: Mapping[str, str],
    cache: Path,
    notify: Callable[[str], None],
) -> Path:
    """The folder that the case's ``prepare`` command filled, made now or found in the cache. It
    runs in the sandbox with everything at the paths that the boots will see it at: what a build
    leaves behind knows its own paths. Its log lies beside the folder. ToolError with its last lines
    when it fails."""
    command = in_words(case.prepare, places)
    # The folders are named by a digest of what is in them, so their paths say enough.
    compilers = (need for need in case.needs if need in ("cc", "gcc", "clang"))
    parts = [*command, *(f"{name}={path}" for path, name in shared)]
    parts += [identify(name).version for name in compilers]
    folder = cache / "prepared" / hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]
    with whole.locked(folder.parent / ".lock"):
        if folder.is_dir():
            return folder
        notify(f"preparing {case.suite} once")
        with whole.folder(folder) as aside:
            hand_over(aside, PREPARE)
            argv = Sandbox(
                PREPARE,
                read_only=(*named(command), *((path, places[name]) for path, name in shared)),
                writable=((aside, places["prepared"]),),
            ).argv(list(command))
            lines: list[str] = []
            log = folder.parent / f"{folder.name}.log"
            if stream(argv, log=log, line=lines.append, env=ENVIRONMENT) != 0:
                last = " / ".join(lines[-4:])
                raise ToolError(f"{case.suite}: preparing it failed: {last}. All of it: {log}")
    return folder


def bench_of(
    experiment: Experiment,
    suites: Catalogue,
    images: Mapping[str, Image],
    tree: Path | None,
    cache: Path,
    notify: Callable[[str], None],
    fetching: Progress = lambda _text, _part: None,
) -> Bench:
    """Ready to boot. The baseline's copy is added where it is to be booted. images: of every
    variant that was built; empty for a machine that boots nothing."""
    kind = KINDS[experiment.machine.kind]
    variants = {
        variant.name: variant
        for variant in experiment.variants
        if variant.name in images or not kind.builds
    }
    images = dict(images)
    if experiment.measure.calibrate:
        baseline, count = experiment.baseline, experiment.measure.layouts
        copy = baseline + COPY_SUFFIX
        variants[copy] = variants[baseline]
        if kind.builds:
            image = images[baseline]
            images[baseline] = replace(image, links=image.links[:count])
            images[copy] = replace(image, links=image.links[count:])
    placement = kind.place(experiment.cpus)
    cases = cases_of(experiment, suites)
    lent: Userland | None = None
    if request := experiment.machine.userland:
        lent = _userland(request, cases, cache, fetching)
    own, method = experiment.machine, metric_of(experiment)
    machine = kind.make(
        Setup(
            variants=variants,
            images=images,
            placement=placement,
            memory_bytes=own.memory_bytes,
            timeout_s=own.timeout_s,
            cpus=own.cpus,
            cache=cache,
            method=method,
            userland=lent,
            hosts=own.all_hosts,
            box=experiment.box,
        )
    )
    if method.metric != "time":
        cases = tuple(map(counted, cases))
    elif method.counter:
        cases = tuple(by_counter(case, method.counter) for case in cases)
    return Bench(
        experiment=experiment,
        machine=machine,
        variants=variants,
        cases=cases,
        jobs=jobs_of(experiment, suites),
        placement=placement,
        equipment=equip(
            cases,
            lent.program if lent else guest_program(cache, 64),
            tree,
            cache,
            machine.places,
            notify,
            lent.root if lent else None if kind.remote else Path("/"),
        ),
        images=images,
    )
